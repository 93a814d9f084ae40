"""Validate a tokenizer's inputs (texts, ids), and locate the text that the engine rejects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glassformer.errors import DataError
from glassformer.text.engine import guarded


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


def as_pairs(
    texts: str | Iterable[str], pairs: str | Iterable[str] | None
) -> tuple[list[str], list[str] | None]:
    """The first and the second texts of pairs; the second are None for single texts.

    Raises: DataError: something that is not text, or not one second text for each first.
    """
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
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**32:
            hint = "; decode one row at a time" if isinstance(number, list) else ""
            raise DataError(f"ids must be integers from 0, got {number!r:.60}{hint}")
    return numbers
