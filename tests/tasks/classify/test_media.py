"""Images and sounds are classified like texts: each method of `Trainer`, a pipeline's answer, a report from files."""

from __future__ import annotations

import csv
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
from glassformer.tasks.base import Task
from glassformer.tasks.registry import task_class, task_name
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder

SEEN = dict.fromkeys(("vit", "imagegpt", "clip"), "classify-image")
HEARD = dict.fromkeys(("wav2vec2", "hubert", "whisper"), "classify-audio")
LABELS = {"id2label": {"0": "dark", "1": "bright"}}


def image_table(folder: Path, count: int = 12) -> Path:
    image = pytest.importorskip("PIL.Image")
    draw = np.random.default_rng(0)
    with (folder / "images.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "label"])
        for number in range(count):
            low, label = ((0, "dark"), (150, "bright"))[number % 2]
            pixels = draw.integers(low, low + 100, (20, 30, 3), dtype=np.uint8)
            image.fromarray(pixels).save(folder / f"{number}.png")
            table.writerow([f"{number}.png", label])
    return folder / "images.csv"


def sound_table(folder: Path, count: int = 12) -> Path:
    soundfile = pytest.importorskip("soundfile")
    with (folder / "sounds.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "label"])
        for number in range(count):
            hertz, label = ((300, "dark"), (3_000, "bright"))[number % 2]
            time = np.arange(1_600 + 100 * number) / 16_000
            soundfile.write(folder / f"{number}.wav", 0.3 * np.sin(2 * np.pi * hertz * time), 16_000)
            table.writerow([f"{number}.wav", label])
    return folder / "sounds.csv"


def made(folder: Path, family: str, **options: Any) -> tuple[Task, Any]:
    kind = task_class(SEEN.get(family) or HEARD[family])
    model = glassformer.load(make_folder(folder / "model", family, task=kind.HEAD, **LABELS))
    table = image_table(folder) if family in SEEN else sound_table(folder)
    return kind(model, **options), read_rows(table)


@pytest.mark.parametrize("family", [*SEEN, *HEARD])
def test_each_method_of_the_trainer(family: str, tmp_path: Path) -> None:
    task, rows = made(tmp_path, family)
    examples = task.encode(rows)
    options = TrainingOptions(epochs=2, batch_size=4, learning_rate=1e-2, schedule="constant", warmup=0)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    before = trainer.validate()
    assert set(before) >= {"loss", "accuracy", "f1_macro"}
    step = trainer.train_step()
    assert step.step == 1 and step.loss > 0 and step.grad_norm > 0
    trainer.train_epoch()
    assert trainer.state.epoch == 1 and trainer.state.step == 3
    logits = torch.stack(list(trainer.predict(examples)))
    assert logits.shape == (12, 2)
    again = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "whole")
    result = again.train()
    assert result.steps == 6 and result.metrics["loss"] < before["loss"]


@pytest.mark.parametrize("family", ["vit", "imagegpt", "wav2vec2", "whisper"])
def test_predictions_are_those_of_the_pipeline(family: str, tmp_path: Path) -> None:
    task, rows = made(tmp_path, family)
    answer = glassformer.pipeline(SEEN.get(family) or HEARD[family], task.model)
    for prediction, row in zip(task.predict(rows), rows, strict=True):
        (best,) = answer(str(tmp_path / row["file"]), top_k=1)
        assert prediction.predicted == best.label
        assert prediction.details["scores"][best.label] == pytest.approx(best.score, abs=1e-4)


def test_from_a_table_to_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, table = make_folder(tmp_path / "vit", "vit", task="image-classification"), image_table(tmp_path, 24)
    run = tmp_path / "run"
    given = ("--data", table, "--validation", "0.25", "--output", run, "--epochs", "2", "--batch-size", "4")
    done = run_here(capsys, "train", "--task", "classify-image", "--model", folder, *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    assert report["data"]["rows"] == 6 and "accuracy" in json.dumps(report)
    done = run_here(capsys, "predict", "classify-image", run, tmp_path / "0.png")
    assert done.returncode == 0 and "dark" in done.stdout


def test_hugging_faces_names_and_what_is_refused(tmp_path: Path) -> None:
    assert [task_name(f"{kind}-classification") for kind in ("image", "audio")] == ["classify-image", "classify-audio"]
    task, rows = made(tmp_path, "vit")
    missing = read_rows([{"file": str(tmp_path / "none.png"), "label": "dark"}])
    with pytest.raises(DataError, match=r"row 0.*none\.png"):
        task.encode(missing)
    with pytest.raises(ConfigError, match="load it with task='audio-classification'"):
        task_class("classify-audio")(task.model)
    assert len(rows) == len(task.encode(rows))


def test_long_sounds_are_cut_with_a_warning(tmp_path: Path) -> None:
    task, rows = made(tmp_path, "wav2vec2", max_seconds=0.12)
    with pytest.warns(UserWarning, match=r"8 of 12 recordings were cut to 0\.12 s"):
        examples = task.encode(rows)
    assert max(len(examples[i]["input_values"]) for i in range(12)) == 1_920
    with pytest.raises(ConfigError, match="max_seconds is 0"):
        task_class("classify-audio")(task.model, max_seconds=0)
