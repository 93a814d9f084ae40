"""`glassformer look` of what is no model: what a path is, and the page of each kind, served or as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.look_places import PLACES, place_of
from glassformer.files.lazy import imported
from glassformer.files.lock import FolderLock
from glassformer.runs.folder import EventLog, event_log_path
from tests.cli.conftest import Command
from tests.cli.test_look import api, started
from tests.reports.packed import data_of
from tests.runs.run_folders import make_run

STUDY = Path(__file__).parents[2] / "docs/results/studies/transfer.json"
SEARCH = {
    "kind": "search", "version": 1, "metric": "f1", "direction": "maximize", "best": None,
    "trials": [{"number": 0, "settings": {"rate": 1e-4}, "metrics": {"f1": 0.5}, "state": "complete", "seconds": 1.0},
               {"number": 1, "settings": {"rate": 1e-3}, "metrics": {"f1": 0.7}, "state": "complete", "seconds": 1.0}],
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with one path of each kind."""
    for name, file, text in (
        ("run", "config.yaml", "task: classify\n"),
        ("store", "store.json", "{}"),
        ("study", "study.json", STUDY.read_text("utf-8")),
        ("search", "trials.json", json.dumps(SEARCH)),
        (".", "report.json", json.dumps(SEARCH)),
        (".", "rows.csv", "text,label\ntime flies,a\nfruit flies,b\n"),
        (".", "rows.json", '[{"kind": "a", "text": "time flies"}]'),
    ):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / file).write_text(text, "utf-8")
    make_run(tmp_path / "runs" / "mood", [0.9])
    return tmp_path


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("run", "a run"),
        ("store", "a store of documents"),
        ("study", "a study or a search"),
        ("search", "a study or a search"),
        ("report.json", "a report"),
        ("rows.csv", "a data file"),
        ("rows.json", "a data file"),
        ("runs", "a folder of runs"),
        ("nothing", None),
        ("../bert-base-uncased", None),
    ],
)
def test_a_path_is_of_one_kind(home: Path, path: str, what: str | None) -> None:
    place = place_of(str(home / path))
    assert (place and place.what) == what


def test_with_a_text_a_run_is_a_model(home: Path) -> None:
    assert place_of(str(home / "run"), ["time flies"]) is None
    assert place_of("postgresql://host/base", ["time flies"]) is not None


def test_each_kind_is_shown_by_a_function() -> None:
    assert all(callable(imported(place.shown_by)) for place in PLACES)


@pytest.mark.parametrize(
    ("path", "finding"),
    [
        ("study", "Already with 125 rows of fr"),
        ("search", "Best: f1 0.7, trial 1"),
        ("report.json", "Best: f1 0.7, trial 1"),
        ("runs", "Highest validation f1: 0.900, of mood; no other run has one."),
        ("rows.csv", "2 rows in rows.csv, 2 classes: 1 problem found."),
    ],
)
def test_each_has_a_page_that_begins_with_its_finding(home: Path, path: str, finding: str, command: Command) -> None:
    done = command("look", home / path, "--html", home / "page.html")
    assert (done.returncode, done.stdout) == (0, f"saved in {home / 'page.html'}\n"), done.stderr
    assert data_of((home / "page.html").read_text("utf-8"))["reports"][0]["finding"].startswith(finding)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.csv", "time flies"], "a text is looked at in a model, and"),
        (["rows.csv", "--layer", "0"], "--layer is of the page of a model or a store, and this path is neither"),
        (["report.json", "--reader", "MODEL"], "--reader is of the page of a model or a store"),
        (["report.json", "--html", "page.pdf"], "must end in .html"),
        (["later.json"], "it was written by a later Glassformer"),
        (["cut.json"], "is not valid JSON"),
        (
            ["rows.cvs"],
            "none of these: a store of documents, a run, a study or a search, a report, a data file, a folder",
        ),
        (["rows.cvs"], "rows.csv"),
    ],
)
def test_what_the_user_can_fix_is_one_line(home: Path, arguments: list[str], message: str, command: Command) -> None:
    (home / "later.json").write_text(json.dumps({**SEARCH, "version": 2}), "utf-8")
    (home / "cut.json").write_text(json.dumps(SEARCH)[:-9], "utf-8")
    done = command("look", home / arguments[0], *arguments[1:], "--no-browser")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_run_without_rows_is_shown_by_its_curves(home: Path, command: Command) -> None:
    done = command("look", home / "runs" / "mood", "--html", home / "page.html")
    assert done.returncode == 0 and done.stderr.startswith("note: Its rows cannot be shown: "), done.stderr
    [curves] = data_of((home / "page.html").read_text("utf-8"))["reports"]
    assert curves["finding"].startswith("Best f1 0.9 at step 10") and curves["charts"]
    assert curves["remarks"][0].startswith("Its rows cannot be shown: ")


def test_a_run_that_trains_is_served_as_it_is_written(home: Path) -> None:
    run = make_run(home / "live", [0.5], ended=False)
    with FolderLock(run / "lock"), started("look", str(run), "--no-browser", "--json") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert "It is at step 20 of 20" in json.loads(api(url, "/api/report/"))["reports"][0]["finding"]
        with EventLog(event_log_path(run)) as log:
            log.write("end", steps=20)
        again = json.loads(api(url, "/api/report/"))["reports"][0]
        assert again["finding"].endswith("It ended at step 20, as planned."), "it is read again"


def test_a_report_is_served_to_those_who_have_the_key(home: Path) -> None:
    with started("look", str(home / "search"), "--no-browser", "--json") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert b'data-from="/api/report"' in api(url, "/")
        page: dict[str, Any] = json.loads(api(url, "/api/report/"))
        assert page["page"] and page["title"] == "Search for the highest f1"
        (home / "search" / "trials.json").write_text(json.dumps({**SEARCH, "trials": SEARCH["trials"][:1]}), "utf-8")  # type: ignore[index] # a list
        again = json.loads(api(url, "/api/report/"))
        assert again["reports"][0]["finding"].startswith("Best: f1 0.5"), "it is read again"
        with pytest.raises(OSError, match="401"):
            api(url.replace("token=", "token=x"), "/api/report/")


def test_each_run_of_a_folder_has_a_page_on_its_server(home: Path) -> None:
    report = {**json.loads(STUDY.read_text("utf-8"))}
    (home / "runs" / "mood" / "evaluation" / "validation").mkdir(parents=True)
    (home / "runs" / "mood" / "evaluation" / "validation" / "report.json").write_text(json.dumps(report), "utf-8")
    make_run(home / "runs" / "deep" / "seed-0")
    with started("look", str(home / "runs"), "--no-browser", "--json") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        first = json.loads(api(url, "/api/report/"))["reports"][0]
        assert first["tables"][0]["browse"] == {"measure": 3, "address": "/run/"}
        one = json.loads(api(url, "/api/report/run/mood"))
        assert [each["kind"] for each in one["reports"]] == ["", "study"], "its curves, and its report"
        both = json.loads(api(url, "/api/report/run/mood//deep/seed-0"))
        assert len(both["reports"]) == 1 and both["title"] == "mood · deep/seed-0"
        for path in ("run/../../etc", "run/nothing", "nothing"):
            with pytest.raises(OSError, match="40"):
                api(url, f"/api/report/{path}")
