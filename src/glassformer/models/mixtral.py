"""Mixtral: Mistral with a sparse mixture of experts as feed-forward layer: each token goes through two of eight.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ router ─ top-k experts, weighted ─ add ] × L ─ norm ─ head

Source: Jiang et al. 2024, section 2.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core import ExpertsSpec, GatedFeedForwardSpec
from glassformer.errors import UnsupportedError
from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, ConfigReader, Values, constant, nullable_size, size
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Decoder, TextSpec
from glassformer.weights.names import StackedExperts

MAX_EXPERTS = 8_192
"""Limit on experts of all layers. No published model has a tenth of it; each costs time before a tensor is read."""

KEYS = llama.KEYS.extend(
    bias=constant(False),
    mlp_bias=constant(False),
    eps=("rms_norm_eps", 1e-5),
    window=nullable_size("sliding_window", None, maximum=MAX_ROWS),
    experts=size("num_local_experts num_experts", 8, maximum=MAX_EXPERTS),
    experts_per_token=size("num_experts_per_tok", 2),
    longest=constant(131_072),
    theta=constant(1e6),
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    reject_training_features(c.reader)
    c.reader.integer("num_local_experts", "num_experts", default=8, maximum=MAX_EXPERTS // c.layers)
    block = llama.block_spec(c)
    expert = GatedFeedForwardSpec(**c("width hidden activation"))
    block = replace(block, feed_forward=ExpertsSpec(expert=expert, **c("experts experts_per_token")))
    return llama.decoder_spec(c, (block,) * c.layers)


def reject_training_features(reader: ConfigReader) -> None:
    """Reject training features that are not supported: outputs would be right, but the loss would differ.

    Raises: UnsupportedError: the config turns one on.
    """
    reader.number("router_aux_loss_coef", default=0.001)  # weighs the term that output_router_logits turns on
    if reader.flag("output_router_logits", default=False):
        raise UnsupportedError(
            "config.json: output_router_logits = true adds a term to the training loss that spreads tokens evenly over "
            "the experts, and is not supported; set it to false: logits are the same, the loss is the head's alone"
        )
    if noise := reader.number("router_jitter_noise", default=0.0):
        raise UnsupportedError(
            f"config.json: router_jitter_noise = {noise} multiplies what the experts read by random numbers while "
            "training, and is not supported; set it to 0: answers are the same"
        )


NAMES = llama.NAMES.extend(
    """
    blocks.{i}.ffn.gate                -
    blocks.{i}.ffn.up                  -
    blocks.{i}.ffn.down                -
    blocks.{i}.ffn.router.scores       layers.{i}.block_sparse_moe.gate
    blocks.{i}.ffn.experts.{j}.gate    layers.{i}.block_sparse_moe.experts.{j}.w1
    blocks.{i}.ffn.experts.{j}.up      layers.{i}.block_sparse_moe.experts.{j}.w3
    blocks.{i}.ffn.experts.{j}.down    layers.{i}.block_sparse_moe.experts.{j}.w2
    """,
    prefixes={},
    renamed={  # newer files stack the experts of a layer
        "layers.{i}.mlp.gate.weight": "layers.{i}.block_sparse_moe.gate.weight",
        "layers.{i}.mlp.experts.gate_up_proj": StackedExperts(
            tuple(f"layers.{{i}}.block_sparse_moe.experts.{{j}}.{w}.weight" for w in ("w1", "w3"))
        ),
        "layers.{i}.mlp.experts.down_proj": StackedExperts(("layers.{i}.block_sparse_moe.experts.{j}.w2.weight",)),
    },
)


FAMILY = Family(
    model_type="mixtral",
    distinction="a router sends each token to two of eight experts",
    architectures=architectures("Mixtral", f"Model ForCausalLM {CLASSIFIERS}"),
    spec=spec,
    build=Decoder,
    names=NAMES,
    tiny=KEYS.tiny("mixtral", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, **llama.TINY),
)
