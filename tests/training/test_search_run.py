"""A search of a configuration that is killed within a trial: resumed, it leaves what an uninterrupted one would."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from glassformer.runs.options import SearchOptions
from glassformer.training.search_run import search_config
from tests.e2e.tiny_runs import tiny_run


def test_the_data_of_a_search_may_be_in_another_folder(tmp_path: Path) -> None:
    values = tiny_run(tmp_path, label="label", steps=1)
    values["data"] |= {"fetch": "emotion", "train": "rows.csv"}
    values["search"] = {"space": {"training.learning_rate": [1e-3]}, "trials": 1}
    config = tmp_path / "search.yaml"
    config.write_text(yaml.safe_dump(values))
    results = search_config(config, SearchOptions(data=str(tmp_path)))
    assert results.best is not None
    assert yaml.safe_load((tmp_path / "run" / "best.yaml").read_text())["data"]["folder"] == str(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
from glassformer.runs.options import SearchOptions
from glassformer.training.callbacks import Callback
from glassformer.training.search_run import search_config

class Kill(Callback):
    def on_end(self, trainer, result):
        if trainer.folder.name == "trial-1":
            os.kill(os.getpid(), signal.SIGKILL)

search_config(Path(sys.argv[1]), SearchOptions(), callbacks=lambda: [Kill()])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize(("keep", "trials"), [(True, 2), (False, 1)])
def test_a_killed_search_leaves_no_folder_of_a_trial_once_resumed(tmp_path: Path, keep: bool, trials: int) -> None:
    values = tiny_run(tmp_path, label="label")
    space = {"training.learning_rate": {"low": 1e-3, "high": 1e-2}}
    values["search"] = {"space": space, "trials": 2, "keep_models": keep}
    config, folder = tmp_path / "search.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(values))
    done = subprocess.run([sys.executable, "-c", KILLED, config], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    names = lambda: sorted(path.name for path in folder.glob("trial-*"))  # noqa: E731
    assert names() == (["trial-0", "trial-1"] if keep else ["trial-1"])
    stale = folder / "trial-1" / "checkpoints" / "of-the-killed-one"
    stale.mkdir(parents=True)
    results = search_config(config, SearchOptions(trials=trials))
    assert [trial.number for trial in results.trials] == list(range(trials))
    assert names() == (["trial-0", "trial-1"] if keep else []) and not stale.exists()
    whole = search_config(config, SearchOptions(trials=trials, output=str(tmp_path / "whole")))
    assert [trial.settings for trial in whole.trials] == [trial.settings for trial in results.trials]
    assert [trial.metrics for trial in whole.trials] == [trial.metrics for trial in results.trials]
    for number in range(trials * keep):  # the kept run of a trial is that trial's
        kept = yaml.safe_load((folder / f"trial-{number}" / "config.yaml").read_text())
        assert kept["training"]["learning_rate"] == results.trials[number].settings["training.learning_rate"]
    assert len(json.loads((folder / "trials.json").read_text())["trials"]) == trials
