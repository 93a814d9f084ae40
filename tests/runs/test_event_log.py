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
from glassformer.runs.event_log import EventLog, event_log_path, read_event_log


def steps(path: Path) -> list[int]:
    return [record["step"] for record in read_event_log(path)]


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        log.write("begin", options={"folder": tmp_path, "clip": math.inf, "labels": ("nan", "β")})
        log.write("step", step=1, loss=np.float32(0.5), lr=torch.tensor(0.25), indices=np.arange(2))
        log.write("validation", step=1, figures={"f1": 0.5, "loss": math.nan})
    begin, step, validation = read_event_log(path)
    assert begin["options"] == {"folder": str(tmp_path), "clip": "inf", "labels": ["nan", "β"]}
    assert (step["loss"], step["lr"], step["indices"]) == (0.5, 0.25, [0, 1])
    assert begin["time"] <= step["time"] <= validation["time"]
    assert validation["figures"]["f1"] == 0.5 and math.isnan(validation["figures"]["loss"])


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
import resource, signal, warnings
from glassformer.runs.event_log import EventLog
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
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
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
