"""A tiny sentence encoder, with prompts for queries and documents, and a folder of documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.tiny_models import make_folder

DOCUMENTS = {
    "tower.md": "---\nyear: 1874\n---\n# The tower\n\nThe lighthouse was built in 1874. It stands on a rock.\n\n"
    "## Ships\n\nA ship saw the light. The ship turned at once.\n",
    "notes/garden.txt": "Apples are red. Pears are green. Plums are blue.\n",
    "notes/prices.csv": "fruit,price\napple,3\npear,4\n",
}


def make_encoder(folder: Path, **changes: Any) -> Path:
    """A tiny BERT with random weights: it finds nothing by meaning, but every step is that of a real model."""
    make_folder(folder, "bert", task="feature-extraction", **{"max_position_embeddings": 64, **changes})
    settings = {"pad_token": "[PAD]", "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    steps = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    prompts = {"prompts": {"query": "fruit ", "document": "a "}, "similarity_fn_name": "cosine"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return folder


def write_documents(folder: Path, documents: dict[str, str] | None = None) -> Path:
    for name, text in (DOCUMENTS if documents is None else documents).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
