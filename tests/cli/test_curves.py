"""`glassformer curves`: in the terminal, as JSON, as a page, and what it says of places that are no runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.cli.app import main
from glassformer.runs.folder import EventLog, event_log_path
from tests.training.a_run import write_run


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["curves", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


def test_a_run_in_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, write_run(tmp_path / "a"), "--metric", "loss", "--metric", "f1")
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


def test_a_folder_is_the_runs_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("left", "inner/right"):
        write_run(tmp_path / name, steps=3)
    code, out, _ = run(capsys, tmp_path, "--json")
    assert code == 0 and [facts["run"] for facts in json.loads(out)] == ["right", "left"]


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
    (tmp_path / "empty").mkdir()
    for arguments, message in [
        ([tmp_path / "empty"], "holds no run"),
        ([folder, "--metric", "los"], "no metric 'los'; there are loss, f1"),
        ([folder, "--html", tmp_path / "page.txt"], "must end in .html"),
        ([folder, "--html", tmp_path / "no" / "page.html"], "no such folder"),
    ]:
        code, _, err = run(capsys, *arguments)
        assert code == 2 and message in err and "Traceback" not in err


def test_names_steer_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "a\x1b[31mb", steps=3)
    _, out, _ = run(capsys, folder, folder)
    assert "\x1b[31m" not in out and "a\\x1b[31mb" in out
