"""Sentence encoders: sentence-transformers' losses and gradients, gradient caching, folders, reports, and bad rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.evaluate import evaluate
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.embed import Embed, text_key
from glassformer.tasks.embedding_baselines import BM25
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder
from tests.tasks.resumed import assert_resumes

TEXTS = ["time", "time flies", "flies like", "like an arrow", "time flies an arrow", "fruit", "a fruit", "a banana"]
PAIRS = [{"text": text, "text_pair": f"{TEXTS[(i + 3) % 8]} an"} for i, text in enumerate(TEXTS)]
SCORED = [{**row, "label": number} for row, number in zip(PAIRS, [0.1, 0.9, 0.5, 0.5, 0.0, 1.0, 0.3, 0.7], strict=True)]
BINARY = [{**row, "label": i % 2} for i, row in enumerate(PAIRS)]
TRIPLES = [{**row, "negative": f"{TEXTS[(i + 5) % 8]} ."} for i, row in enumerate(PAIRS)]
MARGINS = [{**row, "label": number["label"] - 0.4} for row, number in zip(TRIPLES, SCORED, strict=True)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT with perturbed weights, whose folder says nothing of pooling."""
    path = make_folder(tmp_path / "bert", "bert", task="feature-extraction")
    model = glassformer.load(path)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(path)
    return path


def trainer_of(task: Embed, rows: Any, **options: Any) -> Trainer:
    examples = task.encode(read_rows(rows))
    given = TrainingOptions(**{"steps": 3, "batch_size": 8, "learning_rate": 1e-3, **options})
    return Trainer(task.model, task, given, train=examples, validation=examples)


def gradients_of(trainer: Trainer) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of the first step, and the gradient of each weight, without dropout."""
    trainer.network.eval()
    trainer.network.zero_grad(set_to_none=True)
    _, loss, _ = trainer.gradients.of_step(trainer.state, lambda *_, **__: None)
    named = trainer.network.named_parameters()
    return loss, {name: x.grad.clone() for name, x in named if x.grad is not None}


# ------------------------------------------------------------------------------------ sentence-transformers' losses

LOSSES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str, dict[str, Any]]] = {
    "multiple-negatives-ranking": (PAIRS, {}, "MultipleNegativesRankingLoss", {}),
    "multiple-negatives-ranking, with negatives": (
        TRIPLES,
        {"scale": 7.0},
        "MultipleNegativesRankingLoss",
        {"scale": 7},
    ),
    "triplet": (TRIPLES, {"margin": 0.2}, "TripletLoss", {"distance_metric": "COSINE", "triplet_margin": 0.2}),
    "triplet, by distance": (
        TRIPLES,
        {"similarity": "euclidean"},
        "TripletLoss",
        {"distance_metric": "EUCLIDEAN", "triplet_margin": 5},
    ),
    "margin-mse": (MARGINS, {"similarity": "dot"}, "MarginMSELoss", {}),
    "cosine": (SCORED, {}, "CosineSimilarityLoss", {}),
    "cosent": (SCORED, {}, "CoSENTLoss", {}),
    "contrastive": (BINARY, {}, "ContrastiveLoss", {}),
}


@pytest.mark.parametrize("case", LOSSES)
@pytest.mark.parametrize("dimensions", [(), (8, 3)])
def test_loss_and_gradients_are_those_of_sentence_transformers(folder: Path, case: str, dimensions: tuple[int]) -> None:
    st = pytest.importorskip("sentence_transformers")
    rows, options, name, given = LOSSES[case]
    losses = st.sentence_transformer.losses
    if metric := given.get("distance_metric"):
        given = {**given, "distance_metric": getattr(losses.TripletDistanceMetric, metric)}
    task = Embed(glassformer.load(folder), loss=case.split(",")[0], dimensions=dimensions, **options)
    trainer = trainer_of(task, rows, shuffle=False)
    loss, gradients = gradients_of(trainer)
    task.model.save_pretrained(folder / "st")
    theirs = st.SentenceTransformer(str(folder / "st"), device="cpu").eval()
    criterion = getattr(losses, name)(theirs, **given)
    if dimensions:
        criterion = losses.MatryoshkaLoss(theirs, criterion, list(dimensions))
    features = [theirs.preprocess([row[role] for row in rows]) for role in rows[0] if role != "label"]
    labels = torch.tensor([row.get("label", 0.0) for row in rows])
    expected = criterion(features, labels)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6, abs=1e-6)
    reference = dict(theirs[0].auto_model.named_parameters())
    for ours, its in {
        "embed.tokens.weight": "embeddings.word_embeddings.weight",
        "blocks.0.ffn.up.weight": "encoder.layer.0.intermediate.dense.weight",
        "blocks.0.attn.out.weight": "encoder.layer.0.attention.output.dense.weight",
    }.items():
        torch.testing.assert_close(gradients[ours], reference[its].grad, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------ gradient caching


class Saved:
    """What the backward pass keeps: its bytes now, and at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def pack(self, x: torch.Tensor) -> Any:
        saved = self

        class Kept:
            tensor = x

            def __init__(self) -> None:
                saved.now += x.nbytes
                saved.most = max(saved.most, saved.now)

            def __del__(self) -> None:
                saved.now -= x.nbytes

        return Kept()

    def hooks(self) -> Any:
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda kept: kept.tensor)


