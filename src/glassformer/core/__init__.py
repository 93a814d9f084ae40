"""Transformer building blocks: the modules from which every model family is assembled.

Imports torch alone, and nothing of families or files.

Glossary, used in every shape comment:

    B batch · T query positions · S key positions · D model width · H heads · K key/value heads
    E head width · F feed-forward width · V vocabulary size · X experts · L layers · P patches · M mel bins

Inside, the papers' short words: `q k v` queries, keys, values · `scores` q kᵀ · scale (plus bias, minus what may
not be seen) · `probs` their softmax · `z` probs v · `memory` the encoder's output, for cross-attention ·
`keep` the attention mask, True where a query may attend to a key · `positions` position ids.

Read in this order: specs → flow → masks → attention → feed_forward → experts → norms → blocks → stack → embeddings →
heads, language_heads, classification_heads; then attention for long texts: block_sparse; images: patches, regions;
sound: waveform, audio_heads; tables: cells.
"""

from glassformer.core.attention import Attention, CrossAttention, scaled_dot_product_attention
from glassformer.core.block_sparse import BlockSparseAttention
from glassformer.core.blocks import Block, ParallelBlock, Residual
from glassformer.core.cache import KeyValueCache
from glassformer.core.embeddings import Embedding
from glassformer.core.experts import Experts
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.flow import Batch, EncoderOutput, Flow, Node, Output, Tape
from glassformer.core.heads import Head, Pooler, first_token, last_token
from glassformer.core.losses import cross_entropy
from glassformer.core.masks import AttentionPattern, Packing
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.patches import Patches
from glassformer.core.positions import BucketedBias, HalvedSinusoidal, Rotary, Sinusoidal
from glassformer.core.specs import (
    AttentionSpec,
    BlockSparseAttentionSpec,
    BlockSpec,
    BucketedBiasSpec,
    CrossAttentionSpec,
    EmbeddingSpec,
    ExpertsSpec,
    FeedForwardSpec,
    GatedFeedForwardSpec,
    HalvedSinusoidalSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    LinearScaling,
    Llama3Scaling,
    ParallelBlockSpec,
    PatchesSpec,
    RMSNormSpec,
    RotarySpec,
    SinusoidalSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.deprecation import former_names

__all__ = [
    "Attention",
    "AttentionPattern",
    "AttentionSpec",
    "Batch",
    "Block",
    "BlockSparseAttention",
    "BlockSparseAttentionSpec",
    "BlockSpec",
    "BucketedBias",
    "BucketedBiasSpec",
    "CrossAttention",
    "CrossAttentionSpec",
    "Embedding",
    "EmbeddingSpec",
    "EncoderOutput",
    "Experts",
    "ExpertsSpec",
    "FeedForward",
    "FeedForwardSpec",
    "Flow",
    "GatedFeedForward",
    "GatedFeedForwardSpec",
    "HalvedSinusoidal",
    "HalvedSinusoidalSpec",
    "Head",
    "KeyValueCache",
    "LayerNorm",
    "LayerNormSpec",
    "LearnedPositionsSpec",
    "LinearScaling",
    "Llama3Scaling",
    "Node",
    "Output",
    "Packing",
    "ParallelBlock",
    "ParallelBlockSpec",
    "Patches",
    "PatchesSpec",
    "Pooler",
    "RMSNorm",
    "RMSNormSpec",
    "Residual",
    "Rotary",
    "RotarySpec",
    "Sinusoidal",
    "SinusoidalSpec",
    "Stack",
    "StackSpec",
    "Tape",
    "cross_entropy",
    "first_token",
    "last_token",
    "scaled_dot_product_attention",
]

__getattr__ = former_names(__name__)
