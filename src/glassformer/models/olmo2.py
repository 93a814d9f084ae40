"""OLMo 2: Llama with the norms behind the sub-layers, and norms of q and of k over all heads.

    ids ─ [ causal attention (q and k normed, rotary) ─ norm ─ add ─ gated feed-forward ─ norm ─ add ] × L ─ norm ─ head

The stream itself is never normed before the end, so each sub-layer adds a vector of a bounded length.
Source: OLMo team 2025, "2 OLMo 2 Furious", section 2.1.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.blocks import ResidualSpec
from glassformer.core.norms import RMSNormSpec
from glassformer.models import llama
from glassformer.models._config import Values, constant
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec

KEYS = llama.KEYS.extend(
    mlp_bias=constant(False),
    padding=("pad_token_id", 1),
    eps=("rms_norm_eps", 1e-5),
    qk_norm=constant(lambda c: RMSNormSpec(**c("width eps"))),
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    like_llama = llama.block_spec(c)
    norm = like_llama.residual.before
    block = replace(like_llama, residual=ResidualSpec(after=norm, dropout=c.dropout))
    return replace(llama.decoder_spec(c, (block,) * c.layers), final_norm=norm)


NAMES = llama.NAMES.extend(
    """
    blocks.{i}.attn_residual.before    -
    blocks.{i}.ffn_residual.before     -
    blocks.{i}.attn.q_norm             layers.{i}.self_attn.q_norm
    blocks.{i}.attn.k_norm             layers.{i}.self_attn.k_norm
    blocks.{i}.attn_residual.after     layers.{i}.post_attention_layernorm
    blocks.{i}.ffn_residual.after      layers.{i}.post_feedforward_layernorm
    """
)

FAMILY = Family(
    model_type="olmo2",
    distinction="norms behind the sub-layers; queries and keys normed over all heads",
    architectures=architectures("Olmo2", "Model ForCausalLM ForSequenceClassification"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("olmo2", num_key_value_heads=2, **llama.TINY),
)
