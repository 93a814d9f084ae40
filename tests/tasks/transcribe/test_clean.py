"""Cleaning speech data outside a training: what is dropped and why, what is kept, and the table that is written."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.model import load
from glassformer.tasks.transcribe.clean import CLEANING, CleanedTable, SpeechCleaner, SpeechCleaning, outlying
from glassformer.tasks.transcribe.language import TextLanguageFilter
from glassformer.tasks.transcribe.quality import QualityFilters
from glassformer.tasks.transcribe.task import Transcribe
from tests.cli.conftest import run_here
from tests.tasks.transcribe.tones import RATE_HZ, letters_folder, whisper_folder

ENGLISH = "The cat sat on the mat and looked outside."
UKRAINIAN = "Добрий день, сьогодні ми поговоримо про погоду."
RUSSIAN = "Добрый день, сегодня мы поговорим о погоде."


def recording(path: Path, seconds: float, level: float = 0.3) -> None:
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    soundfile.write(path, (level * np.sin(2_000 * time)).astype(np.float32), RATE_HZ)


def table(folder: Path, *rows: tuple[str, float] | tuple[str, float, float], name: str = "rows.csv") -> Path:
    """A table of recordings: transcript, seconds, level."""
    (folder / "clips").mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "text", "speaker"])
        for number, (text, *sound) in enumerate(rows):
            recording(folder / "clips" / f"{number}.wav", *sound)
            writer.writerow([f"clips/{number}.wav", text, f"speaker {number}"])
    return folder / name


def test_each_reason_is_reported_with_file_and_line(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        (ENGLISH, 2.0),
        ("THE CAT SAT ON THE MAT", 2.0),
        ("the cat sat on the mat", 2.0),
        (UKRAINIAN, 2.0),
        (ENGLISH, 0.5),
        (ENGLISH, 31.0),
        (ENGLISH, 2.0, 0.0),
        ("Oh yes!", 2.0),
    )
    (tmp_path / "clips" / "7.wav").write_bytes(b"no sound")
    filters = replace(CLEANING, min_text_language_probability=0.1)
    result = SpeechCleaner(filters=filters, language="english").clean(read_rows(path))
    assert {row.where.rpartition("line ")[2]: row.reason for row in result.dropped} == {
        "3": "capitals alone",
        "4": "no capitals",
        "5": "not written in 'en'",
        "6": "more than 40 characters a second",
        "7": "longer than 30 s",
        "8": "silence, below -60 dB",
        "9": "unreadable",
    }
    assert (
        result.selected == (0,)
        and result.selected_seconds == pytest.approx(2.0)
        and result.seconds == pytest.approx(41.5)
    )
    assert result.dropped[2].figure.startswith("uk 9") and "line" in str(result)
    assert "1 of 8 rows are kept" in result.caption and result.notes == ()
    saved = json.loads(json.dumps(result.to_dict()))
    assert saved["kind"] == "speech-cleaning" and saved["reasons"]["capitals alone"] == 1
    assert SpeechCleaning.from_dict(saved) == result


def test_a_share_of_the_rows_without_speech_is_kept(tmp_path: Path) -> None:
    rows = read_rows(table(tmp_path, (ENGLISH, 2.0), *[(" ", 1.0, 0.0)] * 60))
    kept = {share: SpeechCleaner(filters=replace(CLEANING, speechless=share)).clean(rows) for share in (0.0, 0.25, 1.0)}
    assert kept[0.0].reasons == {"no transcript": 60} and kept[1.0].reasons == {}
    assert 5 <= len(kept[0.25].selected) - 1 <= 25 and list(kept[0.25].reasons) == [
        "without speech, more than are kept"
    ]
    again = SpeechCleaner(filters=replace(CLEANING, speechless=0.25)).clean(rows)
    assert again.selected == kept[0.25].selected and set(again.selected) < set(kept[1.0].selected)


def test_a_training_keeps_the_same_rows_without_speech(tmp_path: Path) -> None:
    rows = read_rows(table(tmp_path, ("ab", 1.0), *[("", 1.0)] * 20))
    filters = QualityFilters(speechless=0.3)
    task = Transcribe(load(whisper_folder(tmp_path / "model"), task=Transcribe.HEAD), filters=filters)
    cleaned = SpeechCleaner(filters=filters).clean(rows)
    with pytest.warns(UserWarning, match="without speech, more than are kept"):
        examples = task.encode(rows)
    assert len(examples) == len(cleaned.selected) > 1
    assert [row.where for row in task.dropped] == [row.where for row in cleaned.dropped]
    end = task.recogniser.labels("")[-1]  # nothing is said: the end follows the prompt
    assert examples[1]["labels"].tolist() == task.recogniser.labels("") and examples[1]["labels"][-1] == end


def test_outliers_are_far_from_the_median(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    usual = [(ENGLISH, float(seconds)) for seconds in draw.uniform(1.8, 2.2, 40)]
    path = table(tmp_path, *usual, (ENGLISH * 10, 20.0), ("Yes.", 2.0))
    result = SpeechCleaner(outliers=8.0).clean(read_rows(path))
    assert [(row.where.rpartition("line ")[2], row.reason) for row in result.dropped] == [
        ("42", "duration far from the median"),
        ("43", "characters a second far from the median"),
    ]
    assert not SpeechCleaner(outliers=None).clean(read_rows(path)).dropped
    assert outlying(dict.fromkeys(range(40), 1.0) | {40: 9.0}, 6.0) == []  # most are the same
    assert outlying({0: 1.0, 1: 99.0}, 1.0) == []  # too few


def test_a_source_in_one_case_is_said(tmp_path: Path) -> None:
    rows = read_rows(table(tmp_path, *[("the cat sat", 1.0)] * 3, (ENGLISH, 2.0)))
    result = SpeechCleaner().clean(rows)
    assert any("3 of 4 transcripts are in capitals or small letters alone" in note for note in result.notes)
    assert any("languages were not compared" in note for note in result.notes)
    assert len(SpeechCleaner(filters=replace(CLEANING, mixed_case=False)).clean(rows).selected) == 4


def test_languages_of_transcripts() -> None:
    pytest.importorskip("py3langid")
    ukrainian = TextLanguageFilter("Ukrainian", 0.1)
    assert ukrainian.language == "uk" and ukrainian.problem(UKRAINIAN) is None
    assert ukrainian.problem("so") is None  # too short to tell
    assert ukrainian.problem(RUSSIAN) == ("not written in 'uk'", "ru 99%, uk <1%")
    with pytest.raises(ConfigError, match=r"the languages of transcripts are .*; got 'klingon'"):
        TextLanguageFilter("klingon", 0.1)


def test_a_training_leaves_transcripts_in_another_language_out(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    model = load(whisper_folder(tmp_path / "model", multilingual=True), task=Transcribe.HEAD)
    filters = {"min_text_language_probability": 0.1}
    task = Transcribe(model, language="uk", filters=filters)
    with pytest.warns(UserWarning, match="1 of 2 recordings were left out"):
        task.encode(read_rows(table(tmp_path, (RUSSIAN, 2.0), ("ab", 1.0))))
    assert [row.reason for row in task.dropped] == ["not written in 'uk'"]
    with pytest.raises(ConfigError, match="min_text_language_probability is of the language of the recordings"):
        Transcribe(load(letters_folder(tmp_path / "letters"), task=Transcribe.HEAD), filters=filters)


def test_the_command_writes_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "data", (ENGLISH, 2.0), ("THE CAT SAT", 2.0), ("", 1.0))
    clean, dropped = tmp_path / "data" / "clean.csv", tmp_path / "dropped.jsonl"
    line = ("data", "clean", path, "--output", clean, "--dropped", dropped, "--speechless", "0")
    done = run_here(capsys, *line)
    assert done.returncode == 0 and "1 of 3 rows are kept" in done.stdout and "capitals alone" in done.stdout, done
    assert [dict(row) for row in read_rows(clean)] == [{"file": "clips/0.wav", "text": ENGLISH, "speaker": "speaker 0"}]
    reasons = [json.loads(each)["reason"] for each in dropped.read_text("utf-8").splitlines()]
    assert reasons == ["capitals alone", "no transcript"]
    assert "already exists" in run_here(capsys, *line).stderr
    done = run_here(capsys, "data", "clean", path, "--language", "en", "--language-model", tmp_path / "nowhere")
    assert done.returncode == 2 and "nowhere" in done.stderr, "a folder of a model, and no n-gram file"
    report = json.loads(run_here(capsys, "data", "clean", path, "--one-case", "--json").stdout)
    assert 1 in report["selected"] and report["kind"] == "speech-cleaning"


def test_an_audio_folder_gives_a_table_of_its_own_paths(tmp_path: Path) -> None:
    table(tmp_path, (ENGLISH, 1.5), name="metadata.csv")
    rows = read_rows(str(tmp_path))
    output = CleanedTable(tmp_path / "clean.csv", rows, column="file")
    output.write(SpeechCleaner().clean(rows).selected)
    (row,) = read_rows(tmp_path / "clean.csv")
    assert row["file"] == "clips/0.wav"
    with pytest.raises(DataError, match="is not below its folder; write the table next to the recordings"):
        CleanedTable(tmp_path / "elsewhere" / "clean.csv", rows, column="file")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: SpeechCleaner(outliers=0.0), "outliers is 0"),
        (lambda: SpeechCleaner(filters=QualityFilters(min_text_language_probability=0.5)), "needs the language"),
        (lambda: SpeechCleaner(filters=QualityFilters(min_language_probability=0.5), language="en"), "multilingual"),
        (lambda: QualityFilters(speechless=1.5), r"filters.speechless is 1.5; it must be a number from 0 to 1"),
    ],
)
def test_options_that_cannot_be(wrong: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        wrong()
