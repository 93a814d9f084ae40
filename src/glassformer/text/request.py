"""What one call asks of a tokenizer (padding, truncation, window stride), checked before any work is done."""

from __future__ import annotations

from dataclasses import dataclass

import tokenizers

from glassformer.errors import ConfigError
from glassformer.text.engine import sharing_copy

PADDING = (False, True, "longest", "max_length")
TRUNCATION = (False, True, "longest_first", "only_first", "only_second")
TENSORS = (None, "np", "pt")
SIDES = ("left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call's wishes, complete and consistent.

    Fields:
        padding: "longest", "max_length" or None.
        truncation: "longest_first", "only_first", "only_second" or None.
        max_length: in tokens, special ones included; set whenever padding or truncation needs it.
        stride: how many tokens of text neighbouring overflow windows share.
    """

    add_special_tokens: bool
    special_tokens_as_text: bool
    padding: str | None
    padding_side: str
    truncation: str | None
    truncation_side: str
    max_length: int | None
    stride: int
    overflow: bool
    tensors: str | None

    def engine_for(self, engine: tokenizers.Tokenizer, *, bare: bool = False) -> tokenizers.Tokenizer:
        """The engine with this call's switches: the shared one where none is on, else a cheap copy.

        `bare` leaves truncation and post-processing out, for pieces of a text that are joined first.
        """
        if not bare and self.truncation is None and not self.special_tokens_as_text:
            return engine
        copy = sharing_copy(engine)
        copy.encode_special_tokens = self.special_tokens_as_text
        if bare:
            copy.post_processor = None
        elif self.truncation is not None and self.max_length is not None:
            copy.enable_truncation(
                self.max_length, stride=self.stride, strategy=self.truncation, direction=self.truncation_side
            )
        return copy


def check_request(
    *,
    add_special_tokens: bool,
    special_tokens_as_text: bool,
    padding: bool | str,
    padding_side: str,
    truncation: bool | str,
    truncation_side: str,
    max_length: int | None,
    model_max_length: int | None,
    stride: int,
    overflow: bool,
    tensors: str | None,
    pairs: bool,
    special_count: int,
) -> Request:
    """Turn the arguments of a call into a Request.

    Args:
        pairs: whether the call brings pairs of texts.
        special_count: how many special tokens the tokenizer adds to one text or pair of this call.

    Raises: ConfigError: an unknown value, or values that do not fit each other.
    """
    _one_of("padding", padding, PADDING)
    _one_of("truncation", truncation, TRUNCATION)
    _one_of("return_tensors", tensors, TENSORS)
    _one_of("padding_side", padding_side, SIDES)
    padding_kind = "longest" if padding is True else (padding or None)
    truncation_kind = "longest_first" if truncation is True else (truncation or None)

    _whole("stride", stride, 0)
    if max_length is not None:
        _whole("max_length", max_length, 1)
        if truncation_kind is None and padding_kind != "max_length":
            raise ConfigError(
                f"max_length={max_length} does nothing by itself; add truncation=True or padding='max_length'"
            )
    elif truncation_kind is not None or padding_kind == "max_length":
        max_length = model_max_length
        if max_length is None:
            raise ConfigError("this tokenizer names no model_max_length; give max_length, in tokens")
    if truncation_kind == "only_second" and not pairs:
        raise ConfigError("truncation='only_second' needs pairs; use 'only_first' or True for single texts")
    if truncation_kind is not None and max_length is not None:
        room = max_length - special_count
        if room < 0:
            raise ConfigError(
                f"max_length={max_length} leaves no room for the {special_count} special tokens; "
                f"give at least {special_count + 1}, or add_special_tokens=False"
            )
        if stride and stride >= room:
            raise ConfigError(
                f"stride={stride} must be less than the {room} text tokens of a window "
                f"(max_length={max_length} less {special_count} special tokens)"
            )
    if overflow and truncation_kind is None:
        raise ConfigError(
            "return_overflowing_tokens=True needs truncation; add truncation=True or a strategy"
        )
    return Request(
        add_special_tokens=add_special_tokens,
        special_tokens_as_text=special_tokens_as_text,
        padding=padding_kind,
        padding_side=padding_side,
        truncation=truncation_kind,
        truncation_side=truncation_side,
        max_length=max_length,
        stride=stride,
        overflow=overflow,
        tensors=tensors,
    )


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ConfigError(f"{name}={value!r:.60} is not known; allowed: {', '.join(map(repr, allowed))}")


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number from {least}, got {value!r:.60}")
