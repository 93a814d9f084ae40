"""The `Trainer`: what it refuses and resumes, modules of one's own; `trainer_lines.py` compares its numbers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from glassformer import hf
from glassformer.core import processor
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError, WeightsError
from glassformer.hf.trainer import trainer as trainer_module
from glassformer.hf.trainer.checkpoints import get_last_checkpoint, save_checkpoint
from tests.full_disk import full_disk

ROWS = [{"x": [float(i), 1.0], "labels": i % 2} for i in range(12)]


class Small(nn.Module):
    """A module that is no model of a family."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.line(self.drop(x))
        loss = {} if labels is None else {"loss": nn.functional.cross_entropy(logits, labels)}
        return {**loss, "logits": logits}


def arguments(folder: Path, **options: Any) -> hf.TrainingArguments:
    return hf.TrainingArguments(folder, **{"use_cpu": True, "per_device_train_batch_size": 4, **options})


def losses(trainer: hf.Trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_a_module_of_ones_own_resumes_to_the_bit(tmp_path: Path) -> None:
    options = {"max_steps": 7, "logging_steps": 1, "save_steps": 4, "learning_rate": 0.1, "weight_decay": 0.1}
    whole = hf.Trainer(Small(), arguments(tmp_path / "whole", **options), train_dataset=ROWS)
    whole.train()
    cut = hf.Trainer(Small(), arguments(tmp_path / "cut", **options), train_dataset=ROWS)

    class Stop(hf.TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = True

    cut.add_callback(Stop)
    cut.train()
    assert cut.state.global_step == 4
    again = hf.Trainer(Small(), arguments(tmp_path / "cut", **options), train_dataset=ROWS)
    again.train(resume_from_checkpoint=True)
    assert losses(again) == losses(whole) and len(losses(whole)) == 7
    assert torch.equal(again.model.line.weight, whole.model.line.weight)
    assert Path(get_last_checkpoint(tmp_path / "cut") or "").name == "checkpoint-7"


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_what_a_collator_draws_resumes_to_the_bit(tmp_path: Path, stop: int) -> None:
    """Behind skipped batches, whose examples are drawn once more, and in an order of another seed than the options'."""

    def noisy(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        x = torch.tensor([row["x"] for row in rows])
        return {"x": x + torch.randn(x.shape), "labels": torch.tensor([row["labels"] for row in rows])}

    def trainer(folder: str, **options: Any) -> hf.Trainer:
        own = arguments(tmp_path / folder, max_steps=7, logging_steps=1, learning_rate=0.1, **options)
        return hf.Trainer(Small(), own, data_collator=noisy, train_dataset=ROWS, eval_dataset=ROWS[:2])

    whole = trainer("whole", save_steps=stop)
    torch.manual_seed(5)
    whole.train()
    again = trainer("again", save_strategy="no")
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{stop}"))
    assert losses(again) == losses(whole)
    for name, tensor in again.model.state_dict().items():
        assert tensor.equal(whole.model.state_dict()[name]), name


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_is_near_single(tmp_path: Path, precision: str) -> None:
    options = {"max_steps": 6, "logging_steps": 1, "save_strategy": "no", "learning_rate": 1e-3}
    single = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=ROWS)
    single.train()
    narrow = hf.Trainer(Small(), arguments(tmp_path, **options, **{precision: True}), train_dataset=ROWS)
    narrow.train()
    np.testing.assert_allclose(losses(narrow), losses(single), rtol=0.05)


def test_mixed_precision_that_is_emulated_is_told_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "is_fast", lambda dtype, device: dtype == torch.float32)
    trainer = hf.Trainer(Small(), arguments(tmp_path, bf16=True, max_steps=1), train_dataset=ROWS)
    with pytest.warns(UserWarning, match="no instructions for bf16 and emulates it"):
        trainer.train()


def test_the_newest_checkpoints_stay_and_an_unfinished_one_is_none(tmp_path: Path) -> None:
    trainer = hf.Trainer(
        Small(), arguments(tmp_path, max_steps=6, save_steps=2, save_total_limit=2), train_dataset=ROWS
    )
    (tmp_path / ".checkpoint-9.unfinished").mkdir()
    trainer.train()
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == ["checkpoint-4", "checkpoint-6"]
    assert json.loads((tmp_path / "checkpoint-6" / "trainer_state.json").read_text())["global_step"] == 6


def test_predictions_of_unequal_lengths_are_filled_up(tmp_path: Path) -> None:
    class Echo(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": x}

    rows = [{"x": [1.0]}, {"x": [1.0, 2.0, 3.0]}]
    output = hf.Trainer(Echo(), arguments(tmp_path, per_device_eval_batch_size=1)).predict(rows)
    np.testing.assert_array_equal(output.predictions, [[1, -100, -100], [1, 2, 3]])
    assert output.label_ids is None and "test_loss" not in output.metrics


def test_label_smoothing_and_a_loss_of_ones_own(tmp_path: Path) -> None:
    model, batch = Small().eval(), {"x": torch.tensor([[1.0, 2.0]]), "labels": torch.tensor([1])}
    logits = model(batch["x"])["logits"]
    smooth = hf.Trainer(model, arguments(tmp_path, label_smoothing_factor=0.2)).compute_loss(model, batch)
    expected = nn.functional.cross_entropy(logits, batch["labels"], label_smoothing=0.2)
    torch.testing.assert_close(smooth, expected)
    own = hf.Trainer(model, arguments(tmp_path), compute_loss_func=lambda outputs, labels: outputs["logits"].sum())
    torch.testing.assert_close(own.compute_loss(model, batch), logits.sum())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learnin_rate": 1}, ConfigError, "nearest: 'learning_rate'"),
        ({"deepspeed": "x.json"}, UnsupportedError, "torchrun"),
        ({"eval_strategy": "sometimes"}, ConfigError, "allowed: no, steps, epoch"),
        ({"load_best_model_at_end": True}, ConfigError, "needs validations"),
        ({"load_best_model_at_end": True, "eval_strategy": "epoch"}, ConfigError, "make them equal"),
        ({"optim": "adam_8bit"}, ConfigError, "allowed"),
        (
            {"per_device_train_batch_size": 0},
            ConfigError,
            "is 0; it must be a whole number from 1 to 1,000,000,000,000,000",
        ),
        ({"gradient_accumulation_steps": 1.5}, ConfigError, "is 1.5; it must be a whole number"),
        ({"learning_rate": "high"}, ConfigError, "learning_rate is 'high'; it must be a number"),
        ({"learning_rate": float("nan")}, ConfigError, "learning_rate is nan; it must be a number from 0 up"),
        ({"weight_decay": -1}, ConfigError, "weight_decay is -1; it must be a number from 0 up"),
        ({"data_seed": -1}, ConfigError, "data_seed is -1; it must be a whole number from 0 up"),
        ({"max_grad_norm": -0.5}, ConfigError, r"max_grad_norm is -0\.5; it must be a number from 0 up"),
        (
            {"adam_beta1": 1.5},
            ConfigError,
            r"adam_beta1 is 1\.5; it must be a number from 0 up to, but not including, 1",
        ),
        ({"adam_beta2": -0.1}, ConfigError, r"adam_beta2 is -0\.1; it must be a number from 0"),
        ({"adam_epsilon": 0}, ConfigError, "adam_epsilon is 0; it must be a small number above 0, such as 1e-8"),
        ({"label_smoothing_factor": 1}, ConfigError, "label_smoothing_factor is 1; it must be a number from 0"),
        ({"warmup_ratio": 5}, ConfigError, "warmup_ratio is 5; .* a number of steps is warmup_steps"),
        ({"logging_steps": 0}, ConfigError, "logging_steps is 0; .* or logging_strategy='no'"),
        ({"dataloader_num_workers": -1}, ConfigError, "dataloader_num_workers is -1"),
        ({"num_train_epochs": 0}, ConfigError, "nothing to train"),
        ({"lr_scheduler_type": "linaer"}, ConfigError, "nearest: 'linear'"),
    ],
)
def test_options_that_are_wrong_are_said(
    tmp_path: Path, options: dict[str, Any], error: type[GlassformerError], message: str
) -> None:
    with pytest.raises(error, match=message):
        hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=ROWS).train()


