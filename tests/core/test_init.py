"""Weight initialization by its formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from glassformer.core import (
    AttentionSpec,
    Embedding,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    ResidualSpec,
    Stack,
    StackSpec,
    init,
)
from glassformer.core.blocks import Block
from tests.core.small import CROSS, LLAMA, POST, perturbed

WIDE = replace(
    POST,
    attention=AttentionSpec(width=256, heads=4),
    feed_forward=FeedForwardSpec(width=256, hidden=512),
    residual=ResidualSpec(on_residual=LayerNormSpec(width=256)),
)


def test_normal_draws_matrices_and_tables_and_resets_the_rest() -> None:
    network = nn.ModuleList([perturbed(Block(WIDE)), Embedding(EmbeddingSpec(vocabulary=300, width=256))])
    init.normal(network, std=0.05)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif parameter.dim() == 1:
            assert (parameter == 1).all(), name
        else:
            assert abs(parameter.std() - 0.05) < 0.002 and abs(parameter.mean()) < 0.002, name


def test_residual_projections_shrink_with_depth() -> None:
    block = Block(WIDE)
    init.normal(block)
    before = block.ffn.up.weight.clone()
    init.shrink_residual(block, layers=8)
    for weight in (block.attn.out.weight, block.ffn.down.weight):
        assert abs(weight.std() - 0.02 / math.sqrt(16)) < 0.0003
    assert torch.equal(block.ffn.up.weight, before), "what reads the stream is left alone"


def test_residual_projections_of_cross_attention_and_gated_layers_shrink_too() -> None:
    for spec in (CROSS, LLAMA):
        block = Block(spec)
        init.shrink_residual(block, layers=2, std=0.0)
        parts = [block.attn.out, block.ffn.down] + ([block.cross.out] if block.cross else [])
        assert all((part.weight == 0).all() for part in parts)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_xavier_bounds_q_k_and_v_each_as_a_matrix_of_its_own(kv_heads: int) -> None:
    block = Block(replace(WIDE, attention=AttentionSpec(width=256, heads=4, kv_heads=kv_heads)))
    init.xavier(block)
    rows = [256, 64 * kv_heads, 64 * kv_heads]
    for part, count in zip(block.attn.qkv.weight.split(rows), rows, strict=True):
        bound = math.sqrt(6 / (256 + count))
        assert 0.99 * bound < part.abs().max() <= bound
    bound = math.sqrt(6 / (256 + 512))
    assert 0.99 * bound < block.ffn.up.weight.abs().max() <= bound
    assert (block.attn.qkv.bias == 0).all()


def test_xavier_of_cross_attention_and_tables() -> None:
    block = Block(CROSS)
    init.xavier(block)
    assert block.cross is not None
    for part in block.cross.kv.weight.chunk(2):
        bound = math.sqrt(6 / (24 + 32))
        assert 0.97 * bound < part.abs().max() <= bound
    embed = Embedding(EmbeddingSpec(vocabulary=500, width=64))
    init.xavier(embed)
    assert abs(embed.tokens.weight.std() - 1 / 8) < 0.003


@pytest.mark.parametrize("start", [init.normal, init.xavier])
def test_layers_never_start_equal(start: object) -> None:
    stack = Stack(StackSpec(blocks=(POST,) * 3))
    start(stack)
    first, second = stack[0].state_dict(), stack[1].state_dict()
    assert all(not torch.equal(first[n], second[n]) for n in first if first[n].dim() == 2)
