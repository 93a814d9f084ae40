"""Rotary position embedding (RoPE), and its scaling for texts longer than those of training.

    LinearScaling       every wave slower by the same factor
    Llama3Scaling       slow waves slower, fast ones as they are
    YarnScaling         the same by another ramp, and sharper attention
    DynamicScaling      a larger base, as the text grows (dynamic NTK)
    LongScaling         a factor for each wave, one list for short and one for long texts (LongRoPE)

    wave i:  angle(p) = p · θ^(-2i/width)     fast ├─── i = 0 … width/2 - 1 ───┤ slow

A wave that never finished a turn within the trained length meets angles beyond it that the network has not seen; the
scalings slow such waves down, and leave fast ones, which tell neighbours apart, more or less alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, NonNegative, Positive, Spec
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from glassformer.core.masks import Packing


@dataclass(frozen=True, kw_only=True, slots=True)
class RotaryScaling(Spec):
    """RoPE scaling: how the waves change, so that texts may be longer than those of training."""

    def frequencies(self, rotary: RotarySpec, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        """The scaled frequencies for texts of this many tokens, [B, 1, T or 1, 1]; they depend on it or not.

        Returns: [width/2], or [B, 1, T or 1, width/2]
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement frequencies(rotary, tokens, dtype)")

    def check(self, rotary: RotarySpec) -> None:
        """Check that waves of this number and base can be scaled so. Raises: ConfigError: they cannot."""

    @property
    def switch(self) -> int | None:
        """The length beyond which all angles of a text are others; None: there is none."""
        return None

    @property
    def amplitude(self) -> float:
        """Factor of cosines and sines, so that scores are multiplied by its square."""
        return 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearScaling(RotaryScaling):
    """Linear RoPE scaling: positions / `factor`. Source: Chen et al. 2023, "Extending context window", section 2.3."""

    factor: Positive

    def frequencies(self, rotary: RotarySpec, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        return rotary.frequencies(tokens.device, dtype) / self.factor


@dataclass(frozen=True, kw_only=True, slots=True)
class Llama3Scaling(RotaryScaling):
    """Llama 3 RoPE scaling: low frequencies divided by `factor`, high ones as they are, those between blended.

        turns = original_positions · frequency / 2π       of a wave within the trained length
        unscaled = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor), cut to [0, 1]

    Source: Llama 3 report 2024, section 3.2.
    """

    factor: Positive
    low_frequency_factor: Positive
    high_frequency_factor: Positive
    original_positions: Count

    def validate(self) -> None:
        if self.low_frequency_factor >= self.high_frequency_factor:
            raise ConfigError(
                f"Llama3Scaling: low_frequency_factor {self.low_frequency_factor} must be below "
                f"high_frequency_factor {self.high_frequency_factor} (config.json: low_freq_factor, high_freq_factor)"
            )

    def frequencies(self, rotary: RotarySpec, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        plain = rotary.frequencies(tokens.device, dtype)
        turns = self.original_positions * plain / (2 * math.pi)
        unscaled = (turns - self.low_frequency_factor) / (self.high_frequency_factor - self.low_frequency_factor)
        return _blend(plain, self.factor, unscaled.clamp(0, 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class YarnScaling(RotaryScaling):
    """YaRN RoPE scaling: slow waves divided by `factor`, fast ones as they are, a ramp between; and sharper attention.

        wave(turns) = width · ln(original_positions / (2π · turns)) / (2 ln θ)      the i of this many turns
        unscaled(i) = 1 - (i - wave(beta_fast)) / (wave(beta_slow) - wave(beta_fast)), cut to [0, 1]
        cosines and sines · attention_factor;   None: 0.1 · ln(factor) + 1

    truncate: the ends of the ramp are rounded away from its middle, to whole waves
    Source: Peng et al. 2023, "YaRN", sections 3.2 to 3.4 (eq. 15: the factor is √(1/t)).
    Differs: the paper's ramp is linear in the number of turns; its released code's, as here, in the wave's number i.
    """

    factor: Positive
    original_positions: Count
    beta_fast: Positive = 32.0
    beta_slow: Positive = 1.0
    truncate: bool = True
    attention_factor: NonNegative | None = None

    def validate(self) -> None:
        if self.beta_fast < self.beta_slow:
            raise ConfigError(
                f"YarnScaling: beta_fast {self.beta_fast} must not be below beta_slow {self.beta_slow} "
                "(config.json: beta_fast, beta_slow)"
            )

    def check(self, rotary: RotarySpec) -> None:
        if rotary.theta <= 1:
            raise ConfigError(f"RotarySpec.theta is {rotary.theta}; YarnScaling needs one above 1, for its logarithm")

    def frequencies(self, rotary: RotarySpec, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        first, last = (
            rotary.width * math.log(self.original_positions / (2 * math.pi * turns)) / (2 * math.log(rotary.theta))
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, rotary.width - 1)
        if first == last:
            last += 0.001  # a ramp of no length is a step
        waves = torch.arange(rotary.width // 2, device=tokens.device, dtype=dtype)
        unscaled = 1 - ((waves - first) / (last - first)).clamp(0, 1)
        return _blend(rotary.frequencies(tokens.device, dtype), self.factor, unscaled)

    @property
    def amplitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DynamicScaling(RotaryScaling):
    """Dynamic NTK RoPE scaling: a base that grows with the text, once it is longer than `original_positions`.

        θ' = θ · (factor · tokens / original_positions - (factor - 1))^(width / (width - 2))

    The exponent leaves the fastest wave as it is, and slows the slowest one by the whole number in parentheses.
    Source: bloc97 2023, "NTK-aware scaled RoPE"; emozilla 2023, "Dynamically scaled RoPE"; Peng et al. 2023,
    "YaRN", sections 3.1 and 3.3.
    Differs: YaRN's dynamic scaling is tokens / original_positions alone; `factor` is the released code's.
    """

    factor: Positive
    original_positions: Count

    def check(self, rotary: RotarySpec) -> None:
        if rotary.width < 4:
            raise ConfigError(
                f"RotarySpec.width is {rotary.width}; DynamicScaling needs 4 or more, a slow wave next to the fast one"
            )

    def frequencies(self, rotary: RotarySpec, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        ratio = tokens.clamp(min=self.original_positions).to(dtype) / self.original_positions
        stretch = self.factor * ratio - (self.factor - 1)
        theta = rotary.theta * stretch ** (rotary.width / (rotary.width - 2))
        return rotary.frequencies(tokens.device, dtype, theta)


@dataclass(frozen=True, kw_only=True, slots=True)
class LongScaling(RotaryScaling):
    """LongRoPE scaling: each wave divided by a factor of its own, found by search, and sharper attention.

        frequency(i) / short_factors[i]    texts no longer than original_positions
        frequency(i) / long_factors[i]     longer ones
        cosines and sines · attention_factor;   None: √(1 + ln factor / ln original_positions)

    factor: the extended length / original_positions
    Source: Ding et al. 2024, "LongRoPE", section 3; the attention factor is that of the released Phi-3.
    """

    short_factors: tuple[float, ...]
    long_factors: tuple[float, ...]
    factor: Positive
    original_positions: Count
    attention_factor: NonNegative | None = None

    def validate(self) -> None:
        if self.original_positions < 2:
            raise ConfigError("LongScaling.original_positions is 1; it must be from 2 up: its logarithm divides")
        for field in ("short_factors", "long_factors"):
            if min(getattr(self, field), default=0.0) <= 0:
                raise ConfigError(
                    f"LongScaling.{field} is {getattr(self, field)!r}; each must be a number above 0, and there must "
                    "be one for each wave (config.json: short_factor, long_factor)"
                )

    def check(self, rotary: RotarySpec) -> None:
        for field in ("short_factors", "long_factors"):
            count = len(getattr(self, field))
            if count != rotary.width // 2:
                raise ConfigError(
                    f"LongScaling.{field} has {count} numbers; {rotary.width} rotated numbers of a head are "
                    f"{rotary.width // 2} waves, each with a factor (config.json: short_factor, long_factor)"
                )

    def frequencies(self, rotary: RotarySpec, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        short, long = (
            torch.tensor(factors, device=tokens.device, dtype=dtype)
            for factors in (self.short_factors, self.long_factors)
        )
        factors = torch.where(tokens > self.original_positions, long, short)
        return rotary.frequencies(tokens.device, dtype) / factors

    @property
    def switch(self) -> int | None:
        return self.original_positions

    @property
    def amplitude(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_positions)) if self.factor > 1 else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RotarySpec(Spec):
    """Rotary position embedding (RoPE) of the first `width` numbers of each head's q and k; `theta`: the base."""

    width: Count
    theta: Positive = 10_000.0
    scaling: RotaryScaling | None = None

    def validate(self) -> None:
        if self.width % 2:
            raise ConfigError(f"RotarySpec.width is {self.width}; it must be even, since numbers are rotated in pairs")
        if self.scaling is not None:
            self.scaling.check(self)

    def frequencies(
        self, device: torch.device, dtype: torch.dtype, theta: float | Tensor | None = None
    ) -> Float[Tensor, "*rest half"]:
        """The frequencies without scaling, of this base or of others."""
        return wave_frequencies(self.width, self.theta if theta is None else theta, device, dtype)


def wave_frequencies(
    width: int, theta: float | Tensor, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "*rest half"]:
    """θ^(-2i/width) for i = 0 … width/2 - 1: from one turn in 2π tokens to one in 2πθ."""
    return 1.0 / theta ** (torch.arange(0, width, 2, device=device, dtype=dtype) / width)


def _blend(plain: Tensor, factor: float, unscaled: Tensor) -> Tensor:
    """Frequencies between plain / factor (unscaled = 0) and plain (unscaled = 1)."""
    return unscaled * plain + (1 - unscaled) * plain / factor


def _text_lengths(positions: Int[Tensor, "B T"], packing: Packing | None) -> Int[Tensor, "B 1 #T 1"]:
    """Tokens of each row's text, or of each token's text where several are packed into a row."""
    if packing is None:
        return positions.amax(dim=1)[:, None, None, None] + 1
    lengths = torch.tensor(packing.lengths, device=positions.device)
    return lengths.repeat_interleave(lengths)[None, None, :, None]


class Rotary(nn.Module):
    """Rotary position embedding (RoPE): rotate pairs of numbers of q and k by an angle proportional to the position.

        angle(p, i) = p · θ^(-2i/width);   the score of a rotated q and k depends on the positions' difference alone

    `forward` gives the cosines and sines, once a call; `rotate` applies them.

    A scaling that depends on the length takes that of each text, cached tokens included: a row does not depend on the
    others of its batch. Keys in a cache keep the angles with which they came in. When a text outgrows the trained
    length while it is generated, generation starts over if that changes all angles at once (LongRoPE). If it changes
    them at every step (dynamic NTK), later queries and keys are turned by other frequencies than earlier keys, and the
    numbers differ from those without a cache, as they do in the reference library.
    Source: Su et al. 2021, section 3.2.
    Differs: the paper rotates neighbours (2i, 2i+1); published checkpoints in the Hugging Face layout pair number i
    with number i + width/2, as here: the same map after a permutation of rows that the converted weights contain. The
    reference library takes the length of a batch's longest row for all of them; its dynamic scaling remembers that of
    earlier calls.
    """

    KIND = "rotary"

    def __init__(self, spec: RotarySpec) -> None:
        super().__init__()
        self.spec = spec

    def forward(
        self, positions: Int[Tensor, "B T"], dtype: torch.dtype, packing: Packing | None = None
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(dtype, torch.float32)
        scaling = self.spec.scaling
        if scaling is None:
            frequencies = self.spec.frequencies(positions.device, wide)
        else:
            frequencies = scaling.frequencies(self.spec, _text_lengths(positions, packing), wide)
        angles = positions[:, None, :, None].to(wide) * frequencies  # [B, 1, T, width/2]
        angles = torch.cat([angles, angles], dim=-1)  # [B, 1, T, width]
        cos, sin = angles.cos(), angles.sin()
        if scaling is not None and scaling.amplitude != 1:
            cos, sin = cos * scaling.amplitude, sin * scaling.amplitude
        return cos.to(dtype), sin.to(dtype)


def rotate(x: Float[Tensor, "B H T E"], rotation: tuple[Tensor, Tensor]) -> Float[Tensor, "B H T E"]:
    """Apply rotary embeddings to q or k: rotate the pairs (i, i + width/2) of the first numbers of each head.

    Args:
        rotation: cosines and sines, from `Rotary`.
    """
    cos, sin = rotation
    width = cos.shape[-1]
    rotated, rest = x[..., :width], x[..., width:]
    first, second = rotated.chunk(2, dim=-1)
    rotated = rotated * cos + torch.cat([-second, first], dim=-1) * sin
    rotated = rotated.to(x.dtype)  # cos and sin may have a wider dtype, that of the stream
    return rotated if width == x.shape[-1] else torch.cat([rotated, rest], dim=-1)
