"""The loop keeps its promises: however a run is cut, it is the same run."""

from __future__ import annotations

import io
import json
import math
import os
import re
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import Model
from glassformer.core import processor
from glassformer.errors import ConfigError, WeightsError
from glassformer.evaluation.compare.costs import read_cost
from glassformer.runs.folder import read_event_log
from glassformer.runs.history import read_run
from glassformer.training.callbacks import Callback, Progress, TrainingStopped
from glassformer.training.gradients import Diverged
from glassformer.training.state import model_identity
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

STILL_BERT = {**BERT, **STILL}
DAMPED = 1e-3
"""AdamW's epsilon where weights are compared: a small one lets a gradient that is 0 but for rounding move them."""


class Until(Callback):
    """Raises after a step, as an error of anybody's would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Any, report: Any) -> None:
        if report.step == self.step:
            raise RuntimeError("the power went")


def test_it_learns() -> None:
    data = some(200)
    trainer = trainer_of(config=STILL_BERT, examples=data, validation=data, steps=150, learning_rate=3e-3)
    before = trainer.validate()
    trainer.train()
    after = trainer.validate()
    assert after["loss"] < before["loss"] / 2 and after["accuracy"] > 0.8 > before["accuracy"]


def test_the_same_command_twice() -> None:
    one, two, other = trainer_of(), trainer_of(), trainer_of(seed=1)
    for trainer in (one, two, other):
        trainer.train()
    assert digest(one) == digest(two) != digest(other)


@pytest.mark.parametrize("cuts", [(5,), (3, 9), (8, 11)])
def test_cut_and_resumed_it_is_the_same_to_the_last_bit(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    straight = trainer_of(tmp_path / "straight", save_every=3, validation=some(7, seed=2), validate_every=4)
    expected = straight.train()
    for cut in cuts:
        with pytest.raises(RuntimeError, match="the power went"):
            trainer_of(
                tmp_path / "cut",
                save_every=3,
                validation=some(7, seed=2),
                validate_every=4,
                callbacks=[Until(cut)],
            ).train()
    resumed = trainer_of(tmp_path / "cut", save_every=3, validation=some(7, seed=2), validate_every=4)
    assert resumed.train().metrics == expected.metrics
    assert digest(resumed) == digest(straight)
    lines = [list(read_event_log(tmp_path / name / "journal.jsonl")) for name in ("straight", "cut")]
    steps = [[(x["step"], x["loss"]) for x in found if x["event"] == "step"] for found in lines]
    assert steps[0] == steps[1], "a curve has no step twice, and none is lost"


@pytest.mark.parametrize(("config", "kind"), [(STILL_BERT, Texts), ({**GPT2, **STILL_GPT2}, Words)])
def test_passes_change_nothing(config: dict[str, Any], kind: type[Texts]) -> None:
    """One big batch = many small ones, weighted by their labels, uneven lengths and all."""
    results = []
    for cut in ({"micro_batch_tokens": 10**6}, {"micro_batch_tokens": 40}, {"micro_batch_size": 1}):
        trainer = trainer_of(
            config=config,
            kind=kind,
            steps=1,
            learning_rate=1e-3,
            epsilon=DAMPED,
            warmup=0,
            schedule="constant",
            **cut,
        )
        trainer.network.train()
        items, loss, tokens = trainer.gradients.of_step(trainer.state, print)
        gradients = {n: p.grad.clone() for n, p in trainer.network.named_parameters() if p.grad is not None}
        trainer.optimizer.zero_grad()
        trainer.train_step()
        results.append((len(items), loss, tokens, gradients, weights_of(trainer)))
        trainer.gradients.batch_loader.close()
    whole = results[0]
    assert whole[0] == 1 and results[2][0] == 8
    for part in results[1:]:
        assert part[0] > 1 and part[2] == whole[2]
        assert abs(part[1] - whole[1]) < 1e-6
        for name, gradient in whole[3].items():
            torch.testing.assert_close(part[3][name], gradient, atol=1e-6, rtol=1e-6)
            torch.testing.assert_close(part[4][name], whole[4][name], atol=1e-6, rtol=1e-6)


def test_a_batch_of_tokens() -> None:
    trainer = trainer_of(batch_tokens=50, steps=None, epochs=2)
    seen = [trainer.batch_sampler.batch_indices(0, place) for place in range(trainer.batch_sampler.steps_per_epoch(0))]
    assert sorted(np.concatenate(seen).tolist()) == list(range(29))
    assert all(trainer.batch_sampler.lengths[chosen].sum() <= 50 for chosen in seen)
    assert trainer.train().steps == trainer.batch_sampler.steps_per_epoch(0) + trainer.batch_sampler.steps_per_epoch(1)


def test_no_number_is_never_applied_and_never_hidden(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, steps=60)
    real, broken = trainer.gradients.accumulate, set(range(2, 61, 2))
    before: dict[int, str] = {}

    def poisoned(items: Any) -> Any:
        step = trainer.state.step + 1
        before[step] = digest(trainer)
        loss, tokens = real(items)
        if step % 4 == 0:
            next(iter(trainer.network.parameters())).grad.fill_(math.nan)
        return (math.nan if step % 4 == 2 else loss), tokens

    trainer.gradients.accumulate = poisoned  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match="was not applied"):
        trainer.train()
    after = {**before, 61: digest(trainer)}
    assert [step for step in before if after[step + 1] == before[step]] == sorted(broken)
    lines = list(read_event_log(tmp_path / "journal.jsonl"))
    told = [x for x in lines if x["event"] == "skipped"]
    assert [x["step"] for x in told] == sorted(broken) and all(len(x["indices"]) >= 5 for x in told)
    logged = [x["step"] for x in lines if x["event"] == "step" and math.isnan(x["loss"] + x["grad_norm"])]
    assert logged == sorted(broken)


def test_too_often_no_number_goes_back_and_then_ends(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, save_every=4)
    real = trainer.gradients.accumulate

    def poisoned(items: Any) -> Any:
        loss, tokens = real(items)
        return (math.nan if trainer.state.step >= 6 else loss), tokens

    trainer.gradients.accumulate = poisoned  # type: ignore[method-assign]
    with (
        pytest.warns(UserWarning, match="was not applied"),
        pytest.raises(Diverged, match="learning_rate") as error,
    ):
        trainer.train()
    assert error.value.exit_code == 3
    back = [x for x in read_event_log(tmp_path / "journal.jsonl") if x["event"] == "rolled back"]
    assert [(x["to"], x["lr_factor"]) for x in back][-1:] == [(4, 0.125)]


def test_the_bad_module_is_named(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, steps=2)
    with torch.no_grad():
        trainer.network.get_parameter("blocks.1.ffn.down.weight")[0, 0] = math.inf
    with pytest.warns(UserWarning, match=r"blocks\.1\.ffn\.down"):
        trainer.train()


def test_out_of_memory_halves_the_pass_and_keeps_the_batch(tmp_path: Path) -> None:
    same: dict[str, Any] = {"config": STILL_BERT, "epsilon": DAMPED, "learning_rate": 1e-3}
    expected = trainer_of(**same)
    expected.train()
    trainer = trainer_of(tmp_path, **same)
    real, training_module = trainer.gradients.training_module.forward, trainer.gradients.training_module

    def tight(item: Any, with_loss: bool = True) -> Any:
        if item.tokens > 30:
            raise torch.OutOfMemoryError("no more memory")
        return real(item, with_loss)

    training_module.forward = tight  # type: ignore[method-assign]
    trainer.train()
    for name, x in weights_of(expected).items():
        torch.testing.assert_close(weights_of(trainer)[name], x, atol=1e-5, rtol=1e-5)
    told = [x for x in read_event_log(tmp_path / "journal.jsonl") if x["event"] == "memory"]
    assert told and trainer.state.micro_batch_halvings == len(told)
    trainer._validation_loop.tokens = 100  # validation narrows its passes by itself
    assert trainer.validate(some(9))["loss"] > 0 and trainer._validation_loop.tokens < 100

    def none(item: Any, with_loss: bool = True) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")

    training_module.forward = none  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="gradient_checkpointing"):
        trainer.train_step()


def test_other_weights_of_the_same_size_are_another_model(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        torch.manual_seed(seed)
        Model.from_config(BERT, task="feature-extraction").save_pretrained(tmp_path / name)
    one, same, other = (model_identity(glassformer.load(tmp_path / name)) for name in ("a", "a", "b"))
    wide = model_identity(glassformer.load(tmp_path / "a", dtype="float64"))
    assert one == same == wide and {key for key in one if one[key] != other[key]} == {"loaded weights"}


def test_a_damaged_best_model_is_seen_when_a_finished_run_is_repeated(tmp_path: Path) -> None:
    trainer_of(tmp_path, validation=some(9)).train()
    weights = tmp_path / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content[:-100])
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"model.safetensors is damaged: .* the last ones, of step 12, take"):
            trainer_of(tmp_path, validation=some(9)).train()
        assert trainer_of(tmp_path, validation=some(9)).train().steps == 12  # and is mended by that
        weights.write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\n", b"0a  model.safetensors\n"])
def test_damaged_digests_of_the_best_model_are_seen(tmp_path: Path, content: bytes) -> None:
    trainer_of(tmp_path, validation=some(9), steps=2).train()
    (tmp_path / "model" / "SHA256SUMS").write_bytes(content)
    with pytest.warns(UserWarning, match="SHA256SUMS is damaged: it holds no digests; the best weights"):
        trainer_of(tmp_path, validation=some(9), steps=2).train()


def test_asked_to_stop_it_finishes_the_step_and_saves(tmp_path: Path) -> None:
    import os
    import signal

    class Press(Callback):
        def on_step(self, trainer: Any, report: Any) -> None:
            if report.step == 5:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingStopped, match="step 5 of 12") as error:
        trainer_of(tmp_path, callbacks=[Press()]).train()
    assert error.value.exit_code == 75
    straight, resumed = trainer_of(), trainer_of(tmp_path)
    straight.train()
    resumed.train()
    assert digest(straight) == digest(resumed)


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a day earlier, before 1970 at last, and so are the times of all files."""
    days, shown = count(5 * 86_400, -86_400), io.StringIO()
    monkeypatch.setattr(time, "time", lambda: float(next(days)))

    class Stop(Callback):
        def on_step(self, trainer: Any, report: Any) -> None:
            if report.step == 5:
                raise KeyboardInterrupt

    trainer = trainer_of(tmp_path, validation=some(9), save_every=2, callbacks=[Stop()])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    for age, path in enumerate(sorted(tmp_path.rglob("*"))):
        os.utime(path, (-age, -age))
    resumed = trainer_of(tmp_path, validation=some(9), save_every=2, callbacks=[Progress(file=shown, seconds=0)])
    resumed.train()
    straight = trainer_of(validation=some(9))
    straight.train()
    assert digest(straight) == digest(resumed)
    times = [event["time"] for event in read_event_log(tmp_path / "journal.jsonl")]
    assert min(times) < 0 and sorted(times, reverse=True) == times
    assert re.search(r"step 12/12 .* \d:\d\d left .* tokens/s", shown.getvalue())
    assert not re.search(r"\s-\d", shown.getvalue()), "a negative time"
    history = read_run(tmp_path)
    assert history.ended and history.last == 12 and 0 < history.seconds < 60
    cost = read_cost(tmp_path)
    assert cost.seconds is not None and 0 < cost.seconds < 60


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    trainer_of(tmp_path).train()
    with pytest.raises(ConfigError, match=r"another configuration: learning_rate was 0\.01, is now 0\.02"):
        trainer_of(tmp_path, learning_rate=2e-2).train()
    with pytest.raises(ConfigError, match="another configuration: data was"):
        trainer_of(tmp_path, examples=some(30)).train()
    for key, value in (("num_attention_heads", 1), ("hidden_act", "relu"), ("hidden_dropout_prob", 0.3)):
        was = BERT.get(key)
        with pytest.raises(ConfigError, match=rf"another configuration: config.{key} was {was}, is now {value!r}"):
            trainer_of(tmp_path, config={**BERT, key: value}).train()
    with pytest.raises(ConfigError, match="holds a run already"):
        trainer_of(tmp_path).train(resume=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        trainer_of(tmp_path / "file").train()


def test_a_disk_that_refuses_stops_training_only_when_it_goes_on(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, save_every=1, max_failed_saves=2)
    checkpoints, refused = trainer.run_folder.checkpoints, {2, 3, 5}
    assert checkpoints is not None
    real = checkpoints.save

    def save(step: int, *rest: Any, **options: Any) -> Any:
        if step in refused:
            raise WeightsError("no space left on device")
        return real(step, *rest, **options)

    checkpoints.save = save  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match=r"step [235] is not saved: no space"):
        trainer.train()
    assert trainer.state.step == 12
    refused |= set(range(100))
    other = trainer_of(tmp_path / "other", save_every=1, max_failed_saves=2)
    assert other.run_folder.checkpoints is not None
    other.run_folder.checkpoints.save = save  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match="not saved"), pytest.raises(WeightsError, match="no space"):
        other.train()
    assert other.state.step == 3