def test_old_options_and_those_without_effect_are_taken(tmp_path: Path) -> None:
    args = arguments(tmp_path, evaluation_strategy="epoch", report_to="none", logging_dir="logs", warmup_ratio=0.1)
    assert args.eval_strategy == "epoch" and args.to_dict()["report_to"] == "none"
    assert arguments(tmp_path, learning_rate="5e-4").learning_rate == 5e-4  # as YAML reads it
    assert args.get_warmup_steps(95) == 10 and arguments(tmp_path, warmup_steps=7).get_warmup_steps(95) == 7


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    with pytest.raises(ConfigError, match="give one of them"):
        hf.Trainer(None, args)
    with pytest.raises(DataError, match="no train_dataset"):
        hf.Trainer(Small(), args).train()
    with pytest.raises(DataError, match="give eval_dataset"):
        hf.Trainer(Small(), args).evaluate()
    with pytest.raises(DataError, match=r"name the column of the labels so"):
        hf.Trainer(Small(), args, train_dataset=[{"x": [1.0, 2.0]}]).train()
    with pytest.raises(DataError, match=r"holds no checkpoint-STEP that is intact"):
        hf.Trainer(Small(), args, train_dataset=ROWS).train(resume_from_checkpoint=True)
    with pytest.raises(DataError, match="holds no checkpoint of this Trainer"):
        hf.Trainer(Small(), args, train_dataset=ROWS).train(resume_from_checkpoint=str(tmp_path))
    with pytest.raises(ConfigError, match="give Trainer\\(model_init=…\\)"):
        hf.Trainer(Small(), args).hyperparameter_search()
    with pytest.raises(ConfigError, match="give max_steps"):
        hf.Trainer(Small(), args, train_dataset=_Stream()).train()
    with pytest.raises(ConfigError, match="metric_for_best_model is 'eval_f1'"):
        chosen = arguments(tmp_path, eval_strategy="epoch", metric_for_best_model="f1")
        hf.Trainer(Small(), chosen, train_dataset=ROWS, eval_dataset=ROWS).train()


