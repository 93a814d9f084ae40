"""Data augmentation of speech in training: speed perturbation, gain, noise, and SpecAugment.

    samples ─ speed ─ gain ─ noise ─ log-mel ─ spans of time and of mel bins masked ─> network

All of it is drawn from the generator of (seed, epoch, example): a run is the same however it is cut, and the same
example is another one each epoch.
Source: Park et al. 2019 (SpecAugment), section 2; Ko et al. 2015 (speed perturbation), section 2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from glassformer.audio.read import Samples, resample
from glassformer.errors import ConfigError
from glassformer.files import safe_repr

SPEED_STEPS = 100
"""Speeds are hundredths."""


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is changed in recordings, at random.

    speed: factors of which one is drawn, by resampling, so that the pitch changes too: (0.9, 1.0, 1.1)
    gain_db: louder or quieter by up to so much
    noise_db: signal-to-noise ratio of white noise, from and to: (15, 40); None = none
    time_masks, time_mask_seconds: spans of time that are masked, and how long they are at most
    mel_masks, mel_mask_bins: the same of mel bins
    """

    speed: tuple[float, ...] = ()
    gain_db: float = 0.0
    noise_db: tuple[float, ...] | None = None
    time_masks: int = 0
    time_mask_seconds: float = 0.5
    mel_masks: int = 0
    mel_mask_bins: int = 20

    def __post_init__(self) -> None:
        for name, allowed, holds in (
            ("speed", "factors from 0.5 to 2, such as [0.9, 1.0, 1.1]", all(0.5 <= x <= 2 for x in self.speed)),
            ("gain_db", "a number from 0 to 60", 0 <= self.gain_db <= 60),
            ("noise_db", "two numbers, from and to, such as [15, 40]", self._orders_noise()),
            ("time_masks", "a whole number from 0 up", self.time_masks >= 0),
            ("time_mask_seconds", "a number above 0", self.time_mask_seconds > 0),
            ("mel_masks", "a whole number from 0 up", self.mel_masks >= 0),
            ("mel_mask_bins", "a whole number from 1 up", self.mel_mask_bins >= 1),
        ):
            if not holds:
                raise ConfigError(f"augmentation.{name} is {safe_repr(getattr(self, name))}; it must be {allowed}")

    def _orders_noise(self) -> bool:
        return self.noise_db is None or (len(self.noise_db) == 2 and self.noise_db[0] <= self.noise_db[1])

    @property
    def masks(self) -> bool:
        """Whether spectrograms are masked (SpecAugment)."""
        return bool(self.time_masks or self.mel_masks)

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) != each.default for each in fields(self))

    def samples(self, samples: Samples, draw: np.random.Generator) -> Samples:
        """Samples at another speed, level and noise. [samples] → [others]"""
        if self.speed:
            samples = at_speed(samples, float(draw.choice(self.speed)))
        if self.gain_db:
            samples = samples * np.float32(10 ** (draw.uniform(-self.gain_db, self.gain_db) / 20))
        if self.noise_db is not None:
            ratio = 10 ** (draw.uniform(self.noise_db[0], self.noise_db[1]) / 20)
            level = float(np.sqrt(np.square(samples, dtype=np.float64).mean())) / ratio
            samples = samples + draw.normal(0.0, level, len(samples)).astype(np.float32)
        return np.clip(samples, -1.0, 1.0)

    def spans(self, frames: int, frames_per_second: float, bins: int, draw: np.random.Generator) -> np.ndarray:
        """Spans to mask of a spectrogram: rows of (axis, begin, end), axis 0 of mel bins and 1 of time. [n, 3] int32"""
        longest = round(self.time_mask_seconds * frames_per_second)
        wanted = [(0, bins, self.mel_mask_bins)] * self.mel_masks + [(1, frames, longest)] * self.time_masks
        rows = []
        for axis, size, most in wanted:
            length = int(draw.integers(0, min(most, size // 2) + 1))  # never more than half
            begin = int(draw.integers(0, size - length + 1))
            rows.append((axis, begin, begin + length))
        return np.array(rows, dtype=np.int32).reshape(-1, 3)


def at_speed(samples: Samples, speed: float) -> Samples:
    """Samples at another speed: 1.1 is faster, shorter and higher."""
    own = round(speed * SPEED_STEPS)
    return samples if own == SPEED_STEPS else np.concatenate(list(resample([samples], SPEED_STEPS, own)))
