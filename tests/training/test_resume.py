"""A run that is killed, however often and wherever, ends with the very weights of one that was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.kill import InSave, calls_of_a_save, digest, in_child, killed, run, survives
from tests.training.small_run import SmallRun, train

WEIGHTS = "final/model.safetensors"
pytestmark = pytest.mark.usefixtures("no_flush")


@pytest.fixture(autouse=True, scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What torch imports when it first trains is there, in this process and so in its children."""
    train(tmp_path_factory.mktemp("warm"))


def test_killed_at_random_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    survives(train, tmp_path, WEIGHTS, kills=20, in_saves=8, seed=1)


@pytest.mark.soak
def test_killed_at_random_for_long_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    for seed in range(10):
        survives(train, tmp_path / str(seed), WEIGHTS, kills=50, in_saves=20, seed=seed)


def test_a_kill_inside_a_save_is_one(tmp_path: Path) -> None:
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    assert killed(train, run_folder, InSave(save=1, call=12)) == -9
    names = {path.name for path in (run_folder / "checkpoints").iterdir()}
    assert names == {"lock", "step-00000003", "step-00000006.tmp"}
    (tmp_path / "counted").mkdir()
    assert 20 < calls_of_a_save(train, tmp_path / "counted") < 60


@pytest.mark.parametrize("forget", ["optimiser", "random"])
def test_what_a_save_forgets_is_noticed(tmp_path: Path, forget: str) -> None:
    for name in ("straight", "killed"):
        (tmp_path / name).mkdir()
    run(train, tmp_path / "straight")
    kills = run(lambda folder: SmallRun(folder, forget).train(), tmp_path / "killed", [InSave(save=2, call=5)])
    assert len(kills) == 1
    assert digest(tmp_path / "straight" / WEIGHTS) != digest(tmp_path / "killed" / WEIGHTS)


def test_the_same_run_twice_gives_the_same_weights(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run(train, tmp_path / name)
    assert digest(tmp_path / "one" / WEIGHTS) == digest(tmp_path / "two" / WEIGHTS)


def test_a_child_that_fails_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_child(lambda: None) == 0
    assert in_child(lambda: 1 / 0) == 1  # type: ignore[arg-type, return-value]
    assert "ZeroDivisionError" in capfd.readouterr().err
