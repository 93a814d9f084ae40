"""What pairs of texts, and texts that come as words, are made of when many are encoded at once.

    pair     [CLS] a a a [SEP] b b [SEP]              segments   0 0 0 0 0 1 1 1
    words    [CLS] time fl ##ies [SEP]                words     -1 0 1 1 -1

Rows are put together here from bare ids, since the engine makes bare ids fastest, and its own way of cutting keeps
every piece it cuts off, of two long texts in every combination.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from glassformer.errors import ConfigError

T = TypeVar("T")


class PairRow(NamedTuple):
    """A pair of texts: its ids, and the segment of each token."""

    ids: list[int]
    segments: list[int]


class WordRow(NamedTuple):
    """A text of words: its ids, the number of the word that each token is of, -1 for none; and whether it was cut."""

    ids: list[int]
    words: list[int]
    cut: bool


def room_for_text(max_tokens: int | None, special: int) -> int | None:
    """How many tokens of text a row has room for, beside its special ones; None = any number.

    Raises: ConfigError: not even these have room.
    """
    if max_tokens is None:
        return None
    if max_tokens < special:
        raise ConfigError(f"max_tokens={max_tokens} leaves no room for the {special} special tokens")
    return max_tokens - special


def cut_to(items: list[T], room: int | None, side: str) -> list[T]:
    """At most `room` of them; `side` is where the others are cut off."""
    if room is None or len(items) <= room:
        return items
    return items[:room] if side == "right" else items[len(items) - room :]


def shares_of(room: int | None, first: int, second: int) -> tuple[int, int]:
    """How many tokens of each of two texts are kept: the longer is cut first, and from then on both by turns."""
    if room is None or first + second <= room:
        return first, second
    less = min(first, second, room // 2)
    return (less, room - less) if first <= second else (room - less, less)


def framed_pair(pair: Sequence[list[int]], frame: list[list[int]], segments: list[list[int]]) -> PairRow:
    """Two texts with the special tokens before, between and after them; see `around_pair`."""
    first, second = pair
    before, between, after = frame
    kinds = (segments[0], segments[1] * len(first), segments[2], segments[3] * len(second), segments[4])
    return PairRow([*before, *first, *between, *second, *after], [kind for part in kinds for kind in part])


def framed_words(
    ids: list[int], words: list[int], around: tuple[list[int], list[int]], room: int | None, side: str
) -> WordRow:
    """A text of words, cut to its room, with the special tokens around it, which are of no word."""
    before, after = around
    kept = cut_to(ids, room, side)
    owners = [*(-1 for _ in before), *cut_to(words, room, side), *(-1 for _ in after)]
    return WordRow([*before, *kept, *after], owners, len(kept) < len(ids))


def word_of_each_token(words: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The first word that each token shares a character with, where words stand in a text with a space between them.

    Args: offsets: where each token begins and ends, in characters of the text.
    Returns: numbers of words; -1 for a token of no character, or of a space alone.
    """
    return owner_of_each_token(spans_of(words), offsets)


def spans_of(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where words begin and end that stand in a text with a space between them, in characters."""
    ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
    return [(end - len(word), end) for word, end in zip(words, ends, strict=True)]


def owner_of_each_token(spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The first span that each token shares a character with, by number; -1 for none.

    Args: spans: in order, none within another · offsets: where each token begins and ends, in characters of the text.
    """
    ends = [end for _, end in spans]
    found = []
    for start, end in offsets:
        owner = bisect_right(ends, start)  # the first that ends beyond the token's start
        begins = spans[owner][0] if owner < len(spans) else end
        found.append(owner if begins < end else -1)
    return found
