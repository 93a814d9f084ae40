"""Chunked encoding of texts beyond a million characters, with exactly the result of the unsplit text.

    "... the cat | sat on ..."      split before the space between two words
         chunk 1   chunk 2          encoded in parallel, joined; offsets and word ids continue

A split must not change anything. Whether it does depends on the tokenizer (one that puts a marker before each
text would put it before each chunk), so each split is first checked on the characters around it: ids, offsets
and word ids of the two sides together must be those of the unsplit stretch. Where no such position is found, the
text is not split, which costs memory and time but no correctness.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import tokenizers

from glassformer.text.engine import EncodedRow

MAX_UNSPLIT_CHARS = 2**20
"""Texts of more characters than this are encoded in chunks."""

CHUNK_CHARS = 2**18
"""The least length of a chunk, in characters."""

CONTEXT_CHARS = 256
"""How many characters on each side of a split are encoded to check that it changes nothing."""

MAX_CANDIDATES = 8
"""How many split points are checked before the text is left unsplit there."""

_BETWEEN_WORDS = re.compile(r"(?<=\w) (?=\w)")


@dataclass(frozen=True, slots=True)
class ChunkedEncoding:
    """A text encoded in chunks: the engine's joined encoding, and what makes word ids continue through it.

    Fields:
        encoding: of the full text, without special tokens; word ids begin at 0 in each chunk.
        chunk_starts: where each chunk begins in the text, in characters.
        words_before: how many words come before each chunk.
    """

    encoding: tokenizers.Encoding
    chunk_starts: list[int]
    words_before: list[int]


def encode_in_chunks(bare: tokenizers.Tokenizer, text: str) -> ChunkedEncoding:
    """Encode one text in chunks, split where that changes nothing.

    Args:
        bare: an engine without truncation, padding and post-processor.
    """
    starts, chunks = _chunks(bare, text)
    encodings = bare.encode_batch(chunks)
    words_before = [0]
    for encoding in encodings[:-1]:
        words = [word for word in encoding.word_ids if word is not None]
        words_before.append(words_before[-1] + (max(words) + 1 if words else 0))
    return ChunkedEncoding(tokenizers.Encoding.merge(encodings, growing_offsets=True), starts, words_before)


def ids_in_chunks(bare: tokenizers.Tokenizer, text: str) -> list[int]:
    """The ids of one text without special tokens, in chunks; faster, since offsets and words are not computed."""
    _, chunks = _chunks(bare, text)
    return [number for encoding in bare.encode_batch_fast(chunks) for number in encoding.ids]


def _chunks(bare: tokenizers.Tokenizer, text: str) -> tuple[list[int], list[str]]:
    starts = [0, *_split_points(bare, text)]
    return starts, [text[start:end] for start, end in pairwise([*starts, len(text)])]


def _split_points(bare: tokenizers.Tokenizer, text: str) -> Iterator[int]:
    start = 0
    while len(text) - start > 2 * CHUNK_CHARS:
        target = start + CHUNK_CHARS
        candidates = _BETWEEN_WORDS.finditer(text, target, target + CHUNK_CHARS // 2)
        split = next(
            (
                match.start()
                for match in islice(candidates, MAX_CANDIDATES)
                if _is_exact_split(bare, text, match.start())
            ),
            None,
        )
        if split is not None:
            yield split
        start = target if split is None else split


def _is_exact_split(bare: tokenizers.Tokenizer, text: str, split: int) -> bool:
    """Whether the two sides give the tokens, offsets and word ids of the unsplit text."""
    left, right = text[max(0, split - CONTEXT_CHARS) : split], text[split : split + CONTEXT_CHARS]
    unsplit, a, b = bare.encode_batch([left + right, left, right])
    if not a.ids or not b.ids or a.offsets[-1][1] != len(left):
        return False
    words = max((word for word in a.word_ids if word is not None), default=-1) + 1
    return (
        unsplit.ids == a.ids + b.ids
        and unsplit.offsets == a.offsets + [(start + len(left), end + len(left)) for start, end in b.offsets]
        and unsplit.word_ids == a.word_ids + [None if word is None else word + words for word in b.word_ids]
    )


@dataclass(frozen=True, slots=True)
class ChunkedRow:
    """An encoded row of joined chunks, whose word ids continue from chunk to chunk.

    Fields:
        row: the engine's encoding.
        texts: the text, or the two texts of the pair, the row was made from.
        is_window: whether the row is one of the windows after the first.
    """

    row: EncodedRow
    texts: tuple[ChunkedEncoding, ...]
    is_window: bool

    def __len__(self) -> int:
        return len(self.row)

    @property
    def ids(self) -> list[int]:
        return self.row.ids

    @property
    def type_ids(self) -> list[int]:
        """Token types 0 and 1; the post-processor sets them in first rows only, so windows are set here."""
        if not self.is_window:
            return self.row.type_ids
        columns = zip(self.row.type_ids, self.row.sequence_ids, strict=True)
        return [1 if sequence == 1 else token_type for token_type, sequence in columns]

    @property
    def attention_mask(self) -> list[int]:
        return self.row.attention_mask

    @property
    def special_tokens_mask(self) -> list[int]:
        return self.row.special_tokens_mask

    @property
    def tokens(self) -> list[str]:
        return self.row.tokens

    @property
    def offsets(self) -> list[tuple[int, int]]:
        return self.row.offsets

    @property
    def sequence_ids(self) -> list[int | None]:
        return self.row.sequence_ids

    def pad(self, length: int, **kwargs: Any) -> None:
        self.row.pad(length, **kwargs)

    @property
    def word_ids(self) -> list[int | None]:
        """Word indices in the full text."""
        columns = zip(self.row.word_ids, self.row.offsets, self.row.sequence_ids, strict=True)
        return [
            None if word is None or sequence is None else word + _words_before(self.texts[sequence], start)
            for word, (start, _), sequence in columns
        ]


def _words_before(text: ChunkedEncoding, start: int) -> int:
    return text.words_before[bisect_right(text.chunk_starts, start) - 1]
