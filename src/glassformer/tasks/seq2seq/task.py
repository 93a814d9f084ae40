"""Sequence to sequence, with teacher forcing: the decoder reads the true answer so far, whatever it would have said.

    source   translate English to German: That is good.
    target              Das   ist   gut   .    </s>          what is to be said: the labels
    decoder reads  <s>  Das   ist   gut   .                  the same, shifted right, after the start token

Source: Sutskever et al. 2014, section 2; Vaswani et al. 2017, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.errors import DataError
from glassformer.generation.settings import Settings
from glassformer.models._seq2seq import shifted_right
from glassformer.tasks.base import Examples, Objective, Rows
from glassformer.tasks.columns import (
    check_columns,
    columns_of,
    head_of,
    kept,
    parts_of,
    tell_cut,
)
from glassformer.tasks.metrics.meters import Perplexity
from glassformer.tasks.microbatch import HIDDEN, Example, Pass, padded, padded_texts
from glassformer.tasks.windows import Frame, bare_ids, encoded, room_of
from glassformer.text.engine import around_one_text
from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from glassformer.model import Model


class Sides(TypedDict, total=False):
    """The options that all objectives of an encoder-decoder have.

    max_source, max_target: in tokens; None = as many as the model takes
    source_language, target_language: their codes, for a model that marks them: "en_XX"
    columns: role → column, where a column has another name
    """

    max_source: int | None
    max_target: int | None
    source_language: str | None
    target_language: str | None
    columns: Mapping[str, str] | None


class TwoSided(Objective):
    """What all objectives of an encoder-decoder share: how its two sides begin and end, and how they are laid out.

    reader, writer: the tokenizers of what is read and said · source, target: the frames of both
    start: what the decoder begins with · padding: what fills up both sides · how: what examples are made by

    Args: options: see `Sides`
    """

    TASK = "translation"
    METRIC = "perplexity"

    @classmethod
    def options(cls) -> list[str]:
        return [*super().options(), *(name for name in Sides.__annotations__ if name != "columns")]

    def __init__(self, model: Model, **options: Unpack[Sides]) -> None:
        super().__init__(model)
        self.head = head_of(model, self.TASK)
        self.columns = columns_of(self.COLUMNS, options.get("columns"))
        spoken, written = options.get("source_language"), options.get("target_language")
        self.reader = model.tokenizer if spoken is None else model.tokenizer.in_language(spoken)
        self.writer = target_tokenizer(model, written)
        self.max_source = room_of(model, options.get("max_source"))
        self.max_target = room_of(model, options.get("max_target"))
        settings = Settings(model.generation_config, model.config, model.vocabulary)
        self.padding = settings.pad_id
        self.source = Frame.within(*around_one_text(self.reader.engine), self.max_source)
        before, after = around_one_text(self.writer.engine)
        # Where a text ends with its language, as mBART's does, that is what the decoder begins with.
        self.start = settings.start_id if written is None else after[-1]
        stops = settings.stop_ids
        self.target = Frame.within(
            before[1:] if before[:1] == [self.start] else before,  # it begins with that already
            after if not stops or set(stops) & set(after) else [*after, stops[0]],
            self.max_target,
        )
        self.how = {
            "columns": self.columns,
            "source": [asdict(self.source), self.reader.engine.to_str()],
            "target": [asdict(self.target), self.writer.engine.to_str()],
        }

    def example(
        self, source: Sequence[int] | np.ndarray, target: Sequence[int] | np.ndarray
    ) -> dict[str, Any]:
        """The ids of two texts as an example, each cut to its limit; its length is that of both."""
        read, said = self.source.around(source), self.target.around(target)
        return {"input_ids": read, "labels": said, "length": len(read) + len(said)}

    def passed(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> Pass:
        """Sources and targets in a rectangle each; what fills up a target is to its right, where nobody looks."""
        batch, flow = padded_texts(examples, self.padding)
        labels = self.labels(examples, flow)
        batch = replace(batch, decoder_input_ids=shifted_right(labels, self.start, self.padding))
        tokens = sum(len(e["input_ids"]) + len(e["labels"]) for e in examples)
        return Pass(batch, flow, labels, tuple(indices), tokens)

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return padded([e["labels"] for e in examples], HIDDEN)

    def meter(self) -> Perplexity:
        return Perplexity(self.head)


class SequenceToSequence(TwoSided):
    """Sources with their targets: translations, summaries, or any task told in words.

    A source may be a list of sentences, which are joined by spaces, and a target a list of several that are as good, of
    which the first is learnt. What is longer than a limit is cut, and counted.

    Args:
        prefix: what stands before every source, as T5 is told its task: "summarize: "
        options: see `Sides`
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"source": "source", "target": "target"}
    SAID = ("target",)

    def __init__(self, model: Model, *, prefix: str = "", **options: Unpack[Sides]) -> None:
        super().__init__(model, **options)
        self.prefix = prefix

    def examples(self, rows: Rows, *, cache: Path | None = None) -> Examples:
        check_columns(rows, list(self.columns.values()))
        how = {"prefix": self.prefix, **self.how}
        return kept(self._examples(rows), rows, self.model, cache, made="sequence", **how)

    def pairs(self, rows: Rows) -> Iterator[tuple[list[int], list[int]]]:
        """The ids of sources and targets, uncut and without special tokens.

        Raises: DataError: one has no token.
        """
        sources = encoded(rows, self.columns["source"], self._read, source_of)
        targets = encoded(rows, self.columns["target"], lambda texts: bare_ids(self.writer, texts), target_of)
        for index, pair in enumerate(zip(sources, targets, strict=True)):
            for role, ids in zip(("source", "target"), pair, strict=True):
                if not ids:
                    raise DataError(f"{rows.where(index)}: {self.columns[role]!r} has no token; it needs one")
            yield pair

    def _examples(self, rows: Rows) -> Iterator[dict[str, Any]]:
        cut = {"sources": 0, "targets": 0}
        for source, target in self.pairs(rows):
            cut["sources"] += len(source) > self.source.room
            cut["targets"] += len(target) > self.target.room
            yield self.example(source, target)
        tell_cut("sources", cut["sources"], len(rows), self.max_source)
        tell_cut("targets", cut["targets"], len(rows), self.max_target)

    def _read(self, texts: list[str]) -> Iterable[list[int]]:
        return bare_ids(self.reader, [self.prefix + text if text.strip() else "" for text in texts])


