"""The boundary to the Rust `tokenizers` engine: its exceptions become ours, and cheap thread-safe copies.

An engine is a `tokenizers.Tokenizer`. It is never changed after loading: whatever a call needs switched on
(truncation, special tokens read as text) goes on a copy that shares the vocabulary with the original, so
that calls from several threads cannot disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import ParamSpec, TypeVar

import tokenizers
from tokenizers import Regex, models

from glassformer.errors import DataError, GlassformerError

P = ParamSpec("P")
R = TypeVar("R")

MAX_ID_PER_TOKEN = 4
"""Ids may have gaps, but an id beyond this many times the vocabulary size would make embedding tables explode."""

OUTER_WHITESPACE = Regex(r"\A[\s\x1c-\x1f]+|[\s\x1c-\x1f]+\z")
"""White space at the beginning and end of a text, for decoders that strip it."""


def guarded(
    doing: str,
    function: Callable[P, R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Call the engine; any exception of it becomes a DataError that begins with `doing`.

    The engine raises plain `Exception`, and on a violated expectation panics with `PanicException`, which
    derives from BaseException and would pass every ordinary handler.
    """
    try:
        return function(*args, **kwargs)
    except (GlassformerError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{doing}: {_first_line(error)}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise  # KeyboardInterrupt, SystemExit
        raise DataError(f"{doing}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    line = text.splitlines()[0][:300] if text else type(error).__name__
    return line if line.isprintable() else repr(line)[1:-1]  # it may quote the file


def sharing_copy(engine: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """A copy whose options can be changed; it shares the model and the other parts, so it costs microseconds.

    Truncation and padding are off on the copy.
    """
    copy = tokenizers.Tokenizer(engine.model)
    copy.normalizer = engine.normalizer
    copy.pre_tokenizer = engine.pre_tokenizer
    copy.post_processor = engine.post_processor
    copy.decoder = engine.decoder
    added = engine.get_added_tokens_decoder()
    copy.add_tokens([token for _, token in sorted(added.items())])  # at once: one by one takes time squared
    if copy.get_added_tokens_decoder() == added:
        return copy
    # Adding tokens again numbers them without gaps. If the ids had gaps, the engine is serialised instead.
    copy = tokenizers.Tokenizer.from_str(engine.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def prefix_and_suffix(engine: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The ids of the special tokens that the post-processor puts before and after a single text.

    Found by sending a text of one made-up token through the post-processor alone, so it holds for any
    vocabulary:  [CLS] x [SEP]  ->  ([101], [102])
    """
    probe = tokenizers.Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
    probe.post_processor = engine.post_processor
    encoding = probe.encode("x")
    special = encoding.special_tokens_mask
    middle = special.index(0)
    return encoding.ids[:middle], encoding.ids[middle + 1 :]


def pair_template(engine: tokenizers.Tokenizer) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of the special tokens before, between and after a pair of texts, and the token types of all parts.

        [CLS] x [SEP] y [SEP]  ->  ids ([101], [102], [102])   token types ([0], [0], [0], [1], [1])

    Returns: ids of the three runs of special tokens; token types of the five parts, one for each text.
    """
    probe = tokenizers.Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
    probe.post_processor = engine.post_processor
    encoding = probe.encode("x", "x")
    first, second = (encoding.sequence_ids.index(text) for text in (0, 1))
    boundaries = (0, first, first + 1, second, second + 1, len(encoding.ids))
    ids, types = (
        [column[start:end] for start, end in pairwise(boundaries)]
        for column in (encoding.ids, encoding.type_ids)
    )
    return ids[::2], types


def check_ids(vocabulary: dict[str, int], source: str) -> None:
    """Refuse a vocabulary whose largest id is far beyond its size.

    Raises: DataError: the vocabulary is empty or an id is negative or above `MAX_ID_PER_TOKEN` times its size.
    """
    if not vocabulary:
        raise DataError(f"{source} has an empty vocabulary")
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise DataError(f"{source}: token {token!r} has the id {number!r}; ids are integers from 0")
    token, largest = max(vocabulary.items(), key=lambda item: item[1])
    allowed = MAX_ID_PER_TOKEN * len(vocabulary)
    if largest > allowed:
        raise DataError(
            f"{source}: token {token!r} has the id {largest}, but the vocabulary has only "
            f"{len(vocabulary)} tokens; ids up to {allowed} are allowed"
        )


def check_unique_ids(vocabulary: dict[str, int], source: str) -> None:
    """Refuse a vocabulary in which two tokens have the same id.

    Raises: DataError: which two.
    """
    owner: dict[int, str] = {}
    for token, number in vocabulary.items():
        if owner.setdefault(number, token) != token:
            raise DataError(
                f"{source}: {owner[number]!r} and {token!r} both have the id {number}; check the file"
            )
