"""The log of a run: strict lines, cut and continued, that survive kills and full disks."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

from glassformer import DataError
from glassformer.runs.curves import charts, downsample
from glassformer.runs.folder import EventLog, event_log_path, read_event_log
from glassformer.runs.history import read_run, read_runs
from tests.training.a_run import write_run


def steps(path: Path) -> list[int]:
    return [record["step"] for record in read_event_log(path)]


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        log.write("begin", options={"folder": tmp_path, "clip": math.inf, "labels": ("nan", "β")})
        log.write("step", step=1, loss=np.float32(0.5), lr=torch.tensor(0.25), indices=np.arange(2))
        log.write("validation", step=1, metrics={"f1": 0.5, "loss": math.nan})
    begin, step, validation = read_event_log(path)
    assert begin["options"] == {"folder": str(tmp_path), "clip": "inf", "labels": ["nan", "β"]}
    assert (step["loss"], step["lr"], step["indices"]) == (0.5, 0.25, [0, 1])
    assert begin["time"] <= step["time"] <= validation["time"]
    assert validation["metrics"]["f1"] == 0.5 and math.isnan(validation["metrics"]["loss"])


def test_the_nan_is_in_the_log_and_the_log_is_strict_json(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        for loss in (math.nan, math.inf, -math.inf):
            log.write("skipped", step=3, loss=loss, indices=[7, 9], module="blocks.0.ffn")
    lines = path.read_text().splitlines()
    assert [json.loads(line, parse_constant=refuse_constant)["loss"] for line in lines] == [
        "nan",
        "inf",
        "-inf",
    ]
    nan, *rest = (record["loss"] for record in read_event_log(path))
    assert math.isnan(nan) and rest == [math.inf, -math.inf]


def test_each_process_has_its_own(tmp_path: Path) -> None:
    assert [event_log_path(tmp_path, rank).name for rank in range(3)] == [
        "journal.jsonl",
        "journal-1.jsonl",
        "journal-2.jsonl",
    ]


def test_a_resumed_run_says_nothing_twice(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        for step in range(5):
            log.write("step", step=step)
            if step == 2:
                offset = log.offset
    with EventLog(path) as log:
        log.truncate(offset)
        assert log.offset == offset == path.stat().st_size
        for step in range(3, 6):
            log.write("step", step=step)
    assert steps(path) == [0, 1, 2, 3, 4, 5]


def test_a_cut_line_is_passed_over_and_then_dropped(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        log.write("step", step=0)
        log.write("step", step=1, text="x" * 200_000)  # longer than what is looked at in one go
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in (first - 1, first, first + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        kept = [0] if length >= first else []
        assert steps(path) == kept
        with EventLog(path) as log:
            log.write("step", step=2)
        assert steps(path) == [*kept, 2]


def test_a_log_shorter_than_its_checkpoint_is_said(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        log.write("step", step=0)
        with pytest.warns(RuntimeWarning, match="999 when the checkpoint was saved"):
            log.truncate(999)
        log.write("step", step=1)
    assert steps(path) == [0, 1]


def test_an_offset_within_a_line_cuts_before_it(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        log.write("step", step=0)
        inside = log.offset + 5
        log.write("step", step=1)
        log.truncate(inside)
    assert steps(path) == [0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs RLIMIT_FSIZE, which this system lacks")
def test_a_full_disk_stops_no_run_and_leaves_whole_lines(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    program = f"""
import resource, signal, sys, warnings
sys.dont_write_bytecode = True  # a module that is cut short would stay cut
from glassformer.runs.folder import EventLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as said, EventLog({str(path)!r}) as journal:
    warnings.simplefilter("always")
    for step in range(20):
        journal.write("step", step=step)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.write("step", step=20)
assert len(said) == 1 and "the log has a gap" in str(said[0].message), said
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    found = steps(path)
    assert 2 <= len(found) - 1 < 20 and found == [*range(len(found) - 1), 20]


def test_a_reader_sees_whole_lines_while_they_are_written(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        for step in range(3):
            log.write("step", step=step)
            assert steps(path) == list(range(step + 1))


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"event": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"event":"step"}\n' + line + b"\n")
    with pytest.raises(DataError, match=r"journal\.jsonl: line 2 .*delete that line"):
        list(read_event_log(path))


def test_places_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be opened: No such file"):
        list(read_event_log(tmp_path / "journal.jsonl"))
    with pytest.raises(DataError, match="the log cannot be opened: Is a directory"):
        EventLog(tmp_path)


def test_no_warning_without_a_reason(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with EventLog(event_log_path(tmp_path)) as log:
            log.write("step", step=0)
            log.sync()
            log.truncate(log.offset)


# ------------------------------------------------------------------------------------ a run read from its log


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
                log.write("validation", step=step, metrics={"f1": step / 10}, best=step == 2)
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
        ('{"event": "step", "step": 1e400}', "line 1"),
        ('{"event": "checkpoint", "step": 99999999999999999999}', "line 1 is no checkpoint of a run: its step is too"),
        ('{"event": "step"}', "line 1 is no step of a run: 'step'"),
        ('{"event": "step", "step": 1, "loss": [2]}', "line 1 is no step of a run"),
        ('{"event": "validation", "step": 1, "metrics": 3}', "line 1 is no validation of a run"),
        ("{", "line 1 is invalid JSON .*; no line of it can be read"),
        ('{"event": "\udcff"}', "line 1 is no text; no line of it can be read"),
    ],
)
def test_a_damaged_log_is_named(tmp_path: Path, line: str, said: str) -> None:
    event_log_path(tmp_path).write_bytes((line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=said):
        read_run(tmp_path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no run: journal\.jsonl is missing"):
        read_run(tmp_path)
    (tmp_path / "emotion").mkdir()
    with pytest.raises(DataError, match=r"emotoin: no such folder; nearest: '.*/emotion'"):
        read_run(tmp_path / "emotoin")
