"""Fused path of an encoder in int8: the blocks of texts that are packed in one row, as one program of compiled kernels.

    a block      qkv ← W norm(x) + b  │  z ← attention(qkv)  │  x ← norm'(x + W z + b), neurons ← …, x ← norm'(x + …)

Two phases a block, between which threads wait for each other: attention needs all tokens of a text, all else one token.
So a thread takes a few tokens from z to the next block's qkv, and nothing of them leaves its cache in between.

What the blocks are made of decides, never a family; any other stack keeps to the plain path, which rounds the same
numbers to the same levels. AMX has faster products for many tokens than VNNI: there the plain path is the better one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core import processor
from glassformer.core.attention import Attention
from glassformer.core.blocks import Block, Residual
from glassformer.core.feed_forward import FeedForward
from glassformer.core.flow import Flow
from glassformer.core.masks import AttentionPattern, Packing
from glassformer.core.quantised import QuantisedLinear
from glassformer.engine import native
from glassformer.engine.fused_path import References, is_plain_call, is_watched, weights_state
from glassformer.engine.levels import OFFSET, row_steps
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.program import INSTRUCTION, TILE_FLOATS, TILE_OUTPUTS, TILE_TOKENS, Kind, state_of
from glassformer.engine.step_fields import NotUnderstood, activation_of, norm_fields
from glassformer.engine.stored_levels import StoredLevelsProduct
from glassformer.engine.team import TeamJob

if TYPE_CHECKING:
    from glassformer.core.stack import Stack

BLOCK_TOKENS = 48
"""Tokens that a thread takes through the products at a time: their neurons stay in its cache, and weights are read by
all of them."""
LINE = 64
"""Bytes of a cache line, and of the longest vectors."""
TEXTS_A_THREAD = 4
"""Texts from which on threads share attention by texts; fewer are cut by heads."""


class Tiles:
    """Weights of a linear layer as levels in tiles of registers.

        levels [outputs, inputs] ──> [⌈outputs / 64⌉, inputs / 4, 4 vectors, 16 outputs, 4 inputs]

    Inputs are unsigned, levels + 128; so sums begin with -128 Σ W.

    Args:
        levels: int8 [outputs, inputs]
        steps: of each row. fp32 [outputs]
        bias: [outputs], or None
    """

    def __init__(self, levels: Tensor, steps: Tensor, bias: Tensor | None) -> None:
        outputs, inputs = levels.shape
        self.inputs, self.outputs, self.level_bytes = inputs, outputs, -(-inputs // LINE) * LINE
        padded = torch.zeros(-(-outputs // TILE_OUTPUTS) * TILE_OUTPUTS, self.level_bytes, dtype=torch.int8)
        padded[:outputs, :inputs] = levels
        self.begins = (padded.sum(1, dtype=torch.int32) * -OFFSET).contiguous()
        parts = padded.view(-1, TILE_OUTPUTS // 16, 16, self.level_bytes // 4, 4)
        self.weight = parts.permute(0, 3, 1, 2, 4).contiguous()
        self.step = steps.float().contiguous()
        self.bias = torch.zeros(outputs) if bias is None else bias.detach().float().contiguous()

    @staticmethod
    def of(linear: nn.Module) -> Tiles:
        """The levels of a prepared layer. Raises: NotUnderstood: its product is not one of 8-bit levels."""
        if type(linear) is PackedLinear and linear.precision == "int8":
            weight = linear.weight.detach().float()
            steps = row_steps(weight)
            return Tiles((weight / steps).round_().to(torch.int8), steps.flatten(), linear.bias)
        if (
            type(linear) is QuantisedLinear
            and isinstance(linear.product, StoredLevelsProduct)
            and linear.product.rounds_tokens
            and linear.input_factors is None
        ):
            return Tiles(linear.stored.levels, linear.stored.scale[:, 0], linear.bias)
        raise NotUnderstood(type(linear).__name__)

    def fields(self) -> dict[str, int]:
        """The fields of a product's instruction."""
        addresses = {name: getattr(self, name).data_ptr() for name in ("weight", "step", "bias", "begins")}
        return {"inputs": self.inputs, "outputs": self.outputs, "level_bytes": self.level_bytes, **addresses}


