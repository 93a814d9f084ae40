"""The progress line: plain where nobody watches, alive in a terminal, silent when asked."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from glassformer.runs.charts import clock
from glassformer.training.progress import Progress
from tests.training.a_run import Trainer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_say_all_of_it(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path).train(Progress(file=file, seconds=0))
    lines = file.getvalue().splitlines()
    assert lines[0] == "step 1/6  loss 1  0:00 left  epoch 0.25  lr 1.00e-03  1,000 tokens/s"
    assert lines[3] == "step 3  validation: f1 0.3  loss 1"
    assert lines[4] == f"step 3  saved in {tmp_path / 'step-00000003'}"
    assert "best f1 0.3" in lines[5]
    assert lines[-1] == "6 steps in 0:00"
    assert "\x1b" not in file.getvalue()


def test_plain_lines_are_few(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path, steps=500).train(Progress(file=file, seconds=3600))
    lines = [line for line in file.getvalue().splitlines() if "loss" in line and "validation" not in line]
    assert len(lines) == 1 and lines[0].startswith("step 500/500")


def test_a_resumed_run_counts_its_own_steps(tmp_path: Path) -> None:
    file = io.StringIO()
    Trainer(tmp_path).train(Progress(file=file, seconds=0), begin=4)
    assert file.getvalue().startswith("step 5/6") and file.getvalue().endswith("2 steps in 0:00\n")


@pytest.mark.parametrize("columns", [60, 140])
def test_a_terminal_has_one_line_that_lives(
    tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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
