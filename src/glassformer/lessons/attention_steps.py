"""Attention in the steps of a lesson: queries, keys, values, scores, softmax weights, outputs of one head and all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import wrap

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.attention import Attention
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.dot_product import scaled_dot_product_attention, softmax
from glassformer.core.flow import Batch, Flow, Node, Tape
from glassformer.errors import DataError
from glassformer.models._network import Encoder
from glassformer.reports.report import Report
from glassformer.reports.table import Table

MAX_SIDE = 32
"""Longest side of a matrix whose numbers a notebook shows."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LessonStep(Report, kind="lesson-step"):
    """One step of the way: what is computed, the tensors it makes, and what to notice in them."""

    name: str
    formula: str
    tensors: Mapping[str, Tensor]
    notice: str

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def heading(self) -> str:
        return f"{self.name}: {self.formula}"

    def tables(self) -> list[Table]:
        """The tensors with their shapes, and those that are small enough as matrices."""
        shapes = [[name, str(list(tensor.shape))] for name, tensor in self.tensors.items()]
        matrices = [
            _matrix_table(name, tensor.flatten(0, -2))
            for name, tensor in self.tensors.items()
            if tensor.dim() > 1 and max(tensor.shape[-2:]) <= MAX_SIDE and tensor.numel() <= MAX_SIDE**2
        ]
        return [Table(["tensor", "shape"], shapes), *matrices]

    def remarks(self) -> list[str]:
        return wrap(self.notice, 98)


def _matrix_table(name: str, matrix: Tensor) -> Table:
    numbers = matrix.float()
    shades = numbers / (float(numbers.abs().max()) or 1.0)
    number = "{:.3f}" if matrix.is_floating_point() else "{:d}"
    rows = [[str(i), *map(number.format, row)] for i, row in enumerate(matrix.tolist())]
    headings = ["", *map(str, range(matrix.shape[-1]))]
    return Table(headings=headings, rows=rows, caption=name, shades=shades.tolist(), as_picture=True)


def bare_attention(x: Tensor) -> LessonStep:
    """Self-attention without projections: q, k and v are x. scores, weights [1, T, T]; output [1, T, D]"""
    output, weights = scaled_dot_product_attention(x, x, x)
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    diagonal = weights.diagonal(dim1=-2, dim2=-1).mean().item()
    return LessonStep(
        name="attention, bare",
        formula=f"softmax(x xᵀ / √{x.shape[-1]}) x",
        tensors={"scores": scores, "weights": weights, "output": output},
        notice=f"each row of weights sums to 1; a vector is most like itself, so a token keeps {diagonal:.2f} of its "
        "attention for itself: without projections of their own, queries and keys have nothing to say",
    )


def six_steps(
    network: Node, batch: Batch, flow: Flow | None = None, *, path: str = "blocks.0.attn", head: int = 0
) -> dict[str, Tensor]:
    """All intermediate tensors of one attention head, in any layer of any network, from its real forward pass.

        q, k, v → raw_scores = q kᵀ → scaled_scores → seen_scores (bias and mask) → weights → weighted_values → sum

    Args:
        path: the layer: `blocks.3.attn`, `decoder.blocks.0.cross`, …
        head: which of its heads.
    Returns: q [B, T, E], k v [B, S, E], scores and weights [B, T, S], weighted_values [B, T, S, E], sum [B, T, E].
    Source: Vaswani et al. 2017, section 3.2.1.
    """
    tape = Tape(*(f"{path}.{name}" for name in ("q", "k", "v", "scores"))).attach(network)
    network(batch, replace(flow or Flow(), tape=tape))
    attention = network.get_submodule(path)
    assert isinstance(attention, (Attention, CrossAttention))  # no other part has these taps
    q, k, v, masked_scores = (tape.taps[f"{path}.{name}"] for name in ("q", "k", "v", "scores"))
    if not 0 <= head < q.shape[1]:
        raise DataError(f"{path} has no head {head}; it has heads 0 to {q.shape[1] - 1}")
    shared = q.shape[1] // k.shape[1]  # grouped-query attention: query heads per key/value head
    q, k, v, masked_scores = q[:, head], k[:, head // shared], v[:, head // shared], masked_scores[:, head]
    raw = q @ k.mT
    weights = softmax(masked_scores)
    weighted = weights[..., None] * v[:, None]  # [B, T, S, E]
    return {
        "q": q,
        "k": k,
        "v": v,
        "raw_scores": raw,
        "scaled_scores": raw * attention.scale,
        "seen_scores": masked_scores,
        "weights": weights,
        "weighted_values": weighted,
        "sum": weighted.sum(dim=2),
    }


def one_head(network: Encoder, ids: Tensor, layer: int = 0, head: int = 0) -> list[LessonStep]:
    """One attention head in four steps: q, k, v; scores; weights; output."""
    tensors = six_steps(network, Batch(input_ids=ids), path=f"blocks.{layer}.attn", head=head)
    width = tensors["q"].shape[-1]
    strongest = tensors["weights"][0].max().item()
    return [
        LessonStep(
            name="q, k, v",
            formula="q = x W_q,  k = x W_k,  v = x W_v",
            tensors={name: tensors[name] for name in "qkv"},
            notice=f"head {head} of layer {layer} asks (q), offers (k) and gives (v) in {width} numbers a token: "
            "the width of a head, not the number of heads",
        ),
        LessonStep(
            name="scores",
            formula=f"q kᵀ / √{width}",
            tensors={"raw_scores": tensors["raw_scores"], "scaled_scores": tensors["scaled_scores"]},
            notice=f"row: who asks; column: who is asked. Divided by {math.sqrt(width):.3g}, or the softmax would be "
            "almost all or nothing",
        ),
        LessonStep(
            name="weights",
            formula="softmax(scores), along each row",
            tensors={"weights": tensors["weights"]},
            notice=f"rows sum to 1, columns need not; the largest weight is {strongest:.2f}. What may not be seen was "
            "set to -inf before the softmax, and so gets exactly 0",
        ),
        LessonStep(
            name="output",
            formula="Σ over tokens of weight · v",
            tensors={"weighted_values": tensors["weighted_values"], "sum": tensors["sum"]},
            notice="each token leaves with a mixture of all tokens' values",
        ),
    ]


def single_head(attention: Attention, x: Tensor, head: int) -> Tensor:
    """The output of one head alone, with its rows of the fused weight. [B, T, E]"""
    E, H = attention.spec.E, attention.spec.heads
    weight = attention.qkv.weight.unflatten(0, (3, H, E))[:, head]  # [3, E, D]
    bias = attention.qkv.bias.unflatten(0, (3, H, E))[:, head]  # [3, E]
    q, k, v = (F.linear(x, weight[part], bias[part]) for part in range(3))
    return scaled_dot_product_attention(q, k, v)[0]


def multi_head(attention: Attention, x: Tensor) -> LessonStep:
    """Multi-head attention: all heads, concatenated and projected to the width of the stream. out [B, T, D]"""
    H, E = attention.spec.heads, attention.spec.E
    concatenated = torch.cat([single_head(attention, x, head) for head in range(H)], dim=-1)  # [B, T, H · E]
    by_hand = attention.out(concatenated)
    out = attention(x, Flow())
    return LessonStep(
        name="multi-head",
        formula="out = [z₁ … z_H] W_out",
        tensors={"joined": concatenated, "out, head by head": by_hand, "out": out},
        notice=f"{H} heads of {E}, made one by one, give what the layer computes in one product "
        f"(largest difference {(out - by_hand).abs().max():.0e})",
    )
