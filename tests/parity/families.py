"""The parity table: one row a family. A new family is one more row here, and nothing else.

tiny random model of the reference library ─ perturb every parameter ─ save ─┬─ our load ─┬─ equal?
                                                                             └─ theirs ───┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.models import FAMILIES, Family, Reader

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
    computed: what files hold beside the parameters and we compute and do not write
    no_dropout: what turns off the dropout of heads, for gradients
    reference_caches, reference_fuses: False where the reference has no cache, or its explicit path alone
    """

    family: str
    variations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inert: frozenset[str] = frozenset()
    lifted: bool = True
    fp32_only: frozenset[str] = frozenset()
    fp32: float = FP32
    reason: str = ""
    computed: frozenset[str] = frozenset()
    no_dropout: Mapping[str, Any] = field(default_factory=lambda: {"classifier_dropout": 0.0})
    reference_caches: bool = True
    reference_fuses: bool = True

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
    def translates(self) -> bool:
        return "translation" in self.record.tasks

    @property
    def main(self) -> str:
        """The architecture on which variations are tried: the language model."""
        writes = ("text-generation", "translation", "fill-mask")
        return self.record.architecture(next(task for task in writes if task in self.record.tasks))

    @property
    def prefix(self) -> str:
        """What the names of a body begin with in files of a model with a head."""
        return self.record.names(self.record.spec(Reader(self.config())), self.record.tasks[-1]).prefix

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

LIKE_ROBERTA: Mapping[str, Mapping[str, Any]] = {
    "padding is 1": {"pad_token_id": 1},
    "padding is 7": {"pad_token_id": 7},
    "few positions": {"max_position_embeddings": 12},
    "no second segment": {"type_vocab_size": 1},
    "relu, but gelu in the head": {"hidden_act": "relu"},
    "gelu_new": {"hidden_act": "gelu_new"},
    "large eps": {"layer_norm_eps": 1e-2},
    "one head": {"num_attention_heads": 1},
    "one layer": {"num_hidden_layers": 1},
    "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
}

PAIR = {
    "gelu": {"activation_function": "gelu"},
    "plain embedding": {"scale_embedding": False},
    "scaled embedding": {"scale_embedding": True},
    "one head in the encoder": {"encoder_attention_heads": 1},
    "two heads in the decoder": {"decoder_attention_heads": 2},
    "wide feed-forward in the encoder": {"encoder_ffn_dim": 64},
    "wide feed-forward in the decoder": {"decoder_ffn_dim": 64},
    "one layer": {"encoder_layers": 1, "decoder_layers": 1},
    "deep decoder": {"decoder_layers": 4},
    "few positions": {"max_position_embeddings": 14},
    "unused keys": {"extra_pos_embeddings": 2, "encoder_layerdrop": 0.1, "add_bias_logits": False},
}
"""What BART and its kin have in common."""
WAVES = frozenset({"encoder.embed_positions.weight", "decoder.embed_positions.weight"})

