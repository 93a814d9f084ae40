"""Guitar effects, and chains of them: each a function of the samples and its drawn settings.

    fuzz        hard clipping, with much gain            chorus    a copy behind it, its delay swaying slowly
    overdrive   soft clipping                            flanger   copies close behind, swaying
    wah         a narrow band that moves                 tremolo   loudness that sways
    equaliser   bass, middle, treble                     delay     echoes · reverb  a room

Chains are in the order of a pedalboard: filters and clipping, modulation, time.
Source: Zölzer 2011, "DAFX", chapters 2 to 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError, import_optional, nearest
from glassformer.files import is_number, safe_repr
from glassformer_guitar.filters import Samples, bandpass, delayed, highpass, lowpass, peak, shelf

Setting = Mapping[str, float]


def overdrive(x: Samples, rate: int, s: Setting) -> Samples:
    """Soft clipping: tanh of the amplified signal, a little unlike on either side."""
    driven = np.tanh(s["gain"] * highpass(x, rate, 90.0) + 0.15) - np.tanh(0.15)
    return lowpass(driven, rate, s["tone_hz"])


def fuzz(x: Samples, rate: int, s: Setting) -> Samples:
    """Hard clipping with so much gain that waves become nearly square; quiet samples stay silent."""
    clipped = np.clip(s["gain"] * x, -1.0, 0.8)
    return lowpass(highpass(clipped, rate, 60.0), rate, s["tone_hz"])


def wah(x: Samples, rate: int, s: Setting) -> Samples:
    """A resonant band that moves up and down: a bank of fixed bands, faded from one to the next."""
    bands = np.geomspace(400.0, min(2_400.0, 0.4 * rate), 10)
    place = (len(bands) - 1) * (0.5 - 0.5 * np.cos(_phase(len(x), rate, s["rate_hz"], s["phase"])))
    out = np.zeros_like(x)
    for number, hz in enumerate(bands):
        out += np.clip(1.0 - np.abs(place - number), 0.0, 1.0) * bandpass(x, rate, float(hz), s["quality"])
    return 2.0 * out + 0.1 * x


def equaliser(x: Samples, rate: int, s: Setting) -> Samples:
    """Three bands: shelves below 200 Hz and above 2,500 Hz, a peak at 800 Hz."""
    x = shelf(x, rate, 200.0, s["bass_db"], high=False)
    return shelf(peak(x, rate, 800.0, s["middle_db"], 0.8), rate, 2_500.0, s["treble_db"], high=True)


def chorus(x: Samples, rate: int, s: Setting) -> Samples:
    """Two copies 15 to 25 ms behind, whose delays sway: slightly out of tune."""
    sway = [np.sin(_phase(len(x), rate, s["rate_hz"], s["phase"] + shift)) for shift in (0.0, 2.1)]
    copies = [delayed(x, rate * (0.018 + s["depth_s"] * (1.0 + wave))) for wave in sway]
    return x + s["mix"] * (copies[0] + copies[1])


def flanger(x: Samples, rate: int, s: Setting) -> Samples:
    """Copies 1 to 8 ms behind, each of the one before: notches that move through the spectrum."""
    delay = rate * (0.001 + s["depth_s"] * (0.5 + 0.5 * np.sin(_phase(len(x), rate, s["rate_hz"], s["phase"]))))
    copies = sum(s["feedback"] ** k * delayed(x, (k + 1) * delay) for k in range(4))
    return x + 0.9 * copies


def tremolo(x: Samples, rate: int, s: Setting) -> Samples:
    """Loudness that rises and falls."""
    return x * (1.0 - s["depth"] * (0.5 + 0.5 * np.sin(_phase(len(x), rate, s["rate_hz"], s["phase"]))))


def delay(x: Samples, rate: int, s: Setting) -> Samples:
    """Echoes, each quieter and darker than the one before."""
    out, echo, step = x.copy(), x, max(int(s["time_s"] * rate), 1)
    level = s["mix"]
    for start in range(step, len(x), step):
        echo = lowpass(echo, rate, 4_000.0)
        out[start:] += level * echo[: len(x) - start]
        level *= s["feedback"]
    return out


def reverb(x: Samples, rate: int, s: Setting) -> Samples:
    """A room: noise that decays by 60 dB in its time, after a short wait, convolved with the sound."""
    length = max(int(s["decay_s"] * rate), 2)
    noise = np.random.default_rng(int(s["room"])).standard_normal(length)
    response = noise * 10.0 ** (-3.0 * np.arange(length) / length)
    response[: int(0.008 * rate)] = 0.0
    response = lowpass(response / np.sqrt(np.sum(response**2) + 1e-12), rate, 5_000.0)
    fftconvolve = import_optional("scipy.signal", "scipy", "audio", "a reverb").fftconvolve
    wet: Samples = fftconvolve(x, response)[: len(x)]
    return x + s["mix"] * wet


def _phase(samples: int, rate: int, hz: float, start: float) -> Samples:
    return 2.0 * np.pi * hz * np.arange(samples) / rate + start


@dataclass(frozen=True, slots=True)
class Pedal:
    """An effect, and the ranges that its settings are drawn from, evenly."""

    effect: Callable[[Samples, int, Setting], Samples]
    ranges: Mapping[str, tuple[float, float]]

    def settings(self, draw: np.random.Generator) -> dict[str, float]:
        """Random settings, uniform within the ranges."""
        return {name: float(draw.uniform(low, high)) for name, (low, high) in self.ranges.items()}


_TURN = (0.0, 6.28)  # radians: any phase of an oscillator
# Each is audible in two seconds at its weakest: flangers sweep nearly once, and a fuzz leaves room for an overdrive
# before it, which would drown in gains of 40 and more.
PEDALS: dict[str, Pedal] = {
    "wah": Pedal(wah, {"rate_hz": (0.8, 2.5), "quality": (4.0, 8.0), "phase": _TURN}),
    "overdrive": Pedal(overdrive, {"gain": (4.0, 10.0), "tone_hz": (3_000.0, 5_500.0)}),
    "fuzz": Pedal(fuzz, {"gain": (20.0, 40.0), "tone_hz": (3_500.0, 6_500.0)}),
    "equaliser": Pedal(equaliser, {"bass_db": (-16.0, -10.0), "middle_db": (8.0, 14.0), "treble_db": (-4.0, 4.0)}),
    "chorus": Pedal(chorus, {"rate_hz": (0.6, 1.6), "depth_s": (0.002, 0.004), "mix": (0.5, 0.8), "phase": _TURN}),
    "flanger": Pedal(
        flanger, {"rate_hz": (0.4, 0.8), "depth_s": (0.003, 0.007), "feedback": (0.5, 0.75), "phase": _TURN}
    ),
    "tremolo": Pedal(tremolo, {"rate_hz": (4.0, 9.0), "depth": (0.7, 0.95), "phase": _TURN}),
    "delay": Pedal(delay, {"time_s": (0.18, 0.4), "feedback": (0.35, 0.6), "mix": (0.5, 0.8)}),
    "reverb": Pedal(reverb, {"decay_s": (0.8, 2.2), "mix": (0.5, 0.9), "room": (0.0, 1e6)}),
}
"""The pedals by name, in the order of a chain."""

PROBABILITIES: Mapping[str, float] = dict.fromkeys(PEDALS, 0.2)
"""How probable it is that a pedal is in a chain."""


def check_pedals(pedals: Mapping[str, Any]) -> dict[str, Any]:
    """Pedal → probability, 0 if it is left out; with settings that are fixed, `{"probability": 1.0, "gain": 8}`.

    Raises: ConfigError: an unknown pedal or setting, no probability, or a setting outside its range.
    """
    if not isinstance(pedals, Mapping):
        raise ConfigError(f"pedals is {safe_repr(pedals)}; it must be pedal → probability: {', '.join(PEDALS)}")
    for name, value in pedals.items():
        ranges = {"probability": (0.0, 1.0), **PEDALS[check_pedal(name, ConfigError)].ranges}
        for key, number in (value if isinstance(value, Mapping) else {"probability": value}).items():
            if key not in ranges:
                raise ConfigError(f"pedals: {name} has no setting {safe_repr(key)}; it has: {', '.join(ranges)}")
            what, (low, high) = (name if key == "probability" else f"{key} of {name}"), ranges[key]
            if not is_number(number, low) or number > high:
                kind = f"{'probability' if key == 'probability' else 'number'} from {low:g} to {high:g}"
                raise ConfigError(f"pedals: {what} is {safe_repr(number)}; it must be a {kind}")
    return {name: _fixed(pedals.get(name, 0.0)) for name in PEDALS}


def _fixed(value: Any) -> Any:
    """A probability; with fixed settings, a mapping of both, with a probability of 1 unless it names one."""
    return {"probability": 1.0, **value} if isinstance(value, Mapping) else float(value)


def check_pedal(name: Any, error: type[ConfigError] | type[DataError] = DataError) -> str:
    """Raises: DataError, or as given: there is no such pedal."""
    if not isinstance(name, str) or name not in PEDALS:
        close = nearest(name, PEDALS) if isinstance(name, str) else ""
        raise error(f"{safe_repr(name)} is no pedal{close}; there are: {', '.join(PEDALS)}")
    return name


def draw_chain(pedals: Mapping[str, Any], draw: np.random.Generator) -> list[dict[str, Any]]:
    """Pedals by their probabilities, each with its settings: `[{"pedal": "delay", "time_s": 0.3, …}]`.

    Settings of all pedals are drawn, so that those of one do not depend on the others; fixed ones replace them.
    Args:
        pedals: as `check_pedals` gives them
    """
    chances = {name: (draw.random(), pedal.settings(draw)) for name, pedal in PEDALS.items()}
    chain = []
    for name, (chance, settings) in chances.items():
        given = pedals.get(name, 0.0)
        fixed = dict(given) if isinstance(given, Mapping) else {"probability": given}
        if chance < fixed.pop("probability"):
            chain.append({"pedal": name, **settings, **fixed})
    return chain


def apply_pedals(x: Samples, rate: int, chain: Sequence[Mapping[str, Any]]) -> Samples:
    """The sound behind a chain of pedals; each hears a signal of full scale.

    Args:
        chain: of each its name and settings; settings that are left out are in the middle of their range
    Raises: DataError: an unknown pedal or setting.
    """
    for link in chain:
        name = check_pedal(link.get("pedal"))
        pedal = PEDALS[name]
        if unknown := sorted(link.keys() - {"pedal"} - pedal.ranges.keys()):
            raise DataError(f"{name} has no setting {unknown[0]!r}; it has: {', '.join(pedal.ranges)}")
        settings = {key: float(link.get(key, sum(ends) / 2)) for key, ends in pedal.ranges.items()}
        x = pedal.effect(full_scale(x), rate, settings)
    return x


def full_scale(x: Samples) -> Samples:
    """The sound with a peak of 1; silence stays as it is."""
    top = float(np.abs(x).max(initial=0.0))
    return x / top if top > 1e-9 else x
