"""Random encoders whose attention has something to show."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import torch

import glassformer
from glassformer.model import Model
from tests.e2e.tiny_models import WORDS, make_folder

SPREAD = 3.0
"""Standard deviation of each layer's scores; of a plain random model they are next to none, and all looks alike."""


def words(count: int, seed: int = 0) -> str:
    """So many words in no order, the same at every run."""
    return " ".join(Random(seed).choices(WORDS[4:], k=count))


def shaped(
    folder: Path,
    *,
    layers: int = 2,
    heads: int = 4,
    width: int = 64,
    positions: int = 64,
    dtype: str = "float32",
) -> Model:
    """A random encoder with its queries scaled to scores of that spread, layer after layer."""
    make_folder(
        folder,
        "bert",
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width,
        max_position_embeddings=positions,
    )
    model = glassformer.load(folder, dtype=dtype)
    text = words(min(positions, 64) - 2)
    network: Any = model.network
    for layer, block in enumerate(network.blocks):
        session = model.inspect(text)
        spread = torch.stack([session.head(layer, head).scores() for head in range(heads)]).std()
        with torch.no_grad():
            block.attn.qkv.weight[:width] *= SPREAD / spread
            block.attn.qkv.bias[:width] *= SPREAD / spread
    return model
