"""Which files of a folder are read: excludes, links, sizes and names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.retrieval.folder import FolderFile, Skipped, content_hash, walk
from glassformer.retrieval.options import DocumentOptions

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs links and names of POSIX")


def names(folder: Path, **options: object) -> list[str]:
    return [item.name for item in walk(folder, DocumentOptions(**options)) if isinstance(item, FolderFile)]  # type: ignore[arg-type]


def skipped(folder: Path, **options: object) -> dict[str, str]:
    return {x.name: x.reason for x in walk(folder, DocumentOptions(**options)) if isinstance(x, Skipped)}  # type: ignore[arg-type]


def fill(folder: Path, *files: str) -> Path:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
    return folder


def test_files_come_in_order_with_their_paths(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.md", "a/b/c.txt", "Z.txt")
    items = list(walk(tmp_path))
    assert [item.name for item in items] == ["Z.txt", "a/b/c.txt", "a/z.md", "b.txt"]
    assert items[0] == FolderFile("Z.txt", tmp_path / "Z.txt")


def test_an_empty_folder_has_no_file(tmp_path: Path) -> None:
    assert list(walk(tmp_path)) == []


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such folder"):
        list(walk(tmp_path / "missing"))
    with pytest.raises(DataError, match="is not a folder"):
        list(walk(fill(tmp_path, "a.txt") / "a.txt"))


def test_hidden_names_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", ".git/config", ".hidden.md", "b/.cache/c.txt")
    assert names(tmp_path) == ["a.txt"] and not skipped(tmp_path)
    assert names(tmp_path, hidden=True) == [".git/config", ".hidden.md", "a.txt", "b/.cache/c.txt"]


def test_excludes_follow_the_rules_of_gitignore(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "a.log", "build/x.txt", "src/build/y.txt", "src/keep.log", "top/z.txt", "src/top/z.txt")
    assert names(tmp_path, exclude=["*.log", "!keep.log", "build/", "/top"]) == [
        "a.txt", "src/keep.log", "src/top/z.txt"
    ]  # fmt: skip
    with pytest.raises(DataError, match="exclude"):
        names(tmp_path, exclude=["!"])
    with pytest.raises(ConfigError, match="exclude"):
        DocumentOptions(exclude=[3])  # type: ignore[list-item]


def test_gitignore_files_count_for_their_folder_and_below(tmp_path: Path) -> None:
    fill(tmp_path, "a.log", "src/a.log", "src/b.txt", "src/deep/only/c.txt", "b.txt")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "src/.gitignore").write_text("!a.log\n/b.txt\nonly/\n")
    assert names(tmp_path) == ["b.txt", "src/a.log"]
    assert len(names(tmp_path, gitignore=False)) == 5
    assert names(tmp_path, exclude=["a.log"]) == ["b.txt"]  # which no .gitignore takes back


def test_a_gitignore_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt")
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe*.txt")
    assert names(tmp_path) == ["a.txt"]
    assert "not UTF-8" in skipped(tmp_path)[".gitignore"]


def test_files_beyond_the_limit_are_listed_with_it(tmp_path: Path) -> None:
    with (fill(tmp_path, "a.txt") / "big.txt").open("wb") as file:
        file.truncate(1 << 30)  # 1 GiB that takes no room on the disk
    assert names(tmp_path) == ["a.txt"]
    assert skipped(tmp_path) == {"big.txt": "it has 1,073,741,824 bytes, and the limit is 50,000,000"}
    assert names(tmp_path, max_bytes=1 << 30) == ["a.txt", "big.txt"]


@POSIX
def test_no_link_leads_out_of_the_folder_or_in_a_circle(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder", "a.txt", "sub/b.txt")
    fill(tmp_path, "secret.txt")
    (folder / "inside.txt").symlink_to("sub/b.txt")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "sub/all").symlink_to(folder)
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    (folder / "gone").symlink_to("nothing")
    assert names(folder) == ["a.txt", "inside.txt", "sub/b.txt"]
    assert skipped(folder) == {
        "gone": "it is a link to a file that is not there",
        "one": "it is a link that leads back to itself",
        "out.txt": "it is a link that leads out of the folder",
        "sub/all": "it is a link to a folder, and links to folders are not followed",
        "two": "it is a link that leads back to itself",
    }


@POSIX
def test_a_folder_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "real", "a.txt", "b.txt")
    (tmp_path / "real/c.txt").symlink_to("a.txt")
    (tmp_path / "link").symlink_to("real")
    assert names(tmp_path / "link") == ["a.txt", "b.txt", "c.txt"]


@POSIX
def test_folders_may_be_nested_deeper_than_python_calls(tmp_path: Path) -> None:
    deep, before = tmp_path, os.getcwd()
    try:
        for _ in range(1_200):
            os.chdir(deep)
            os.mkdir("d")
            deep = Path("d")
        os.chdir("d")
        Path("a.txt").write_text("deep")
        os.chdir(before)
        assert names(tmp_path) == ["d/" * 1_200 + "a.txt"]
    finally:
        os.chdir(before)
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # pytest would remove it by a recursion


@POSIX
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert skipped(tmp_path) == {"pipe.txt": "it is no regular file, but a pipe, a socket or a device"}
    with pytest.raises(DataError, match="not a regular file"):
        content_hash(tmp_path / "pipe.txt")


@POSIX
def test_names_that_are_no_utf_8_are_readable_and_open(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt")
    try:
        with open(path, "wb") as file:
            file.write(b"espresso")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    (item,) = walk(tmp_path)
    assert isinstance(item, FolderFile)
    assert item.name == "caf\\xe9.txt" and item.path.read_bytes() == b"espresso"
    (tmp_path / "caf\\xe9.txt").write_text("another")
    assert names(tmp_path) == ["caf\\xe9.txt"] and "rename it" in skipped(tmp_path)["caf\\xe9.txt"]


@POSIX
@pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="nothing is closed to the superuser")
def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    fill(tmp_path, "closed/a.txt", "b.txt")
    (tmp_path / "closed").chmod(0)
    try:
        assert names(tmp_path) == ["b.txt"]
        assert skipped(tmp_path) == {"closed": "it cannot be listed: Permission denied"}
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_files_of_one_content_have_one_hash(tmp_path: Path) -> None:
    for name in ("a.txt", "b.md"):
        (tmp_path / name).write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert content_hash(tmp_path / "a.txt") == content_hash(tmp_path / "b.md") == expected
