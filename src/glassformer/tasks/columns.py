"""Read columns of rows: texts, words, token limits, warnings of truncation, and the store of examples."""

from __future__ import annotations

import hashlib
import json
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from glassformer.core.heads import Head
from glassformer.data.sequence import RowSequence
from glassformer.data.splits import sample
from glassformer.data.store import ExampleStore
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import check_count, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.progress import progress_bar
from glassformer.tasks.base import Task
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.types import Dataset, Example, Examples

ROWS_PER_CALL = 1_024
"""Rows that go to the tokenizer together."""

MOST_ROWS = 50_000
"""Baselines learn from this many rows at most: more change little, and take minutes."""

Parsed = TypeVar("Parsed")


def columns_of(usual: Mapping[str, str], named: Mapping[str, str] | None) -> dict[str, str]:
    """The column of each role: as named, else by its usual name.

    Raises: ConfigError: a role that there is not.
    """
    named = dict(named or {})
    for role in named:
        if role not in usual:
            raise ConfigError(
                f"there is no column for {role!r}{nearest(role, usual)}; there is one for: {', '.join(usual)}"
            )
    return {**usual, **named}


def check_columns(rows: Dataset, columns: Mapping[str, str]) -> None:
    """Raises: DataError: rows that lack the column of a role."""
    for role, column in columns.items():
        if column not in rows.columns:
            raise DataError(
                f"{rows.where(0)}: there is no column {safe_repr(column)}{nearest(column, rows.columns)}; there are: "
                f"{', '.join(map(safe_repr, rows.columns))}; say which one to read instead: columns={{{role!r}: NAME}}"
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


def listed(value: object) -> list[Any] | None:
    """A list, however a file gives it; None = it is none."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return list(value) if isinstance(value, (list, tuple)) else None


def parts_of(row: Mapping[str, Any], column: str) -> list[str]:
    """A text of a row, or several: its sentences, or what several people have written.

    Raises: DataError: it has none.
    """
    value = row.get(column)
    parts = [value] if isinstance(value, str) else listed(value)
    if not parts or not all(isinstance(part, str) for part in parts):
        raise DataError(f"{column!r} is {safe_repr(value)}; it must be a text, or a list of texts")
    return parts


def words_of(row: Mapping[str, Any], column: str) -> list[str]:
    """A list of words of a row.

    Raises: DataError: it has none.
    """
    words = listed(row.get(column))
    if words is None or not all(isinstance(word, str) for word in words):
        raise DataError(f"{column!r} is {safe_repr(row.get(column))}; it must be a list of words")
    return words


def rows_with(rows: RowSequence, needed: Mapping[str, str]) -> RowSequence:
    """The rows that have a value in each of these columns, as far as there are such columns.

        rows_with(rows, {"text": "text", "mood": "label"})

    Args:
        needed: column → what a row without a value there lacks
    Warns: of how many are left out, and what they lack.
    """
    lacking = Counter[str]()

    def is_whole(row: Mapping[str, Any]) -> bool:
        missing = [what for name, what in needed.items() if name in rows.columns and is_missing(row.get(name))]
        lacking.update(missing[:1])
        return not missing

    whole = rows.filter(is_whole)
    if lacking:
        each = ", ".join(f"{count:,} without a {what}" for what, count in lacking.items())
        warnings.warn(f"{rows.file(0)}: {lacking.total():,} of {len(rows):,} rows were left out: {each}", stacklevel=4)
    return whole


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing; of several labels, a list without one says that none applies."""
    return value is None or (isinstance(value, str) and not value.strip())


def parse_rows(
    rows: Dataset, parse: Callable[[Mapping[str, Any]], Parsed], numbers: Iterable[int] | None = None
) -> Iterator[Parsed]:
    """What `parse` makes of each row, or of the rows of these numbers; its errors say which row they are about."""
    chosen = enumerate(iter(rows)) if numbers is None else ((number, rows[number]) for number in numbers)
    for index, row in chosen:
        with placed(rows, index):
            parsed = parse(row)
        yield parsed


def row_chunks(
    rows: Dataset, parse: Callable[[Mapping[str, Any]], Any] = lambda row: row
) -> Iterator[tuple[range, list[Any]]]:
    """The rows, or what `parse` makes of each, this many at a time, and their numbers."""
    held: list[Any] = []
    for index, parsed in enumerate(parse_rows(rows, parse)):
        held.append(parsed)
        if len(held) == ROWS_PER_CALL or index + 1 == len(rows):
            yield range(index + 1 - len(held), index + 1), held
            held = []


def tokenised_texts(
    rows: Dataset, column: str, model: LoadedModel, limit: int | None, what: str = "texts"
) -> Iterator[tuple[int, str, np.ndarray]]:
    """The number, the text and the ids of each row, with a warning at the end that counts the texts that were cut.

    Args:
        limit: tokens of the longest one; None = any number
        what: what the texts are called in the warning
    Raises: DataError: a row without text, with its file and line.
    """
    cut = 0
    for numbers, texts in row_chunks(rows, lambda row: text_of(row, column)):
        ids, too_long = model.tokenizer.batch_ids(texts, limit)
        cut += too_long
        for index, text, own in zip(numbers, texts, ids, strict=True):
            yield index, text, np.array(own, dtype=np.int32)
    tell_cut(what, cut, len(rows), limit)


def training_sample(train: Dataset) -> tuple[list[int], str]:
    """The numbers of the rows that a baseline learns from, and what is to be said of them where they are not all."""
    count = len(train)
    if count <= MOST_ROWS:
        return list(range(count)), ""
    return sample(count, MOST_ROWS).tolist(), f"; learnt from {MOST_ROWS:,} of {count:,} training rows"


def head_of(model: LoadedModel, task: str) -> Head:
    """The head that learns; one of the caller's own learns anything.

    Raises: ConfigError: the model was loaded for another task.
    """
    head = model.network.head
    if head is None or not (model.own_head or model.task == task):
        raise ConfigError(f"the model was loaded for {model.task!r}; load it with task={task!r}")
    return head


def limit_of(model: LoadedModel, requested: int | None) -> int | None:
    """How many tokens an example may have: as asked, and never more than the model and its tokenizer know.

    Raises: ConfigError: no example has so few.
    """
    if requested is not None:
        check_count("max_tokens", requested)
    limits = (requested, model.tokenizer.model_max_length, model.network.max_tokens)
    return min((limit for limit in limits if limit is not None), default=None)


def reads_segments(model: LoadedModel) -> bool:
    """Does the model tell two texts apart by segments? Not with a single segment; those of tables are others."""
    kinds = model.network.token_types
    return "token_type_ids" in model.tokenizer.model_input_names and isinstance(kinds, int) and kinds > 1


def tell_cut(what: str, cut: int, of: int, limit: int | str | None) -> None:
    """Warn of what did not fit; nothing where all did."""
    if cut:
        warnings.warn(
            f"{cut:,} of {of:,} {what} were cut to {limit}{'' if isinstance(limit, str) else ' tokens'}", stacklevel=2
        )


def store_examples(
    examples: Iterable[Example], rows: Dataset, model: LoadedModel, cache: Path | None, **made: Any
) -> ExampleStore:
    """The examples of rows, in memory, or in the folder `cache`; then they are not made again.

    Args:
        made: how they are made of the rows, besides the tokenizer: another way has a place of its own
    """
    if cache is None:
        return ExampleStore.make(examples)
    reader = model.tokenizer if model.has_tokenizer else None  # a network of images or sounds may have none
    tokenized = [reader.engine.to_str(), reader.truncation_side, reader.model_input_names] if reader else []
    parts = json.dumps([rows.fingerprint, *tokenized, made], sort_keys=True)
    key = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
    return ExampleStore.make(examples, path=cache, key=key)


class _WatchedRows:
    """Rows that count those that are read, and, once all were, warn of texts without a character: their labels are
    trained from scratch.

    The last row is remembered: tasks of sounds ask for one several times, and a row may be made when it is asked for.
    """

    def __init__(self, rows: Dataset, columns: Sequence[str], advance: Callable[[int], None]) -> None:
        self._rows, self._inputs, self._advance = rows, columns, advance
        self._last: tuple[int, Mapping[str, Any]] = -1, {}
        self._read = bytearray(len(rows))  # 1 for each row that was read: some tasks read one twice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        if self._last[0] != index:
            self._count(index)
            self._last = index, self._rows[index]
        return self._last[1]

    def _count(self, index: int) -> None:
        if not self._read[index]:
            self._read[index] = 1
            self._advance(1)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        first, count = None, 0
        for index, row in enumerate(iter(self._rows)):
            if any(isinstance(text := row.get(column), str) and not text.strip() for column in self._inputs):
                first, count = (index if first is None else first), count + 1
            self._count(index)
            yield row
        if first is not None:
            warnings.warn(
                f"{count:,} of {len(self):,} rows have an empty text, the first {self._rows.where(first)}; leave them "
                "out, or give them one",
                stacklevel=2,
            )


class RowTask(Task):
    """A task whose examples are made of rows by itself; a subclass says how, in `make_examples`.

    CACHE_KEY, how: the key of the examples' cache: a name for how they are made ("" = the class's), and the options
        that decide it
    REQUIRES: what a row needs to make an example, for errors; "" = there may be none

    Args:
        columns: role → column, where a column has another name
    Raises: ConfigError: a role that there is not, or the model was loaded for another task.
    """

    CACHE_KEY: ClassVar[str] = ""
    REQUIRES: ClassVar[str] = ""
    how: dict[str, Any]

    def __init__(self, model: LoadedModel, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(model)
        self.columns = columns_of(self.COLUMNS, columns)
        self.head = self.trained_head()
        self.how = {}

    def trained_head(self) -> Head:
        """The head that learns: the model's. Raises: ConfigError: the model was loaded for another task."""
        return head_of(self.model, self.HEAD)

    @property
    def loss_head(self) -> Head | None:
        return self.head

    def columns_read(self) -> dict[str, str]:
        """The columns that rows must have, by their roles."""
        return dict(self.columns)

    def inputs(self) -> list[str]:
        """The columns that are read to predict others; without targets, a text is only more or less of a corpus."""
        return [name for role, name in self.columns.items() if role not in self.TARGETS] if self.TARGETS else []

    @abstractmethod
    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        """The examples that rows make. Raises: DataError: a row that makes none, with its file and line."""

    def files(self, rows: Dataset) -> Sequence[RowFiles]:
        """The files that rows name: other files under the same names make other examples."""
        return ()

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        check_columns(rows, self.columns_read())
        made = self.CACHE_KEY or type(self).__name__
        if cache is not None and (digests := [files.digest() for files in self.files(rows)]):
            self.how["files"] = digests
        with progress_bar("reading rows", len(rows), delay=2) as advance:
            examples = self._counted(self.make_examples(_WatchedRows(rows, self.inputs(), advance)))
            return store_examples(examples, rows, self.model, cache, made=made, columns=self.columns, **self.how)

    def _counted(self, examples: Iterator[Example]) -> Iterator[Example]:
        example = None
        for example in examples:
            yield example
        if self.REQUIRES and example is None:
            raise DataError(f"no row makes an example: {self.REQUIRES}")
