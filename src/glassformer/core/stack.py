"""Stack of transformer blocks: the masks and positions that they share in a call, and which layers attend where.

From a recorded residual stream, q, k and v of any layer can be recomputed (`AttentionLayer`):

    stream ─ the layer's input norm ─ the layer's own projection ─ q, k, v
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.core.attention import Attention
from glassformer.core.blocks import Block, BlockSpec, ParallelBlock, ParallelBlockSpec, run_block
from glassformer.core.checks import Spec
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.flow import EncoderOutput, Flow, Node
from glassformer.core.masks import Mask
from glassformer.core.position_bias import PositionBiasSpec
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class StackSpec(Spec):
    """Stack of transformer blocks, and the position bias that their attention shares.

    shared: cross-layer parameter sharing: block i has the parameters of block shared[i]; (): each has its own
    """

    blocks: tuple[BlockSpec | ParallelBlockSpec, ...]
    bias: PositionBiasSpec | None = None
    shared: tuple[int, ...] = ()

    def validate(self) -> None:
        if not self.blocks:
            raise ConfigError("StackSpec.blocks is empty; a stack has at least one (config.json: num_hidden_layers)")
        widths = {block.attention.width for block in self.blocks}
        if len(widths) > 1:
            raise ConfigError(f"StackSpec.blocks have widths {sorted(widths)}; the residual stream has one width")
        first = dict(enumerate(self.shared))
        if self.shared and (
            len(self.shared) != len(self.blocks)
            or any(first.get(j) != j or self.blocks[i] != self.blocks[j] for i, j in first.items())
        ):
            raise ConfigError(
                f"StackSpec.shared is {self.shared}; for each of the {len(self.blocks)} blocks it must name one "
                "of equal spec that has parameters of its own"
            )
        heads = {block.attention.heads for block in self.blocks}
        if self.bias and heads != {self.bias.heads}:
            raise ConfigError(
                f"{type(self.bias).__name__}.heads is {self.bias.heads}, the blocks have {sorted(heads)}; they must be "
                "equal"
            )

    @property
    def width(self) -> int:
        return self.blocks[0].attention.width


FusedPass = Callable[["Stack", Tensor, Flow], Tensor | None]
"""(stack, x [B, T, D], flow) → what the stack makes of x, and all that it does to the flow; None = not this call"""


class Stack(Node):
    """Transformer blocks in order: block i of the stack `blocks` is `blocks.{i}`.

    Masks, rotary angles and position bias are computed once a call and passed to all blocks in the Flow: one for each
    pattern and each base that the layers differ in. Blocks that share parameters are modules of their own all the same,
    so that each has its taps and its place in the cache.

    Args:
        x: embedded tokens. [B, T, D]
        flow: masks, cache and tape of the caller.
    Returns: the residual stream after the last block. [B, T, D]
    Raises: ConfigError: `keep` does not fit the batch.
    Source: shared parameters: Lan et al. 2020, "ALBERT", section 3.1.
    """

    def __init__(self, spec: StackSpec) -> None:
        super().__init__()
        self.spec = spec
        for i, block in enumerate(spec.blocks):
            self.add_module(str(i), block.make())
        for i, j in enumerate(spec.shared):
            share_parameters(self[i], self[j])
        # Layers with equal specs rotate the same way: one of them computes the angles for all.
        self.rotaries = {rotary.spec: rotary for block in self if (rotary := block.attn.rotary) is not None}
        scalings = (rotary.scaling for rotary in self.rotaries)
        self.rotary_switches = {s.switch for s in scalings if s is not None and s.switch is not None}
        self.bias = spec.bias.make() if spec.bias else None

    few_tokens: FusedPass | None = None
    """Runs a step of generation in place of the blocks where it can: what `engine.prepare` puts here."""

    packed_row: FusedPass | None = None
    """The same for texts that are packed in one row."""

    def __len__(self) -> int:
        return len(self.spec.blocks)

    def __iter__(self) -> Iterator[Block | ParallelBlock]:
        return (block for block in self.children() if isinstance(block, (Block, ParallelBlock)))

    def __getitem__(self, i: int) -> Block | ParallelBlock:
        return list(self)[i]

    def hidden_states(self, x: Float[Tensor, "B T D"], flow: Flow) -> list[Tensor]:
        """Hidden states: the residual stream before each block and after the last. L + 1 × [B, T, D]"""
        flow = self.prepare(x, flow)
        states = [x]
        for block in self:
            states.append(run_block(block, states[-1], flow))
        return states

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        fused = self.few_tokens if flow.packing is None else self.packed_row
        if fused is not None and (y := fused(self, x, flow)) is not None:
            return y
        flow = self.prepare(x, flow)
        for block in self:
            x = run_block(block, x, flow)
        if flow.cache is not None:
            flow.cache.advance(x.shape[1])
        return x

    def prepare(self, x: Tensor, flow: Flow) -> Flow:
        """The flow with masks, rotary angles and position bias for T queries and S keys.

        Raises: ConfigError: `keep` has another number of rows than the batch.
        """
        B, T, device = x.shape[0], x.shape[1], x.device
        S = flow.past + T
        if flow.keep is not None and flow.keep.shape[0] not in (1, B):
            raise ConfigError(f"keep has {flow.keep.shape[0]} rows, the batch {B}; give a row a text, or one for all")
        if flow.packing is None:
            patterns = {pattern for pattern in {block.attn.pattern for block in self} if not pattern.is_local(T)}
            flow = replace(flow, masks={p: Mask.combine(p, flow.keep, T, S, device) for p in patterns})
        if self.rotaries:
            positions = flow.token_positions(x)
            made = {s: r(positions, x.dtype, flow.packing) for s, r in self.rotaries.items()}
            flow = replace(flow, rotations=made)
        if self.bias is not None:
            longest = None if flow.packing is None else max(flow.packing.lengths)
            flow = replace(flow, bias=self.bias(longest or T, longest or S, device))
        return flow


def share_parameters(module: nn.Module, other: nn.Module) -> None:
    """Make the parameters of another module of the same form this one's too."""
    for name, parameter in other.named_parameters():
        stem, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(stem), leaf, parameter)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionLayer:
    """One attention layer and the taps of the streams that it reads.

    query_tap: the tap that its queries are computed from; without a `memory_tap`, its keys and values too
    memory_tap: the tap that the keys and values of cross-attention are computed from
    input_norm: applied to the stream first: a norm, or the identity
    stack: the one whose position bias it gets
    """

    attention: Attention | CrossAttention
    query_tap: str
    input_norm: Callable[[Tensor], Tensor]
    memory_tap: str | None = None
    stack: Stack | None = None

    def project(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, T, E], k and v [B, K, S, E] of streams x [B, T, D] and memory [B, S, D]."""
        flow = Flow() if memory is None else Flow(memory=EncoderOutput(memory))
        return self.attention.project(self.input_norm(x), flow)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionGroup:
    """Attention layers of one kind: tokens of the stream `queries` attend to tokens of the stream `keys`."""

    queries: str
    keys: str
    layers: tuple[AttentionLayer, ...]


def self_attention(stack: Stack, stream: str) -> AttentionGroup:
    """The self-attention layers of a stack."""
    layers = [
        AttentionLayer(
            attention=block.attn,
            query_tap=f"{stack.path}.{i}.before",
            input_norm=block.attention_input,
            stack=stack,
        )
        for i, block in enumerate(stack)
    ]
    return AttentionGroup(queries=stream, keys=stream, layers=tuple(layers))


def cross_attention(stack: Stack, queries: str, keys: str) -> AttentionGroup:
    """The cross-attention layers of a stack; blocks without one are left out."""
    layers = [
        AttentionLayer(
            attention=block.cross,
            query_tap=f"{stack.path}.{i}.mid",
            input_norm=block.cross_residual.before,
            memory_tap="memory",
        )
        for i, block in enumerate(stack)
        if isinstance(block, Block) and block.cross is not None and block.cross_residual is not None
    ]
    return AttentionGroup(queries=queries, keys=keys, layers=tuple(layers))


def stream_taps(stack: Stack) -> tuple[str, ...]:
    """The taps of a stack's residual stream: before each block, and after the last."""
    return (*(f"{stack.path}.{i}.before" for i in range(len(stack))), f"{stack.path}.{len(stack) - 1}.out")