def test_the_best_is_what_is_left(tmp_path: Path) -> None:
    from glassformer import load

    data = some(40, seed=5)
    trainer = trainer_of(tmp_path, validation=data, validate_every=2, metric="loss", learning_rate=0.3)
    result = trainer.train()
    told = [x for x in read_event_log(tmp_path / "journal.jsonl") if x["event"] == "validation"]
    best = min(told, key=lambda x: x["metrics"]["loss"])
    assert (result.best_step, result.metrics) == (best["step"], best["metrics"])
    assert trainer.validate()["loss"] == pytest.approx(best["metrics"]["loss"], abs=1e-6)
    loaded = load(tmp_path / "model")
    for name, x in loaded.named_parameters():
        assert torch.equal(x, weights_of(trainer)[name])


def test_of_equal_metrics_the_lower_loss_is_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten validation rows have the same accuracy again and again; the first of them is not the best model."""
    told = iter([(0.8, 1.9), (0.8, 1.4), (0.8, 1.5), (0.7, 0.1), (0.8, 1.4), (0.8, math.nan)])
    trainer = trainer_of(validation=some(10), validate_every=2)
    monkeypatch.setattr(trainer, "validate", lambda: dict(zip(("accuracy", "loss"), next(told), strict=True)))
    result = trainer.train()
    assert (result.best_step, result.metrics) == (4, {"accuracy": 0.8, "loss": 1.4})
    assert trainer.state.validations_without_improvement == 4


def test_a_short_run_logs_every_step_and_pauses_about_ten_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.training.batch_loader.LEAST_STEPS", 30)
    trainer = trainer_of(tmp_path / "few", examples=some(16), validation=some(4), steps=None)
    trainer.train()
    events = list(read_event_log(tmp_path / "few" / "journal.jsonl"))
    steps = {name: [x["step"] for x in events if x["event"] == name] for name in ("step", "validation", "checkpoint")}
    assert steps["step"] == list(range(1, 31)) and trainer.batch_sampler.epochs == 15  # of two steps
    assert steps["validation"] == steps["checkpoint"] == [*range(4, 30, 4), 30]
    assert trainer_of(steps=600).log_every == 10 and trainer_of(steps=600, log_every=7).log_every == 7


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_precision_that_is_emulated_is_told_before_the_first_step(
    precision: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(processor, "is_fast", lambda dtype, device: dtype == torch.float32)
    trainer_of(precision="fp32")
    assert not recwarn.list
    with pytest.warns(UserWarning, match=f"no instructions for {precision} and emulates it.*ten times slower"):
        trainer_of(precision=precision)
    recwarn.clear()
    monkeypatch.setattr(processor, "is_fast", lambda dtype, device: True)
    trainer_of(precision=precision)
    assert not recwarn.list


def test_patience() -> None:
    data = some(20, seed=9)
    trainer = trainer_of(validation=data, validate_every=1, learning_rate=1e-12, patience=3, steps=50)
    assert trainer.train().steps == 4  # the first is the best, and three are no better


def test_a_dry_run_changes_no_weight(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, dry_run=True)
    before = digest(trainer)
    trainer.train()
    assert digest(trainer) == before and trainer.state.step == 12


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_narrow_numbers_learn_the_same(precision: str) -> None:
    losses = {}
    for name in ("fp32", precision):
        trainer = trainer_of(config=STILL_BERT, precision=name, validation=some(40), steps=20)
        trainer.train()
        losses[name] = trainer.validate()["loss"]
        assert all(p.dtype == torch.float32 for p in trainer.network.parameters())
    assert losses[precision] == pytest.approx(losses["fp32"], abs=0.05)


@pytest.mark.parametrize("way", ["gradient_checkpointing", "offload"])
def test_saving_memory_changes_nothing(way: str) -> None:
    plain, again = trainer_of(), trainer_of(**{way: True})
    plain.train()
    again.train()
    assert digest(plain) == digest(again)


def test_figures_do_not_depend_on_passes() -> None:
    data = some(60, seed=3)
    figures = [trainer_of(micro_batch_tokens=tokens, validation=data).validate() for tokens in (20, 100, 5000)]
    for found in figures[1:]:
        assert found["accuracy"] == figures[0]["accuracy"]
        assert found["loss"] == pytest.approx(figures[0]["loss"], abs=1e-6)


def test_answers_come_in_order() -> None:
    data = some(50, seed=4)
    trainer = trainer_of(micro_batch_tokens=60)
    answers = list(trainer.predict(data))
    trainer.network.eval()
    alone = [trainer.model(input_ids=torch.from_numpy(e["input_ids"])[None]).logits[0] for e in data.held]
    torch.testing.assert_close(torch.stack(answers), torch.stack(alone), atol=1e-5, rtol=1e-5)


def test_perplexity_begins_at_the_size_of_the_vocabulary() -> None:
    trainer = trainer_of(config=GPT2, kind=Words)
    loss = trainer_of(config=GPT2, kind=Words, validation=some(100)).validate()["loss"]
    assert math.exp(loss) == pytest.approx(trainer.model.vocabulary, rel=0.2)


def test_options_that_cannot_be() -> None:
    for wrong in ({"steps": 0}, {"learning_rate": -1.0}, {"warmup": math.nan}, {"label_smoothing": 1.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            trainer_of(**wrong)
    with pytest.raises(ConfigError, match="torchrun"):
        trainer_of(sharded=True)
    with pytest.raises(ConfigError, match=r"metric is 'f1'; validation gives loss, accuracy"):
        trainer_of(metric="f1", validation=some(5)).train()
    with pytest.raises(ConfigError, match="no validation examples"):
        trainer_of().validate()


def test_the_journal_is_json(tmp_path: Path) -> None:
    trainer_of(tmp_path, validation=some(9), log_every=4).train()
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [x["step"] for x in lines if x["event"] == "step"] == [4, 8, 12]
    assert next(x["event"] for x in lines) == "begin" and lines[-1]["event"] == "end"


def test_a_validation_computes_the_loss_of_each_micro_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss over a vocabulary is the dearest part of a metric: the loop and the metric once had one each."""
    from glassformer.runs.config import TrainingOptions
    from glassformer.training import Trainer
    from tests.tasks.classify.test_predictions import CLASSES, rows_of, task_of

    rows = rows_of(CLASSES)
    task = task_of(rows)
    examples = task.encode(rows)
    options = TrainingOptions(steps=1, batch_size=4, micro_batch_tokens=16)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples)
    batches, losses = [], []
    collate, sums = task.collate, task.head.output_loss_sums
    monkeypatch.setattr(task, "collate", lambda *given: batches.append(given) or collate(*given))
    monkeypatch.setattr(
        task.head, "output_loss_sums", lambda *given, **named: losses.append(given) or sums(*given, **named)
    )
    trainer.validate()
    assert len(losses) == len(batches) > 3
