"""Sliding-window attention of long texts: blocks of queries give what one big mask gives, in less memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core import (
    Attention,
    AttentionPattern,
    AttentionSpec,
    Flow,
    KeyValueCache,
    Packing,
    Stack,
    Tape,
)
from glassformer.core.local_attention import local_attention
from glassformer.core.masks import Mask
from tests.core.small import STACKS, assert_close

T = 1200


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask.keep)


@pytest.mark.parametrize(("causal", "window", "past"), list(product([True, False], [1, 2, 65, 300], [0, 77])), ids=str)
def test_blocks_equal_one_mask(causal: bool, window: int, past: int) -> None:
    pattern = AttentionPattern(causal, window)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (T, T + past, T + past))
    keep = torch.rand(2, 1, T + past) < 0.8
    keep[..., :: max(1, window // 2)] = True  # nobody sees nothing
    for given in (None, keep, keep.expand(2, T, -1)):
        mask = Mask.combine(pattern, given, T, T + past, q.device)
        expected = attend(q, k, v, mask)
        assert_close(local_attention(attend, q, k, v, pattern, given), expected, 1e-12)


def test_who_is_taken_in_blocks() -> None:
    assert not AttentionPattern(causal=True).is_local(10**6)
    for window in (1, 65, 4096):
        pattern = AttentionPattern(window=window)
        keys = pattern.block_size + 2 * window
        assert pattern.is_local(2 * keys + 1) and not pattern.is_local(2 * keys)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("score_cap", [None, 5.0])
def test_a_layer_gives_the_same_in_blocks(
    causal: bool, score_cap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = AttentionSpec(width=16, heads=4, kv_heads=2, causal=causal, window=9, score_cap=score_cap)
    layer = Attention(spec).double().eval()
    x = torch.randn(2, T, 16, dtype=torch.float64)
    keep = (torch.arange(T) < torch.tensor([[T], [T - 300]]))[:, None]
    seen = keep[:, 0]
    packing = Packing((T, 40))
    row = torch.cat([x[:1], x[1:, :40]], dim=1)

    def outputs() -> list[Tensor]:
        padded, packed = layer(x, Flow(keep=keep)), layer(row, Flow(packing=packing))
        (gradient,) = torch.autograd.grad(padded[seen].square().sum(), layer.qkv.weight)
        cache = KeyValueCache()
        parts = []
        for part in x.split([40, T - 40], dim=1):
            parts.append(layer(part, Flow(cache=cache)))
            cache.advance(part.shape[1])
        return [padded[seen], packed, gradient, torch.cat(parts, dim=1)]

    in_blocks = outputs()
    monkeypatch.setattr(AttentionPattern, "is_local", lambda pattern, tokens: False)
    for ours, expected in zip(in_blocks, outputs(), strict=True):
        assert_close(ours, expected, 1e-9)


def test_a_stack_makes_no_mask_for_such_layers_and_a_tape_gets_whole_scores() -> None:
    spec = STACKS["alternating windows"]
    stack = Stack(spec).double().eval()
    stack.name_nodes()
    x = torch.randn(1, T, stack.spec.width, dtype=torch.float64)
    flow = stack.prepare(x, Flow())
    assert flow.masks is not None and [pattern.window for pattern in flow.masks] == [None]
    tape = Tape("*.attn.probs").attach(stack)
    explicit = stack(x, replace(Flow(), tape=tape))
    assert tape.taps["0.attn.probs"].shape[-2:] == (T, T)
    assert_close(stack(x, Flow()), explicit, 1e-9)
