"""`glassformer curves`: in the terminal, as JSON, as a page, and what it says of places that are no runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from glassformer.cli.app import main
from glassformer.cli.curves import BITS, dotted
from glassformer.runs.event_log import EventLog, event_log_path
from tests.training.a_run import write_run


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["curves", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


def test_a_run_in_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, write_run(tmp_path / "a"), "--figure", "loss", "--figure", "f1")
    assert code == 0
    assert "Loss   ● training, smoothed 0." in out and "f1   ● validation 0." in out
    assert "a: step 20 was skipped, its loss was nan" in out
    assert "best validation  step" in out and "⠉" in out


def test_several_runs_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [write_run(tmp_path / name) for name in ("left", "right")]
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, *places, "--html", page)
    assert code == 0 and f"saved in {page}" in out.replace("\n", "")
    assert "left" in out and "right" in out
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_json_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, write_run(tmp_path / "a"), "--json")
    (facts,) = json.loads(out)
    assert code == 0 and facts["steps"] == 60 and facts["skipped"] == [{"step": 20, "loss": "nan"}]
    assert set(facts["metrics"]) == {"loss", "f1"}


def test_a_run_that_has_just_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EventLog(event_log_path(tmp_path)) as journal:
        journal.write("begin", options={})
    code, out, _ = run(capsys, tmp_path)
    assert code == 0 and "steps" in out


def test_error_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "a", steps=3)
    for arguments, message in [
        ([tmp_path], "holds no run"),
        ([folder, "--figure", "los"], "no metric 'los'; there are loss, f1"),
        ([folder, "--html", tmp_path / "page.txt"], "must end in .html"),
        ([folder, "--html", tmp_path / "no" / "page.html"], "no such folder"),
    ]:
        code, _, err = run(capsys, *arguments)
        assert code == 2 and message in err and "Traceback" not in err


def test_names_steer_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "a\x1b[31mb", steps=3)
    _, out, _ = run(capsys, folder, folder)
    assert "\x1b[31m" not in out and "a\\x1b[31mb" in out


def plot(values: list[float], width: int = 4, height: int = 2) -> list[str]:
    line = (np.arange(len(values)), np.array(values, dtype=float))
    field = dotted([line], (0, len(values) - 1), (0, 1), width, height)
    return ["".join(character for character, _ in row) for row in field]


def test_a_flat_line_lies_where_it_should() -> None:
    assert plot([1, 1]) == ["⠉⠉⠉⠉", "    "]
    assert plot([0, 0]) == ["    ", "⣀⣀⣀⣀"]


def test_a_steep_line_has_no_gaps() -> None:
    field = plot([0, 1])
    assert field[0].strip() and field[1].strip()
    dots = {
        (2 * column + x, 4 * line + y)
        for line, row in enumerate(field)
        for column, character in enumerate(row)
        for y, bits in enumerate(BITS)
        for x, bit in enumerate(bits)
        if character != " " and ord(character) & bit
    }
    assert {y for _, y in dots} == set(range(8)) and {x for x, _ in dots} == set(range(8))
    jump = plot([0, 0, 0, 1, 1, 1], width=2)
    assert any("⢸" in row or "⡇" in row for row in jump)


def test_what_lies_beyond_the_edge_stays_on_it_and_nan_is_left_out() -> None:
    assert plot([9, 9]) == ["⠉⠉⠉⠉", "    "]
    assert plot([math.nan, math.nan]) == ["    ", "    "]
    assert plot([1, math.nan, 1]) == ["⠉⠉⠉⠉", "    "]


def test_cells_know_whose_they_are() -> None:
    places = np.array([0, 1])
    field = dotted([(places, np.array([1.0, 1.0])), (places, np.array([0.0, 0.0]))], (0, 1), (0, 1), 2, 2)
    assert [[which for _, which in row] for row in field] == [[0, 0], [1, 1]]
    half = dotted([(places, np.array([1.0, 1.0]))], (0, 2), (0, 1), 4, 1)
    assert [which for _, which in half[0]] == [0, 0, None, None]
