"""Rows of token ids for pairs of texts and pre-split words: truncation, special tokens, word alignment.

    pair     [CLS] a a a [SEP] b b [SEP]              token types   0 0 0 0 0 1 1 1
    words    [CLS] time fl ##ies [SEP]                words        -1 0 1 1 -1

Rows are assembled here from ids without special tokens, since the engine makes those fastest, and its own truncation
keeps every overflowing window, of two long texts in every combination.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import tokenizers

from glassformer.errors import ConfigError
from glassformer.text.engine import EncodedRow, as_texts, call_engine, guarded, pair_template, sharing_copy
from glassformer.text.long_text import MAX_UNSPLIT_CHARS, ids_in_chunks

T = TypeVar("T")

_FAILURE = "text cannot be tokenised"

TEXTS_PER_CALL = 4096
"""How many texts go to the engine at once, which bounds the memory of its results."""


class PairRow(NamedTuple):
    """A pair of texts: token ids, and the token type (first or second text) of each."""

    ids: list[int]
    token_types: list[int]


class WordRow(NamedTuple):
    """A text of pre-split words: token ids, the word index of each (-1: none), and whether it was truncated."""

    ids: list[int]
    words: list[int]
    truncated: bool


def encode_batch_ids(
    engine: tokenizers.Tokenizer,
    special: tuple[list[int], list[int]],
    texts: list[str],
    max_tokens: int | None,
    side: str,
) -> tuple[list[list[int]], int]:
    """Token ids of many texts, with the special tokens before and after each; and how many texts were truncated."""
    before, after = special
    limit = text_token_limit(max_tokens, len(before) + len(after))
    rows, truncated = [], 0
    for start in range(0, len(texts), TEXTS_PER_CALL):
        for ids in encode_ids(engine, texts[start : start + TEXTS_PER_CALL]):
            text_ids = truncate(ids, limit, side)
            truncated += len(text_ids) < len(ids)
            rows.append([*before, *text_ids, *after])
    return rows, truncated


def encode_batch_pairs(
    engine: tokenizers.Tokenizer, firsts: list[str], seconds: list[str], max_tokens: int | None, side: str
) -> tuple[list[PairRow], int]:
    """Token ids and token types of many pairs of texts, with special tokens; and how many pairs were truncated."""
    special, types = guarded("the tokenizer's post-processor does not take pairs", pair_template, engine)
    limit = text_token_limit(max_tokens, sum(map(len, special)))
    rows, truncated = [], 0
    for start in range(0, len(firsts), TEXTS_PER_CALL):
        batch = slice(start, start + TEXTS_PER_CALL)
        for pair in zip(encode_ids(engine, firsts[batch]), encode_ids(engine, seconds[batch]), strict=True):
            limits = pair_token_limits(limit, *map(len, pair))
            texts = [truncate(ids, text_limit, side) for ids, text_limit in zip(pair, limits, strict=True)]
            truncated += sum(map(len, texts)) < sum(map(len, pair))
            rows.append(assemble_pair(texts, special, types))
    return rows, truncated


def encode_batch_words(
    encode: Callable[[list[str]], Sequence[EncodedRow]],
    special: tuple[list[int], list[int]],
    texts: Sequence[Sequence[str]],
    max_tokens: int | None,
    side: str,
) -> list[WordRow]:
    """Token ids and word indices of many texts of pre-split words, with special tokens.

    Args:
        encode: gives the row of each text, without special tokens
    """
    limit = text_token_limit(max_tokens, sum(map(len, special)))
    rows = []
    for start in range(0, len(texts), TEXTS_PER_CALL):
        batch = texts[start : start + TEXTS_PER_CALL]
        encoded = encode([" ".join(as_texts(words)) for words in batch])
        for words, row in zip(batch, encoded, strict=True):
            indices = word_indices(words, row.offsets)
            rows.append(assemble_words(row.ids, indices, special, limit, side))
    return rows


def encode_ids(engine: tokenizers.Tokenizer, texts: list[str]) -> list[list[int]]:
    """Token ids without special tokens; long texts in chunks, all others in one parallel call."""
    if max(map(len, texts)) <= MAX_UNSPLIT_CHARS:
        encodings = call_engine(
            texts, "text cannot be tokenised", engine.encode_batch_fast, texts, add_special_tokens=False
        )
        return [encoding.ids for encoding in encodings]
    bare = sharing_copy(engine)
    bare.post_processor = None
    return [call_engine([text], _FAILURE, ids_in_chunks, bare, text) for text in texts]


def text_token_limit(max_tokens: int | None, special: int) -> int | None:
    """The number of tokens that `max_tokens` leaves for text besides the special ones; None = no limit.

    Raises: ConfigError: the special tokens alone are more.
    """
    if max_tokens is None:
        return None
    if max_tokens < special:
        raise ConfigError(f"max_tokens={max_tokens} leaves no room for the {special} special tokens")
    return max_tokens - special


def truncate(items: list[T], limit: int | None, side: str) -> list[T]:
    """At most `limit` items; `side` is where the others are cut off."""
    if limit is None or len(items) <= limit:
        return items
    return items[:limit] if side == "right" else items[len(items) - limit :]


def pair_token_limits(limit: int | None, first: int, second: int) -> tuple[int, int]:
    """How many tokens of each text of a pair remain: the longer is truncated first, then both by turns."""
    if limit is None or first + second <= limit:
        return first, second
    shorter = min(first, second, limit // 2)
    return (shorter, limit - shorter) if first <= second else (limit - shorter, shorter)


def assemble_pair(pair: Sequence[list[int]], special: list[list[int]], types: list[list[int]]) -> PairRow:
    """Two texts with the special tokens before, between and after them; see `pair_template`."""
    first, second = pair
    before, between, after = special
    runs = (types[0], types[1] * len(first), types[2], types[3] * len(second), types[4])
    return PairRow([*before, *first, *between, *second, *after], [number for run in runs for number in run])


def assemble_words(
    ids: list[int], words: list[int], special: tuple[list[int], list[int]], limit: int | None, side: str
) -> WordRow:
    """A text of words, truncated, with the special tokens around it, which belong to no word."""
    before, after = special
    text_ids = truncate(ids, limit, side)
    word_of_token = [*(-1 for _ in before), *truncate(words, limit, side), *(-1 for _ in after)]
    return WordRow([*before, *text_ids, *after], word_of_token, len(text_ids) < len(ids))


def word_indices(words: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The word index of each token, in a text of words joined by single spaces: the first that it overlaps.

    Args:
        offsets: start and end of each token, in characters of the text.
    Returns: word indices; -1 for a token of no character, or of a space alone.
    """
    return span_indices(word_spans(words), offsets)


def word_spans(words: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of each word in the text of these words joined by single spaces, in characters."""
    ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
    return [(end - len(word), end) for word, end in zip(words, ends, strict=True)]


def span_indices(spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The index of the first span that each token overlaps; -1 for none.

    Args:
        spans: in order, none within another
        offsets: start and end of each token, in characters of the text.
    """
    ends = [end for _, end in spans]
    indices = []
    for start, end in offsets:
        index = bisect_right(ends, start)  # the first span that ends beyond the token's start
        span_start = spans[index][0] if index < len(spans) else end
        indices.append(index if span_start < end else -1)
    return indices
