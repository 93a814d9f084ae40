"""`glassformer evaluate`, and what `train` tells at its end, as a user types them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.cli.app import main
from glassformer.errors import MissingExtraError
from glassformer.evaluation.evaluate import EvaluationReport, beside_baselines
from glassformer.evaluation.runs import TrainedRun
from glassformer.tasks.classify.task import Classify
from tests.e2e.tiny_runs import tiny_run
from tests.reports.packed import unpacked


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[Any, str, str]:
    """Exit code, output and messages of a command."""
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return done.value.code or 0, captured.out, captured.err


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is folded, however long the path of a temporary folder is."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit(143)], ids=["SIGINT", "SIGTERM"])
def test_who_stops_an_evaluation_reads_what_is_left(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: BaseException
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise ending

    typed(capsys, "train", config, "--quiet")
    run = yaml.safe_load(config.read_text())["output"]
    before = {path: path.read_bytes() for path in Path(run).rglob("*") if path.is_file()}
    monkeypatch.setattr(TrainedRun, "evaluate", stop)
    for words in (["evaluate", run], ["errors", run, "--part", "train", "--print"]):
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            main([*words])
        said = capsys.readouterr().err
        assert "stopped while evaluating: this command has saved nothing" in said and "begins again" in said, words
    assert {path: path.read_bytes() for path in Path(run).rglob("*") if path.is_file()} == before


@pytest.fixture
def config(tmp_path: Path) -> Path:
    values = tiny_run(tmp_path)
    values["data"]["columns"] = {"label": "mood"}
    (tmp_path / "test.csv").write_text("id;tweet;mood\n1;time flies;a\n2;fruit flies;b\n3;fruit;a\n")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    return tmp_path / "run.yaml"


def test_train_ends_with_a_report(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    code, out, err = typed(capsys, "train", config)
    assert code == 0 and "run on 8 rows of rows.csv" in out and "f1_weighted" in out
    assert "the best model by f1_macro, while the report leads with f1_weighted" in " ".join(err.split())
    assert "the best by f1_macro, while the report leads with f1_weighted\n" in out
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text())
    facts = json.loads((run / "model" / "metrics.json").read_text())
    assert facts["comparison"]["systems"]["run"]["value"] == report["metrics"]["f1_weighted"]
    assert set(facts["comparison"]["systems"]) == {"run", *report["baselines"]}
    assert "Beside what simple means reach on the same 8 rows" in (run / "model" / "README.md").read_text()

    code, out, _ = typed(capsys, "look", run, "--html", tmp_path / "page.html", "--json")
    assert code == 0 and len(json.loads(out)["pages"]) == 5
    page = unpacked((tmp_path / "page.html").read_text())
    assert str(tmp_path) not in page and '"page-look/row-' in page and "…/rows.csv" in page
    said = beside_baselines(EvaluationReport.load(run / "evaluation" / "validation" / "report.json"))
    assert f"{said}. " in page and "on 8 rows. Hardly better than chance: accuracy 0.5" in said
    assert "The report leads with f1_weighted, but f1_macro chose the model: best f1_macro" in page
    for command in (("look", run), ("errors", run)):
        code, out, _ = typed(capsys, *command, "--html", tmp_path / "page.html")
        assert code == 0
        assert out.endswith("pages in page-look/: keep that folder next to it\n") and f"saved in {tmp_path}" in out
    code, _, err = typed(capsys, "look", run, "--view", "head")
    assert code == 2 and "--view says how the explorer opens on a text" in err

    (run / "evaluation" / "validation" / "examples.jsonl").unlink()
    code, out, _ = typed(capsys, "train", config, "--json")
    assert code == 0 and json.loads(out)["comparison"] == facts["comparison"]
    assert not (run / "evaluation" / "validation" / "examples.jsonl").exists(), "it is not evaluated again"


def test_a_report_that_cannot_be_saved_is_printed(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], small_disk: Callable[[str], Path]
) -> None:
    """The work of an evaluation is not lost; and where its report is there, its examples are."""
    assert typed(capsys, "train", config, "--no-evaluate")[0] == 0
    folder = small_disk("4k") / "evaluation"
    for size in ("4k", "8k"):
        small_disk(size)
        code, out, err = typed(capsys, "evaluate", tmp_path / "run", "--output", folder)
        assert code == 2 and "f1_weighted" in out and "No space left on device" in err and str(folder) in err
        assert "saved in" not in out and not (folder / "report.json").exists()
    small_disk("1m")
    code, out, _ = typed(capsys, "evaluate", tmp_path / "run", "--output", folder)
    assert code == 0 and f"saved in {folder}" in out
    assert sorted(path.name for path in folder.iterdir()) == ["examples.jsonl", "report.json"]


def test_train_without(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = typed(capsys, "train", config, "--no-evaluate")
    assert code == 0 and "the best by f1_macro: loss" in out and not (tmp_path / "run" / "evaluation").exists()
    assert "comparison" not in json.loads((tmp_path / "run" / "model" / "metrics.json").read_text())


def test_without_scikit_learn(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make demo` installs suffices for a report: its scores, their warnings and the simplest baseline."""
    for module in ("metrics", "feature_extraction.text", "linear_model", "preprocessing", "pipeline"):
        monkeypatch.setitem(sys.modules, f"sklearn.{module}", None)  # as if it were not installed
    code, _, err = typed(capsys, "train", config)
    assert code == 0 and "no report" not in err
    report = json.loads((tmp_path / "run" / "evaluation" / "validation" / "report.json").read_text())
    assert list(report["baselines"]) == ["most frequent"] and "as scikit-learn" in report["methods"]["accuracy"]
    left_out = [note for note in report["notes"] if "further baselines are left out" in note]
    assert len(left_out) == 1 and "pip install 'glassformer[evaluate]'" in left_out[0]
    monkeypatch.undo()
    typed(capsys, "train", config, "--output", tmp_path / "again")
    other = json.loads((tmp_path / "again" / "evaluation" / "validation" / "report.json").read_text())
    assert other["metrics"] == report["metrics"] or other["metrics"] == report["metrics"]
    assert other["baselines"]["most frequent"] == report["baselines"]["most frequent"]


