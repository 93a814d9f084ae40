"""A task with a teacher: plain training at alpha = 1, the loss by a formula of plain torch, and stored logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.nn import functional as F

from glassformer import load
from glassformer.compression.distil import Distillation
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.runs.config import parse_config
from glassformer.runs.options import SearchOptions
from glassformer.tasks.distil import DistilledTask, StoredLogits, taught_by
from glassformer.tasks.microbatch import run_batches
from glassformer.tasks.registry import task_class
from glassformer.training.run import make_trainer
from glassformer.training.search_run import search_config
from glassformer.training.trainer import Trainer
from tests.e2e.tiny_models import word_tokenizer
from tests.studies.samples import BERT, sizes_values

SHAPE = {**BERT, "num_hidden_layers": 2, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a classifier of two labels and two layers."""
    folder = tmp_path_factory.mktemp("teacher")
    values = sizes_values(folder)
    del values["study"]
    values["data"] |= {"train": "far.csv", "validation": "test.csv"}
    values |= {"scratch": SHAPE, "output": str(folder / "run")}
    make_trainer(parse_config(values)).train()
    return folder / "run"


def student(teacher: Path, output: Path, **changes: Any) -> Trainer:
    """The trainer of a student of two layers with weights of its own."""
    values = sizes_values_of(teacher)
    return make_trainer(parse_config({**values, "output": str(output), **changes}))


