"""Image GPT learns images as colours: the reference's loss, every pixel, a run that overfits, halves completed."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.causal.baselines import Ngrams
from glassformer.tasks.generate_image import ColourCounts, GenerateImage
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder
from tests.tasks.resumed import assert_resumes

SIDE, COLOURS = 4, 16


def image_table(folder: Path, count: int = 4) -> Path:
    """Images of 4 × 4 pixels, random greys; the first pixel tells them apart."""
    image = pytest.importorskip("PIL.Image")
    draw = np.random.default_rng(3)
    with (folder / "images.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file"])
        for number in range(count):
            grey = draw.integers(0, COLOURS, (SIDE, SIDE))
            grey[0, 0] = number
            image.fromarray(np.repeat((grey * 16)[..., None], 3, -1).astype(np.uint8)).save(folder / f"{number}.png")
            table.writerow([f"{number}.png"])
    return folder / "images.csv"


def made(folder: Path, pixels: int = SIDE * SIDE, **changes: Any) -> Path:
    sizes = {"vocab_size": COLOURS + 1, "n_positions": pixels, "n_embd": 32, "n_inner": 64, "n_layer": 2}
    sizes |= dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.0)
    make_folder(folder, "imagegpt", task="generate", **{**sizes, **changes})
    described = json.loads((folder / "preprocessor_config.json").read_text())
    described["size"] = {"height": SIDE, "width": SIDE}
    (folder / "preprocessor_config.json").write_text(json.dumps(described))
    return folder


def perturbed(folder: Path) -> glassformer.Model:
    model = glassformer.load(folder, task="generate")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return glassformer.load(folder, task="generate")


def test_the_loss_and_its_gradients_are_the_references(tmp_path: Path) -> None:
    """The reference learns the last pixel where it has a position to read it at, which changes no other number."""
    transformers = pytest.importorskip("transformers")
    folder = made(tmp_path / "igpt", SIDE * SIDE + 1)
    task, rows = GenerateImage(perturbed(folder)), read_rows(image_table(tmp_path))
    reference = transformers.ImageGPTForCausalImageModeling.from_pretrained(folder).eval()
    examples = task.encode(rows)
    trainer = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples)
    trainer.network.eval()
    batch = task.collate(list(examples))
    assert isinstance(batch.labels, torch.Tensor) and batch.labels.shape == (4, 17)
    ids = batch.labels.clone()
    ids[:, 0] = COLOURS  # the start token, and all pixels
    theirs = reference(input_ids=ids, labels=ids).loss
    theirs.backward()
    loss, _ = trainer.gradients.accumulate([batch])
    assert loss == pytest.approx(float(theirs.detach()), rel=1e-5)
    scores = trainer.validate()
    assert scores["loss"] == pytest.approx(loss, rel=1e-5)
    assert scores["bits"] == pytest.approx(loss / math.log(2), rel=1e-5)
    for ours, name in (("head.decoder.weight", "lm_head.weight"), ("embed.tokens.weight", "transformer.wte.weight")):
        gradient = trainer.network.get_parameter(ours).grad
        torch.testing.assert_close(gradient, reference.get_parameter(name).grad, rtol=1e-4, atol=1e-6)


def test_every_pixel_is_learnt_the_last_too(tmp_path: Path) -> None:
    """A model has a position for each pixel and none beyond; the last one only predicts."""
    task, rows = GenerateImage(perturbed(made(tmp_path / "igpt"))), read_rows(image_table(tmp_path))
    (example, *_) = task.encode(rows)
    batch = task.collate([example])
    output = task.model.network(batch.batch, batch.flow)
    colours = [*example["input_ids"][1:].tolist(), int(example["last"])]
    by_hand = -output.logits[0].detach().log_softmax(-1)[range(16), colours]
    of_output = task.head.output_loss_sums(output, batch.labels)["loss"].detach()
    assert float(of_output) == pytest.approx(float(by_hand.sum()), rel=1e-5)
    sums = task.model.network.loss_sums(batch.batch, batch.flow, batch.labels)["loss"].detach()
    assert float(sums) == pytest.approx(float(by_hand.sum()), rel=1e-5)
    assert task.head.label_counts(batch.labels) == {"loss": 16}
    (first, *_) = task.predict(rows)
    assert first.details["pixels"] == 16 and first.details["nats"] == pytest.approx(float(by_hand.sum()), rel=1e-5)


def test_from_a_table_to_a_report_and_to_whole_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained by the command line until it knows four images by heart; then it completes each from half of it."""
    folder, table, run = made(tmp_path / "igpt"), image_table(tmp_path), tmp_path / "run"
    given = ("--task", "generate-image", "--model", folder, "--data", table, "--validation", table, "--output", run)
    given += ("--steps", "200", "--batch-size", "4", "--lr", "1e-2", "--set", "training.schedule=constant")
    given += ("--set", "training.validate_every=200", "--set", "training.save_every=200")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    bits = report["metrics"]["bits_per_pixel"]["value"]
    assert bits < 0.3 and not report["higher"]  # two bits for the first pixel, next to none for 15 others
    baselines = {name: one["metrics"]["bits_per_pixel"]["value"] for name, one in report["baselines"].items()}
    assert baselines["uniform"] == pytest.approx(4) and bits < baselines["neighbour"] < baselines["frequency"] < 4
    done = run_here(capsys, "errors", run, "--json")
    assert done.returncode == 0, done.stderr
    model = glassformer.load(run)
    images = model.processor([str(tmp_path / f"{number}.png") for number in range(4)])["input_ids"]
    start = torch.full((4, 1), COLOURS)
    whole = model.generate(torch.cat([start, images[:, :8]], 1), max_new_tokens=8, do_sample=False)
    assert torch.equal(whole[:, 1:], images)
    assert model.processor.images_from_ids(whole[:, 1:]).shape == (4, SIDE, SIDE, 3)


