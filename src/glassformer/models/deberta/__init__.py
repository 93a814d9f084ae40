"""DeBERTa: an encoder with disentangled attention, whose scores come from contents and relative positions apart.

attention.py     disentangled attention, and the relative position embeddings that its layers share
convolution.py   the first block of the largest models: a convolution next to attention
network.py       which head belongs to a task
names.py         weight names
recipe.py        config keys and architectures of version 1; those of versions 2 and 3: deberta_v2.py
"""

from glassformer.models.deberta.attention import (
    DisentangledAttention,
    DisentangledAttentionSpec,
    RelativeEmbedding,
    RelativeEmbeddingSpec,
)
from glassformer.models.deberta.convolution import ConvolvedBlock, ConvolvedBlockSpec
from glassformer.models.deberta.names import weight_names
from glassformer.models.deberta.network import Deberta, DebertaSpec
from glassformer.models.deberta.recipe import FAMILY, KEYS, spec

__all__ = [
    "FAMILY",
    "KEYS",
    "ConvolvedBlock",
    "ConvolvedBlockSpec",
    "Deberta",
    "DebertaSpec",
    "DisentangledAttention",
    "DisentangledAttentionSpec",
    "RelativeEmbedding",
    "RelativeEmbeddingSpec",
    "spec",
    "weight_names",
]
