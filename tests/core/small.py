"""Small networks of every kind, with weights that hide nothing: no bias is 0, no gain is 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from glassformer.core import (
    AttentionSpec,
    BlockSpec,
    BucketedBiasSpec,
    CrossAttentionSpec,
    ExpertsSpec,
    FeedForwardSpec,
    Flow,
    GatedFeedForwardSpec,
    LayerNormSpec,
    Node,
    ParallelBlockSpec,
    ResidualSpec,
    RMSNormSpec,
    RotarySpec,
    Stack,
    StackSpec,
    Tape,
)

WIDTH = 32
M = TypeVar("M", bound=nn.Module)
AnyBlock = TypeVar("AnyBlock", BlockSpec, ParallelBlockSpec)

NORM = LayerNormSpec(width=WIDTH)
POST = BlockSpec(
    attention=AttentionSpec(width=WIDTH, heads=4),
    feed_forward=FeedForwardSpec(width=WIDTH, hidden=48),
    residual=ResidualSpec(on_residual=NORM),
)
PRE = replace(
    POST,
    residual=ResidualSpec(before=NORM),
    attention=AttentionSpec(width=WIDTH, heads=4, causal=True),
)
LLAMA = BlockSpec(
    attention=AttentionSpec(width=WIDTH, heads=4, kv_heads=2, bias=False, out_bias=False, causal=True),
    feed_forward=GatedFeedForwardSpec(width=WIDTH, hidden=48),
    residual=ResidualSpec(before=RMSNormSpec(width=WIDTH)),
)
MIXTRAL = replace(LLAMA, feed_forward=ExpertsSpec(expert=LLAMA.feed_forward, experts=4, experts_per_token=2))
SANDWICH = replace(POST, residual=ResidualSpec(before=NORM, after=NORM, on_residual=NORM))
CROSS = replace(PRE, cross=CrossAttentionSpec(width=WIDTH, heads=4, memory_width=24))

PARALLEL = ParallelBlockSpec(
    attention=AttentionSpec(width=WIDTH, heads=4, causal=True),
    feed_forward=FeedForwardSpec(width=WIDTH, hidden=48),
    norm=NORM,
)
TWO_NORMS = replace(PARALLEL, feed_forward_norm=NORM)


def windowed(block: BlockSpec, window: int) -> BlockSpec:
    return replace(block, attention=replace(block.attention, window=window))


def turning(block: AnyBlock, width: int, theta: float = 10_000.0) -> AnyBlock:
    """The block with rotary positions."""
    rotary = RotarySpec(width=width, theta=theta)
    return replace(block, attention=replace(block.attention, rotary=rotary))


def capped(block: AnyBlock, cap: float) -> AnyBlock:
    """The block with a soft cap of its scores, low enough to matter."""
    return replace(block, attention=replace(block.attention, score_cap=cap, scale=2.0))


STACKS = {
    "post-norm": StackSpec(blocks=(POST,) * 2),
    "all norm slots": StackSpec(blocks=(SANDWICH,) * 2),
    "windows both ways": StackSpec(blocks=(windowed(POST, 2), POST)),
    "rotary both ways": StackSpec(blocks=(turning(POST, 8),) * 2),
    "bucketed": StackSpec(blocks=(POST,) * 2, bias=BucketedBiasSpec(heads=4, buckets=8, max_distance=12)),
    "pre-norm causal": StackSpec(blocks=(PRE,) * 2),
    "grouped, gated, rotary": StackSpec(blocks=(turning(LLAMA, 8),) * 2),
    "experts": StackSpec(blocks=(turning(MIXTRAL, 8),) * 2),
    "rotary in part": StackSpec(blocks=(turning(PRE, 4),) * 2),
    "side by side": StackSpec(blocks=(turning(PARALLEL, 4),) * 2),
    "side by side, two norms": StackSpec(blocks=(turning(TWO_NORMS, 4),) * 2),
    "alternating windows": StackSpec(blocks=(turning(windowed(PRE, 3), 8), turning(PRE, 8))),
    "two bases, one layer without": StackSpec(
        blocks=(turning(windowed(LLAMA, 3), 8), turning(LLAMA, 8, theta=50.0), LLAMA)
    ),
    "soft-capped": StackSpec(blocks=(capped(turning(windowed(LLAMA, 3), 8), 1.5), capped(turning(LLAMA, 8), 0.7))),
    "soft-capped both ways": StackSpec(
        blocks=(capped(POST, 1.0),) * 2, bias=BucketedBiasSpec(heads=4, buckets=8, max_distance=12)
    ),
    "scaled branches": StackSpec(blocks=(replace(PRE, residual=ResidualSpec(before=NORM, scale=0.25)),) * 2),
    "bucketed causal": StackSpec(
        blocks=(PRE,) * 2, bias=BucketedBiasSpec(heads=4, buckets=8, max_distance=12, bidirectional=False)
    ),
}
CAUSAL = [name for name, spec in STACKS.items() if spec.blocks[0].attention.causal]


def examples(count: int) -> settings:
    """So many examples for a property test; fifty times as many under `make soak`."""
    soaking = settings.get_current_profile_name() == "soak"
    return settings(max_examples=50 * count if soaking else count, deadline=None)


def perturbed(module: M, seed: int = 1) -> M:
    """The module in eval mode with every parameter moved at random; its nodes know their paths."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator).to(parameter))
    if isinstance(module, Node):
        module.name_nodes()
    return module.eval()