def sizes_values_of(teacher: Path) -> dict[str, Any]:
    folder = teacher.parent
    return {
        "task": "classify", "scratch": SHAPE, "tokenizer": str(folder / "words"),
        "data": {"folder": str(folder), "train": "far.csv", "validation": "test.csv"},
        "training": {"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "seed": 5},
    }  # fmt: skip


def test_alpha_one_is_plain_training_to_the_bit(teacher: Path, tmp_path: Path) -> None:
    plain, distilled = (
        student(teacher, tmp_path / name, **options)
        for name, options in (("plain", {}), ("one", {"distillation": {"teacher": str(teacher), "alpha": 1.0}}))
    )
    for trainer in (plain, distilled):
        trainer.train()
    for name, weight in plain.network.named_parameters():
        assert torch.equal(weight, distilled.network.get_parameter(name)), name
    assert plain.validate() == distilled.validate()
    half = student(teacher, tmp_path / "half", distillation={"teacher": str(teacher), "alpha": 0.5})
    half.train()
    assert not torch.equal(half.network.head.classifier.weight, plain.network.head.classifier.weight)
    assert half.validate().keys() == plain.validate().keys()


def test_the_loss_is_that_of_plain_torch(teacher: Path, tmp_path: Path) -> None:
    alpha, T = 0.25, 3.0
    options = {"teacher": str(teacher), "alpha": alpha, "temperature": T}
    trainer = student(teacher, tmp_path / "student", distillation=options)
    examples = trainer.train_examples
    pad = [np.pad(examples[i]["input_ids"], (0, 9 - len(examples[i]["input_ids"]))) for i in range(20)]
    ids = torch.tensor(np.stack(pad)).long()
    mask = torch.tensor([[j < len(examples[i]["input_ids"]) for j in range(9)] for i in range(20)]).long()
    labels = torch.tensor([int(examples[i]["labels"]) for i in range(20)])
    theirs = load(teacher / "model")(input_ids=ids, attention_mask=mask).logits.detach()
    logits = trainer.model(input_ids=ids, attention_mask=mask).logits
    expected = alpha * F.cross_entropy(logits, labels) + (1 - alpha) * T**2 * F.kl_div(
        F.log_softmax(logits / T, -1), F.softmax(theirs / T, -1), reduction="batchmean"
    )
    expected.backward()
    wanted = {name: x.grad.clone() for name, x in trainer.network.named_parameters() if x.grad is not None}
    trainer.network.zero_grad()
    trainer.network.train()
    batches = [trainer.task.collate([examples[i] for i in part], part) for part in (range(12), range(12, 20))]
    loss, _ = trainer.gradients.accumulate(batches)
    assert loss == pytest.approx(float(expected), rel=1e-3)  # the teacher's logits have 16 bits
    for name, grad in wanted.items():
        torch.testing.assert_close(trainer.network.get_parameter(name).grad, grad, rtol=2e-2, atol=1e-4)


def test_logits_are_computed_once_for_many_students(
    teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import glassformer.tasks.distil as module

    asked: list[int] = []
    run = module.run_batches

    def counted(task: Any, examples: Any, window: Any, **options: Any) -> Any:
        asked.append(len(window))
        return run(task, examples, window, **options)

    monkeypatch.setattr(module, "run_batches", counted)
    options = {"teacher": str(teacher), "store": str(tmp_path / "store")}
    first, second = (
        student(teacher, tmp_path / n, distillation={**options, "alpha": a}) for n, a in (("a", 0.1), ("b", 0.9))
    )
    assert asked == [20]
    (path,) = (tmp_path / "store").iterdir()
    examples = first.train_examples
    task = first.task
    assert isinstance(task, DistilledTask)
    exact = {
        i: logits
        for output, batch in run_batches(task.teacher, examples, labelled=False)
        for i, logits in zip(batch.indices, output.logits, strict=True)
    }
    for i in range(20):
        stored = examples[i]["taught"]["logits"]
        assert np.array_equal(stored[0], exact[i].numpy().astype(np.float16).astype(np.float32))
        assert np.array_equal(stored, second.train_examples[i]["taught"]["logits"])
    assert "taught" not in first.validation_examples[0]

    # another teacher has other logits
    values = sizes_values_of(teacher)
    values["training"] = {**values["training"], "seed": 9, "epochs": 1}
    make_trainer(parse_config({**values, "output": str(tmp_path / "other")})).train()
    student(teacher, tmp_path / "c", distillation={**options, "teacher": str(tmp_path / "other")})
    assert len(list((tmp_path / "store").iterdir())) == 2 and asked == [20, 20]

    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"teacher-\w+\.arrow: is damaged"):
        StoredLogits(path)


def test_a_student_is_made_of_the_layers_and_learns(teacher: Path, tmp_path: Path) -> None:
    values = {**sizes_values_of(teacher), "scratch": None, "tokenizer": None, "model": str(teacher / "model")}
    values["distillation"] = {"teacher": str(teacher), "layers": 1, "alpha": 0.2}
    config = parse_config({name: x for name, x in values.items() if x is not None} | {"output": str(tmp_path / "one")})
    trainer = make_trainer(config)
    large = load(teacher / "model")
    assert len(trainer.network.blocks) == 1 and trainer.model.config.num_hidden_layers == 1
    weight = "blocks.0.attn.qkv.weight"
    assert torch.equal(trainer.network.get_parameter(weight), large.get_parameter(weight))
    trainer.train()
    small = load(tmp_path / "one" / "model")
    assert len(small.network.blocks) == 1 and small.config.id2label == large.config.id2label
    # the same command continues, or has nothing left to do
    assert make_trainer(config).train().steps == trainer.state.step
    changed = replace(config, distillation=replace(config.distillation, alpha=0.3))
    with pytest.raises(ConfigError, match="another configuration: task was"):
        make_trainer(changed).train()


MASKED = {"hidden": 0.5, "attention": 0.5, "cosine": 1.0}


@pytest.mark.parametrize("task", ["fill", "text-generation"])
def test_language_models_learn_from_a_teacher(tmp_path: Path, task: str) -> None:
    """Masked each time anew, with hidden states, attention and cosine; and the next token by the largest logits."""
    words = tmp_path / "words"
    words.mkdir()
    tokenizer = word_tokenizer()
    if task == "fill":
        tokenizer.add_special_tokens(["[MASK]"])
    tokenizer.save(str(words / "tokenizer.json"))
    if task == "fill":
        (words / "tokenizer_config.json").write_text('{"mask_token": "[MASK]"}')
    lines = [f"time flies like an arrow fruit {'a' if i % 2 else 'banana'} ." for i in range(24)]
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")
    shape = SHAPE if task == "fill" else {
        "model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    }  # fmt: skip
    values: dict[str, Any] = {
        "task": task, "scratch": shape, "tokenizer": str(words), "data": {"train": str(tmp_path / "texts.csv")},
        "training": {"steps": 30, "batch_size": 8, "learning_rate": 1e-2}, "output": str(tmp_path / "large"),
    }  # fmt: skip
    make_trainer(parse_config(values)).train()
    extra = MASKED if task == "fill" else {"top_k": 5}
    options = {"teacher": str(tmp_path / "large"), "alpha": 0.3, **extra}
    trainer = make_trainer(parse_config({**values, "output": str(tmp_path / "small"), "distillation": options}))
    assert isinstance(trainer.task, DistilledTask) and trainer.task.is_live == (task == "fill")
    losses = [trainer.train_step().loss for _ in range(30)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    assert trainer.network.training and not trainer.task.teacher.model.network.training
    counts = trainer.task.loss_head.label_counts(
        trainer.task.collate([trainer.task.augment(trainer.train_examples[0], np.random.default_rng(0))]).labels
    )
    expected = {"loss", "distillation", *(MASKED if task == "fill" else ())}
    assert counts.keys() == expected
    if task == "fill":
        assert counts["hidden"] == len(trainer.train_examples[0]["input_ids"]) > counts["loss"] > 0


def test_what_encoder_decoders_write_is_taught(tmp_path: Path) -> None:
    lines = '{"source": ["time flies", "like an arrow"], "target": ["fruit flies", "a banana"]}\n' * 8
    (tmp_path / "rows.jsonl").write_text(lines)
    scratch = {
        "model_type": "transformer", "architectures": ["TransformerForConditionalGeneration"], "d_model": 16,
        "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 2, "decoder_start_token_id": 2,
        "dropout": 0.0,
    }  # fmt: skip
    values: dict[str, Any] = {
        "task": "summarise", "scratch": scratch, "tokenizer": {"size": 270, "family": "bart"},
        "data": {"train": str(tmp_path / "rows.jsonl")}, "output": str(tmp_path / "large"),
        "training": {"steps": 20, "batch_size": 8, "learning_rate": 1e-2},
    }  # fmt: skip
    make_trainer(parse_config(values)).train()
    options = {"teacher": str(tmp_path / "large"), "alpha": 0.2, "divergence": "reverse", **MASKED}
    small = {**values, "scratch": {**scratch, "decoder_layers": 1}, "output": str(tmp_path / "small")}
    trainer = make_trainer(parse_config({**small, "distillation": options}))
    losses = [trainer.train_step().loss for _ in range(20)]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    batch = trainer.task.collate([trainer.train_examples[0]])
    assert batch.labels["taught"]["real"].shape == batch.batch.decoder_input_ids.shape


@pytest.mark.parametrize("loss", ["multiple-negatives-ranking", "cosine"])
def test_a_sentence_encoder_learns_the_vectors_of_a_larger_one(tmp_path: Path, loss: str) -> None:
    words = tmp_path / "words"
    words.mkdir()
    word_tokenizer().save(str(words / "tokenizer.json"))
    texts = ["time flies", "fruit flies", "an arrow", "a banana", "like an arrow", "time"]
    lines = [f"{a},{b},{len(a) % 5 / 5}" for a in texts for b in texts if a != b]
    (tmp_path / "pairs.csv").write_text("text,text_pair,label\n" + "\n".join(lines) + "\n")
    values: dict[str, Any] = {
        "task": "embed", "scratch": SHAPE, "tokenizer": str(words), "task_options": {"loss": loss},
        "data": {"train": str(tmp_path / "pairs.csv"), "ignore": ["*"]}, "output": str(tmp_path / "large"),
        "training": {"steps": 60, "batch_size": 10, "learning_rate": 1e-2},
    }  # fmt: skip
    make_trainer(parse_config({**values, "training": {"steps": 5}})).train()
    options = {"teacher": str(tmp_path / "large"), "alpha": 0.0}
    narrow = {**SHAPE, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    small = {**values, "output": str(tmp_path / "small"), "distillation": options}
    wide = make_trainer(parse_config({**small, "scratch": {**SHAPE, "num_hidden_layers": 1}}))
    large = load(tmp_path / "large" / "model").encode(texts)
    before = np.square(wide.model.encode(texts) - large).sum(-1).mean()
    wide.train()
    after = np.square(load(tmp_path / "small" / "model").encode(texts) - large).sum(-1).mean()
    assert after < 0.1 * before
    projected = make_trainer(parse_config({**small, "scratch": narrow, "output": str(tmp_path / "narrow")}))
    losses = [projected.train_step().loss for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_search_asks_the_teacher_once(teacher: Path, tmp_path: Path) -> None:
    values = sizes_values_of(teacher)
    store = tmp_path / "store"
    values |= {"output": str(tmp_path / "search"), "distillation": {"teacher": str(teacher), "store": str(store)}}
    values["search"] = {
        "trials": 2,
        "space": {"distillation.alpha": [0.1, 0.9], "distillation.temperature": [2.0, 7.0]},
    }
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(values))
    result = search_config(tmp_path / "search.yaml", SearchOptions())
    assert len(result.trials) == 2 and not any(trial.error for trial in result.trials)
    assert len(list(store.iterdir())) == 1
    best = yaml.safe_load((tmp_path / "search" / "best.yaml").read_text())
    assert best["distillation"]["alpha"] in (0.1, 0.9) and best["distillation"]["temperature"] in (2.0, 7.0)


def test_micro_batches_change_no_gradient_of_matched_states(teacher: Path, tmp_path: Path) -> None:
    options = {"teacher": str(teacher), **MASKED}
    trainer = student(teacher, tmp_path / "student", distillation=options)
    examples = trainer.train_examples

    def gradients(*parts: range) -> tuple[float, dict[str, Any]]:
        trainer.network.zero_grad()
        loss, _ = trainer.gradients.accumulate([trainer.task.collate([examples[i] for i in p], p) for p in parts])
        return loss, {name: x.grad.clone() for name, x in trainer.network.named_parameters() if x.grad is not None}

    (whole, first), (cut, second) = gradients(range(20)), gradients(range(3), range(3, 11), range(11, 20))
    assert whole == pytest.approx(cut, rel=1e-5)
    for name, grad in first.items():
        torch.testing.assert_close(second[name], grad, rtol=1e-3, atol=1e-6)
    # the teacher itself as the student: nothing to learn but the labels
    same = load(teacher / "model")
    kind = task_class("classify")
    twin = taught_by(kind(same), kind(load(teacher / "model")), Distillation(teacher="", alpha=0.0, **MASKED))  # type: ignore[call-arg]
    taught = twin.teach(trainer.train_examples.examples, tmp_path)
    batch = twin.collate([taught[i] for i in range(20)])
    x = same.network.states(batch.batch, batch.flow)
    sums = twin.loss_head.loss_sums(x, batch.flow, batch.labels)
    assert {name: float(value) for name, value in sums.items()} == pytest.approx(
        dict.fromkeys(["loss", "distillation", *MASKED], 0.0), abs=1e-4
    )


def test_states_of_another_width_are_matched_by_a_projection(teacher: Path, tmp_path: Path) -> None:
    options = {"teacher": str(teacher), "alpha": 0.0, "hidden": 1.0, "cosine": 1.0, "attention": 1.0}
    narrow = {**SHAPE, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    training = {"epochs": 12, "batch_size": 8, "learning_rate": 1e-2, "save_every": 2}
    trainer = student(teacher, tmp_path / "narrow", scratch=narrow, distillation=options, training=training)
    (projections,) = trainer.task.training_parts
    assert [x.weight.shape for x in projections.matrices] == [(16, 8)] * 2
    before = [x.weight.clone() for x in projections.matrices]
    losses = [trainer.train_step().loss for _ in range(20)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    assert not any(map(torch.equal, before, (x.weight for x in projections.matrices)))

    # saved without them, and resumed with them
    whole = student(teacher, tmp_path / "whole", scratch=narrow, distillation=options, training=training)
    whole.train()
    saved = load(tmp_path / "whole" / "model")
    assert saved.report.unused == [] and not hasattr(whole.network, "state_projections")
    cut = student(teacher, tmp_path / "cut", scratch=narrow, distillation=options, training=training)
    cut._start_or_resume(True)
    cut.run_folder.open().__enter__()
    for _ in range(4):
        cut.train_step()
    cut.save()
    resumed = student(teacher, tmp_path / "cut", scratch=narrow, distillation=options, training=training)
    resumed.train()
    for name, weight in saved.named_parameters():
        assert torch.equal(load(tmp_path / "cut" / "model").get_parameter(name), weight), name


def test_teachers_that_do_not_fit(teacher: Path, tmp_path: Path) -> None:
    folder = teacher.parent
    (tmp_path / "three.csv").write_text("text,label\ntime flies,a\nan arrow,b\na banana,c\ntime,a\nan,b\na,c\n")
    values = sizes_values_of(teacher)
    three = {**values, "data": {"train": str(tmp_path / "three.csv")}, "output": str(tmp_path / "three")}
    with pytest.raises(ConfigError, match=r"labels of the teacher \(2\) are not those of the student \(3\): c differ"):
        make_trainer(parse_config({**three, "distillation": {"teacher": str(teacher)}}))

    longer = tmp_path / "longer"
    longer.mkdir()
    tokenizer = word_tokenizer()
    tokenizer.add_tokens(["more"])
    tokenizer.save(str(longer / "tokenizer.json"))
    with pytest.raises(ConfigError, match=r"tokenizer of the teacher .* is not that of the student"):
        student(teacher, tmp_path / "a", tokenizer=str(longer), distillation={"teacher": str(teacher)})
    bare = load(teacher / "model", task="feature-extraction")
    bare.save_pretrained(tmp_path / "bare")
    with pytest.raises(WeightsError, match="holds no head for the task 'classify'"):
        student(teacher, tmp_path / "c", distillation={"teacher": str(tmp_path / "bare")})
    with pytest.raises(ConfigError, match="layers is 3, and the model has 2"):
        student(teacher, tmp_path / "d", distillation={"teacher": str(teacher), "layers": 3})
    qa = {"task": "question-answering", "data": {"train": str(folder / "qa.jsonl")}}
    (folder / "qa.jsonl").write_text(
        '{"question": "time", "context": "an arrow flies", "answers": {"text": ["arrow"], "answer_start": [3]}}\n'
    )
    span = {**values, **qa, "output": str(tmp_path / "span")}
    make_trainer(parse_config({**span, "training": {"steps": 1}})).train()
    with pytest.raises(UnsupportedError, match="whose loss has no teacher here"):
        make_trainer(
            parse_config({**span, "output": str(tmp_path / "e"), "distillation": {"teacher": str(tmp_path / "span")}})
        )
