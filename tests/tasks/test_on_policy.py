"""On-policy distillation: what the student writes is read in the place of true texts, and scored by the teacher."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.compression.distil import (
    Distillation,
    between_soft_targets,
    reverse_soft_targets,
    soft_targets,
)
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files.schema import parse
from glassformer.runs.config import parse_config
from glassformer.tasks.distil import DistilledTask
from glassformer.training.run import make_trainer
from tests.e2e.tiny_models import word_tokenizer
from tests.tasks.resumed import Stop

GPT2 = {
    "model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip
ENCODER_DECODER = {
    "model_type": "transformer", "architectures": ["TransformerForConditionalGeneration"], "d_model": 16,
    "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 2, "decoder_start_token_id": 2, "dropout": 0.0,
}  # fmt: skip


def test_the_divergence_between_is_that_of_a_case_by_hand() -> None:
    """Teacher (3/4, 1/4), student (1/4, 3/4), β = 1/2: m is (1/2, 1/2), both divergences 3/4 ln 3/2 + 1/4 ln 1/2."""
    teacher = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64)
    student = torch.zeros(1, 2, dtype=torch.float64)
    student[0, 1] = math.log(3.0)
    student.requires_grad_()
    half = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    loss = between_soft_targets(student, teacher, 1.0, 0.5)
    assert float(loss) == pytest.approx(half, rel=1e-12)
    # ∂/∂z_k of (1 - β) Σ q log (q / m), of which the rest cancels: (1 - β) q_k (log q_k / m_k - KL(q ‖ m))
    (gradient,) = torch.autograd.grad(loss, student)
    wanted = [0.5 * 0.25 * (math.log(0.5) - half), 0.5 * 0.75 * (math.log(1.5) - half)]
    assert gradient[0].tolist() == pytest.approx(wanted, rel=1e-9)
    assert float(between_soft_targets(student, student.detach(), 2.0, 0.3)) == pytest.approx(0.0, abs=1e-12)


def test_near_its_ends_it_is_the_forward_or_the_reverse_divergence() -> None:
    student, teacher = torch.randn(2, 5, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    small = 1e-6
    forward = between_soft_targets(student, teacher, 3.0, small) / small
    backward = between_soft_targets(student, teacher, 3.0, 1 - small) / small
    assert float(forward) == pytest.approx(float(soft_targets(student, teacher, 3.0)), rel=1e-4)
    assert float(backward) == pytest.approx(float(reverse_soft_targets(student, teacher, 3.0)), rel=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_policy": 0.5}, "set alpha to 0"),
        ({"divergence": "jsd", "beta": 0.0}, "beta is 0"),
        ({"divergence": "jsd", "top_k": 5}, "needs all logits"),
        ({"on_policy": 1.5, "alpha": 0.0}, "on_policy"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(Distillation, {"teacher": "runs/large", **options}, "distillation")


def test_a_sharded_student_writes_nothing(tmp_path: Path) -> None:
    options = {"teacher": "runs/large", "alpha": 0.0, "on_policy": 0.5}
    with pytest.raises(ConfigError, match="does not go with sharded"):
        parse_config(language_model(tmp_path, distillation=options, sharded=True))


def language_model(folder: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a language model of two sentences."""
    words = folder / "words"
    if not words.exists():
        words.mkdir()
        word_tokenizer().save(str(words / "tokenizer.json"))
        lines = [f"time flies like an arrow fruit {'a' if i % 2 else 'banana'} ." for i in range(24)]
        (folder / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")
    values = {
        "task": "generate", "scratch": GPT2, "tokenizer": str(words), "data": {"train": str(folder / "texts.csv")},
        "training": {"steps": 40, "batch_size": 8, "learning_rate": 1e-2}, "output": str(folder / "large"),
        "task_options": {"block": 16},
    }  # fmt: skip
    return {**values, **changes}


@pytest.mark.parametrize("divergence", ["reverse", "jsd"])
def test_a_language_model_learns_at_what_it_writes(tmp_path: Path, divergence: str) -> None:
    make_trainer(parse_config(language_model(tmp_path))).train()
    options = {
        "teacher": str(tmp_path / "large"), "alpha": 0.0, "temperature": 1.0, "divergence": divergence,
        "on_policy": 1.0, "max_new_tokens": 6,
    }  # fmt: skip
    values = language_model(tmp_path, output=str(tmp_path / "small"), distillation=options)
    trainer = make_trainer(parse_config(values))
    task = trainer.task
    assert isinstance(task, DistilledTask)
    (batch,) = task.before_step([task.collate([trainer.train_examples[i] for i in range(4)], range(4))])
    own, theirs = batch.labels["own"], batch.labels["taught"]["logits"]
    assert len(theirs) == int((own != -100).sum()) and 4 <= len(theirs) <= 4 * 6  # the prompts are not scored
    assert trainer.network.training
    steps = [trainer.train_step() for _ in range(40)]
    losses = [step.loss for step in steps]
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])

    # the same share of true texts: none is written, and the loss is that of the texts
    values["distillation"] = {**options, "on_policy": 1e-9}
    values["output"] = str(tmp_path / "true")
    plain = make_trainer(parse_config(values)).task
    true = plain.collate([trainer.train_examples[i] for i in range(4)], range(4))
    (same,) = plain.before_step([true])
    assert torch.equal(same.batch.input_ids, true.batch.input_ids) and torch.equal(same.labels["own"], true.labels)


