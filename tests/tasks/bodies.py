"""An encoder of eight words, with new weights."""

from __future__ import annotations

from pathlib import Path

from glassformer import Model
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.state import seed_all
from tests.e2e.tiny_models import word_tokenizer
from tests.training.tiny import BERT


def tiny_body(folder: Path) -> Model:
    """Args: folder: where its tokenizer is put"""
    word_tokenizer().save(str(folder / "tokenizer.json"))
    seed_all(1)
    tokenizer = Tokenizer.find(folder, model_type="bert")
    return Model.from_config(dict(BERT), task="feature-extraction", tokenizer=tokenizer)
