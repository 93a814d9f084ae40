"""The page of curves as a file: small, self-contained, with nothing in it that could run."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer import DataError
from glassformer.reports.table import number
from glassformer.runs.curves import TrainingCurves, charts, curves_page, settings_tables, value_range, write_page
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.history import read_run
from tests.reports.packed import unpacked
from tests.training.a_run import write_run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def test_nothing_in_it_comes_from_elsewhere_or_can_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", options={EVIL: EVIL, "labels": [EVIL]})
    with EventLog(event_log_path(folder)) as log:
        log.write("validation", step=60, metrics={EVIL: 0.5})
        log.write("skipped", step=61, loss=math.inf, module=EVIL, indices=[EVIL])
    text = write_page(folder, tmp_path / "page.html").read_text("utf-8")
    assert "alert(1)</script>" not in text and "<img" not in text
    assert text.count("<script") == text.count("</script>") == 4
    assert set(re.findall(r"https?://([^\s\"'`/]*)", unpacked(text))) == {"www.w3.org"}, "names of namespaces alone"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    assert 'style="' not in text  # which the policy would refuse


def test_a_page_of_one_run_says_what_it_reached(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", options={"training": {"metric": "accuracy"}})
    with EventLog(event_log_path(folder)) as log:
        log.write("validation", step=60, metrics={"loss": 0.25, "accuracy": 0.875}, best=True)
    one = TrainingCurves([read_run(folder)])
    assert one.finding.startswith("Best accuracy 0.875 at step 60.") and one.finding in unpacked(
        curves_page([read_run(folder)])
    )


def test_a_page_of_several_runs_says_which_is_the_best(tmp_path: Path) -> None:
    scores = {"a": 0.875, "b": 0.9, "c": 0.5}
    for name, score in scores.items():
        folder = write_run(tmp_path / name, options={"training": {"metric": "accuracy"}})
        with EventLog(event_log_path(folder)) as log:
            log.write("validation", step=60, metrics={"loss": 0.25, "accuracy": score}, best=True)
    runs = [read_run(tmp_path / name) for name in scores]
    assert TrainingCurves(runs).finding == (
        "Highest validation accuracy: 0.9, of b at step 60; the next, a, has 0.875 at step 60."
    )
    assert TrainingCurves(runs, whole=False).finding == ""
    assert "the next, a, has the same at step 60" in TrainingCurves([runs[0]] * 2).finding
    rows = [replace(run, options={**run.options, "data": {"train": run.name}}) for run in runs]
    assert TrainingCurves(rows).finding == (
        "Not all of these runs were validated on the same rows, so none is known to be the best: validation accuracy "
        "from 0.9, of b at step 60, to 0.5, of c at step 60."
    )
    unvalidated = write_run(tmp_path / "d", options={"training": {"metric": "loss"}})
    assert TrainingCurves([*runs, read_run(unvalidated)]).finding == "", "of another metric, or none"


def test_within_another_page_all_but_the_loss_and_the_main_metric_is_folded(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", options={"training": {"metric": "f1"}})
    part = TrainingCurves([read_run(folder)], whole=False)
    assert [(chart.title, chart.folded) for chart in part.charts()] == [
        ("Loss", False), ("f1", False), ("Learning rate", True), ("Gradient norm", True), ("Tokens a second", True),
    ]  # fmt: skip
    assert part.finding == "" and all(table.folded for table in part.page_tables()) and part.page_tables()
    assert not any(chart.folded for chart in TrainingCurves([read_run(folder)]).charts())


def test_a_long_run_is_a_small_page(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        rows = (
            f'{{"event":"step","step":{i},"loss":{2 + math.sin(i)},"lr":{1 / i},"grad_norm":{3 + math.cos(i)},'
            f'"epoch":{i / 1e4},"tokens":100,"tokens_per_s":{1000 + i % 77}}}\n'
            for i in range(1, 100_001)
        )
        log.path.write_text("".join(rows))
    page = write_page(tmp_path, tmp_path / "page.html")
    assert 100_000 < page.stat().st_size < 700_000
    assert "Of 100,000 lines of the log" in unpacked(page.read_text("utf-8"))


def test_many_runs_are_a_small_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path, steps=1500)
    assert len(curves_page([read_run(folder)] * 12)) < 700_000


def test_settings_that_differ_come_first(tmp_path: Path) -> None:
    runs = [read_run(write_run(tmp_path / str(i), seed=7, options={"z": i, "data": {"x": 1}})) for i in range(2)]
    differ, same = settings_tables(runs)
    assert (differ.headings, differ.rows) == (["setting", "0", "1"], [["z", "0", "1"]]) and not differ.folded
    assert ["data.x", "1"] in same.rows and same.folded
    (alone,) = settings_tables(runs[:1])
    assert alone.caption == "Settings" and ["z", "0"] in alone.rows and not alone.folded


def test_the_lines_of_several_runs_are_groups(tmp_path: Path) -> None:
    runs = [replace(read_run(write_run(tmp_path / str(i), seed=i)), name=f"run {i}") for i in range(4)]
    (loss, *_), (few, *_) = TrainingCurves(runs).charts(), TrainingCurves(runs[:2]).charts()
    assert {line.group for line in loss.lines} == {run.name for run in runs}
    assert [line.faint for line in few.lines[:3]] == [True, False, False] and not any(x.faint for x in loss.lines)
    validation = [line for line in loss.lines if line.markers]
    assert [(line.dashed, line.best) for line in validation] == [(True, run.best) for run in runs]
    assert [marks.name for marks in loss.marks[:2]] == ["checkpoint", "not applied: its loss was not finite"]
    assert [marks.at for marks in loss.marks if marks.alert] == [[20]] * 4


def test_pages_of_runs_with_little_in_them(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        log.write("begin", options={})
        assert "0 steps" in curves_page([read_run(tmp_path)])
        log.write("step", step=1, loss=2.0)
        assert "1 steps" in curves_page([read_run(tmp_path)])
        log.write("validation", step=1, metrics={"f1": math.nan})
        assert "<td>NaN</td>" in curves_page([read_run(tmp_path)])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3)
    with pytest.raises(DataError, match="the page cannot be written: No such file"):
        write_page(folder, tmp_path / "nowhere" / "page.html")


def test_a_spike_does_not_flatten_the_rest(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        for step in range(1, 300):
            log.write("step", step=step, loss=1e6 if step == 150 else 1 + step % 2)
    (raw,) = [line for line in charts([read_run(tmp_path)], 1000)[0].lines if line.kind == "raw"]
    low, high = value_range([raw])
    assert raw.values.max() == 1e6 and 0 <= low <= 1 and 2 <= high < 3


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (0, "0"),
        (0.41237, "0.4124"),
        (1240, "1,240"),
        (5.96e-4, "5.96e-4"),
        (1e-5, "1e-5"),
        (12_345_678, "1.23e7"),
        (math.nan, "NaN"),
        (-math.inf, "−∞"),
        (-3, "-3"),
    ],
)
def test_numbers_as_people_read_them(x: float, written: str) -> None:
    assert number(x) == written
