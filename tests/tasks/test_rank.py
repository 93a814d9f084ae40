"""Cross-encoders: sentence-transformers' losses and gradients, a run that overfits, folders, and bad rows."""

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
from glassformer.evaluation.evaluate import evaluate
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.rank import Rank
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder

TEXTS = ["time", "time flies", "flies like", "like an arrow", "time flies an arrow", "fruit", "a fruit", "a banana"]
NUMBERS = [0.1, 0.9, 0.5, 0.5, 0.0, 1.0, 0.3, 0.7]
ROWS = [
    {"text": text, "text_pair": TEXTS[(i + 3) % 8], "label": number}
    for i, (text, number) in enumerate(zip(TEXTS, NUMBERS, strict=True))
]
BINARY = [{**row, "label": i % 2} for i, row in enumerate(ROWS)]
ONE: dict[str, Any] = {"num_labels": 1, "id2label": {"0": "label"}, "label2id": {"label": 0}}
PROBLEM = {"bce": "multi_label_classification", "mse": "regression"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT with perturbed weights and one output."""
    path = make_folder(tmp_path / "bert", "bert", task="text-classification", **ONE)
    model = glassformer.load(path)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(path)
    return path


def task_of(folder: Path, loss: str = "bce", **options: Any) -> Rank:
    return Rank(glassformer.load(folder, task="rank", overrides={"problem_type": PROBLEM[loss]}), **options)


def trainer_of(task: Rank, rows: Any, **options: Any) -> Trainer:
    examples = task.encode(read_rows(rows))
    given = TrainingOptions(**{"steps": 3, "batch_size": 8, "learning_rate": 1e-3, **options})
    return Trainer(task.model, task, given, train=examples, validation=examples)


@pytest.mark.parametrize(("loss", "name"), [("bce", "BinaryCrossEntropyLoss"), ("mse", "MSELoss")])
def test_loss_and_gradients_are_those_of_sentence_transformers(folder: Path, loss: str, name: str) -> None:
    st = pytest.importorskip("sentence_transformers")
    trainer = trainer_of(task_of(folder, loss), ROWS)
    trainer.network.eval()
    batches, ours, _ = trainer.gradients.of_step(trainer.state, lambda *_, **__: None)
    assert batches[0].flow.packing is not None
    theirs = st.CrossEncoder(str(folder), device="cpu").eval()
    sides = [[row["text"] for row in ROWS], [row["text_pair"] for row in ROWS]]
    expected = getattr(st.cross_encoder.losses, name)(theirs)(sides, torch.tensor(NUMBERS))
    expected.backward()
    assert ours == pytest.approx(float(expected.detach()), rel=1e-6, abs=1e-6)
    reference = dict(theirs[0].auto_model.named_parameters())
    for mine, its in {
        "head.classifier.weight": "classifier.weight",
        "head.pooler.dense.weight": "bert.pooler.dense.weight",
        "blocks.0.ffn.up.weight": "bert.encoder.layer.0.intermediate.dense.weight",
        "embed.tokens.weight": "bert.embeddings.word_embeddings.weight",
    }.items():
        gradient = trainer.network.get_parameter(mine).grad
        torch.testing.assert_close(gradient, reference[its].grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("loss", "rows"), [("bce", BINARY), ("bce", ROWS), ("mse", ROWS)])
def test_validation_has_the_scores_of_the_report(folder: Path, loss: str, rows: list[dict[str, Any]]) -> None:
    task = task_of(folder, loss)
    validated = trainer_of(task, rows, batch_size=3).validate()
    evaluation = evaluate("rank", task.for_evaluation(), read_rows(rows), resamples=10)
    names = {"spearman", "pearson", *(["average_precision"] if rows is BINARY else [])}
    assert set(evaluation.report.metrics) == names
    for name, score in evaluation.report.metrics.items():
        assert validated[name] == pytest.approx(score.value, abs=1e-6)
    assert validated["loss"] == pytest.approx(np.mean([x.loss for x in evaluation.predictions]), rel=1e-5)
    scores = task.model.score(
        [(row["text"], row["text_pair"]) for row in rows], activation=None if loss == "bce" else "none"
    )
    np.testing.assert_allclose([x.predicted for x in evaluation.predictions], scores, atol=1e-6)


def test_from_a_table_to_a_ranking(tmp_path: Path, minilm_free: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained by the command line from a body without a head; the folder ranks, in sentence-transformers too."""
    st = pytest.importorskip("sentence_transformers")
    data, run = tmp_path / "rows.jsonl", tmp_path / "run"
    data.write_text("".join(json.dumps({**row, "label": 5 * row["label"]}) + "\n" for row in BINARY), "utf-8")
    given = ("--task", "text-ranking", "--model", minilm_free, "--data", data, "--validation", data, "--output", run)
    given += ("--batch-size", "8", "--lr", "1e-2", "--steps", "120", "--set", "training.schedule=constant")
    given += ("--set", "task_options.score_range=[0,5]", "--set", "training.validate_every=120")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    assert report["metrics"]["average_precision"]["value"] > 0.95
    assert report["baselines"]["word overlap"]["metrics"]["average_precision"]["value"] < 0.95
    model = glassformer.load(run)
    pairs = [(row["text"], row["text_pair"]) for row in BINARY]
    theirs = st.CrossEncoder(str(run / "model"), device="cpu").predict(pairs)
    np.testing.assert_allclose(model.score(pairs), theirs, atol=1e-5)
    assert model.rank(TEXTS[1], [TEXTS[4], TEXTS[0]])[0]["score"] > 0.5


@pytest.fixture
def minilm_free(tmp_path: Path) -> Path:
    """A body without a head."""
    return make_folder(tmp_path / "body", "bert", task="feature-extraction")


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a", "text_pair": "b"}], {}, "there is no column 'label'"),
        ([{**ROWS[0], "label": "high"}], {}, "row 0: the label is 'high'; it must be a number"),
        ([{**ROWS[0], "label": 4.75}], {}, r"the label is 4.75; binary cross-entropy .*score_range=\[0,5\]"),
        ([{**ROWS[0], "label": 6}], {"score_range": [0, 5]}, "the label is 6; by score_range it is from 0 to 5"),
        ([{**ROWS[0], "text": 3}], {}, "row 0: 'text' is 3; it must be a text"),
    ],
)
def test_a_bad_row_is_named(folder: Path, rows: list[dict[str, Any]], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        task_of(folder, **options).encode(read_rows(rows))


def test_what_nothing_can_be_learned_from(folder: Path) -> None:
    given: dict[str, Any] = {"config": {}, "own": False, "columns": None}
    with pytest.raises(DataError, match="every row of 'label' has the label 1; there is nothing to tell apart"):
        Rank.head_config(read_rows([{**row, "label": 1} for row in ROWS]), **given, options={})
    with pytest.raises(ConfigError, match="loss is 'hinge'"):
        Rank.head_config(read_rows(ROWS), **given, options={"loss": "hinge"})
    with pytest.raises(ConfigError, match="the lowest and the highest score"):
        Rank.head_config(read_rows(ROWS), **given, options={"score_range": [5, 0]})


def test_heads_of_other_shapes_are_refused(folder: Path, tmp_path: Path) -> None:
    two = make_folder(tmp_path / "two", "bert", task="text-classification")
    with pytest.raises(ConfigError, match="a cross-encoder has one output, this head 2"):
        Rank(glassformer.load(two, task="rank"))
    with pytest.raises(ConfigError, match="loss is 'mse', and the model's problem_type is that of 'bce'"):
        Rank(glassformer.load(folder, task="rank", overrides={"problem_type": PROBLEM["bce"]}), loss="mse")
