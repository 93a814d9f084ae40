"""Phi: a decoder with parallel attention and feed-forward layers behind one norm, with biases and partial rotary.

                    ┌ causal attention (rotary, in part) ┐
    ids ─ [ ─┬ norm ┤                                    ├ add ─ ] × L ─ norm ─ head (with a bias)
             │      └ feed-forward ──────────────────────┘  │
             └──────────────────────────────────────────────┘

Source: Gunasekar et al. 2023, "Textbooks are all you need", section 2.3; Li et al. 2023, "Phi-1.5", section 2.1.
"""

from __future__ import annotations

from glassformer.core.specs import (
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    ParallelBlockSpec,
    StackSpec,
)
from glassformer.models import llama
from glassformer.models._config import MAX_ROWS, ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import Fused, Tied, WeightNames


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    reader.fixed("qk_layernorm", False)
    width = reader.integer("hidden_size")
    norm = LayerNormSpec(width=width, eps=reader.number("layer_norm_eps", default=1e-5))
    block = ParallelBlockSpec(
        attention=llama.attention_spec(reader, bias=True, out_bias=True),
        feed_forward=FeedForwardSpec(
            width=width,
            hidden=reader.integer("intermediate_size"),
            activation=reader.text("hidden_act", default="gelu_new"),
        ),
        norm=norm,
        dropout=reader.probability("resid_pdrop", default=0.0),
    )
    return TextSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
            width=width,
            dropout=reader.probability("embd_pdrop", default=0.0),
        ),
        blocks=StackSpec(
            blocks=(block,) * llama.layer_count(reader),
            rotary=llama.partial_rotary(reader, block.attention.E, share=0.5),
        ),
        final_norm=norm,
        tied=reader.flag("tie_word_embeddings", default=False),
        head_bias=True,
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", "hidden_dropout", default=0.1),
        init_std=reader.number("initializer_range", default=0.02),
    )


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names."""
    attention = spec.blocks.blocks[0].attention
    rows = (attention.heads * attention.E, attention.K * attention.E, attention.K * attention.E)
    return WeightNames(
        prefix="model",
        body={
            "embed.tokens": "embed_tokens",
            "blocks.{i}.norm": "layers.{i}.input_layernorm",
            "blocks.{i}.attn.qkv": Fused(tuple(f"layers.{{i}}.self_attn.{p}_proj" for p in "qkv"), rows),
            "blocks.{i}.attn.out": "layers.{i}.self_attn.dense",
            "blocks.{i}.ffn.up": "layers.{i}.mlp.fc1",
            "blocks.{i}.ffn.down": "layers.{i}.mlp.fc2",
            "final_norm": "final_layernorm",
        },
        head={
            "head.decoder.weight": Tied("lm_head.weight") if spec.tied else "lm_head.weight",
            "head.decoder.bias": "lm_head.bias",
            "head.classifier": "score",
        },
        ignored=("layers.{i}.self_attn.rotary_emb.inv_freq",),
    )


FAMILY = Family(
    model_type="phi",
    distinction="parallel attention and feed-forward; rotary positions for a part of each head",
    architectures={
        "PhiModel": "feature-extraction",
        "PhiForCausalLM": "text-generation",
        "PhiForSequenceClassification": "text-classification",
        "PhiForTokenClassification": "token-classification",
    },
    spec=spec,
    build=Decoder,
    names=names,
    tiny={
        "model_type": "phi",
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)
