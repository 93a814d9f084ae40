"""A search of a configuration that is killed within a trial: resumed, it leaves what an uninterrupted one would."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from glassformer.reports.report import Display
from glassformer.runs.curves import TrainingCurves
from glassformer.runs.options import SearchOptions
from glassformer.runs.unfinished import PROGRESS, Unfinished, results
from glassformer.training.callbacks import Callback, StepReport
from glassformer.training.search_run import search_config
from glassformer.training.trainer import Trainer
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


def test_a_search_says_how_far_it_is_while_it_runs(tmp_path: Path) -> None:
    values = tiny_run(tmp_path, label="label", steps=1)
    values["search"] = {"space": {"training.learning_rate": {"low": 1e-3, "high": 1e-2}}, "trials": 2}
    config, folder, pages = tmp_path / "search.yaml", tmp_path / "run", list[list[Display]]()
    config.write_text(yaml.safe_dump(values))

    class Look(Callback):
        def on_step(self, trainer: Trainer, report: StepReport) -> None:
            pages.append(results(folder))

    search_config(config, SearchOptions(), callbacks=lambda: [Look()])
    (first, curves), (second, _) = pages
    assert isinstance(first, Unfinished) and first.finding.startswith("0 of 2 trials are done; now trial 0, since ")
    assert first.finding.endswith(", at step 1 of 1.") and isinstance(curves, TrainingCurves)
    assert [run.name for run in curves.runs] == ["trial-0"]
    assert isinstance(second, Unfinished) and second.finding.startswith("1 of 2 trials are done; now trial 1, since ")
    assert "Best: " in second.finding and len(next(iter(second.tables())).rows) == 1
    [whole] = results(folder)
    assert not isinstance(whole, Unfinished) and not (folder / "progress.json").exists()


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
    [page] = [page for page in results(folder) if isinstance(page, Unfinished)]
    assert page.finding.startswith("Stopped with 1 of 2 trials done, at trial 1; the same command continues.")
    stale = folder / "trial-1" / "checkpoints" / "of-the-killed-one"
    stale.mkdir(parents=True)
    found = search_config(config, SearchOptions(trials=trials))
    assert [trial.number for trial in found.trials] == list(range(trials)) and not (folder / PROGRESS).exists()
    assert names() == (["trial-0", "trial-1"] if keep else []) and not stale.exists()
    whole = search_config(config, SearchOptions(trials=trials, output=str(tmp_path / "whole")))
    assert [trial.settings for trial in whole.trials] == [trial.settings for trial in found.trials]
    assert [trial.metrics for trial in whole.trials] == [trial.metrics for trial in found.trials]
    for number in range(trials * keep):  # the kept run of a trial is that trial's
        kept = yaml.safe_load((folder / f"trial-{number}" / "config.yaml").read_text())
        assert kept["training"]["learning_rate"] == found.trials[number].settings["training.learning_rate"]
    assert len(json.loads((folder / "trials.json").read_text())["trials"]) == trials
