"""Options of tokenizers: how one is trained, and what tokenizers are checked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from glassformer.data.options import Encoding, TextColumn
from glassformer.files.schema import Doc, Schema, at_least

LARGEST = 2**31 - 1
"""Token ids and counts have 32 bits."""

Kind = Literal["byte-bpe", "wordpiece", "unigram", "words", "characters"]
KIND = Doc("Algorithm: byte-bpe (the default), wordpiece, unigram, words or characters.")
Size = Annotated[int, at_least(1, LARGEST)]


@dataclass(frozen=True, kw_only=True)
class TokenizerTraining(Schema):
    """What tokenizer is trained: see `train_tokenizer`."""

    size: Annotated[
        Size, Doc("Vocabulary size, including special tokens; of words and characters the largest one.")
    ] = 8_000
    kind: Annotated[Kind | None, KIND] = "byte-bpe"
    family: Annotated[str | None, Doc("Model family whose special tokens to use: bert, gpt2, roberta, bart, t5, …")] = (
        None
    )
    lower: Annotated[bool, Doc("Lowercase the texts; accents stay.")] = False
    strip_accents: Annotated[bool, Doc("Strip accents: é as e, as BERT's uncased models do.")] = False
    min_frequency: Annotated[
        Size | None, Doc("Leave out words or characters that are rarer, and merges of rarer pairs.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions(TokenizerTraining):
    """What tokenizer is trained on corpus files, and where it goes."""

    output: Annotated[Path, Doc("Output folder of the tokenizer.")]
    kind: Annotated[Kind | None, KIND] = None  # which a tokenizer that it is like has already
    special: Annotated[Sequence[str], Doc("Additional special token, never split; repeatable.")] = ()
    like: Annotated[Path | None, Doc("Model whose tokenizer is retrained: same algorithm and special tokens.")] = None
    columns: TextColumn = field(default_factory=dict)
    encoding: Encoding = None


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Schema):
    """What tokenizers are checked for on corpus files."""

    against: Annotated[Sequence[str], Doc("Another tokenizer to compare it with; repeatable.")] = ()
    words: Annotated[
        Sequence[str],
        Doc("Words that should be one token each: `python` (its keywords), or a file with one a line; repeatable."),
    ] = ()
    stem: Annotated[str | None, Doc("Also count stems, in this language: english, german, … (Snowball).")] = None
    columns: TextColumn = field(default_factory=dict)
    encoding: Encoding = None
