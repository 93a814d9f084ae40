"""Folders of real recordings: the layouts of the IDMT-SMT data sets, a table, and what is wrong with them."""

from __future__ import annotations

import wave
from pathlib import Path

import pytest

from glassformer.data.rows import read_rows
from glassformer.errors import DataError

EVENT = """<event><pitch>45</pitch><onsetSec>0.5</onsetSec><offsetSec>1.25</offsetSec><fretNumber>5</fretNumber>
<stringNumber>1</stringNumber><excitationStyle>PK</excitationStyle><expressionStyle>NO</expressionStyle></event>"""


def wav(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
        file.writeframes(b"\1\0" * 100)
    return path


def annotate(path: Path, events: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<instrumentRecording><transcription>{events}</transcription></instrumentRecording>")


def test_idmt_smt_guitar(tmp_path: Path) -> None:
    wav(tmp_path / "dataset1" / "Fender Strat" / "audio" / "G53-40100.wav")
    annotate(tmp_path / "dataset1" / "Fender Strat" / "annotation" / "G53-40100.xml", EVENT)
    [row] = read_rows(tmp_path, kind="guitar")
    assert row["pedals"] == [] and row["file"].endswith("G53-40100.wav")
    assert row["notes"] == [
        {"string": 0, "fret": 5, "midi": 45, "start_s": 0.5, "seconds": 0.75, "velocity": 1.0, "damped": 1.0}
    ]


def test_idmt_smt_audio_effects(tmp_path: Path) -> None:
    samples = tmp_path / "Gitarre monophon" / "Samples"
    for effect in ("NoFX", "Chorus", "FeedbackDelay", "Phaser"):
        wav(samples / effect / "G61-45105-1111-20593.wav")
    with pytest.warns(UserWarning, match="left out, since there are no such pedals: 1 of Phaser"):
        rows = read_rows(tmp_path, kind="guitar")
    assert [row["pedals"] for row in rows] == [["chorus"], ["delay"], []]
    assert [(note["midi"], note["string"], note["fret"]) for note in rows[0]["notes"]] == [(45, 0, 5)]


def test_a_table(tmp_path: Path) -> None:
    wav(tmp_path / "a.wav")
    wav(tmp_path / "b.wav")
    table = tmp_path / "metadata.csv"
    table.write_text("file_name,pedals\na.wav,overdrive > delay\nb.wav,\n")
    assert [row["pedals"] for row in read_rows(tmp_path, kind="guitar")] == [["overdrive", "delay"], []]
    table.write_text("file_name,pedals\na.wav,overdrive\nb.wav,phaser\n")
    with pytest.raises(DataError, match=r"metadata\.csv: line 3: 'phaser' is no pedal"):
        read_rows(tmp_path, kind="guitar")
    table.write_text("file_name,pedals\na.wav,overdrive\nmissing.wav,delay\n")
    with pytest.raises(DataError, match=r"metadata\.csv: line 3: .*missing\.wav"):
        read_rows(tmp_path, kind="guitar")


@pytest.mark.parametrize(
    "notes", ['"C4"', "7", '[{"midi": 40}]', '[{"midi": 40, "start_s": "0", "seconds": 1}]', "[3]"]
)
def test_notes_of_a_table_have_pitch_and_times(notes: str, tmp_path: Path) -> None:
    wav(tmp_path / "a.wav")
    table = tmp_path / "metadata.jsonl"
    table.write_text(f'{{"file_name": "a.wav", "notes": {notes}}}\n')
    with pytest.raises(DataError, match=r"metadata\.jsonl: line 1: notes is .*; it must be a list of notes, each with"):
        read_rows(tmp_path, kind="guitar", clips=3)
    table.write_text('{"file_name": "a.wav", "notes": [{"midi": 40, "start_s": 0, "seconds": 1.5}]}\n')
    assert read_rows(tmp_path, kind="guitar")[0]["notes"][0]["midi"] == 40


def test_a_broken_link_is_not_its_own_neighbour(tmp_path: Path) -> None:
    wav(tmp_path / "a1.wav")
    (tmp_path / "a.wav").symlink_to(tmp_path / "gone.wav")
    with pytest.raises(
        DataError, match=r"a\.wav: cannot be opened: No such file or directory; nearest: '[^']*a1\.wav'$"
    ):
        read_rows(tmp_path, kind="guitar", clips=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<a><event><pitch>4", "invalid XML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "declares a document type"),
        ("<a><event><pitch>x</pitch><onsetSec>0</onsetSec><offsetSec>1</offsetSec></event></a>", "pitch is 'x'"),
        ("<a><event><pitch>4</pitch><offsetSec>1</offsetSec></event></a>", "event 0: onsetSec is None"),
    ],
)
def test_annotations_that_cannot_be_read(content: str, message: str, tmp_path: Path) -> None:
    wav(tmp_path / "audio" / "a.wav")
    (tmp_path / "annotation").mkdir()
    (tmp_path / "annotation" / "a.xml").write_text(content)
    with pytest.raises(DataError, match=rf"a\.xml: .*{message}"):
        read_rows(tmp_path, kind="guitar")


def test_folders_without_recordings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no recordings of a guitar; needed: a metadata\.csv"):
        read_rows(tmp_path, kind="guitar")
    with pytest.raises(DataError, match="holds no audio"):
        read_rows(tmp_path, kind="guitar", clips=3)
    with pytest.raises(DataError, match="is not a folder"):
        read_rows(wav(tmp_path / "a.wav"), kind="guitar")
