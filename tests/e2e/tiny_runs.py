"""Runs so small that a test trains one in a moment: rows of two labels, a vocabulary, and a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.tiny_models import word_tokenizer

BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip


def tiny_run(folder: Path, *, label: str = "mood", steps: int = 3) -> dict[str, Any]:
    """Write rows.csv and words/ into a folder. label: its column. Returns: the configuration of a run of them."""
    rows = [f"{word} flies,{label}" for word, label in (("time", "a"), ("fruit", "b"))] * 20
    (folder / "rows.csv").write_text(f"text,{label}\n" + "\n".join(rows) + "\n")
    (folder / "words").mkdir()
    word_tokenizer().save(str(folder / "words" / "tokenizer.json"))
    return {
        "task": "classify",
        "scratch": BERT,
        "tokenizer": str(folder / "words"),
        "output": str(folder / "run"),
        "data": {"train": str(folder / "rows.csv"), "validation": 0.2},
        "training": {"steps": steps, "batch_size": 8},
    }
