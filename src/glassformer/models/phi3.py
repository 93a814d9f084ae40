"""Phi-3: Llama with fused q-k-v and gate-up matrices, residual dropout, and an optional sliding window.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Abdin et al. 2024, "Phi-3 technical report", section 2.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.specs import GatedFeedForwardSpec
from glassformer.models import llama, mistral
from glassformer.models._config import ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import Slice, WeightNames


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    reader.fixed("attention_bias", False)
    reader.get("embd_pdrop", default=None)  # in every config, but the reference library applies it nowhere
    reader.get("original_max_position_embeddings", default=None)  # for longrope alone
    attention = llama.attention_spec(reader, window=mistral.window(reader, default=None))
    norm = llama.norm_spec(reader, eps=1e-5)
    block = replace(
        llama.block_spec(reader, attention, llama.feed_forward_spec(reader)),
        before=norm,
        dropout=reader.probability("resid_pdrop", default=0.0),
    )
    rotary = llama.partial_rotary(reader, attention.E, share=1.0, longest=4096)
    return replace(llama.decoder_spec(reader, (block,) * llama.layer_count(reader), rotary), final_norm=norm)


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names: Llama's, but q, k and v are one matrix, and gate and up are one."""
    like_llama = llama.names(spec, task)
    feed_forward = spec.blocks.blocks[0].feed_forward
    assert isinstance(feed_forward, GatedFeedForwardSpec)
    rows = (feed_forward.hidden, feed_forward.hidden)
    body = {
        **like_llama.body,
        "blocks.{i}.attn.qkv": "layers.{i}.self_attn.qkv_proj",
        "blocks.{i}.ffn.gate": Slice("layers.{i}.mlp.gate_up_proj", rows, 0),
        "blocks.{i}.ffn.up": Slice("layers.{i}.mlp.gate_up_proj", rows, 1),
    }
    return replace(like_llama, body=body)


FAMILY = Family(
    model_type="phi3",
    distinction="q, k, v and gate, up stored as one matrix each",
    architectures={
        "Phi3Model": "feature-extraction",
        "Phi3ForCausalLM": "text-generation",
        "Phi3ForSequenceClassification": "text-classification",
        "Phi3ForTokenClassification": "token-classification",
    },
    spec=spec,
    build=Decoder,
    names=names,
    tiny={
        **llama.FAMILY.tiny,
        "model_type": "phi3",
        "partial_rotary_factor": 0.75,
        "sliding_window": 4,
        "resid_pdrop": 0.0,
    },
)
