"""Transformer building blocks: the modules from which every model family is assembled.

Imports torch alone, and nothing of families or files.

Glossary, used in every shape comment:

    B batch · T query positions · S key positions · D model width · H heads · K key/value heads
    E head width · F feed-forward width · V vocabulary size · X experts · L layers · P patches · M mel bins

Inside, the papers' short words: `q k v` queries, keys, values · `scores` q kᵀ · scale (plus bias, minus what may
not be seen) · `probs` their softmax · `z` probs v · `memory` the encoder's output, for cross-attention ·
`keep` the attention mask, True where a query may attend to a key · `positions` position ids.

Each spec is in the module of what it describes. Read in this order: checks → flow → masks → rotary → attention →
feed_forward → experts → norms → blocks → stack → embeddings → heads, language_heads, classification_heads; then
attention in windows: local_attention; images: patches.
"""

from glassformer.core.attention import Attention, AttentionSpec
from glassformer.core.blocks import (
    Block,
    BlockSpec,
    ParallelBlock,
    ParallelBlockSpec,
    Residual,
    ResidualSpec,
)
from glassformer.core.cache import KeyValueCache
from glassformer.core.classification_heads import Problem, SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.cross_attention import CrossAttention, CrossAttentionSpec
from glassformer.core.dot_product import scaled_dot_product_attention
from glassformer.core.embeddings import (
    Embedding,
    EmbeddingSpec,
    HalvedSinusoidal,
    HalvedSinusoidalSpec,
    LearnedPositionsSpec,
    Sinusoidal,
    SinusoidalSpec,
)
from glassformer.core.experts import Experts, ExpertsSpec
from glassformer.core.feed_forward import FeedForward, FeedForwardSpec, GatedFeedForward, GatedFeedForwardSpec
from glassformer.core.flow import Batch, EncoderOutput, Flow, Node, Output, Tape
from glassformer.core.heads import Head, Pooler, first_token, last_token
from glassformer.core.language_heads import CausalLMHead, MaskedLMHead, NextSentenceHead, PreTrainingHead
from glassformer.core.losses import cross_entropy
from glassformer.core.masks import AttentionPattern, Packing
from glassformer.core.norms import LayerNorm, LayerNormSpec, NormSpec, RMSNorm, RMSNormSpec, make_norm
from glassformer.core.patches import Patches, PatchesSpec
from glassformer.core.position_bias import BucketedBias, BucketedBiasSpec
from glassformer.core.rotary import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    Rotary,
    RotarySpec,
    YarnScaling,
)
from glassformer.core.stack import Stack, StackSpec

__all__ = [
    "Attention",
    "AttentionPattern",
    "AttentionSpec",
    "Batch",
    "Block",
    "BlockSpec",
    "BucketedBias",
    "BucketedBiasSpec",
    "CausalLMHead",
    "CrossAttention",
    "CrossAttentionSpec",
    "DynamicScaling",
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
    "LongScaling",
    "MaskedLMHead",
    "NextSentenceHead",
    "Node",
    "NormSpec",
    "Output",
    "Packing",
    "ParallelBlock",
    "ParallelBlockSpec",
    "Patches",
    "PatchesSpec",
    "Pooler",
    "PreTrainingHead",
    "Problem",
    "RMSNorm",
    "RMSNormSpec",
    "Residual",
    "ResidualSpec",
    "Rotary",
    "RotarySpec",
    "SequenceClassifier",
    "Sinusoidal",
    "SinusoidalSpec",
    "SpanClassifier",
    "Stack",
    "StackSpec",
    "Tape",
    "TokenClassifier",
    "YarnScaling",
    "cross_entropy",
    "first_token",
    "last_token",
    "make_norm",
    "scaled_dot_product_attention",
]
