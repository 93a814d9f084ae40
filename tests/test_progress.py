"""A progress bar counts on standard error alone, and only where it is wanted."""

from __future__ import annotations

import time

import pytest

from glassformer import progress
from glassformer.cli.screen import progress_of
from glassformer.progress import progress_bar, spinner, with_bar


def test_a_bar_counts_and_disappears(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    with progress_bar("rows", 30, shown=True) as advance:
        for _ in range(3):
            advance(10)
    captured = capsys.readouterr()
    assert "rows" in captured.err and "30/30" in captured.err and captured.out == ""


@pytest.mark.parametrize("options", [{}, {"shown": False}, {"shown": True, "delay": 60.0}])
def test_nothing_is_written_without_a_terminal_or_before_the_delay(
    options: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("rows", None, **options) as advance:  # type: ignore[arg-type]
        advance(1)
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "log_seconds", 0.0)
    with progress_bar("rows", 3_000) as advance:
        advance(1_500)
    with progress_of("layers") as update:
        update(2, 12)
    with progress_bar("rows", None, shown=False) as advance:
        advance(1)
    assert capsys.readouterr() == ("", "rows: 1,500 of 3,000\nlayers: 2 of 12\n")
    monkeypatch.setattr(progress, "log_seconds", 15.0)
    clock = iter([0, 0, 5, 16, 16, 17])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress_bar("evaluating", 2_000) as advance:
        for more in (400, 600, 500):  # after 0, 5 and 16 seconds
            advance(more)
    assert capsys.readouterr() == ("", "evaluating: 1,500 of 2,000\n")


def test_a_spinner_appears_late_and_leaves_output_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with spinner("loading", shown=True, delay=0.0):
        time.sleep(0.05)
        print("a result")
    captured = capsys.readouterr()
    assert "loading …" in captured.err and captured.out == "a result\n"
    with spinner("loading", shown=True, delay=60.0):
        print("a result", end="")
    assert capsys.readouterr() == ("a result", "")


def test_items_are_counted_and_passed_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(with_bar(["a", "b"], "items", shown=True)) == ["a", "b"]
    assert "2/2" in capsys.readouterr().err
    assert list(with_bar(iter("ab"), "items")) == ["a", "b"] and capsys.readouterr() == ("", "")


def test_hidden_for_a_while(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "log_seconds", 0.0)
    with progress.hidden(), progress.progress_bar("rows", 2) as advance:
        advance(1)
    assert capsys.readouterr().err == "" and progress.enabled
    with progress.hidden(False), progress.progress_bar("rows", 2) as advance:
        advance(1)
    assert capsys.readouterr().err == "rows: 1 of 2\n"
