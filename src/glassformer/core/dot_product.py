"""Scaled dot-product attention, step by step: scores and their soft cap, softmax over the keys, sum of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core import processor
from glassformer.core.checks import any_true
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped


def softmax(scores: Float[Tensor, "*rest S"]) -> Float[Tensor, "*rest S"]:
    """Softmax over the keys, in at least fp32; hidden keys (-inf) get exactly 0, also where a whole row is hidden."""
    hidden = scores == -torch.inf
    wide = torch.promote_types(scores.dtype, torch.float32)
    # The softmax of a row that is -inf throughout is NaN, and so are its gradients; any finite row will do.
    scores = scores.masked_fill(hidden.all(dim=-1, keepdim=True), 0.0)
    return torch.softmax(scores, dim=-1, dtype=wide).masked_fill(hidden, 0.0).to(scores.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch T E"],
    k: Float[Tensor, "*batch S E"],
    v: Float[Tensor, "*batch S E"],
    keep: Shaped[Tensor, "*#batch T S"] | None = None,
    bias: Float[Tensor, "*#batch T S"] | None = None,
    scale: float | None = None,
    cap: float | None = None,
) -> tuple[Float[Tensor, "*batch T E"], Float[Tensor, "*batch T S"]]:
    """Scaled dot-product attention, step by step as in the paper.

        probs = softmax(q kᵀ · scale + bias, over the keys),      z = probs v

    Args:
        q, k, v: queries, keys, values. [..., T, E], [..., S, E], [..., S, E]
        keep: True or 1 = may attend. [..., T, S]; a row without any True gives zeros
        bias: added to the scores; an additive mask (0 and -inf) goes here too. [..., T, S]
        scale: 1/√E unless given.
        cap: soft cap of q kᵀ · scale, see `attention_scores`.
    Returns: z [..., T, E] and probs [..., T, S], whose rows sum to 1.
    Raises: ConfigError: shapes that do not fit, or a mask that holds something else than True and False, or 1 and 0.
    Source: Vaswani et al. 2017, section 3.2.1.
    """
    _check_shapes(q, k, v)
    if keep is not None:
        _check_mask("keep", keep, q, k)
        keep = _as_bool(keep)
    if bias is not None:
        _check_mask("bias", bias, q, k)
    scores = attention_scores(q, k, keep, bias, q.shape[-1] ** -0.5 if scale is None else scale, cap)
    probs = softmax(scores)
    return probs @ v, probs


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype != q.dtype:
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ConfigError(f"{name} is {got}; q, k and v must be tensors of floats, all of one dtype")
        if x.dim() < 2:
            raise ConfigError(f"{name} has shape {list(x.shape)}; it must be [..., tokens, width]")
        sizes = zip(q.shape[-3::-1], x.shape[-3::-1], strict=False)
        if x.dim() < q.dim() or any(one != other and 1 not in (one, other) for one, other in sizes):
            raise ConfigError(f"{name} has shape {list(x.shape)}, and q {list(q.shape)}; they must agree before [T, E]")
    if q.shape[-1] != k.shape[-1]:
        raise ConfigError(f"q has width {q.shape[-1]}, and k {k.shape[-1]}; each query is compared with each key")
    if k.shape[-2] != v.shape[-2]:
        raise ConfigError(f"there are {k.shape[-2]} keys and {v.shape[-2]} values; each key has one value")


def _as_bool(keep: Tensor) -> Tensor:
    """A mask of True and False, of one that may hold 1 and 0."""
    if keep.dtype == torch.bool:
        return keep
    if any_true((keep != 0) & (keep != 1)):
        raise ConfigError(
            "keep holds other numbers than 0 and 1; it must be True (or 1) where a query may attend to a key; numbers "
            "to add to the scores, such as 0 and -inf, are given as bias="
        )
    return keep != 0


def _check_mask(name: str, mask: Tensor, q: Tensor, k: Tensor) -> None:
    if not isinstance(mask, Tensor):
        raise ConfigError(f"{name} is {type(mask).__name__}; it must be a tensor, [..., queries, keys]")
    batch = max(q.shape[:-2], k.shape[:-2], key=len)
    scores = [*batch, q.shape[-2], k.shape[-2]]
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.dim() > len(scores) or any(size not in (1, wanted) for size, wanted in sizes):
        raise ConfigError(f"{name} has shape {list(mask.shape)}; it must broadcast to the scores, {scores}")


def attention_scores(
    q: Tensor, k: Tensor, keep: Tensor | None, bias: Tensor | None, scale: float, cap: float | None = None
) -> Tensor:
    """Attention scores: q kᵀ · scale + bias, with -inf where a query may not attend. [..., T, S]

    Args:
        cap: with a soft cap they are cap · tanh(q kᵀ · scale / cap) + bias
    Source: the soft cap: Gemma team 2024, "Gemma 2", section 2.
    """
    scores = matmul_by_group(q, k.mT) * scale
    if cap is not None:
        scores = soft_cap(scores, cap)
    if bias is not None:
        scores = scores + bias
    return scores if keep is None else scores.masked_fill(~keep, -torch.inf)


UNFUSED_SCORES = 2**21
"""How many scores `unfused_attention` computes at a time: 4 MB in bf16, which a cache holds."""
FEWEST_SCORES = 2**13
"""Of fewer scores the calls take longer than the products."""
FEW_QUERIES = 8
"""With AMX, which the fused kernel uses too, it is slower for so few queries of a head only: steps of generation."""


def unfused_attention(
    q: Float[Tensor, "B H T E"], k: Float[Tensor, "B K S E"], v: Float[Tensor, "B K S E"], scale: float
) -> Float[Tensor, "B H T E"]:
    """Scaled dot-product attention without mask and gradients: two matrix products, some heads or queries at a time.

    For bf16 on a CPU (`prefers_unfused`), where oneDNN's products take a third of the time of the fused kernel.
    Scores are rounded to bf16, as q, k and v are; K key heads serve H/K neighbouring query heads each.
    """
    (B, K, S, E), T = k.shape, q.shape[2] * q.shape[1] // k.shape[1]
    keys, values, rows = k.reshape(-1, S, E).mT, v.reshape(-1, S, E), q.reshape(B * K, T, E)
    z, zero = torch.empty_like(rows), q.new_zeros(1)
    heads, queries = max(1, UNFUSED_SCORES // (T * S)), max(1, UNFUSED_SCORES // S)
    for head in range(0, B * K, heads):
        some = slice(head, head + heads)
        for first in range(0, T, queries):
            part = (some, slice(first, first + queries))
            scores = torch.baddbmm(zero, rows[part], keys[some], beta=0, alpha=scale)
            z[part] = torch.softmax(scores, dim=-1) @ values[some]
    return z.view(q.shape)


def prefers_unfused(q: Tensor, k: Tensor) -> bool:
    """Whether `unfused_attention` is faster than the fused kernel: many scores in bf16, on a CPU that multiplies it."""
    if q.dtype != torch.bfloat16 or q.device.type != "cpu" or q.shape[:3].numel() * k.shape[2] < FEWEST_SCORES:
        return False
    return processor.has("avx512_bf16") and (q.shape[2] <= FEW_QUERIES or not processor.has("amx_tile"))


def soft_cap(x: Float[Tensor, "..."], cap: float) -> Float[Tensor, "..."]:
    """Soft cap: cap · tanh(x / cap), which is x near 0 and never beyond ±cap.

    Source: Gemma team 2024, "Gemma 2", section 2; before, of the scores of a pointer network: Bello et al. 2017.
    """
    return cap * torch.tanh(x / cap)


def matmul_by_group(x: Float[Tensor, "*heads T I"], y: Float[Tensor, "*groups I O"]) -> Float[Tensor, "*heads T O"]:
    """Batched matrix product of grouped heads: H/K neighbouring heads of x share one of y, without a copy of y."""
    if x.dim() < 4 or x.shape[1] == y.shape[1]:
        return x @ y
    rows = x.unflatten(1, (y.shape[1], -1)).flatten(2, 3)  # [B, K, H/K · T, I]
    products: Tensor = (rows @ y).unflatten(2, (-1, x.shape[2])).flatten(1, 2)
    return products
