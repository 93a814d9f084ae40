"""Block-sparse attention equals dense attention under the expanded mask, at a cost that grows with the text alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import (
    Attention,
    AttentionSpec,
    Flow,
    KeyValueCache,
    Packing,
)
from glassformer.core.masks import AttentionPattern
from glassformer.errors import ConfigError
from glassformer.models.big_bird.block_sparse import (
    BlockSparseAttention,
    BlockSparseAttentionSpec,
    BlockSparsePattern,
)
from glassformer.models.big_bird.random_blocks import _random_bits, _shuffled, random_blocks
from tests.core.small import (
    Largest,
    assert_all_close,
    assert_close,
    examples,
    fused_calls,
    gradients,
    keeps,
    perturbed,
    recorded,
    recording,
)

few = examples(25)
SPEC = BlockSparseAttentionSpec(width=8, heads=2, block=4, random=1, seed=3, longest=64)


def sparse_layer(training: bool = False, **changes: Any) -> BlockSparseAttention:
    return perturbed(BlockSparseAttention(replace(SPEC, **changes))).double().train(training)


def times_by_hand(layer: BlockSparseAttention, tokens: int) -> Tensor:
    """How often each key counts for each query, block by block as the paper says it. [H, T, T]"""
    spec = layer.spec
    N = -(-tokens // spec.block)
    random_indices = random_blocks(N, spec.block, spec.random, spec.heads, spec.seed, spec.longest)
    counts = torch.zeros(spec.heads, N, N, dtype=torch.long)
    for head in range(spec.heads):
        for i in range(N):
            seen = {0, N - 1, i - 1, i, i + 1} & set(range(N)) if 0 < i < N - 1 else set(range(N))
            extra = () if i in (0, N - 1) else random_indices[head][i - 1] if layer.training else (0,) * spec.random
            for j in [*seen, *extra]:
                counts[head, i, j] += 1
    at = torch.arange(tokens) // spec.block
    return counts[:, at][:, :, at]


def dense(layer: BlockSparseAttention, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention of all tokens to all, each key weighed by its times; a hidden token sees nothing. out, probs"""
    q, k, v = layer.project(x, Flow())
    weights = (q @ k.mT * layer.scale).exp() * times_by_hand(layer, x.shape[1])
    if keep is not None:
        weights = weights * (keep[:, None] & keep[:, None].mT)
    probs = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return layer.merge_heads(probs @ v, Flow()), probs


# ── one truth, three ways to compute it ──────────────────────────────────────────────────────────────────


@few
@given(st.data())
def test_sparse_and_explicit_path_equal_dense_attention_under_the_expanded_mask(data: st.DataObject) -> None:
    block, random = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 3))
    shortest = (5 + 2 * random) * block + 1
    T, training = data.draw(st.integers(shortest, shortest + 4 * block)), data.draw(st.booleans())
    lengths = [T, data.draw(st.integers(1, T))] if data.draw(st.booleans()) else []
    layer = sparse_layer(training, block=block, random=random, seed=data.draw(st.integers(0, 9)))
    x = torch.randn(2, T, 8, dtype=torch.float64)
    keep = keeps(lengths, T, data.draw(st.sampled_from(["right", "left"]))) if lengths else None
    out, probs = dense(layer, x, keep)
    assert_close(layer(x, Flow(keep=keep)), out, 1e-10)
    flow = recording(layer, "probs", keep=keep)
    assert_close(layer(x, flow), out, 1e-10)
    assert_close(recorded(flow, "probs"), probs, 1e-10)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("tokens", [29, 32, 45])
def test_gradients_of_sparse_and_explicit_path_are_those_of_dense(tokens: int, training: bool) -> None:
    layer, x = sparse_layer(training), torch.randn(2, tokens, 8, dtype=torch.float64)
    keep, goal = keeps([tokens, tokens - 9], tokens), torch.randn(2, tokens, 8, dtype=torch.float64)
    truth = gradients(layer, lambda: (dense(layer, x, keep)[0] * goal).sum())
    assert_all_close(gradients(layer, lambda: (layer(x, Flow(keep=keep)) * goal).sum()), truth, 1e-9)
    explicit = gradients(layer, lambda: (layer(x, recording(layer, "scores", keep=keep)) * goal).sum())
    assert_all_close(explicit, truth, 1e-9)


