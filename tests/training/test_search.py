"""A search: what it tries, that it goes on where it was stopped, and what becomes of trials that fail."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from glassformer import ConfigError, DataError, MissingExtraError, WeightsError
from glassformer.files.atomic import disk_errors
from glassformer.reports.page import report_page
from glassformer.training.callbacks import Callback, TrainingStopped
from glassformer.training.search import search
from glassformer.training.trials import SearchResult, Trial
from tests.full_disk import full_disk

pytest.importorskip("optuna", reason="needs optuna: pip install 'glassformer[search]'")
SPACE = {
    "lr": {"low": "1e-6", "high": 1e-2, "log": True},
    "batch": [8, 16],
    "layers": {"low": 1, "high": 4},
    "task": "x",
}


def score(settings: Mapping[str, Any]) -> float:
    return -((math.log10(settings["lr"]) + 4) ** 2) - settings["batch"] / 100


def plain(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
    return {"f1": score(settings), "loss": 1.0}


def look(make: Callable[..., Any], place: Path, trials: int, **others: Any) -> SearchResult:
    options = {"metric": "f1", "direction": "maximize", "seed": 3, **others}
    return search(make, options.pop("space", SPACE), trials=trials, storage=place, **options)


def tried(found: SearchResult) -> list[tuple[dict[str, Any], str, dict[str, float]]]:
    return [(trial.settings, trial.state, trial.metrics) for trial in found.trials]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return look(plain, tmp_path_factory.mktemp("search") / "search.log", 14)


def test_a_full_disk_ends_a_search_and_counts_as_no_trial(tmp_path: Path, whole: SearchResult) -> None:
    """Trials that failed for want of space would be the result for ever: settings have no part in it."""
    place, calls = tmp_path / "search.log", 0

    def no_space(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
        nonlocal calls
        calls += 1
        if calls in (2, 3):
            with disk_errors("model", WeightsError):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return plain(settings, watch)

    for _ in range(2):
        with pytest.raises(WeightsError, match="model: cannot be written: No space left"):
            look(no_space, place, 14)
    assert tried(look(no_space, place, 14)) == tried(whole)


def test_trials_that_cannot_be_stored_end_a_search(tmp_path: Path, whole: SearchResult) -> None:
    place = tmp_path / "search.log"
    for limit in (2_000, 3_000, 3_100, 3_200, 4_000, 6_000):
        with full_disk(limit), pytest.raises(DataError, match=r"search\.log: .*File too large") as raised:
            look(plain, place, 14)
        assert "finished trials are kept, and the same command resumes it" in str(raised.value)
    assert tried(look(plain, place, 14)) == tried(whole)


def test_settings_come_from_the_space_and_the_best_is_the_best(whole: SearchResult) -> None:
    for trial in whole.trials:
        assert 1e-6 <= trial.settings["lr"] <= 1e-2 and trial.settings["batch"] in (8, 16)
        assert trial.settings["layers"] in (1, 2, 3, 4) and isinstance(trial.settings["layers"], int)
        assert trial.settings["task"] == "x" and trial.metrics["f1"] == score(trial.settings)
    assert [trial.number for trial in whole.trials] == list(range(14))
    assert len({trial.settings["lr"] for trial in whole.trials}) == 14
    assert whole.best is not None and whole.best.metrics["f1"] == max(score(t.settings) for t in whole.trials)
    assert whole.ranked()[0] == whole.best


def test_of_equal_trials_the_lower_loss_is_the_best() -> None:
    losses = [1.9, 1.4, float("nan"), 1.5]
    trials = [Trial(i, {}, {"f1": 0.8, "loss": loss}, "complete", 1.0) for i, loss in enumerate(losses)]
    found = SearchResult("f1", "maximize", [*trials, Trial(4, {}, {"f1": 0.9, "loss": 0.1}, "pruned", 1.0)])
    assert found.best is trials[1] and [trial.number for trial in found.ranked()] == [1, 3, 0, 2, 4]


def test_an_interrupted_search_finds_what_a_whole_one_does(tmp_path: Path, whole: SearchResult) -> None:
    place = tmp_path / "deep" / "search.log"
    look(plain, place, 4)

    def interrupted(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(interrupted, place, 14)
    look(plain, place, 12)
    place.write_bytes(place.read_bytes() + b'{"op_code": 4, "cu')  # a kill within a write
    assert tried(look(plain, place, 14)) == tried(whole)
    assert tried(look(plain, place, 5)) == tried(whole)  # nothing is left to do


def test_a_trial_that_a_kill_has_cut_counts_for_nothing(tmp_path: Path, whole: SearchResult) -> None:
    place = tmp_path / "search.log"
    look(plain, place, 3)
    lines = place.read_bytes().splitlines(keepends=True)
    end = max(i for i, line in enumerate(lines) if json.loads(line)["op_code"] == 6)  # the third was told its end
    place.write_bytes(b"".join(lines[:end]))
    assert tried(look(plain, place, 5)) == tried(whole)[:5]


def test_trials_that_fail_are_kept_and_others_go_on(tmp_path: Path) -> None:
    problems = [
        ConfigError("no\nway"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ]

    def make(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
        if problems:
            raise problems.pop(0)
        return {"f1": math.nan} if not told else {"f1": 0.5}

    told: list[Trial] = []
    found = look(make, tmp_path / "search.log", 5, progress=told.append)
    assert told == found.trials
    assert [trial.state for trial in found.trials] == ["failed"] * 3 + ["complete"] * 2
    assert found.trials[0].error == "ConfigError: no way"
    assert found.best is found.trials[3]


def test_a_figure_that_is_no_number_is_a_failure(tmp_path: Path) -> None:
    found = look(lambda settings, watch: {"f1": math.nan}, tmp_path / "search.log", 1)
    assert (found.trials[0].state, found.trials[0].error, found.best) == ("failed", "f1 is nan", None)
    found.write(tmp_path)
    assert not (tmp_path / "best.yaml").exists()


def test_an_error_of_the_program_ends_the_search(tmp_path: Path) -> None:
    def make(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look(make, tmp_path / "search.log", 3)

    def stop(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
        raise TrainingStopped

    with pytest.raises(TrainingStopped):
        look(stop, tmp_path / "search.log", 3)
    with pytest.raises(ConfigError, match="a trial gives no metric 'f1'; it gives loss"):
        look(lambda settings, watch: {"loss": 1.0}, tmp_path / "search.log", 3)


def test_what_falls_behind_is_pruned(tmp_path: Path) -> None:
    reached: list[int] = []

    def make(settings: dict[str, Any], watch: Callback) -> dict[str, float]:
        number = len(reached)
        reached.append(0)
        trainer: Any = SimpleNamespace(state=SimpleNamespace(step=0))
        for trainer.state.step in (1, 2, 3):
            watch.on_validation(trainer, {"f1": 0.0 if number >= 6 else 0.5 + number / 100})
            reached[number] += 1
        return {"f1": 0.5}

    found = look(make, tmp_path / "search.log", 8)
    assert reached == [3, 3, 3, 3, 3, 3, 0, 0]
    assert [trial.state for trial in found.trials] == ["complete"] * 6 + ["pruned"] * 2
    assert found.trials[7].metrics == {"f1": 0.0} and found.trials[7].error is None


def test_a_file_holds_one_search(tmp_path: Path) -> None:
    place = tmp_path / "search.log"
    look(plain, place, 1)
    for change in (
        {"metric": "loss"},
        {"direction": "minimize"},
        {"seed": 4},
        {"space": {**SPACE, "lr": [1e-3]}},
    ):
        (name,) = change
        with pytest.raises(ConfigError, match=f"holds another search: its {name} is "):
            look(plain, place, 2, **change)
    other = tmp_path / "notes.txt"
    other.write_bytes(b"mine")
    with pytest.raises(DataError, match="is no file of a search"):
        look(plain, other, 1)
    assert other.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"low": 1, "hihg": 2}, "'hihg' is no key of a range; nearest: 'high'"),
        ({"low": 1}, "high is None; it must be a number"),
        ({"low": "x", "high": 2}, "low is 'x'; it must be a number"),
        ({"low": 3, "high": 2}, "from 3 to 2 is no range"),
        ({"low": -1.0, "high": 2.0, "log": True}, "is no range"),
        ([], "nothing to choose from"),
        ([[1], 2], "nothing to choose from"),
    ],
)
def test_a_space_that_is_none(tmp_path: Path, choice: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^rate: .*{said}"):
        look(plain, tmp_path / "search.log", 1, space={"rate": choice})
    assert not list(tmp_path.iterdir())


def test_other_wrong_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="direction is 'up'"):
        look(plain, tmp_path / "a", 1, direction="up")
    with pytest.raises(ConfigError, match="trials is 0"):
        look(plain, tmp_path / "a", 0)
    with pytest.raises(DataError, match=r"cannot be stored here|cannot be opened"):
        look(plain, tmp_path, 1)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"glassformer\[search\]"):
        look(plain, tmp_path / "a", 1)


def test_what_is_saved(tmp_path: Path, whole: SearchResult) -> None:
    whole.write(tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "trials.json").read_text())
    assert whole.best is not None
    assert kept["best"]["settings"] == whole.best.settings and len(kept["trials"]) == 14
    assert yaml.safe_load((tmp_path / "out" / "best.yaml").read_text()) == whole.best.settings
    assert "<!doctype html>" in (tmp_path / "out" / "trials.html").read_text("utf-8")
    assert [len(chart.points) for chart in whole.charts()] == [14] * len(list(whole.charts())) and list(whole.charts())


def test_values_that_were_tried_are_the_ticks_of_their_axis() -> None:
    tried = [(8, 1e-4, "linear"), (16, 2e-4, "cosine"), (16, 9e-4, "linear")]
    trials = [
        Trial(i, {"batch": batch, "rate": rate, "schedule": schedule}, {"f1": i / 3}, "complete", 1.0)
        for i, (batch, rate, schedule) in enumerate(tried)
    ]
    found = SearchResult("f1", "maximize", trials)
    trial, batch, rate = found.charts()
    assert trial.x.ticks == () and batch.x.ticks == [8, 16] and rate.x.ticks == [1e-4, 2e-4, 9e-4]
    assert (batch.x.log, rate.x.log) == (False, True)
    assert [point.group for point in rate.points] == ["complete", "complete", "the best"]
    assert [chart.x.log for chart in replace(found, log=["batch"]).charts()] == [False, True, True], "as it is declared"
    schedule, _ = found.page_tables()
    assert [list(map(str, row)) for row in schedule.rows] == [
        ["linear", "0.3333 [0, 0.6667]"],
        ["cosine", "0.3333 [0.3333, 0.3333]"],
    ]
    assert found.finding == "Best: f1 0.6667, trial 2, with batch 16, rate 9e-4, schedule linear."
    assert "the best of 3 on the same validation rows, each of one seed" in found.remarks()[0]
    assert SearchResult("f1", "maximize", trials[:1]).remarks() == [], "one is compared with none"


def test_texts_on_the_page_are_only_texts() -> None:
    evil = "<img src=x>"
    trials = [
        Trial(0, {evil: evil, "flag": True}, {evil: 1.0}, "complete", 1.0),
        Trial(1, {evil: "b", "flag": False}, {evil: 2.0}, "pruned", 1.0),
        Trial(2, {evil: "b", "flag": None}, {}, "failed", 1.0, evil),
    ]
    text = report_page(SearchResult(evil, "minimize", trials))
    assert "<img" not in text and "&lt;img src=x&gt;" in text
    assert "1 complete, 1 pruned, 1 failed" in text
    assert "0 trials, by f1: none yet" in report_page(SearchResult("f1", "maximize", []))
