"""Trackers: the tools themselves where they are installed, and that none of them stops a training."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from glassformer import ConfigError, MissingExtraError
from glassformer.training.trackers import TRACKERS, by_name
from tests.training.a_run import Trainer


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    ).EventAccumulator(str(folder))
    reader.Reload()
    return {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def test_tensorboard_goes_on_without_doubles(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'glassformer[track]'")
    for begin, end in ((0, 5), (3, 6)):  # interrupted after 5, its checkpoint after 3
        (tracker,) = by_name(["tensorboard"])
        Trainer(tmp_path).train(tracker, begin=begin, end=end)
    found = scalars(tmp_path / "tensorboard")
    assert [step for step, _ in found["train/loss"]] == [1, 2, 3, 4, 5, 6]
    assert found["train/loss"][3][1] == 1 / 4
    assert [step for step, _ in found["validation/f1"]] == [3, 6]


def test_wandb_offline_goes_on_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs wandb: pip install 'glassformer[track]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    run = tmp_path / "run"
    run.mkdir()
    for begin, end in ((0, 5), (3, 6)):
        (tracker,) = by_name(["wandb"])
        Trainer(run).train(tracker, begin=begin, end=end)
        assert not tracker.failed  # type: ignore[attr-defined]
    id = (run / "wandb.id").read_text()
    written = list(run.glob("wandb/offline-run-*/run-*.wandb"))
    assert written and {path.stem for path in written} == {f"run-{id}"}
    assert b"validation/f1" in b"".join(path.read_bytes() for path in written)


class Standin(ModuleType):
    """What the tracker calls of trackio, which writes down what it is asked."""

    def __init__(self) -> None:
        super().__init__("trackio")
        self.asked: list[Any] = []

    def init(self, **options: Any) -> None:
        self.asked.append(options)

    def log(self, figures: dict[str, float], step: int) -> None:
        self.asked.append((step, figures))

    def finish(self) -> None:
        self.asked.append("finish")


def test_trackio_by_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio", standin := Standin())
    (tracker,) = by_name(["trackio"])
    Trainer(tmp_path).train(tracker, begin=2, end=3)
    begin, step, validation, end = standin.asked
    assert begin["name"] == tmp_path.name and begin["resume"] == "allow"
    assert begin["config"] == {"learning_rate": 1e-3, "seed": 1}
    assert step[0] == 3 and step[1]["train/loss"] == 1 / 3
    assert validation == (3, {"validation/f1": 0.3, "validation/loss": 1.0})
    assert end == "finish"


def test_a_run_that_begins_anew_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio", standin := Standin())
    Trainer(tmp_path).train(by_name(["trackio"])[0], end=1)
    assert standin.asked[0]["resume"] == "never"


@pytest.mark.parametrize("when", ["init", "log", "finish"])
def test_a_failing_tracker_is_warned_of_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        calls.append(when)
        raise ConnectionError("no network")

    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "trackio", standin := Standin())
    monkeypatch.setattr(standin, when, fail)
    (tracker,) = by_name(["trackio"])
    with pytest.warns(RuntimeWarning, match=r"trackio failed \(ConnectionError: no network\)") as said:
        Trainer(tmp_path).train(tracker)
    assert len(said) == len(calls) == 1


def test_names_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"no tracker 'tensorbord'; .*nearest: 'tensorboard'"):
        by_name(["tensorbord"])
    assert by_name([]) == []


@pytest.mark.parametrize("name", list(TRACKERS))
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, TRACKERS[name].MODULE, None)
    with pytest.raises(MissingExtraError, match=rf"'{name}', which is not installed; .*glassformer\[track\]"):
        by_name([name])
