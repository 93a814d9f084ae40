"""Qwen3: Qwen2 without biases, and with a norm of each head's q and k.

    ids ─ [ norm ─ causal attention (q and k normed, rotary) ─ add ─ norm ─ gated feed-forward ─ add ] × L ─ norm ─ head

Source: Yang et al. 2025, "Qwen3 technical report", section 2.
"""

from __future__ import annotations

from glassformer.core.norms import RMSNormSpec
from glassformer.models import llama, qwen2
from glassformer.models._config import constant, flag, size
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder

KEYS = qwen2.KEYS.extend(
    head_width=size("head_dim", 128, maximum=10_000),
    bias=flag("attention_bias", False),
    out_bias=constant(lambda c: c.bias),
    kv_heads=("num_key_value_heads", 32),
    qk_norm=constant(lambda c: RMSNormSpec(width=c.head_width, eps=c.eps)),
)

NAMES = llama.NAMES.extend(
    """
    blocks.{i}.attn.q_norm    layers.{i}.self_attn.q_norm
    blocks.{i}.attn.k_norm    layers.{i}.self_attn.k_norm
    """
)

FAMILY = Family(
    model_type="qwen3",
    distinction="a norm of each head's queries and keys; heads of a width of their own",
    architectures=architectures("Qwen3", f"Model ForCausalLM {CLASSIFIERS}"),
    spec=KEYS.spec(qwen2.text_spec),
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny(
        "qwen3",
        head_dim=16,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
        **llama.TINY,
    ),
)
