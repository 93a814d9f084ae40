"""Options of n-gram models: what the words of a text are, how a model is trained, pruned and tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from glassformer.data.options import Encoding, TextColumn
from glassformer.errors import ConfigError
from glassformer.files.schema import Allowed, Count, Doc, Schema, at_least, one_of

ALPHAS, BETAS = (0.1, 0.3, 0.6, 1.0), (0.0, 0.5, 1.0)
"""A grid of 12 searches, around the weights that shallow fusion usually needs."""
Output = Annotated[Path, Doc("Output file: .arpa (text) or .ngram (compact).")]
Alpha = Annotated[float, at_least(0.0, 100.0)]
Beta = Annotated[float, at_least(-100.0, 100.0)]
Threshold = Annotated[float, Allowed("a number from 0 (nothing) to below 1, such as 1e-8", lambda x: 0 <= x < 1)]


@dataclass(frozen=True, kw_only=True)
class WordOptions(Schema):
    """What the words of texts in files are."""

    columns: TextColumn = field(default_factory=dict)
    encoding: Encoding = None
    lower: Annotated[bool, Doc("Lowercase the texts.")] = False
    for_speech: Annotated[
        bool, Doc("Words in lower case without punctuation, as speech recognition looks them up.")
    ] = False
    tokenizer: Annotated[
        str | Path | None,
        Doc("Model whose tokenizer splits the texts; for fusion with this model. Default: white space splits."),
    ] = None

    def validate(self) -> None:
        if self.for_speech and self.tokenizer is not None:
            raise ConfigError("for_speech makes words, and tokenizer tokens; give one of the two")


@dataclass(frozen=True, kw_only=True)
class NgramOptions(WordOptions):
    """What n-gram model is trained."""

    output: Output
    order: Annotated[Annotated[int, at_least(1, 20)], Doc("Words of the longest n-grams.")] = 3
    min_count: Annotated[Count, Doc("Words that are rarer become <unk>.")] = 1
    max_words: Annotated[Count | None, Doc("Vocabulary size: the most frequent words stay.")] = None
    memory: Annotated[
        Annotated[float, at_least(0.01, 1e6)],
        Doc("Memory for counting, in GiB; what does not fit is sorted on disk."),
    ] = 1.0


@dataclass(frozen=True, kw_only=True)
class PruneOptions(Schema):
    """How much of an n-gram model is pruned."""

    output: Output
    threshold: Annotated[Threshold, Doc("n-grams that raise the perplexity by a smaller share are left out.")] = 1e-7


@dataclass(frozen=True, kw_only=True)
class TuningOptions(Schema):
    """What is searched for the weights of a language model in speech recognition."""

    model: Annotated[str, Doc("Speech recognition model: folder, or name on the Hub.")]
    data: Annotated[Path, Doc("Table of validation recordings and their transcripts, or its folder.")]
    columns: Annotated[
        Mapping[Annotated[str, one_of("audio", "text", "segments", "start", "end")], str],
        Doc("Column mapping, role=column: audio=path, text=sentence."),
    ] = field(default_factory=dict)
    folder: Annotated[str | None, Doc("Folder of the recordings. Default: that of the table.")] = None
    language: Annotated[str | None, Doc("Language of the recordings, for a multilingual model.")] = None
    alpha: Annotated[Sequence[Alpha], Doc("Weight to try; repeatable. Default: 0.1, 0.3, 0.6, 1.")] = ALPHAS
    beta: Annotated[Sequence[Beta], Doc("Bonus for a word to try; repeatable. Default: 0, 0.5, 1.")] = BETAS
    beams: Annotated[Count, Doc("Beam width.")] = 5
    rescore: Annotated[bool, Doc("Rescore the texts of the beam search, in the place of shallow fusion.")] = False
