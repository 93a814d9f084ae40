"""Whoever adds a task adds one file: training, validation, evaluation, error analysis and the commands know it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.cli.app import main
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.error_analysis.errors import analyse_errors
from glassformer.evaluation.runs import open_run
from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.runs.config import parse_config
from glassformer.tasks import base as registry
from glassformer.tasks.microbatch import run_examples
from glassformer.training.run import make_trainer
from glassformer.training.state import seed_all
from tests.tasks.added_task import Pitch


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registry.register("pitch", Pitch)
    yield
    del registry.TASKS["pitch"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small speech encoder as others would have it: a folder."""
    seed_all(3)
    config = {**FAMILIES["wav2vec2"].tiny, "model_type": "wav2vec2"}
    folder = tmp_path_factory.mktemp("base")
    Model.from_config(config, task="feature-extraction").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Low and high tones of different lengths, a line each."""
    draw = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("sounds") / "sounds.jsonl"
    with file.open("w") as lines:
        for i in range(24):
            label, hertz = (("low", 200), ("high", 3_000))[i % 2]
            time = np.arange(int(draw.integers(600, 1_200))) / 16_000
            wave = np.sin(2 * np.pi * hertz * time) + 0.1 * draw.normal(size=len(time))
            lines.write(json.dumps({"wave": wave.round(4).tolist(), "label": label}) + "\n")
    return file


def test_from_a_file_of_rows_to_a_report_and_its_errors(base: Path, sounds: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = parse_config(
        {
            "task": "pitch",
            "model": str(base),
            "output": str(folder),
            "data": {"train": str(sounds), "validation": 0.5},
            "training": {"epochs": 12, "learning_rate": 0.01, "batch_size": 6},
        }
    )
    trainer = make_trainer(config)
    before = trainer.validate()
    result = trainer.train()
    assert result.metrics["loss"] < before["loss"] and "f1_macro" in result.metrics

    found = open_run(folder).evaluate(resamples=20, baselines=False)
    assert found.report.task == "pitch" and found.report.metric == "f1_weighted"
    assert found.report.metrics["f1_macro"].value == pytest.approx(result.metrics["f1_macro"])
    assert {x.label for x in found.predictions} == {"low", "high"}
    assert found.predictions[0].row == {}, "a wave is not written into the file of predictions"
    found.save(folder / "evaluation" / "validation")
    assert analyse_errors(found.predictions).count == 12

    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", str(folder), "--no-baselines", "--as", "again", "--data", str(sounds)])
    assert (folder / "evaluation" / "again" / "report.json").is_file()


def test_a_sound_gets_the_same_logits_in_any_batch(base: Path, sounds: Path) -> None:
    from glassformer.data.rows import read_rows
    from glassformer.model import load

    rows = read_rows(str(sounds))
    model = load(base, task="audio-classification")
    task = Pitch(model, columns={"label": "label"})
    task.kind.read = lambda value: np.int64(value == "high")  # type: ignore[method-assign, return-value]
    examples = task.encode(rows)
    alone, together = (list(run_examples(task, examples, tokens=tokens)) for tokens in (1, 100_000))
    assert len(alone) == len(rows) and len({len(rows[i]["wave"]) for i in range(len(rows))}) > 4
    torch.testing.assert_close(torch.stack(alone), torch.stack(together), rtol=1e-4, atol=1e-5)


def test_its_errors_are_those_of_every_task(base: Path, sounds: Path, tmp_path: Path) -> None:
    from glassformer.data.rows import read_rows
    from glassformer.model import load

    task = Pitch(load(base, task="audio-classification"))
    with pytest.raises(DataError, match=r"row 0: the wave has 2 samples; it needs 400"):
        task.encode(read_rows([{"wave": [0.0, 1.0], "label": "LABEL_0"}]))
    with pytest.raises(DataError, match="no column 'wave'"):
        task.encode(read_rows([{"sound": [0.0], "label": "LABEL_0"}]))
    with pytest.raises(ConfigError, match="'beams' is no option of Pitch; allowed: tokens"):
        task.for_evaluation(beams=3)
    with pytest.raises(ConfigError, match="there is a task 'classify' already"):
        registry.register("classify", Pitch)
    with pytest.raises(ConfigError, match="nearest: 'pitch'"):
        registry.task_class("pich")
    with pytest.raises(UnsupportedError, match="'denoise' cannot be evaluated"):
        registry.check_evaluates("denoise")
