"""The card of a trained model: what it says, what it keeps to itself, and that the model loads as it says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

import glassformer
from glassformer import DataError
from glassformer.runs.config import parse_config
from glassformer.runs.folder import describe_environment
from glassformer.training.card import CardNotes, write_card
from tests.e2e.tiny_models import make_folder
from tests.training.a_run import Options

CONFIG = """
task: classify
model: /home/somebody/models/bert-tiny
data: {train: [/home/somebody/data/mood.csv, more.csv], validation: 0.1, columns: {text: tweet}}
overrides: {layer_norm_eps: .inf}
training: {seed: 7}
"""


@dataclass
class Mood:
    """An objective."""


class Examples(list[int]):
    @property
    def fingerprint(self) -> str:
        return f"4f1d2c{len(self)}"


def trainer(folder: Path, **changes: Any) -> Any:
    folder.mkdir(exist_ok=True)
    make_folder(folder / "begun", "bert")
    model = glassformer.load(folder / "begun", task="classify")
    run = folder / "mood"
    run.mkdir()
    model.save_pretrained(run / "model")
    state = SimpleNamespace(
        step=1200,
        tokens=345_678,
        seconds=61.04,
        cpu_seconds=99.96,
        best=0.91,
        best_step=900,
        best_metrics={"f1": 0.9123456, "loss": float("nan")},
    )
    found = SimpleNamespace(
        model=model,
        config=parse_config({"output": "runs/mood", **yaml.safe_load(CONFIG)}),
        task=Mood(),
        options=Options(seed=7),
        folder=run,
        state=state,
        steps=1200,
        metric="f1",
        train_examples=Examples(range(900)),
        validation_examples=Examples(range(100)),
    )
    return SimpleNamespace(**{**vars(found), **changes})


def test_the_card_says_all_of_it(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    notes = CardNotes(license="mit", data_license="CC-BY-4.0", about="It reads moods.", limits="Not of cats.")
    facts = write_card(run, run.folder / "model", notes)
    text = (run.folder / "model" / "README.md").read_text("utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert head["license"] == "mit" and head["base_model"] == "bert-tiny"
    assert head["pipeline_tag"] == "text-classification"
    for said in (
        "# mood",
        "It reads moods.",
        "Not of cats.",
        "CC-BY-4.0",
        "| f1 | 0.9123 |",
        "| loss | nan |",
        "On 100 validation examples",
        "after step 900 of 1,200",
        "| train | mood.csv, more.csv | 900 | `4f1d2c900` |",
        "0.1 of the training rows, held out",
        "345,678 tokens in 1,200 steps. It began with `bert-tiny`.",
        "With seed 7",
        f"| torch | {torch.__version__} |",
        f"| threads | {torch.get_num_threads()} |",
        facts["environment_key"],
        "transformers.BertForSequenceClassification",
    ):
        assert said in text, said


def test_no_path_of_the_machine_and_strict_json(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    facts = write_card(run, run.folder / "model")
    card, metrics = ((run.folder / "model" / name).read_text("utf-8") for name in ("README.md", "metrics.json"))
    for text in (card, metrics):
        assert "/home" not in text and str(tmp_path) not in text
    kept = json.loads(metrics, parse_constant=lambda name: pytest.fail(name))
    assert kept == facts and kept["metrics"]["loss"] == "nan" and kept["config"]["overrides"]["layer_norm_eps"] == "inf"


def test_the_model_loads_as_the_card_says(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    write_card(run, run.folder / "model")
    text = (run.folder / "model" / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict[str, Any] = {}
    exec(code.replace("path/to/this/folder", str(run.folder / "model")), names)
    assert names["model"].task == "text-classification"


def test_what_is_not_known_is_said_to_be_unknown(tmp_path: Path) -> None:
    run = trainer(tmp_path, validation_examples=None, config=None)
    run.state.best_metrics = {}
    facts = write_card(run, run.folder / "model")
    text = (run.folder / "model" / "README.md").read_text("utf-8")
    assert "It was not validated, so nothing is known of that." in text
    assert "Not stated by those who trained it" in text
    assert facts["validation"] is None and facts["config"] == {"training": {"learning_rate": 1e-3, "seed": 7}}


def test_figures_of_what_it_learnt_from_are_said_to_be_that(tmp_path: Path) -> None:
    for examples, told in ((range(100), False), (range(900), True)):
        run = trainer(tmp_path / str(told), validation_examples=Examples(examples))
        write_card(run, run.folder / "model")
        text = (run.folder / "model" / "README.md").read_text("utf-8")
        assert ("**They are the examples that it learnt from**" in text) is told


def test_another_environment_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(tmp_path)
    keys = [write_card(run, run.folder / "model")["environment_key"] for _ in range(2)]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    assert describe_environment(torch.device("cpu"))["threads"] == 77
    keys.append(write_card(run, run.folder / "model")["environment_key"])
    assert keys[0] == keys[1] != keys[2]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(tmp_path)
    (run.folder / "model" / "README.md").mkdir()
    with pytest.raises(DataError, match="the model card cannot be written"):
        write_card(run, run.folder / "model")