def test_each_method_of_the_trainer(tmp_path: Path) -> None:
    folder, rows = made(tmp_path / "igpt"), read_rows(image_table(tmp_path))
    task = GenerateImage(glassformer.load(folder, task="generate"))
    examples = task.encode(rows, cache=tmp_path / "cache")
    options = TrainingOptions(epochs=2, batch_size=2, learning_rate=1e-2)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    assert set(trainer.validate()) == {"loss", "perplexity", "bits"}
    assert trainer.train_step().loss > 0
    trainer.train_epoch()
    assert trainer.state.step == 2 and len(list(trainer.predict(examples))) == 4
    assert_resumes(lambda: GenerateImage(glassformer.load(folder, task="generate")), rows, tmp_path)


def test_predictions_are_the_same_at_any_batch_size(tmp_path: Path) -> None:
    task, rows = GenerateImage(perturbed(made(tmp_path / "igpt"))), read_rows(image_table(tmp_path))
    one, all_ = (list(task.for_evaluation(tokens=tokens).predict(rows)) for tokens in (1, 4_096))
    assert [x.loss for x in one] == pytest.approx([x.loss for x in all_], rel=1e-5)
    examples = task.encode(rows)
    validated = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples).validate()
    assert task.metrics(one).values()["bits_per_pixel"] == pytest.approx(validated["bits"], rel=1e-5)


def test_counts_of_neighbours_are_bigrams() -> None:
    draw = np.random.default_rng(0)
    learnt, image = [draw.integers(0, 5, 20) for _ in range(3)], draw.integers(0, 6, 30)
    counts, ngrams = ColourCounts(6), Ngrams([x.tolist() for x in learnt], 2, 6)
    for each in learnt:
        counts.add(each)
    assert counts.losses(image, neighbour=True) == pytest.approx(ngrams.losses(image.tolist()))
    assert counts.losses(image, neighbour=False) == pytest.approx(ngrams.losses(image.tolist(), order=1))


def test_what_is_refused(tmp_path: Path) -> None:
    rows = read_rows(image_table(tmp_path))
    with pytest.raises(DataError, match=r"images\.csv: line 2: the image has 16 pixels, and the model reads 9"):
        GenerateImage(glassformer.load(made(tmp_path / "short", 9), task="generate")).encode(rows)
    few = made(tmp_path / "few", vocab_size=8)
    (few / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"the processor has 16 colours \(clusters\), and the model 7"):
        GenerateImage(glassformer.load(few, task="generate"))
    task = GenerateImage(glassformer.load(made(tmp_path / "igpt"), task="generate"))
    with pytest.raises(DataError, match=r"row 0.*none\.png"):
        task.encode(read_rows([{"file": str(tmp_path / "none.png")}]))
    plain = made(tmp_path / "plain")
    described = json.loads((plain / "preprocessor_config.json").read_text())
    (plain / "preprocessor_config.json").write_text(json.dumps({**described, "do_color_quantize": False}))
    with pytest.raises(UnsupportedError, match="reads no colours of pixels"):
        GenerateImage(glassformer.load(plain, task="generate"))
    gpt2 = glassformer.load(make_folder(tmp_path / "gpt2", "gpt2", task="generate"))
    with pytest.raises(GlassformerError, match="a 'gpt2' model reads text only"):
        GenerateImage(gpt2)
