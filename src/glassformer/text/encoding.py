"""A tokenizer call: validate its options, encode texts and pairs into rows (windows, padding), collect an `Encoding`.

options ──> EncodeRequest ──encode_rows──> rows, of a text or pair each, or several windows of it
                            ──pad_rows───> equally long
                            ──to_encoding> Encoding: model inputs by name; how tokens, words, characters correspond
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import tokenizers

from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, nearest, warn_caller
from glassformer.files import safe_repr
from glassformer.text.engine import EncodedRow, call_engine, sharing_copy
from glassformer.text.long_text import (
    MAX_UNSPLIT_CHARS,
    ChunkedEncoding,
    ChunkedRow,
    encode_in_chunks,
)
from glassformer.text.settings import TokenizerSettings

PADDING = (False, True, "longest", "max_length", "do_not_pad")
TRUNCATION = (None, False, True, "longest_first", "only_first", "only_second", "do_not_truncate")
TENSORS = (None, "np", "pt")
SIDES = ("left", "right")
MAX_PADDED_TOKENS = 2**24
"""Tokens of a padded row; no model reads as many."""


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each call, and a frozen one takes twice as long
class EncodeRequest:
    """The options of one call, as given; `resolve` validates them and makes them:

    padding: "longest", "max_length" or None
    truncation: "longest_first", "only_first", "only_second" or None
    max_length: in tokens, special ones included; set whenever padding or truncation needs it
    multiple: the length of padded rows is a multiple of it
    words: texts are lists of words
    columns: what the result has, by its keys
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
    multiple: int | None
    words: bool
    columns: tuple[str, ...]

    @classmethod
    def of_call(cls, options: Mapping[str, Any], settings: TokenizerSettings) -> EncodeRequest:
        """The request of the options of a call, by its names, completed with the tokenizer's settings."""
        types, side = options["return_token_type_ids"], options["padding_side"]
        wanted = {
            "input_ids": True,
            "token_type_ids": settings.token_types if types is None else types,
            "attention_mask": options["return_attention_mask"] is not False,
            "special_tokens_mask": options["return_special_tokens_mask"],
            "offset_mapping": options["return_offsets_mapping"],
            "length": options["return_length"],
        }
        return cls(
            add_special_tokens=options["add_special_tokens"],
            special_tokens_as_text=options["special_tokens_as_text"],
            padding=options["padding"],
            padding_side=settings.padding_side if side is None else side,
            truncation=options["truncation"],
            truncation_side=settings.truncation_side,
            max_length=options["max_length"],
            stride=options["stride"],
            overflow=options["return_overflowing_tokens"],
            tensors=options["return_tensors"],
            multiple=options["pad_to_multiple_of"],
            words=options["is_split_into_words"],
            columns=tuple(name for name, included in wanted.items() if included),
        )

    def resolve(self, model_max_length: int | None, *, pairs: bool, special_count: int) -> EncodeRequest:
        """Validate the options in place, and return the request.

        Args:
            pairs: whether the call has pairs of texts.
            special_count: how many special tokens the tokenizer adds to one text or pair of this call.

        Raises: ConfigError: an unknown value, or values that do not fit each other.
        """
        check_choice("padding", self.padding, PADDING)
        check_choice("truncation", self.truncation, TRUNCATION)
        check_choice("return_tensors", self.tensors, TENSORS)
        check_choice("padding_side", self.padding_side, SIDES)
        padding = {True: "longest", "do_not_pad": None}.get(self.padding, self.padding) or None
        truncation = {True: "longest_first", "do_not_truncate": None}.get(self.truncation, self.truncation) or None
        max_length = self.max_length
        check_int("stride", self.stride, 0)
        if self.multiple is not None:
            check_int("pad_to_multiple_of", self.multiple, 1)
        if max_length is not None:
            check_int("max_length", max_length, 1)
            if truncation is None and padding != "max_length":
                truncation = self._of_length_alone(padding)
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

    def _of_length_alone(self, padding: str | bool | None) -> str | None:
        """The truncation of a call that gives `max_length` and not what it is for: as in the reference library."""
        cuts = self.truncation is None and padding is None
        warn_caller(
            f"max_length={self.max_length} {'truncates' if cuts else 'has no effect'}: say what it is for, with "
            "truncation=True or padding='max_length'"
        )
        return "longest_first" if cuts else None

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


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> NoReturn:
    """Raises: UnknownOptionError: options that a call does not take, with the nearest of those that it takes."""
    name = next(iter(given))
    raise UnknownOptionError(f"a tokenizer takes no {safe_repr(name)}{nearest(name, [*known])}")


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


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raises: ConfigError: a value that is none of those allowed."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ConfigError(f"{name}={value!r:.60} is not known; allowed: {', '.join(map(repr, allowed))}")


def check_int(name: str, value: object, least: int) -> None:
    """Raises: ConfigError: no whole number, or below `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} is {safe_repr(value)}; it must be a whole number from {least} up")


Texts = list[str] | list[list[str]]
"""Texts, or the words of each."""

_FAILURE = "text cannot be tokenised"


def encode_rows(
    engine: tokenizers.Tokenizer, first: Texts, second: Texts | None, request: EncodeRequest
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
    engine: tokenizers.Tokenizer, first: Texts, second: Texts | None, request: EncodeRequest
) -> list[Sequence[EncodedRow]]:
    configured = request.engine_for(engine)
    texts: list[Any] = [*first, *(second or ())]
    if not request.words and max(map(len, texts), default=0) > MAX_UNSPLIT_CHARS:
        bare = request.engine_for(engine, bare=True)
        inputs: list[Any] = [(text,) for text in first] if second is None else list(zip(first, second, strict=True))
        return [call_engine(list(parts), _FAILURE, _encode_long, configured, bare, parts, request) for parts in inputs]
    batch = first if second is None else list(zip(first, second, strict=True))
    encodings = call_engine(
        [word for words in texts for word in words] if request.words else texts,
        _FAILURE,
        configured.encode_batch,
        batch,
        is_pretokenized=request.words,
        add_special_tokens=request.add_special_tokens,
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
    whole = request.max_length if request.padding == "max_length" else None
    length = padded_length(max(map(len, rows)) if whole is None else whole, request.multiple)
    for row in rows:
        row.pad(length, direction=request.padding_side, pad_id=pad_id, pad_token=pad_token)


def padded_length(tokens: int, multiple: int | None) -> int:
    """This many tokens, or the next multiple. Raises: ConfigError: more than memory holds, which ends a process."""
    length = -(-tokens // (multiple or 1)) * (multiple or 1)
    if length > MAX_PADDED_TOKENS:
        raise ConfigError(
            f"rows would be padded to {length:,} tokens, and may have {MAX_PADDED_TOKENS:,}; give a smaller max_length "
            "or pad_to_multiple_of"
        )
    return length


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


# ── its result ───────────────────────────────────────────────────────────────────────────────────────────────


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
