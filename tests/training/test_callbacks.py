"""What a callback hears when it says nothing, and the smoothing that curves and the progress line share."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.reports.table import clock, scores
from glassformer.runs.folder import ExponentialAverage
from glassformer.training.callbacks import EXIT_CODE, Callback, GracefulShutdown, Progress, TrainingStopped
from glassformer.training.run_folder import Checkpoints
from tests.training.a_run import Trainer
from tests.training.kill import ended, fork


def test_a_callback_that_overrides_nothing_hears_all_of_it(tmp_path: Path) -> None:
    Trainer(tmp_path).train(Callback())


def test_smoothing_is_the_weighted_mean_that_it_says() -> None:
    smoothed, values = ExponentialAverage(decay=0.5), [4.0, 8.0, 1.0]
    for n in range(1, 4):
        weights = [0.5 ** (n - 1 - i) for i in range(n)]
        mean = sum(w * x for w, x in zip(weights, values, strict=False)) / sum(weights)
        assert smoothed.add(values[n - 1]) == pytest.approx(mean)


def test_smoothing_leaves_out_what_is_not_finite() -> None:
    smoothed = ExponentialAverage()
    assert math.isnan(smoothed.add(math.nan))
    assert smoothed.add(2.0) == 2.0
    assert smoothed.add(math.inf) == smoothed.add(-math.inf) == 2.0


# ------------------------------------------------------------------------------------ the progress line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_micro_averaged_f1_is_shown_where_it_is_not_the_accuracy() -> None:
    assert scores({"loss": 1, "accuracy": 0.5, "f1_micro": 0.5}) == ["loss 1", "accuracy 0.5"]
    assert scores({"accuracy": 0.5, "f1_micro": 0.5}, "f1_micro") == ["accuracy 0.5", "f1_micro 0.5"]
    assert scores({"f1_micro": 0.4}) == ["f1_micro 0.4"] and scores({}) == []


def test_names_of_folders_and_metrics_command_no_terminal(tmp_path: Path) -> None:
    file = io.StringIO()
    trainer = Trainer(tmp_path / "a\x1b[31m\r\u202eb\x9b", metric="f1\x1b[2J")
    trainer.train(Progress(file=file, seconds=0))
    assert "a\\x1b[31m\\r\\u202eb\\x9b" in file.getvalue() and "best f1\\x1b[2J" in file.getvalue()
    assert file.getvalue().replace("\n", "").isprintable()


def test_plain_lines_say_all_of_it(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path).train(Progress(file=file, seconds=0))
    lines = file.getvalue().splitlines()
    assert lines[0] == "step 1/6  loss 1  0:00 left  epoch 0.25  lr 0.001  1,000 tokens/s"
    assert lines[3] == "step 3  validation: f1 0.3  loss 1"
    assert lines[4] == f"step 3  saved in {tmp_path / 'step-00000003'}"
    assert "best f1 0.3" in lines[5]
    assert lines[-1] == "6 steps in 0:00, validations and saves included"
    assert "\x1b" not in file.getvalue()


def test_plain_lines_are_few(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path, steps=500).train(Progress(file=file, seconds=3600))
    lines = [line for line in file.getvalue().splitlines() if "loss" in line and "validation" not in line]
    assert len(lines) == 1 and lines[0].startswith("step 500/500")


def test_a_resumed_run_counts_its_own_steps(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path).train(Progress(file=file, seconds=0), begin=4)
    assert file.getvalue().startswith("step 5/6") and file.getvalue().endswith(
        "2 steps in 0:00, validations and saves included\n"
    )


@pytest.mark.parametrize("columns", [60, 140])
def test_a_terminal_has_one_line_that_lives(tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    Trainer(tmp_path).train(Progress(file=file))
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()))
    assert "step 6  validation: f1 0.6  loss 1" in lines
    (last,) = {line for line in lines if "6/6" in line}
    assert "loss 0.3997  best f1 0.3" in last and ("tokens/s" in last) == (columns == 140)
    assert len(last.rstrip()) <= columns
    assert "\x1b[?25h" in file.getvalue()  # the cursor is back


def test_quiet_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Trainer(tmp_path).train(Progress(quiet=True))
    assert capfd.readouterr() == ("", "")


def test_text_from_outside_steers_nothing(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path / "[bold]x[/bold]").train(Progress(file=file, seconds=0))
    assert "[bold]x[/bold]" in file.getvalue()


def test_times_as_people_write_them() -> None:
    assert [clock(x) for x in (0.4, 42, 61, 3723)] == ["0:00", "0:42", "1:01", "1:02:03"]


# ------------------------------------------------------------------------------------ ctrl-c and sigterm


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
