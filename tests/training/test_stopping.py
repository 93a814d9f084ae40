"""Ctrl-C and SIGTERM: the first is a request, the second stops at once, and afterwards all is as it was."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.training.checkpoints import Checkpoints
from glassformer.training.stopping import EXIT_CODE, GracefulShutdown, TrainingStopped
from tests.training.kill import ended, fork

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@BOTH
def test_the_first_is_a_request(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with GracefulShutdown() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested == number.name
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    assert f"{number.name}: stopping after this step; once more stops at once" in capfd.readouterr().err


@BOTH
def test_the_second_stops_at_once_and_costs_no_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    saves = Checkpoints(tmp_path)
    saves.save(1, lambda folder: (folder / "a").write_text("1"), about={})
    before = signal.getsignal(number)

    def write(folder: Path) -> None:
        (folder / "a").write_text("2")
        os.kill(os.getpid(), number)
        assert stop.requested
        os.kill(os.getpid(), number)
        pytest.fail("it went on")

    with pytest.raises((KeyboardInterrupt, SystemExit)) as told, GracefulShutdown() as stop:
        saves.save(2, write, about={})
    assert told.type is KeyboardInterrupt if number == signal.SIGINT else told.value.code == 143
    found = saves.latest()
    assert found is not None and found.step == 1
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "step-00000001"}
    assert signal.getsignal(number) is before


@BOTH
def test_a_run_ends_its_step_saves_and_exits_with_75(tmp_path: Path, number: signal.Signals) -> None:
    saves = Checkpoints(tmp_path)
    ready, begin = os.pipe()

    def work() -> None:
        with GracefulShutdown() as stop:
            step = 0
            while not stop.requested:
                time.sleep(0.01)
                step += 1
                os.write(begin, b"!")
            saves.save(step, lambda folder: (folder / "a").write_text("1"), about={})
        os._exit(TrainingStopped.exit_code)

    child = fork(work)
    os.read(ready, 1)
    os.kill(child, number)
    assert ended(child) == EXIT_CODE == 75
    found = saves.latest()
    assert found is not None and found.step >= 1
    os.close(ready)
    os.close(begin)


def test_former_handlers_come_back_when_the_run_fails() -> None:
    heard: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with pytest.raises(ZeroDivisionError), GracefulShutdown():
            1 / 0  # noqa: B018
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_in_another_thread_nothing_changes() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with GracefulShutdown() as stop:
            seen.append(signal.getsignal(signal.SIGINT))
            seen.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, ""]


def test_it_is_an_error_that_the_command_line_prints() -> None:
    assert issubclass(TrainingStopped, GlassformerError)
