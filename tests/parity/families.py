"""The parity table: one row a family. A new family is one more row here, and nothing else.

tiny random model of the reference library ─ perturb every parameter ─ save ─┬─ our load ─┬─ equal?
                                                                             └─ theirs ───┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest
from torch import Tensor

from glassformer.models import FAMILIES, ConfigReader, Family
from tests.senses import SENSES, network_of

FP32 = 1e-5  # atol and rtol of outputs
FP64 = 1e-9  # the same in fp64, where the reference's fp32 steps are lifted


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the table has to know about a family.

    variations: name → changes of the tiny config; together they reach every key that the recipe reads
    inert: those that must not change a number
    lifted: fp64 is compared with `glassformer.evaluation.parity.widened`, which lifts the reference's fp32 steps;
        False where it cannot, and then fp64 is compared at 2e-6
    by_longest: those that change with the length of a text, which the reference takes from the longest of a batch
    fp32_only: variations that the reference cannot run in fp64 at all
    fp32, reason: a wider tolerance, and why this family needs it
    computed: what files hold that we compute: it may be missing, and is written back where it was there
    no_dropout: what turns off the dropout of heads, for gradients
    reference_caches, reference_fuses: False where the reference has no cache, or its explicit path alone
    shows: the architecture on which variations are tried, where it is not the language model
    towers: it has several stacks, whose states are compared in a test of its own
    logits: the field on which variations are compared
    final_is_last: the last of the reference's hidden states is the one after the final norm
    probs_of: the probabilities, given the attentions that the reference shows
    moved_by_padding: which keys a token sees depends on where padding stands, ours and theirs
    pools_padding: architectures whose reference counts padding too, in a mean, or in the softmax over positions where a
        window leaves padding without a key; they are compared without any
    untrained: parameters of ours that are loaded and saved, and have no gradient, of some head or of all
    """

    family: str
    variations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inert: frozenset[str] = frozenset()
    by_longest: frozenset[str] = frozenset()
    lifted: bool = True
    fp32_only: frozenset[str] = frozenset()
    fp32: float = FP32
    reason: str = ""
    computed: frozenset[str] = frozenset()
    no_dropout: Mapping[str, Any] = field(default_factory=lambda: {"classifier_dropout": 0.0})
    reference_caches: bool = True
    reference_fuses: bool = True
    shows: str | None = None
    towers: bool = False
    logits: str = "logits"
    final_is_last: bool = True
    probs_of: Callable[[Tensor], Tensor] = lambda shown: shown
    moved_by_padding: bool = False
    pools_padding: frozenset[str] = frozenset()
    untrained: frozenset[str] = frozenset({"head.constant.values"})

    def __post_init__(self) -> None:
        if self.fp32 > FP32 and not self.reason:
            raise ValueError(f"the row of {self.family} widens a tolerance and does not say why")

    @property
    def record(self) -> Family:
        return FAMILIES[self.family]

    @property
    def repeats(self) -> bool:
        """Whether an earlier row has the same network, of other parts: `make soak` tries this one in fp64."""
        return next(row for row in ROWS if row.record.build is self.record.build) is not self

    @property
    def fp64(self) -> float:
        return FP64 if self.lifted else 2e-6

    @property
    def decodes(self) -> bool:
        return self.record.architectures[self.main] == "text-generation"

    @property
    def translates(self) -> bool:
        """Does a decoder write next to an encoder that reads?"""
        return "decoder_input_ids" in self.reads

    @cached_property
    def reads(self) -> tuple[str, ...]:
        return network_of({**self.record.tiny, "architectures": [self.main]}).READS

    @property
    def senses(self) -> bool:
        """Does it read a picture or a sound?"""
        return any(field in self.reads for field in SENSES)

    @property
    def one_stack(self) -> bool:
        """Are the reference's hidden states and attentions those of one stack?"""
        return not self.towers and not self.translates

    @property
    def paddings(self) -> tuple[str, ...]:
        """Where a batch can be padded: texts on either side, a wave at its end, a picture nowhere."""
        if "input_values" in self.reads:
            return ("none", "right")
        return ("none",) if self.senses and not self.translates else ("none", "right", "left")

    def paddings_of(self, architecture: str) -> tuple[str, ...]:
        """The paddings with which a head is compared."""
        return ("none",) if architecture in self.pools_padding else self.paddings

    @property
    def main(self) -> str:
        """The architecture on which variations are tried: the language model."""
        if self.shows is not None:
            return self.shows
        writes = ("fill-mask", "text-generation", "translation")
        return self.record.architecture(next(task for task in writes if task in self.record.tasks))

    @property
    def prefix(self) -> str:
        """What the names of a body begin with in files of a model with a head."""
        task = self.record.architectures[self.main]
        return self.record.names(self.record.spec(ConfigReader(self.config())), task).prefix

    def config(self, architecture: str | None = None, **changes: Any) -> dict[str, Any]:
        """The tiny config, with what an architecture requires."""
        task = self.record.architectures[architecture or self.main]
        return {**self.record.tiny, **self.record.requires.get(task, {}), **changes}


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3, 1.6],
    "long_factor": [1.0, 1.7, 4.0, 8.0],
    "original_max_position_embeddings": 8,
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
SOUND: Mapping[str, Mapping[str, Any]] = {
    "relu in the convolutions": {"feat_extract_activation": "relu"},
    "gelu_new in the blocks": {"hidden_act": "gelu_new"},
    "two convolutions": {"conv_dim": [8, 24], "conv_kernel": [40, 3], "conv_stride": [20, 2]},
    "one convolution": {"conv_dim": [8], "conv_kernel": [40], "conv_stride": [40]},
    "as published": {
        "conv_dim": [8] * 7,
        "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
        "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    },
    "odd kernel for positions": {"num_conv_pos_embeddings": 5},
    "no neighbours": {"num_conv_pos_embeddings": 1},
    "neighbours beyond the sound": {"num_conv_pos_embeddings": 128},
    "as many groups as channels": {"num_conv_pos_embedding_groups": 32},
    "one group": {"num_conv_pos_embedding_groups": 1},
    "large eps": {"layer_norm_eps": 1e-2},
    "one head": {"num_attention_heads": 1},
    "one layer": {"num_hidden_layers": 1},
    "training hides time": {"mask_time_prob": 0.05, "mask_time_length": 5, "mask_time_min_masks": 1},
    "training hides channels": {
        "mask_feature_prob": 0.1,
        "mask_feature_length": 4,
        "mask_feature_min_masks": 1,
    },
    "training hides nothing": {"mask_time_prob": 0.05, "apply_spec_augment": False},
    "of an old release": {
        "feat_extract_dropout": 0.1,
        "freeze_feat_extract_train": True,
        "hidden_dropout_prob": 0.1,
        "mask_channel_length": 10,
        "mask_channel_min_space": 1,
        "mask_channel_other": 0.0,
        "mask_channel_prob": 0.0,
        "mask_channel_selection": "static",
        "mask_time_min_space": 1,
        "mask_time_other": 0.0,
        "mask_time_selection": "static",
        "no_mask_channel_overlap": False,
        "no_mask_time_overlap": False,
        "num_feat_extract_layers": 3,
        "replace_prob": 0.5,
        "tokenizer_class": "Wav2Vec2CTCTokenizer",
    },
    "nulls": {"adapter_attn_dim": None, "output_hidden_size": None},
}
"""What wav2vec 2.0 and HuBERT have in common."""
SOUND_INERT = frozenset({"of an old release", "nulls"})
CTC_ROUNDS = "torch's CTC loss, of random weights, has gradients of 10 that are exact to five places in fp32"
NO_SOUND_DROPOUT = {"mask_time_prob": 0.0, "mask_feature_prob": 0.0, "layerdrop": 0.0}

WAVES = frozenset({"encoder.embed_positions.weight", "decoder.embed_positions.weight"})


def every_time_the_first_block_counts(shown: Tensor) -> Tensor:
    """BigBird's first block counts twice in evaluation, but for queries of the first and the last; once is shown."""
    probs = shown.clone()
    probs[:, :, 1:-1, 0] *= 2
    return probs


CLIP = FAMILIES["clip"].tiny
CLIP_TOWER: Mapping[str, Mapping[str, Any]] = {
    "gelu": {"hidden_act": "gelu"},
    "large eps": {"layer_norm_eps": 1e-2},
    "one head": {"num_attention_heads": 1},
    "one layer": {"num_hidden_layers": 1},
    "narrow": {"hidden_size": 8, "intermediate_size": 5},
    "narrow projection": {"projection_dim": 7},
    "unused keys": {"initializer_factor": 2.0, "dropout": 0.3},
}

LIKE_DEBERTA = {
    "content to position alone": {"pos_att_type": ["c2p"]},
    "position to content alone": {"pos_att_type": "p2c"},
    "no terms of positions": {"pos_att_type": []},
    "no relative positions, and their scale": {"relative_attention": False, "norm_rel_ebd": "none"},
    "head of the published files": {"legacy": False},
    "relu": {"hidden_act": "relu"},
    "large eps": {"layer_norm_eps": 1e-2},
    "one head": {"num_attention_heads": 1},
    "one layer": {"num_hidden_layers": 1},
    "keys of heads": {
        **{"cls_dropout": 0.3, "pooler_dropout": 0.2, "pooler_hidden_act": "relu"},
        **{"embedding_size": 32, "pooler_hidden_size": 32},
    },
}

ROWS = (
    Row(
        family="bart",
        shows="BartForConditionalGeneration",
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
        shows="MBartForConditionalGeneration",
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
        shows="MarianMTModel",
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
            "a table for each side": {"share_encoder_decoder_embeddings": False},
            "two vocabularies": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 120},
            "two vocabularies and a head": {
                "share_encoder_decoder_embeddings": False,
                "decoder_vocab_size": 120,
                "tie_word_embeddings": False,
            },
        },
        inert=frozenset({"scaled embedding", "few positions", "unused keys", "old switches"}),
    ),
    Row(
        family="pegasus",
        shows="PegasusForConditionalGeneration",
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
        family="t5",
        variations={
            "version 1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
            "version 1.1, as newer configs say it": {
                "feed_forward_proj": "gated-gelu",
                "dense_act_fn": "gelu_new",
                "is_gated_act": True,
                "tie_word_embeddings": True,
                "scale_decoder_outputs": False,
            },
            "unscaled": {"tie_word_embeddings": False},
            "gated": {"feed_forward_proj": "gated-gelu"},
            "gated silu": {"feed_forward_proj": "gated-silu"},
            "exact gelu": {"feed_forward_proj": "gelu"},
            "silu": {"feed_forward_proj": "silu"},
            "activation of newer configs": {"dense_act_fn": "gelu"},
            "gate of newer configs": {"is_gated_act": True},
            "as deep on both sides": {"num_decoder_layers": None},
            "one layer": {"num_layers": 1, "num_decoder_layers": 1},
            "deep decoder": {"num_decoder_layers": 4},
            "one head": {"num_heads": 1},
            "wide heads": {"d_kv": 16},
            "other spellings": {
                "hidden_size": 16,
                "num_attention_heads": 2,
                "num_hidden_layers": 2,
                "head_dim": 5,
            },
            "buckets and distance of the paper": {
                "relative_attention_num_buckets": 32,
                "relative_attention_max_distance": 128,
            },
            "long distance": {"relative_attention_max_distance": 128},
            "few buckets": {"relative_attention_num_buckets": 4},
            "short distance": {"relative_attention_max_distance": 5},
            "large eps": {"layer_norm_epsilon": 1e-2},
            "of an old release": {
                "n_positions": 512,
                "output_past": True,
                "task_specific_params": {"summarization": {"prefix": "summarize: "}},
            },
        },
        inert=frozenset({"of an old release"}),
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
        family="albert",
        variations={
            "gelu": {"hidden_act": "gelu"},
            "no second segment": {"type_vocab_size": 1},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "one layer": {"num_hidden_layers": 1},
            "five layers in two groups": {"num_hidden_layers": 5, "num_hidden_groups": 2},
            "two blocks a layer": {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
            "embedding as wide as the layers": {"embedding_size": 24},
            "few positions": {"max_position_embeddings": 12},
            "unused keys": {**{"down_scale_factor": 2, "gap_size": 1, "net_structure_type": 1, "num_memory_blocks": 3}},
        },
        inert=frozenset({"unused keys"}),
        no_dropout={"classifier_dropout_prob": 0.0},
    ),
    Row(
        family="electra",
        variations={
            "gelu_new": {"hidden_act": "gelu_new"},
            "no second segment": {"type_vocab_size": 1},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "one layer": {"num_hidden_layers": 1},
            "embedding as wide as the layers": {"embedding_size": 24},
            "output of its own": {"tie_word_embeddings": False},
            "few positions": {"max_position_embeddings": 12},
            "unused keys": {
                **{"summary_type": "mean", "summary_use_proj": False, "summary_activation": "tanh"},
                "summary_last_dropout": 0.7,
            },
        },
        inert=frozenset({"unused keys"}),
    ),
    Row(
        family="tapas",
        variations={
            "gelu_new": {"hidden_act": "gelu_new"},
            "positions of the whole text": {"reset_position_index_per_cell": False},
            "few kinds": {"type_vocab_sizes": [1, 2, 3, 1, 1, 1, 1]},
            "more columns": {"type_vocab_sizes": [3, 4, 5, 2, 4, 4, 3, 6]},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "one layer": {"num_hidden_layers": 1},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
            "few positions": {"max_position_embeddings": 12},
            "fewer positions than tokens": {"max_position_embeddings": 2},
            "keys of the head": {
                "allow_empty_column_selection": True,
                "select_one_column": False,
                "average_logits_per_cell": True,
                "temperature": 0.5,
                "max_num_rows": 2,
                "max_num_columns": 2,
                "init_cell_selection_weights_to_zero": True,
                "disable_per_token_loss": True,
                "positive_label_weight": 3.0,
                "aggregation_loss_weight": 2.0,
                "use_answer_as_supervision": True,
            },
            "unused keys": {
                "softmax_temperature": 1.0,
                "type_vocab_size": [3, 4, 5, 2, 4, 4, 3],
                "aggregation_labels": {"0": "NONE", "1": "SUM"},
                "no_aggregation_label_index": 0,
                "aggregation_temperature": 0.5,
                "answer_loss_cutoff": 0.6,
                "answer_loss_importance": 2.0,
                "average_approximation_function": "first_order",
                "cell_selection_preference": 0.2,
                "huber_loss_delta": 0.1,
                "use_gumbel_for_aggregation": True,
                "use_gumbel_for_cells": True,
                "use_normalized_answer_loss": True,
            },
        },
        inert=frozenset({"keys of the head", "unused keys"}),
        reference_fuses=False,
    ),
    Row(
        family="lxmert",
        variations={
            "gelu_new": {"hidden_act": "gelu_new"},
            "no second segment": {"type_vocab_size": 1},
            "one head": {"num_attention_heads": 1},
            "one layer of each": {"l_layers": 1, "r_layers": 1, "x_layers": 1},
            "many layers": {"l_layers": 2, "r_layers": 4, "x_layers": 3},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
            "few positions": {"max_position_embeddings": 12},
            "other regions": {"visual_feat_dim": 9, "visual_pos_dim": 6},
            "other answers": {"num_qa_labels": 3},
            "keys of pre-training": {
                "num_object_labels": 2,
                "num_attr_labels": 2,
                "visual_loss_normalizer": 1.0,
                "task_mask_lm": False,
                "task_matched": False,
                "task_obj_predict": False,
                "visual_obj_loss": False,
                "visual_attr_loss": False,
                "visual_feat_loss": False,
            },
            "unused keys": {"layer_norm_eps": 1e-2},
        },
        inert=frozenset({"keys of pre-training", "unused keys"}),
        shows="LxmertForQuestionAnswering",
        logits="question_answering_score",
        towers=True,
        no_dropout={},
        reference_fuses=False,
        untrained=frozenset(  # of the last regions, which neither words nor answers read
            f"vision.crossed.1.{part}.{leaf}"
            for part in (
                "attn.qkv",
                "attn.out",
                "attn_residual.on_residual",
                "ffn.up",
                "ffn.down",
                "ffn_residual.on_residual",
            )
            for leaf in ("weight", "bias")
        ),
    ),
    Row(
        family="dpr",
        variations={
            "relu": {"hidden_act": "relu"},
            "no second segment": {"type_vocab_size": 1},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "one layer": {"num_hidden_layers": 1},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
            "few positions": {"max_position_embeddings": 12},
            "nothing projected": {"projection_dim": 0},
        },
        inert=frozenset({"nothing projected"}),
        shows="DPRContextEncoder",
        logits="pooler_output",
    ),
    Row(
        family="layoutlm",
        variations={
            "gelu_new": {"hidden_act": "gelu_new"},
            "no second segment": {"type_vocab_size": 1},
            "large page": {"max_2d_position_embeddings": 1024},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "one layer": {"num_hidden_layers": 1},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
            "few positions": {"max_position_embeddings": 12},
            "of an old release": {"output_past": True},
        },
        inert=frozenset({"of an old release"}),
    ),
    Row(
        family="big_bird",  # tiny: blocks of one token, so that few tokens are many blocks
        variations={
            "full attention": {"attention_type": "original_full"},
            "texts too short for blocks": {"block_size": 64, "num_random_blocks": 3},
            "two drawn": {"num_random_blocks": 2},
            "no bias in q, k, v": {"use_bias": False},
            "scaled embedding": {"rescale_embeddings": True},
            "exact gelu": {"hidden_act": "gelu"},
            "relu": {"hidden_act": "relu"},
            "no second segment": {"type_vocab_size": 1},
            "four segments": {"type_vocab_size": 4},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "many heads": {"num_attention_heads": 16},
            "one layer": {"num_hidden_layers": 1},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
            "few positions": {"max_position_embeddings": 12},
            "unused keys": {
                "position_embedding_type": "absolute",
                "add_cross_attention": False,
                "sep_token_id": 5,
            },
        },
        inert=frozenset({"unused keys"}),
        reference_fuses=False,
        probs_of=every_time_the_first_block_counts,
        moved_by_padding=True,
    ),
    Row(
        family="clip",
        variations={
            "narrow meeting": {"projection_dim": 5},
            "wide meeting": {"projection_dim": 40},
            "end token": {"text_config": {**CLIP["text_config"], "eos_token_id": 97}},
            "gelu in the text tower": {"text_config": {**CLIP["text_config"], "hidden_act": "gelu"}},
            "gelu in the vision tower": {"vision_config": {**CLIP["vision_config"], "hidden_act": "gelu"}},
            "large eps of texts": {"text_config": {**CLIP["text_config"], "layer_norm_eps": 1e-2}},
            "large eps of pictures": {"vision_config": {**CLIP["vision_config"], "layer_norm_eps": 1e-2}},
            "one head each": {
                "text_config": {**CLIP["text_config"], "num_attention_heads": 1},
                "vision_config": {**CLIP["vision_config"], "num_attention_heads": 1},
            },
            "few positions": {"text_config": {**CLIP["text_config"], "max_position_embeddings": 11}},
            "small patches": {"vision_config": {**CLIP["vision_config"], "patch_size": 3}},
            "grey": {"vision_config": {**CLIP["vision_config"], "num_channels": 1}},
            "narrow": {
                "text_config": {**CLIP["text_config"], "hidden_size": 8, "intermediate_size": 5},
                "vision_config": {**CLIP["vision_config"], "hidden_size": 12, "num_hidden_layers": 1},
            },
            "towers in old spelling": {
                "text_config": {"vocab_size": 20},
                "text_config_dict": {**CLIP["text_config"], "hidden_act": "relu"},
                "vision_config_dict": {**CLIP["vision_config"], "hidden_act": "relu"},
                "vision_config": {"image_size": 12},
            },
            "unused keys": {
                "logit_scale_init_value": 1.0,
                "initializer_factor": 2.0,
                "text_config": {**CLIP["text_config"], "projection_dim": 99, "dropout": 0.3},
                "vision_config": {**CLIP["vision_config"], "projection_dim": 99, "initializer_factor": 3.0},
                "text_config_dict": None,
                "vision_config_dict": None,
            },
        },
        inert=frozenset({"unused keys"}),
        no_dropout={},
        shows="CLIPModel",
        untrained=frozenset({"final_norm.weight", "final_norm.bias"}),  # of a classifier
        towers=True,
        logits="logits_per_text",
        final_is_last=False,
    ),
    Row(
        family="clip_text_model",
        variations={
            **CLIP_TOWER,
            "few positions": {"max_position_embeddings": 11},
        },
        inert=frozenset({"unused keys"}),
        no_dropout={},
        shows="CLIPTextModelWithProjection",
        logits="text_embeds",
        final_is_last=False,
    ),
    Row(
        family="clip_vision_model",
        variations={
            **CLIP_TOWER,
            "small patches": {"patch_size": 3},
            "larger picture": {"image_size": 20},
            "grey": {"num_channels": 1},
        },
        inert=frozenset({"unused keys"}),
        no_dropout={},
        shows="CLIPVisionModelWithProjection",
        logits="image_embeds",
        final_is_last=False,
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
        inert=frozenset({"fast gelu", "reordered", "unused keys"}),  # its tanh is gelu_new's, written otherwise
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
            "linear rotary": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}},
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
            "yarn rotary": {"rope_parameters": {"rope_theta": 100.0, **YARN}},
            "yarn rotary, old": {
                "rope_theta": 100.0,
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
            },
            "yarn rotary, ramp and attention given": {
                "rope_parameters": {
                    **{"rope_theta": 100.0, **YARN, "beta_fast": 4.0, "beta_slow": 0.5},
                    **{"truncate": False, "attention_factor": 0.8},
                }
            },
            "yarn rotary, attention of DeepSeek": {
                "rope_parameters": {"rope_theta": 100.0, **YARN, "mscale": 1.0, "mscale_all_dim": 0.4}
            },
            "yarn rotary, factor from the lengths": {"rope_parameters": {"rope_theta": 100.0, **YARN, "factor": None}},
            "yarn rotary, length outside the section": {
                "original_max_position_embeddings": 32,
                "rope_parameters": {"rope_theta": 100.0, **YARN},
            },
            "dynamic rotary": {
                "max_position_embeddings": 8,
                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
            },
            "dynamic rotary, old": {
                "max_position_embeddings": 8,
                "rope_scaling": {"type": "dynamic", "factor": 2.0},
            },
            "dynamic rotary, short text": {
                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
            },
            "longrope rotary, long text": {"rope_parameters": {"rope_theta": 100.0, **LONGROPE}},
            "longrope rotary, short text": {
                "rope_parameters": {
                    **{"rope_theta": 100.0, **LONGROPE},
                    **{"original_max_position_embeddings": 16, "factor": 2.0},
                }
            },
            "longrope rotary, attention given": {
                "rope_parameters": {"rope_theta": 100.0, **LONGROPE, "attention_factor": 1.3}
            },
        },
        inert=frozenset({"dynamic rotary, short text"}),
        by_longest=frozenset({"dynamic rotary", "dynamic rotary, old", "longrope rotary, long text"})
        | {"longrope rotary, attention given"},
    ),
    Row(
        family="gemma",
        variations={
            "exact gelu is its approximation": {"hidden_act": "gelu"},
            "silu": {"hidden_act": "silu"},
            "untied": {"tie_word_embeddings": False},
            "one key head": {"num_key_value_heads": 1},
            "wide heads": {"head_dim": 16},
            "biases": {"attention_bias": True},
            "large eps": {"rms_norm_eps": 1e-2},
            "slow rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
            "slow rotary, old": {"rope_theta": 500_000.0},
            "unused keys": {"hidden_activation": "relu", "cache_implementation": "hybrid"},
        },
        inert=frozenset({"exact gelu is its approximation", "unused keys"}),
    ),
    Row(
        family="gemma2",
        variations={
            "no caps": {"attn_logit_softcapping": None, "final_logit_softcapping": None},
            "caps as published": {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
            "a cap of logits alone": {"attn_logit_softcapping": None},
            "a cap of scores alone": {"final_logit_softcapping": None},
            "scores divided by more": {"query_pre_attn_scalar": 144},
            "window of one": {"sliding_window": 1},
            "window longer than the text": {"sliding_window": 4096},
            "no layer slides": {"layer_types": ["full_attention"] * 3},
            "two layers slide": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
            "silu": {"hidden_activation": "silu"},
            "untied": {"tie_word_embeddings": False},
            "one key head": {"num_key_value_heads": 1},
            "as many key heads": {"num_key_value_heads": 4},
            "wide heads": {"head_dim": 16},
            "biases": {"attention_bias": True},
            "large eps": {"rms_norm_eps": 1e-2},
            "slow rotary, old": {"rope_theta": 500_000.0},
            "unused keys": {"hidden_act": "relu", "cache_implementation": "hybrid"},
        },
        inert=frozenset({"unused keys"}),
        reference_fuses=False,
    ),
    Row(
        family="gemma3_text",
        variations={
            "every third layer sees all": {"sliding_window_pattern": 3},
            "each layer named": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
            "no layer slides": {"layer_types": ["full_attention"] * 3},
            "scores divided by more": {"query_pre_attn_scalar": 144},
            "capped logits": {"final_logit_softcapping": 1.5},
            "window of one": {"sliding_window": 1},
            "silu": {"hidden_activation": "silu"},
            "untied": {"tie_word_embeddings": False},
            "one key head": {"num_key_value_heads": 1},
            "wide heads": {"head_dim": 16},
            "biases": {"attention_bias": True},
            "large eps": {"rms_norm_eps": 1e-2},
            "other bases, old": {"rope_theta": 100.0, "rope_local_base_freq": 20.0},
            "scaled without a window, old": {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
            "other bases and scaling": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 8.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
                }
            },
            "one base given": {
                "rope_local_base_freq": 20.0,
                "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 100.0}},
            },
        },
    ),
    Row(
        family="granite",
        variations={
            "no multipliers": {
                "embedding_multiplier": 1.0,
                "attention_multiplier": 1.0,
                "residual_multiplier": 1.0,
                "logits_scaling": 1.0,
            },
            "as published": {
                "embedding_multiplier": 12,
                "attention_multiplier": 0.0078125,
                "residual_multiplier": 0.22,
                "logits_scaling": 16,
            },
            "larger embeddings": {"embedding_multiplier": 12.0},
            "softer attention": {"attention_multiplier": 0.0625},
            "a larger residual branch": {"residual_multiplier": 1.5},
            "larger logits": {"logits_scaling": 0.5},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "as many key heads": {"num_key_value_heads": None},
            "wide heads": {"head_dim": 16},
            "biases": {"attention_bias": True, "mlp_bias": True},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
            "slow rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
            "slow rotary, old": {"rope_theta": 500_000.0},
            "linear rotary, old": {"rope_theta": 1_000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
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
        pools_padding=frozenset({"MistralForQuestionAnswering"}),
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
        family="modernbert",
        variations={
            "window of one": {"local_attention": 1},
            "window of an odd number": {"local_attention": 5},
            "window longer than the text": {"local_attention": 128},
            "every second layer global": {"global_attn_every_n_layers": 2},
            "every layer global": {"global_attn_every_n_layers": 1},
            "layers by name": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
            "bases, old": {"global_rope_theta": 100.0, "local_rope_theta": 1_000.0},
            "bases": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 100.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1_000.0},
                }
            },
            "base of one kind of layers": {
                "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
            },
            "yarn in global layers": {
                "rope_parameters": {
                    "full_attention": {"rope_theta": 100.0, **YARN},
                    "sliding_attention": {"rope_type": "default"},
                }
            },
            "linear rotary, old": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
            "biases": {"attention_bias": True, "mlp_bias": True, "norm_bias": True},
            "biases of norms alone": {"norm_bias": True},
            "bias of the transform": {"classifier_bias": True},
            "no bias of the output": {"decoder_bias": False},
            "output of its own": {"tie_word_embeddings": False},
            "relu": {"hidden_activation": "relu"},
            "relu in the heads": {"classifier_activation": "relu"},
            "large eps": {"norm_eps": 1e-2},
            "one layer": {"num_hidden_layers": 1},
            "unused keys": {
                **{"sparse_prediction": True, "sparse_pred_ignore_index": -1, "layer_norm_eps": 0.5},
                **{"deterministic_flash_attn": True, "position_embedding_type": "absolute"},
                **{"cls_token_id": 5, "initializer_cutoff_factor": 3.0, "repad_logits_with_grad": True},
                **{"reference_compile": False, "classifier_pooling": "mean", "max_position_embeddings": 9},
            },
        },
        inert=frozenset({"unused keys"}),
        pools_padding=frozenset({"ModernBertForQuestionAnswering"}),
    ),
    Row(
        family="mpnet",
        variations={
            "relu": {"hidden_act": "relu"},
            "large eps": {"layer_norm_eps": 1e-2},
        },
        reference_fuses=False,
    ),
    Row(
        family="nomic_bert",
        variations={
            "gelu": {"hidden_act": "gelu"},
            "wide heads": {"head_dim": 12},
            "narrow heads": {"head_dim": 4},
            "one token type": {"type_vocab_size": 1},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "one layer": {"num_hidden_layers": 1},
            "slow rotary": {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}},
            "slow rotary, old": {"rope_theta": 10_000.0},
            "dynamic rotary": {
                "max_position_embeddings": 8,
                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1_000.0, "factor": 2.0},
            },
            "yarn rotary": {"rope_parameters": {"rope_theta": 100.0, **YARN}},
        },
        by_longest=frozenset({"dynamic rotary"}),
    ),
    Row(
        family="olmo2",
        variations={
            "slow rotary, old": {"rope_theta": 250_000.0},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "as many key heads": {"num_key_value_heads": None},
            "biases": {"attention_bias": True},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
        },
    ),
    Row(
        family="qwen3",
        variations={
            "no window": {"use_sliding_window": False},
            "window of one": {"sliding_window": 1},
            "layers by name": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
            "yarn rotary": {"rope_parameters": {"rope_theta": 100.0, **YARN}},
            "slow rotary, old": {"rope_theta": 250_000.0},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "narrow heads": {"head_dim": 8},
            "biases": {"attention_bias": True},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"rms_norm_eps": 1e-2},
        },
        pools_padding=frozenset({"Qwen3ForQuestionAnswering"}),
    ),
    Row(
        family="starcoder2",
        variations={
            "no window": {"sliding_window": None},
            "window of one": {"sliding_window": 1},
            "slow rotary, old": {"rope_theta": 250_000.0},
            "untied": {"tie_word_embeddings": False},
            "one key head": {"num_key_value_heads": 1},
            "as many key heads": {"num_key_value_heads": 4},
            "no biases": {"use_bias": False},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"norm_epsilon": 1e-2},
        },
        no_dropout={"classifier_dropout": 0.0, "residual_dropout": 0.0, "embedding_dropout": 0.0},
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
            "longrope, long text": {
                "original_max_position_embeddings": 8,
                "rope_scaling": {
                    **{"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.0, 6.0]},
                    "original_max_position_embeddings": 16,  # that outside the section counts
                },
            },
            "longrope of the first release, short text": {
                "original_max_position_embeddings": 16,
                "rope_scaling": {
                    **{"type": "su", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.0, 6.0]},
                    "original_max_position_embeddings": 16,
                },
            },
            "longrope called yarn, no original length": {
                "max_position_embeddings": 8192,
                "rope_scaling": {
                    "type": "yarn",
                    "short_factor": [1.0, 1.1, 1.3],
                    "long_factor": [1.0, 2.0, 6.0],
                },
            },
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
        by_longest=frozenset({"longrope, long text"}),
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
            "yarn rotary, old": {
                "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 16, "type": "yarn"}
            },
            "linear rotary, old": {"rope_theta": 1_000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        },
        inert=frozenset({"no images"}),
        pools_padding=frozenset({"Qwen2ForQuestionAnswering"}),
    ),
    Row(
        family="deberta",
        variations={
            **LIKE_DEBERTA,
            "two token types": {"type_vocab_size": 2},
            "as far as there are positions": {"max_relative_positions": -1},
            "no absolute positions": {"position_biased_input": False},
            "few relative positions": {"max_relative_positions": 3},
            "another form of the terms": {"pos_att_type": "p2c|c2p", "talking_head": False},
            "keys of the second version": {
                "norm_rel_ebd": "layer_norm",
                "share_att_key": True,
                "position_buckets": 8,
            },
        },
        inert=frozenset(
            {
                "keys of heads",
                "another form of the terms",
                "head of the published files",
                "keys of the second version",
            }
        ),
        no_dropout={},
        reference_fuses=False,
        pools_padding=frozenset({"DebertaForQuestionAnswering"}),
    ),
    Row(
        family="deberta-v2",
        variations={
            **LIKE_DEBERTA,
            "two token types": {"type_vocab_size": 2},
            "absolute positions": {"position_biased_input": True},
            "a bucket for each distance": {"position_buckets": -1, "max_relative_positions": 5},
            "as far as there are positions": {"position_buckets": -1, "max_relative_positions": -1},
            "four buckets": {"position_buckets": 4},
            "buckets up to the longest text": {"max_relative_positions": -1},
            "positions not normed": {"norm_rel_ebd": "none"},
            "weights of positions": {"share_att_key": False},
            "weights of content to position": {"share_att_key": False, "pos_att_type": ["c2p"]},
            "width of a head": {"attention_head_size": 8},
            "no convolution": {"conv_kernel_size": 0},
            "wide convolution in groups": {"conv_kernel_size": 5, "conv_groups": 4},
            "convolution with gelu": {"conv_act": "gelu"},
        },
        inert=frozenset({"keys of heads", "width of a head", "head of the published files"}),
        no_dropout={},
        reference_fuses=False,
        pools_padding=frozenset({"DebertaV2ForQuestionAnswering"}),
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
    Row(family="camembert", variations=LIKE_ROBERTA),
    Row(
        family="xlm",
        variations={
            "untied": {"tie_word_embeddings": False},
            "relu": {"gelu_activation": False},
            "causal": {"causal": True},
            "waves": {"sinusoidal_embeddings": True},
            "many languages, no table of them": {"n_langs": 17, "use_lang_emb": False},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"n_heads": 1},
            "one layer": {"n_layers": 1},
            "narrow": {"emb_dim": 8, "n_heads": 2},
            "few positions": {"max_position_embeddings": 12},
            "unused keys": {
                "bos_index": 0,
                "eos_index": 1,
                "unk_index": 3,
                "mask_index": 5,
                "mask_token_id": 0,
                "lang_id": 0,
                "is_encoder": True,
                "asm": False,
                "summary_type": "first",
                "summary_use_proj": True,
                "summary_activation": None,
                "summary_proj_to_labels": True,
                "start_n_top": 3,
                "end_n_top": 3,
                "max_vocab": -1,
                "min_count": 0,
                "share_inout_emb": True,
                "same_enc_dec": True,
            },
        },
        inert=frozenset({"waves", "many languages, no table of them", "unused keys"}),  # waves are stored
        no_dropout={"summary_first_dropout": 0.0},
        reference_fuses=False,
    ),
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
            "dynamic rotary": {
                "max_position_embeddings": 8,
                "rope_parameters": {
                    **{"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
                    "partial_rotary_factor": 0.5,
                },
            },
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
        by_longest=frozenset({"dynamic rotary"}),
    ),
    Row(
        family="gpt_neox",
        variations={
            "serial": {"use_parallel_residual": False},
            "serial, no biases": {"use_parallel_residual": False, "attention_bias": False},
            "no biases": {"attention_bias": False},
            "tied": {"tie_word_embeddings": True},
            "one head": {"num_attention_heads": 1},
            "gelu_new": {"hidden_act": "gelu_new"},
            "large eps": {"layer_norm_eps": 1e-2},
            "one layer": {"num_hidden_layers": 1},
            "a quarter turns, old": {"rotary_pct": 0.25},
            "all turns, old": {"rotary_pct": 1.0, "rotary_emb_base": 100.0},
            "share in the section": {
                "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.75}
            },
            "share outside the section": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
            "linear rotary, old": {"rotary_emb_base": 100.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "dynamic rotary": {
                "max_position_embeddings": 8,
                "rope_parameters": {
                    **{"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
                    "partial_rotary_factor": 0.5,
                },
            },
            "as published": {"is_decoder": True, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
            "rotary keys of other families": {"rope_theta": 100.0, "partial_rotary_factor": 1.0},
        },
        inert=frozenset({"as published", "rotary keys of other families"}),
        by_longest=frozenset({"dynamic rotary"}),
        no_dropout={"classifier_dropout": 0.0, "hidden_dropout": 0.0},
    ),
    Row(
        family="stablelm",
        variations={
            "parallel": {"use_parallel_residual": True},
            "parallel, no head norms": {"use_parallel_residual": True, "qk_layernorm": False},
            "no head norms": {"qk_layernorm": False},
            "no biases": {"use_qkv_bias": False},
            "tied": {"tie_word_embeddings": True},
            "one key head": {"num_key_value_heads": 1},
            "a key head each": {"num_key_value_heads": 4},
            "gelu": {"hidden_act": "gelu"},
            "large eps": {"layer_norm_eps": 1e-2},
            "one layer": {"num_hidden_layers": 1},
            "all turns": {
                "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}
            },
            "share in the config, old": {"partial_rotary_factor": 0.5, "rope_theta": 1_000.0},
            "linear rotary": {
                "rope_parameters": {
                    **{"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0},
                    "partial_rotary_factor": 0.5,
                }
            },
        },
    ),
    Row(
        family="hubert",
        variations={
            **SOUND,
            "large": {
                "feat_extract_norm": "layer",
                "conv_bias": True,
                "do_stable_layer_norm": True,
            },
            "norm before": {"do_stable_layer_norm": True},
            "convolutions with bias": {"conv_bias": True},
            "no norm of features": {"feat_proj_layer_norm": False},
            "weights normed": {"conv_pos_batch_norm": False},
        },
        inert=SOUND_INERT | {"weights normed"},
        no_dropout=NO_SOUND_DROPOUT,
        fp32=1e-4,
        reason=CTC_ROUNDS,
        shows="HubertForCTC",
    ),
    Row(
        family="vit",
        variations={
            "no bias on q, k, v": {"qkv_bias": False},
            "small patches": {"patch_size": 2},
            "larger picture": {"image_size": 20},
            "edges as pairs": {"image_size": [12, 12], "patch_size": [6, 6]},
            "pixels left over": {"patch_size": 5},
            "grey": {"num_channels": 1},
            "other pooler": {"pooler_act": "relu", "pooler_output_size": 32, "encoder_stride": 4},
            "gelu_new": {"hidden_act": "gelu_new"},
            "relu": {"hidden_act": "relu"},
            "large eps": {"layer_norm_eps": 1e-2},
            "one head": {"num_attention_heads": 1},
            "many heads": {"num_attention_heads": 16},
            "one layer": {"num_hidden_layers": 1},
            "narrow": {"hidden_size": 8, "intermediate_size": 5, "num_attention_heads": 2},
        },
        inert=frozenset({"other pooler"}),
        no_dropout={},
        shows="ViTForImageClassification",
        final_is_last=False,
    ),
    Row(
        family="imagegpt",
        variations={
            "exact gelu": {"activation_function": "gelu"},
            "gelu_new": {"activation_function": "gelu_new"},
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
            "few positions": {"n_positions": 12, "tie_word_embeddings": False, "add_cross_attention": False},
        },
        inert=frozenset({"reordered"}),
        fp32_only=frozenset({"reordered"}),  # the reference raises unless its scores are fp32
        pools_padding=frozenset({"ImageGPTForImageClassification"}),
        no_dropout={},
        reference_fuses=False,
    ),
    Row(
        family="wav2vec2",
        variations={
            **SOUND,
            "base": {
                "feat_extract_norm": "group",
                "conv_bias": False,
                "do_stable_layer_norm": False,
            },
            "norm after": {"do_stable_layer_norm": False},
            "channels normed over time": {"feat_extract_norm": "group"},
            "convolutions without bias": {"conv_bias": False},
            "of other heads": {
                "codevector_dim": 16,
                "num_negatives": 7,
                "tdnn_dim": [8, 8],
                "tdnn_kernel": [5, 3],
                "tdnn_dilation": [1, 2],
                "xvector_output_dim": 8,
                "adapter_stride": 3,
            },
        },
        inert=SOUND_INERT | {"of other heads"},
        no_dropout=NO_SOUND_DROPOUT,
        fp32=1e-4,
        reason=CTC_ROUNDS,
        shows="Wav2Vec2ForCTC",
        final_is_last=False,
    ),
    Row(
        family="whisper",
        variations={
            **{name: PAIR[name] for name in PAIR if name not in ("few positions", "unused keys")},
            "relu": {"activation_function": "relu"},
            "more bins": {"num_mel_bins": 20},
            "one bin": {"num_mel_bins": 1},
            "long window": {"max_source_positions": 30},
            "few positions in the decoder": {"max_target_positions": 12},
            "narrow": {"d_model": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
            "training hides": {
                "apply_spec_augment": True,
                "mask_time_prob": 0.2,
                "mask_time_length": 3,
                "mask_time_min_masks": 1,
                "mask_feature_prob": 0.3,
                "mask_feature_length": 2,
                "mask_feature_min_masks": 1,
            },
            "unused keys": {
                "encoder_layerdrop": 0.1,
                "decoder_layerdrop": 0.1,
                "median_filter_width": 5,
                "num_hidden_layers": 3,
                "suppress_tokens": [1, 2],
                "begin_suppress_tokens": [5],
                "classifier_proj_size": 7,
                "use_weighted_layer_sum": True,
            },
        },
        inert=frozenset({"gelu", "plain embedding", "scaled embedding", "training hides", "unused keys"}),
        no_dropout={},
        shows="WhisperForConditionalGeneration",
        untrained=frozenset({"encoder.embed.positions.weight"}),
    ),
)

BY_FAMILY = {row.family: row for row in ROWS}

DECODERS = [row for row in ROWS if row.decodes]
DECODERS += [
    replace(row, shows=row.record.architecture("text-generation"))
    for row in ROWS
    if "text-generation" in row.record.tasks and not row.decodes
]
"""The rows of decoders, and of encoders that are used as such."""
DISTINCT = [pytest.param(row, marks=pytest.mark.soak if row.repeats else ()) for row in ROWS]
"""A family for each network; the others, which have the same parts in other specs, in `make soak`."""
HEADS = [(row, architecture) for row in ROWS for architecture in row.record.architectures]
VARIATIONS = [(row, name) for row in ROWS for name in row.variations]
