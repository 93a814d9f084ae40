"""Folders that an earlier process left, and that may come from elsewhere: no link in them is written through."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.files import append_handle
from glassformer.files.atomic import remove_folder
from glassformer.files.lock import FolderLock
from glassformer.hub.data_sets import _receive
from glassformer.inspect.embeddings.embedding_map import _write_lines
from glassformer.reports.page import write_page
from glassformer.runs.folder import EventLog
from glassformer.speech.job import _claim
from glassformer.training.trackers import _run_id

THESIS = b"many years of work, and no newline"


def hold(path: Path) -> None:
    with FolderLock(path):
        pass


class Answer:
    """What the Hub's client gives of a request."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.url = self

    path = "/a.txt"

    def iter_bytes(self) -> list[bytes]:
        return [b"downloaded"]


WRITERS: dict[str, Callable[[Path], object]] = {
    "journal": lambda path: EventLog(path).close(),
    "lock": hold,
    "download": lambda path: _receive(Answer(), path, resumed=True),
    "new download": lambda path: _receive(Answer(), path, resumed=False),
    "tracker": lambda path: _run_id(path, fresh=True),
    "curves": lambda path: write_page(path, "<p>"),
    "vectors": lambda path: _write_lines(path, ["1"]),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_link_is_not_written_through(tmp_path: Path, writer: str, whole: bool) -> None:
    """The file that it leads to stays as it is, and is not made where it is missing: refused, or the link replaced."""
    thesis, path = tmp_path / "thesis.txt", tmp_path / "run" / "name"
    if whole:
        thesis.write_bytes(THESIS)
    path.parent.mkdir()
    path.symlink_to(thesis)
    try:
        WRITERS[writer](path)
    except (DataError, ConfigError, OSError) as error:
        assert "is a symbolic link" in str(error)
        assert path.is_symlink()
    else:
        assert not path.is_symlink()
    assert (thesis.read_bytes() == THESIS) if whole else not thesis.exists()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_only_a_regular_file_is_appended_to(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "x") if kind == "pipe" else (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match="not a regular file" if kind == "pipe" else "directory"):
        append_handle(tmp_path / "x")
    with pytest.raises(DataError, match="the log cannot be opened"):
        EventLog(tmp_path / "x")


def test_a_record_that_cannot_be_opened_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _claim(tmp_path, "/talks/a.flac", "a", ())
    written = record.read_bytes()

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        with pytest.raises(DataError, match="Too many open files"):
            _claim(tmp_path, "/talks/a.flac", "a", ())
    assert record.read_bytes() == written


def test_of_a_linked_folder_the_link_alone_is_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "thesis.txt").write_bytes(THESIS)
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for name in ("link", "nowhere", "absent"):
        remove_folder(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "thesis.txt").read_bytes() == THESIS
    remove_folder(tmp_path / "kept")
    assert not list(tmp_path.iterdir())
