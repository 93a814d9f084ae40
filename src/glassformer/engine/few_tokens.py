"""The product of a linear layer and a few tokens by the compiled kernels: for the head, whose table is the largest."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.engine import native
from glassformer.engine.instruction import Instruction
from glassformer.engine.products import Matrix
from glassformer.engine.program import NumberFormat, rounded_floats

MAX_TOKENS = 8
"""Tokens of a step, over all rows, up to which it is bound by the bandwidth of reading weights."""

CHUNK_BYTES, MIN_CHUNKS = 1 << 18, 8
"""Weights of a chunk at most, and chunks of a product at least: long runs are read fastest, short ones end together."""


def product_fields(matrix: Matrix) -> dict[str, int]:
    """The fields of a product's instruction that its weights decide."""
    N, K = len(matrix.weight), matrix.inputs
    block = -(-N // max(MIN_CHUNKS, -(-matrix.weight.nbytes // CHUNK_BYTES)))
    addresses = {"weight": matrix.weight, "step": matrix.step, "bias": matrix.bias, "zero": matrix.zero}
    return {
        "block": block, "chunks": -(-N // block), "inputs": K, "outputs": N, "format": matrix.format,
        "group": matrix.group,
        **{name: 0 if tensor is None else tensor.data_ptr() for name, tensor in addresses.items()},
    }  # fmt: skip


class FewTokensProduct:
    """y = x Wᵀ + b of a few tokens, `MAX_TOKENS` at a time, in fp32."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        rounded = MAX_TOKENS * rounded_floats(matrix.inputs) if matrix.format == NumberFormat.INT4 else 0
        self._instruction = Instruction(rounded, **product_fields(matrix))

    def __call__(self, x: Tensor) -> Tensor | None:
        """The product, or None where there is no kernel for it. [..., out]"""
        kernel = native.kernel() if x.device.type == "cpu" and len(x) else None
        N, K = len(self._matrix.weight), self._matrix.inputs
        if kernel is None:
            return None
        tokens = x.float().reshape(-1, K).contiguous()
        y = torch.empty(len(tokens), N)
        for read, written in zip(tokens.split(MAX_TOKENS), y.split(MAX_TOKENS), strict=True):
            places = {"x": read.data_ptr(), "y": written.data_ptr()}
            self._instruction.run(kernel, nbytes=self._matrix.nbytes, rows=len(read), **places)
        return y.to(x.dtype).view(*x.shape[:-1], N)
