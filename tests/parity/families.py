"""The parity table: one row a family. A new family is one more row here, and nothing else.

tiny random model of the reference library ─ perturb every parameter ─ save ─┬─ our load ─┬─ equal?
                                                                             └─ theirs ───┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.models import FAMILIES, Family

FP32 = 1e-5  # atol and rtol of outputs
FP64 = 1e-9  # the same in fp64, where the reference's fp32 steps are lifted


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the table has to know about a family.

    variations: name → changes of the tiny config; together they reach every key that the recipe reads
    inert: those that must not change a number
    lifted: fp64 is compared with `glassformer.evaluation.parity.widened`, which lifts the reference's fp32 steps;
        False where it cannot, and then fp64 is compared at 2e-6
    fp32_only: variations that the reference cannot run in fp64 at all
    fp32, reason: a wider tolerance, and why this family needs it
    """

    family: str
    variations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inert: frozenset[str] = frozenset()
    lifted: bool = True
    fp32_only: frozenset[str] = frozenset()
    fp32: float = FP32
    reason: str = ""

    def __post_init__(self) -> None:
        if self.fp32 > FP32 and not self.reason:
            raise ValueError(f"the row of {self.family} widens a tolerance and does not say why")

    @property
    def record(self) -> Family:
        return FAMILIES[self.family]

    @property
    def fp64(self) -> float:
        return FP64 if self.lifted else 2e-6

    @property
    def decodes(self) -> bool:
        return "text-generation" in self.record.tasks

    @property
    def main(self) -> str:
        """The architecture on which variations are tried: the language model."""
        return self.record.architecture("text-generation" if self.decodes else "fill-mask")

    def config(self, **changes: Any) -> dict[str, Any]:
        return {**self.record.tiny, **changes}


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
OLD_LLAMA3 = {key: value for key, value in LLAMA3.items() if key != "rope_type"} | {"type": "llama3"}

ROWS = (
    Row(
        family="bert",
        variations={
            "gelu_new": {"hidden_act": "gelu_new"},
            "relu": {"hidden_act": "relu"},
            "quick_gelu": {"hidden_act": "quick_gelu"},
            "tanh gelu": {"hidden_act": "gelu_pytorch_tanh"},
            "no second segment": {"type_vocab_size": 1},
            "four segments": {"type_vocab_size": 4},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "many heads": {"num_attention_heads": 16},
            "one layer": {"num_hidden_layers": 1},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
            "few positions": {"max_position_embeddings": 12},
        },
    ),
    Row(
        family="gpt2",
        variations={
            "untied": {"tie_word_embeddings": False},
            "exact gelu": {"activation_function": "gelu"},
            "fast gelu": {"activation_function": "gelu_fast"},
            "silu": {"activation_function": "silu"},
            "hidden is 4 D": {"n_inner": None},
            "unscaled scores": {"scale_attn_weights": False},
            "softer with depth": {"scale_attn_by_inverse_layer_idx": True},
            "softer with depth, unscaled": {
                "scale_attn_by_inverse_layer_idx": True,
                "scale_attn_weights": False,
            },
            "reordered": {"reorder_and_upcast_attn": True},
            "large eps": {"layer_norm_epsilon": 1e-2},
            "one layer": {"n_layer": 1},
            "two heads": {"n_head": 2},
            "unused keys": {"summary_type": "mean", "summary_use_proj": False, "summary_first_dropout": 0.3},
            "nulls": {"classifier_dropout": None, "n_inner": None, "summary_activation": None},
        },
        inert=frozenset(
            {"fast gelu", "reordered", "unused keys"}
        ),  # its tanh is gelu_new's, written otherwise
        fp32_only=frozenset({"reordered"}),  # the reference raises unless its scores are fp32
    ),
    Row(
        family="llama",
        variations={
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "as many key heads": {"num_key_value_heads": 4},
            "nulls": {
                "num_key_value_heads": None,
                "head_dim": None,
                "rope_scaling": None,
                "pretraining_tp": None,
            },
            "wide heads": {"head_dim": 16},
            "narrow heads": {"head_dim": 4},
            "attention bias": {"attention_bias": True},
            "feed-forward bias": {"mlp_bias": True},
            "all biases, tied": {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
            "slow rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
            "linear rotary": {
                "rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
            },
            "llama3 rotary": {"rope_parameters": {"rope_theta": 100.0, **LLAMA3}},
            "slow rotary, old": {"rope_theta": 500_000.0},
            "linear rotary, old": {"rope_theta": 1_000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "llama3 rotary, old": {"rope_theta": 100.0, "rope_scaling": OLD_LLAMA3},
            "llama3 rotary, half old": {"rope_theta": 100.0, "rope_scaling": LLAMA3, "rope_parameters": None},
            "llama3 rotary, length from the config": {
                "max_position_embeddings": 24,
                "rope_parameters": {
                    "rope_theta": 100.0,
                    **{k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"},
                },
            },
        },
    ),
)

BY_FAMILY = {row.family: row for row in ROWS}

HEADS = [(row, architecture) for row in ROWS for architecture in row.record.architectures]
VARIATIONS = [(row, name) for row in ROWS for name in row.variations]