def test_work_in_pieces_is_the_work_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces where nothing is kept for a backward pass, at once where it is."""
    layer, x = sparse_layer(True), torch.randn(2, 60, 8, dtype=torch.float64)
    once = layer(x, Flow())
    monkeypatch.setattr("glassformer.models.big_bird.block_sparse.GATHERED_NUMBERS", 2 * 8 * 24 * 4)
    for grad_enabled, chunks in ((True, 1), (False, 4)):  # of 13 inner blocks, four at once
        with fused_calls(monkeypatch) as calls, torch.set_grad_enabled(grad_enabled):
            assert_close(layer(x, Flow()), once, 1e-12)
        assert len(calls) == 1 + chunks


@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
def test_packed_texts_are_each_as_alone(explicit: bool) -> None:
    """Long ones and short ones, whose blocks begin where they begin."""
    layer, lengths = sparse_layer(), (30, 30, 7, 41)
    x = torch.randn(1, sum(lengths), 8, dtype=torch.float64)
    patterns = ("probs",) if explicit else ()
    packed = layer(x, recording(layer, *patterns, packing=Packing(lengths)))
    alone = [layer(text, Flow()) for text in x.split(lengths, dim=1)]
    assert_close(packed, torch.cat(alone, dim=1), 1e-10)


def test_a_short_text_gets_full_attention() -> None:
    layer = sparse_layer()
    full = Attention(AttentionSpec(width=8, heads=2)).double()
    full.load_state_dict(layer.state_dict())
    short, long = (torch.randn(1, tokens, 8, dtype=torch.float64) for tokens in (28, 29))  # 7 blocks of 4
    assert torch.equal(layer(short, Flow()), full(short, Flow()))
    assert (layer(long, Flow()) - full(long, Flow())).abs().max() > 1e-3


def test_dropout_reaches_short_texts_alone() -> None:
    layer = sparse_layer(True, dropout=0.5)
    for tokens, same in ((28, False), (29, True)):
        x = torch.randn(1, tokens, 8, dtype=torch.float64)
        for patterns in ((), ("probs",)):
            one, other = (layer(x, recording(layer, *patterns)) for _ in range(2))
            assert torch.equal(one, other) == same


def test_a_text_of_which_nothing_is_shown_gives_zeros_and_finite_gradients() -> None:
    layer, x = sparse_layer(), torch.randn(2, 40, 8, dtype=torch.float64, requires_grad=True)
    flow = recording(layer, "z", keep=keeps([40, 0], 40))
    out = layer(x, flow)
    assert bool((recorded(flow, "z")[1] == 0).all()) and bool(out.isfinite().all())
    out.sum().backward()
    assert x.grad is not None and bool(x.grad.isfinite().all())


# ── what it costs ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_no_tensor_grows_with_the_square_of_the_text(training: bool) -> None:
    layer = sparse_layer(training)
    largest = {}
    for tokens in (1 << 9, 1 << 11):
        with Largest() as seen:
            layer(torch.randn(1, tokens, 8, dtype=torch.float64), Flow(keep=keeps([tokens - 5], tokens)))
        largest[tokens] = seen.numbers
    assert largest[1 << 11] <= 4.1 * largest[1 << 9] < (1 << 18)


# ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [5, 28, 29, 47, 64])
def test_the_pattern_says_what_evaluation_sees(tokens: int) -> None:
    layer = sparse_layer(random=1)
    pattern: AttentionPattern = layer.pattern
    multiplicity = times_by_hand(layer, tokens)[0] if tokens > 28 else torch.ones(tokens, tokens)
    positions = torch.tensor([0, tokens - 1, tokens // 2, 3])
    assert torch.equal(pattern.rows(positions, tokens), multiplicity[positions] > 0)
    assert torch.equal(pattern.keep(tokens, tokens), multiplicity > 0)
    assert pattern.attended_pairs(tokens) == int((multiplicity > 0).sum())
    bias = pattern.bias(positions, tokens)
    assert (bias is None) == (tokens <= 28) == pattern.is_distance_based(tokens)
    if bias is not None:
        assert_close(bias, multiplicity[positions].clamp(min=1).double().log(), 1e-12)
        assert float(bias.max()) == pytest.approx(np.log(2))
    assert str(pattern) == "blocks of 4, 1 random"


def test_a_plain_pattern_adds_nothing_and_says_what_it_hides() -> None:
    assert AttentionPattern(window=3).bias(torch.arange(4), 9) is None and AttentionPattern(window=3).is_distance_based(
        9
    )
    names = [
        str(AttentionPattern()),
        str(AttentionPattern(causal=True)),
        str(AttentionPattern(causal=True, window=3)),
    ]
    assert names == ["", "causal", "causal, window 3"]


# ── lots ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [0, 1, 11])
def test_lots_are_those_that_numpy_draws(seed: int) -> None:
    """Models were trained with numpy's order, which its makers have promised never to change."""
    theirs, extra = np.random.RandomState(seed), _random_bits(seed)
    for count in (14, 62, 1, 0, 3, 11, 500, 4000):
        assert _shuffled(range(count), extra) == theirs.permutation(count).tolist()


