"""Runs of a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tiny_models import word_tokenizer

BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip


def trained(place: Path, task: str, rows: list[dict[str, Any]], scratch: dict[str, Any], **tokenizer: Any) -> Path:
    """A run of a moment on a quarter of these rows."""
    from glassformer.runs.config import parse_config
    from glassformer.training.run import make_trainer

    (place / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    values = {
        "task": task,
        "scratch": scratch,
        "tokenizer": tokenizer,
        "output": str(place / "run"),
        "data": {"train": str(place / "rows.jsonl"), "validation": 0.25},
        "training": {"steps": 2, "batch_size": 8},
    }
    make_trainer(parse_config(values)).train()
    return place / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a moment."""
    from glassformer.runs.config import parse_config
    from glassformer.training.run import make_trainer

    place = tmp_path_factory.mktemp("bench")
    pairs = (("time", "a"), ("fruit", "b"))
    lines = [f"{word} flies {'like an arrow ' * (i % 3)},{label}" for i in range(15) for word, label in pairs]
    (place / "rows.csv").write_text("text,mood\n" + "\n".join(lines) + "\n")
    (place / "words").mkdir()
    word_tokenizer().save(str(place / "words" / "tokenizer.json"))
    values = {
        "task": "classify",
        "scratch": BERT,
        "tokenizer": str(place / "words"),
        "output": str(place / "run"),
        "data": {"train": str(place / "rows.csv"), "validation": 0.4, "columns": {"label": "mood"}},
        "training": {"steps": 2, "batch_size": 8},
    }
    make_trainer(parse_config(values)).train()
    return place / "run"
