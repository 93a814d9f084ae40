"""LXMERT answers questions about images: the reference's loss, a run that overfits, regions in files."""

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
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder
from tests.tasks.resumed import assert_resumes

WIDTH = 6
ANSWERS = ["banana", "arrow", "time"]


def made_rows(count: int = 12) -> list[dict[str, Any]]:
    """Two or three regions; the answer is the kind of the first for one question, and of the last for the other."""
    draw, rows = np.random.default_rng(0), []
    for number in range(count):
        kinds = draw.integers(0, 3, 2 + number % 2)
        features = np.eye(WIDTH)[kinds] + 0.05 * draw.normal(size=(len(kinds), WIDTH))
        boxes = np.array([[place / 4, 0.1, place / 4 + 0.2, 0.9] for place in range(len(kinds))])
        question, answer = (("fruit flies", kinds[0]), ("an arrow like time", kinds[-1]))[number // 2 % 2]
        regions = {"features": features.round(3).tolist(), "boxes": boxes.round(3).tolist()}
        rows.append({"question": question, **regions, "answer": ANSWERS[answer]})
    return rows


ROWS = made_rows()
LABELS = {"num_qa_labels": 3, "id2label": {str(number): name for number, name in enumerate(sorted(ANSWERS))}}


def lxmert(folder: Path, **changes: Any) -> Path:
    still = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    return make_folder(folder, "lxmert", task="visual-question-answering", **{**still, **changes})


def perturbed(folder: Path) -> glassformer.Model:
    model = glassformer.load(folder, task="answer-image")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return glassformer.load(folder, task="answer-image")


def test_the_loss_and_its_gradients_are_the_references(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = lxmert(tmp_path / "lxmert", **LABELS)
    task, rows = AnswerImage(perturbed(folder)), read_rows(ROWS)
    reference = transformers.LxmertForQuestionAnswering.from_pretrained(folder).eval()
    examples = task.encode(rows)
    trainer = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples)
    trainer.network.eval()
    batch = task.collate(list(examples))
    given, keep = batch.batch, batch.flow.keep
    assert keep is not None and given.visual_keep is not None and not bool(given.visual_keep.all())
    theirs = reference(
        input_ids=given.input_ids,
        attention_mask=keep[:, 0].long(),
        visual_feats=given.visual_feats,
        visual_pos=given.visual_pos,
        visual_attention_mask=given.visual_keep[:, 0].long(),
        labels=batch.labels,
    ).loss
    theirs.backward()
    loss, _ = trainer.gradients.accumulate([batch])
    assert loss == pytest.approx(float(theirs.detach()), rel=1e-5)
    assert trainer.validate()["loss"] == pytest.approx(loss, rel=1e-5)
    for ours, name in (
        ("head.classifier.weight", "answer_head.logit_fc.3.weight"),
        ("vision.embed.features.weight", "lxmert.encoder.visn_fc.visn_fc.weight"),
    ):
        gradient = trainer.network.get_parameter(ours).grad
        torch.testing.assert_close(gradient, reference.get_parameter(name).grad, rtol=1e-4, atol=1e-6)


def test_from_a_file_to_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained by the command line until it knows each answer; the head of three answers is new."""
    folder, table, run = lxmert(tmp_path / "lxmert"), tmp_path / "questions.jsonl", tmp_path / "run"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    given = ("--task", "answer-image", "--model", folder, "--data", table, "--validation", table, "--output", run)
    given += ("--steps", "150", "--batch-size", "12", "--lr", "1e-2", "--set", "training.schedule=constant")
    given += ("--set", "training.validate_every=150", "--set", "training.save_every=150")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    assert report["metrics"]["accuracy"]["value"] == 1.0
    blind = report["baselines"]["bag of words"]["metrics"]["accuracy"]["value"]
    assert report["baselines"]["most frequent"]["metrics"]["accuracy"]["value"] <= blind < 1.0
    model = glassformer.load(run)
    assert model.config["num_qa_labels"] == 3 and model.config["id2label"] == LABELS["id2label"]
    assert all(x.correct for x in AnswerImage(model).predict(read_rows(ROWS)))
    done = run_here(capsys, "predict", "answer-image", run, table, "--json")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [x["results"][0]["answer"] for x in answers] == [row["answer"] for row in ROWS]
    done = run_here(capsys, "errors", run, "--json")
    assert json.loads(done.stdout)["label_kind"] == "classes"
    done = run_here(capsys, "evaluate", run, "--data", table, "--output", tmp_path / "again")
    assert done.returncode == 0, done.stderr


def test_each_method_of_the_trainer(tmp_path: Path) -> None:
    folder, rows = lxmert(tmp_path / "lxmert", **LABELS), read_rows(ROWS)
    task = AnswerImage(glassformer.load(folder, task="answer-image"))
    examples = task.encode(rows, cache=tmp_path / "cache")
    options = TrainingOptions(epochs=2, batch_size=6, learning_rate=1e-2)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    assert set(trainer.validate()) >= {"loss", "accuracy", "f1_macro"}
    assert trainer.train_step().loss > 0
    trainer.train_epoch()
    assert trainer.state.step == 2
    assert torch.stack(list(trainer.predict(examples))).shape == (12, 3)
    assert_resumes(lambda: AnswerImage(glassformer.load(folder, task="answer-image")), rows, tmp_path)


def test_predictions_are_the_same_at_any_batch_size(tmp_path: Path) -> None:
    task, rows = AnswerImage(perturbed(lxmert(tmp_path / "lxmert", **LABELS))), read_rows(ROWS)
    one, all_ = (list(task.for_evaluation(tokens=tokens).predict(rows)) for tokens in (1, 4_096))
    for a, b in zip(one, all_, strict=True):
        assert a.predicted == b.predicted and a.loss == pytest.approx(b.loss, abs=1e-5)
    examples = task.encode(rows)
    validated = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples).validate()
    assert task.metrics(one).values()["accuracy"] == pytest.approx(validated["accuracy"])


def test_the_pipeline_gives_the_answers_of_the_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = perturbed(lxmert(tmp_path / "lxmert", **LABELS))
    ask = glassformer.pipeline("visual-question-answering", model, top_k=None)
    expected = list(AnswerImage(model).predict(read_rows(ROWS)))
    answers = ask(ROWS)
    assert [x[0].answer for x in answers] == [x.predicted for x in expected]
    for found, row, x in zip(answers, ROWS, expected, strict=True):
        probability = next(each.score for each in found if each.answer == row["answer"])
        assert -np.log(probability) == pytest.approx(x.loss, abs=1e-5)
        assert sum(y.score for y in found) == pytest.approx(1)
    with pytest.raises(DataError, match=r"question 0: .* must be \{'question': 'a text'"):
        ask(["what colour ?"])
    for role in ("features", "boxes"):
        np.save(tmp_path / f"{role}.npy", np.array(ROWS[0][role]))
    given = (ROWS[0]["question"], tmp_path / "features.npy", tmp_path / "boxes.npy")
    done = run_here(capsys, "predict", "answer-image", tmp_path / "lxmert", *given)
    assert done.returncode == 0 and expected[0].predicted in done.stdout.splitlines()[1], done.stderr
    table = tmp_path / "questions.jsonl"
    table.write_text(json.dumps({"question": ROWS[0]["question"], "features": "features.npy", "boxes": "boxes.npy"}))
    again = run_here(capsys, "predict", "answer-image", tmp_path / "lxmert", table)
    assert again.stdout == done.stdout, "paths of a table are relative to it"
    done = run_here(capsys, "predict", "answer-image", tmp_path / "lxmert", *given[:2], tmp_path / "missing.npy")
    assert done.returncode == 2 and "missing.npy: no such file" in done.stderr


def test_regions_in_files(tmp_path: Path) -> None:
    row = ROWS[1]
    np.save(tmp_path / "features.npy", np.asfortranarray(np.array(row["features"])))
    np.save(tmp_path / "boxes.npy", np.array(row["boxes"], dtype=np.float16))
    table = tmp_path / "questions.jsonl"
    table.write_text(json.dumps({**row, "features": "features.npy", "boxes": "boxes.npy"}) + "\n")
    task = AnswerImage(glassformer.load(lxmert(tmp_path / "lxmert", **LABELS), task="answer-image"))
    (ours,), (plain,) = task.encode(read_rows(table)), task.encode(read_rows([row]))
    assert np.array_equal(ours["visual_feats"], plain["visual_feats"])
    assert ours["visual_pos"] == pytest.approx(plain["visual_pos"], abs=1e-3)
    huge = (
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 6), }".ljust(127)
        + b"\n"
    )
    for content in (b"", b"no array", huge, (tmp_path / "boxes.npy").read_bytes()[:-3]):
        (tmp_path / "boxes.npy").write_bytes(content)
        with pytest.raises(DataError, match=r"questions\.jsonl: line 1: .*boxes\.npy: is no NumPy file of numbers"):
            task.encode(read_rows(table))
    np.save(tmp_path / "boxes.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="it holds objects"):
        task.encode(read_rows(table))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": [[0.0] * 5] * 2}, r"'features' is .*of shape \[2, 5\]; it must be finite numbers \[regions, 6\]"),
        ({"features": [[0.0] * 6, [1.0] * 5]}, r"it must be finite numbers \[regions, 6\]"),
        ({"features": [[float("nan")] * 6] * 2}, "it must be finite numbers"),
        ({"features": []}, "it must be finite numbers"),
        ({"features": None}, "it must be finite numbers"),
        ({"features": "none.npy"}, r"none\.npy"),
        ({"boxes": [[0, 0, 1, 1]]}, "there are 2 regions with features, and 1 with boxes"),
        ({"boxes": [[0, 0, 640, 480]] * 2}, "'boxes' holds numbers from 0 to 640; allowed: 0 to 1"),
        ({"question": 3}, "'question' is 3; it must be a text"),
        ({"question": ""}, "the question '' has no token"),
        ({"answer": "fruit"}, "fruit"),
        ({"answer": None}, "the label is empty"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    task = AnswerImage(glassformer.load(lxmert(tmp_path / "lxmert", **LABELS), task="answer-image"))
    with pytest.raises(DataError, match=rf"row 0.*{message}"):
        task.encode(read_rows([{**ROWS[0], **given}]))


def test_other_models_and_unnamed_answers(tmp_path: Path) -> None:
    bert = glassformer.load(make_folder(tmp_path / "bert", "bert", task="text-classification"))
    with pytest.raises(ConfigError, match="load it with task='visual-question-answering'"):
        AnswerImage(bert)
    task = AnswerImage(glassformer.load(lxmert(tmp_path / "lxmert"), task="answer-image"))
    assert task.kind.names == tuple(f"LABEL_{number}" for number in range(7))
    with pytest.warns(UserWarning, match="6 of 12 questions were cut to 3 tokens"):
        AnswerImage(glassformer.load(lxmert(tmp_path / "named", **LABELS), task="answer-image"), max_tokens=3).encode(
            read_rows(ROWS)
        )