class _Stream(torch.utils.data.IterableDataset[dict[str, Any]]):
    def __iter__(self) -> Any:
        return iter(ROWS)


class Stream(IterableDataset[Any]):
    """The first rows, one after the other; once only, or as often as they are read."""

    def __init__(self, count: int, *, once: bool = False) -> None:
        self.rows = iter(ROWS[:count]) if once else ROWS[:count]

    def __iter__(self) -> Iterator[Any]:
        yield from self.rows


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([], {}),
        ([], {"max_steps": 2}),
        (ROWS[:3], {"max_steps": 2, "dataloader_drop_last": True}),
        (Stream(0), {"max_steps": 2}),
        ({"train": ROWS}, {}),
        ((row for row in ROWS), {"max_steps": 2}),
    ],
)
def test_data_without_a_batch_is_an_error(tmp_path: Path, rows: Any, options: dict[str, Any]) -> None:
    trainer = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=rows)
    with pytest.raises(DataError, match=r"nothing to train on|dictionary of data sets \('train'\)|give a list"):
        trainer.train()


def test_a_stream_is_read_again_until_the_last_step_or_ends_the_training_with_a_warning(tmp_path: Path) -> None:
    options = {"max_steps": 7, "logging_steps": 1, "save_steps": 5, "disable_tqdm": True}
    whole = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=Stream(12))
    assert whole.train().global_step == 7 and whole.state.epoch == 2 + 1 / 7  # three batches each time
    again = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=Stream(12))
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert losses(again) == losses(whole)
    once = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=Stream(12, once=True))
    with pytest.warns(UserWarning, match="training ends at step 3 of 7"):
        result = once.train()
    assert result.global_step == 3 and result.training_loss == pytest.approx(np.mean(losses(once)))


