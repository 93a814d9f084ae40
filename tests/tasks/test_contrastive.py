"""CLIP's contrastive task: the reference's loss and gradients, a run from the command line that overfits, retrieval."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.evaluation.evaluate import evaluate
from glassformer.explorer.report_server import ReportServer, one_page
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.contrastive import Contrastive
from glassformer.tasks.metrics.ranking import rank_pairs
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder
from tests.tasks.resumed import assert_resumes

TEXTS = ["time", "time flies", "flies like", "like an", "time flies an arrow", "fruit", "a", "a banana"]


def pair_table(folder: Path) -> Path:
    """Eight images of one colour each, and their texts."""
    image = pytest.importorskip("PIL.Image")
    with (folder / "pairs.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "text"])
        for number, text in enumerate(TEXTS):
            colour = [255 * (number >> bit & 1) for bit in range(3)]
            image.fromarray(np.full((10, 10, 3), colour, dtype=np.uint8)).save(folder / f"{number}.png")
            table.writerow([f"{number}.png", text])
    return folder / "pairs.csv"


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "clip", "clip", task="zero-shot-image-classification")


def perturbed(folder: Path) -> glassformer.Model:
    model = glassformer.load(folder, task="contrastive")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return glassformer.load(folder, task="contrastive")


def trainer_of(task: Contrastive, rows: Any, **options: Any) -> Trainer:
    examples = task.encode(rows)
    given = TrainingOptions(**{"steps": 3, "batch_size": 8, "learning_rate": 1e-3, **options})
    return Trainer(task.model, task, given, train=examples, validation=examples)


def test_the_loss_and_its_gradients_are_the_references(clip: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = perturbed(clip)
    reference = transformers.CLIPModel.from_pretrained(clip).eval()
    task, rows = Contrastive(model), read_rows(pair_table(tmp_path))
    trainer = trainer_of(task, rows)
    trainer.network.eval()
    batch = task.collate([task.encode(rows)[i] for i in range(len(rows))])
    assert batch.flow.keep is not None and not bool(batch.flow.keep.all())  # texts of unequal length
    given = {"input_ids": batch.batch.input_ids, "pixel_values": batch.batch.pixel_values, "return_loss": True}
    theirs = reference(**given, attention_mask=batch.flow.keep[:, 0].long()).loss
    theirs.backward()
    loss, _ = trainer.gradients.accumulate([batch])
    assert loss == pytest.approx(float(theirs.detach()), rel=1e-5)
    assert loss == pytest.approx(trainer.validate()["loss"], rel=1e-5)
    for ours, name in (("head.scale", "logit_scale"), ("head.text.weight", "text_projection.weight")):
        torch.testing.assert_close(
            trainer.network.get_parameter(ours).grad, reference.get_parameter(name).grad, rtol=1e-4, atol=1e-6
        )


def test_from_a_table_to_a_report(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained by the command line until each image finds its text and each text its image."""
    table, run = pair_table(tmp_path), tmp_path / "run"
    given = ("--task", "contrastive", "--model", clip, "--data", table, "--validation", table)
    given += ("--batch-size", "8", "--lr", "1e-2", "--set", "training.schedule=constant")
    given += ("--set", "training.validate_every=150", "--set", "training.save_every=150")
    done = run_here(capsys, "train", *given, "--output", run, "--steps", "150")
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    metrics = {name: score["value"] for name, score in report["metrics"].items()}
    assert metrics["image_to_text_recall@1"] == metrics["text_to_image_recall@1"] == 1.0
    assert report["baselines"]["random"]["metrics"]["image_to_text_recall@1"]["value"] < 0.6
    done = run_here(capsys, "errors", run, "--json")
    assert done.returncode == 0, done.stderr
    listing = json.loads(done.stdout)
    assert listing["label_kind"] == "texts" and listing["confusion"] is None  # texts are no classes
    done = run_here(capsys, "evaluate", run, "--data", table, "--output", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    best = glassformer.pipeline("zero-shot-image-classification", glassformer.load(run))
    for number, text in enumerate(TEXTS):
        (first, *_) = best(str(tmp_path / f"{number}.png"), candidate_labels=TEXTS, hypothesis_template="{}")
        assert first.label == text


def test_a_resumed_run_has_the_weights_of_one_that_was_not_stopped(clip: Path, tmp_path: Path) -> None:
    rows = read_rows(pair_table(tmp_path))
    assert_resumes(lambda: Contrastive(glassformer.load(clip, task="contrastive")), rows, tmp_path)


def test_ranks_by_hand() -> None:
    """Two rows of one image have two right texts; a text that two images share is one candidate."""
    eye = torch.eye(3)
    images, texts = torch.stack([eye[0], eye[0], eye[1], eye[2]]), torch.stack([eye[1], eye[0], eye[1], eye[0]])
    ranked = rank_pairs(images, ["a", "a", "b", "c"], texts, ["t", "u", "t", "u"], 1.0)
    assert {key: each.rank for key, each in ranked.items()} == {"a": 1, "b": 1, "c": 2}  # "t" ties with "u" for c
    e = float(np.e)
    assert ranked["a"].losses == pytest.approx({"t": np.log(e + 1), "u": np.log(e + 1) - 1}, abs=1e-6)
    assert list(ranked["a"].probabilities) == ["u", "t"]


def test_images_that_are_bytes_are_told_apart_and_their_errors_are_served(clip: Path, tmp_path: Path) -> None:
    model, table = perturbed(clip), pair_table(tmp_path)
    task = Contrastive(model)
    rows = [{"file": {"bytes": (tmp_path / f"{n}.png").read_bytes()}, "text": text} for n, text in enumerate(TEXTS)]
    found, of_files = evaluate("contrastive", task, read_rows(rows)), list(task.predict(read_rows(table)))
    assert [x.details["ranks"] for x in found.predictions] == [x.details["ranks"] for x in of_files]
    assert [x.row for x in found.predictions] == [{"text": text} for text in TEXTS]
    bare = [replace(x, row={}) for x in found.predictions]
    assert {tuple(row.look) for row in EvaluatedRows(found.report, bare).browser().rows} == {()}
    with ReportServer(one_page([]), explored=lambda name: (model.session_factory(), [])) as served:
        key = {"Authorization": f"Bearer {served.url.partition('token=')[2]}"}
        with urlopen(Request(f"{served.address}api/look/clip//openapi.json", headers=key)) as answer:
            assert answer.status == 200, "the explorer opens without a text"


def test_predictions_are_the_same_at_any_batch_size(clip: Path, tmp_path: Path) -> None:
    task, rows = Contrastive(perturbed(clip)), read_rows(pair_table(tmp_path))
    one, all_ = (list(task.for_evaluation(tokens=tokens).predict(rows)) for tokens in (1, 4_096))
    for a, b in zip(one, all_, strict=True):
        assert (a.predicted, a.details["ranks"]) == (b.predicted, b.details["ranks"])
        assert a.loss == pytest.approx(b.loss, abs=1e-5)


def test_what_is_refused(clip: Path, tmp_path: Path) -> None:
    task, rows = Contrastive(glassformer.load(clip, task="contrastive")), read_rows(pair_table(tmp_path))
    first = str(tmp_path / "0.png")
    with pytest.raises(DataError, match=r"row 0.*there is no column 'text'"):
        task.encode(read_rows([{"file": first}]))
    with pytest.raises(DataError, match=r"row 0.*none\.png"):
        task.encode(read_rows([{"file": str(tmp_path / "none.png"), "text": "time"}]))
    with pytest.raises(DataError, match=r"row 0.*'text' is 3; it must be a text"):
        task.encode(read_rows([{"file": first, "text": 3}]))
    with pytest.warns(UserWarning, match="1 of 8 texts were cut to 3 tokens"):
        Contrastive(task.model, max_tokens=3).encode(rows)
    task.network.text.end = 17
    with pytest.raises(DataError, match=r"pairs\.csv.*no end token \(eos_token_id 17"):
        task.encode(rows)
    bert = glassformer.load(make_folder(tmp_path / "bert", "bert", task="text-classification"))
    with pytest.raises(ConfigError, match="load it with task='zero-shot-image-classification'"):
        Contrastive(bert)


def test_a_task_that_lets_its_batches_be_cut_is_refused(clip: Path, tmp_path: Path) -> None:
    class Cut(Contrastive):
        WHOLE_BATCH = False

    task = Cut(glassformer.load(clip, task="contrastive"))
    with pytest.raises(ConfigError, match="ContrastiveHead compares all examples of a batch, and Cut lets"):
        trainer_of(task, read_rows(pair_table(tmp_path)))


def test_a_batch_has_no_limit_of_tokens_unless_one_is_set(clip: Path, tmp_path: Path) -> None:
    """The default of other tasks, which cut a batch there, would refuse a batch of 32 images of 224 pixels."""
    task, rows = Contrastive(glassformer.load(clip, task="contrastive")), read_rows(pair_table(tmp_path))
    trainer_of(task, rows).validate()
    task.length = lambda example: 100_000  # type: ignore[method-assign]
    trainer = trainer_of(task, rows)
    assert trainer.validate()["loss"] > 0 and trainer.train_step().loss > 0
    with pytest.raises(ConfigError, match="a batch of 8 examples has 800,000 tokens"):
        trainer_of(task, rows, micro_batch_tokens=9_000).validate()
