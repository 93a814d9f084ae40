"""Granite: Llama with a multiplier of the embeddings, of the scores, of what each sub-layer adds, and of the logits.

    ids · m_e ─ [ norm ─ attention (q kᵀ · m_a) ─ · m_r, add ─ norm ─ gated feed-forward ─ · m_r, add ] × L
                                                                                              ─ norm ─ head ─ / m_l

With them, hyperparameters that were tuned on a narrow model hold for a wide one.
Source: Granite team 2024, "Granite 3.0 Language Models"; multipliers: Yang et al. 2022, "Tensor Programs V".
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import llama
from glassformer.models._config import Values, multiplier
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec

KEYS = llama.KEYS.extend(
    embedding_multiplier=multiplier("embedding_multiplier", 1.0),
    attention_multiplier=multiplier("attention_multiplier", 1.0),  # not 1/√E where a config is silent
    residual_multiplier=multiplier("residual_multiplier", 1.0),
    logits_scaling=multiplier("logits_scaling", 1.0),
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    like_llama = llama.block_spec(c)
    block = replace(
        like_llama,
        attention=replace(like_llama.attention, scale=c.attention_multiplier),
        residual=replace(like_llama.residual, scale=c.residual_multiplier),
    )
    made = llama.decoder_spec(c, (block,) * c.layers)
    embed = replace(made.embed, scale=c.embedding_multiplier)
    return replace(made, embed=embed, logit_scale=1 / c.logits_scaling)


FAMILY = Family(
    model_type="granite",
    distinction="Llama with multipliers of embeddings, scores, residual branches and logits",
    architectures=architectures("Granite", "Model ForCausalLM"),
    spec=spec,
    build=Decoder,
    names=llama.NAMES.extend(prefixes={}),
    tiny=KEYS.tiny(
        "granite",
        num_key_value_heads=2,
        embedding_multiplier=6.0,
        attention_multiplier=0.25,
        residual_multiplier=0.5,
        logits_scaling=4.0,
        **llama.TINY,
    ),
)
