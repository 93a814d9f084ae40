"""Writes the program of a decoding step: from the modules of a stack to instructions of compiled kernels.

    norm ─ qkv ─────> PRODUCT     qkv = W norm(x) + b                before: in the product
    attention ──────> ATTENTION   z = softmax(q kᵀ) v                norms of q and k, rotary, cache: in it
    out ─ add ──────> PRODUCT     x = x + scale · (W z + b)          after, on_residual: a NORM of their own
    norm ─ up ──────> PRODUCT     neurons = activation(W norm(x) + b), or GATED
    down ─ add ─────> PRODUCT     x = x + scale · (W neurons + b)

What these are made of decides, never a family: any part that is not of the core itself is `NotUnderstood`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core.attention import Attention
from glassformer.core.blocks import Block, ParallelBlock, Residual
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.experts import Experts
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.flow import Flow
from glassformer.core.position_bias import BucketedBias
from glassformer.core.rotary import RotarySpec
from glassformer.engine.few_tokens import product_fields
from glassformer.engine.fused_path import References
from glassformer.engine.program import INSTRUCTION, Activation, Kind, NumberFormat, rounded_floats, state_of
from glassformer.engine.step_fields import NotUnderstood, activation_of, matrix_of, norm_fields
from glassformer.engine.team import TeamJob

if TYPE_CHECKING:
    from glassformer.core.stack import Stack

CACHE_FORMATS = {torch.float32: NumberFormat.FP32, torch.bfloat16: NumberFormat.BF16}


class StepProgram:
    """The program of B rows of T tokens each, its buffers, and what a step fills in.

    memory: whether the pass has one
    stream: the residual stream, before and after the program. [B, T, D] fp32
    """

    def __init__(self, stack: Stack, B: int, T: int, memory: bool) -> None:
        if not (stack.bias is None or type(stack.bias) is BucketedBias):
            raise NotUnderstood(type(stack.bias).__name__)
        self.B, self.T, self.memory = B, T, memory
        self.stack = stack
        self.nbytes = 0
        self._referenced = References()
        self._records: list[dict[str, Any]] = []
        self._layers: list[tuple[int, Attention | CrossAttention]] = []  # number of the instruction, layer
        self._rotary: dict[RotarySpec, list[int]] = {}  # instructions that turn by the angles of each
        self._angles: dict[RotarySpec, tuple[Tensor, Tensor]] = {}  # cosines and sines of the first positions
        self._bias: tuple[int, Tensor] | None = None  # distances, bias of each
        self.stream = self._buffer(stack.spec.width).view(B, T, -1)
        self._branch = self._buffer(stack.spec.width)
        for block in stack:
            self._add_block(block)
        self.instructions = np.zeros(len(self._records), INSTRUCTION)
        for record, fields in zip(self.instructions, self._records, strict=True):
            for name, value in fields.items():
                record[name] = value
        self._own = [number for number, layer in self._layers if not isinstance(layer, CrossAttention)]
        self._cross = [number for number, layer in self._layers if isinstance(layer, CrossAttention)]
        self._like = {n: self.stream.new_empty(B, layer.spec.K, 0, layer.spec.E) for n, layer in self._layers}
        self._places: dict[int, tuple[Any, ...]] = {}  # where the keys and values of an instruction lie
        self._state = state_of(self.instructions)
        self._make_job(256)

    # -------------------------------------------------------------------------------------------------- each step

    def bind(self, x: Tensor, flow: Flow) -> bool:
        """Fill in what changes from step to step; False where something in the flow is not understood."""
        cache, memory, ops = flow.cache, flow.memory, self.instructions
        assert cache is not None
        if flow.keep is not None and flow.keep.shape[1] != 1:
            return False
        own = None if flow.keep is None else flow.keep[:, 0].expand(self.B, -1).contiguous()
        sources = None if memory is None or memory.keep is None else memory.keep[:, 0].contiguous()
        for number, layer in self._layers:
            if isinstance(layer, CrossAttention):
                if memory is None:
                    return False
                k, v = layer.cached_keys_values(memory, cache)
            else:
                k, v = cache.reserve(layer, self._like[number], self._like[number], self.T)
            if not self._point_to(number, k, v):
                return False
        ops["past"][self._own] = cache.length
        ops["keep"][self._own] = 0 if own is None else own.data_ptr()
        ops["keep"][self._cross] = 0 if sources is None else sources.data_ptr()
        self._held = own, sources, self._turn(x, flow)
        self._set_bias(cache.length + self.T)
        self.stream.copy_(x)
        return True

    def _point_to(self, number: int, k: Tensor, v: Tensor) -> bool:
        """Let an instruction read and write these keys and values; False where it cannot."""
        place = (k.data_ptr(), v.data_ptr(), k.shape, k.dtype)
        if self._places.get(number) == place:
            return True
        if k.dtype not in CACHE_FORMATS or not (k.is_contiguous() and v.is_contiguous()):
            return False
        self._places[number], op, capacity = place, self.instructions[number], k.shape[2]
        op["keys"], op["values"], op["capacity"], op["cache_format"] = *place[:2], capacity, CACHE_FORMATS[k.dtype]
        if not op["writes"]:
            op["past"], op["beams"] = capacity, self.B // len(k)
        if capacity + self.T > self._scores:
            self._make_job(capacity + self.T)
        return True

    def _turn(self, x: Tensor, flow: Flow) -> list[Tensor]:
        """Cosines and sines of these tokens, from the modules that make them."""
        made: list[Tensor] = []
        counted = flow.keep is None and flow.positions is None
        for spec, numbers in self._rotary.items():
            skipped = stride = 0
            if counted and spec.scaling is None:  # positions are the same in all rows, and angles in all steps
                cosines, sines = self._first_angles(spec, flow.past + self.T)
                skipped = flow.past * spec.width * 4
            else:
                angles = self.stack.rotaries[spec](flow.token_positions(x), torch.float32)
                cosines, sines = (each.contiguous() for each in angles)
                stride = 0 if len(cosines) == 1 else self.T * spec.width
            made += [cosines, sines]
            for name, value in (("cosines", cosines.data_ptr()), ("sines", sines.data_ptr())):
                self.instructions[name][numbers] = value + skipped
            self.instructions["rotation_stride"][numbers] = stride
        return made

    def _first_angles(self, spec: RotarySpec, total: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of at least the first `total` positions."""
        if spec not in self._angles or self._angles[spec][0].shape[2] < total:
            positions = torch.arange(-(-total // 256) * 256, device=self.stream.device)[None]
            cosines, sines = self.stack.rotaries[spec](positions, torch.float32)
            self._angles[spec] = cosines.contiguous(), sines.contiguous()
        return self._angles[spec]

    def _set_bias(self, total: int) -> None:
        """The bias of the scores, which depends on the distance alone: it is made for all distances at once."""
        bias = self.stack.bias
        if bias is None or (self._bias is not None and self._bias[0] >= total):
            return
        distances = -(-total // 256) * 256
        table = bias(1, distances, self.stream.device)[0, :, 0].float().contiguous()  # [H, distances]
        self._bias = distances, table
        for number, layer in self._layers:
            if not isinstance(layer, CrossAttention):
                self.instructions[number]["distances"] = distances
                self.instructions[number]["score_bias"] = table.data_ptr()

    # --------------------------------------------------------------------------------------------------- once a form

    def _make_job(self, scores: int) -> None:
        """Scratch memory of each thread: the normed inputs, then what an instruction needs besides them."""
        ops, R = self._records, self.B * self.T
        inputs = max(max(R * self._input_floats(op), 2 * op.get("width", 0)) for op in ops)
        outputs = max(max(R, 2) * op.get("outputs", 0) for op in ops)
        heads = max((op["heads"] * op["width"] for op in ops if op["kind"] == Kind.ATTENTION), default=0)
        inputs = -(-inputs // 16) * 16
        self.instructions["spare"] = 4 * inputs
        self._scores = scores
        self.job = TeamJob(self._state, inputs + max(outputs, heads + scores), self.nbytes)

    @staticmethod
    def _input_floats(op: dict[str, Any]) -> int:
        """Numbers of a token's inputs: normed, and where weights have 4 bits, rounded too."""
        own: int = op["inputs"]
        return own + rounded_floats(own) if op.get("format") == NumberFormat.INT4 else own

    def _add_block(self, block: Any) -> None:
        if type(block) is Block:
            self._add_attention(block.attn, block.attn_residual.before)
            self._close(block.attn.out, self._z, block.attn_residual)
            skipped = block.cross_optional and not self.memory
            if block.cross is not None and block.cross_residual is not None and not skipped:
                self._add_cross(block.cross, block.cross_residual.before)
                self._close(block.cross.out, self._z, block.cross_residual)
            if isinstance(block.ffn, Experts):
                self._add_experts(block.ffn, block.ffn_residual)
            else:
                neurons = self._add_neurons(block.ffn, block.ffn_residual.before)
                self._close(block.ffn.get_submodule("down"), neurons, block.ffn_residual)
        elif type(block) is ParallelBlock:
            self._add_attention(block.attn, block.norm)
            neurons = self._add_neurons(block.ffn, block.norm if block.ffn_norm is None else block.ffn_norm)
            self._product(block.attn.out, self._z, self.stream, residual=self.stream)
            self._product(block.ffn.get_submodule("down"), neurons, self.stream, residual=self.stream)
        else:
            raise NotUnderstood(type(block).__name__)

    def _add_attention(self, attention: nn.Module, norm: nn.Module) -> None:
        if type(attention) is not Attention:
            raise NotUnderstood(type(attention).__name__)
        spec = attention.spec
        qkv = self._product(attention.qkv, self.stream, norm=norm)
        fields: dict[str, Any] = {"writes": 1, "window": spec.window or 0, "beams": 1}
        if spec.rotary is not None:
            self._rotary.setdefault(spec.rotary, []).append(len(self._records))
            fields["rotated"] = spec.rotary.width
        if attention.q_norm is not None and attention.k_norm is not None:
            q, k = (
                norm_fields(attention.q_norm, self._referenced.address),
                norm_fields(attention.k_norm, self._referenced.address),
            )
            joint = spec.qk_norm is not None and spec.qk_norm.width != spec.E
            fields |= {"qk_norm": q["norm"], "qk_eps": q["eps"], "qk_joint": joint}
            fields["qk_stride"] = 4 * spec.E if spec.qk_norm_per_head else 0
            fields |= {"q_gain": q["gain"], "q_shift": q["shift"], "k_gain": k["gain"], "k_shift": k["shift"]}
        self._add_heads(attention, qkv, fields)

    def _add_cross(self, cross: nn.Module, norm: nn.Module) -> None:
        if type(cross) is not CrossAttention:
            raise NotUnderstood(type(cross).__name__)
        self._add_heads(cross, self._product(cross.q, self.stream, norm=norm), {})

    def _add_heads(self, attention: Attention | CrossAttention, x: Tensor, fields: dict[str, Any]) -> None:
        """z = softmax(q kᵀ · scale + bias) v"""
        spec = attention.spec
        self._z = self._buffer(spec.heads * spec.E)
        self._layers.append((len(self._records), attention))
        self._records.append(
            {
                "kind": Kind.ATTENTION, "chunks": self.B * spec.K, "x": x.data_ptr(), "inputs": x.shape[1],
                "y": self._z.data_ptr(), "new": self.T, "heads": spec.heads, "groups": spec.K, "width": spec.E,
                "scale": attention.scale, "cap": spec.score_cap or 0.0, **fields,
            }
        )  # fmt: skip

    def _add_neurons(self, ffn: nn.Module, norm: nn.Module, y: Tensor | None = None) -> Tensor:
        """neurons = activation(up(norm(x))), or activation(gate(norm(x))) · up(norm(x))"""
        if not isinstance(ffn, (FeedForward, GatedFeedForward)) or type(ffn) not in (FeedForward, GatedFeedForward):
            raise NotUnderstood(type(ffn).__name__)
        gate = ffn.gate if isinstance(ffn, GatedFeedForward) else None
        return self._product(ffn.up, self.stream, y, norm=norm, gate=gate, activation=activation_of(ffn.activation))

    def _add_experts(self, layer: Experts, residual: Residual) -> None:
        """The experts of each token, their neurons, and the mixture of what they make of them."""
        R, k = self.B * self.T, layer.spec.experts_per_token
        experts: list[Any] = list(layer.experts)
        chosen, weights = torch.zeros(R, k, dtype=torch.int64), torch.zeros(R, k)
        self._referenced += [chosen, weights]
        own = {"experts": len(experts), "slots": k, "chosen": chosen.data_ptr(), "mixture": weights.data_ptr()}
        scores = self._product(layer.router.scores, self.stream, norm=residual.before)
        self._records.append({"kind": Kind.ROUTE, "chunks": R, "x": scores.data_ptr(), "inputs": len(experts), **own})
        neurons = self._buffer(k * layer.spec.expert.hidden)
        self._add_neurons(experts[0], residual.before, neurons)
        self._for_all(self._records[-1], R * k, own | {"kind": Kind.EXPERT}, "up", experts)
        if isinstance(experts[0], GatedFeedForward):
            self._for_all(self._records[-1], 1, {}, "gate", experts, "gate", "gate_step", "gate_bias")
        number = len(self._records)
        self._close(experts[0].down, neurons, residual)
        self._for_all(self._records[number], R, own | {"kind": Kind.MIXTURE}, "down", experts)

    def _for_all(
        self, record: dict[str, Any], times: int, fields: dict[str, Any], name: str, experts: list[Any], *places: str
    ) -> None:
        """Make a product of the first expert's layer one that has tables of the weights of all."""
        matrices = [matrix_of(getattr(expert, name)) for expert in experts]
        if len({matrix.format for matrix in matrices}) > 1:
            raise NotUnderstood("experts in several formats")
        if matrices[0].format == NumberFormat.INT4:
            raise NotUnderstood("experts in 4 bits")
        for place, field in zip(places or ("weight", "step", "bias"), ("weight", "step", "bias"), strict=True):
            table = np.array([product_fields(matrix)[field] for matrix in matrices], np.int64)
            record[place] = table.ctypes.data if table.all() else 0
            self._referenced += [matrices, table]
        if fields:
            record |= fields | {"parts": record["chunks"], "chunks": record["chunks"] * times}

    def _close(self, linear: nn.Module, x: Tensor, residual: Residual) -> None:
        """stream = on_residual(stream + scale · after(linear(x)))"""
        if isinstance(residual.after, nn.Identity):
            self._product(linear, x, self.stream, residual=self.stream, factor=residual.scale)
        else:
            self._product(linear, x, self._branch)
            self._add_norm(residual.after, self._branch, residual=self.stream.data_ptr(), factor=residual.scale)
        if not isinstance(residual.on_residual, nn.Identity):
            self._add_norm(residual.on_residual, self.stream)

    def _add_norm(self, norm: nn.Module, x: Tensor, **fields: Any) -> None:
        """stream = residual + factor · norm(x)"""
        place = {"x": x.data_ptr(), "inputs": x.shape[-1], "y": self.stream.data_ptr()}
        place |= {"kind": Kind.NORM, "chunks": self.B * self.T}
        self._records.append(place | norm_fields(norm, self._referenced.address) | fields)

    def _product(
        self,
        linear: nn.Module,
        x: Tensor,
        y: Tensor | None = None,
        *,
        norm: nn.Module | None = None,
        residual: Tensor | None = None,
        factor: float = 1.0,
        gate: nn.Module | None = None,
        activation: Activation = Activation.NONE,
    ) -> Tensor:
        """y = activation(linear(norm(x))), gated, or residual + factor · linear(x)"""
        matrix = matrix_of(linear)
        self._referenced.append(matrix)
        y = self._buffer(len(matrix.weight)) if y is None else y
        fields: dict[str, Any] = {
            "kind": Kind.PRODUCT, "rows": self.B * self.T, "x": x.data_ptr(), "y": y.data_ptr(),
            "residual": 0 if residual is None else residual.data_ptr(), "factor": factor, "activation": activation,
            **product_fields(matrix), **norm_fields(norm, self._referenced.address),
        }  # fmt: skip
        self.nbytes += matrix.nbytes
        if gate is not None:
            other = matrix_of(gate)
            if (other.format, other.group) != (matrix.format, matrix.group):
                raise NotUnderstood(f"{other.format} with {matrix.format}")
            self._referenced.append(other)
            names = {"weight": "gate", "step": "gate_step", "zero": "gate_zero", "bias": "gate_bias"}
            fields |= {"kind": Kind.GATED} | {mine: product_fields(other)[name] for name, mine in names.items()}
            self.nbytes += other.nbytes
        self._records.append(fields)
        return y

    def _buffer(self, width: int) -> Tensor:
        with torch.inference_mode(False):  # a program made by generate() is run by plain calls too
            buffer = torch.empty(self.B * self.T, width)
        self._referenced.append(buffer)
        return buffer
