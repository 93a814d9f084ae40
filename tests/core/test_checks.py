"""Specs check themselves: each mistake is a ConfigError that names the numbers that disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from glassformer.core import (
    AttentionSpec,
    BlockSpec,
    BucketedBiasSpec,
    CrossAttentionSpec,
    DynamicScaling,
    EmbeddingSpec,
    ExpertsSpec,
    FeedForwardSpec,
    GatedFeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    LinearScaling,
    Llama3Scaling,
    LongScaling,
    ResidualSpec,
    RMSNormSpec,
    RotarySpec,
    SinusoidalSpec,
    StackSpec,
    YarnScaling,
)
from glassformer.errors import ConfigError
from tests.core.small import CROSS, LLAMA, NORM, PARALLEL, POST


def experts(number: int, *, experts_per_token: int) -> ExpertsSpec:
    return ExpertsSpec(expert=LLAMA.feed_forward, experts=number, experts_per_token=experts_per_token)


def long_scaling(
    short: tuple[float, ...] = (1.0, 2.0), long: tuple[float, ...] = (2.0, 4.0), original_positions: int = 16
) -> LongScaling:
    return LongScaling(short_factors=short, long_factors=long, factor=4.0, original_positions=original_positions)


WRONG: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "cl-07 heads do not divide width": (
        lambda: AttentionSpec(width=770, heads=12),
        ("770", "12", "set head_width", "hidden_size", "num_attention_heads"),
    ),
    "kv_heads do not divide heads": (
        lambda: AttentionSpec(width=32, heads=4, kv_heads=3),
        ("heads 4", "kv_heads 3", "num_key_value_heads"),
    ),
    "more kv_heads than heads": (lambda: AttentionSpec(width=32, heads=4, kv_heads=8), ("4", "8")),
    "no heads": (lambda: AttentionSpec(width=32, heads=0), ("AttentionSpec.heads", "0")),
    "negative width": (lambda: AttentionSpec(width=-32, heads=4), ("AttentionSpec.width", "-32")),
    "norms of each head, all heads wide": (
        lambda: AttentionSpec(width=32, heads=4, qk_norm=LayerNormSpec(width=32, bias=False), qk_norm_per_head=True),
        ("qk_norm_per_head", "8", "width=32"),
    ),
    "norms of each head, with a shift": (
        lambda: AttentionSpec(width=32, heads=4, qk_norm=LayerNormSpec(width=8), qk_norm_per_head=True),
        ("qk_norm_per_head", "bias=True"),
    ),
    "no norms of each head": (lambda: AttentionSpec(width=32, heads=4, qk_norm_per_head=True), ("None",)),
    "window of nothing": (lambda: AttentionSpec(width=32, heads=4, window=0), ("window", "0")),
    "width not whole": (lambda: LayerNormSpec(width=1.5), ("LayerNormSpec.width", "1.5")),
    "no norm width": (lambda: RMSNormSpec(width=0), ("RMSNormSpec.width", "0")),
    "dropout of all": (lambda: AttentionSpec(width=32, heads=4, dropout=1.0), ("dropout", "1.0", "[0, 1)")),
    "negative dropout": (lambda: FeedForwardSpec(width=32, hidden=4, dropout=-0.1), ("-0.1", "[0, 1)")),
    "block dropout": (lambda: ResidualSpec(dropout=2.0), ("ResidualSpec.dropout", "2.0")),
    "embedding dropout": (lambda: EmbeddingSpec(vocabulary=9, width=8, dropout=7.0), ("EmbeddingSpec.dropout", "7.0")),
    "no neurons": (lambda: FeedForwardSpec(width=32, hidden=0), ("FeedForwardSpec.hidden", "0")),
    "gated dropout": (
        lambda: GatedFeedForwardSpec(width=32, hidden=4, dropout=1.0),
        ("GatedFeedForwardSpec.dropout", "1.0"),
    ),
    "no gated neurons": (lambda: GatedFeedForwardSpec(width=32, hidden=0), ("GatedFeedForwardSpec.hidden", "0")),
    "no experts": (lambda: experts(0, experts_per_token=1), ("ExpertsSpec.experts", "0")),
    "no expert chosen": (lambda: experts(4, experts_per_token=0), ("ExpertsSpec.experts_per_token", "0")),
    "more chosen than there are": (
        lambda: experts(4, experts_per_token=5),
        ("experts_per_token is 5", "4 experts", "num_experts_per_tok", "num_local_experts"),
    ),
    "experts of another width": (
        lambda: replace(
            POST, feed_forward=ExpertsSpec(expert=FeedForwardSpec(width=16, hidden=4), experts=2, experts_per_token=1)
        ),
        ("feed_forward", "16", "32"),
    ),
    "feed-forward width": (
        lambda: replace(POST, feed_forward=FeedForwardSpec(width=16, hidden=4)),
        ("feed_forward", "16", "32"),
    ),
    "norm width": (
        lambda: replace(POST, residual=ResidualSpec(on_residual=LayerNormSpec(width=31))),
        ("ResidualSpec.on_residual", "31", "32"),
    ),
    "cross width": (lambda: replace(POST, cross=CrossAttentionSpec(width=64, heads=4)), ("cross", "64", "32")),
    "odd rotation": (lambda: RotarySpec(width=7), ("RotarySpec.width", "7", "even")),
    "rotation wider than a head": (
        lambda: AttentionSpec(width=32, heads=4, rotary=RotarySpec(width=16)),
        ("RotarySpec.width 16", "head width 8"),
    ),
    "cross-attention with rotary positions": (
        lambda: CrossAttentionSpec(width=32, heads=4, rotary=RotarySpec(width=8)),
        ("CrossAttentionSpec", "rotary", "leave them out"),
    ),
    "cap of nothing": (
        lambda: AttentionSpec(width=32, heads=4, score_cap=0.0),
        ("AttentionSpec.score_cap", "0.0", "above 0"),
    ),
    "no branch at all": (lambda: ResidualSpec(scale=0.0), ("ResidualSpec.scale", "0.0", "above 0")),
    "own norm of another width": (
        lambda: replace(POST, feed_forward_residual=ResidualSpec(after=LayerNormSpec(width=16))),
        ("ResidualSpec.after", "16", "32"),
    ),
    "parallel norm of another width": (
        lambda: replace(PARALLEL, norm=LayerNormSpec(width=16)),
        ("ParallelBlockSpec.norm", "16", "32"),
    ),
    "second parallel norm of another width": (
        lambda: replace(PARALLEL, feed_forward_norm=LayerNormSpec(width=16)),
        ("ParallelBlockSpec.feed_forward_norm", "16", "32"),
    ),
    "parallel dropout": (lambda: replace(PARALLEL, dropout=1.0), ("ParallelBlockSpec.dropout", "1.0")),
    "bias for other heads": (
        lambda: StackSpec(blocks=(POST,), bias=BucketedBiasSpec(heads=6)),
        ("BucketedBiasSpec.heads is 6", "[4]"),
    ),
    "too few buckets": (lambda: BucketedBiasSpec(heads=4, buckets=2), ("2 buckets", "at least 4")),
    "distances too short": (
        lambda: BucketedBiasSpec(heads=4, buckets=32, max_distance=8),
        ("32 buckets", "max_distance 8"),
    ),
    "no blocks": (lambda: StackSpec(blocks=()), ("StackSpec.blocks", "num_hidden_layers")),
    "blocks of two widths": (
        lambda: StackSpec(
            blocks=(
                POST,
                BlockSpec(
                    attention=AttentionSpec(width=16, heads=4), feed_forward=FeedForwardSpec(width=16, hidden=4)
                ),
            )
        ),
        ("[16, 32]",),
    ),
    "no vocabulary": (lambda: EmbeddingSpec(vocabulary=0, width=8), ("EmbeddingSpec.vocabulary", "0")),
    "embedding norm": (
        lambda: EmbeddingSpec(vocabulary=9, width=8, norm=NORM),
        ("EmbeddingSpec.norm", "32", "8"),
    ),
    "token types below 0": (
        lambda: EmbeddingSpec(vocabulary=9, width=8, token_types=-1),
        ("EmbeddingSpec.token_types", "-1"),
    ),
    "eps below 0": (lambda: LayerNormSpec(width=8, eps=-1e-5), ("LayerNormSpec.eps", "-1e-05")),
    "eps not a number": (lambda: RMSNormSpec(width=8, eps=float("nan")), ("RMSNormSpec.eps", "nan")),
    "offset below 0": (lambda: LearnedPositionsSpec(count=8, offset=-2), ("LearnedPositionsSpec.offset", "-2")),
    "no theta": (lambda: RotarySpec(width=8, theta=0.0), ("RotarySpec.theta", "0.0")),
    "no wave theta": (lambda: SinusoidalSpec(count=8, theta=0.0), ("SinusoidalSpec.theta", "0.0")),
    "no linear factor": (lambda: LinearScaling(factor=0.0), ("LinearScaling.factor", "0.0")),
    "no dynamic factor": (
        lambda: DynamicScaling(factor=0.0, original_positions=16),
        ("DynamicScaling.factor", "0.0"),
    ),
    "dynamic of one wave": (
        lambda: RotarySpec(width=2, scaling=DynamicScaling(factor=2.0, original_positions=16)),
        ("RotarySpec.width is 2", "4 or more"),
    ),
    "yarn the wrong way round": (
        lambda: YarnScaling(factor=2.0, original_positions=16, beta_fast=1.0, beta_slow=32.0),
        ("beta_fast 1.0", "beta_slow 32.0"),
    ),
    "yarn of base 1": (
        lambda: RotarySpec(width=8, theta=1.0, scaling=YarnScaling(factor=2.0, original_positions=16)),
        ("RotarySpec.theta is 1.0", "above 1"),
    ),
    "yarn of negative attention": (
        lambda: YarnScaling(factor=2.0, original_positions=16, attention_factor=-1.0),
        ("YarnScaling.attention_factor", "-1.0"),
    ),
    "longrope without factors": (lambda: long_scaling(short=()), ("LongScaling.short_factors", "each wave")),
    "longrope with a factor of 0": (lambda: long_scaling(long=(1.0, 0.0)), ("LongScaling.long_factors", "0.0")),
    "longrope from one position": (
        lambda: long_scaling(original_positions=1),
        ("LongScaling.original_positions is 1", "from 2 up"),
    ),
    "longrope of other waves": (
        lambda: RotarySpec(width=8, scaling=long_scaling()),
        ("LongScaling.short_factors has 2", "4 waves"),
    ),
    "an empty ramp": (
        lambda: Llama3Scaling(
            factor=8.0, low_frequency_factor=4.0, high_frequency_factor=4.0, original_positions=8192
        ),
        ("low_frequency_factor 4.0", "high_frequency_factor 4.0", "low_freq_factor"),
    ),
    "no positions": (lambda: LearnedPositionsSpec(count=0), ("LearnedPositionsSpec.count", "0")),
    "no waves": (lambda: SinusoidalSpec(count=0), ("SinusoidalSpec.count", "0")),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_refused_at_once_and_named(case: str) -> None:
    build, parts = WRONG[case]
    with pytest.raises(ConfigError) as error:
        build()
    missing = [part for part in parts if part not in str(error.value)]
    assert not missing, f"{error.value} does not say {missing}"


def test_specs_are_frozen_and_keyword_only() -> None:
    with pytest.raises(FrozenInstanceError):
        POST.residual = ResidualSpec()
    with pytest.raises(TypeError):
        AttentionSpec(32, 4)
    assert not hasattr(POST, "__dict__")
    assert hash(POST) == hash(replace(POST))


def test_replace_checks_again() -> None:
    with pytest.raises(ConfigError, match="5"):
        replace(POST.attention, heads=5)


def test_derived_sizes() -> None:
    assert (LLAMA.attention.E, LLAMA.attention.K) == (8, 2)
    free = AttentionSpec(width=24, heads=5, head_width=3)
    assert (free.E, free.K) == (3, 5)
    assert StackSpec(blocks=(POST,)).width == 32


def test_a_cross_attention_spec_keeps_the_checks_of_attention() -> None:
    assert {f.name for f in fields(CROSS.attention)} < {f.name for f in fields(CrossAttentionSpec)}
    with pytest.raises(ConfigError, match="770"):
        CrossAttentionSpec(width=770, heads=12)


@pytest.mark.parametrize("changes", [{"causal": True}, {"window": 4}, {"memory_width": -1}])
def test_cross_attention_sees_the_whole_memory(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="CrossAttentionSpec"):
        CrossAttentionSpec(width=8, heads=2, **changes)
