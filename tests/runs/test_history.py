"""A run read from its log: what a resumed, a broken, a long and a strange one look like as curves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from glassformer import DataError
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.runs.history import charts, downsample, read_run, read_runs
from tests.training.a_run import write_run


def test_a_run_is_what_its_log_says(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", steps=60))
    assert run.name == "a" and run.ended and run.last == 60
    assert list(run.steps["step"]) == [step for step in range(1, 61) if step != 20]
    assert run.options["learning_rate"] == 1e-3
    assert run.skipped[0]["step"] == 20 and math.isnan(run.skipped[0]["loss"])
    steps, losses = run.validation["loss"]
    best = int(steps[losses.argmin()])
    assert run.best == best and run.best_metrics()["loss"] == losses.min()
    assert run.tokens == 60_000 and run.seconds == pytest.approx(20, rel=0.02)


def test_smoothing_is_computed_before_thinning(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, steps=600))
    assert run.half_life == 10
    whole = dict(zip(run.steps["step"], run.smoothed("loss"), strict=True))
    (smooth,) = [line for line in charts([run], 50)[0].lines if line.kind == "smooth"]
    assert len(smooth.steps) <= 50
    assert [whole[step] for step in smooth.steps] == list(smooth.values)
    late = np.array([whole[step] for step in range(500, 600)])
    assert late.std() < run.steps["loss"][-100:].std() / 2


def test_lines_of_several_steps_are_smoothed_over_as_many_steps(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        for step in range(10, 601, 10):
            log.write("step", step=step, loss=float(step), tokens=step * 5, tokens_per_s=50.0)
    run = read_run(tmp_path)
    assert run.half_life == 10 and run.seconds == 60
    one, two = run.smoothed("loss")[:2]
    assert (one, two) == (10, pytest.approx((0.5 * 10 + 20) / 1.5))


def test_the_whole_configuration_is_shown_where_the_folder_has_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "config.yaml").write_text("task: classify\ntraining: {seed: 3}\n")
    assert read_run(folder).options == {"task": "classify", "training": {"seed": 3}}
    (folder / "config.yaml").write_text("a: [")
    with pytest.raises(DataError, match=r"config\.yaml: invalid YAML"):
        read_run(folder)


def test_a_resumed_run_has_the_checkpoint_that_it_went_on_from(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        log.write("step", step=5)
        log.write("resumed", step=5)
        log.write("step", step=6)
    assert read_run(tmp_path).checkpoints == [5]


def test_a_run_that_went_back_forgets_what_came_after(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        for step in (1, 2, 3, 4, 3, 4, 5):
            log.write("step", step=step, loss=float(step))
            if step in (2, 4):
                log.write("validation", step=step, figures={"f1": step / 10}, best=step == 2)
                log.write("checkpoint", step=step)
    run = read_run(tmp_path)
    assert list(run.steps["step"]) == [1, 2, 3, 4, 5] and not run.ended
    assert list(run.validation["f1"][0]) == [2, 4]
    assert run.checkpoints == [2, 4] and run.best == 2 and run.best_metrics() == {"f1": 0.2}


def test_thinning_loses_no_spike() -> None:
    steps = np.arange(100_000)
    values = np.sin(steps / 5000)
    values[[777, 54_321]] = 9.0, -9.0
    values[500] = math.nan
    few, kept = downsample(steps, values, 1000)
    assert len(few) <= 1000 and (few[0], few[-1]) == (0, 99_999)
    assert kept[list(few).index(777)] == 9.0 and kept[list(few).index(54_321)] == -9.0
    assert np.all(np.diff(few) > 0) and np.array_equal(values[few], kept, equal_nan=True)
    same, _ = downsample(steps[:1000], values[:1000], 1000)
    assert len(same) == 1000


def test_charts_come_in_order_and_show_what_there_is(tmp_path: Path) -> None:
    runs = [read_run(write_run(tmp_path / name)) for name in "ab"]
    found = {chart.name: chart for chart in charts(runs, 100)}
    assert list(found) == ["loss", "f1", "lr", "grad_norm", "tokens_per_s"]
    assert [(line.run, line.kind) for line in found["loss"].lines] == [
        (run, kind) for run in (0, 1) for kind in ("raw", "smooth", "points")
    ]
    assert [line.kind for line in found["lr"].lines] == ["raw", "raw"]
    assert {line.kind for line in charts(runs * 2, 100)[0].lines} == {"smooth", "points"}


def test_names_are_told_apart(tmp_path: Path) -> None:
    places = [write_run(tmp_path / part / "run", steps=3) for part in "abc"]
    assert [run.name for run in read_runs(places)] == ["run", "run (2)", "run (3)"]
    assert read_run(event_log_path(places[0])).name == "run"


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        log.write("begin", options={})
    run = read_run(tmp_path)
    assert (run.last, run.best, run.seconds, charts([run], 10)) == (0, None, 0.0, [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"event": "step"}', "line 1 is no step of a run: 'step'"),
        ('{"event": "step", "step": 1, "loss": [2]}', "line 1 is no step of a run"),
        ('{"event": "validation", "step": 1, "figures": 3}', "line 1 is no validation of a run"),
        ("{", "line 1 is invalid JSON"),
    ],
)
def test_a_damaged_log_is_named(tmp_path: Path, line: str, said: str) -> None:
    event_log_path(tmp_path).write_text(line + "\n")
    with pytest.raises(DataError, match=said):
        read_run(tmp_path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError, match=r"holds no run: journal\.jsonl is missing"):
            read_run(place)
