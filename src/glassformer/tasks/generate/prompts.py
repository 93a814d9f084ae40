"""Prompt templates: few-shot examples, TL;DR, and the task prefixes of T5.

shots = FewShot([("Thank you", "Danke"), ("Good morning", "Guten Morgen")])
shots("Good night")          Thank you => Danke
                             Good morning => Guten Morgen
                             Good night =>

tldr(article)                an article, and TL;DR:
T5["cola"]("The boys is here.")             cola sentence: The boys is here.
T5["cola"].read("unacceptable")             False
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr

# ------------------------------------------------------------------------------------------------- from examples


@dataclass(frozen=True)
class FewShot:
    """Examples of a task, and then the question: a decoder continues them. Called with a text, it gives the prompt.

    Args:
        examples: (question, answer), in the order in which they come.
        instruction: what is above them.
        arrow: between question and answer
        between: between two examples.
    Source: Brown et al. 2020, figure 2.1, from where the form of "thank you => merci" is.
    """

    examples: Sequence[tuple[str, str]]
    instruction: str = ""
    arrow: str = " => "
    between: str = "\n"

    def __post_init__(self) -> None:
        for number, example in enumerate(self.examples):
            if not (
                isinstance(example, (tuple, list))
                and len(example) == 2
                and all(isinstance(text, str) and text.strip() for text in example)
            ):
                raise DataError(
                    f"example {number} is {safe_repr(example)}; it must be a pair of texts: (question, answer)"
                )
        if not self.arrow or not self.between:
            raise ConfigError("arrow and between must not be empty, or the end of an answer cannot be recognised")

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        text: str,
        label: str,
        names: Mapping[Any, str] | Sequence[str] | None = None,
        shots: int | None = None,
        seed: int | None = None,
        **layout: str,
    ) -> FewShot:
        """Take examples from labelled rows, in the same number for each label.

        Args:
            rows: mappings
            text, label: the keys of the two columns.
            names: label → the word for it: {0: "negative"} or ["negative", "positive"]; None = the label itself.
            shots: this many examples of each label, its first ones, in turn; None = all rows as they are.
            seed: draw them and their order instead of taking the first.
            layout: `instruction`, `arrow`, `between`.
        Raises: DataError: a row lacks a column, or a label has too few rows. ConfigError: a label without a name.
        """
        by_label: dict[Any, list[tuple[str, str]]] = {}
        pairs = []
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping) or text not in row or label not in row:
                has = f"has {', '.join(map(str, row))}" if isinstance(row, Mapping) else f"is {safe_repr(row)}"
                raise DataError(f"row {number} {has}; it must have the columns {text!r} and {label!r}")
            pairs.append((str(row[text]), _name(row[label], names)))
            by_label.setdefault(row[label], []).append(pairs[-1])
        if shots is None:
            return cls(tuple(pairs), **layout)
        if few := [key for key, group in by_label.items() if len(group) < shots]:
            raise DataError(
                f"the label {few[0]!r} has {len(by_label[few[0]])} rows, and shots is {shots}; "
                "give more rows or fewer shots"
            )
        draw = random.Random(seed)
        groups = [group if seed is None else draw.sample(group, shots) for group in by_label.values()]
        chosen = [group[turn] for turn in range(shots) for group in groups]
        if seed is not None:
            draw.shuffle(chosen)
        return cls(tuple(chosen), **layout)

    def __call__(self, question: str) -> str:
        """The prompt; its end has no space, for the model writes that with its first word."""
        if not isinstance(question, str) or not question.strip():
            raise DataError(f"the question is {safe_repr(question)}; it must be a text that is not empty")
        shots = [f"{shot}{self.arrow}{answer}" for shot, answer in self.examples]
        above = [self.instruction] if self.instruction else []
        return self.between.join([*above, *shots, f"{question}{self.arrow}".rstrip(" ")])

    def read(self, written: str) -> str:
        """The answer in what a model wrote: up to where it begins an example of its own."""
        return written.split(self.between)[0].strip()


def _name(label: Any, names: Mapping[Any, str] | Sequence[str] | None) -> str:
    if names is None:
        return str(label)
    try:
        return names[label]
    except (KeyError, IndexError, TypeError):
        raise ConfigError(f"names has no name for the label {label!r}; it has {safe_repr(names)}") from None


def tldr(text: str) -> str:
    """A text with "TL;DR:" below it, after which a model that has read the web writes a summary.

    Source: Radford et al. 2019, section 3.6.
    """
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"the text is {safe_repr(text)}; it must be a text that is not empty")
    return f"{text.rstrip()}\nTL;DR:"


# ------------------------------------------------------------------------------------------- what T5 was trained on


@dataclass(frozen=True)
class TextTask:
    """A task as T5 was taught it, with the words before each text, and what its answers mean.

    fields: what is before each text, the name of the task first
    read: answer → value; a text stays one
    """

    fields: tuple[str, ...]
    read: Callable[[str], Any] = str.strip

    def __call__(self, *texts: str) -> str:
        """The prompt for these texts."""
        if len(texts) != len(self.fields) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"this task reads {len(self.fields)} texts, got {safe_repr(texts)}")
        return " ".join(f"{field} {text}" for field, text in zip(self.fields, texts, strict=True))


def read_similarity(answer: str) -> float:
    """STS-B: how similar two sentences are, "3.8", from 0 to 5 in steps of 0.2.

    Raises: DataError: the answer is no such number.
    """
    try:
        value = float(answer.strip())
    except ValueError:
        value = math.nan
    if not 0 <= value <= 5 or abs(value * 5 - round(value * 5)) > 1e-6:
        raise DataError(
            f"the answer is {safe_repr(answer)}; it must be a number from 0 to 5 in steps of 0.2, so this model was "
            "hardly trained for stsb"
        )
    return round(value * 5) / 5


def read_acceptable(answer: str) -> bool:
    """CoLA: is this a sentence of the language?

    Raises: DataError: the answer is neither "acceptable" nor "unacceptable".
    """
    # "not acceptable" is in the paper's figure 1.
    meanings = {"acceptable": True, "unacceptable": False, "not acceptable": False}
    if answer.strip() not in meanings:
        raise DataError(
            f"the answer is {safe_repr(answer)}; it must be 'acceptable' or 'unacceptable', so this model was hardly "
            "trained for cola"
        )
    return meanings[answer.strip()]


def translate(source: str, target: str) -> TextTask:
    """From one language to another, both by their English names: T5 knows English, German, French and Romanian."""
    return TextTask((f"translate {source} to {target}:",))


T5: dict[str, TextTask] = {
    "summarization": TextTask(("summarize:",)),
    "translation_en_to_de": translate("English", "German"),
    "translation_en_to_fr": translate("English", "French"),
    "translation_en_to_ro": translate("English", "Romanian"),
    "cola": TextTask(("cola sentence:",), read_acceptable),
    "stsb": TextTask(("stsb sentence1:", "sentence2:"), read_similarity),
}
"""Source: Raffel et al. 2020, appendix D."""
