"""Losses and the best validation of the `Trainer`, equal to the reference library's with perturbed parameters."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

import glassformer
from glassformer import hf
from tests.e2e.tiny_models import make_folder
from tests.parity.sides import perturb

DROPOUTS = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout", "resid_dropout"), 0.0)


def examples() -> list[dict[str, Any]]:
    """Texts of unequal lengths."""
    draw = random.Random(0)
    return [{"input_ids": [draw.randint(4, 12) for _ in range(draw.randint(3, 12))]} for _ in range(7)]


def filled(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    ids = [row["input_ids"] for row in rows]
    width = max(map(len, ids))
    return {
        "input_ids": torch.tensor([x + [0] * (width - len(x)) for x in ids]),
        "attention_mask": torch.tensor([[1] * len(x) + [0] * (width - len(x)) for x in ids]),
        "labels": torch.tensor([x + [-100] * (width - len(x)) for x in ids]),
    }


def causal_folder(root: Path, family: str) -> str:
    """A small causal model whose parameters are all perturbed."""
    folder = make_folder(root / family, family, task="text-generation", **DROPOUTS)
    model = glassformer.load(folder)
    perturb(model)
    model.save_pretrained(folder)
    return str(folder)


def numbers(library: Any, folder: str, out: Path, collate: Any = filled, **options: Any) -> list[float]:
    """The loss of an evaluation, and those and the gradient norms of three updates."""
    model = library.AutoModelForCausalLM.from_pretrained(folder)
    args = library.TrainingArguments(
        str(out), use_cpu=True, per_device_train_batch_size=2, per_device_eval_batch_size=3, logging_steps=1,
        max_steps=3, save_strategy="no", report_to="none", disable_tqdm=True, **options,
    )  # fmt: skip
    trainer = library.Trainer(model, args, data_collator=collate, train_dataset=examples(), eval_dataset=examples())
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == 3
    return [before, *(entry["loss"] for entry in logs), *(float(entry["grad_norm"]) for entry in logs)]


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}, {"label_smoothing_factor": 0.1}], ids=str)
@pytest.mark.parametrize("family", ["gpt2", "openai-gpt", "llama", "gpt_neox"])
def test_losses_of_causal_models_are_those_of_the_reference(
    family: str, options: dict[str, Any], tmp_path: Path
) -> None:
    folder = causal_folder(tmp_path, family)
    with contextlib.redirect_stdout(io.StringIO()):
        ours = numbers(hf, folder, tmp_path / "ours", **options)
        theirs = numbers(transformers, folder, tmp_path / "theirs", **options)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("between", ["nothing", "another seed", "a random evaluation"])
@pytest.mark.parametrize("data_seed", [None, 3])
def test_order_and_masks_follow_the_generators(between: str, data_seed: int | None, tmp_path: Path) -> None:
    """The order is by the generators' seed when training begins, and what a collator draws continues from there."""
    folder = causal_folder(tmp_path, "llama")

    def hidden(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        batch = filled(rows)
        return {**batch, "labels": batch["labels"].masked_fill(torch.rand(batch["labels"].shape) < 0.3, -100)}

    logs = []
    for library in (hf, transformers):
        model = library.AutoModelForCausalLM.from_pretrained(folder)
        args = library.TrainingArguments(
            str(tmp_path / library.__name__), use_cpu=True, per_device_train_batch_size=2, logging_steps=1,
            num_train_epochs=2, save_strategy="no", report_to="none", disable_tqdm=True, data_seed=data_seed,
        )  # fmt: skip
        trainer = library.Trainer(
            model, args, data_collator=hidden, train_dataset=examples(), eval_dataset=examples()[:2]
        )
        if between == "another seed":
            torch.manual_seed(5)
        elif between == "a random evaluation":
            trainer.evaluate()
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train()
        logs.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    np.testing.assert_allclose(*logs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("before", ["a step", "a training", "an optimizer"])
def test_what_an_earlier_step_leaves_is_continued_as_there(before: str, tmp_path: Path) -> None:
    """The optimizer stays, with its moments; the schedule begins again, and gradients that nobody used are dropped."""
    folder = causal_folder(tmp_path, "llama")
    logs = []
    for library in (hf, transformers):
        args = library.TrainingArguments(
            str(tmp_path / library.__name__), use_cpu=True, per_device_train_batch_size=2, logging_steps=1,
            max_steps=3, save_strategy="no", report_to="none", disable_tqdm=True, learning_rate=1e-3,
        )  # fmt: skip
        model = library.AutoModelForCausalLM.from_pretrained(folder)
        trainer = library.Trainer(model, args, data_collator=filled, train_dataset=examples())
        with contextlib.redirect_stdout(io.StringIO()):
            if before == "a training":
                trainer.train()
                assert trainer.create_optimizer() is trainer.optimizer
            else:
                trainer.create_optimizer()
                if before == "a step":
                    trainer.model(**filled(examples()[:2])).loss.backward()
                    trainer.optimizer.step()
            trainer.train()
        entries = [entry for entry in trainer.state.log_history if "loss" in entry]
        logs.append([(entry["loss"], entry["learning_rate"], float(entry["grad_norm"])) for entry in entries])
    np.testing.assert_allclose(*logs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "gemma2"])
def test_flattened_texts_do_not_see_each_other(family: str, tmp_path: Path) -> None:
    folder = causal_folder(tmp_path, family)
    batch = hf.DataCollatorWithFlattening()(examples())
    several = {name: torch.cat([x, x.flip(0)]) for name, x in batch.items()}
    ours = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        for given in (batch, several):
            expected = theirs(**given, use_cache=False).logits
            torch.testing.assert_close(ours(**given, use_cache=False).logits, expected, rtol=1e-5, atol=1e-5)
        one = torch.tensor([examples()[1]["input_ids"]])
        start = len(examples()[0]["input_ids"])
        alone = ours(one).logits
        packed = ours(**batch, use_cache=False).logits[:, start : start + one.shape[1]]
        torch.testing.assert_close(packed, alone, rtol=1e-5, atol=1e-5)
    with contextlib.redirect_stdout(io.StringIO()):
        trained = [
            numbers(library, folder, tmp_path / library.__name__, library.DataCollatorWithFlattening())
            for library in (hf, transformers)
        ]
    np.testing.assert_allclose(*trained, rtol=1e-5, atol=1e-5)


def test_gpt2_is_evaluated_over_all_labels_and_others_over_those_that_are_predicted(tmp_path: Path) -> None:
    ratios = {}
    for family in ("gpt2", "llama"):
        model = hf.AutoModelForCausalLM.from_pretrained(causal_folder(tmp_path, family)).eval()
        args = hf.TrainingArguments(tmp_path / "out", use_cpu=True, per_device_eval_batch_size=7)
        loss = hf.Trainer(model, args, data_collator=filled, eval_dataset=examples()).evaluate()["eval_loss"]
        with torch.no_grad():
            ratios[family] = loss / float(model(**filled(examples())).loss)
    tokens = sum(len(row["input_ids"]) for row in examples())
    assert ratios == pytest.approx({"gpt2": (tokens - len(examples())) / tokens, "llama": 1.0}, abs=1e-5)


def test_a_loss_of_the_caller_gets_the_number_of_labels(tmp_path: Path) -> None:
    counts: dict[str, list[int]] = {"ours": [], "theirs": []}
    folder = causal_folder(tmp_path, "llama")
    losses = {}
    for name, library in {"ours": hf, "theirs": transformers}.items():

        def summed(outputs: Any, labels: Tensor, num_items_in_batch: Any, name: str = name) -> Tensor:
            counts[name].append(int(num_items_in_batch))
            logits = outputs["logits"][:, :-1].flatten(0, 1)
            return torch.nn.functional.cross_entropy(logits, labels[:, 1:].flatten(), reduction="sum") / (
                num_items_in_batch
            )

        args = library.TrainingArguments(str(tmp_path / name), use_cpu=True, per_device_eval_batch_size=3)
        model: Any = library.AutoModelForCausalLM.from_pretrained(folder)
        trainer = library.Trainer(
            model, args, data_collator=filled, eval_dataset=examples(), compute_loss_func=summed
        )  # fmt: skip
        losses[name] = trainer.evaluate()["eval_loss"]
    assert counts["ours"] == counts["theirs"] and len(counts["ours"]) == 3
    assert losses["ours"] == pytest.approx(losses["theirs"], abs=1e-5)


@pytest.mark.parametrize(
    ("values", "greater", "best"),
    [([0.5, 0.7, 0.7, 0.6], True, 2), ([0.5, 0.3, 0.3, 0.4], False, 2), ([math.nan, 0.2, 0.2, 0.1], True, 2),
     ([0.4, 0.4, 0.4, 0.4], True, 1)],
    ids=["greater", "smaller", "nan", "all equal"],
)  # fmt: skip
def test_of_equal_validations_the_first_is_the_best(
    values: list[float], greater: bool, best: int, tmp_path: Path
) -> None:
    folder, states = causal_folder(tmp_path, "llama"), []
    for library in (hf, transformers):
        given = itertools.cycle(values)
        args = library.TrainingArguments(
            str(tmp_path / library.__name__), use_cpu=True, per_device_train_batch_size=2, max_steps=4, eval_steps=1,
            save_steps=1, eval_strategy="steps", save_strategy="steps", load_best_model_at_end=True, report_to="none",
            metric_for_best_model="value", greater_is_better=greater, disable_tqdm=True,
        )  # fmt: skip
        trainer = library.Trainer(
            library.AutoModelForCausalLM.from_pretrained(folder), args, data_collator=filled, train_dataset=examples(),
            eval_dataset=examples()[:1], compute_metrics=lambda _, given=given: {"value": next(given)},
        )  # fmt: skip
        trainer.train()
        state = trainer.state
        states.append((state.best_metric, state.best_global_step, Path(state.best_model_checkpoint).name))
    assert states[0] == states[1] == (values[best - 1], best, f"checkpoint-{best}")


def test_a_batch_whose_loss_is_not_finite_is_left_out(tmp_path: Path) -> None:
    losses = []
    for library in (hf, transformers):
        given = iter([1.0, math.nan, 3.0])
        model = library.AutoModelForCausalLM.from_pretrained(causal_folder(tmp_path, "llama"))
        args = library.TrainingArguments(str(tmp_path / "out"), use_cpu=True, per_device_eval_batch_size=3)
        trainer = library.Trainer(
            model, args, data_collator=filled, eval_dataset=examples(),
            compute_loss_func=lambda outputs, labels, num_items_in_batch, given=given: torch.tensor(next(given)),
        )  # fmt: skip
        losses.append(trainer.evaluate()["eval_loss"])
    assert losses == [1.5, 1.5]
