"""`glassformer search`: what it says where no trial can be trained."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command


def test_a_search_whose_trials_all_fail_is_an_error(command: Command, tmp_path: Path) -> None:
    config = tmp_path / "search.yaml"
    config.write_text(
        "{task: classify, model: nowhere, data: {train: rows.csv, validation: rows.csv}, "
        "search: {trials: 2, space: {training.lr: [0.1, 0.2]}}}"
    )
    done = command("search", config, "--output", tmp_path / "search")
    assert done.returncode == 2 and "trial 1" in done.stderr
    assert "no trial could be trained; trial 0: " in done.stderr and "'lr' is no option" in done.stderr
