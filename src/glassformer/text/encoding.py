"""Encoding: the result of a tokenizer call, model inputs by name, and how tokens, words and characters correspond."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.text.engine import EncodedRow


class CharSpan(NamedTuple):
    """Characters start ≤ i < end of a text."""

    start: int
    end: int


class TokenSpan(NamedTuple):
    """Tokens start ≤ i < end of a row."""

    start: int
    end: int


BEFORE_DATA = frozenset(("data", "rows", "overflow_to_sample", "__setstate__", "__deepcopy__", "__copy__"))
"""Names that are asked of a copy that is being made, which has no data yet."""


@dataclass(slots=True, eq=False, repr=False)
class Encoding(MutableMapping[str, Any]):
    """Model inputs by name, and for each token its text, character offsets and word.

        encoding["input_ids"]       [B, T] ids                                  list, numpy or torch
        encoding["attention_mask"]  [B, T] 1 = token, 0 = padding
        encoding["token_type_ids"]  [B, T] 0 = first text, 1 = second text      where the model has token types
        encoding.tokens(i)          the tokens of row i, as written in the vocabulary
        encoding.offsets(i)         (start, end) of each token, in characters of its own text
        encoding.word_ids(i)        the index of the word each token belongs to; None = special or padding
        encoding.sequence_ids(i)    0 = first text, 1 = second text;               None = special or padding
        encoding.overflow_to_sample the input each row came from (several rows, windows, may come from one)

    A call with a single string and no tensors has flat lists under its keys; the methods then take row 0. Values can be
    set, such as encoding["labels"]; `model(**encoding)` passes them all.
    """

    data: dict[str, Any]
    rows: Sequence[EncodedRow]
    overflow_to_sample: list[int]

    def __repr__(self) -> str:
        """Its values by name, as a dictionary."""
        return repr(self.data)

    def __getitem__(self, key: str | int) -> Any:
        """The values of a name; of a number, this row's tokens, ids, offsets, …"""
        return self._row(key) if isinstance(key, int) else self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __getattr__(self, name: str) -> Any:
        """`encoding.input_ids` for `encoding["input_ids"]`."""
        if name in BEFORE_DATA:
            raise AttributeError(name)
        if name in self.data:
            return self.data[name]
        raise AttributeError(f"an Encoding has no {name!r}; its keys are {', '.join(self.data)}")

    @property
    def is_fast(self) -> bool:
        """Whether it knows words and offsets, which every encoding here does."""
        return True

    @property
    def n_sequences(self) -> int:
        """How many texts each row holds: 1, or 2 of a pair."""
        return len({number for number in self.sequence_ids(0) if number is not None}) or 1

    def to(self, device: Any, *, non_blocking: bool = False) -> Encoding:
        """Move its tensors to a device, in place. Raises: ConfigError: it holds lists or arrays."""
        if not any(hasattr(value, "to") for value in self.data.values()):
            raise ConfigError("an Encoding of lists cannot be moved to a device; encode with return_tensors='pt'")
        for name, value in self.data.items():
            if hasattr(value, "to"):
                self.data[name] = value.to(device, non_blocking=non_blocking)
        return self

    def convert_to_tensors(self, tensor_type: str | None = None, prepend_batch_axis: bool = False) -> Encoding:
        """Lists as arrays, in place: "np" or "pt". Raises: ConfigError: rows of unequal length."""
        if tensor_type is not None:
            for name, values in self.data.items():
                if isinstance(values, list):
                    self.data[name] = to_array([values] if prepend_batch_axis else values, str(tensor_type))
        return self

    @property
    def encodings(self) -> Sequence[EncodedRow]:
        """The rows: tokens, ids, offsets of each."""
        return self.rows

    def tokens(self, batch_index: int = 0) -> list[str]:
        """The tokens of one row, special ones and padding included."""
        return self._row(batch_index).tokens

    def offsets(self, batch_index: int = 0) -> list[tuple[int, int]]:
        """(start, end) of each token in characters of its text; (0, 0) for special tokens and padding."""
        return self._row(batch_index).offsets

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """The index of the word (of the pre-tokenised text) that each token belongs to, from 0 in each text."""
        return self._row(batch_index).word_ids

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """The text of the pair that each token comes from: 0 or 1; None = special or padding."""
        return self._row(batch_index).sequence_ids

    # The methods below take (row, index), or the index alone, of row 0.

    def char_to_token(self, row: int, char: int | None = None, sequence_index: int = 0) -> int | None:
        """The index of the token that holds a character; None: none does, as for spaces."""
        row, char = (0, row) if char is None else (row, char)
        spans = zip(self.offsets(row), self.sequence_ids(row), strict=True)
        holds = (i for i, ((start, end), text) in enumerate(spans) if text == sequence_index and start <= char < end)
        return next(holds, None)

    def token_to_chars(self, row: int, token: int | None = None) -> CharSpan | None:
        """The characters of a token; None: it is a special one, or padding."""
        row, token = (0, row) if token is None else (row, token)
        special = _item(self.sequence_ids(row), token, "token") is None
        return None if special else CharSpan(*self.offsets(row)[token])

    def token_to_word(self, row: int, token: int | None = None) -> int | None:
        """The index of a token's word; None: it is a special one, or padding."""
        row, token = (0, row) if token is None else (row, token)
        word: int | None = _item(self.word_ids(row), token, "token")
        return word

    def token_to_sequence(self, row: int, token: int | None = None) -> int | None:
        """The text of a pair that a token comes from; None: it is a special one, or padding."""
        row, token = (0, row) if token is None else (row, token)
        sequence: int | None = _item(self.sequence_ids(row), token, "token")
        return sequence

    def word_to_tokens(self, row: int, word: int | None = None, sequence_index: int = 0) -> TokenSpan | None:
        """The tokens of a word; None: it has none."""
        row, word = (0, row) if word is None else (row, word)
        columns = enumerate(zip(self.word_ids(row), self.sequence_ids(row), strict=True))
        tokens = [i for i, place in columns if place == (word, sequence_index)]
        return TokenSpan(tokens[0], tokens[-1] + 1) if tokens else None

    def word_to_chars(self, row: int, word: int | None = None, sequence_index: int = 0) -> CharSpan | None:
        """The characters of a word; None: it has no token."""
        row, word = (0, row) if word is None else (row, word)
        tokens = self.word_to_tokens(row, word, sequence_index)
        offsets = self.offsets(row)
        return tokens and CharSpan(offsets[tokens.start][0], offsets[tokens.end - 1][1])

    def char_to_word(self, row: int, char: int | None = None, sequence_index: int = 0) -> int | None:
        """The index of the word that holds a character; None: none does."""
        row, char = (0, row) if char is None else (row, char)
        token = self.char_to_token(row, char, sequence_index)
        return None if token is None else self.word_ids(row)[token]

    def _row(self, row: int) -> EncodedRow:
        try:
            return self.rows[row]
        except (IndexError, TypeError) as error:
            raise DataError(f"there is no row {row!r}; this encoding has {len(self.rows)}") from error


