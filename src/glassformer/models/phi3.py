"""Phi-3: Llama with fused q-k-v and gate-up matrices, residual dropout, and an optional sliding window.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Abdin et al. 2024, "Phi-3 technical report", section 2.
"""

from __future__ import annotations

from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, Values, constant, nullable_size
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec

KEYS = llama.KEYS.extend(
    bias=constant(False),
    mlp_bias=constant(False),
    eps=("rms_norm_eps", 1e-5),
    dropout=("resid_pdrop", 0.0),
    padding=("pad_token_id", 32_000),
    window=nullable_size("sliding_window", None, maximum=MAX_ROWS),
    rotary_share=constant(1.0),
    longest=constant(4096),
    # Its first releases had other names for longrope.
    rotary=constant({"original": 4096, "aliases": {"su": "longrope", "yarn": "longrope"}}),
    fixed={"attention_bias": False},
    unused="embd_pdrop",  # in every config, but the reference library applies it nowhere
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    return llama.decoder_spec(c, (llama.block_spec(c),) * c.layers)


NAMES = llama.NAMES.extend(
    """
    blocks.{i}.attn.qkv    layers.{i}.self_attn.qkv_proj
    blocks.{i}.ffn.gate    layers.{i}.mlp.gate_up_proj      [0/2]
    blocks.{i}.ffn.up      layers.{i}.mlp.gate_up_proj      [1/2]
    """
)


FAMILY = Family(
    model_type="phi3",
    distinction="q, k, v and gate, up stored as one matrix each",
    architectures=architectures("Phi3", "Model ForCausalLM ForSequenceClassification ForTokenClassification"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny(
        "phi3",
        num_key_value_heads=2,
        partial_rotary_factor=0.75,
        sliding_window=4,
        resid_pdrop=0.0,
        **llama.TINY,
    ),
)