class PackedProgram:
    """The program of a stack, and buffers for the tokens of a row.

    Args:
        tiles: weights as tiles by their address, which programs of several threads share, and layers of equal weights
    Raises: NotUnderstood: a part that programs have no instruction for.
    """

    def __init__(self, stack: Stack, tiles: dict[int, Tiles]) -> None:
        if stack.bias is not None:
            raise NotUnderstood(type(stack.bias).__name__)
        self._tiles = tiles
        self._referenced = References()
        self._records: list[dict[str, Any]] = []
        self._buffers: list[dict[str, str]] = []  # the fields of an instruction that are addresses of buffers
        self._widths = {"stream": stack.spec.width, "qkv": 0, "z": 0}
        for block in stack:
            self._add_block(block)
        self._records[-1]["joined"] = 0
        self.instructions = np.zeros(len(self._records), INSTRUCTION)
        for record, fields in zip(self.instructions, self._records, strict=True):
            for name, value in fields.items():
                record[name] = value
        self._attention = self.instructions["kind"] == Kind.MANY_ATTENTION
        self._heads = int(self.instructions["heads"].max())
        self._state = state_of(self.instructions)
        self._bytes = sum(int(record["inputs"] * record["outputs"]) for record in self.instructions)
        self._capacity = self._longest = 0

    def run(self, kernel: native.Kernel, x: Tensor, packing: Packing) -> Tensor:
        """The stream after the last block. [1, tokens, D]"""
        tokens, texts, ops = packing.tokens, len(packing.lengths), self.instructions
        self._make_room(tokens, max(packing.lengths))
        threads = self._job.threads
        # As many chunks as threads can share equally, of whole tiles.
        chunks = -(-tokens // (BLOCK_TOKENS * threads)) * threads
        block = -(-tokens // (chunks * TILE_TOKENS)) * TILE_TOKENS
        parts = 1 if texts >= TEXTS_A_THREAD * threads else min(self._heads, -(-TEXTS_A_THREAD * threads // texts))
        starts = np.array([*packing.starts, tokens], np.int64)
        ops["rows"], ops["block"], ops["texts"], ops["parts"] = tokens, block, texts, parts
        ops["starts"] = starts.ctypes.data
        ops["chunks"] = np.where(self._attention, texts * parts, -(-tokens // block))
        self._job.nbytes = self._bytes * tokens
        self._stream[:tokens] = x[0]
        self._job.run(kernel)
        return self._stream[None, :tokens].to(x.dtype, copy=True)

    def _make_room(self, tokens: int, longest: int) -> None:
        """Buffers for this many tokens, and scratch memory for the scores of the longest text."""
        if tokens > self._capacity:
            with torch.inference_mode(False):  # plain calls run it too
                # Tiles read whole vectors: beyond the last value lies one more.
                rooms = {name: torch.zeros(tokens * width + TILE_FLOATS) for name, width in self._widths.items()}
            self._rooms, self._capacity = rooms, tokens
            self._stream = rooms["stream"][: tokens * self._widths["stream"]].view(tokens, -1)
            for record, names in zip(self.instructions, self._buffers, strict=True):
                for field, name in names.items():
                    record[field] = rooms[name].data_ptr()
        if longest > self._longest:
            self._longest = longest
            ops = self.instructions
            head = 4 * TILE_TOKENS * TILE_OUTPUTS + 4 * BLOCK_TOKENS  # sums of a tile, steps of tokens
            widest = 4 * int(max(ops["inputs"].max(), ops["outputs"].max()) + LINE)
            records = zip(self._records, self._buffers, strict=True)
            neurons = max(4 * record["outputs"] for record, names in records if "y" not in names)
            levels = int(ops["level_bytes"].max())
            ops["spare"], ops["neurons"] = head, head + widest
            ops["levels"] = head + widest + BLOCK_TOKENS * neurons
            keys = -(-longest // TILE_FLOATS) * TILE_FLOATS
            scores = 4 * keys * (TILE_TOKENS + int(ops["width"].max()) + LINE)
            nbytes = head + max(widest + BLOCK_TOKENS * (neurons + levels), scores)
            self._job = TeamJob(self._state, nbytes // 4, 0)

    # --------------------------------------------------------------------------------------------------- once a stack

    def _add_block(self, block: nn.Module) -> None:
        if type(block) is not Block or block.cross is not None or type(block.ffn) is not FeedForward:
            raise NotUnderstood(type(block).__name__)
        attention = self._attention_of(block.attn)
        self._product(attention.qkv, "stream", "qkv", block.attn_residual.before)
        spec = attention.spec
        self._records.append(
            {
                "kind": Kind.MANY_ATTENTION, "heads": spec.heads, "width": spec.E, "scale": attention.scale,
                "inputs": 3 * spec.heads * spec.E,
            }
        )  # fmt: skip
        self._buffers.append({"x": "qkv", "y": "z"})
        self._close(attention.out, "z", block.attn_residual)
        self._product(block.ffn.up, "stream", "", block.ffn_residual.before, joined=1)
        self._records[-1]["activation"] = activation_of(block.ffn.activation)
        self._close(block.ffn.down, "", block.ffn_residual)

    @staticmethod
    def _attention_of(attention: nn.Module) -> Attention:
        """Raises: NotUnderstood: attention that sees less than all of its text, or more than q, k and v."""
        if type(attention) is not Attention:
            raise NotUnderstood(type(attention).__name__)
        spec = attention.spec
        plain = spec.rotary is None and attention.q_norm is None and spec.score_cap is None and spec.heads == spec.K
        if not plain or attention.pattern != AttentionPattern():
            raise NotUnderstood("attention with rotary positions, norms, groups, a cap or a pattern")
        return attention

    def _close(self, linear: nn.Module, x: str, residual: Residual) -> None:
        """stream = on_residual(stream + scale · linear(x))"""
        if not isinstance(residual.after, nn.Identity):
            raise NotUnderstood("a norm of the branch")
        self._product(linear, x, "stream", None, joined=1)
        end = norm_fields(residual.on_residual, self._referenced.address)
        self._records[-1] |= {"adds": 1, "factor": residual.scale} | {
            f"end_{name}": value for name, value in end.items()
        }

    def _product(self, linear: nn.Module, x: str, y: str, norm: nn.Module | None, joined: int = 0) -> None:
        """y = linear(norm(x)), from one buffer to another; "" is the thread's own memory."""
        tiles = self._tiles_of(linear)
        self._records.append(
            {
                "kind": Kind.MANY_PRODUCT,
                "joined": joined,
                **tiles.fields(),
                **norm_fields(norm, self._referenced.address),
            }
        )
        self._buffers.append({field: name for field, name in (("x", x), ("y", y)) if name})
        for name, width in ((x, tiles.inputs), (y, tiles.outputs)):
            if name:
                self._widths[name] = max(self._widths[name], width)

    def _tiles_of(self, linear: nn.Module) -> Tiles:
        stored = linear.stored.levels if type(linear) is QuantisedLinear else getattr(linear, "weight", None)
        place = stored.data_ptr() if isinstance(stored, Tensor) else 0
        if place not in self._tiles:
            self._tiles[place] = Tiles.of(linear)
        return self._tiles[place]


class PackedRow:
    """What a stack prepared in int8 does with packed texts. Copies and pickles write programs of their own."""

    def __init__(self) -> None:
        self._idle: list[PackedProgram] = []  # that no thread runs
        self._tiles: dict[int, Tiles] = {}
        self._weights: tuple[Any, ...] | None = None  # that the programs read
        self._understood = True

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedRow, ()

    def __call__(self, stack: Stack, x: Tensor, flow: Flow) -> Tensor | None:
        """The stream after the last block; None where this is not for the fused path. [1, tokens, D]"""
        packing = flow.packing
        if packing is None or flow.keep is not None or flow.cache is not None or flow.memory is not None:
            return None
        if not is_plain_call(x, flow) or tuple(x.shape[:2]) != (1, packing.tokens):
            return None
        kernel = native.kernel() if processor.has("vnni") and not processor.has("amx_tile") else None
        if kernel is None or not self._is_current(stack):
            return None
        idle = self._idle  # of these weights: others begin with a list of their own
        try:
            program = idle.pop() if idle else PackedProgram(stack, self._tiles)
        except NotUnderstood:
            self._understood = False
            return None
        y = program.run(kernel, x, packing)
        idle.append(program)
        return y

    def _is_current(self, stack: Stack) -> bool:
        """Whether the programs read the stack's weights as they are now."""
        modules = list(stack.modules())
        weights = weights_state(modules)
        if weights != self._weights:
            self._idle, self._tiles, self._understood = [], {}, True
            self._weights = weights  # last: an interrupt leaves no programs of other weights
        stale = any(isinstance(m, PackedLinear) and m.stale() for m in modules)
        return self._understood and not stale and not is_watched(modules)
