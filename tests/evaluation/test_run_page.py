"""The pages of the runs of a folder, and what is known of the models that they kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.errors import DataError
from glassformer.evaluation.evaluate import PREDICTIONS
from glassformer.evaluation.run_page import (
    NO_ROWS_YET,
    NOT_COMPARED,
    OTHER_ROWS,
    FolderPages,
    RunVerdict,
    paired_difference,
    saved_model,
)
from glassformer.evaluation.runs import open_run
from glassformer.files.lock import FolderLock
from glassformer.runs.curves import TrainingCurves
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.history import read_run
from glassformer.runs.run_list import REPORT
from glassformer.studies.trained import TrainedResult
from glassformer.tasks.predictions import write_predictions
from tests.evaluation.judged_run import classified, report, write_run
from tests.runs.run_folders import make_run


def evaluated_run(folder: Path) -> Path:
    """A run that ended after ten steps, and whose rows were evaluated."""
    records = classified()
    rows = [{"text": record.row["text"], "label": record.label} for record in records]
    run = write_run(folder, "classify", rows, records, ["anger", "joy", "love"])
    with EventLog(event_log_path(run)) as log:
        log.write("begin", steps=10, options={})
        log.write("end", steps=10)
    return run


def test_a_run_has_a_page_with_its_rows_where_it_was_evaluated(tmp_path: Path) -> None:
    mood = evaluated_run(tmp_path / "runs" / "mood")
    make_run(tmp_path / "runs" / "new")
    each = FolderPages(tmp_path / "runs")
    verdict, errors, *_ = each.pages("run/mood/run")
    assert isinstance(verdict, RunVerdict) and verdict.page_title == "mood/run"
    browser = errors.browser()
    assert browser is not None and browser.explorer == "/look/mood/run" and len(browser.rows) == 30
    [curves] = each.pages("run/new")
    assert isinstance(curves, TrainingCurves) and "It has no rows yet" in curves.remarks()[0]
    [both] = each.pages("run/new//mood/run")
    assert isinstance(both, TrainingCurves) and [each.rows for each in both.saved] == ["", "/run/mood/run"]
    (mood / "evaluation" / "validation" / PREDICTIONS).write_text("{")
    [curves] = each.pages("run/mood/run")
    assert isinstance(curves, TrainingCurves) and curves.remarks()[0].startswith("Its rows cannot be shown: ")
    for where in ("run/nothing", "else"):
        with pytest.raises(DataError, match="has no run"):
            each.pages(where)
    with pytest.raises(DataError, match="new: its rows were not evaluated"):
        each.explored("new")


def test_a_run_at_the_end_of_a_cell_is_its_page(tmp_path: Path) -> None:
    mood = evaluated_run(tmp_path / "runs" / "mood")
    run = open_run(mood)
    page = run.live_page()
    assert isinstance(run.reports()[0], RunVerdict) and page.html().startswith("<!doctype html>")
    assert all(f"<td>{label}</td>" in page.still() or label in page.still() for label in ("anger", "joy", "love"))
    assert "<script" not in page.still() and len(page.still()) < 60_000
    result = TrainedResult(str(mood), 10, None, {})
    assert result.live_page().still() == page.still()


def test_a_run_that_trains_says_when_its_rows_come(tmp_path: Path) -> None:
    make_run(tmp_path / "live", ended=False)
    each = FolderPages(tmp_path / "live", "Its rows cannot be shown: there are none")
    with FolderLock(tmp_path / "live" / "lock"):
        [curves] = each.pages("run/live")
        assert curves.finding.endswith("It is at step 20 of 20: running, nothing written for over 1 day.")
        assert curves.remarks() == [NO_ROWS_YET]
        running = each.stamp("")
    assert each.stamp("") == running, "of a log that is a day old the process is not asked for each time"
    os.utime(event_log_path(tmp_path / "live"))
    assert each.stamp("") != running
    [curves] = each.pages("run/live")
    assert curves.finding.endswith("It was stopped at step 20 of 20; the same command resumes it.")
    assert curves.remarks() == ["Its rows cannot be shown: there are none"]


def test_the_stamp_of_a_page_is_that_of_its_runs(tmp_path: Path) -> None:
    for name in "ab":
        make_run(tmp_path / name)
    each = FolderPages(tmp_path)
    before = [each.stamp(where) for where in ("", "run/a", "run/b", "run/a//b")]
    (tmp_path / "a" / REPORT).parent.mkdir(parents=True)
    (tmp_path / "a" / REPORT).write_text("{}")
    assert [each.stamp(where) == x for where, x in zip(("", "run/a", "run/b", "run/a//b"), before, strict=True)] == [
        False, False, True, False,
    ]  # fmt: skip


def test_the_model_that_a_run_kept_is_that_of_its_best_validation(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [0.7, 0.5])
    for name in ("step-00000010", "step-00000020", "step-x", "lock"):
        (run / "checkpoints" / name).mkdir(parents=True)
    with EventLog(event_log_path(run)) as log:
        for step in (5, 10, 20):
            log.write("checkpoint", step=step)
    kept = saved_model(run, read_run(run), "#Errors", "a")
    assert (kept.at, kept.states, kept.removed) == (10, [20], [5]) and (kept.rows, kept.group) == ("#Errors", "a")
    assert saved_model(run, read_run(make_run(tmp_path / "b", [], losses=(2.0, 1.0, 0.5))), "").at == 30


def test_runs_of_other_rows_have_no_difference(tmp_path: Path) -> None:
    for name, fingerprint in (("a", "1"), ("b", "2")):
        folder = make_run(tmp_path / name) / "evaluation" / "validation"
        folder.mkdir(parents=True)
        report("classify", classified(), fingerprint).save(folder / "report.json")
        write_predictions(folder / PREDICTIONS, classified())
    assert paired_difference(tmp_path / "a", tmp_path / "b", "accuracy") is None
    [curves] = FolderPages(tmp_path).pages("run/a//b")
    assert isinstance(curves, TrainingCurves) and curves.remarks() == [OTHER_ROWS]
    make_run(tmp_path / "c")
    [curves] = FolderPages(tmp_path).pages("run/a//c")
    assert curves.remarks() == [f"{NOT_COMPARED}: c."]
