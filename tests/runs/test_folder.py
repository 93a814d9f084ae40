"""Run folders: their configuration, and their paths seen from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.runs.config import seen_from_here
from glassformer.runs.folder import read_config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: classify\nruns:\n  a: {}\n  b: {}\n  a: {task: tag}\n", "invalid YAML: duplicate key 'a' .* line 5"),
        ("task: tag\ntask: tag\n", "duplicate key 'task'"),
    ],
)
def test_a_key_that_stands_twice(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path / "run.yaml")


def test_keys_are_merged_as_yaml_does(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("all: &all {a: 1, b: 2}\none: {<<: *all, b: 3}\n")
    assert read_config(tmp_path / "run.yaml") == {"all": {"a": 1, "b": 2}, "one": {"a": 1, "b": 3}}


def test_paths_of_a_run_are_those_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.runs.config import parse_config

    project, elsewhere = tmp_path / "project", tmp_path / "else" / "where"
    run = project / "runs" / "mood"
    for folder in (run, elsewhere, project / "base"):
        folder.mkdir(parents=True)
    values = {"task": "classify", "output": "runs/mood", "model": "base", "data": {"train": "rows.csv"}}
    config = parse_config(values)
    monkeypatch.chdir(project)
    assert seen_from_here(config, Path("runs/mood")) == config
    monkeypatch.chdir(elsewhere)
    for folder in (run, Path("../../project/runs/mood")):
        seen = seen_from_here(config, folder)
        assert (seen.model, seen.data.folder) == ("../../project/base", "../../project/")
        assert seen.data.root / "rows.csv" == Path("../../project/rows.csv")
    for changed in ({"output": str(run)}, {"output": "runs/sad"}):  # absolute, or moved since: nothing is known
        other = parse_config({**values, **changed})
        assert seen_from_here(other, run) == other
    fetched = parse_config({**values, "model": "org/name", "data": {"train": "emotion/train.txt", "fetch": "emotion"}})
    seen = seen_from_here(fetched, run)
    assert seen.model == "org/name" and seen.data == fetched.data
