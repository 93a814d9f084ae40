"""LXMERT's pre-training: the reference's loss of all objectives, a run that learns which text is of which image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.answer_image import AnswerImage
from glassformer.tasks.pretrain_image import DOES_NOT_FIT, FITS, PreTrainImage
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder, word_tokenizer
from tests.tasks.resumed import assert_resumes

WIDTH = 6
TEXTS = ["time flies like an arrow", "a banana a fruit banana", "fruit flies fruit flies .", "an arrow . time . time"]
ROWS = [
    {
        "text": text,
        "features": (np.eye(WIDTH)[[number] * 3] + 0.01 * number).round(3).tolist(),
        "boxes": [[0.1, 0.1, 0.5, 0.5]] * 3,
    }
    for number, text in enumerate(TEXTS)
]


def lxmert(folder: Path, **changes: Any) -> Path:
    still = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "initializer_range": 0.3,
        "visual_obj_loss": False,
        "visual_attr_loss": False,
    }
    make_folder(folder, "lxmert", task="pre-training", **{**still, **sizes, **changes})
    words = "[PAD] [CLS] [SEP] [UNK] time flies like an arrow fruit a banana . [MASK]".split()
    engine = word_tokenizer(words=words)
    engine.add_special_tokens(["[MASK]"])
    engine.save(str(folder / "tokenizer.json"))
    settings = {"pad_token": "[PAD]", "mask_token": "[MASK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def perturbed(folder: Path) -> glassformer.Model:
    model = glassformer.load(folder, task="pre-training")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return glassformer.load(folder, task="pre-training")


def test_the_loss_and_its_gradients_are_the_references(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = lxmert(tmp_path / "lxmert")
    task = PreTrainImage(perturbed(folder), rate=0.4, region_rate=0.5)
    reference = transformers.LxmertForPreTraining.from_pretrained(folder).eval()
    examples = task.encode(read_rows(ROWS))
    trainer = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples)
    trainer.network.eval()
    shown = [task.augment(examples[i], np.random.default_rng(i)) for i in range(len(ROWS))]
    batch = task.collate(shown)
    labels, given = batch.labels, batch.batch
    assert isinstance(labels, dict) and set(labels["matched_label"].tolist()) == {0, 1}
    assert given.visual_feats is not None and given.visual_pos is not None
    features = torch.tensor([row["features"] for row in ROWS])
    assert not torch.equal(given.visual_feats, features)  # regions are hidden, and are the labels
    assert torch.equal(labels["obj_labels"]["feat"][0], features)
    keep = torch.ones_like(given.input_ids) if batch.flow.keep is None else batch.flow.keep[:, 0].long()
    theirs = reference(
        input_ids=given.input_ids,
        attention_mask=keep,
        visual_feats=given.visual_feats,
        visual_pos=given.visual_pos,
        **labels,
    ).loss
    theirs.sum().backward()
    loss, _ = trainer.gradients.accumulate([batch])
    assert loss == pytest.approx(float(theirs.detach().sum()), rel=1e-5)
    for ours, name in (
        ("head.matched.weight", "cls.seq_relationship.weight"),
        ("vision.embed.features.weight", "lxmert.encoder.visn_fc.visn_fc.weight"),
    ):
        gradient = trainer.network.get_parameter(ours).grad
        torch.testing.assert_close(gradient, reference.get_parameter(name).grad, rtol=1e-4, atol=1e-6)


def scores_of(task: PreTrainImage) -> dict[str, float]:
    """The scores of twenty draws of each row."""
    examples, metric = task.encode(read_rows(ROWS)), task.metric()
    shown = [task.augment(examples[i % 4], np.random.default_rng(1_000 + i)) for i in range(80)]
    batch = task.collate(shown)
    with torch.no_grad():
        metric.update(task.model.network(batch.batch, batch.flow), batch)
    return metric.compute()


def test_from_a_file_to_a_model_that_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained by the command line until it knows which text is of which kind of image; its body then learns answers."""
    folder, table, run = lxmert(tmp_path / "lxmert"), tmp_path / "pairs.jsonl", tmp_path / "run"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    given = ("--task", "pre-train-image", "--model", folder, "--data", table, "--validation", table, "--output", run)
    given += ("--steps", "400", "--batch-size", "4", "--lr", "3e-3", "--set", "training.schedule=constant")
    given += ("--set", "training.validate_every=400", "--set", "training.save_every=400")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    before, after = (scores_of(PreTrainImage(glassformer.load(model, task="pre-training"))) for model in (folder, run))
    assert after["matched_accuracy"] > 0.9 > before["matched_accuracy"]
    assert all(after[name] < before[name] / 2 for name in before if name.endswith("loss"))
    answers = glassformer.load(run, task="answer-image", overrides={"num_qa_labels": 2, "id2label": {0: "a", 1: "b"}})
    assert AnswerImage(answers).kind.names == ("a", "b")


