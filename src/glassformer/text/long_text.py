"""Texts beyond a million characters, encoded in pieces with the same result.

    "... the cat | sat on ..."      cut before the space between two words
         piece 1   piece 2          encoded in parallel, joined, offsets and word ids counted on

A cut must not change anything. Whether it does depends on the tokenizer (one that puts a mark before each
text would put it before each piece), so each cut is tried on the characters around it first: ids, offsets
and words of the two sides together must be those of the undivided stretch. Where no such place is found, the
text stays whole there, which costs memory and time but no correctness.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tokenizers

from glassformer.text.encoding import Row

LONG_TEXT = 2**20
"""Texts of more characters than this are encoded in pieces."""

PIECE = 2**18
"""The least length of a piece, in characters."""

PROOF = 256
"""How many characters on each side of a cut are encoded to prove that it changes nothing."""

TRIES = 8

_BETWEEN_WORDS = re.compile(r"(?<=\w) (?=\w)")


@dataclass(frozen=True, slots=True)
class Joined:
    """A text encoded in pieces: the engine's joined encoding, and how to count words through it.

    Fields:
        encoding: of the whole text, without special tokens; word ids begin at 0 in each piece.
        starts: where each piece begins in the text, in characters.
        words_before: how many words come before each piece.
    """

    encoding: tokenizers.Encoding
    starts: list[int]
    words_before: list[int]


def encode_in_pieces(bare: tokenizers.Tokenizer, text: str) -> Joined:
    """Encode one text, cut where that is proven harmless.

    Args:
        bare: an engine without truncation, padding and post-processor.
    """
    starts, pieces = _pieces(bare, text)
    encodings = bare.encode_batch(pieces)
    words_before = [0]
    for encoding in encodings[:-1]:
        words = [word for word in encoding.word_ids if word is not None]
        words_before.append(words_before[-1] + (max(words) + 1 if words else 0))
    return Joined(tokenizers.Encoding.merge(encodings, growing_offsets=True), starts, words_before)


def ids_in_pieces(bare: tokenizers.Tokenizer, text: str) -> list[int]:
    """The ids of one text without special tokens, cut likewise; faster, for places and words are not kept."""
    _, pieces = _pieces(bare, text)
    return [number for encoding in bare.encode_batch_fast(pieces) for number in encoding.ids]


def _pieces(bare: tokenizers.Tokenizer, text: str) -> tuple[list[int], list[str]]:
    starts = [0, *_cuts(bare, text)]
    return starts, [text[start:end] for start, end in pairwise([*starts, len(text)])]


def _cuts(bare: tokenizers.Tokenizer, text: str) -> Iterator[int]:
    start = 0
    while len(text) - start > 2 * PIECE:
        target = start + PIECE
        places = _BETWEEN_WORDS.finditer(text, target, target + PIECE // 2)
        cut = next(
            (
                m.start()
                for m, _ in zip(places, range(TRIES), strict=False)
                if _harmless(bare, text, m.start())
            ),
            None,
        )
        if cut is not None:
            yield cut
        start = target if cut is None else cut


def _harmless(bare: tokenizers.Tokenizer, text: str, cut: int) -> bool:
    first = max(0, cut - PROOF)
    left, right = text[first:cut], text[cut : cut + PROOF]
    whole, a, b = bare.encode_batch([left + right, left, right])
    if not a.ids or not b.ids or a.offsets[-1][1] != len(left):
        return False
    words = max((word for word in a.word_ids if word is not None), default=-1) + 1
    return (
        whole.ids == a.ids + b.ids
        and whole.offsets == a.offsets + [(start + len(left), end + len(left)) for start, end in b.offsets]
        and whole.word_ids == a.word_ids + [None if word is None else word + words for word in b.word_ids]
    )


@dataclass(frozen=True, slots=True)
class CountedOn:
    """A row made from joined pieces, whose word ids are counted on from piece to piece.

    Fields:
        row: the engine's encoding.
        texts: the text, or the two texts of the pair, the row was made from.
        window: whether the row is one of the windows after the first.
    """

    row: Row
    texts: tuple[Joined, ...]
    window: bool

    def __len__(self) -> int:
        return len(self.row)

    @property
    def ids(self) -> list[int]:
        return self.row.ids

    @property
    def type_ids(self) -> list[int]:
        """0 and 1; the post-processor sets them in first rows alone, in windows they stay as encoded."""
        if not self.window:
            return self.row.type_ids
        columns = zip(self.row.type_ids, self.row.sequence_ids, strict=True)
        return [1 if sequence == 1 else kind for kind, sequence in columns]

    @property
    def attention_mask(self) -> list[int]:
        return self.row.attention_mask

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
        """Word indices in the whole text."""
        columns = zip(self.row.word_ids, self.row.offsets, self.row.sequence_ids, strict=True)
        return [
            None if word is None or sequence is None else word + self._before(self.texts[sequence], start)
            for word, (start, _), sequence in columns
        ]

    @staticmethod
    def _before(text: Joined, start: int) -> int:
        return text.words_before[bisect_right(text.starts, start) - 1]
