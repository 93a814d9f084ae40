"""Methods of few labels as runs: learned, saved, and then as any model: loaded, asked, evaluated, refused elsewhere."""

from __future__ import annotations

import csv
import json
import shlex
import time
from pathlib import Path

import pytest

import glassformer
from glassformer.cli.app import main
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.evaluation.evaluate import LEARN_OTHERWISE, EvaluationReport, SystemResult
from glassformer.evaluation.run_page import FolderPages, RunVerdict
from glassformer.evaluation.runs import open_run
from glassformer.runs.config import parse_config
from glassformer.runs.curves import RunSettings
from glassformer.runs.run_list import RunList
from glassformer.studies.trained_method import train_method
from glassformer.tasks.metrics.metric import Interval
from tests.cli.conftest import Command, command
from tests.few_labels.samples import encoder, one_label, several_labels

__all__ = ["command", "encoder"]

pytestmark = pytest.mark.filterwarnings("ignore:.*(labels have a single row|were left out):UserWarning")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spreadsheet of 24 rows with a topic and 6 without, two of them equal."""
    monkeypatch.chdir(tmp_path)
    labelled = one_label(24)
    others = [(f"{text} now", "") for text in one_label(6, seed=1).texts]
    with open("rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([("body", "kind"), *zip(labelled.texts, labelled.labels, strict=True), *others])
    return tmp_path / "rows.csv"


COLUMNS = ("--column", "text=body", "--column", "label=kind")


@pytest.mark.parametrize("method", ["naive-bayes", "nearest-neighbours", "fine-tuning"])
def test_a_spreadsheet_becomes_a_run(method: str, rows: Path, encoder: Path, command: Command) -> None:
    given = ["--method", method, "--data", rows.name, *COLUMNS, "--validation", "0.25", "--output", "runs/few"]
    model = [] if method == "naive-bayes" else ["--model", encoder]
    options = ["--set", "method.options.steps=4"] if method == "fine-tuning" else []
    done = command("train", "--task", "classify", *given, *model, *options)
    assert done.returncode == 0, done.stderr
    assert f"{method} learns from 18 labelled rows, and 5 without a label" in done.stderr
    assert "f1_weighted" in done.stdout and "saved in runs/few" in done.stdout
    assert "glassformer look runs/few" in done.stdout and "--epochs" not in done.stdout
    for line in [x.strip() for x in done.stdout.splitlines() if x.strip().startswith("glassformer ")]:
        with pytest.raises(SystemExit) as ended:
            added = {"errors": ["--print"], "look": ["--html", "run.html"]}
            main((words := shlex.split(line)[1:]) + added.get(words[0], []))
        assert not ended.value.code, line
    answers = [json.loads(x) for x in Path("runs/few/predictions.jsonl").read_text().splitlines()]
    assert len(answers) == 30
    one = glassformer.pipeline("classify", "runs/few")("an arrow")
    assert one[0].label in ("time", "fruit")
    done = command("evaluate", "runs/few", "--data", rows.name, "--skip-bad-rows", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["rows"] == 24


def test_rows_with_a_label_and_no_text_are_left_out_where_asked_for(rows: Path, command: Command) -> None:
    rows.write_text(rows.read_text() + ",time\n  ,fruit\n")
    given = ["--data", rows.name, *COLUMNS]
    runs = {
        "train": ["--task", "classify", "--method", "naive-bayes", "--validation", "0.25", "--output", "runs/few"],
        "few-labels": ["--methods", "naive-bayes", "--labels", "8", "--seeds", "1", "--output", "runs/study"],
        "advise": [],
    }
    for name, words in runs.items():
        where = [rows.name, *COLUMNS] if name == "advise" else given
        refused = command(name, *words, *where)
        assert refused.returncode == 2
        assert "line 32: has a label and no text" in refused.stderr and "--skip-bad-rows" in refused.stderr, name
        done = command(name, *words, *where, "--skip-bad-rows")
        assert done.returncode == 0, done.stderr
        if name == "train":
            assert "naive-bayes learns from 18 labelled rows, and 5 without a label" in done.stderr
            assert "2 without a text" in done.stderr
    notes = json.loads(Path("runs/study/study.json").read_text())["notes"]
    assert "2 rows left out: a label and no text" in notes


def test_naive_bayes_is_right_on_words_that_decide(rows: Path) -> None:
    values = {"task": "classify", "method": {"name": "naive-bayes"}, "output": "runs/few"}
    data = {"train": str(rows), "validation": 0.25, "columns": {"text": "body", "label": "kind"}}
    report = train_method(parse_config({**values, "data": data})).report
    assert isinstance(report, EvaluationReport) and report.metrics["accuracy"].value == 1
    again = train_method(parse_config({**values, "data": data}))
    assert again.report is not None and again.report.data == report.data


def test_it_is_listed_as_ended_and_has_a_page_without_curves(rows: Path, command: Command) -> None:
    values = {"task": "classify", "method": {"name": "naive-bayes"}, "output": "runs/few"}
    data = {"train": str(rows), "validation": 0.25, "columns": {"text": "body", "label": "kind"}}
    before = time.time()
    report = train_method(parse_config({**values, "data": data})).report
    assert report is not None
    runs = RunList.read("runs")
    [listed] = runs.runs
    assert listed.started is not None and before - 1 < listed.started < time.time() + 1
    assert (runs.metric, listed.state, listed.metrics) == (report.metric, "ended", report.metrics)
    assert runs.finding.startswith("Highest validation f1_weighted: 1.000 [1.000, 1.000], of few")
    table = runs.tables()[0]
    assert table.rows[0][table.headings.index("steps")] == table.rows[0][table.headings.index("training loss")] == "–"
    assert not list(runs.charts())
    verdict, errors, settings = FolderPages(Path("runs")).pages("run/few")
    assert isinstance(verdict, RunVerdict) and verdict.caption == "classify by naive-bayes"
    assert isinstance(errors, EvaluatedRows) and isinstance(settings, RunSettings)
    done = command("look", "runs/few", "--html", "run.html")
    assert done.returncode == 0 and "classify by naive-bayes" in Path("run.html").read_text(), done.stderr
    done = command("curves", "runs/few")
    assert done.returncode == 2 and "it has no curves" in " ".join(done.stderr.split())


def test_where_a_baseline_is_better_no_epochs_are_advised(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    better = SystemResult(about="", metrics={"f1_weighted": Interval(1.0)}, difference=Interval(-0.1, -0.15, -0.05))
    monkeypatch.setattr("glassformer.evaluation.evaluate._baseline_results", lambda *_: {"bag of words": better})
    values = {"task": "classify", "method": {"name": "naive-bayes"}, "output": "runs/few"}
    data = {"train": str(rows), "validation": 0.25, "columns": {"text": "body", "label": "kind"}}
    for report in (train_method(parse_config({**values, "data": data})).report, open_run("runs/few").evaluate().report):
        assert report is not None
        [said] = [note for note in report.notes if "'bag of words' is better than the model" in note]
        assert said.endswith(LEARN_OTHERWISE) and "--epochs" not in said


def test_several_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    labelled = several_labels(40)
    lines = [{"text": x, "label": y} for x, y in zip(labelled.texts, labelled.labels, strict=True)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    values = {"task": "classify", "method": {"name": "naive-bayes"}, "output": "runs/few"}
    report = train_method(parse_config({**values, "data": {"train": "rows.jsonl", "validation": 0.25}})).report
    assert report is not None and report.metrics["f1_micro"].value > 0.6
    answer = glassformer.pipeline("classify", "runs/few")("banana time banana time")
    assert {x.label for x in answer} <= {"time", "fruit", "banana"} and len(answer) >= 1


def test_names_of_labels_are_enough(tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    method = {"name": "label-names", "labels": ["time", "fruit"], "descriptions": {"fruit": "fruit banana"}}
    config = {"task": "classify", "method": method, "model": str(encoder), "output": "runs/none"}
    assert train_method(parse_config({**config, "data": {"train": "none.csv"}})).report is None
    assert glassformer.pipeline("classify", "runs/none")("fruit banana")[0].label == "fruit"


def test_what_is_no_network_is_refused_where_one_is_needed(rows: Path, command: Command) -> None:
    done = command(
        "train", "--task", "classify", "--method", "naive-bayes", "--data", rows, *COLUMNS, "--output", "few"
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(ConfigError, match="which is no network: classify texts with it by glassformer predict"):
        glassformer.load("few")
    for words in (
        ["export", "few", "--output", "few.onnx"],
        ["look", "few", "a text"],
        ["info", "few"],
        ["bench", "few"],
        ["shrink", "few"],
    ):
        done = command(*words)
        assert done.returncode == 2 and "no network" in " ".join(done.stderr.split()), (words, done.stderr)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": {"name": "naive"}}, "naive-bayes"),
        ({"method": {"name": "nearest-neighbours"}}, "reads texts by a sentence encoder; name one: model= FOLDER"),
        ({"method": {"name": "naive-bayes", "options": {"k": 3}}}, "naive-bayes"),
        ({"task": "tag"}, "method is for the task classify; task is 'tag'"),
        ({"training": {"epochs": 3}}, "training.epochs is of trainings, and naive-bayes is a method of few labels"),
        ({"adapter": {"rank": 2, "target_modules": ["q"]}}, "adapter is of trainings"),
        ({"method": {"unlabelled": "more.csv"}}, "method"),
    ],
)
def test_refused(change: dict[str, object], message: str, rows: Path) -> None:
    values = {"task": "classify", "method": {"name": "naive-bayes"}, "output": "runs/few", "data": {"train": str(rows)}}
    with pytest.raises(GlassformerError, match=message):
        train_method(parse_config({**values, **change}))
    assert not Path("runs/few").exists()


def test_a_run_is_not_replaced_by_another(rows: Path) -> None:
    data = {"train": str(rows), "columns": {"text": "body", "label": "kind"}}
    values = {"task": "classify", "output": "few", "data": data}
    first = parse_config({**values, "method": {"name": "naive-bayes"}})
    train_method(first)
    train_method(first)
    with pytest.raises(ConfigError, match="few: holds another run already; choose another folder"):
        train_method(parse_config({**values, "method": {"name": "logistic-regression"}}))
    assert "naive-bayes" in Path("few/config.yaml").read_text()


def test_a_method_that_learns_nothing_is_refused_before_it_reads(rows: Path) -> None:
    method = {"name": "entailment", "models": {"entailment": "nli"}}
    values = {"task": "classify", "method": method, "output": "few", "model": "m", "data": {"train": "missing.csv"}}
    with pytest.raises(UnsupportedError, match="learns nothing that could be saved"):
        train_method(parse_config(values))