def test_each_method_of_the_trainer(tmp_path: Path) -> None:
    folder, rows = lxmert(tmp_path / "lxmert"), read_rows(ROWS)
    task = PreTrainImage(glassformer.load(folder, task="pre-training"))
    examples = task.encode(rows, cache=tmp_path / "cache")
    options = TrainingOptions(epochs=2, batch_size=2, learning_rate=1e-2)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    names = {"loss", "masked_word_loss", "matched_loss", "region_loss", "matched_accuracy"}
    scores = trainer.validate()
    assert set(scores) == names
    assert scores["loss"] == pytest.approx(sum(scores[name] for name in names if name.endswith("_loss")))
    assert trainer.train_step().loss > 0
    trainer.train_epoch()
    assert trainer.state.step == 2 and len(list(trainer.predict(examples))) == 4
    assert_resumes(lambda: PreTrainImage(glassformer.load(folder, task="pre-training")), rows, tmp_path)


def test_what_is_drawn(tmp_path: Path) -> None:
    """Half of the texts are another row's; of hidden regions most are zero, some another's, some as they are."""
    task = PreTrainImage(glassformer.load(lxmert(tmp_path / "lxmert"), task="pre-training"), region_rate=0.3)
    draw = np.random.default_rng(0)
    features = draw.normal(size=(20, WIDTH)).astype(np.float32)
    regions = [{"features": features + place, "boxes": [[0, 0, 1, 1]] * 20} for place in range(2)]
    examples = task.encode(read_rows([{"text": text, **own} for text, own in zip(TEXTS, regions, strict=False)]))
    shown = [task.augment(examples[0], draw) for _ in range(400)]
    read: dict[int, set[str]] = {FITS: set(), DOES_NOT_FIT: set()}
    for x in shown:
        whole = np.where(x["labels"] < 0, x["input_ids"], x["labels"])
        read[x["matched"]].add(task.model.tokenizer.decode(whole.tolist(), skip_special_tokens=True))
    assert read == {FITS: {TEXTS[0]}, DOES_NOT_FIT: {TEXTS[1]}}
    assert np.mean([x["matched"] for x in shown]) == pytest.approx(0.5, abs=0.08)
    chosen = np.stack([x["chosen"] for x in shown]) > 0
    seen = np.stack([x["visual_feats"] for x in shown])
    same, zero = (seen == examples[0]["visual_feats"]).all(-1), (seen == 0).all(-1)
    assert same[~chosen].all() and chosen.mean() == pytest.approx(0.3, abs=0.02)
    assert zero[chosen].mean() == pytest.approx(0.8, abs=0.05) and same[chosen].mean() == pytest.approx(0.1, abs=0.05)


def test_what_is_refused(tmp_path: Path) -> None:
    folder = lxmert(tmp_path / "lxmert")
    task = PreTrainImage(glassformer.load(folder, task="pre-training"))
    with pytest.raises(DataError, match="there is one row; a text that does not fit"):
        task.encode(read_rows(ROWS[:1]))
    with pytest.raises(DataError, match=r"row 1.*'boxes' holds numbers from 0 to 9"):
        task.encode(read_rows([ROWS[0], {**ROWS[1], "boxes": [[0, 0, 9, 9]] * 3}]))
    with pytest.raises(DataError, match=r"row 1.*'text' is None"):
        task.encode(read_rows([ROWS[0], {**ROWS[1], "text": None}]))
    fewer = {name: ROWS[1][name][:2] for name in ("features", "boxes")}
    with pytest.raises(DataError, match=r"row 1.*the image has 2 regions, and the first one 3"):
        task.encode(read_rows([ROWS[0], {**ROWS[1], **fewer}]))
    with pytest.raises(ConfigError, match=r"region_rate is 1\.5"):
        PreTrainImage(task.model, region_rate=1.5)
    answers = glassformer.load(folder, task="visual-question-answering", overrides={"num_qa_labels": 3})
    with pytest.raises(ConfigError, match="load it with task='pre-training'"):
        PreTrainImage(answers)