def source_of(row: Mapping[str, Any], column: str) -> str:
    """What is read of a row; sentences become one text. Raises: DataError: nothing is."""
    return " ".join(parts_of(row, column))


def target_of(row: Mapping[str, Any], column: str) -> str:
    """What is learnt of a row: the first of several texts. Raises: DataError: nothing is."""
    return parts_of(row, column)[0]


def target_tokenizer(model: Model, language: str | None) -> Tokenizer:
    """The tokenizer of what a model writes: in a language, or with the target's own pieces where it has them."""
    if language is not None:
        return model.tokenizer.in_language(language)
    own = model.folder and Tokenizer.find_target(model.folder, model_type=model.family.model_type)
    return own or model.tokenizer


@dataclass(frozen=True)
class Step:
    """One step of a decoder that is taught.

    read: the tokens before it, the last of them new at this step · say: the one that should come; None: none counts
    """

    read: tuple[str, ...]
    say: str | None


def teacher_forcing(labels: Sequence[int], tokenizer: Tokenizer, *, start: int, padding: int) -> list[Step]:
    """The table of the shifted labels, to be looked at: a row a step.

        read                        say
        <pad>                       Das
        <pad> Das                   ist
        <pad> Das ist               </s>

    Args:
        labels: what is to be said, -100 where nothing counts · start: what the decoder begins with
        padding: what it reads where nothing counts
    """
    said = torch.tensor(list(labels))[None]
    read = tokenizer.convert_ids_to_tokens(shifted_right(said, start, padding)[0])
    return [
        Step(
            tuple(read[: place + 1]), None if label == HIDDEN else tokenizer.convert_ids_to_tokens(int(label))
        )
        for place, label in enumerate(labels)
    ]
