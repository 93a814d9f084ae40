"""Folders of sound: by folders of labels, and by a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import DataError
from glassformer.data.audio_folder import sound_files
from glassformer.data.rows import read_rows


def clips(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"RIFF" + name.encode())
    return folder


def test_folders_of_labels(tmp_path: Path) -> None:
    clips(tmp_path, "one/b.wav", "one/a.WAV", "zero/deep/c.flac")
    (tmp_path / "one" / "notes.md").write_text("no sound")
    rows = read_rows(tmp_path)
    assert [row["label"] for row in rows] == ["one", "one", "zero"] and rows.columns == ("file", "label")
    assert rows[0]["file"] == str(tmp_path / "one/a.WAV") == rows.where(0)
    before = rows.fingerprint
    assert read_rows(tmp_path).fingerprint == before
    (tmp_path / "one/b.wav").write_bytes(b"RIFF longer than it was")
    assert read_rows(tmp_path).fingerprint != before
    clips(tmp_path, "d.ogg")
    with pytest.raises(DataError, match=r"d\.ogg lies next to folders of labels"):
        read_rows(tmp_path)


def test_files_alone(tmp_path: Path) -> None:
    assert list(read_rows(clips(tmp_path, "a.mp3"))) == [{"file": str(tmp_path / "a.mp3")}]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("metadata.csv", "file_name,text\na.wav,Good morning\nsub/b.wav,Night\n"),
        ("manifest.tsv", "text\tpath\nGood morning\ta.wav\nNight\tsub/b.wav\n"),
        (
            "metadata.jsonl",
            '{"file": "a.wav", "text": "Good morning"}\n{"file": "sub/b.wav", "text": "Night"}',
        ),
    ],
)
def test_tables(tmp_path: Path, table: str, text: str) -> None:
    clips(tmp_path, "a.wav", "sub/b.wav", "unlisted.wav")
    (tmp_path / table).write_text(text)
    rows = read_rows(tmp_path, columns=["file", "text"])
    assert list(rows) == [
        {"file": str(tmp_path / "a.wav"), "text": "Good morning"},
        {"file": str(tmp_path / "sub/b.wav"), "text": "Night"},
    ]
    assert rows.where(1).startswith(f"{tmp_path / table}: line ")
    (tmp_path / "sub/b.wav").unlink()
    with pytest.raises(DataError, match=rf"{table}: line .*sub/b\.wav: No such file"):
        read_rows(tmp_path)


def test_what_is_no_folder_of_sound(tmp_path: Path) -> None:
    clips(tmp_path, "a.wav")
    with pytest.raises(DataError, match=r"a\.wav: is not a folder; audio is read from a folder"):
        read_rows(tmp_path / "a.wav", kind="audio")
    (tmp_path / "metadata.csv").write_text("name,text\na.wav,Hello\n")
    with pytest.raises(DataError, match=r"no column 'file_name'; .* one must name the files: file_name, path, file"):
        read_rows(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: holds no audio"):
        read_rows(tmp_path / "empty", kind="audio")


def test_recordings_of_files_and_folders(tmp_path: Path) -> None:
    clips(tmp_path, "b.wav", "a/talk.MP4", "a/deep/c.flac", "none/notes.txt")
    found = sound_files([tmp_path / "b.wav", str(tmp_path / "a")])
    assert found == [tmp_path / "b.wav", tmp_path / "a/deep/c.flac", tmp_path / "a/talk.MP4"]
    assert sound_files([tmp_path / "missing.wav"]) == [tmp_path / "missing.wav"], "who reads it says so"
    with pytest.raises(DataError, match=r"none holds no audio or video file; known suffixes: .*\.mp4"):
        sound_files([tmp_path / "none"])