ROWS = (
    Row(
        family="bart",
        variations={
            **PAIR,
            "relu": {"activation_function": "relu"},
            "old switches": {
                "normalize_before": False,
                "normalize_embedding": True,
                "add_final_layer_norm": False,
                "static_position_embeddings": False,
            },
        },
        inert=frozenset({"gelu", "plain embedding", "unused keys", "old switches"}),
    ),
    Row(
        family="mbart",
        variations={
            **PAIR,
            "old switches": {
                "normalize_before": True,
                "normalize_embedding": True,
                "add_final_layer_norm": True,
                "static_position_embeddings": False,
            },
        },
        inert=frozenset({"gelu", "plain embedding", "unused keys", "old switches"}),
    ),
    Row(
        family="marian",
        variations={
            **PAIR,
            "odd width": {"d_model": 9, "encoder_attention_heads": 1, "decoder_attention_heads": 3},
            "old switches": {
                "normalize_before": False,
                "normalize_embedding": False,
                "add_final_layer_norm": False,
                "static_position_embeddings": True,
                "share_encoder_decoder_embeddings": True,
            },
        },
        inert=frozenset({"scaled embedding", "few positions", "unused keys", "old switches"}),
        computed=WAVES,
    ),
    Row(
        family="pegasus",
        variations={
            **PAIR,
            "old switches": {
                "normalize_before": True,
                "normalize_embedding": False,
                "add_final_layer_norm": True,
                "static_position_embeddings": True,
            },
        },
        inert=frozenset({"scaled embedding", "few positions", "unused keys", "old switches"}),
        computed=WAVES,
    ),
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
    Row(
        family="mistral",
        variations={
            "no window": {"sliding_window": None},
            "window of one": {"sliding_window": 1},
            "window as long as the text": {"sliding_window": 11},
            "window longer than the text": {"sliding_window": 4096},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "wide heads": {"head_dim": 16},
            "nulls": {"head_dim": None, "rope_scaling": None},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
            "slow rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}},
            "slow rotary, old": {"rope_theta": 1_000_000.0},
            "linear rotary, old": {"rope_theta": 1_000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "llama3 rotary": {"rope_parameters": {"rope_theta": 100.0, **LLAMA3}},
        },
        inert=frozenset({"nulls"}),
    ),
    Row(
        family="mixtral",
        variations={
            "one expert": {"num_local_experts": 1, "num_experts_per_tok": 1},
            "one of four experts": {"num_experts_per_tok": 1},
            "three of four experts": {"num_experts_per_tok": 3},
            "all experts": {"num_experts_per_tok": 4},
            "more experts than tokens": {"num_local_experts": 64},
            "window": {"sliding_window": 4},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "wide heads": {"head_dim": 16},
            "nulls": {"head_dim": None, "rope_scaling": None, "sliding_window": None},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
            "fast rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}},
            "fast rotary, old": {"rope_theta": 10_000.0},
            "weight of a loss that is off": {"router_aux_loss_coef": 0.02, "output_router_logits": False},
            "no jitter": {"router_jitter_noise": 0.0},
        },
        inert=frozenset({"weight of a loss that is off", "no jitter", "nulls"}),
    ),
    Row(
        family="phi3",
        variations={
            "no window": {"sliding_window": None},
            "window of one": {"sliding_window": 1},
            "window longer than the text": {"sliding_window": 2047},
            "whole heads turned": {"partial_rotary_factor": 1.0},
            "a quarter of the heads turned": {"partial_rotary_factor": 0.25},
            "a quarter turned, new": {
                "partial_rotary_factor": None,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10_000.0,
                    "partial_rotary_factor": 0.25,
                },
            },
            "slow rotary, old": {"rope_theta": 250_000.0},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "as many key heads": {"num_key_value_heads": None},
            "wide heads": {"head_dim": 16},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
            "unused keys": {
                "attention_bias": False,
                "embd_pdrop": 0.1,
                "original_max_position_embeddings": 32,
                "rope_scaling": None,
            },
        },
        inert=frozenset({"unused keys"}),
    ),
    Row(
        family="qwen2",
        variations={
            "untied": {"tie_word_embeddings": False},
            "no window": {"use_sliding_window": False},
            "window not used": {
                "use_sliding_window": False,
                "sliding_window": 131_072,
                "max_window_layers": 0,
            },
            "null window": {"sliding_window": None},
            "all layers slide": {"max_window_layers": 0},
            "the last layer slides": {"max_window_layers": 2},
            "more than all layers see all": {"max_window_layers": 28},
            "layer by layer": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
            "layer by layer, all": {"layer_types": ["full_attention"] * 3, "use_sliding_window": False},
            "one key head": {"num_key_value_heads": 1},
            "wide heads": {"head_dim": 16},
            "nulls": {"num_key_value_heads": None, "rope_scaling": None, "layer_types": None},
            "no images": {"use_mrope": False},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
            "slow rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}},
            "slow rotary, old": {"rope_theta": 1_000_000.0},
            "linear rotary, old": {"rope_theta": 1_000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        },
        inert=frozenset({"no images"}),
    ),
    Row(
        family="distilbert",
        variations={
            "untied": {"tie_word_embeddings": False},
            "gelu_new": {"activation": "gelu_new"},
            "relu": {"activation": "relu"},
            "waves": {"sinusoidal_pos_embds": True},
            "of an old release": {"tie_weights_": True, "output_past": True},
            "other spellings": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
            "one head": {"n_heads": 1},
            "many heads": {"n_heads": 16},
            "one layer": {"n_layers": 1},
            "narrow": {"dim": 8, "hidden_dim": 5, "n_heads": 2},
            "few positions": {"max_position_embeddings": 12},
        },
        inert=frozenset({"waves", "of an old release"}),  # waves are where a table starts, and are stored
        no_dropout={"seq_classif_dropout": 0.0, "qa_dropout": 0.0},
    ),
    Row(family="roberta", variations=LIKE_ROBERTA),
    Row(family="xlm-roberta", variations=LIKE_ROBERTA),
    Row(
        family="openai-gpt",
        variations={
            "untied": {"tie_word_embeddings": False},
            "relu": {"afn": "relu"},
            "silu": {"afn": "silu"},
            "swish": {"afn": "swish"},
            "large eps": {"layer_norm_epsilon": 1e-2},
            "one layer": {"n_layer": 1},
            "two heads": {"n_head": 2},
            "few positions": {"n_positions": 12},
            "unused keys": {
                "n_ctx": 40,
                "n_special": 0,
                "predict_special_tokens": True,
                "summary_type": "mean",
                "summary_use_proj": False,
                "summary_activation": None,
                "summary_first_dropout": 0.3,
            },
        },
        inert=frozenset({"unused keys"}),
        no_dropout={},
        reference_caches=False,
        reference_fuses=False,
    ),
    Row(
        family="phi",
        variations={
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "two key heads": {"num_key_value_heads": 2},
            "wide heads": {"head_dim": 16},
            "nulls": {"num_key_value_heads": None, "rope_scaling": None},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"layer_norm_eps": 1e-2},
            "one layer": {"num_hidden_layers": 1},
            "a quarter turns": {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10_000.0,
                    "partial_rotary_factor": 0.25,
                }
            },
            "all turns": {
                "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}
            },
            "share in the config, old": {"partial_rotary_factor": 0.8, "rope_theta": 1_000.0},
            "linear rotary": {
                "rope_parameters": {
                    "rope_type": "linear",
                    "rope_theta": 100.0,
                    "factor": 4.0,
                    "partial_rotary_factor": 0.5,
                }
            },
            "linear rotary, old": {
                "partial_rotary_factor": 0.75,
                "rope_theta": 100.0,
                "rope_scaling": {"type": "linear", "factor": 2.0},
            },
            "llama3 rotary, share not given": {"rope_parameters": {"rope_theta": 100.0, **LLAMA3}},
        },
        inert=frozenset({"nulls"}),
    ),
)

BY_FAMILY = {row.family: row for row in ROWS}

HEADS = [(row, architecture) for row in ROWS for architecture in row.record.architectures]
VARIATIONS = [(row, name) for row in ROWS for name in row.variations]
