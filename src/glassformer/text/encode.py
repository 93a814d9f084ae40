"""A tokenizer call: validate its options, encode texts and pairs into rows (windows, padding), collect an Encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.text.engine import EncodedRow, call_engine, sharing_copy
from glassformer.text.long_text import (
    MAX_UNSPLIT_CHARS,
    ChunkedEncoding,
    ChunkedRow,
    encode_in_chunks,
)

PADDING = (False, True, "longest", "max_length")
TRUNCATION = (False, True, "longest_first", "only_first", "only_second")
TENSORS = (None, "np", "pt")
SIDES = ("left", "right")


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each call, and a frozen one takes twice as long
class EncodeRequest:
    """The options of one call, as given; `resolve` validates them and makes them:

    padding: "longest", "max_length" or None · truncation: "longest_first", "only_first", "only_second" or None
    max_length: in tokens, special ones included; set whenever padding or truncation needs it
    stride: how many tokens of text neighbouring overflow windows share
    """

    add_special_tokens: bool
    special_tokens_as_text: bool
    padding: bool | str | None
    padding_side: str
    truncation: bool | str | None
    truncation_side: str
    max_length: int | None
    stride: int
    overflow: bool
    tensors: str | None

    def resolve(self, model_max_length: int | None, *, pairs: bool, special_count: int) -> EncodeRequest:
        """Validate the options in place, and return the request.

        Args:
            pairs: whether the call has pairs of texts.
            special_count: how many special tokens the tokenizer adds to one text or pair of this call.

        Raises: ConfigError: an unknown value, or values that do not fit each other.
        """
        _check_choice("padding", self.padding, PADDING)
        _check_choice("truncation", self.truncation, TRUNCATION)
        _check_choice("return_tensors", self.tensors, TENSORS)
        _check_choice("padding_side", self.padding_side, SIDES)
        padding = "longest" if self.padding is True else (self.padding or None)
        truncation = "longest_first" if self.truncation is True else (self.truncation or None)
        max_length = self.max_length
        _check_int("stride", self.stride, 0)
        if max_length is not None:
            _check_int("max_length", max_length, 1)
            if truncation is None and padding != "max_length":
                raise ConfigError(
                    f"max_length={max_length} has no effect by itself; add truncation=True or padding='max_length'"
                )
        elif truncation is not None or padding == "max_length":
            max_length = model_max_length
            if max_length is None:
                raise ConfigError("this tokenizer has no model_max_length; give max_length, in tokens")
        if truncation == "only_second" and not pairs:
            raise ConfigError("truncation='only_second' needs pairs; use 'only_first' or True for single texts")
        if truncation is not None and max_length is not None:
            _check_window(max_length, self.stride, special_count)
        if self.overflow and truncation is None:
            raise ConfigError("return_overflowing_tokens=True needs truncation; add truncation=True or a strategy")
        self.padding, self.truncation, self.max_length = padding, truncation, max_length
        return self

    def engine_for(self, engine: tokenizers.Tokenizer, *, bare: bool = False) -> tokenizers.Tokenizer:
        """The engine with this call's options: the shared one where none is on, else a cheap copy.

        `bare` leaves truncation and post-processing out, for chunks of a text that are joined first.
        """
        if not bare and self.truncation is None and not self.special_tokens_as_text:
            return engine
        copy = sharing_copy(engine)
        copy.encode_special_tokens = self.special_tokens_as_text
        if bare:
            copy.post_processor = None
        elif self.truncation is not None and self.max_length is not None:
            copy.enable_truncation(
                self.max_length,
                stride=self.stride,
                strategy=str(self.truncation),
                direction=self.truncation_side,
            )
        return copy


def _check_window(max_length: int, stride: int, special_count: int) -> None:
    text_tokens = max_length - special_count
    if text_tokens < 0:
        raise ConfigError(
            f"max_length={max_length} leaves no room for the {special_count} special tokens; "
            f"give at least {special_count + 1}, or add_special_tokens=False"
        )
    if stride and stride >= text_tokens:
        raise ConfigError(
            f"stride={stride} must be less than the {text_tokens} text tokens of a window "
            f"(max_length={max_length} less {special_count} special tokens)"
        )


def _check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ConfigError(f"{name}={value!r:.60} is not known; allowed: {', '.join(map(repr, allowed))}")


def _check_int(name: str, value: object, minimum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ConfigError(f"{name} must be a whole number from {minimum}, got {value!r:.60}")


_FAILURE = "text cannot be tokenised"


def encode_rows(
    engine: tokenizers.Tokenizer, first: list[str], second: list[str] | None, request: EncodeRequest
) -> tuple[list[EncodedRow], list[int]]:
    """Encode texts, or pairs of texts, without padding.

    Returns: the rows, with windows several a text; and the index of the text that each row came from.
    Raises: DataError: text that is not valid Unicode, or a truncation that cannot bring a pair to its length.
    """
    try:
        rows_by_text = _rows_by_text(engine, first, second, request)
    except DataError as error:
        if request.truncation in ("only_first", "only_second") and second is not None and _is_too_short(error):
            raise DataError(
                f"truncation={request.truncation!r} cannot bring every pair to max_length={request.max_length}: "
                "the other text leaves too few tokens (for the stride); give more, or use truncation=True"
            ) from error
        raise
    samples = [index for index, rows in enumerate(rows_by_text) for _ in rows]
    return [row for rows in rows_by_text for row in rows], samples


def _rows_by_text(
    engine: tokenizers.Tokenizer, first: list[str], second: list[str] | None, request: EncodeRequest
) -> list[Sequence[EncodedRow]]:
    configured = request.engine_for(engine)
    texts = [*first, *(second or ())]
    if max(map(len, texts), default=0) > MAX_UNSPLIT_CHARS:
        bare = request.engine_for(engine, bare=True)
        inputs = [(text,) for text in first] if second is None else list(zip(first, second, strict=True))
        return [call_engine(list(parts), _FAILURE, _encode_long, configured, bare, parts, request) for parts in inputs]
    batch = first if second is None else list(zip(first, second, strict=True))
    encodings = call_engine(
        texts, _FAILURE, configured.encode_batch, batch, add_special_tokens=request.add_special_tokens
    )
    if request.overflow:
        return [[encoding, *encoding.overflowing] for encoding in encodings]
    return [[encoding] for encoding in encodings]


def _encode_long(
    engine: tokenizers.Tokenizer, bare: tokenizers.Tokenizer, texts: tuple[str, ...], request: EncodeRequest
) -> list[EncodedRow]:
    joined: tuple[ChunkedEncoding, ...] = tuple(encode_in_chunks(bare, text) for text in texts)
    pair = joined[1].encoding if len(joined) == 2 else None
    encoding = engine.post_process(joined[0].encoding, pair, request.add_special_tokens)
    rows = [encoding, *encoding.overflowing] if request.overflow else [encoding]
    return [ChunkedRow(row, joined, is_window=index > 0) for index, row in enumerate(rows)]


def _is_too_short(error: DataError) -> bool:
    """Whether the engine reports that the one text it may truncate is too short for that."""
    return "too short to respect" in str(error) or "`stride` must be" in str(error)


def pad_rows(rows: list[EncodedRow], request: EncodeRequest, pad_id: int, pad_token: str | None) -> None:
    """Pad the rows in place, to the longest of them or to `max_length`."""
    length = max(map(len, rows))
    if request.padding == "max_length" and request.max_length is not None:
        length = request.max_length
    for row in rows:
        row.pad(length, direction=request.padding_side, pad_id=pad_id, pad_token=pad_token)


def refuse_special_ids(engine: tokenizers.Tokenizer, rows: list[EncodedRow], special_ids: frozenset[int]) -> None:
    """Check that no text was encoded to a special token, where special tokens are to be read as text.

    It can be, where the vocabulary holds a special token as an ordinary one too.

    Raises: UnsupportedError: one was.
    """
    for row in rows:
        for number, sequence in zip(row.ids, row.sequence_ids, strict=True):
            if sequence is not None and number in special_ids:
                raise UnsupportedError(
                    f"this tokenizer cannot encode {engine.id_to_token(number)!r} as ordinary text, because its "
                    "vocabulary holds it as an ordinary token; remove it from the text"
                )


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
