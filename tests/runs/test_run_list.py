"""The runs of a folder as one report: which there are, in which state, the best of them, their settings and curves."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from glassformer.errors import DataError
from glassformer.files.lock import _host
from glassformer.reports.charts import Series
from glassformer.reports.page import report_data, report_page
from glassformer.reports.table import IntervalCell
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.history import read_run
from glassformer.runs.run_list import MAX_SETTINGS, REPORT, RunList, find_runs, named_runs, stamp
from glassformer.tasks.metrics.metric import Interval
from tests.runs.run_folders import make_run


def test_the_best_run_is_first_and_the_next_is_named_with_its_distance(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [0.5, 0.7])
    make_run(tmp_path / "b" / "seed-0", [0.9, 0.8])
    make_run(tmp_path / "c", [0.6])
    runs = RunList.read(tmp_path)
    assert [run.name for run in runs.runs] == ["b/seed-0", "a", "c"]
    assert (runs.metric, runs.higher, runs.best) == ("f1", True, runs.runs[0])
    assert runs.finding == "Highest validation f1: 0.900, of b/seed-0; the next, a, has 0.2 less."
    assert runs.caption == "3 runs of classify on mood.csv: 3 ended"
    assert str(runs).startswith(runs.caption)


def test_runs_that_differ_in_their_seed_alone_have_a_mean(tmp_path: Path) -> None:
    for seed, score in enumerate((0.5, 0.7, 0.9)):
        make_run(tmp_path / f"seed-{seed}", [score], seed=seed)
    says = "Validation f1 of 3 seeds: 0.7 on average, standard deviation 0.2, from 0.5 to 0.9."
    assert RunList.read(tmp_path).finding == says
    make_run(tmp_path / "other", [0.8], seed=3, learning_rate=0.1)
    assert RunList.read(tmp_path).finding.startswith("Highest validation f1: 0.900, of seed-2; the next, other, has")


@pytest.mark.parametrize(
    ("intervals", "says"),
    [
        (((0.8, 0.95), (0.6, 0.85)), "has 0.2 less, and their intervals overlap, so compare them."),
        (((0.85, 0.95), (0.6, 0.8)), "has 0.2 less, and their intervals do not overlap."),
        (((0.85, 0.95), None), "has 0.2 less."),
    ],
)
def test_intervals_are_those_of_an_evaluation(
    tmp_path: Path, intervals: tuple[tuple[float, float] | None, ...], says: str
) -> None:
    make_run(tmp_path / "a", [0.9], interval=intervals[0])
    make_run(tmp_path / "b", [0.7], interval=intervals[1])
    runs = RunList.read(tmp_path)
    assert runs.finding.endswith(says) and runs.finding.startswith("Highest validation f1: 0.900 [0.8")
    cell = runs.tables()[0].rows[0][3]
    assert isinstance(cell, IntervalCell) and (cell.low, cell.high) == intervals[0]
    assert runs.remarks()[0].endswith("of runs that were evaluated on these rows.")


def test_a_report_that_cannot_be_read_takes_the_interval_and_no_more(tmp_path: Path) -> None:
    for text in ("{", '{"metrics": {"f1": {"value": "x"}}}', '{"metrics": [1]}', '{"metrics": {"f1": 3}}'):
        run = make_run(tmp_path / f"run-{len(text)}", [0.9], interval=(0.8, 0.95))
        (run / "evaluation" / "validation" / "report.json").write_text(text)
    assert {run.metrics["f1"].low for run in RunList.read(tmp_path).runs} == {None}


def test_runs_on_other_data_are_not_ranked_with_the_others(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [0.9], data="reviews.csv")
    make_run(tmp_path / "b", [0.7])
    runs = RunList.read(tmp_path)
    assert runs.finding == (
        "No two of 2 runs were validated on the same rows, so none is known to be the best: validation f1 from 0.900, "
        "of a, to 0.700, of b."
    )
    assert "data" in runs.tables()[0].headings and runs.caption.startswith("2 runs of classify: ")
    make_run(tmp_path / "c", [0.8])
    runs = RunList.read(tmp_path, difference=lambda best, following, metric: Interval(0.1, 0.05, 0.15))
    assert [(run.name, run.rows) for run in runs.runs] == [("c", "mood.csv"), ("b", "mood.csv"), ("a", "reviews.csv")]
    assert runs.best is not None and runs.best.name == "c"
    assert runs.finding == (
        "Highest validation f1 of 2 runs validated on mood.csv: 0.800, of c; on the same rows, its difference to the "
        "next, b, is +0.100 [+0.050, +0.150]. 1 run on other data cannot be compared with them."
    )


def test_the_rows_of_an_evaluation_say_which_runs_are_on_the_same(tmp_path: Path) -> None:
    """Of a share that is held out, another seed chooses other rows; a file that was changed has other rows too."""
    about = {"data": {"train": "mood.csv", "validation": 0.1}}
    for name, score, seed, fingerprint in [
        ("a", 0.9, 1, ""),
        ("b", 0.8, 0, ""),
        ("c", 0.7, 0, "x"),
        ("d", 0.6, 2, "x"),
    ]:
        run = make_run(tmp_path / name, [score], interval=(0.1, 0.95) if fingerprint else None)
        config = yaml.safe_load((run / "config.yaml").read_text()) | about | {"training": {"seed": seed}}
        (run / "config.yaml").write_text(yaml.safe_dump(config))
        if fingerprint:
            path = run / REPORT
            data = {"files": ["mood.csv (10% held out)"], "fingerprint": fingerprint}
            path.write_text(json.dumps(json.loads(path.read_text()) | {"data": data}))
    runs = RunList.read(tmp_path)
    held_out = "mood.csv (10% held out)"
    on = {run.name: run.rows for run in runs.runs}
    assert on == {"b": held_out + ", other rows (2)", "c": on["b"], "d": on["b"], "a": held_out}
    assert [run.name for run in runs.runs] == ["b", "c", "d", "a"] and "validated on" in runs.tables()[0].headings


def test_every_state_has_a_word(tmp_path: Path) -> None:
    make_run(tmp_path / "ended")
    (make_run(tmp_path / "killed", ended=False) / "lock").write_text(f"{_host()}~{2**22 - 1}~~~00000000")
    make_run(tmp_path / "elsewhere", ended=False)
    os.utime(event_log_path(make_run(tmp_path / "trains", ended=False)))
    make_run(tmp_path / "waits", None)
    event_log_path(make_run(tmp_path / "broken")).write_text('{cut\n{"event": "step"}\n')
    (make_run(tmp_path / "yaml") / "config.yaml").write_text("task: [")
    event_log_path(make_run(tmp_path / "begins", None)).write_text('{"event": "begin", "time": 1e300}\n')
    states = {run.name: run.state for run in RunList.read(tmp_path).runs}
    assert states == {
        "ended": "ended",
        "killed": "stopped",
        "elsewhere": "silent",
        "trains": "running",
        "waits": "not begun",
        "broken": "unreadable",
        "yaml": "unreadable",
        "begins": "running",
    }
    runs = RunList.read(tmp_path)
    problems = {run.name: run.problem for run in runs.runs if run.problem}
    assert problems.keys() == {"broken", "yaml"} and problems["broken"].startswith("line 1 is invalid JSON")
    assert str(tmp_path) not in "".join(problems.values()), "a page names no folder of the machine"
    assert runs.caption.endswith("1 ended, 2 running, 1 stopped, 1 perhaps stopped, 1 not begun, 2 unreadable")
    assert report_page(runs)


def test_a_damaged_line_hides_no_run(tmp_path: Path) -> None:
    make_run(tmp_path / "whole", scores=(0.5, 0.6))
    log = event_log_path(make_run(tmp_path / "cut", scores=(0.5, 0.7)))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], lines[2][:30] + b"\n", *lines[3:]]))
    runs = RunList.read(tmp_path)
    assert [(run.name, run.state) for run in runs.runs] == [("cut", "ended"), ("whole", "ended")]
    assert runs.remarks()[1:] == [f"cut: {line}" for line in read_run(tmp_path / "cut").left_out]
    log.write_bytes(b"".join([*lines, *[b"{\n"] * 12]))
    *named, more = RunList.read(tmp_path).remarks()
    assert len(named) == 11 and more.startswith("2 more damaged lines left out")


def test_without_validations_the_training_loss_ranks(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [], losses=[2.0, 1.5])
    make_run(tmp_path / "b", [], losses=[2.0, 0.5])
    make_run(tmp_path / "c", [], losses=[float("nan")] * 2)
    runs = RunList.read(tmp_path)
    assert runs.finding.startswith("Lowest training loss: ") and runs.best is not None and runs.best.name == "b"
    assert [run.name for run in runs.runs] == ["b", "a", "c"] and runs.runs[2].training_loss is None
    assert [chart.title for chart in runs.charts()] == ["Training loss"]


@pytest.mark.parametrize(
    ("paired", "said"),
    [
        (Interval(0.1, 0.02, 0.18), "on the same rows, its difference to the next, a, is +0.100 [+0.020, +0.180]."),
        (
            Interval(0.1, -0.02, 0.2),
            "on the same rows, its difference to the next, a, is +0.100 [-0.020, +0.200], which may be chance.",
        ),
        (None, "the next, a, has 0.1 less."),
    ],
)
def test_the_best_two_are_compared_on_their_rows(tmp_path: Path, paired: Interval | None, said: str) -> None:
    make_run(tmp_path / "a", [0.5])
    make_run(tmp_path / "b", [0.6])
    make_run(tmp_path / "c", [0.1])
    asked: list[tuple[str, str, str]] = []

    def difference(best: Path, following: Path, metric: str) -> Interval | None:
        asked.append((best.name, following.name, metric))
        return paired

    assert RunList.read(tmp_path, difference=difference).finding == f"Highest validation f1: 0.600, of b; {said}"
    assert asked == [("b", "a", "f1")]


def test_the_stamp_of_runs_is_another_one_where_something_was_written(tmp_path: Path) -> None:
    for name in "ab":
        make_run(tmp_path / name, ended=False)
    first = stamp(find_runs(tmp_path))
    assert stamp(find_runs(tmp_path)) == first
    with EventLog(event_log_path(tmp_path / "a")) as log:
        log.write("end", steps=20)
    second = stamp(find_runs(tmp_path))
    os.utime(event_log_path(tmp_path / "b"))  # it is written, or was a moment ago
    third = stamp(find_runs(tmp_path))
    make_run(tmp_path / "c", None)
    assert len({first, second, third, stamp(find_runs(tmp_path))}) == 4


def test_nothing_measured_yet_is_said(tmp_path: Path) -> None:
    make_run(tmp_path / "a", None)
    assert RunList.read(tmp_path).finding == "No run has a loss or a metric yet."
    make_run(tmp_path / "b", [0.5])
    assert RunList.read(tmp_path).finding == "Highest validation f1: 0.500, of b; no other run has one."


def test_a_metric_that_is_not_finite_ranks_last_and_one_that_appears_half_way_is_a_column(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [float("nan")])
    make_run(tmp_path / "b", [0.2])
    make_run(tmp_path / "c", [0.3], metric="accuracy")
    runs = RunList.read(tmp_path)
    assert [run.name for run in runs.runs] == ["b", "a", "c"]
    headings = runs.tables()[0].headings
    assert "validation accuracy" in headings and headings.index("validation f1") < headings.index("validation accuracy")
    assert json.loads(json.dumps(runs.to_dict(), allow_nan=False))["runs"][1]["metrics"]["f1"]["value"] is None


def test_settings_that_differ_are_columns(tmp_path: Path) -> None:
    make_run(tmp_path / "a", learning_rate=1e-4, batch_size=8)
    make_run(tmp_path / "b", learning_rate=1e-3, batch_size=8)
    table, same = RunList.read(tmp_path).tables()
    assert table.headings[-1] == "training.learning_rate" and {row[-1] for row in table.rows} == {"0.0001", "0.001"}
    assert ["training.batch_size", "8"] in same.rows and not any("output" in row[0] for row in same.rows)
    make_run(tmp_path / "c", **{f"own_{i}": i for i in range(MAX_SETTINGS + 2)})
    table, _ = RunList.read(tmp_path).tables()
    assert table.note == "4 more settings differ; the page of a run has all."


def test_a_method_of_few_labels_adds_its_name_alone(tmp_path: Path) -> None:
    make_run(tmp_path / "a", learning_rate=1e-4)
    make_run(tmp_path / "b", learning_rate=1e-3)
    config = {"task": "classify", "output": "c", "data": {"train": "mood.csv"}, "method": {"name": "knn", "limit": 7}}
    config["training"] = {"seed": 0, "learning_rate": 0.5, "batch_size": 32}  # defaults, which it does not use
    few = make_run(tmp_path / "c", None)
    (few / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    with EventLog(event_log_path(few)) as log:
        log.write("begin", options={})
        log.write("end", steps=0)
    table, same = RunList.read(tmp_path).tables()
    assert table.headings[-2:] == ["training.learning_rate", "method.name"]
    assert {tuple(row[-2:]) for row in table.rows} == {("0.0001", "–"), ("0.001", "–"), ("–", "knn")}
    assert ["method.limit", "7"] in same.rows and ["training.learning_rate", "0.5"] not in same.rows


def test_a_setting_that_says_nothing_is_no_column(tmp_path: Path) -> None:
    make_run(tmp_path / "one", learning_rate=1e-4, warmup=None, callbacks={}, layers=[])
    make_run(tmp_path / "other", learning_rate=1e-3)
    table, *_ = RunList.read(tmp_path).tables()
    assert [name for name in table.headings if name.startswith("training.")] == ["training.learning_rate"]


def test_curves_are_of_one_group_a_run_and_share_their_points(tmp_path: Path) -> None:
    for i in range(3):
        make_run(tmp_path / f"run-{i}", losses=[1.0 / step for step in range(1, 1001)])
    charts = list(RunList.read(tmp_path).charts())
    assert [chart.title for chart in charts] == ["Validation f1", "Training loss"]
    assert all(isinstance(chart, Series) for chart in charts)
    assert {line.group for chart in charts for line in chart.lines} == {"run-0", "run-1", "run-2"}
    assert max(len(line.x) for chart in charts for line in chart.lines) <= 402


def test_names_are_harmless_short_and_unique(tmp_path: Path) -> None:
    evil, long = "<script>alert(1)</script>\u202e\x1b[2J", "x" * 120
    for name in (evil, f"{long}/{long}/a", f"{long}/{long}/b"):
        make_run(tmp_path / name)
    runs = RunList.read(tmp_path)
    names = [run.name for run in runs.runs]
    assert len(set(names)) == 3 and max(map(len, names)) <= 201
    page = report_page(runs)
    assert "<script>alert" not in page and "\u202e" not in json.dumps(report_data(runs), ensure_ascii=False)
    assert set(named_runs(tmp_path, names).values()) == set(find_runs(tmp_path))
    groups = {line["group"] for chart in report_data(runs)["charts"] for line in chart["lines"]}
    assert groups == {row[0] for row in report_data(runs)["tables"][0]["rows"]}, "the page finds the curves of a row"


def test_what_is_no_run_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    make_run(run / "checkpoints" / "inner")
    make_run(tmp_path / ".hidden")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.yaml").write_text("model: x\n")
    (tmp_path / "link").symlink_to(run)
    assert find_runs(tmp_path) == [run]
    with pytest.raises(DataError, match="holds no run; give a folder that trainings wrote to"):
        RunList.read(tmp_path / "other")
    with pytest.raises(DataError, match=re.escape("has no run 'b' (any more)")):
        named_runs(tmp_path, ["b"])


def test_it_is_read_back_without_its_curves(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", [0.9], interval=(0.8, 0.95))
    runs = RunList.read(tmp_path / "runs")
    runs.save(tmp_path / "runs.json")
    again = RunList.load(tmp_path / "runs.json")
    assert (again.finding, again.caption, again.tables()) == (runs.finding, runs.caption, runs.tables())
    assert not list(again.charts())