@pytest.mark.parametrize("loss", ["multiple-negatives-ranking", "cosent"])
@pytest.mark.parametrize("dimensions", [(), (8, 3)])
def test_a_batch_in_parts_has_the_gradient_of_the_whole_one(folder: Path, loss: str, dimensions: tuple[int]) -> None:
    def step(**options: Any) -> tuple[Trainer, float, dict[str, torch.Tensor], int]:
        rows = [dict(row, text=row["text"] + " time" * (i // 8)) for i, row in enumerate(8 * SCORED)]
        rows = rows if loss == "cosent" else [{name: row[name] for name in ("text", "text_pair")} for row in rows]
        task = Embed(glassformer.load(folder, dtype="float64"), loss=loss, dimensions=dimensions)
        trainer, saved = trainer_of(task, rows, batch_size=64, **options), Saved()
        with saved.hooks():
            return trainer, *gradients_of(trainer), saved.most

    _, loss_of_whole, whole, most_of_whole = step()
    trainer, loss_of_parts, parts, most_of_parts = step(micro_batch_tokens=40)
    batches = trainer.gradients.batch_loader.micro_batches(0, 0, 40, None)
    assert len(batches) > 15 and sum(len(batch.indices) for batch in batches) == 64
    assert loss_of_parts == pytest.approx(loss_of_whole, rel=1e-10)
    assert whole.keys() == parts.keys()
    for name, x in whole.items():
        torch.testing.assert_close(parts[name], x, rtol=1e-10, atol=1e-10)
    assert most_of_parts < most_of_whole / (3 if dimensions else 4)  # similarities of each size are of the whole batch


def test_parts_draw_the_dropout_of_the_first_pass(folder: Path) -> None:
    """A gradient of another dropout than that of the loss is none of it: compared with finite differences."""
    model = glassformer.load(folder, overrides={"hidden_dropout_prob": 0.3}, dtype="float64")
    trainer = trainer_of(Embed(model), PAIRS, micro_batch_tokens=12)

    def loss() -> float:
        torch.manual_seed(7)
        trainer.network.train()
        trainer.network.zero_grad()
        return trainer.gradients.accumulate(trainer.gradients.batch_loader.micro_batches(0, 0, 12, None))[0]

    trainer.network.double()
    loss()
    weight = trainer.network.get_parameter("blocks.0.attn.out.weight")
    assert weight.grad is not None
    gradient, place = float(weight.grad.abs().max()), int(weight.grad.abs().argmax())
    sides = []
    for shift in (1e-2, -2e-2):
        weight.data.view(-1)[place] += shift
        sides.append(loss())
    assert gradient > 1e-2
    assert abs(sides[0] - sides[1]) / 2e-2 == pytest.approx(gradient, rel=2e-2)


def test_micro_batch_size_is_how_many_pairs_are_compared(folder: Path) -> None:
    """Two batches of four, each in parts: their losses are those of two batches of four."""
    losses = []
    for size, tokens in ((None, None), (4, None), (4, 8)):
        task = Embed(glassformer.load(folder))
        losses.append(gradients_of(trainer_of(task, PAIRS, micro_batch_size=size, micro_batch_tokens=tokens))[0])
    assert losses[1] == pytest.approx(losses[2], rel=1e-6)
    assert losses[0] > losses[1] + 0.1  # more candidates


# --------------------------------------------------------------------------------------------------- false negatives


def test_duplicates_are_no_negatives(folder: Path) -> None:
    """Equal anchors have two right texts, equal right texts are one: the loss is that of the batch without them."""
    rows = [
        {"text": "time", "text_pair": "a fruit"},
        {"text": "time", "text_pair": "a banana"},  # no negative of the row above, nor that of this one
        {"text": "flies", "text_pair": "a fruit"},  # the same text again
        {"text": "like", "text_pair": "an arrow"},
    ]
    task = Embed(glassformer.load(folder))
    loss, _ = gradients_of(trainer_of(task, rows, shuffle=False))
    vectors = {text: task.model.encode(text, normalize_embeddings=True) for row in rows for text in row.values()}
    among = [["a fruit", "an arrow"], ["a banana", "an arrow"], ["a fruit", "a banana", "an arrow"]]
    among.append(["an arrow", "a fruit", "a banana", "a fruit"])  # of another anchor it counts as often as it is there
    expected = 0.0
    for row, texts in zip(rows, among, strict=True):
        scores = np.array([20 * vectors[row["text"]] @ vectors[text] for text in texts])
        expected += np.log(np.exp(scores).sum()) - scores[0]
    assert loss == pytest.approx(expected / 4, rel=1e-5)


# ---------------------------------------------------------------------------------------- folders, prompts, pooling


def test_the_trained_folder_gives_equal_vectors_in_sentence_transformers(folder: Path, tmp_path: Path) -> None:
    st = pytest.importorskip("sentence_transformers")
    prompts = {"query": "time ", "document": "a "}
    task = Embed(glassformer.load(folder), pooling="cls", normalise=True, prompts=prompts, max_tokens=5)
    trainer_of(task, PAIRS, learning_rate=1e-2).train()
    task.model.save_pretrained(tmp_path / "out")
    theirs, ours = st.SentenceTransformer(str(tmp_path / "out"), device="cpu"), glassformer.load(tmp_path / "out")
    assert theirs.get_max_seq_length() == 5 and theirs.prompts["query"] == "time "
    for name in ("encode", "encode_query", "encode_document"):
        with pytest.warns(UserWarning, match="cut to 5 tokens"):
            vectors = getattr(ours, name)(TEXTS)
        np.testing.assert_allclose(vectors, getattr(theirs, name)(TEXTS), atol=1e-6)
        with pytest.warns(UserWarning, match="cut to 5 tokens"):
            np.testing.assert_allclose(vectors, getattr(task.model, name)(TEXTS), atol=1e-6)
    assert not np.allclose(ours.encode_query("fruit"), glassformer.load(folder).encode("fruit"), atol=1e-2)


def test_texts_are_trained_with_their_prompts(folder: Path) -> None:
    """The query's prompt for the first text of a row, the document's for the others; of pairs none but the default."""
    rows = read_rows([{**TRIPLES[0], "label": 0.5}])
    prompts = {"query": "time ", "document": "a "}
    searched = Embed(glassformer.load(folder), loss="triplet", prompts=prompts)
    example = searched.encode(rows)[0]
    ids = searched.model.tokenizer.batch_ids([f"time {TRIPLES[0]['text']}", f"a {TRIPLES[0]['text_pair']}"], None)[0]
    assert example["input_ids"][: sum(map(len, ids))].tolist() == [*ids[0], *ids[1]]
    assert example["keys"][0] == text_key(np.array(ids[0], dtype=np.int32))
    paired = Embed(glassformer.load(folder), loss="cosine", prompts=prompts)
    assert paired.encode(rows)[0]["documents"].tolist() == [len(ids[0]) - 1, len(ids[1]) - 1]


# ------------------------------------------------------------------------------------------------- runs and reports


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("loss", "rows", "metric", "baseline"),
    [
        ("multiple-negatives-ranking", PAIRS, "recall@1", "BM25"),
        ("cosine", SCORED, "spearman", "word overlap"),
        ("contrastive", BINARY, "average_precision", "word overlap"),
    ],
)
def test_from_a_table_to_a_report(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    loss: str,
    rows: list[dict[str, Any]],
    metric: str,
    baseline: str,
) -> None:
    """Trained by the command line until it fits eight rows; the report has the model before training next to it."""
    data, run = table(tmp_path / "rows.jsonl", rows), tmp_path / "run"
    given = ("--task", "embed", "--model", folder, "--data", data, "--validation", data, "--output", run)
    given += ("--set", f"task_options.loss={loss}", "--batch-size", "8", "--lr", "1e-2", "--steps", "150")
    given += ("--set", "training.schedule=constant", "--set", "training.validate_every=150")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    value = report["metrics"][metric]["value"]
    assert value > 0.95 and report["metrics"][metric]["low"] <= value
    before = report["baselines"]["before training"]["metrics"][metric]["value"]
    assert before < value and baseline in report["baselines"]
    done = run_here(capsys, "errors", run, "--json")
    assert done.returncode == 0, done.stderr
    model = glassformer.load(run)
    assert model.encode(["time"]).shape == (1, model.network.width) and (run / "model" / "modules.json").is_file()


def test_the_model_before_training_has_the_layers_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = make_folder(tmp_path / "two", "bert", task="feature-extraction", num_hidden_layers=2)
    data, run = table(tmp_path / "rows.jsonl", SCORED), tmp_path / "run"
    given = ("--task", "embed", "--model", two, "--data", data, "--validation", data, "--output", run, "--steps", "1")
    given += ("--set", "task_options.loss=cosine", "--set", "overrides.num_hidden_layers=1")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    before = report["baselines"]["before training"]["metrics"]["mse"]["value"]
    for layers in (1, 2):
        model = glassformer.load(two, overrides={"num_hidden_layers": layers})
        task = Embed(model, loss="cosine")
        error = task.metrics(list(task.predict(read_rows(SCORED)))).values()["mse"]
        assert (before == pytest.approx(error, abs=1e-6)) == (layers == 1)


@pytest.mark.parametrize(("loss", "rows"), [("triplet", TRIPLES), ("margin-mse", MARGINS), ("cosent", SCORED)])
def test_other_losses_fall(folder: Path, loss: str, rows: list[dict[str, Any]]) -> None:
    trainer = trainer_of(Embed(glassformer.load(folder), loss=loss), rows, steps=60, learning_rate=1e-2)
    before = trainer.validate()["loss"]
    trainer.train()
    assert trainer.validate()["loss"] < before / 2


def test_validation_has_the_scores_of_the_report(folder: Path) -> None:
    for loss, rows in {
        "multiple-negatives-ranking": PAIRS + PAIRS[:2],
        "triplet": TRIPLES,
        "cosent": SCORED,
        "contrastive": BINARY,
    }.items():
        task, given = Embed(glassformer.load(folder), loss=loss), read_rows(rows)
        validated = trainer_of(task, rows, batch_size=3).validate()
        report = evaluate("embed", task.for_evaluation(), given, resamples=10).report
        for name in report.metrics:
            assert validated[name] == pytest.approx(report.metrics[name].value, abs=1e-6), (loss, name)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_ranks_are_those_of_the_similarity(folder: Path, similarity: str) -> None:
    task = Embed(glassformer.load(folder), similarity=similarity)
    found = list(task.predict(read_rows(PAIRS)))
    vectors = [task.model.encode([row[side] for row in PAIRS]) for side in ("text", "text_pair")]
    scores = task.model.similarity(*vectors).numpy()
    assert [x.details["rank"] for x in found] == [int((row >= row[i] - 1e-6).sum()) for i, row in enumerate(scores)]


def test_a_resumed_run_has_the_weights_of_one_that_was_not_stopped(folder: Path, tmp_path: Path) -> None:
    assert_resumes(lambda: Embed(glassformer.load(folder)), read_rows(PAIRS), tmp_path)


def test_bm25_by_hand() -> None:
    """A word in one of two texts: its weight by the formula, with the mean length of 1.5 words."""
    scores = BM25(["a banana", "fruit"]).scores("banana banana flies")
    norm = 1.2 * (0.25 + 0.75 * 2 / 1.5)
    assert scores.tolist() == pytest.approx([2 * np.log(1 + 1.5 / 1.5) * 2.2 / (1 + norm), 0])


# ---------------------------------------------------------------------------------------------------- distillation


def test_a_teacher_scores_pairs(folder: Path, tmp_path: Path) -> None:
    """A cross-encoder in place of labels: its sigmoids, and the margins between them."""
    teacher = make_folder(tmp_path / "teacher", "bert", task="text-classification", num_labels=1, id2label={"0": "x"})
    scores = glassformer.load(teacher).score([(row["text"], row["text_pair"]) for row in TRIPLES])
    others = glassformer.load(teacher).score([(row["text"], row["negative"]) for row in TRIPLES])
    rows = [{"text": row["text"], "text_pair": row["text_pair"]} for row in TRIPLES]
    taught = Embed(glassformer.load(folder), loss="mse", teacher=str(teacher)).encode(read_rows(rows))
    np.testing.assert_allclose([taught[i]["scores"] for i in range(8)], scores[:, None], atol=1e-6)
    margins = Embed(glassformer.load(folder), loss="margin-mse", teacher=str(teacher)).encode(read_rows(TRIPLES))
    np.testing.assert_allclose([margins[i]["scores"] for i in range(8)], (scores - others)[:, None], atol=1e-6)
    own = Embed(glassformer.load(folder), loss="mse", teacher=str(folder))  # a sentence encoder teaches too
    assert trainer_of(own, rows).validate()["loss"] == pytest.approx(0, abs=1e-9)


def test_cached_scores_are_those_of_the_teacher_as_it_is(folder: Path, tmp_path: Path) -> None:
    """A teacher that was trained on has the same name, and other scores."""
    teacher = make_folder(tmp_path / "teacher", "bert", task="text-classification", num_labels=1, id2label={"0": "x"})

    def scores() -> list[float]:
        task = Embed(glassformer.load(folder), loss="mse", teacher=str(teacher))
        examples = task.encode(read_rows(PAIRS), cache=tmp_path / "cache")
        return [float(examples[i]["scores"][0]) for i in range(len(PAIRS))]

    before = scores()
    assert scores() == before and len(list((tmp_path / "cache").iterdir())) == 1
    model = glassformer.load(teacher)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(1.5)
    model.save_pretrained(tmp_path / "trained")
    shutil.rmtree(teacher)
    (tmp_path / "trained").rename(teacher)
    assert scores() != pytest.approx(before, abs=1e-4)
    assert scores() == pytest.approx(
        glassformer.load(teacher).score([(x["text"], x["text_pair"]) for x in PAIRS]), abs=1e-6
    )


def test_the_scores_of_a_column_are_margins_or_scores(folder: Path) -> None:
    several = {"text": "time", "text_pair": "flies", "negative": ["a", "fruit"]}
    task = Embed(glassformer.load(folder), loss="margin-mse")
    rows = read_rows([{**several, "label": [0.5, 0.25]}, {**several, "label": [1.0, 0.5, 0.75]}])
    examples = task.encode(rows)
    assert [examples[i]["scores"].tolist() for i in range(2)] == [[0.5, 0.25], [0.5, 0.25]]


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a"}], {}, "row 0: there is no column 'text_pair'.*there are: 'text'"),
        (PAIRS, {"loss": "triplet"}, "there is no column 'negative'"),
        (PAIRS, {"loss": "cosine"}, "there is no column 'label'"),
        ([{**PAIRS[0], "label": "high"}], {"loss": "cosine"}, "row 0: 'label' is 'high'; it must be a number"),
        ([{**PAIRS[0], "label": 4.75}], {"loss": "cosine"}, r"'label' is 4.75; a cosine .*score_range=\[0,5\]"),
        ([{**PAIRS[0], "label": 6}], {"loss": "cosine", "score_range": [0, 5]}, "'label' is 6; .* from 0 to 5"),
        ([{**PAIRS[0], "label": 0.5}], {"loss": "contrastive"}, r"'label' is 0.5; it must be 1 .* or 0"),
        ([{**PAIRS[0], "negative": 3}], {"loss": "triplet"}, "'negative' is 3; it must be a text, or a list of texts"),
        ([{**PAIRS[0], "negative": []}], {"loss": "triplet"}, "'negative' is empty; triplet needs a negative"),
        ([{**PAIRS[0], "negative": PAIRS[0]["text_pair"]}], {}, "is both 'text_pair' and a negative"),
        ([{**MARGINS[0], "label": [1, 2, 3]}], {"loss": "margin-mse"}, "has 1 negatives; give the margin to each"),
        ([{"text": None, "text_pair": "a"}], {}, "'text' is None; it must be a text"),
    ],
)
def test_a_bad_row_is_named(folder: Path, rows: list[dict[str, Any]], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Embed(glassformer.load(folder), **options).encode(read_rows(rows))


@pytest.mark.parametrize(
    ("rows", "loss", "training", "message"),
    [
        (PAIRS[:1], "multiple-negatives-ranking", {}, "compares the examples of a batch, and a batch has 1; give more"),
        (PAIRS, "multiple-negatives-ranking", {"batch_size": 1}, "a batch has 1"),
        (PAIRS, "multiple-negatives-ranking", {"micro_batch_size": 1}, "a batch has 1; .*micro_batch_size"),
        (SCORED, "cosent", {"batch_size": 1}, "cosent compares the examples of a batch"),
        ([{**row, "label": 1} for row in PAIRS], "contrastive", {}, "all 8 rows have the score 1; there is nothing"),
        ([{**row, "label": 0.5} for row in PAIRS], "cosine", {}, "all 8 rows have the score 0.5"),
        ([{**row, "text_pair": "a"} for row in PAIRS], "multiple-negatives-ranking", {}, "the same text in all 8 rows"),
    ],
)
def test_what_nothing_can_be_learned_from(
    folder: Path, rows: list[dict[str, Any]], loss: str, training: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        trainer_of(Embed(glassformer.load(folder), loss=loss), rows, **training)


def test_a_last_batch_of_one_pair_is_a_step(folder: Path) -> None:
    """Nine pairs in batches of eight: the last has no negative, and its loss is 0."""
    rows = [*PAIRS, {"text": "an", "text_pair": "flies ."}]
    trainer = trainer_of(Embed(glassformer.load(folder)), rows, steps=2, shuffle=False)
    assert trainer.train().steps == 2
    assert trainer.validate()["loss"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "ranking"}, "loss is 'ranking'.*multiple-negatives-ranking"),
        ({"scale": 0}, "scale is 0"),
        ({"dimensions": [9]}, "dimensions has 9; the vectors have 8"),
        ({"dimensions": [4, 4]}, "name each once"),
        ({"dimensions": [8, 4], "dimension_weights": [1.0]}, "dimension_weights has 1 numbers, dimensions 2"),
        ({"pooling": "meen"}, "pooling is 'meen'; nearest: 'mean'"),
        ({"similarity": "cosin"}, "similarity is 'cosin'; nearest: 'cosine'"),
        ({"similarity": "manhattan"}, "texts are ranked by cosine, dot, euclidean"),
        ({"score_range": [0, 5]}, "score_range is of labels that multiple-negatives-ranking does not read"),
        ({"loss": "cosine", "score_range": [5, 0]}, "it must be the lowest and the highest"),
        ({"teacher": "some"}, "a teacher gives scores, which multiple-negatives-ranking does not read"),
        ({"loss": "mse", "teacher_activation": "sigmoid"}, "allowed: sigmoid, none, with a teacher"),
        ({"prompts": {"query": 3}}, "a prompt is a text"),
    ],
)
def test_options_that_do_not_go_together(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Embed(glassformer.load(folder), **options)


def test_a_model_of_two_stacks_is_refused(tmp_path: Path) -> None:
    bart = make_folder(tmp_path / "bart", "bart", task="feature-extraction")
    with pytest.raises(UnsupportedError, match="sentence embedding reads the states of a model with one text stack"):
        Embed(glassformer.load(bart))
