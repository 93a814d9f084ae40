"""In-context classification (few-shot prompting): a decoder reads labelled texts, and continues another with a label.

    Text: it crashes on start          labelled texts that fit, of each label in turn
    Label: bug

    Text: add a dark mode              the text to classify
    Label:                             mean log-probability of the tokens of  bug −2.1    feature −0.4   …

    calibrated    p(label | text) / p(label | a text that says nothing): what the prompt alone makes likely counts less

Nothing is trained, and only labels can be answered. How good it is depends on the decoder: small ones hardly do better
than chance.
Source: Brown et al. 2020, "Language Models are Few-Shot Learners", section 2.4 (probabilities divided by length);
calibration: Zhao et al. 2021, "Calibrate Before Use".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from glassformer.errors import DataError
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, Count, Doc, Schema
from glassformer.generation.continuations import continuation_scores
from glassformer.reports.table import Table
from glassformer.tasks.causal.task import Answers
from glassformer.text.engine import prefix_and_suffix

SAYS_NOTHING = ("N/A", "[MASK]", "")
"""Texts that say nothing of any label: those of Zhao et al. 2021, section 4."""
TEXT_SHARE = 0.25
"""Of the tokens that the decoder takes, what a text may have; labelled texts get the rest."""
Demonstration = Annotated[
    str,
    Allowed(
        "a text with one {text} and, at its end, one {label}",
        lambda x: x.count("{text}") == 1 and x.endswith("{label}") and x.count("{") == x.count("}") == 2,
    ),
]


@dataclass(frozen=True, kw_only=True)
class InContextOptions(Schema):
    """The prompt, and what is made of its probabilities."""

    template: Annotated[Demonstration, Doc("How a text and its label are written, with {text} and {label}.")] = (
        "Text: {text}\nLabel: {label}"
    )
    between: Annotated[str, Doc("What is between two of them.")] = "\n\n"
    shots: Annotated[Count, Doc("Labelled texts in the prompt, at most; fewer where they do not fit.")] = 16
    calibration: Annotated[
        Literal["none", "contextual"], Doc("contextual = divide by what a text that says nothing gets.")
    ] = "contextual"
    top_k: Annotated[Count, Doc("Of several labels: how many each text gets.")] = 1


class InContext(Method[InContextOptions]):
    """Labels by the probabilities of a decoder that has read labelled texts."""

    OPTIONS = InContextOptions
    NEEDS = ("labels", "decoder")

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        model = self.setting.loaded_for("decoder", "text-generation")
        self._task = Answers(model)
        self._start, _ = prefix_and_suffix(model.tokenizer.engine)
        before, _, after = self.options.template.partition("{text}")
        # Parts are cut into tokens by themselves, so that they have the same ones whatever is next to them.
        self._before, self._after = self._ids(before), self._ids(after.removesuffix("{label}").rstrip(" "))
        names = [self.setting.text_of(name) for name in labelled.kind.names]
        self._labels = [self._ids(f" {name}") for name in names]
        self.top_k = self.options.top_k
        self._demonstrations, self._shown = self._fitting(labelled)
        self._prior = np.ones(len(names))
        if self.options.calibration == "contextual":
            self._prior = self._probabilities(SAYS_NOTHING).mean(0)
        return None

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._task.model.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _fitting(self, labelled: LabelledTexts) -> tuple[list[int], list[int]]:
        """The tokens of labelled texts, of each label in turn, as many as fit; and how many of each label they are.

        Raises: DataError: hardly a text would fit.
        """
        room = self._task.block
        frame = len(self._start) + len(self._before) + len(self._after) + max(map(len, self._labels))
        if frame > room // 4:
            raise DataError(
                f"the prompt without a text and the longest label have {frame} tokens, and the decoder takes {room}; "
                f"give a shorter template than {safe_repr(self.options.template)}, or another decoder"
            )
        self._longest = min(int(TEXT_SHARE * room), self.setting.max_tokens)
        room -= frame + self._longest
        ids, shown, chosen = list[int](), [0] * len(self._labels), 0
        for i in balanced_order(labelled.holds, np.random.default_rng(self.setting.seed)):
            own = np.flatnonzero(labelled.holds[i])
            answer = ", ".join(self.setting.text_of(labelled.kind.names[j]) for j in own)
            text = self._ids(labelled.texts[i])[: min(self._longest, room // self.options.shots)]  # room for others
            written = [*self._before, *text, *self._after, *self._ids(f" {answer}{self.options.between}")]
            if len(ids) + len(written) <= room and chosen < self.options.shots:
                ids, chosen = [*ids, *written], chosen + 1
                for j in own:
                    shown[j] += 1
        return ids, shown

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        shares = self._probabilities(texts) / self._prior
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def _probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """The share of each label, by the mean log-probability of its tokens. [N, L]"""
        prompt, network = [*self._start, *self._demonstrations], self._task.model.network
        sums = continuation_scores(network, prompt, [self._prompted(text) for text in texts], self._labels)
        logs = sums.double().numpy() / [len(ids) for ids in self._labels]
        shares: np.ndarray = np.exp(logs - logs.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def _prompted(self, text: str) -> list[int]:
        """The tokens of a text in the template, up to its label."""
        return [*self._before, *self._ids(text)[: self._longest], *self._after]

    def tables(self) -> list[Table]:
        """How many texts of each label the prompt has, and what is likely without a text."""
        names = self.kind.names
        rows = [[name, str(n), f"{p:.3f}"] for name, n, p in zip(names, self._shown, self._prior, strict=True)]
        return [Table(["label", "texts in the prompt", "probability without a text"], rows, "In context", folded=True)]


def balanced_order(holds: np.ndarray, draw: np.random.Generator) -> list[int]:
    """All rows, in random order, of each label in turn; of several labels by the first.

    Args:
        holds: which labels each row has. [N, L]
    """
    groups = [draw.permutation(np.flatnonzero(holds.argmax(1) == j)).tolist() for j in range(holds.shape[1])]
    order = list[int]()
    while any(groups):
        order += [groups[j].pop() for j in draw.permutation(len(groups)) if groups[j]]
    return order
