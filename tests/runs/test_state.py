"""The state of a run: by its log, the process that holds its lock, and the age of its last line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from glassformer.files.lock import FolderLock
from glassformer.runs.state import run_state, state_stamp

MINUTE = 60


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    path.touch()
    return path


def age(log: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(log, (at, at))


def shown(log: Path, times: list[float] | None = None, *, ended: bool = False, marks_end: bool = True) -> str:
    return str(run_state(log.parent, log, ended, np.array(times or []), marks_end=marks_end))


def test_the_process_that_holds_the_lock_decides(log: Path) -> None:
    with FolderLock(log.parent / "lock"):
        assert shown(log) == "running"
        age(log, 11 * MINUTE)
        assert shown(log) == "running, nothing written for over 10 min"
        assert shown(log, ended=True) == "ended"
    assert shown(log) == "stopped"
    age(log, 1)
    assert shown(log) == "stopped", "also just now: a run that was killed does not train for two minutes more"


@pytest.mark.parametrize(
    ("seconds", "interval", "words"),
    [
        (100, 1, "running"),
        (200, 1, "stopped? nothing written for over 3 min"),
        (200, 60, "running"),
        (601, 60, "stopped? nothing written for over 10 min"),
        (10 * 86_400, 1, "stopped? nothing written for over 1 day"),
    ],
)
def test_without_a_lock_the_age_of_the_last_line_decides(
    log: Path, seconds: float, interval: float, words: str
) -> None:
    age(log, seconds)
    assert shown(log, [interval * i for i in range(9)]) == words


def test_a_log_of_a_program_that_marks_no_end_may_have_ended(log: Path) -> None:
    age(log, 400)
    assert shown(log, [float("nan")] * 4, marks_end=False) == "ended? nothing written for over 5 min"


def test_the_stamp_is_another_where_the_state_may_be_another(log: Path) -> None:
    stamps = [state_stamp(log.parent, log)]
    with FolderLock(log.parent / "lock"):
        stamps.append(state_stamp(log.parent, log))
        for minutes in (2.5, 3.5, 4, 6):
            age(log, minutes * MINUTE)
            stamps.append(state_stamp(log.parent, log))
    stamps.append(state_stamp(log.parent, log))
    assert len(stamps) == 7 and len(set(stamps)) == 6, "3.5 and 4 minutes are shown as the same"
    age(log, 9e5)
    assert state_stamp(log.parent, log) == state_stamp(log.parent, log)
