"""Encoding: the result of a tokenizer call, ready for `model(**encoding)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from glassformer.errors import ConfigError, DataError


class EncodedRow(Protocol):
    """One encoded text, pair or window; the engine's own encodings are rows."""

    @property
    def ids(self) -> list[int]: ...
    @property
    def type_ids(self) -> list[int]: ...
    @property
    def attention_mask(self) -> list[int]: ...
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


@dataclass(frozen=True, slots=True, eq=False)
class Encoding(Mapping[str, Any]):
    """Model inputs by name, and for each token its text, character offsets and word.

        encoding["input_ids"]       [B, T] ids                                  list, numpy or torch
        encoding["attention_mask"]  [B, T] 1 = token, 0 = padding
        encoding["token_type_ids"]  [B, T] 0 = first text, 1 = second text      where the model has token types
        encoding.tokens(i)          the tokens of row i, as written in the vocabulary
        encoding.offsets(i)         (start, end) of each token, in characters of its own text
        encoding.word_ids(i)        the index of the word each token belongs to; None = special or padding
        encoding.sequence_ids(i)    0 = first text, 1 = second text;               None = special or padding
        encoding.overflow_to_sample the input each row came from (several rows, windows, may come from one)

    A call with a single string and no tensors has flat lists under its keys; the methods then take row 0.
    """

    data: Mapping[str, Any]
    rows: Sequence[EncodedRow]
    overflow_to_sample: list[int]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __getattr__(self, name: str) -> Any:
        """`encoding.input_ids` for `encoding["input_ids"]`."""
        if name in ("input_ids", "attention_mask", "token_type_ids") and name in self.data:
            return self.data[name]
        raise AttributeError(f"an Encoding has no {name!r}; its keys are {', '.join(self.data)}")

    def tokens(self, row: int = 0) -> list[str]:
        """The tokens of one row, special ones and padding included."""
        return self._row(row).tokens

    def offsets(self, row: int = 0) -> list[tuple[int, int]]:
        """(start, end) of each token in characters of its text; (0, 0) for special tokens and padding."""
        return self._row(row).offsets

    def word_ids(self, row: int = 0) -> list[int | None]:
        """The index of the word (of the pre-tokenised text) that each token belongs to, from 0 in each text."""
        return self._row(row).word_ids

    def sequence_ids(self, row: int = 0) -> list[int | None]:
        """The text of the pair that each token comes from: 0 or 1; None = special or padding."""
        return self._row(row).sequence_ids

    def _row(self, row: int) -> EncodedRow:
        try:
            return self.rows[row]
        except (IndexError, TypeError) as error:
            raise DataError(f"there is no row {row!r}; this encoding has {len(self.rows)}") from error


def to_encoding(
    rows: Sequence[EncodedRow], samples: list[int], *, token_types: bool, tensors: str | None, flat: bool
) -> Encoding:
    """Collect rows into an `Encoding`, under the names of model inputs.

    Args:
        rows: one for each text, pair or window, padded already where padding is on.
        samples: the index of the input each row came from.
        token_types: whether to give token_type_ids.
        tensors: "np" or "pt" for int64 arrays [B, T], None for lists.
        flat: a single text without tensors: lists without the batch level.

    Raises: ConfigError: tensors of rows of unequal length.
    """
    columns: dict[str, list[list[int]]] = {"input_ids": [row.ids for row in rows]}
    if token_types:
        columns["token_type_ids"] = [row.type_ids for row in rows]
    columns["attention_mask"] = [row.attention_mask for row in rows]
    data: dict[str, Any]
    if tensors is not None:
        data = {name: _array(lists, tensors) for name, lists in columns.items()}
    elif flat:
        data = {name: lists[0] for name, lists in columns.items()}
    else:
        data = dict(columns)
    return Encoding(data, rows, samples)


def _array(lists: list[list[int]], tensors: str) -> Any:
    lengths = {len(row) for row in lists}
    if len(lengths) > 1:
        raise ConfigError(
            f"rows of {min(lengths)} to {max(lengths)} tokens do not make one tensor; "
            "add padding=True, or ask for no return_tensors"
        )
    import numpy

    array = numpy.array(lists, dtype=numpy.int64).reshape(len(lists), lengths.pop() if lengths else 0)
    if tensors == "np":
        return array
    import torch  # only here: the rest of this package works without it

    return torch.from_numpy(array)
