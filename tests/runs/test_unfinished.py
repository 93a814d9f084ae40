"""What a page says of a study that is not finished: how much is done, what runs now, and the results so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.files.lock import FolderLock
from glassformer.reports.page import report_data
from glassformer.runs.unfinished import PROGRESS, PartsDone, Unfinished, results, results_stamp
from glassformer.studies.study import Study
from tests.runs.run_folders import make_run

FACTORS = {"method": ["a", "b", "c"]}


def test_a_study_says_how_far_it_is_while_it_runs_and_after_it_was_stopped(tmp_path: Path) -> None:
    findings, stamps = [], []

    def score(cell: Any) -> dict[str, float]:
        if not (tmp_path / PROGRESS).is_file():
            pytest.fail("it says nothing of itself")
        [page] = results(tmp_path)
        assert isinstance(page, Unfinished)
        findings.append(page.finding)
        stamps.append(results_stamp(tmp_path))
        if cell["method"] == "c" and len(findings) == 3:
            raise KeyboardInterrupt
        return {"accuracy": {"a": 0.5, "b": 0.7, "c": 0.6}[cell["method"]]}

    with pytest.raises(KeyboardInterrupt):
        Study(FACTORS, score, tmp_path).run()
    assert findings[0].startswith("0 of 3 cells are done; now a, seed 0, since ") and findings[0].endswith(".")
    assert findings[1].startswith("1 of 3 cells are done; now b, seed 0, since ") and " left. " in f"{findings[1]} "
    assert findings[2].startswith("2 of 3 cells are done; now c, seed 0, since ")
    assert "Replacing a by b" in findings[2], "what is known so far"
    [page] = results(tmp_path)
    assert isinstance(page, Unfinished) and page.finding.startswith(
        "Stopped with 2 of 3 cells done, at c, seed 0; the same command continues. Replacing a by b"
    )
    assert report_data(page)["finding"] == page.finding and len(report_data(page)["tables"]) >= 2
    stamps.append(results_stamp(tmp_path))
    Study(FACTORS, score, tmp_path).run()
    assert findings[3].startswith("2 of 3 cells are done; now c, seed 0, since "), "what was done before counts"
    [whole] = results(tmp_path)
    assert not isinstance(whole, Unfinished) and not (tmp_path / PROGRESS).exists()
    stamps.append(results_stamp(tmp_path))
    assert len(set(stamps)) == len(stamps) == 6


def test_what_trains_now_has_its_curves_and_what_does_not_has_none(tmp_path: Path) -> None:
    now = PartsDone(part="cell", done=1, planned=4, current="de, seed 1", since=1.7e9, seconds=90.0)
    (tmp_path / PROGRESS).write_text(json.dumps(vars(now)))
    make_run(tmp_path / "runs" / "ended", [0.9])
    live = make_run(tmp_path / "runs" / "live", [0.5], ended=False, planned=60)
    with FolderLock(tmp_path / "lock"), FolderLock(live / "lock"):
        first, curves = results(tmp_path)
        assert isinstance(first, Unfinished) and first.finding.endswith(", at step 20 of 60; about 4:30 left.")
        assert [run.name for run in curves.runs] == ["runs/live"]  # type: ignore[attr-defined] # TrainingCurves
    [first] = results(tmp_path)
    assert isinstance(first, Unfinished) and first.finding.startswith("Stopped with 1 of 4 cells done, at de, seed 1")


NONE = '{"part": "x", "done": 1, "planned": 2, "current": "a", "since": 1.7e9}'


@pytest.mark.parametrize("text", ["{", '{"part": "cell"}', '{"part": "cell", "done": "x"}', NONE])
def test_a_file_that_is_damaged_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / PROGRESS).write_text(text)
    with pytest.raises(DataError, match=r"progress\.json"):
        results(tmp_path)
