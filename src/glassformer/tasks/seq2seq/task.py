"""Sequence-to-sequence training with teacher forcing: the decoder reads the true target so far.

    source   translate English to German: That is good.
    target              Das   ist   gut   .    </s>          what is to be said: the labels
    decoder reads  <s>  Das   ist   gut   .                  the same, shifted right, after the start token

Source: Sutskever et al. 2014, section 2; Vaswani et al. 2017, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import DataError
from glassformer.generation.generate import generation_defaults
from glassformer.loaded_model import LoadedModel
from glassformer.models._seq2seq import shift_right
from glassformer.tasks.columns import parts_of, tell_cut
from glassformer.tasks.microbatch import padded, padded_texts
from glassformer.tasks.types import Dataset, Example, MicroBatch
from glassformer.tasks.windows import (
    Frame,
    LanguageTask,
    encode_texts,
    ids_without_special_tokens,
    max_example_tokens,
)
from glassformer.text.engine import prefix_and_suffix
from glassformer.text.tokenizer import Tokenizer


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


class TwoSided(LanguageTask):
    """What all objectives of an encoder-decoder share: how its two sides begin and end, and how they are laid out.

    reader, writer: the source and the target tokenizer
    source, target: the frames of both
    start: what the decoder begins with
    padding: what fills up both sides
    how: what examples are made by

    Args:
        options: see `Sides`
    """

    HEAD = "translation"
    EVALUATION: ClassVar[type | None] = None

    @classmethod
    def options(cls) -> list[str]:
        return [*super().options(), *(name for name in Sides.__annotations__ if name != "columns")]

    @classmethod
    def head_config(cls, rows: Dataset, config: Mapping[str, Any], **known: Any) -> dict[str, Any]:
        """A decoder whose config names no token to start with starts with padding, as T5's does."""
        starts = [config.get(name) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id")]
        fitted = super().head_config(rows, config, **known)
        return {**fitted, "decoder_start_token_id": starts[2]} if starts[:2] == [None, None] else fitted

    def __init__(self, model: LoadedModel, **options: Unpack[Sides]) -> None:
        super().__init__(model, options.get("columns"))
        source_code, target_code = options.get("source_language"), options.get("target_language")
        self.reader = model.tokenizer if source_code is None else model.tokenizer.in_language(source_code)
        self.writer = target_tokenizer(model, target_code)
        self.max_source = max_example_tokens(model, options.get("max_source"))
        self.max_target = max_example_tokens(model, options.get("max_target"))
        settings = generation_defaults(model)
        self.padding = settings.pad_id
        self.source = Frame.within(*prefix_and_suffix(self.reader.engine), self.max_source)
        before, after = prefix_and_suffix(self.writer.engine)
        # Where a text ends with its language, as mBART's does, that is what the decoder begins with.
        self.start = settings.start_id if target_code is None else after[-1]
        stops = settings.stop_ids
        self.target = Frame.within(
            before[1:] if before[:1] == [self.start] else before,  # it begins with that already
            after if not stops or set(stops) & set(after) else [*after, stops[0]],
            self.max_target,
        )
        self.how = {
            "source": [asdict(self.source), self.reader.engine.to_str()],
            "target": [asdict(self.target), self.writer.engine.to_str()],
        }

    def example(self, source: Sequence[int] | np.ndarray, target: Sequence[int] | np.ndarray) -> dict[str, Any]:
        """The ids of two texts as an example, each cut to its limit; its length is that of both."""
        source_ids, target_ids = self.source.around(source), self.target.around(target)
        return {"input_ids": source_ids, "labels": target_ids, "length": len(source_ids) + len(target_ids)}

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        """Sources and targets in a rectangle each; targets are padded on the right, which the mask ignores."""
        batch, flow = padded_texts(examples, self.padding)
        labels = self.labels(examples, flow)
        batch = replace(batch, decoder_input_ids=shift_right(labels, self.start, self.padding))
        tokens = sum(len(e["input_ids"]) + len(e["labels"]) for e in examples)
        return MicroBatch(batch, flow, labels, tuple(indices), tokens)

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        return padded([e["labels"] for e in examples], IGNORE_INDEX)


class SequenceToSequence(TwoSided):
    """Sources with their targets: translations, summaries, or any task told in words.

    A source may be a list of sentences, which are joined by spaces, and a target a list of several that are as good, of
    which the first is learnt. What is longer than a limit is cut, and counted.

    Args:
        prefix: put before every source; T5 takes its task so: "summarize: "
        options: see `Sides`
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"source": "source", "target": "target"}
    TARGETS = ("target",)
    CACHE_KEY = "sequence"
    REQUIRES = ""

    def __init__(self, model: LoadedModel, *, prefix: str = "", **options: Unpack[Sides]) -> None:
        super().__init__(model, **options)
        self.prefix = prefix
        self.how["prefix"] = prefix

    def pairs(self, rows: Dataset) -> Iterator[tuple[list[int], list[int]]]:
        """The ids of sources and targets, uncut and without special tokens.

        Raises: DataError: one has no token.
        """

        def read(texts: list[str]) -> list[list[int]]:
            # A blank source stays blank, so that it is reported.
            return ids_without_special_tokens(
                self.reader, [self.prefix + text if text.strip() else "" for text in texts]
            )

        sources = encode_texts(rows, self.columns["source"], read, source_of)
        targets = encode_texts(
            rows,
            self.columns["target"],
            lambda texts: ids_without_special_tokens(self.writer, texts),
            target_of,
        )
        for index, pair in enumerate(zip(sources, targets, strict=True)):
            for role, ids in zip(("source", "target"), pair, strict=True):
                if not ids:
                    raise DataError(f"{rows.where(index)}: {self.columns[role]!r} has no token; it needs one")
            yield pair

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        cut = {"sources": 0, "targets": 0}
        for source, target in self.pairs(rows):
            cut["sources"] += len(source) > self.source.room
            cut["targets"] += len(target) > self.target.room
            yield self.example(source, target)
        tell_cut("sources", cut["sources"], len(rows), self.max_source)
        tell_cut("targets", cut["targets"], len(rows), self.max_target)


def source_of(row: Mapping[str, Any], column: str) -> str:
    """The source text of a row; sentences become one text. Raises: DataError: nothing is."""
    return " ".join(parts_of(row, column))


def target_of(row: Mapping[str, Any], column: str) -> str:
    """What is learnt of a row: the first of several texts. Raises: DataError: nothing is."""
    return parts_of(row, column)[0]


def target_tokenizer(model: LoadedModel, language: str | None) -> Tokenizer:
    """The tokenizer of what a model writes: in a language, or with the target's own pieces where it has them."""
    if language is not None:
        return model.tokenizer.in_language(language)
    own = model.folder and Tokenizer.find_target(model.folder, model_type=model.family.model_type)
    return own or model.tokenizer.target


@dataclass(frozen=True)
class TeacherForcingStep:
    """One step of a decoder in training.

    inputs: the tokens before it, the last of them new at this step
    target: the one that should come; None = none counts
    """

    inputs: tuple[str, ...]
    target: str | None


def teacher_forcing(
    labels: Sequence[int], tokenizer: Tokenizer, *, start: int, padding: int
) -> list[TeacherForcingStep]:
    """The table of the shifted labels (teacher forcing), to be looked at: a row a step.

        inputs                      target
        <pad>                       Das
        <pad> Das                   ist
        <pad> Das ist               </s>

    Args:
        labels: the target's ids, -100 where nothing counts
        start: the id that the decoder begins with
        padding: the id that it reads where nothing counts
    """
    shifted = shift_right(torch.tensor(list(labels))[None], start, padding)[0]
    tokens = tokenizer.convert_ids_to_tokens(shifted)
    return [
        TeacherForcingStep(
            tuple(tokens[: position + 1]),
            None if label == IGNORE_INDEX else tokenizer.convert_ids_to_tokens(int(label)),
        )
        for position, label in enumerate(labels)
    ]
