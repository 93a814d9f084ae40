"""Two processes that learn to transcribe are one: the same weights and error rates; shards are refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.training.run import make_trainer
from tests.tasks.transcribe.tones import configured
from tests.training.crews import together


def run_of(folder: Path, recogniser: Path, clips: Path, **values: Any) -> Any:
    """A trainer of two epochs: 24 clips in steps of 7, the last of an epoch 2 and 1."""
    data = {"train": str(clips), "validation": str(clips), "ignore": ["speaker"]}
    training = {"epochs": 2, "batch_size": 7, "learning_rate": 1e-3, "epsilon": 1e-3}
    return make_trainer(configured(folder, data, model=str(recogniser), training=training, **values))


@pytest.mark.parametrize("recogniser", ["letters", "whisper_of_bytes"])
def test_two_are_one(recogniser: str, clips: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(recogniser)
    alone = run_of(tmp_path / "alone", folder, clips)
    expected = alone.train()

    def work() -> Any:
        trainer = run_of(tmp_path / "both", folder, clips)
        result = trainer.train()
        weights = {name: x.detach().numpy() for name, x in trainer.network.named_parameters()}
        trainer.distributed.close()
        return weights, result.metrics

    for weights, figures in together(work, tmp_path):
        assert figures == pytest.approx(expected.metrics, abs=1e-5)
        for name, x in alone.network.named_parameters():
            torch.testing.assert_close(torch.from_numpy(weights[name]), x.detach(), atol=1e-5, rtol=1e-5)


def test_shards_are_refused(letters: Path, clips: Path, tmp_path: Path) -> None:
    def work() -> str:
        try:
            run_of(tmp_path / "run", letters, clips, sharded=True)
        except ConfigError as error:
            return str(error)
        return ""

    assert all("set sharded: false" in said for said in together(work, tmp_path))
