"""Passes and the sessions kept: joined, bounded, let go, and never in each other's way."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.explorer.describe import model_facts
from glassformer.explorer.session_runs import MAX_WAITING, PassStopped, SessionGone, SessionRuns
from glassformer.model import Model


class Slow:
    """Stands in for a session factory: its passes go on when they are told to."""

    def __init__(self, model: Model, nbytes: int = 100) -> None:
        self.facts, self.trace = model_facts(model), model.writing
        self.go = threading.Event()
        self.begun: list[tuple[str, ...]] = []
        self.at_once = self.most_at_once = 0
        self.nbytes = nbytes
        self.count_tokens = len

    def inspect(self, *texts: str, progress: Callable[[int, int], None]) -> Any:
        self.begun.append(texts)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        progress(1, 2)
        assert self.go.wait(30)
        progress(2, 2)
        self.at_once -= 1
        if texts == ("fail",):
            raise RuntimeError("midway")
        return SimpleNamespace(texts=texts, nbytes=self.nbytes)


@pytest.fixture
def slow(models: dict[str, Model]) -> Any:
    return Slow(models["bert"])


def test_equal_texts_are_one_pass(slow: Any) -> None:
    runs = SessionRuns(slow)
    first, second, other = runs.begin(["a"]), runs.begin(["a"]), runs.begin(["a", "b"])
    assert first is second and first is not other
    assert not first.finished
    slow.go.set()
    assert first.result() is second.result()
    assert other.result().texts == ("a", "b")
    assert runs.begin(["a"]) is first  # kept
    assert slow.begun == [("a",), ("a", "b")]


def test_passes_go_one_after_another(slow: Any) -> None:
    slow.go.set()
    runs = SessionRuns(slow)
    for run in [runs.begin([str(i)]) for i in range(6)]:
        run.result()
    assert slow.most_at_once == 1


def test_progress_is_seen_while_it_goes(slow: Any) -> None:
    run = SessionRuns(slow).begin(["a"])
    while run.blocks_done == (0, 0):
        assert not run.wait(0.01)
    assert run.blocks_done == (1, 2)
    slow.go.set()
    run.result()
    assert run.blocks_done == (2, 2)


def test_a_failure_goes_to_all_who_wait_and_is_not_kept(slow: Any) -> None:
    runs = SessionRuns(slow)
    first, joined = runs.begin(["fail"]), runs.begin(["fail"])
    slow.go.set()
    for run in (first, joined):
        with pytest.raises(RuntimeError, match="midway"):
            run.result()
    assert runs.begin(["fail"]) is not first  # tried anew
    assert runs.begin(["well"]).result().texts == ("well",)


def test_the_least_recently_used_is_let_go(slow: Any) -> None:
    slow.go.set()
    runs = SessionRuns(slow, max_stored=2)
    first, second = runs.begin(["1"]), runs.begin(["2"])
    first.result(), second.result()
    assert runs.get(first.id) is first  # now the second is the older one
    third = runs.begin(["3"])
    third.result()
    assert runs.get(first.id) is first
    assert runs.get(third.id) is third
    with pytest.raises(SessionGone, match="run the text again"):
        runs.get(second.id)
    assert runs.begin(["2"]).id == second.id  # made anew, it has its old name


def test_sessions_stay_below_the_budget_as_they_grow(slow: Any) -> None:
    slow.go.set()
    runs = SessionRuns(slow, budget=250)
    first, second = runs.begin(["1"]), runs.begin(["2"])
    first.result().nbytes = second.result().nbytes = 100
    runs.get(first.id), runs.get(second.id)
    second.result().nbytes = 200  # somebody looked at more layers
    runs.get(second.id)
    with pytest.raises(SessionGone):
        runs.get(first.id)
    second.result().nbytes = 1000  # above the budget all by itself, and all there is
    assert runs.get(second.id) is second


def test_a_run_under_way_is_no_session_yet(slow: Any) -> None:
    runs = SessionRuns(slow)
    with pytest.raises(SessionGone):
        runs.get(runs.begin(["a"]).id)
    slow.go.set()


def test_stopping_ends_passes_at_the_end_of_their_block(slow: Any) -> None:
    runs = SessionRuns(slow)
    done = runs.begin(["done"])
    slow.go.set()
    done.result()
    slow.go.clear()
    run, waiting = runs.begin(["a"]), runs.begin(["b"])
    while run.blocks_done == (0, 0):
        assert not run.wait(0.01)
    stopping = threading.Thread(target=runs.stop)
    stopping.start()
    stopping.join(0.05)
    assert stopping.is_alive()  # it waits for the block
    slow.go.set()
    stopping.join(30)
    assert run.finished and waiting.finished
    for stopped in (run, waiting):
        with pytest.raises(PassStopped):
            stopped.result()
    assert slow.begun == [("done",), ("a",)]
    assert done.result().texts == ("done",)
    with pytest.raises(PassStopped):
        runs.begin(["c"])


def test_no_more_wait_than_can(slow: Any) -> None:
    runs = SessionRuns(slow)
    prefix_length = [runs.begin([str(i)]) for i in range(MAX_WAITING)]
    with pytest.raises(DataError, match="waiting for their forward pass"):
        runs.begin(["one more"])
    assert runs.begin(["3"]) is prefix_length[3]  # who joins does not wait in line
    slow.go.set()
    for run in prefix_length:
        run.result()
    assert runs.begin(["one more"]).result()


def test_a_run_that_nobody_waits_for_ends(slow: Any) -> None:
    """Of two readers the first may leave; after the last one the text begins anew."""
    runs = SessionRuns(slow)
    run = runs.begin(["a"])
    with run.awaited():
        with run.awaited():
            pass
        assert not run.stopped
    assert run.stopped
    again = runs.begin(["a"])  # while the first one is still in its block
    assert again is not run
    slow.go.set()
    assert again.result().texts == ("a",)
    with pytest.raises(PassStopped):
        run.result()
    assert runs.get(again.id) is again


def test_a_finished_run_stays(slow: Any) -> None:
    runs = SessionRuns(slow)
    slow.go.set()
    run = runs.begin(["a"])
    run.result()
    with run.awaited():
        pass
    assert not run.stopped and runs.begin(["a"]) is run


def test_stopped_runs_make_room_and_leave_the_line(slow: Any) -> None:
    runs = SessionRuns(slow)
    holding = runs.begin(["first"])
    for number in range(3 * MAX_WAITING):
        with runs.begin([str(number)]).awaited():
            pass
    last = runs.begin(["last"])
    assert last is not holding
    deadline = time.monotonic() + 300
    while sum("SessionRun" in thread.name for thread in threading.enumerate()) > 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    slow.go.set()
    holding.result()
    last.result()  # it begins when the first one has ended
    assert slow.begun == [("first",), ("last",)]


def test_a_long_text_is_refused(slow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.explorer.session_runs.MAX_TEXT_TOKENS", 5)
    SessionRuns(slow).check_length(["12345", "1"])
    with pytest.raises(DataError, match="has 6 tokens; a page may send at most 5"):
        SessionRuns(slow).check_length(["1", "123456"])


def test_a_process_ends_in_the_middle_of_a_kernel() -> None:
    """A thread that comes back from a kernel while the interpreter ends would abort the process."""
    program = """
import threading, time
from glassformer.explorer import session_runs
from glassformer.explorer.session_runs import Job, Jobs
session_runs.JOIN_SECONDS = 0.05
class Kernel(Job):
    def work(self):
        time.sleep(60)
jobs = Jobs()
jobs.start(Kernel(), lambda: None)
jobs.close()
print("closed")
raise SystemError("the end")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, "closed\n") and "the end" in done.stderr, done.stderr
