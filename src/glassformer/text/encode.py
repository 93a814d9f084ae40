"""A tokenizer call: validate its options, encode texts and pairs into rows (windows, padding)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

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
