"""Two processes are one: the same gradients, the same weights, the same figures, and a run goes on with either."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import load
from glassformer.errors import ConfigError
from tests.training.crews import together
from tests.training.tiny import (
    BERT,
    GPT2,
    STILL,
    STILL_GPT2,
    Texts,
    Words,
    digest,
    some,
    trainer_of,
    weights_of,
)

DAMPED: dict[str, Any] = {"epsilon": 1e-3, "learning_rate": 1e-3}
SHARED: dict[str, Any] = {
    **BERT,
    **STILL,
    "model_type": "albert",
    "embedding_size": 8,
    "classifier_dropout_prob": 0.0,
}
KINDS = {
    "texts": {"config": {**BERT, **STILL}, "kind": Texts, **DAMPED},
    "words, tied": {"config": {**GPT2, **STILL_GPT2}, "kind": Words, **DAMPED},
    "layers that share parameters": {"config": SHARED, "kind": Texts, **DAMPED},
}


def numbers(trainer: Any) -> dict[str, Any]:
    return {name: x.numpy() for name, x in weights_of(trainer).items()}


def until(trainer: Any, steps: int) -> None:
    """Train so far, save, and stop there."""
    with trainer.run_folder.open():
        trainer._start_or_resume(True)
        trainer.network.train()
        while trainer.state.step < steps:
            trainer.train_step()
        trainer.save()
    trainer.gradients.batch_loader.close()


@pytest.mark.representative("copies")
@pytest.mark.parametrize("sharded", [False, True], ids=["copies", "shards"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_are_one(tmp_path: Path, kind: str, sharded: bool) -> None:
    """29 examples in steps of 8: the last of an epoch leaves the processes 3 and 2, and other numbers of passes."""
    same = {
        "examples": some(29),
        "validation": some(9, seed=3),
        "metric": "loss",
        "micro_batch_tokens": 40,
        **KINDS[kind],
    }
    alone = trainer_of(tmp_path / "alone", **same)
    expected = alone.train()

    def work() -> Any:
        trainer = trainer_of(tmp_path / "both", sharded=sharded, **same)
        result = trainer.train()
        rank = trainer.distributed.rank  # of which the first has no row
        rows = trainer.distributed.all_gather_rows([[float(rank), 2.0**48 - 1], [0.1, math.inf]] if rank else [])
        found = numbers(trainer), result.metrics, trainer.state.tokens, rows
        trainer.distributed.close()
        return found

    answers = together(work, tmp_path)
    for weights, figures, tokens, rows in answers:
        assert tokens == alone.state.tokens and [list(row) for row in rows] == [[1.0, 2.0**48 - 1], [0.1, math.inf]]
        assert figures == pytest.approx(expected.metrics, abs=1e-6)
        for name, x in weights_of(alone).items():
            torch.testing.assert_close(torch.from_numpy(weights[name]), x, atol=1e-6, rtol=1e-6)
    saved = load(tmp_path / "both" / "model")
    for name, x in saved.named_parameters():
        torch.testing.assert_close(x, weights_of(alone)[name], atol=1e-6, rtol=1e-6)
    assert (tmp_path / "both" / "journal-1.jsonl").is_file()


@pytest.mark.parametrize("sharded", [False, True], ids=["copies", "shards"])
def test_cut_and_resumed_two_are_the_same_to_the_last_bit(tmp_path: Path, sharded: bool) -> None:
    """With dropout: each process has its own generators, and gets them back."""

    def run(folder: str, *stops: int) -> Any:
        def work() -> Any:
            for steps in stops:
                trainer = trainer_of(tmp_path / folder, sharded=sharded)
                if steps < trainer.steps:
                    until(trainer, steps)
                else:
                    trainer.train()
            return digest(trainer)

        return together(work, tmp_path)

    straight = run("straight", 12)
    assert straight[0] == straight[1]
    assert run("cut", 5, 12) == straight


def test_one_goes_on_where_two_were_and_two_where_one_was(tmp_path: Path) -> None:
    same = {**KINDS["texts"], "save_every": 4, "keep": 9}
    alone = trainer_of(tmp_path / "alone", **same)
    alone.train()

    def part(folder: str, steps: int) -> Any:
        trainer = trainer_of(tmp_path / folder, **same)
        until(trainer, steps)
        found = numbers(trainer)
        trainer.distributed.close()
        return found

    part("grows", 4)
    grown = together(lambda: part("grows", 12), tmp_path)[1]
    together(lambda: part("shrinks", 4), tmp_path)
    shrunk = part("shrinks", 12)
    for name, x in weights_of(alone).items():
        for found in (grown, shrunk):
            torch.testing.assert_close(torch.from_numpy(found[name]), x, atol=1e-6, rtol=1e-6)


def test_two_have_one_folder_and_agree_to_stop(tmp_path: Path) -> None:
    def work() -> Any:
        trainer = trainer_of(tmp_path / "run", config={**BERT, **STILL})
        real = trainer.distributed.all_reduce_max
        if trainer.distributed.rank == 1:  # a signal that only one of them hears

            class Heard:
                requested = "SIGTERM"

            with pytest.raises(Exception, match="stopped after step 1 of 12"), trainer.run_folder.open():
                trainer._start_or_resume(True)
                trainer.train_epoch(Heard())  # type: ignore[arg-type]
        else:
            with pytest.raises(Exception, match="stopped after step 1 of 12"), trainer.run_folder.open():
                trainer._start_or_resume(True)
                trainer.train_epoch()
        assert real(trainer.distributed.rank) == 1
        return trainer.state.step

    assert together(work, tmp_path) == [1, 1]
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*")] == ["step-00000001"]


def test_shards_of_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="several processes"):
        trainer_of(sharded=True)
