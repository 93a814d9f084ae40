"""Read rotary position embeddings from a config: base, part of each head, scaling.

rope_theta 10000.0                                                       older configs, with `rope_scaling` beside it
rope_parameters {"rope_theta": 500000.0, "rope_type": "llama3", …}       newer ones
"""

from __future__ import annotations

from glassformer.core import LinearScaling, Llama3Scaling, RotarySpec
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models._config import MAX_ROWS, ConfigReader


def rotary_spec(
    reader: ConfigReader,
    head_width: int,
    *,
    share: float | None = None,
    longest: int = 2048,
    theta: float = 10_000.0,
) -> RotarySpec:
    """Rotary positions of whole heads, or of a part of each.

    Args:
        share: default of `partial_rotary_factor`; None: the family rotates whole heads
        longest, theta: default length and base, where the config has none
    Raises: ConfigError: a factor out of range, a part that is odd or wider than a head.
        UnsupportedError: another kind of scaling.
    """
    # In newer configs `rope_theta` stands in this section, in older ones beside it.
    rope = reader.section("rope_parameters", "rope_scaling")
    width = head_width
    if share is None:
        for section in (reader, rope):
            section.fixed("partial_rotary_factor", 1.0)
    else:
        share = rope.number("partial_rotary_factor", default=reader.number("partial_rotary_factor", default=share))
        width = int(share * head_width)
        if not 2 <= width <= head_width or width % 2:
            raise ConfigError(
                f"{rope.location}partial_rotary_factor {share} turns {width} of the {head_width} numbers of a head; "
                f"it must be an even number of them, from 2 to {head_width}"
            )
    # The length in training, which limits nothing: no position table ends there.
    trained_length = reader.integer("max_position_embeddings", default=longest, maximum=MAX_ROWS)
    theta = _positive(rope, "rope_theta", default=reader.number("rope_theta", default=theta))
    return RotarySpec(width=width, theta=theta, scaling=_scaling(rope, trained_length))


def _positive(rope: ConfigReader, key: str, **default: float) -> float:
    value = rope.number(key, **default)
    if not 0 < value < 1e30:
        raise ConfigError(f"{rope.location}{key} is {value}; it must be a number above 0")
    return value


def _scaling(rope: ConfigReader, trained_length: int) -> LinearScaling | Llama3Scaling | None:
    """The scaling of frequencies for texts longer than those of training."""
    kind = rope.text("rope_type", "type", default="default")
    if kind == "default":
        return None
    elif kind == "linear":
        return LinearScaling(factor=_positive(rope, "factor"))
    elif kind == "llama3":
        low, high = (_positive(rope, f"{end}_freq_factor") for end in ("low", "high"))
        if low >= high:
            raise ConfigError(
                f"{rope.location}low_freq_factor is {low} and high_freq_factor {high}; the high one must be larger"
            )
        return Llama3Scaling(
            factor=_positive(rope, "factor"),
            low_frequency_factor=low,
            high_frequency_factor=high,
            original_positions=rope.integer(
                "original_max_position_embeddings", default=trained_length, maximum=MAX_ROWS
            ),
        )
    raise UnsupportedError(
        f"{rope.location}rotary scaling {safe_repr(kind)} is not supported; supported: default, linear, llama3"
    )
