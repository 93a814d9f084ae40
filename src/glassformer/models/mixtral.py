"""Mixtral: Mistral with a mixture of experts in place of each feed-forward layer; each token goes through two of eight.

    ids ─ [ norm ─ causal attention (rotary) ─ add ─ norm ─ router ─ chosen experts, weighed ─ add ] × L ─ norm ─ head

Source: Jiang et al. 2024, section 2.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.specs import BlockSpec, ExpertsSpec
from glassformer.errors import UnsupportedError
from glassformer.models import llama, mistral
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family, Reader, TextSpec
from glassformer.weights.names import Names, Stacked

MOST_EXPERTS = 8_192
"""In all layers; no published model has a tenth as many, and each costs time before the first tensor is read."""


def spec(reader: Reader) -> TextSpec:
    """config.json → spec."""
    refuse_training_extras(reader)
    norm = llama.norm_spec(reader, eps=1e-5)
    attention = llama.attention_spec(reader, window=mistral.window(reader, default=None))
    layers = llama.layers(reader)
    experts = ExpertsSpec(
        expert=llama.feed_forward_spec(reader),
        experts=reader.integer("num_local_experts", "num_experts", default=8, most=MOST_EXPERTS // layers),
        chosen=reader.integer("num_experts_per_tok", default=2),
    )
    block = BlockSpec(attention=attention, feed_forward=experts, before=norm)
    rotary = llama.rotary(reader, attention.E, longest=131_072, theta=1e6)
    return replace(llama.decoder_spec(reader, (block,) * layers, rotary), final_norm=norm)


def refuse_training_extras(reader: Reader) -> None:
    """Training that the heads here do not do is refused, though answers would be right: a loss would be another."""
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


def names(spec: TextSpec, task: str) -> Names:
    """Their tensor names: a tensor for each expert, as files have it; newer ones may stack them."""
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
    newer: dict[str, str | Stacked] = {
        "layers.{i}.mlp.gate.weight": f"{moe}.gate.weight",
        "layers.{i}.mlp.experts.gate_up_proj": Stacked((w1, w3)),
        "layers.{i}.mlp.experts.down_proj": Stacked((w2,)),
    }
    return replace(dense, body={**shared, **experts}, newer=newer)


FAMILY = Family(
    model_type="mixtral",
    oddity="a router sends each token to two of eight experts",
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
