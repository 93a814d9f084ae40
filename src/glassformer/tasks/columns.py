"""Read columns of rows: texts, words, token limits, warnings of truncation, and the store of examples."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.heads import Head
from glassformer.data.store import ExampleStore
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr
from glassformer.tasks.base import Dataset
from glassformer.tasks.microbatch import Example

if TYPE_CHECKING:
    from glassformer.model import Model

ROWS_PER_CALL = 1_024
"""So many rows go to the tokenizer together."""


def columns_of(usual: Mapping[str, str], named: Mapping[str, str] | None) -> dict[str, str]:
    """The column of each role: as named, else by its usual name.

    Raises: ConfigError: a role that there is not.
    """
    for role in named or {}:
        if role not in usual:
            raise ConfigError(
                f"there is no column for {role!r}{nearest(role, usual)}; there is one for: {', '.join(usual)}"
            )
    return {**usual, **(named or {})}


def check_columns(rows: Dataset, columns: Sequence[str]) -> None:
    """Raises: DataError: rows that lack a column."""
    for column in columns:
        if column not in rows.columns:
            raise DataError(
                f"{rows.where(0)}: there is no column {safe_repr(column)}{nearest(column, rows.columns)}; there are: "
                f"{', '.join(map(safe_repr, rows.columns))}; say which one to read"
            )


@contextmanager
def placed(rows: Dataset, index: int) -> Iterator[None]:
    """Errors within say which row they are about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{rows.where(index)}: {error}") from error


def text_of(row: Mapping[str, Any], column: str) -> str:
    """A text of a row.

    Raises: DataError: it has none.
    """
    value = row.get(column)
    if not isinstance(value, str):
        raise DataError(f"{column!r} is {safe_repr(value)}; it must be a text")
    return value


def parts_of(row: Mapping[str, Any], column: str) -> list[str]:
    """A text of a row, or several: its sentences, or what several people have written.

    Raises: DataError: it has none.
    """
    value = row.get(column)
    parts = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(parts, str):
        return [parts]
    if not isinstance(parts, (list, tuple)) or not parts or not all(isinstance(part, str) for part in parts):
        raise DataError(f"{column!r} is {safe_repr(value)}; it must be a text, or a list of texts")
    return list(parts)


def words_of(row: Mapping[str, Any], column: str) -> list[str]:
    """A list of words of a row.

    Raises: DataError: it has none.
    """
    value = row.get(column)
    words = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise DataError(f"{column!r} is {safe_repr(value)}; it must be a list of words")
    return list(words)


def chunks(rows: Dataset) -> Iterator[tuple[range, list[Mapping[str, Any]]]]:
    """The rows, so many at a time, and their numbers."""
    held: list[Mapping[str, Any]] = []
    for index, row in enumerate(iter(rows)):
        held.append(row)
        if len(held) == ROWS_PER_CALL or index + 1 == len(rows):
            yield range(index + 1 - len(held), index + 1), held
            held = []


def head_of(model: Model, task: str) -> Head:
    """The head that learns; one of the caller's own learns anything.

    Raises: ConfigError: the model was loaded for another task.
    """
    head = model.network.head
    if head is None or not (model.own_head or model.task == task):
        raise ConfigError(f"the model was loaded for {model.task!r}; load it with task={task!r}")
    return head


def limit_of(model: Model, requested: int | None) -> int | None:
    """How many tokens an example may have: as asked, and never more than the model and its tokenizer know.

    Raises: ConfigError: no example has so few.
    """
    if requested is not None and requested < 1:
        raise ConfigError(f"max_tokens is {requested}; it must be a whole number from 1 up")
    limits = (requested, model.tokenizer.model_max_length, model.network.max_tokens)
    return min((limit for limit in limits if limit is not None), default=None)


def reads_segments(model: Model) -> bool:
    """Does the model tell two texts apart by segments? Not with a single segment; those of tables are others."""
    kinds = model.network.token_types
    return "token_type_ids" in model.tokenizer.model_input_names and isinstance(kinds, int) and kinds > 1


def tell_cut(what: str, cut: int, of: int, limit: int | None) -> None:
    """Warn of what did not fit; nothing where all did."""
    if cut:
        warnings.warn(f"{cut:,} of {of:,} {what} were cut to {limit} tokens", stacklevel=2)


def store_examples(
    examples: Iterable[Example], rows: Dataset, model: Model, cache: Path | None, **made: Any
) -> ExampleStore:
    """The examples of rows, in memory, or in the folder `cache`; then they are not made again.

    Args: made: how they are made of the rows, beside the tokenizer: another way has a place of its own
    """
    if cache is None:
        return ExampleStore.make(examples)
    reader = model._tokenizer  # a network of images or sounds may have none
    tokenized = [reader.engine.to_str(), reader.truncation_side, reader.model_input_names] if reader else []
    parts = json.dumps([rows.fingerprint, *tokenized, made], sort_keys=True)
    key = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
    return ExampleStore.make(examples, path=cache, key=key)
