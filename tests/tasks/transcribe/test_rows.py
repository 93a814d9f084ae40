"""Recordings of rows: from folders, tables, Parquet, data sets and lists; what is refused, and what is left out."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.transcribe.quality import QualityFilters, level_db
from glassformer.tasks.transcribe.task import Transcribe
from tests.tasks.transcribe.tones import RATE_HZ, spoken, write_table


@pytest.fixture(scope="module")
def model(letters: Path) -> glassformer.Model:
    return glassformer.load(letters, task="automatic-speech-recognition", offline=True)


def table(folder: Path, *names: str, text: str = "ab") -> Path:
    """A table, no audio folder, of these files."""
    path = folder / "rows.csv"
    path.write_text("file,text\n" + "".join(f'"{name}",{text}\n' for name in names), encoding="utf-8")
    return path


def wav_bytes(samples: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, RATE_HZ, format="WAV")
    return buffer.getvalue()


def test_the_same_examples_from_every_source(model: glassformer.Model, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    datasets = pytest.importorskip("datasets")
    write_table(tmp_path / "a", 3)
    folder = read_rows(str(tmp_path / "a"))
    listed = read_rows(str(table(tmp_path / "a", "clips/0-0.wav", "clips/0-1.wav", "clips/0-2.wav")))
    contents = [Path(row["file"]).read_bytes() for row in folder]
    texts = [row["text"] for row in folder]
    inside = {"audio": [{"bytes": x, "path": "x.wav"} for x in contents], "text": texts}
    parquet.write_table(arrow.table(inside), tmp_path / "a.parquet")
    hub = datasets.Dataset.from_dict(inside).cast_column("audio", datasets.Audio())
    samples = [{"array": soundfile.read(io.BytesIO(x))[0].tolist(), "sampling_rate": RATE_HZ} for x in contents]
    audio = {"audio": "audio"}
    sources = [
        (folder, {}),
        (listed, {}),
        (read_rows([{"file": row["file"], "text": row["text"]} for row in folder]), {}),
        (read_rows([{"audio": x, "text": text} for x, text in zip(contents, texts, strict=True)]), audio),
        (read_rows([{"audio": x, "text": text} for x, text in zip(samples, texts, strict=True)]), audio),
        (read_rows(str(tmp_path / "a.parquet")), audio),
        (read_rows(hub), audio),
    ]
    expected = [example["samples"].tolist() for example in Transcribe(model).encode(folder)]  # type: ignore[attr-defined]
    for rows, columns in sources:
        examples = Transcribe(model, columns=columns).encode(rows)
        assert [examples[i]["samples"].tolist() for i in range(3)] == expected


@pytest.mark.parametrize("name", ["../b.wav", "/etc/hostname", "clips/../../b.wav", "link.wav", "a\0b.wav"])
def test_a_file_outside_the_folder_is_refused(model: glassformer.Model, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a"
    (folder / "clips").mkdir(parents=True)
    (tmp_path / "b.wav").write_bytes(wav_bytes(spoken("a", np.random.default_rng(0))))
    os.symlink(tmp_path / "b.wav", folder / "link.wav")
    rows = read_rows([{"file": name, "text": "a"}]) if "\0" in name else read_rows(str(table(folder, name)))
    message = "cannot be opened" if "\0" in name else r"rows.csv: line 2: .*lies outside the folder .*put the file"
    with pytest.raises(DataError, match=message):
        Transcribe(model).encode(rows)
    if "\0" in name:
        return
    (folder / "rows.csv").rename(folder / "metadata.csv")
    if name == "link.wav":  # an audio folder lists what lies in it, which is read by its path
        (folder / "metadata.csv").write_text(f"path,text\n{name},a\n")
    with pytest.raises(DataError, match=r"metadata.csv: line 2: .*lies outside the folder"):
        read_rows(str(folder), kind="audio")
    if name == "../b.wav":  # a folder that the user names may be above the table
        (folder / "metadata.csv").rename(folder / "rows.csv")
        table(folder, "b.wav")
        assert len(Transcribe(model, folder=str(tmp_path)).encode(read_rows(str(folder / "rows.csv")))) == 1


def test_recordings_that_cannot_be_read(model: glassformer.Model, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("this is no sound", encoding="utf-8")
    (tmp_path / "good.wav").write_bytes(wav_bytes(spoken("ab", np.random.default_rng(0))))
    (tmp_path / "cut.flac").write_bytes(b"fLaC" + b"\0" * 40)
    for name in ("text.wav", "cut.flac", "missing.wav"):
        rows = read_rows(str(table(tmp_path, "good.wav", name)))
        with pytest.raises(DataError, match=rf"rows.csv: line 3: .*{name}"):
            Transcribe(model).encode(rows)
        task = Transcribe(model, filters={"skip_unreadable": True})
        with pytest.warns(UserWarning, match=r"1 of 2 recordings were left out: 1 unreadable \(.*line 3"):
            assert len(task.encode(rows)) == 1
    for value in (None, 3, {"array": [0.1]}, {"bytes": None, "path": None}, ["a"]):
        with pytest.raises(DataError, match=r"row 0: 'file'"):
            Transcribe(model).encode(read_rows([{"file": value, "text": "a"}]))
    with pytest.raises(DataError, match="row 0: 'text' is None; it must be a text"):
        Transcribe(model).encode(read_rows([{"file": str(tmp_path / "good.wav"), "text": None}]))
    with pytest.raises(DataError, match=r"no column 'file'.*columns=\{'audio': NAME\}$"):
        Transcribe(model).encode(read_rows([{"sound": "a.wav", "text": "a"}]))


def test_what_teaches_nothing_is_left_out_with_its_reason(model: glassformer.Model, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    sounds = {
        "good": (spoken("abab", draw), "abab"),
        "empty": (spoken("abab", draw), " "),
        "short": (spoken("a", draw)[:900], "a"),
        "long": (np.tile(spoken("abab", draw), 3), "abababab"),
        "fast": (spoken("abab", draw), "ab " * 12),
        "silent": (np.zeros(16_000, np.float32), "ab"),
        "letters": (spoken("a", draw)[:2_000], "abab"),
    }
    rows = [
        {"file": {"array": samples.tolist(), "sampling_rate": RATE_HZ}, "text": text}
        for samples, text in sounds.values()
    ]
    filters = {"max_seconds": 2.0, "min_seconds": 0.1}
    task = Transcribe(model, filters={**filters, "max_characters_per_second": 35}, report=str(tmp_path / "out.jsonl"))
    with pytest.warns(UserWarning, match=r"6 of 7 recordings were left out: 1 no transcript \(the list: row 1\); 1"):
        examples = task.encode(read_rows(rows))
    assert len(examples) == 1
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(int(line["where"].split()[-1]), line["reason"]) for line in lines] == [
        (1, "no transcript"),
        (2, "shorter than 0.1 s"),
        (3, "longer than 2 s"),
        (4, "more than 35 characters a second"),
        (5, "silence, below -60 dB"),
        (6, "more letters than frames"),
    ]
    with pytest.raises(DataError, match="no recording is left to learn from: 1 of 1"):
        Transcribe(model).encode(read_rows(rows[1:2]))
    with pytest.raises(ConfigError, match=r"filters\.min_seconds is -1"):
        QualityFilters(min_seconds=-1)
    tone = np.sin(np.arange(16_000)).astype(np.float32)
    written = {"Ні, дякую.": None, "НІ, ДЯКУЮ": "capitals alone", "no thanks": "no capitals", "42": None, "我": None}
    for text, reason in written.items():
        problem = QualityFilters(mixed_case=True).problem(tone, RATE_HZ, text)
        assert (problem and problem[0]) == reason and QualityFilters().problem(tone, RATE_HZ, text) is None
    assert level_db(tone, RATE_HZ) == pytest.approx(-3.0, abs=0.1) and level_db(tone[:1] * 0, RATE_HZ) == -np.inf


def test_another_recording_of_the_same_name_is_read_again(model: glassformer.Model, tmp_path: Path) -> None:
    write_table(tmp_path / "a", 2)
    path = table(tmp_path / "a", "clips/0-0.wav")
    first = Transcribe(model).encode(read_rows(str(path)), cache=tmp_path / "cache")
    (tmp_path / "a" / "clips" / "0-0.wav").write_bytes((tmp_path / "a" / "clips" / "0-1.wav").read_bytes())
    second = Transcribe(model).encode(read_rows(str(path)), cache=tmp_path / "cache")
    assert first.fingerprint != second.fingerprint