def stack(kind: str) -> Stack:
    return perturbed(Stack(STACKS[kind]))


def with_dropout(spec: StackSpec, p: float) -> StackSpec:
    """The same stack with one dropout everywhere that a spec has one."""

    def change(block: BlockSpec | ParallelBlockSpec) -> BlockSpec | ParallelBlockSpec:
        ffn = block.feed_forward
        changed = replace(
            block,
            attention=replace(block.attention, dropout=p),
            feed_forward=replace(ffn, dropout=p) if isinstance(ffn, FeedForwardSpec) else ffn,
        )
        if isinstance(changed, ParallelBlockSpec):
            return replace(changed, dropout=p)
        return replace(changed, residual=replace(changed.residual, dropout=p))

    return replace(spec, blocks=tuple(change(block) for block in spec.blocks))


def recording(network: Node, *patterns: str, **flow: object) -> Flow:
    """A flow with a tape; `listening(network, "*probs")` takes the explicit path everywhere."""
    return Flow(tape=Tape(*patterns).attach(network), **flow)


def recorded(flow: Flow, name: str) -> Tensor:
    assert flow.tape is not None
    return flow.tape.taps[name]


def gradients(network: nn.Module, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    """The gradient of each parameter."""
    network.zero_grad()
    loss().backward()
    grads = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()
    return grads


def assert_close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def assert_all_close(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(
            ours[name], theirs[name], atol=tolerance, rtol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def keeps(lengths: list[int], size: int, side: str = "right") -> Tensor:
    """The keep-mask of texts padded to `size` on one side. [B, 1, S]"""
    rows = torch.arange(size)[None] < torch.tensor(lengths)[:, None]  # [B, S]
    return (rows if side == "right" else rows.flip(-1))[:, None]


class Largest(TorchDispatchMode):
    """The most numbers of any tensor that is made within."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        sizes = [x.untyped_storage().nbytes() // x.element_size() for x in tree_leaves(out) if isinstance(x, Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return out


@contextmanager
def fused_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts the calls of the fused kernel in a list, one entry a call: how many rows it got."""
    calls: list[int] = []
    kernel = F.scaled_dot_product_attention

    def counted(q: Tensor, *rest: object, **options: object) -> Tensor:
        calls.append(len(q))
        return kernel(q, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", counted)
        yield calls
