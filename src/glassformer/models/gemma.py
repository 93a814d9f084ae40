"""Gemma: Llama with a GELU gate, gains of 1 + weight in its norms, and embeddings multiplied by √D.

    ids · √D ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head (tied)

Source: Gemma team 2024, "Gemma", section 2.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import GatedFeedForwardSpec
from glassformer.core.norms import RMSNormSpec
from glassformer.core.rotary import RotarySpec
from glassformer.models import llama
from glassformer.models._config import Values, constant, size
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec

KEYS = llama.KEYS.extend(
    head_width=size("head_dim", 256, maximum=10_000),
    kv_heads=("num_key_value_heads", 16),
    padding=("pad_token_id", 0),
    activation=("hidden_act", "gelu_pytorch_tanh"),
    mlp_bias=constant(False),
    tied=("tie_word_embeddings", True),
    logit_cap=constant(None),
    longest=constant(8192),
    fixed={"use_bidirectional_attention": (False, None)},
    unused="hidden_activation cache_implementation",  # says again what hidden_act says; of the reference's cache
)


def block_spec(c: Values, rotary: RotarySpec | None = None) -> BlockSpec:
    """Llama's block with gains of 1 + weight."""
    norm = RMSNormSpec(**c("width eps"), offset=1.0)
    return replace(llama.block_spec(c, rotary), residual=ResidualSpec(before=norm))


def decoder_spec(c: Values, blocks: tuple[BlockSpec, ...]) -> TextSpec:
    """The spec of a decoder of these blocks."""
    made = llama.decoder_spec(c, blocks)
    return replace(made, embed=replace(made.embed, scale=c.width**0.5), **c("logit_cap"))


@KEYS.spec
def spec(c: Values) -> TextSpec:
    # The first configs say "gelu", but were trained, and are read by the reference, with its approximation.
    activation = "gelu_pytorch_tanh" if c.activation == "gelu" else c.activation
    block = replace(
        block_spec(c),
        feed_forward=GatedFeedForwardSpec(**c("width hidden"), activation=activation, bias=False),
    )
    return decoder_spec(c, (block,) * c.layers)


class GemmaEmbedding(Embedding):
    """Input embedding whose scale is rounded to the dtype of the table: in bfloat16 √3072 is 55.5, not 55.43."""

    def scale(self, dtype: torch.dtype) -> float:
        return torch.tensor(self.spec.scale, dtype=dtype, device="cpu").item()


class Gemma(Decoder):
    """Decoder-only transformer whose embeddings are scaled as Gemma's."""

    EMBEDDING = GemmaEmbedding


FAMILY = Family(
    model_type="gemma",
    distinction="norms with gains of 1 + weight; embeddings multiplied by √D",
    architectures=architectures("Gemma", "Model ForCausalLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=Gemma,
    names=llama.NAMES.extend(prefixes={}),
    tiny=KEYS.tiny("gemma", head_dim=8, num_key_value_heads=2, **llama.TINY),
)