def test_an_epoch_that_a_callback_ends_is_over(tmp_path: Path) -> None:
    class TwoSteps(hf.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_epoch_stop = state.global_step % 2 == 0

    options = {"num_train_epochs": 2, "save_strategy": "no", "disable_tqdm": True}
    trainer = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=ROWS, callbacks=[TwoSteps])
    assert trainer.train().global_step == 4 and trainer.state.epoch == 1 + 2 / 3


def test_a_damaged_checkpoint_is_found_and_the_one_before_resumed(tmp_path: Path) -> None:
    options = {"max_steps": 6, "logging_steps": 1, "save_steps": 2, "disable_tqdm": True}
    whole = hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=ROWS)
    whole.train()
    saved = [tmp_path / f"checkpoint-{step}" for step in (2, 4, 6)]
    weights = bytearray((saved[2] / "model.safetensors").read_bytes())
    weights[-1] ^= 1  # one bit of a weight: the file is as valid as before
    (saved[2] / "model.safetensors").write_bytes(weights)
    shutil.copy(saved[0] / "manifest.json", saved[1] / "manifest.json")

    def again() -> hf.Trainer:
        return hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=ROWS)

    with pytest.warns(UserWarning) as warned:
        resumed = again()
        resumed.train(resume_from_checkpoint=True)
    words = " ".join(str(warning.message) for warning in warned)
    assert "model.safetensors: its SHA-256 is not that of the manifest" in words
    assert "checkpoint-6 is skipped" in words
    assert "is of step 2; it belongs to another checkpoint; the checkpoint checkpoint-4 is skipped" in words
    assert losses(resumed) == losses(whole)
    (saved[2] / "optimizer.json").write_text("{}")
    with pytest.raises(WeightsError, match="it is damaged"):
        again().train(resume_from_checkpoint=saved[2])
    for path in saved:
        (path / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="is skipped"), pytest.raises(DataError, match="no checkpoint-STEP that is in"):
        again().train(resume_from_checkpoint=True)


def test_no_checkpoint_is_removed_before_the_new_one_is_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(folder: Path, *rest: Any) -> None:
        save_checkpoint(folder, *rest)
        if folder.name == "checkpoint-4":
            (folder / "model.safetensors").write_bytes(b"")

    monkeypatch.setattr(trainer_module, "save_checkpoint", cut)
    options = {"max_steps": 6, "save_steps": 2, "save_total_limit": 1, "disable_tqdm": True}
    with pytest.raises(WeightsError, match="it is damaged"):
        hf.Trainer(Small(), arguments(tmp_path, **options), train_dataset=ROWS).train()
    assert (tmp_path / "checkpoint-2").is_dir()


def test_a_clock_that_is_set_back_makes_no_negative_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = count(10**9, -3600)
    monkeypatch.setattr(time, "time", lambda: float(next(hours)))
    trainer = hf.Trainer(Small(), arguments(tmp_path, max_steps=2), train_dataset=ROWS, eval_dataset=ROWS)
    metrics = trainer.train().metrics | trainer.evaluate()
    assert 0 < metrics["train_runtime"] < 60 and 0 < metrics["eval_runtime"] < 60
    assert metrics["train_samples_per_second"] < 1e6 and metrics["eval_samples_per_second"] < 1e6


def test_a_full_disk_leaves_no_part_of_a_checkpoint(tmp_path: Path) -> None:
    """What is left of one would keep the disk full."""
    trainer = hf.Trainer(Small(), arguments(tmp_path, max_steps=2, save_steps=2), train_dataset=ROWS)
    with full_disk(200), pytest.raises(DataError, match=r"checkpoint-2: cannot be written: .*no file is left half"):
        trainer.train()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["label", "labels"])
def test_labels_that_are_texts_are_to_be_numbered(tmp_path: Path, name: str) -> None:
    rows = [{"x": [1.0, 2.0], name: "pos"}] * 4
    trainer = hf.Trainer(Small(), arguments(tmp_path), train_dataset=rows)
    with pytest.raises(DataError, match=r"of the examples is text \('pos'\).* number the classes, such as"):
        trainer.train()
