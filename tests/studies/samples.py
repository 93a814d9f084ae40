"""Tiny studies: a classifier from scratch on sets of words, a recogniser of tones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.evaluation.runs import open_run
from glassformer.runs.config import parse_config
from glassformer.studies.study import StudyProgress
from glassformer.studies.trained import configured_trainer, train_run
from glassformer.studies.ways import Source
from tests.e2e.tiny_models import word_tokenizer
from tests.tasks.transcribe.tones import letters_folder, write_table

BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip


def sizes_values(folder: Path) -> dict[str, Any]:
    """A study of training sets so small that it takes moments."""
    words = ["time", "fruit", "flies", "like", "an", "arrow"]

    def write(name: str, start: int, count: int) -> None:
        lines = [f"{words[i % 6]} {words[i // 6 % 6]},{'ab'[i % 2]}" for i in range(start, start + count)]
        (folder / name).write_text("text,label\n" + "\n".join(lines) + "\n")

    write("near.csv", 0, 24)
    write("far.csv", 6, 20)
    write("test.csv", 20, 16)
    (folder / "words").mkdir()
    word_tokenizer().save(str(folder / "words" / "tokenizer.json"))
    return {
        "task": "classify",
        "scratch": BERT,
        "tokenizer": str(folder / "words"),
        "output": str(folder / "study"),
        "data": {"folder": str(folder)},
        "training": {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3},
        "study": {
            "train": {
                "far": {"files": "far.csv"},
                "near": {"files": "near.csv", "rows": [4, 12]},
                "both": {"of": ["far", "near"]},
                "then": {"of": ["near"], "rows": [4], "begin": "far"},
            },
            "test_sets": {"new": "test.csv", "old": "far.csv"},
            "limit": 10,
            "at_least_steps": 2,
            "report": {"at": {"evaluated on": "new"}, "against": {"trained on": "far"}},
        },
    }


def trained_source(folder: Path, **changes: Any) -> Source:
    """A classifier of two labels, trained for a step, for a way to begin with.

    Args:
        changes: of its sizes
    """
    values = sizes_values(folder)
    del values["study"]
    values["scratch"] = {**values["scratch"], **changes}
    values["data"] |= {"train": "far.csv", "validation": "test.csv"}
    config = parse_config(values)
    train_run(config, configured_trainer(config), evaluate=False)
    run = open_run(config.output)
    return Source(run.folder / "model", run.config, run.splits[0], run.splits[0], run.splits[1])


def with_own_model(source: Source) -> Source:
    """The same, with a model of its own."""
    return Source(source.folder, source.config, source.train, source.calibration, source.validation)


def recordings(folder: Path) -> Path:
    """Recordings in three parts, and a recogniser."""
    for seed, (name, count) in enumerate({"train": 12, "validation": 4, "test": 8}.items()):
        write_table(folder, count, seed, f"{name}.csv")
    letters_folder(folder / "letters")
    return folder


def spoken_values(folder: Path, output: Path, **changed: Any) -> dict[str, Any]:
    """A study of that recogniser, without and with a language model."""
    values = {
        "task": "transcribe",
        "model": str(folder / "letters"),
        "output": str(output),
        "data": {
            "folder": str(folder), "train": "train.csv", "validation": "validation.csv", "ignore": ["speaker"],
            "columns": {"audio": "file_name"},
        },
        "training": {"steps": 2, "batch_size": 4, "learning_rate": 1e-3},
        "study": {
            "language_model": {"order": 2, "alphas": [0.5], "tune_rows": 2},
            "test_sets": {"test": "test.csv"},
            "speaker": "speaker",
        },
    }  # fmt: skip
    return {**values, **changed}


class Heard(StudyProgress):
    """What was done."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.trained: list[str] = []
        self.evaluated: list[str] = []

    def start(self, what: str) -> None:
        self.told.append(what)

    def training(self, number: int, count: int, what: str) -> None:
        self.trained.append(f"{number}/{count} {what}")

    def evaluating(self, what: str) -> None:
        self.evaluated.append(what)
