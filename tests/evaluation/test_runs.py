"""Folders of runs, and models that are none, evaluated on rows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError, WeightsError
from glassformer.evaluation.runs import TrainedRun, evaluate_model, open_run
from glassformer.runs.config import parse_config
from glassformer.training.run import make_trainer
from tests.e2e.tiny_models import make_folder
from tests.e2e.tiny_runs import tiny_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, and data next to it."""
    place = tmp_path_factory.mktemp("runs")
    values = tiny_run(place, steps=20)
    values["data"]["columns"] = {"label": "mood"}
    values["training"] |= {"learning_rate": 1e-2, "seed": 5}
    (place / "test.csv").write_text("place;tweet;mood\nx7;time flies;a\nq2;fruit flies;b\nm5;time;a\n")
    make_trainer(parse_config(values)).train()
    return place


def test_on_its_own_rows(trained: Path) -> None:
    run = open_run(trained / "run")
    assert repr(run) == f"TrainedRun('…/run', task={run.config.task!r})", "no folder of this machine"
    report = run.evaluate(baselines=False, resamples=20).report
    assert report.data["rows"] == 8 and report.data["files"] == ["rows.csv (20% held out)"]
    assert (report.name, report.seed, report.metrics["accuracy"].value) == ("run", 5, 1.0)


def test_on_other_rows(trained: Path) -> None:
    run = open_run(trained / "run", columns={"text": "tweet"}, ignore=["place"])
    found = run.evaluate(str(trained / "test.csv"), format={"delimiter": ";"}, resamples=20)
    assert found.report.data["files"] == ["test.csv"] and [r.label for r in found.predictions] == [
        "a",
        "b",
        "a",
    ]
    assert "bag of words" in found.report.baselines, "which learnt from rows under headings of their own"
    assert found.predictions[2].row == {"text": "time"}
    rows = read_rows([{"text": "time", "mood": "a"}])
    assert open_run(trained / "run").evaluate(rows, baselines=False).report.data["rows"] == 1


def test_is_it_judged(trained: Path, tmp_path: Path) -> None:
    run = open_run(shutil.copytree(trained / "run", tmp_path / "run"))
    assert not run.is_evaluated()
    run.evaluate(baselines=False, resamples=5).save(run.evaluation_folder())
    assert run.is_evaluated()
    weights = run.folder / "model" / "model.safetensors"
    report = run.evaluation_folder() / "report.json"
    for older, newer in ((weights, report), (report, weights)):
        os.utime(older, (0, 0))
        os.utime(newer, (10**9, 10**9))
        assert run.is_evaluated(), "clocks are set back, and copies have other times"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    os.utime(weights, (0, 0))
    assert not run.is_evaluated(), "a training has gone on"
    weights.unlink()
    assert run.is_evaluated(), "reports are kept where the model is not"


def refused(error: type[GlassformerError], message: str, run: TrainedRun, *files: Any, **named: Any) -> None:
    with pytest.raises(error, match=message):
        run.evaluate(*files, baselines=False, **named)


def test_what_cannot_be_judged(trained: Path, tmp_path: Path) -> None:
    run = open_run(trained / "run")
    test, semicolons = str(trained / "test.csv"), {"format": {"delimiter": ";"}}
    refused(DataError, "no column 'text'", open_run(trained / "run", ignore=["*"]), test, **semicolons)
    tweets = open_run(trained / "run", columns={"text": "tweet"})
    refused(ConfigError, r"columns 'place'.*--ignore", tweets, test, **semicolons)
    other = tmp_path / "other.csv"
    other.write_text("text,mood\ntime,c\n")
    refused(DataError, "line 2: the label 'c' is none of the 2 that the model knows", run, str(other))
    (tmp_path / "empty.csv").write_text("text,mood\n")
    refused(DataError, "empty.csv", run, str(tmp_path / "empty.csv"))
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 8)
    refused(DataError, "binary.csv", run, str(tmp_path / "binary.csv"))
    for name in ("", "..", "a/b", "../run"):
        with pytest.raises(ConfigError, match="cannot name an evaluation"):
            run.evaluation_folder(name)
    with pytest.raises(ConfigError, match="holds no run"):
        open_run(tmp_path)

    copy = tmp_path / "run"
    shutil.copytree(trained / "run", copy)
    shutil.rmtree(copy / "model")
    refused(WeightsError, "holds no model yet; resume training", open_run(copy))
    text = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(text.replace("validation: 0.2", "validation: null"))
    shutil.copytree(trained / "run" / "model", copy / "model")
    refused(
        DataError,
        "without validation rows; evaluate it on other rows, with `glassformer evaluate .*run --data FILE`",
        open_run(copy),
    )
    (copy / "config.yaml").write_text(text.replace("rows.csv", "gone.csv"))
    refused(DataError, r"gone\.csv.*relative to the folder in which it was trained", open_run(copy))
    (copy / "config.yaml").write_text(text.replace("task: classify", "task: denoise"))
    refused(UnsupportedError, "the task 'denoise' cannot be evaluated", open_run(copy))


def test_a_model_that_is_no_run(trained: Path, tmp_path: Path) -> None:
    rows = read_rows([{"tweet": "time flies", "mood": "a"}])
    columns = {"text": "tweet", "label": "mood"}
    report = evaluate_model(trained / "run" / "model", "classify", rows, columns=columns, baselines=False).report
    assert report.metrics["accuracy"].value == 1.0 and report.seed is None and report.name == "model"
    bare = make_folder(tmp_path / "bare", "bert", task="fill-mask")
    with pytest.raises(WeightsError, match="holds no head for the task 'classify'"):
        evaluate_model(bare, "classify", rows, columns=columns)
    with pytest.raises(WeightsError, match="holds no head for the task 'tag'"):  # whose names would fit
        evaluate_model(trained / "run" / "model", "tag", rows)
    with pytest.raises(UnsupportedError, match="'clasify' cannot be evaluated; nearest: 'classify'"):
        evaluate_model(bare, "clasify", rows)
    with pytest.raises(ConfigError, match="'max_token' is no option of Classify; nearest: 'max_tokens'"):
        evaluate_model(bare, "classify", rows, options={"max_token": 3})


def test_a_configuration_that_is_none_is_said_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("task: classify\n")
    with pytest.raises(ConfigError, match=r"config\.yaml: 'output' is missing"):
        open_run(tmp_path)
