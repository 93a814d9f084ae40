"""Options of a tokenizer call (padding, truncation, stride of windows), validated before any work is done."""

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
class EncodeRequest:
    """The validated options of one call.

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
                self.max_length, stride=self.stride, strategy=self.truncation, direction=self.truncation_side
            )
        return copy


def encode_request(
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
) -> EncodeRequest:
    """Validate the arguments of a call.

    Args:
        pairs: whether the call has pairs of texts.
        special_count: how many special tokens the tokenizer adds to one text or pair of this call.

    Raises: ConfigError: an unknown value, or values that do not fit each other.
    """
    _check_choice("padding", padding, PADDING)
    _check_choice("truncation", truncation, TRUNCATION)
    _check_choice("return_tensors", tensors, TENSORS)
    _check_choice("padding_side", padding_side, SIDES)
    padding_strategy = "longest" if padding is True else (padding or None)
    truncation_strategy = "longest_first" if truncation is True else (truncation or None)

    _check_int("stride", stride, 0)
    if max_length is not None:
        _check_int("max_length", max_length, 1)
        if truncation_strategy is None and padding_strategy != "max_length":
            raise ConfigError(
                f"max_length={max_length} has no effect by itself; add truncation=True or padding='max_length'"
            )
    elif truncation_strategy is not None or padding_strategy == "max_length":
        max_length = model_max_length
        if max_length is None:
            raise ConfigError("this tokenizer has no model_max_length; give max_length, in tokens")
    if truncation_strategy == "only_second" and not pairs:
        raise ConfigError("truncation='only_second' needs pairs; use 'only_first' or True for single texts")
    if truncation_strategy is not None and max_length is not None:
        _check_window(max_length, stride, special_count)
    if overflow and truncation_strategy is None:
        raise ConfigError(
            "return_overflowing_tokens=True needs truncation; add truncation=True or a strategy"
        )
    return EncodeRequest(
        add_special_tokens=add_special_tokens,
        special_tokens_as_text=special_tokens_as_text,
        padding=padding_strategy,
        padding_side=padding_side,
        truncation=truncation_strategy,
        truncation_side=truncation_side,
        max_length=max_length,
        stride=stride,
        overflow=overflow,
        tensors=tensors,
    )


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
