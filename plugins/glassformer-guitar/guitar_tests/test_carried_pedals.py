"""The model that the package carries names the pedals of a guitar that it has not heard."""

from __future__ import annotations

from pathlib import Path

import glassformer_guitar
import pytest
from glassformer_guitar import GuitarOptions, GuitarRows

import glassformer

NAME = "package:glassformer_guitar/checkpoints/pedals"


def test_it_names_pedals_of_notes_and_chords_that_it_has_not_heard() -> None:
    """Of 40 clips of another seed, by the command that its page names."""
    rows = GuitarRows(GuitarOptions(clips=40, part="test", seed=77))
    clips = [rows.clip(index) for index in range(len(rows))]
    name = glassformer.pipeline("pedals", NAME, offline=True)
    answers = name([{"array": clip.sound[0], "sampling_rate": clip.sound[1]} for clip in clips])
    named = [[pedal.label for pedal in answer] for answer in answers]
    exact = sum(own == clip.pedals for own, clip in zip(named, clips, strict=True))
    assert exact >= 33, "0.94 of two thousand are exact, 0.15 are without pedals, and 33 is three deviations below"
    for pedal in ("fuzz", "wah", "tremolo", "delay"):
        right = sum((pedal in own) == (pedal in clip.pedals) for own, clip in zip(named, clips, strict=True))
        assert right >= 37, pedal


@pytest.mark.parametrize("seconds", [0.7, 5.0])
def test_sounds_of_another_length_and_level(seconds: float) -> None:
    rows = GuitarRows(GuitarOptions(clips=3, seconds=seconds, contents=["riff"], pedals={"fuzz": 1.0}, part="test"))
    name = glassformer.pipeline("pedals", NAME, offline=True)
    for index in range(3):
        samples, rate = rows.clip(index).sound
        (fuzz,) = [pedal for pedal in name({"array": 0.02 * samples, "sampling_rate": rate}) if pedal.label == "fuzz"]
        assert fuzz.score > (0.9 if seconds > 2 else 0.5)  # it has learnt from whole windows


def test_it_is_small() -> None:
    file = Path(glassformer_guitar.__file__).parent / "checkpoints" / "pedals" / "model.safetensors"
    assert file.stat().st_size < 6_000_000