def _item(values: Sequence[Any], index: int, what: str) -> Any:
    try:
        return values[index]
    except (IndexError, TypeError) as error:
        raise DataError(f"there is no {what} {index!r}; the row has {len(values)}") from error


COLUMNS = {
    "input_ids": "ids",
    "token_type_ids": "type_ids",
    "attention_mask": "attention_mask",
    "special_tokens_mask": "special_tokens_mask",
    "offset_mapping": "offsets",
}
"""Names of model inputs, and of what else a call may return → of a row."""


def to_encoding(
    rows: Sequence[EncodedRow],
    samples: list[int],
    *,
    columns: Sequence[str],
    overflow: bool = False,
    tensors: str | None,
    flat: bool,
) -> Encoding:
    """Collect rows into an `Encoding`, under the names of model inputs.

    Args:
        rows: one for each text, pair or window, padded already where padding is on.
        samples: the index of the input each row came from; with `overflow` also under "overflow_to_sample_mapping".
        columns: names of `COLUMNS`, and "length".
        tensors: "np" or "pt" for int64 arrays [B, T], None for lists.
        flat: a single text without tensors: lists without the batch level.

    Raises: ConfigError: tensors of rows of unequal length.
    """
    data: dict[str, Any] = {
        name: [len(row) for row in rows] if name == "length" else [getattr(row, COLUMNS[name]) for row in rows]
        for name in columns
    }
    if overflow:
        data["overflow_to_sample_mapping"] = list(samples)
    if tensors is not None:
        data = {name: to_array(values, tensors) for name, values in data.items()}
    elif flat:
        data = {name: values[0] for name, values in data.items()}
    return Encoding(data, rows, samples)


def to_array(values: list[Any], tensors: str, name: str = "input_ids") -> Any:
    """An array or tensor of rows of numbers: int64, or the single precision of floating-point ones.

    Raises: ConfigError: rows of unequal length, or something else than numbers under this name.
    """
    import numpy

    lengths = {len(row) for row in values if isinstance(row, list)}
    if len(lengths) > 1:
        raise ConfigError(
            f"rows of {min(lengths)} to {max(lengths)} tokens do not make one tensor; "
            "add padding=True, or ask for no return_tensors"
        )
    try:
        array = numpy.array(values)
    except ValueError:  # lists within rows, of unequal length
        array = numpy.array(None)
    if array.size and array.dtype.kind not in "biuf":
        raise ConfigError(
            f"{name!r} of the rows holds {safe_repr(values[0])}; a tensor is made of numbers: leave it out"
        )
    array = array.astype(numpy.float32 if array.dtype.kind == "f" and array.size else numpy.int64)
    if not array.size:
        array = array.reshape(len(values), 0)
    if tensors == "np":
        return array
    import torch  # only here: the rest of this package works without it

    return torch.from_numpy(array)