def test_a_run_that_writes_resumes_to_the_bit(tmp_path: Path) -> None:
    make_trainer(parse_config(language_model(tmp_path))).train()
    options = {"teacher": str(tmp_path / "large"), "alpha": 0.0, "on_policy": 0.5, "max_new_tokens": 4}
    training = {"steps": 6, "batch_size": 8, "learning_rate": 1e-2, "save_every": 2}
    ends = []
    for name, stopped in (("whole", False), ("cut", True)):
        values = language_model(tmp_path, output=str(tmp_path / name), distillation=options, training=training)
        if stopped:
            with pytest.raises(InterruptedError, match="stopped"):
                make_trainer(parse_config(values), [Stop()]).train()
            assert (tmp_path / name / "checkpoints" / "step-00000002").is_dir()
        trainer = make_trainer(parse_config(values))
        trainer.train()
        ends.append(trainer.network.state_dict())
    assert all(torch.equal(x, ends[1][name]) for name, x in ends[0].items())


def test_an_encoder_decoder_learns_at_its_own_answers(tmp_path: Path) -> None:
    lines = '{"source": ["time flies", "like an arrow"], "target": ["fruit flies", "a banana"]}\n' * 8
    (tmp_path / "rows.jsonl").write_text(lines)
    values: dict[str, Any] = {
        "task": "summarise", "scratch": ENCODER_DECODER, "tokenizer": {"size": 270, "family": "bart"},
        "data": {"train": str(tmp_path / "rows.jsonl")}, "output": str(tmp_path / "large"),
        "training": {"steps": 40, "batch_size": 8, "learning_rate": 1e-2},
    }  # fmt: skip
    make_trainer(parse_config(values)).train()
    options = {
        "teacher": str(tmp_path / "large"), "alpha": 0.0, "divergence": "jsd", "on_policy": 1.0, "max_new_tokens": 8,
    }  # fmt: skip
    small = {**values, "scratch": {**ENCODER_DECODER, "decoder_layers": 1}, "output": str(tmp_path / "small")}
    trainer = make_trainer(parse_config({**small, "distillation": options}))
    true = trainer.task.collate([trainer.train_examples[0]], [0])
    (batch,) = trainer.task.before_step([true])
    assert torch.equal(batch.batch.input_ids, true.batch.input_ids)  # the source stays
    assert not torch.equal(batch.labels["own"], true.labels)
    losses = [trainer.train_step().loss for _ in range(40)]
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


def test_tasks_that_write_nothing_are_refused(tmp_path: Path) -> None:
    values = language_model(tmp_path)
    values |= {"task": "classify", "scratch": {**GPT2, "num_labels": 2}, "task_options": {}}
    (tmp_path / "texts.csv").write_text("text,label\n" + "time flies,a\nfruit flies,b\n" * 8)
    make_trainer(parse_config(values)).train()
    options = {"teacher": str(tmp_path / "large"), "alpha": 0.0, "on_policy": 0.5}
    with pytest.raises(UnsupportedError, match="writes no text"):
        make_trainer(parse_config({**values, "output": str(tmp_path / "small"), "distillation": options}))
