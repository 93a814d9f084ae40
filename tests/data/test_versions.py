"""Versions of a data set: written once, verified, and never changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.app import app
from glassformer.data.versions import newest_version, verify_version, write_version
from glassformer.errors import ConfigError, DataError
from glassformer.files import file_sha256
from glassformer.hub import push


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text("text,label\nso glad,joy\nleave,anger\n", encoding="utf-8")
    return path


def test_a_version_is_verified_and_found(tmp_path: Path, train: Path) -> None:
    root = tmp_path / "moods"
    for version in ("1.0.0", "1.9.0", "1.10.0"):
        folder = write_version(root, version, {train: 2}, "# Moods\n")
    facts = verify_version(folder)
    assert facts["version"] == "1.10.0" and facts["files"]["train.csv"]["rows"] == 2
    assert newest_version(root) == "1.10.0" and newest_version(tmp_path / "none") is None
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


def test_what_was_changed_is_named(tmp_path: Path, train: Path) -> None:
    folder = write_version(tmp_path / "moods", "1", {train: 2}, "# Moods\n")
    (folder / "train.csv").write_text("text,label\n")
    (folder / "README.md").unlink()
    (folder / "more.csv").write_text("a")
    with pytest.raises(
        DataError, match=r"train\.csv was changed; README\.md is missing; more\.csv does not belong to it"
    ):
        verify_version(folder)
    (folder / "SHA256SUMS").write_text("nothing\n")
    with pytest.raises(DataError, match="SHA256SUMS: is damaged"):
        verify_version(folder)
    (folder / "SHA256SUMS").write_text("")
    with pytest.raises(DataError, match=r"version\.json is not in SHA256SUMS"):
        verify_version(folder)
    with pytest.raises(DataError, match="holds no version of a data set"):
        verify_version(tmp_path)


def test_the_facts_of_a_version_have_a_digest_too(tmp_path: Path, train: Path) -> None:
    folder = write_version(tmp_path / "moods", "1", {train: 2}, "# Moods\n")
    facts, sums = folder / "version.json", folder / "SHA256SUMS"
    intact = facts.read_text("utf-8")
    facts.write_text(intact.replace('"rows": 2', '"rows": 9'))
    with pytest.raises(DataError, match=r"version\.json was changed; take an intact copy"):
        verify_version(folder)
    for written, message in (
        ('{"version": 1, "files": {}}', "version is 1; it must be a text"),
        ('{"version": "1"}', "'files' is missing"),
        (intact.replace("train.csv", "other.csv"), r"'other\.csv' is not in SHA256SUMS"),
    ):
        facts.write_text(written)
        lines = [line for line in sums.read_text().splitlines() if "version.json" not in line]
        sums.write_text("\n".join([*lines, f"{file_sha256(facts)}  version.json"]) + "\n")
        with pytest.raises(DataError, match=message):
            verify_version(folder)


def test_what_cannot_be_a_version_is_said(tmp_path: Path, train: Path) -> None:
    write_version(tmp_path / "moods", "1.0.0", {train: 2}, "")
    with pytest.raises(DataError, match="a version never changes"):
        write_version(tmp_path / "moods", "1.0.0", {train: 2}, "")
    with pytest.raises(ConfigError, match=r"numbers such as 1\.0\.0"):
        write_version(tmp_path / "moods", "../1", {train: 2}, "")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "train.csv").write_text("x")
    with pytest.raises(DataError, match=r"two files of a version would be called 'train\.csv'"):
        write_version(tmp_path / "moods", "2", {train: 2, tmp_path / "b" / "train.csv": 1}, "")
    with pytest.raises(DataError, match="moods"):
        write_version(tmp_path / "moods", "3", {tmp_path / "nothing.csv": 1}, "")
    assert not (tmp_path / "moods" / "3").exists()


def test_the_commands(tmp_path: Path, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: object) -> str:
        done = CliRunner().invoke(app, ["data", *map(str, arguments)])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    facts = ("--title", "Moods", "--licence", "CC0-1.0", "--bias", "One writer.", "--column", "label=label")
    written = run("version", train, "--version", "1.0.0", "--output", tmp_path / "moods", *facts)
    folder = tmp_path / "moods" / "1.0.0"
    assert f"glassformer data push {folder}" in written and "CC0-1.0" in (folder / "README.md").read_text("utf-8")
    assert "version 1.0.0, 1 files, 2 rows, all as they were" in run("verify", folder)
    assert '"version": "1.0.0"' in run("verify", folder, "--json")
    calls: list[tuple[str, object]] = []

    class Api:
        def __getattr__(self, name: str) -> object:
            return lambda *given, **options: calls.append((name, options.get("tag") or options.get("repo_type")))

    monkeypatch.setattr(push, "_api", lambda token: Api())
    monkeypatch.setattr(push, "connections_off", lambda: False)
    run("push", folder, "me/moods", "--private")
    assert calls == [("create_repo", "dataset"), ("upload_folder", "dataset"), ("create_tag", "1.0.0")]
    (folder / "train.csv").write_text("changed")
    assert CliRunner().invoke(app, ["data", "push", str(folder), "me/moods"]).exit_code != 0 and len(calls) == 3
