"""What chooses the best checkpoint is what the report says of the same rows: a validation metric is the report's own.

Where the two are computed in different ways, they have different names. Left out are tasks that choose by a loss which
is no metric of the report (codecs, pedals).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.rows import read_rows
from glassformer.model import load
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task
from glassformer.tasks.metrics.metric import greater_is_better
from glassformer.tasks.registry import task_class
from glassformer.training.trainer import Trainer
from tests.core.small import perturbed
from tests.tasks.transcribe.tones import letters_folder, whisper_folder, write_table
from tests.tasks.word_pieces import tiny_model
from tests.tasks.words import WORDS, tiny

LONG = "a banana works . a fruit flies . an arrow flies . time flies like an arrow"
QUESTIONS: list[dict[str, Any]] = [
    {"question": "time ?", "context": "jeff deans works at fruit", "answers": "deans", "answer_start": 5},
    {"question": "an arrow ?", "context": "a banana .", "answers": "", "answer_start": 0},
    {"question": "an ?", "context": LONG, "answers": "arrow", "answer_start": 36},
    {"question": "a ?", "context": LONG, "answers": "a banana", "answer_start": 0},
]
TEXTS = [" ".join(WORDS[start : start + count]) for start, count in ((0, 5), (3, 9), (7, 3), (11, 12), (2, 7))]
TAGGED = [
    {"tokens": "jeff deans works at fruit like time".split(), "tags": "B-PER I-PER O O B-ORG I-ORG O".split()},
    {"tokens": "time flies like an arrow".split(), "tags": "O O O O B-ORG".split()},
    {"tokens": "an arrow flies".split(), "tags": "O B-PER I-PER".split()},
]
PARTS = [{**row, "tags": [tag.partition("-")[2].lower() or "none" for tag in row["tags"]]} for row in TAGGED]


def classifier(labels: list[Any], **options: Any) -> tuple[Task, Any]:
    rows = read_rows([{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)])
    kind = task_class("classify")
    config = kind.head_config(rows, {}, own=False, columns=None, options=options)
    model = tiny("bert", kind.HEAD, "bert", **config)
    return kind(model, **options), rows


def tagger(rows: list[dict[str, Any]], **options: Any) -> tuple[Task, Any]:
    given = read_rows(rows)
    kind = task_class("tag")
    config = kind.head_config(given, {}, own=False, columns=None, options=options)
    return kind(tiny_model("bert", kind.HEAD, config), **options), given


def language(task: str, family: str, frame: str, rows: list[dict[str, Any]], **options: Any) -> tuple[Task, Any]:
    kind = task_class(task)
    return kind(tiny(family, kind.HEAD, frame), **options), read_rows(rows)


def reader() -> tuple[Task, Any]:
    kind = task_class("answer")
    return kind(tiny_model("bert", kind.HEAD), max_tokens=14, stride=3), read_rows(QUESTIONS)


TEXT_ROWS = [{"text": text} for text in TEXTS]
PAIRS = [{"source": text, "target": text[::-1].replace("a", WORDS[0])} for text in TEXTS]
PROMPTS = [{"prompt": text, "answer": f" {WORDS[i]} {WORDS[i + 1]}"} for i, text in enumerate(TEXTS)]

CASES: dict[str, Callable[[], tuple[Task, Any]]] = {
    "classify": lambda: classifier(["a", "b", "a", "c", "b"]),
    "classify, several labels": lambda: classifier([["a"], ["b", "a"], [], ["b"], ["a", "b"]]),
    "classify, numbers": lambda: classifier([0.5, 1.25, 3.0, -2.0, 1.0]),
    "tag": lambda: tagger(TAGGED),
    "tag, cut": lambda: tagger(TAGGED, max_tokens=6),
    "tag, cut classes": lambda: tagger(PARTS, max_tokens=5),
    "tag, all tokens": lambda: tagger(TAGGED, all_tokens=True),
    "tag, all tokens of classes": lambda: tagger(PARTS, all_tokens=True),
    "answer": reader,
    "fill": lambda: language("fill", "bert", "bert", TEXT_ROWS),
    "instruct": lambda: language("instruct", "gpt2", "gpt2", PROMPTS),
    "translate": lambda: language("translate", "t5", "t5", PAIRS),
    "summarise": lambda: language("summarise", "bart", "bart", PAIRS),
}


def both_metrics(task: Task, rows: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Those of a validation and of a report; a name that both have has one value."""
    perturbed(task.model.network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that are cut, on purpose
        examples = task.encode(rows)
        options = TrainingOptions(steps=1, batch_size=2)
        validated = Trainer(task.model, task, options, train=examples, validation=examples).validate()
        report = task.metrics(list(task.predict(rows))).values()
    both = [name for name in validated if name in report]
    assert {name: validated[name] for name in both} == pytest.approx({name: report[name] for name in both}, rel=1e-5)
    return validated, report


@pytest.mark.parametrize("case", CASES)
def test_validation_metrics_are_those_of_the_report(case: str) -> None:
    task, rows = CASES[case]()
    validated, report = both_metrics(task, rows)
    assert task.VALIDATION_METRIC in validated.keys() & report.keys()


OTHER_METHODS: dict[str, tuple[str, Callable[[], tuple[Task, Any]]]] = {
    "generate": ("block_perplexity", lambda: language("generate", "gpt2", "gpt2", TEXT_ROWS, block=4)),
    "generate, one text": (
        "block_perplexity", lambda: language("generate", "gpt2", "gpt2", TEXT_ROWS, block=4, isolated=False)
    ),
    "instruct, prompts too": (
        "prompt_and_answer_perplexity", lambda: language("instruct", "gpt2", "gpt2", PROMPTS, prompts=True)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_METHODS)
def test_another_method_has_another_name(case: str) -> None:
    name, made = OTHER_METHODS[case]
    task, rows = made()
    validated, report = both_metrics(task, rows)
    assert task.VALIDATION_METRIC == name in validated and not validated.keys() & report.keys()
    assert validated[name] != pytest.approx(report["perplexity"], rel=1e-3)
    assert not greater_is_better(name)


@pytest.mark.parametrize("folder_of", [whisper_folder, letters_folder])
def test_word_errors_are_those_of_the_report(folder_of: Callable[[Path], Path], tmp_path: Path) -> None:
    kind = task_class("transcribe")
    model = load(folder_of(tmp_path / "model"), task=kind.HEAD)
    task = kind(model, columns={"audio": "file_name"})
    validated, report = both_metrics(task, read_rows(write_table(tmp_path, 5)))
    assert validated["wer"] == pytest.approx(report["wer"], rel=1e-5)


def test_a_report_counts_recordings_that_no_validation_has(tmp_path: Path) -> None:
    kind = task_class("transcribe")
    model = load(whisper_folder(tmp_path / "model"), task=kind.HEAD)
    rows = read_rows(write_table(tmp_path, 5))
    task = kind(model, columns={"audio": "file_name"}, filters={"max_characters_per_second": 0.0})
    notes = task.notes(list(task.predict(rows)))
    assert notes[1:] == [
        "5 of 5 recordings count here and in no validation, which leaves them out: 5 more than 0 characters a second"
    ]
    assert len(kind(model).notes([])) == 1
