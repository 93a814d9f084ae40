"""The boundary to the Rust `tokenizers` engine: checked inputs, its exceptions as ours, cheap thread-safe copies.

An engine is a `tokenizers.Tokenizer`. It is never changed after loading: whatever a call needs switched on
(truncation, special tokens read as text) happens on a copy that shares the vocabulary with the original, so
that calls from several threads cannot disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, ParamSpec, Protocol, TypeVar

import tokenizers
from tokenizers import Regex, models, processors

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


def framed_copy(engine: tokenizers.Tokenizer, before: list[str], after: list[str]) -> tokenizers.Tokenizer:
    """A cheap copy that puts these special tokens before and after a text, and a pair of texts."""
    copy = sharing_copy(engine)
    copy.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", "$B", *after],
        special_tokens=[(token, copy.token_to_id(token)) for token in dict.fromkeys((*before, *after))],
    )
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
        [column[start:end] for start, end in pairwise(boundaries)] for column in (encoding.ids, encoding.type_ids)
    )
    return ids[::2], types


def check_ids(vocabulary: dict[str, int], source: str) -> None:
    """Refuse a vocabulary whose largest id is far beyond its size.

    Raises: DataError: the vocabulary is empty or an id is negative or above `MAX_ID_PER_TOKEN` times its size.
    """
    if not vocabulary:
        raise DataError(f"{source} has an empty vocabulary")
    for token, number in vocabulary.items():
        # `type`, since True is an int as well; without a call, as a vocabulary has up to a quarter of a million.
        if type(number) is not int or number < 0:
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
            raise DataError(f"{source}: {owner[number]!r} and {token!r} both have the id {number}; check the file")


class EncodedRow(Protocol):
    """One encoded text, pair or window; the engine's own encodings are rows."""

    @property
    def ids(self) -> list[int]: ...
    @property
    def type_ids(self) -> list[int]: ...
    @property
    def attention_mask(self) -> list[int]: ...
    @property
    def special_tokens_mask(self) -> list[int]: ...
    @property
    def tokens(self) -> list[str]: ...
    @property
    def offsets(self) -> list[tuple[int, int]]: ...
    @property
    def word_ids(self) -> list[int | None]: ...
    @property
    def sequence_ids(self) -> list[int | None]: ...
    def __len__(self) -> int: ...
    def pad(self, length: int, **kwargs: Any) -> None: ...


def call_engine(texts: list[str], doing: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the engine; if it rejects a text, say which text and at which character.

    The texts are checked only after a failure, which keeps the check off the usual path.
    """
    try:
        return guarded(doing, function, *args, **kwargs)
    except DataError:
        for index, text in enumerate(texts):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                where = f"text {index}" if len(texts) > 1 else "the text"
                raise DataError(
                    f"{where} holds {text[error.start]!r} at character {error.start}, half of a surrogate pair, "
                    "which is no valid Unicode; repair it with text.encode('utf-16', 'surrogatepass')"
                    ".decode('utf-16', 'replace')"
                ) from None
        raise


def as_texts(texts: str | Iterable[str]) -> list[str]:
    """A list of texts. Raises: DataError: something else."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, (bytes, bytearray, Mapping)):
        raise DataError(f"texts must be a string or strings, got {type(texts).__name__}")
    try:
        strings = list(texts)
    except TypeError as error:
        raise DataError(f"texts must be a string or strings, got {type(texts).__name__}") from error
    for index, text in enumerate(strings):
        if not isinstance(text, str):
            raise DataError(f"text {index} must be a string, got {type(text).__name__}: {text!r:.60}")
    return strings


def word_pairs(texts: Any, pairs: Any) -> tuple[list[list[str]], list[list[str]] | None]:
    """The words of texts and of their second texts. Raises: DataError: something else, or another number of them."""
    first, second = as_words(texts), None if pairs is None else as_words(pairs)
    if second is not None and len(first) != len(second):
        raise DataError(f"each text needs one pair: got {len(first)} texts and {len(second)} pairs")
    return first, second


def as_words(texts: Any) -> list[list[str]]:
    """The words of each text. Raises: DataError: something else than lists of strings."""
    if isinstance(texts, str):
        raise DataError("with is_split_into_words=True a text is a list of words; got a string: give text.split()")
    return [as_texts(words) for words in _as_list(texts)]


def _as_list(values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError as error:
        raise DataError(f"texts must be lists of words, got {type(values).__name__}") from error


def as_pairs(texts: str | Iterable[str], pairs: str | Iterable[str] | None) -> tuple[list[str], list[str] | None]:
    """The first and the second texts of pairs; the second are None for single texts.

    Raises: DataError: something that is not text, or not one second text for each first.
    """
    if pairs is None and (together := _given_together(texts)):
        return [first for first, _ in together], [second for _, second in together]
    first = as_texts(texts)
    if pairs is None:
        return first, None
    second = as_texts(pairs)
    if isinstance(texts, str) != isinstance(pairs, str) or len(second) != len(first):
        raise DataError(
            f"each text needs one pair: got {'one string' if isinstance(texts, str) else f'{len(first)} texts'} and "
            f"{'one string' if isinstance(pairs, str) else f'{len(second)} pairs'}"
        )
    return first, second


def _given_together(texts: Any) -> list[tuple[str, str]]:
    """The pairs of a list of pairs; []: it is none."""
    several = isinstance(texts, list) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in texts)
    if not several or not all(isinstance(text, str) for pair in texts for text in pair):
        return []
    return [(first, second) for first, second in texts]


def as_text(text: str) -> str:
    """One text. Raises: DataError: something else."""
    if not isinstance(text, str):
        raise DataError(f"the text must be a string, got {type(text).__name__}: {text!r:.60}")
    return text


def as_ids(ids: Any) -> list[int]:
    """A list of token ids, of a list, an array or a tensor. Raises: DataError: something else."""
    values = ids.tolist() if hasattr(ids, "tolist") else ids
    values = [values] if isinstance(values, int) else values
    try:
        numbers = list(values)
    except TypeError as error:
        raise DataError(f"ids must be integers, got {type(ids).__name__}") from error
    for number in numbers:
        # Written out: this runs for each generated token, and `is_int` takes three times as long.
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**32:
            hint = "; decode one row at a time" if isinstance(number, list) else ""
            raise DataError(f"ids must be integers from 0, got {number!r:.60}{hint}")
    return numbers


def clean_up(text: str) -> str:
    """The text without the spaces that splitting at punctuation has left: "do n't ." → "don't."."""
    for spaced, written in CLEAN_UP.items():
        text = text.replace(spaced, written)
    return text


CLEAN_UP = {
    **{f" {mark}": mark for mark in ".?!,"},
    " ' ": "'",
    **{f" {end}": end for end in ("n't", "'m", "'s", "'ve", "'re")},
}
"""What `clean_up_tokenization_spaces` of a tokenizer replaces, in this order."""
