"""Mixtral: Mistral with a sparse mixture of experts as feed-forward layer: each token goes through two of eight.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ router ─ top-k experts, weighted ─ add ] × L ─ norm ─ head

Source: Jiang et al. 2024, section 2.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.specs import BlockSpec, ExpertsSpec
from glassformer.errors import UnsupportedError
from glassformer.models import llama, mistral
from glassformer.models._config import ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import StackedExperts, WeightNames

MAX_EXPERTS = 8_192
"""Limit on experts of all layers. No published model has a tenth of it; each costs time before a tensor is read."""


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    reject_training_features(reader)
    norm = llama.norm_spec(reader, eps=1e-5)
    attention = llama.attention_spec(reader, window=mistral.window(reader, default=None))
    layers = llama.layer_count(reader)
    experts = ExpertsSpec(
        expert=llama.feed_forward_spec(reader),
        experts=reader.integer("num_local_experts", "num_experts", default=8, maximum=MAX_EXPERTS // layers),
        experts_per_token=reader.integer("num_experts_per_tok", default=2),
    )
    block = BlockSpec(attention=attention, feed_forward=experts, before=norm)
    rotary = llama.rotary(reader, attention.E, longest=131_072, theta=1e6)
    return replace(llama.decoder_spec(reader, (block,) * layers, rotary), final_norm=norm)


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


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names: a tensor for each expert; newer files may stack them."""
    dense = llama.names(spec, task)
    moe = "layers.{i}.block_sparse_moe"
    experts = {
        "blocks.{i}.ffn.router.scores": f"{moe}.gate",
        "blocks.{i}.ffn.experts.{j}.gate": f"{moe}.experts.{{j}}.w1",
        "blocks.{i}.ffn.experts.{j}.up": f"{moe}.experts.{{j}}.w3",
        "blocks.{i}.ffn.experts.{j}.down": f"{moe}.experts.{{j}}.w2",
    }
    shared = {ours: rule for ours, rule in dense.body.items() if not ours.startswith("blocks.{i}.ffn.")}
    w1, w2, w3 = (f"{moe}.experts.{{j}}.{w}.weight" for w in ("w1", "w2", "w3"))
    renamed: dict[str, str | StackedExperts] = {
        "layers.{i}.mlp.gate.weight": f"{moe}.gate.weight",
        "layers.{i}.mlp.experts.gate_up_proj": StackedExperts((w1, w3)),
        "layers.{i}.mlp.experts.down_proj": StackedExperts((w2,)),
    }
    return replace(dense, body={**shared, **experts}, renamed=renamed)


FAMILY = Family(
    model_type="mixtral",
    distinction="a router sends each token to two of eight experts",
    architectures={
        "MixtralModel": "feature-extraction",
        "MixtralForCausalLM": "text-generation",
        "MixtralForSequenceClassification": "text-classification",
        "MixtralForTokenClassification": "token-classification",
    },
    spec=spec,
    build=Decoder,
    names=names,
    tiny={
        "model_type": "mixtral",
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)
