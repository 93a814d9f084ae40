"""Clips of the guitar: functions of seed and number, as rows, streamed, written only when asked."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from glassformer_guitar import PEDALS, GuitarOptions, GuitarRows
from glassformer_guitar.clips import render
from glassformer_guitar.playing import chord_frets, chord_names, is_held_out

from glassformer.audio import read_audio
from glassformer.audio.listening import note_name
from glassformer.data.rows import read_rows
from glassformer.data.streams import stream_rows
from glassformer.errors import ConfigError, DataError


def rows(**options: Any) -> GuitarRows:
    return GuitarRows(GuitarOptions(**{"clips": 50, "seconds": 0.5, **options}))


def test_an_item_is_sound_notes_and_pedals() -> None:
    made = rows(pedals=dict.fromkeys(PEDALS, 0.5))
    for index in range(12):
        (waveform, rate), notes, pedals, recipe = made.clip(index)
        assert waveform.shape == (8_000,) and waveform.dtype == np.float32 and rate == 16_000
        assert 0.3 < np.abs(waveform).max() <= 0.9 and notes
        assert all(0 <= note["start_s"] < 0.5 and 40 <= note["midi"] <= 80 for note in notes)
        assert pedals == [name for name in PEDALS if name in pedals], "in the order of a pedalboard"
        assert np.array_equal(render(json.loads(json.dumps(recipe))), waveform)


def test_a_clip_is_a_function_of_seed_and_number() -> None:
    first, again, other = rows(), rows(clips=7), rows(seed=1)
    assert np.array_equal(first.clip(5).sound[0], again.clip(5).sound[0])
    assert first.recipe(5) == again.recipe(5) != other.recipe(5) and first.recipe(5) != first.recipe(6)
    assert rows().fingerprint == rows().fingerprint != rows(clips=7).fingerprint
    assert len({json.dumps(first.recipe(index)) for index in range(50)}) == 50


def test_a_dry_clip_is_the_same_without_pedals() -> None:
    made = rows(pedals={"fuzz": 1.0})
    wet, dry = made.clip(3), made.clip(3, dry=True)
    assert wet.notes == dry.notes and (wet.pedals, dry.pedals) == (["fuzz"], [])
    assert np.array_equal(dry.sound[0], rows(pedals=None).clip(3).sound[0])
    assert not np.array_equal(dry.sound[0], wet.sound[0])


def test_parts_share_no_note_and_no_chord() -> None:
    for content in ("note", "chord"):
        titles = {
            part: {
                tuple((note["string"], note["fret"]) for note in made.recipe(i)["notes"])
                for i in range(made.options.clips)
            }
            for part in ("train", "test")
            for made in [rows(clips=300, contents=[content], part=part)]
        }
        unordered = {part: {tuple(sorted(notes)) for notes in own} for part, own in titles.items()}
        assert not unordered["train"] & unordered["test"] and len(unordered["test"]) > 5
    assert 0.1 < np.mean([is_held_out(name) for name in chord_names()]) < 0.35


def test_what_is_played() -> None:
    assert [note_name(midi) for midi in (40, 69)] == ["E2", "A4"]
    assert chord_frets("C") == [None, 3, 2, 0, 1, 0] and chord_frets("A#m @6") == [6, 8, 8, 6, 6, 6]
    chord = rows(contents=["chord"]).clip(0)
    assert 3 <= len(chord.notes) <= 6
    riff = rows(contents=["riff"], seconds=4.0).clip(0)
    assert len(riff.notes) > 4 and riff.recipe["title"].startswith("riff in ")


def test_they_are_rows_and_can_be_streamed() -> None:
    made = read_rows("a guitar", kind="guitar", clips=20, seconds=0.2, pedals={"delay": 1.0})
    assert len(made) == 20 and list(made.columns) == ["file", "notes", "pedals"]
    row = made[3]
    assert row["pedals"] == ["delay"] and row["file"]["sampling_rate"] == 16_000
    assert np.array_equal(row["file"]["array"], made[3]["file"]["array"])
    assert made.where(3) == "a guitar: clip 3" and len(made.select([1, 2])) == 2
    stream = stream_rows("a guitar", kind="guitar", clips=10**8, seconds=0.2, buffer=4)
    assert len(list(islice(stream, 3))) == 3
    assert list(read_rows("x", kind="guitar", clips=2, seconds=0.2, columns=["file", "pedals"])[0]) == [
        "file",
        "pedals",
    ]


def test_written_clips_are_a_folder_of_recordings(tmp_path: Path) -> None:
    made = rows(clips=3)
    made.write(tmp_path / "clips")
    again = read_rows(tmp_path / "clips", kind="guitar")
    for index in range(3):
        clip = made.clip(index)
        assert again[index]["pedals"] == clip.pedals and again[index]["notes"] == clip.notes
        assert np.abs(read_audio(again[index]["file"], 16_000) - clip.sound[0]).max() < 1e-4
        assert np.array_equal(render(again[index]["recipe"]), clip.sound[0])
    with pytest.raises(DataError, match="already exists"):
        made.write(tmp_path / "clips")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clips": 0}, r"guitar\.clips is 0; it must be a whole number from 1 to 1,000,000,000"),
        ({"seconds": 0}, "seconds is 0"),
        ({"sample_rate_hz": 100}, "sample_rate_hz is 100"),
        ({"seed": -1}, "seed is -1"),
        ({"contents": "riff"}, "contents is 'riff'; it must be a list of note, chord, riff"),
        ({"contents": ["solo"]}, r"contents is \['solo'\]"),
        ({"part": "half"}, "part is 'half'; allowed: all, train, test"),
        ({"clip": 5}, "guitar: 'clip' is no option; nearest: 'clips'"),
        ({"pedals": {"phaser": 1}}, "'phaser' is no pedal"),
    ],
)
def test_options_that_there_are_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_rows("a guitar", kind="guitar", **options)
