"""Options of a training take the place of values of its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError
from glassformer.runs.config import ONLY, configured_runs, only_run
from glassformer.runs.options import SearchOptions, TrainOptions, with_values


def test_options_go_to_their_keys(tmp_path: Path) -> None:
    values: dict[str, Any] = {"scratch": "bert-base-uncased", "data": {"train": "a.csv", "folder": "data"}}
    options = TrainOptions(
        task="tag",
        model="m",
        data=["b.csv"],
        validation=0.1,
        epochs=2,
        ignore=["id"],
        columns={"text": "body"},
        settings={"training.warmup": 100},
        trackers=["wandb"],
        dry_run=True,
    )
    options.apply(values)
    assert values == {
        "task": "tag",
        "model": "m",
        "trackers": ["wandb"],
        "data": {
            **{"train": "b.csv", "folder": "data", "validation": 0.1, "ignore": ["id"]},
            "columns": {"text": "body"},
        },
        "training": {"epochs": 2, "warmup": 100, "dry_run": True},
    }
    TrainOptions(data=[str(tmp_path)]).apply(values)
    assert values["data"]["folder"] == str(tmp_path) and values["data"]["train"] == "b.csv"
    TrainOptions(data=["a.csv", "b.csv"]).apply(values)
    assert values["data"]["train"] == ["a.csv", "b.csv"]
    with pytest.raises(ConfigError, match=r"task\.x: task is 'tag', which has no 'x'"):
        TrainOptions(settings={"task.x": 1}).apply(values)
    with pytest.raises(ConfigError, match="epochs is 0; it must be a number above 0"):
        TrainOptions(epochs=0)


def test_a_copy_with_other_values() -> None:
    values = {"training": {"steps": 3}}
    assert with_values(values, {"training.steps": 4}) == {"training": {"steps": 4}} and values["training"]["steps"] == 3
    assert SearchOptions().folder({"output": "runs/x"}) == Path("runs/x")
    assert SearchOptions(output="y").folder({"output": "runs/x"}) == Path("y")


def test_the_runs_of_options_alone() -> None:
    (name,) = configs = configured_runs(None, TrainOptions(task="classify", model="m", data=["rows.csv"]))
    assert name == ONLY and only_run(configs).output == "runs/classify"
    with pytest.raises(ConfigError, match=r"add --data rows\.csv, or name a configuration file"):
        configured_runs(None, TrainOptions(task="classify"))
    with pytest.raises(ConfigError, match="seeds= repeats one run; this configuration has 2: a, b"):
        only_run({"a": configs[ONLY], "b": configs[ONLY]})


def test_how_files_are_read_reaches_the_format_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("{task: classify, model: m, data: {train: a.csv, format: {quotes: false}}, output: runs/x}")
    reading = ReadingOptions(delimiter="\\t", names=["text", "label"], skip_bad_rows=True, encoding="latin-1")
    (config,) = configured_runs(path, TrainOptions(), reading).values()
    expected = {"quotes": False, "delimiter": "\t", "names": ["text", "label"], "header": False}
    assert config.data.format == {**expected, "on_bad_rows": "skip", "encoding": "latin-1"}


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (
            "task: clasify\ndata: {train: a.csv}\n",
            TrainOptions(),
            r"mine\.yaml: task is 'clasify'; nearest: 'classify'",
        ),
        ("task: classify\ndat: {train: a.csv}\n", TrainOptions(), r"mine\.yaml: 'dat' is no option; nearest: 'data'"),
        ("task: classify\nmodel: m\n", TrainOptions(), r"mine\.yaml: 'data' is missing"),
        ("task: classify\ndata: {train: a.csv}\n", TrainOptions(task="clasify"), r"^task is 'clasify'"),
    ],
)
def test_an_error_names_the_file_that_holds_it(lines: str, options: TrainOptions, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(lines)
    with pytest.raises(ConfigError, match=message):
        configured_runs(tmp_path / "mine.yaml", options)
