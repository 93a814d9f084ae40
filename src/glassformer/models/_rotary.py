"""Read rotary position embeddings from a config: base, part of each head, scaling.

rope_theta 10000.0                                                       older configs, with `rope_scaling` next to it
rope_parameters {"rope_theta": 500000.0, "rope_type": "llama3", …}       newer ones
rope_parameters {"full_attention": {"rope_theta": …}, …}                 newer ones, of several kinds of layers
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from types import MappingProxyType

from glassformer.core import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    RotarySpec,
    YarnScaling,
)
from glassformer.core.rotary import RotaryScaling
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import is_number, safe_repr
from glassformer.models._config import MAX_ROWS, ConfigReader

NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def rotary_spec(
    reader: ConfigReader,
    head_width: int,
    *,
    share: float | None = None,
    longest: int = 2048,
    theta: float = 10_000.0,
    original: int | None = None,
    aliases: Mapping[str, str] = NO_ALIASES,
    rope: ConfigReader | None = None,
    share_key: str = "partial_rotary_factor",
    theta_key: str = "rope_theta",
) -> RotarySpec:
    """Rotary positions of whole heads, or of a part of each.

    Args:
        share: default of `partial_rotary_factor`; None: the family rotates whole heads
        longest, theta: default length and base, where the config has none
        original: default of `original_max_position_embeddings` next to the section, which takes precedence over the one
            in it; None: the one in it, then `max_position_embeddings`
        aliases: the family's own names of kinds of scaling → kind
        rope: the section of one kind of layers, where the config has several: see `rotary_specs`
        share_key, theta_key: the family's own names of share and base next to the section
    Raises: ConfigError: a factor out of range, a part that is odd or wider than a head.
        UnsupportedError: another kind of scaling.
    """
    shared = rope is None
    # In newer configs `rope_theta` is in this section, in older ones next to it.
    rope = rope or reader.section("rope_parameters", "rope_scaling")
    width = head_width
    if share is None:
        for section in (reader, rope):
            section.fixed("partial_rotary_factor", 1.0)
    else:
        share = rope.number("partial_rotary_factor", default=reader.number(share_key, default=share))
        source, key = (rope, "partial_rotary_factor") if "partial_rotary_factor" in rope.config else (reader, share_key)
        width = _turned(share, head_width, f"{source.location}{key}")
    # The length in training, which limits nothing: no position table ends there.
    trained = reader.integer("max_position_embeddings", default=longest, maximum=MAX_ROWS)
    outer = original
    if shared and reader.get("original_max_position_embeddings", default=original) is not None:
        outer = reader.integer("original_max_position_embeddings", default=original, maximum=MAX_ROWS)
    theta = _positive(rope, "rope_theta", reader.number(theta_key, default=theta) if shared else theta)
    scaling = _scaling(rope, aliases, width, trained, outer)
    return RotarySpec(width=width, theta=theta, scaling=scaling)


def _turned(share: float, head_width: int, key: str) -> int:
    """How many numbers of a head a share of it is."""
    width = int(share * head_width)
    if not 2 <= width <= head_width or width % 2:
        raise ConfigError(
            f"{key} {share} turns {width} of the {head_width} numbers of a head; "
            f"it must be an even number of them, from 2 to {head_width}"
        )
    return width


def rotary_specs(
    reader: ConfigReader, head_width: int, thetas: Mapping[str, float], *, scaled: Container[str], longest: int
) -> dict[str, RotarySpec]:
    """Rotary positions of each kind of layers: by a section for each, or, in older configs, by one `rope_scaling`.

    Args:
        thetas: kind → base, where its section has none
        scaled: the kinds that `rope_scaling` scales
    Raises: as `rotary_spec`.
    """
    ropes = reader.section("rope_parameters")
    old = reader.section("rope_scaling") if reader.get("rope_parameters", default=None) is None else None
    return {
        kind: rotary_spec(
            reader,
            head_width,
            longest=longest,
            theta=theta,
            rope=ropes.section(kind) if old is None or kind not in scaled else old,
        )
        for kind, theta in thetas.items()
    }


def _scaling(
    rope: ConfigReader, aliases: Mapping[str, str], width: int, trained: int, outer: int | None
) -> RotaryScaling | None:
    """The scaling of frequencies for texts longer than those of training.

    Args:
        trained: `max_position_embeddings`
        outer: `original_max_position_embeddings` outside the section
    """
    kind = rope.text("rope_type", "type", default="default")
    match aliases.get(kind, kind):
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=_positive(rope, "factor"))
        case "dynamic":
            return DynamicScaling(factor=_positive(rope, "factor"), original_positions=trained)
        case "llama3":
            return _llama3(rope, trained, outer)
        case "yarn":
            return _yarn(rope, trained, outer)
        case "longrope":
            return _longrope(rope, width, trained, outer)
    raise UnsupportedError(
        f"{rope.location}rotary scaling {safe_repr(kind)} is not supported; "
        "supported: default, linear, dynamic, llama3, yarn, longrope"
    )


def _llama3(rope: ConfigReader, trained: int, outer: int | None) -> Llama3Scaling:
    low, high = (_positive(rope, f"{end}_freq_factor") for end in ("low", "high"))
    if low >= high:
        raise ConfigError(
            f"{rope.location}low_freq_factor is {low} and high_freq_factor {high}; the high one must be larger"
        )
    return Llama3Scaling(
        factor=_positive(rope, "factor"),
        low_frequency_factor=low,
        high_frequency_factor=high,
        original_positions=_original(rope, trained, outer),
    )


def _yarn(rope: ConfigReader, trained: int, outer: int | None) -> YarnScaling:
    original = _original(rope, trained, outer)
    factor = _factor(rope, trained, original)
    attention_factor = _nullable(rope, "attention_factor")
    mscale, mscale_all = _nullable(rope, "mscale"), _nullable(rope, "mscale_all_dim")
    if attention_factor is None and mscale and mscale_all and factor > 1:  # DeepSeek's
        grown = math.log(factor) / 10
        attention_factor = (mscale * grown + 1) / (mscale_all * grown + 1)
    fast, slow = _positive(rope, "beta_fast", 32.0), _positive(rope, "beta_slow", 1.0)
    if fast < slow:
        raise ConfigError(
            f"{rope.location}beta_fast is {fast} and beta_slow {slow}; the fast one must not be below the slow one"
        )
    return YarnScaling(
        factor=factor,
        original_positions=original,
        beta_fast=fast,
        beta_slow=slow,
        truncate=rope.flag("truncate", default=True),
        attention_factor=attention_factor,
    )


def _longrope(rope: ConfigReader, width: int, trained: int, outer: int | None) -> LongScaling:
    original = _original(rope, trained, outer, minimum=2)  # its logarithm divides
    return LongScaling(
        short_factors=_wave_factors(rope, "short_factor", width // 2),
        long_factors=_wave_factors(rope, "long_factor", width // 2),
        factor=_positive(rope, "factor", trained / original),
        original_positions=original,
        attention_factor=_nullable(rope, "attention_factor"),
    )


def _original(rope: ConfigReader, trained: int, outer: int | None, minimum: int = 1) -> int:
    """The trained length before it was extended: next to the section, in it, or `max_position_embeddings`."""
    inside = rope.integer(
        "original_max_position_embeddings", default=max(trained, minimum), minimum=minimum, maximum=MAX_ROWS
    )
    if outer is None or outer >= minimum:
        return inside if outer is None else outer
    raise ConfigError(
        f"config.json: original_max_position_embeddings is {outer}; it must be a whole number from {minimum} up"
    )


def _factor(rope: ConfigReader, trained: int, original: int) -> float:
    """`factor`; without it, that by which the trained length was extended, where the config says both lengths."""
    return _positive(rope, "factor", *([trained / original] if trained != original else []))


def _positive(rope: ConfigReader, key: str, *default: float) -> float:
    value = rope.number(key, **({"default": default[0]} if default else {}))
    if not 0 < value < 1e30:
        raise ConfigError(f"{rope.location}{key} is {value}; it must be a number above 0")
    return value


def _nullable(rope: ConfigReader, key: str) -> float | None:
    return None if rope.get(key, default=None) is None else rope.number(key)


def _wave_factors(rope: ConfigReader, key: str, count: int) -> tuple[float, ...]:
    """A list of numbers, one for each wave."""
    values = rope.get(key)
    if not isinstance(values, list) or len(values) != count or not all(map(_is_factor, values)):
        raise ConfigError(
            f"{rope.location}{key} is {safe_repr(values)}; it must be a list of {count} numbers above 0, one for each "
            "pair of rotated numbers of a head"
        )
    return tuple(map(float, values))


def _is_factor(value: object) -> bool:
    return is_number(value, 0, 1e30) and value > 0