@pytest.mark.parametrize(("N", "block"), [(12, 64), (40, 64), (130, 64), (16, 64), (64, 64), (32, 32), (30, 1)])
def test_random_blocks_differ_from_each_other_and_from_the_window(N: int, block: int) -> None:
    plan = random_blocks(N, block, 3, 4, 5, 4096)
    last = {N - 1} if N * block != 1024 else set()  # the paper's own lots may fall on it
    assert (len(plan), {len(head) for head in plan}) == (4, {N - 2})
    for head in plan:
        for i, row in enumerate(head, 1):
            assert len(set(row)) == 3 and not set(row) & ({0, i - 1, i, i + 1} | last), (i, row)
    assert len(set(plan)) == 4, "heads draw their own"
    assert plan != random_blocks(N, block, 3, 4, 6, 4096), "layers draw their own"
    assert plan == random_blocks(N, block, 3, 4, 5, 4096), "and the same in every step"


def test_random_blocks_cached_without_gradients_serve_a_training_step() -> None:
    layer, x = sparse_layer(True, seed=77), torch.randn(1, 40, 8, dtype=torch.float64)
    with torch.inference_mode():
        layer(x, Flow())
    layer(x, Flow()).sum().backward()
    assert layer.qkv.weight.grad is not None


# ── what it refuses ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("changes", [{"causal": True}, {"window": 3}, {"kv_heads": 1}])
def test_blocks_say_what_is_seen(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="its blocks choose the keys"):
        replace(SPEC, **changes)


def test_scores_of_blocks_have_no_soft_cap() -> None:
    with pytest.raises(ConfigError, match=r"score_cap=50\.0; .*leave it out"):
        replace(SPEC, score_cap=50.0)


@pytest.mark.parametrize(("field", "value"), [("block", 0), ("random", -1), ("seed", -1), ("longest", 0)])
def test_sizes_are_checked(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"BlockSparseAttentionSpec.{field} is {value}"):
        replace(SPEC, **{field: value})


def test_a_cache_a_bias_and_a_mask_of_its_own_for_each_query_are_refused() -> None:
    layer, x = sparse_layer(), torch.randn(1, 40, 8, dtype=torch.float64)
    with pytest.raises(ConfigError, match="neither cache nor bias"):
        layer(x, Flow(bias=torch.zeros(1, 2, 40, 40)))
    cache = KeyValueCache()
    layer(x, Flow(cache=cache))
    cache.advance(40)
    with pytest.raises(ConfigError, match="neither cache nor bias"):
        layer(x[:, :1], Flow(cache=cache))
    with pytest.raises(ConfigError, match=r"keep has shape \[1, 40, 40\]; .* \[1, 1, 40\]"):
        layer(x, Flow(keep=torch.ones(1, 40, 40, dtype=torch.bool)))


def test_two_layers_that_see_alike_have_one_pattern() -> None:
    assert BlockSparsePattern(block=4, random=1) == sparse_layer(seed=8).pattern != AttentionPattern()
