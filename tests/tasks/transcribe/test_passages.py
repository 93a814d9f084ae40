"""Timestamps in training: what is taught of rows with times, with the ids of the reference's tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.runs import open_run
from glassformer.model import Model
from glassformer.speech.results import Segment
from glassformer.tasks.transcribe.passages import AudioPassage, joined, passage_of
from glassformer.tasks.transcribe.recognisers import DecoderRecogniser
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.training.run import make_trainer
from tests.tasks.transcribe.tones import RATE_HZ, WORDS, configured, spoken, whisper_folder

COLUMNS = {"audio": "file", "text": "text", "segments": "segments", "start": "start", "end": "end"}
HALVES = [{"start": 0.0, "end": 0.4, "text": " aa"}, {"start": 0.44, "end": 0.9, "text": "bb"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(whisper_folder(tmp_path_factory.mktemp("several"), multilingual=True), offline=True)


@pytest.mark.parametrize("size", ["tiny", "base"])
def test_ids_are_the_references(whisper: Callable[[str], Path], size: str) -> None:
    from transformers import AddedToken, WhisperTokenizer

    folder = whisper(size)
    theirs: Any = WhisperTokenizer.from_pretrained(folder, local_files_only=True)
    stamps = [AddedToken(f"<|{i * 0.02:.2f}|>", special=False, normalized=False) for i in range(1501)]
    theirs.add_tokens(stamps)  # the converted folders leave them out
    several = {} if size == "tiny" else {"language": "de", "task": "translate"}
    theirs.set_prefix_tokens(**several, predict_timestamps=True)
    ours = glassformer.load(folder, offline=True, task=Transcribe.HEAD)
    recogniser = DecoderRecogniser(ours, *(("de", "translate") if several else (None, "transcribe")), "window")
    for segments in (
        [Segment(0.0, 2.0, " And so my fellow")],
        [Segment(0.0, 7.74, " And so,"), Segment(7.74, 10.1, " ask not 12 things")],
        [Segment(0.31, 29.5, "é!"), Segment(29.5, 30.0, "x")],
    ):
        bounds = [[f"<|{round(time / 0.02) * 0.02:.2f}|>" for time in (each.start, each.end)] for each in segments]
        text = "".join(f"{a} {each.text.strip()}{b}" for each, (a, b) in zip(segments, bounds, strict=True))
        made = recogniser.labels("not read", segments)
        assert [recogniser.vocabulary.start, *made] == theirs(text).input_ids


def test_rows_with_segments_and_rows_without(model: Model, tmp_path: Path) -> None:
    sound = {"array": np.sin(np.arange(16_000)).tolist(), "sampling_rate": RATE_HZ}
    rows = [{"file": sound, "text": "aa bb", "segments": segments} for segments in (HALVES, None, [])]
    rows.append({"file": sound, "text": "aa", "segments": [{"start": 0.2, "end": 1.3, "text": "aa"}]})
    task = Transcribe(model, language="en", timestamps=True)
    with pytest.warns(
        UserWarning, match=r"1 of 4 recordings were left out: 1 a segment ends after the recording .*1.3 s"
    ):
        examples = task.encode(read_rows(rows))
    vocabulary = task.recogniser.vocabulary  # type: ignore[attr-defined]
    prompt, first = vocabulary.prompt("en", timestamps=True)[1:], vocabulary.first_timestamp
    tokens = [model.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (" aa", " bb", " aa bb")]
    timed = [*prompt, first, *tokens[0], first + 20, first + 22, *tokens[1], first + 45, vocabulary.end]
    plain = [*prompt, vocabulary.no_timestamps, *tokens[2], vocabulary.end]
    assert [examples[i]["labels"].tolist() for i in range(3)] == [timed, plain, plain]
    assert task.collate([examples[0]]).texts == ("aa bb",)
    without = Transcribe(model, language="en")
    assert "segments" not in without.columns.values()
    assert without.encode(read_rows(rows))[0]["labels"].tolist() == plain


def test_a_table_of_segments(model: Model, tmp_path: Path) -> None:
    """Neighbours share a window, here of one second; each row is evaluated on its stretch of the recording."""
    lecture = np.linspace(0.1, 0.9, 8 * RATE_HZ).astype(np.float32)
    soundfile.write(tmp_path / "lecture.wav", lecture, RATE_HZ)
    lines = ["file,start,end,text", "lecture.wav,0.5,1.1,aa", "lecture.wav,1.2,1.5,bb", "lecture.wav,1.6,2.9,ab"]
    lines += ["lecture.wav,5,5.6,ba", "lecture.wav,5.6,6.0,aa"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    rows = read_rows(str(tmp_path / "rows.csv"))
    task = Transcribe(model, language="en", timestamps=True)
    with pytest.warns(UserWarning, match=r"1 later than the last timestamp of the model \(.*line 4\)"):
        examples = task.encode(rows)
    first = task.recogniser.vocabulary.first_timestamp  # type: ignore[attr-defined]
    stamps = [[int(x) - first for x in examples[i]["labels"] if x >= first] for i in range(len(examples))]
    assert stamps == [[0, 30, 35, 50], [0, 30, 30, 50]]
    for i, (begin, end) in enumerate([(0.5, 1.5), (5.0, 6.0)]):
        expected = lecture[round(begin * RATE_HZ) : round(end * RATE_HZ)]
        assert np.abs(examples[i]["samples"] / 32_768 - expected).max() < 1e-3
    found = list(task.for_evaluation().predict(rows))
    assert [each.label for each in found] == ["aa", "bb", "ab", "ba", "aa"]


@pytest.mark.parametrize("recogniser", ["letters", "whisper_of_bytes"])
def test_a_table_of_segments_without_teaching_times(
    recogniser: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each row is its stretch of the recording, for a model that has no timestamps too; never the whole recording."""
    lecture = np.sin(np.arange(3 * RATE_HZ)).astype(np.float32)
    soundfile.write(tmp_path / "lecture.wav", lecture, RATE_HZ)
    lines = ["file,start,end,text", "lecture.wav,0.5,1.1,aa", "lecture.wav,1.1,1.9,bb", "lecture.wav,2.5,3.9,ab"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    rows = read_rows(str(tmp_path / "rows.csv"))
    task = Transcribe(glassformer.load(request.getfixturevalue(recogniser), task=Transcribe.HEAD, offline=True))
    with pytest.warns(UserWarning, match=r"1 of 3 .*: 1 a segment ends after the recording \(.*line 4"):
        examples = task.encode(rows)
    assert [len(examples[i]["samples"]) / RATE_HZ for i in range(2)] == [0.6, 0.8]
    whole = task.encode(read_rows([{"file": {"array": lecture[:9_600], "sampling_rate": RATE_HZ}, "text": "aa"}]))
    assert examples[0]["labels"].tolist() == whole[0]["labels"].tolist(), "no times are taught"


def test_segments_outside_the_recording(model: Model, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.sin(np.arange(16_000)), RATE_HZ)
    lines = ["a.wav,0.1,0.9,aa", "a.wav,5,5.8,bb", "a.wav,0.99,1.9,ab", "a.wav,0.50000,0.50001,ba"]
    (tmp_path / "rows.csv").write_text("\n".join(["file,start,end,text", *lines]))
    rows = read_rows(str(tmp_path / "rows.csv"))
    unlimited = {"min_seconds": 0, "max_characters_per_second": None, "min_level_db": None}
    task = Transcribe(model, language="en", timestamps=True, filters=unlimited)
    with pytest.warns(
        UserWarning, match=r"3 of 4 .*: 2 a segment ends after the recording \(.*0.0 s\); 1 shorter than 0 s"
    ):
        assert len(task.encode(rows)) == 1
    with pytest.raises(DataError, match=r"line 3: the recording has no sound from 5 to 5.8 s"):
        list(task.for_evaluation().predict(rows))


def test_times_follow_the_speed(model: Model) -> None:
    sound = {"array": np.sin(np.arange(14_400)).tolist(), "sampling_rate": RATE_HZ}
    rows = read_rows([{"file": sound, "text": "aa bb", "segments": HALVES}])
    for speed, last in ((1.25, 36), (0.9, 50), (0.5, 45)):  # half as fast there are no timestamps for it: as it was
        task = Transcribe(model, language="en", timestamps=True, augmentation={"speed": [speed]})
        first = task.recogniser.vocabulary.first_timestamp  # type: ignore[attr-defined]
        labels = task.perturb(task.encode(rows)[0], np.random.default_rng(0))["labels"]
        assert [x - first for x in labels if x >= first] == [0, *np.round(np.array([20, 22, 45]) * last / 45).tolist()]


def test_passages_that_are_joined() -> None:
    def row(sound: Any, begin: float, end: float | None) -> AudioPassage:
        return AudioPassage(0, sound, "a", begin, end, (Segment(0.0, (end or 0.0) - begin, "a"),))

    rows = [row("a", 0, 1), row("a", 1.5, 2), row("a", 3.1, 4), row("b", 4.2, 5), row("b", 4.9, 6), row("b", 0.0, None)]
    assert [len(each.segments) for each in joined(rows, 30.0)] == [2, 1, 1, 1, 1]
    assert [len(each.segments) for each in joined(rows, 1.9)] == [1] * 6
    assert list(joined([], 30.0)) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"segments": "0-1"}, "'segments' is '0-1'; it must be a list of segments"),
        ({"segments": [[0, 1, "a"]]}, "it must be a list of segments"),
        ({"segments": [{"start": 0, "end": 1}]}, "'text' is None"),
        ({"segments": [{"start": -1, "end": 1, "text": "a"}]}, r"'segments\[0\].start' is -1; it must be a time"),
        ({"segments": [{"start": 1, "end": 1, "text": "a"}]}, r"segments\[0\] is from 1 to 1 s"),
        ({"segments": [HALVES[1], HALVES[0]]}, r"segments\[1\] is from 0 to 0.4 s; it must begin at 0.9 s or later"),
        ({"start": "x", "end": 1}, "'start' is 'x'; it must be a time in seconds"),
        ({"start": 1}, "'end' is None"),
        ({"start": float("nan"), "end": 1}, "'start' is nan"),
        ({"start": 3, "end": "2.5"}, "ends at 2.5 s, and begins at 3 s"),
    ],
)
def test_times_that_are_none(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        passage_of(0, {"file": "a.wav", "text": "a", **row}, COLUMNS)


def test_letters_have_no_timestamps(letters: Path) -> None:
    with pytest.raises(ConfigError, match="writes no times"):
        Transcribe(glassformer.load(letters, offline=True), timestamps=True)


def test_a_run_on_a_table_of_segments(tmp_path: Path) -> None:
    """Columns of other names; no recording in both parts; rows of one recording are no leak; evaluated row by row."""
    draw, lines = np.random.default_rng(0), ["path,from,to,text"]
    for file in range(3):
        sounds = [spoken(word, draw) for word in WORDS]
        soundfile.write(tmp_path / f"{file}.wav", np.concatenate(sounds), RATE_HZ)
        ends = np.cumsum([len(sound) for sound in sounds]) / RATE_HZ
        for word, begin, end in zip(WORDS, [0.0, *ends], ends, strict=False):
            lines.append(f"{file}.wav,{begin:.4f},{end:.4f},{word}")
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    data: dict[str, Any] = {"train": str(tmp_path / "rows.csv"), "validation": 0.34, "groups": "path"}
    data["columns"] = {"audio": "path", "start": "from", "end": "to"}
    model = str(whisper_folder(tmp_path / "model"))
    given: dict[str, Any] = {"model": model, "training": {"steps": 1, "validate_every": 1}}
    trainer = make_trainer(configured(tmp_path / "run", data, task_options={"timestamps": True}, **given))
    trainer.train()
    found = open_run(tmp_path / "run").evaluate(resamples=20, baselines=False)
    assert [each.label for each in found.predictions] == list(WORDS)
    data["columns"]["segments"] = "parts"
    with pytest.raises(ConfigError, match="a column for 'segments' is read with timestamps: true"):
        make_trainer(configured(tmp_path / "none", data, model=model))
