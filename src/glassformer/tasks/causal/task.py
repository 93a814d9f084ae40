"""Causal language modelling: every token from those before it.

    read   Fruit flies like a banana          the labels are the ids themselves; the head compares position t with
    say          flies like a banana ·        token t + 1, so the first token of a text is nobody's to say

Source: Radford et al. 2018, section 3.1; only answers counted: Ouyang et al. 2022, appendix C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.data.packing import pack, starts
from glassformer.errors import DataError
from glassformer.tasks.base import Examples, Objective, Rows
from glassformer.tasks.columns import (
    check_columns,
    chunks,
    columns_of,
    head_of,
    kept,
    placed,
    tell_cut,
    text_of,
)
from glassformer.tasks.metrics.meters import Perplexity
from glassformer.tasks.microbatch import HIDDEN, Example, Pass
from glassformer.tasks.windows import (
    apart,
    encoded,
    room_for,
    room_of,
    some,
    token_labels,
)
from glassformer.text.engine import around_one_text

if TYPE_CHECKING:
    from glassformer.model import Model


class Causal(Objective):
    """Texts, packed into blocks of one length, every token of them learnt.

    Args:
        block: in tokens; None = as many as the model takes.
        isolated: texts of one block do not see each other; False = they do, as GPT-2 was trained.
        rest: the last block, which is shorter: "keep" or "drop" it.
        columns: role → column, where a column has another name.
    """

    TASK = "text-generation"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text"}
    METRIC = "perplexity"

    def __init__(
        self,
        model: Model,
        *,
        block: int | None = None,
        isolated: bool = True,
        rest: str = "keep",
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model)
        self.head = head_of(model, self.TASK)
        self.columns = columns_of(self.COLUMNS, columns)
        self.block = room_of(model, block)
        self.isolated = isolated
        self.rest = rest

    def examples(self, rows: Rows, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        tokenizer = self.model.tokenizer
        documents = encoded(rows, self.columns["text"], lambda texts: tokenizer.batch_ids(texts, None)[0])
        blocks = pack(
            documents, self.block, end=tokenizer.eos_token_id, isolated=self.isolated, rest=self.rest
        )
        learnt = (block for block in blocks if (_said(block) != HIDDEN).any())
        needs = "a text of two tokens at least is needed, and with rest='drop' a whole block"
        how = {"block": self.block, "isolated": self.isolated, "rest": self.rest}
        return kept(some(learnt, needs), rows, self.model, cache, made="causal", columns=self.columns, **how)

    def passed(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> Pass:
        # A rectangle holds a stretch a row: there is nothing else in it that could keep them apart.
        stretches = examples if self.packs else [part for example in examples for part in _stretches(example)]
        return super().passed(stretches, indices)

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return token_labels([_said(example) for example in examples], flow)

    def meter(self) -> Perplexity:
        return Perplexity(self.head)


class Answers(Causal):
    """Prompts with their answers, of which the answers alone are learnt.

    Prompt and answer are cut into tokens as one text, so a space between them stays where it is put. What does not fit
    is taken from the beginning of the prompt.

    Args:
        between: what ends every prompt, such as a new line.
        max_tokens: of prompt and answer together; None = as many as the model takes.
        prompts: the prompts are learnt too · columns: role → column, where a column has another name.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"prompt": "prompt", "answer": "answer"}
    SAID = ("answer",)

    def __init__(
        self,
        model: Model,
        *,
        between: str = "",
        max_tokens: int | None = None,
        prompts: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, block=max_tokens, columns=columns)
        self.between = between
        self.prompts = prompts

    def examples(self, rows: Rows, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        how = {"between": self.between, "room": self.block, "prompts": self.prompts}
        return kept(
            self._answered(rows), rows, self.model, cache, made="answers", columns=self.columns, **how
        )

    def _answered(self, rows: Rows) -> Iterator[dict[str, np.ndarray]]:
        tokenizer = self.model.tokenizer
        before, after = around_one_text(tokenizer.engine)
        end = tokenizer.eos_token_id
        if end is not None and end not in after:
            after = [*after, end]
        room = room_for(self.block, len(before) + len(after))
        cut = 0
        for numbers, held in chunks(rows):
            pairs: list[tuple[str, str]] = []
            for index, row in zip(numbers, held, strict=True):
                with placed(rows, index):
                    prompt, answer = (text_of(row, column) for column in self.columns.values())
                    pairs.append((prompt + self.between, answer))
            encoding = tokenizer([prompt + answer for prompt, answer in pairs], add_special_tokens=False)
            for place, (prompt, answer) in enumerate(pairs):
                ids = encoding["input_ids"][place]
                # A token across the seam is of the answer.
                seam = sum(1 for _, end in encoding.offsets(place) if end <= len(prompt))
                if seam == len(ids):
                    raise DataError(
                        f"{rows.where(numbers[place])}: the answer {answer!r} has no token; it needs one to be learnt"
                    )
                said = ids[seam:][:room]
                read = ids[max(seam - (room - len(said)), 0) : seam]
                cut += len(read) + len(said) < len(ids)
                whole = np.array([*before, *read, *said, *after], dtype=np.int32)
                labels = whole.copy()
                if not self.prompts:
                    labels[: len(before) + len(read)] = HIDDEN
                yield {"input_ids": whole, "labels": labels}
        tell_cut("prompts with their answers", cut, len(rows), self.block)


def _said(example: Example) -> np.ndarray:
    """The labels of an example: its ids but for those that are hidden, and the first of each stretch."""
    labels = np.array(example.get("labels", example["input_ids"]))
    labels[starts(_lengths(example))] = HIDDEN
    return labels


def _stretches(example: Example) -> list[dict[str, Any]]:
    """The stretches of an example that see each other, each an example of its own."""
    lengths = _lengths(example)
    parts = {name: apart(example[name], lengths) for name in ("input_ids", "labels") if name in example}
    return [dict(zip(parts, columns, strict=True)) for columns in zip(*parts.values(), strict=True)]


def _lengths(example: Example) -> np.ndarray:
    return np.asarray(example.get("documents", [len(example["input_ids"])]))