def test_a_metric_that_cannot_be_computed_is_told_before_the_first_step(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(task: Classify) -> None:
        raise MissingExtraError("jiwer", "evaluate", "word error rates")

    monkeypatch.setattr(Classify, "check_evaluation", check)
    code, out, err = typed(capsys, "train", config)
    assert "no report after the training: " in err[: err.index(" model  ")], "before the first step"
    assert code == 0 and "the best by f1_macro: loss" in out
    assert "pip install 'glassformer[evaluate]'" in err and "is trained" in err


def test_evaluate(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, test = tmp_path / "run", tmp_path / "test.csv"
    typed(capsys, "train", config, "-q", "--no-evaluate")
    code, out, _ = typed(capsys, "evaluate", run, "--no-baselines")
    assert code == 0 and "precision" in out and f"saved in {run}" in out.replace("\n", "")
    following = out[out.index("next:") :].splitlines()
    assert following[1].startswith(f"  glassformer look {run} '") and following[2] == f"  glassformer errors {run}"
    assert (run / "evaluation" / "validation" / "examples.jsonl").read_text().count("\n") == 8

    words = (
        "--data",
        test,
        "--format",
        "delimiter=;",
        "-c",
        "text=tweet",
        "--ignore",
        "id",
        "--no-baselines",
    )
    code, out, _ = typed(capsys, "evaluate", run, *words, "--json")
    assert code == 0 and json.loads(out)["data"]["rows"] == 3 and (run / "evaluation" / "test").is_dir()
    by_option = [word if word != "--format" else "--delimiter" for word in words if word != "delimiter=;"]
    by_option.insert(3, ";")
    assert json.loads(typed(capsys, "evaluate", run, *by_option, "--json")[1])["data"]["rows"] == 3
    _, out, _ = typed(capsys, "evaluate", run, *words, "--as", "later")
    assert out.endswith(f"  glassformer errors {run} --part later\n")
    assert typed(capsys, "errors", run, "--part", "later", "--print")[0] == 0
    assert (run / "evaluation" / "later" / "report.json").is_file()
    shutil.copy(test, tmp_path / "semicolons.csv")
    more = ("errors", run, "--data", tmp_path / "semicolons.csv", "-c", "text=tweet", "--ignore", "id", "--print")
    code, _, err = typed(capsys, *more)
    assert code == 2 and "read it with --delimiter ';'" in err.replace("\n", " ")
    assert typed(capsys, *more, "--delimiter", ";")[0] == 0
    code, _, err = typed(capsys, "errors", run, "--print", "--delimiter", ";")
    assert code == 2 and "--delimiter is of the files of --data" in err.replace("\n", " ")
    shutil.copy(test, tmp_path / "validation.csv")
    typed(capsys, "evaluate", run, "-d", tmp_path / "validation.csv", *words[2:])
    assert (run / "evaluation" / "validation.csv").is_dir(), "that on its own rows stays"

    model = ("evaluate", run / "model", "--task", "classify", "-c", "label=mood", *words)
    code, out, _ = typed(capsys, *model)
    assert code == 0 and "not saved; --output FOLDER saves it" in out and "glassformer errors" not in out
    code, out, _ = typed(capsys, *model, "--output", tmp_path / "kept", "--json")
    assert code == 0 and json.loads((tmp_path / "kept" / "report.json").read_text()) == json.loads(out)

    _, out, _ = typed(capsys, "evaluate", run, *words, "--by", "id")
    assert "by id" in out and "3 groups of fewer than 10 rows" in out.replace("\n", " ")
    code, out, _ = typed(capsys, "errors", run, "--by", "mood", "--json")
    groups = json.loads(out)["groups"]["groups"]
    assert (
        code == 0
        and {x["name"]: x["rows"] for x in groups} == {"a": 4, "b": 4}
        and "f1_weighted" in groups[0]["metrics"]
    )
    assert "by mood" in typed(capsys, "errors", run, "--by", "mood", "--print")[1]
    (tmp_path / "more.csv").write_text("text,mood,source,note\n" + "time flies,a,web,x\nfruit flies,b,book,y\n" * 10)
    more = ("errors", run, "--data", tmp_path / "more.csv", "--by", "source", "--print")
    code, _, err = typed(capsys, *more)
    assert code == 2 and "unused columns 'note'" in err and "--ignore note (or --ignore '*')" in err.replace("\n", " ")
    code, out, _ = typed(capsys, *more, "--ignore", "note")
    assert code == 0 and "by source" in out and "web" in out

    for seed in (0, 1):
        shutil.copytree(run, tmp_path / "seeds" / f"seed-{seed}")
    for given, message in (
        ((tmp_path / "seeds", "--by", "mood"), "--by is of one run, and"),
        ((run, "--by", "moods"), "no column 'moods'; nearest: 'mood'; there are: 'text', 'mood'; --by names one"),
        ((run, "--as", "../x"), "cannot name an evaluation"),
        ((run, "--set", "task_options.max_tokens=9"), "--set task_options.… is for a model with --task"),
        ((run, "--set", "evaluation.tokns=9"), "'tokns' is no option of Classify; nearest: 'tokens'"),
        (
            (run, "--set", "tokens=9"),
            "--set is 'tokens'; it must be task_options.NAME=VALUE or evaluation.NAME=VALUE",
        ),
        (
            (run / "model", "--task", "classify", *words[:4], "--set", "task_options.max_token=9"),
            "'max_token' is no option",
        ),
        ((run, "--format", "kind=csv"), "--format describes the files of --data"),
        ((run, "--train", test), "--train is for a model that is not a run"),
        ((run, "--column", "text"), "--column takes name=value"),
        ((run, "--column", "texts=a"), "no column for 'texts'; nearest: 'text'"),
        (
            (run, "--data", test),
            "the first line looks separated by ';', and so does line 2: read it with --delimiter ';'",
        ),
        ((run / "model",), "is a model, not a run"),
        ((tmp_path / "nowhere",), "no such folder"),
        ((run / "model", "--task", "classify"), "name the files: --data FILE"),
        ((run / "model", "--task", "classify", "-d", test, "--as", "x"), "needs --output FOLDER"),
        ((run / "model", "--task", "denoise", *words[:4]), "'denoise' cannot be evaluated"),
    ):
        code, _, err = typed(capsys, "evaluate", *given)
        assert code == 2 and message in err.replace("\n", " "), err
        assert "Traceback" not in err
