"""Effects: each does what its name says, none of them to silence, and chains come by their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from glassformer_guitar.filters import bandpass, highpass, lowpass, peak, shelf
from glassformer_guitar.pedals import PEDALS, apply_pedals, check_pedals, draw_chain

from glassformer.errors import ConfigError, DataError

RATE = 16_000
TIME = np.arange(RATE) / RATE


def tone(hz: float, seconds: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(int(seconds * RATE)) / RATE)


def level_db(x: np.ndarray, y: np.ndarray) -> float:
    """How much louder y is than x, once it has settled."""
    return float(10 * np.log10(np.square(y[4000:]).mean() / np.square(x[4000:]).mean()))


def run(name: str, x: np.ndarray, **settings: float) -> np.ndarray:
    return apply_pedals(x, RATE, [{"pedal": name, **settings}])


def partials(x: np.ndarray, hz: float) -> np.ndarray:
    """Magnitudes of the first partials of a tone."""
    return np.abs(np.fft.rfft(x))[(np.arange(1, 8) * hz * len(x) / RATE).round().astype(int)]


def test_filters_by_their_levels() -> None:
    low, middle, high = tone(100), tone(1000), tone(4000)
    assert level_db(low, lowpass(low, RATE, 1000)) == pytest.approx(0, abs=0.1)
    assert level_db(high, lowpass(high, RATE, 1000)) < -24
    assert level_db(low, highpass(low, RATE, 1000)) < -38
    assert level_db(middle, bandpass(middle, RATE, 1000, 4)) == pytest.approx(0, abs=0.1)
    assert level_db(middle, peak(middle, RATE, 1000, 9, 2)) == pytest.approx(9, abs=0.1)
    assert level_db(low, shelf(low, RATE, 800, -6, high=False)) == pytest.approx(-6, abs=0.3)
    assert level_db(high, shelf(high, RATE, 800, 6, high=True)) == pytest.approx(6, abs=0.3)
    assert level_db(high, shelf(high, RATE, 800, 6, high=False)) == pytest.approx(0, abs=0.2)


@pytest.mark.parametrize("name", PEDALS)
def test_every_pedal_is_heard_stays_finite_and_leaves_silence(name: str) -> None:
    x = tone(220) * np.exp(-3 * TIME)
    wet = run(name, x)
    assert wet.shape == x.shape and np.isfinite(wet).all()
    assert np.abs(wet / np.abs(wet).max() - x / np.abs(x).max()).max() > 0.05
    assert np.abs(run(name, np.zeros(2000))).max() < 1e-6
    assert np.isfinite(run(name, tone(220)[:3])).all()


def test_clipping_adds_partials() -> None:
    x = tone(200)
    clean, soft, hard = (partials(y, 200) for y in (x, run("overdrive", x), run("fuzz", x)))
    assert clean[2] < 1e-6 * clean[0]
    assert soft[2] > 0.05 * soft[0] and hard[2] > soft[2] / soft[0] * hard[0]
    assert soft[1] > 0.005 * soft[0], "the two sides of a tube differ, which gives even partials"


def test_an_equaliser_is_its_three_bands() -> None:
    settings = {"bass_db": -9.0, "middle_db": 12.0, "treble_db": 3.0}
    for hz, wanted in ((60, -9), (800, 12), (6000, 3)):
        assert level_db(tone(hz), run("equaliser", tone(hz), **settings)) == pytest.approx(wanted, abs=1.5)


def test_a_tremolo_sways_and_a_delay_repeats() -> None:
    swaying = np.abs(run("tremolo", np.ones(RATE), rate_hz=5.0, depth=0.8, phase=0.0))
    assert swaying.min() == pytest.approx(0.2, abs=0.01) and swaying.max() == pytest.approx(1.0, abs=0.01)
    assert int((np.diff(np.sign(swaying - 0.6)) > 0).sum()) in (4, 5, 6)
    click = np.zeros(RATE)
    click[0] = 1.0
    echoes = run("delay", click, time_s=0.25, feedback=0.5, mix=0.6)
    heard = [np.square(echoes[at : at + 400]).sum() for at in (4000, 8000, 12_000)]
    assert heard[0] > heard[1] > heard[2] > 0 and np.abs(echoes[500:3900]).max() < 1e-9


def test_a_reverb_decays_and_a_room_is_itself() -> None:
    click = np.zeros(RATE)
    click[0] = 1.0
    first, again = (run("reverb", click, decay_s=0.8, mix=0.7, room=5.0) for _ in range(2))
    assert np.array_equal(first, again) and not np.array_equal(first, run("reverb", click, room=6.0))
    early, late = np.square(first[400:2000]).sum(), np.square(first[9000:10_600]).sum()
    assert early > 100 * late > 0


def test_chorus_flanger_and_wah_move() -> None:
    """What they do to noise differs from one half of a second to the next."""
    noise = np.random.default_rng(0).standard_normal(2 * RATE)
    for name in ("chorus", "flanger", "wah"):
        wet = run(name, noise)
        halves = [
            np.abs(np.fft.rfft(wet[at : at + 8000])) / np.abs(np.fft.rfft(noise[at : at + 8000])) for at in (0, 8000)
        ]
        bands = [half[:4000].reshape(-1, 40).mean(1) for half in halves]
        assert np.corrcoef(*bands)[0, 1] < 0.9, name


def test_chains_come_by_their_probabilities() -> None:
    chances = check_pedals({"delay": 1.0, "fuzz": 0.5})
    chains = [draw_chain(chances, np.random.default_rng([1, i])) for i in range(400)]
    names = [[link["pedal"] for link in chain] for chain in chains]
    assert all(chain in (["delay"], ["fuzz", "delay"]) for chain in names)
    assert 150 < sum("fuzz" in chain for chain in names) < 250
    for chain in chains:
        for link in chain:
            for setting, (low, high) in PEDALS[link["pedal"]].ranges.items():
                assert low <= link[setting] <= high
    alone = draw_chain(check_pedals({"delay": 1.0}), np.random.default_rng([1, 0]))
    assert alone[-1] == chains[0][-1], "a pedal's settings do not depend on the others"


def test_settings_that_are_fixed() -> None:
    own = check_pedals({"overdrive": {"gain": 8.0}, "fuzz": {"probability": 0.5, "gain": 30}, "delay": 1.0})
    drawn = check_pedals({"overdrive": 1.0, "fuzz": 0.5, "delay": 1.0})
    for index in range(40):
        chain, free = (draw_chain(pedals, np.random.default_rng([1, index])) for pedals in (own, drawn))
        assert [link["pedal"] for link in chain] == [link["pedal"] for link in free]
        assert chain[0] == {**free[0], "gain": 8.0} and chain[-1] == free[-1]
        assert all(link["gain"] == 30 for link in chain[1:-1])


@pytest.mark.parametrize(
    ("pedals", "message"),
    [
        ({"overdrive": {"drive": 8.0}}, "overdrive has no setting 'drive'; it has: probability, gain, tone_hz"),
        ({"overdrive": {"gain": 80.0}}, "gain of overdrive is 80.0; it must be a number from 4 to 10"),
        ({"overdrive": {"gain": float("nan")}}, "gain of overdrive is nan"),
        ({"overdrive": {"probability": 2}}, "overdrive is 2; it must be a probability from 0 to 1"),
        ({"fuz": 0.5}, "'fuz' is no pedal; nearest: 'fuzz'; there are: wah, overdrive"),
        ({"fuzz": 1.5}, "fuzz is 1.5; it must be a probability from 0 to 1"),
        ({"fuzz": "often"}, "fuzz is 'often'"),
        (["fuzz"], "it must be pedal → probability"),
    ],
)
def test_probabilities_that_are_none(pedals: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_pedals(pedals)


def test_chains_that_cannot_be_played() -> None:
    with pytest.raises(DataError, match="'phaser' is no pedal"):
        run("phaser", tone(100))
    with pytest.raises(DataError, match="None is no pedal"):
        apply_pedals(tone(100), RATE, [{}])
    with pytest.raises(DataError, match="delay has no setting 'tone_hz'; it has: time_s"):
        run("delay", tone(100), tone_hz=3.0)
