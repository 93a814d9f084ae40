"""A linear layer with a packed copy of its weights, for inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.engine.few_tokens import MAX_TOKENS, FewTokensProduct
from glassformer.engine.products import PACKED, PLAIN, Matrix, Product, packable
from glassformer.errors import ConfigError

LARGE = 1 << 20
"""Weights of a head from which on the compiled kernels pay in a step of generation."""


class PackedLinear(nn.Linear):
    """A linear layer with a packed copy of its weights, for inference.

        y = x Wᵀ + b,      by a product that `precision` names

    `weight` and `bias` are the original layer's own tensors, so `state_dict`, saving and counting parameters see
    nothing else. The packed copy follows `load_state_dict`, `to`, `copy.deepcopy` and pickling. Weights changed in
    place (by a training step) make it stale: "fp32" then takes the plain product, as it does where gradients are asked
    for; the other precisions refuse both, since their numbers differ.

    Args:
        linear: the original layer.
        precision: one of `PRECISIONS`.
        inside: whether it is part of a block: then "bf16" and "int8" return bfloat16, else the dtype of x.
    Raises: ConfigError (forward): gradients, or changed weights, under a narrow precision.
    """

    def __init__(self, linear: nn.Linear, precision: str, *, inside: bool) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.precision, self.inside = precision, inside
        # In tuples, so that torch does not register them as submodules.
        self._original = (linear,)
        self._product: Product | None = None
        self._packed_from: list[tuple[Tensor, int]] = []
        self._twin = (self,)
        self._matrix: Matrix | None = None
        self._few_tokens: FewTokensProduct | None = None
        self.train(linear.training)

    @property
    def fast(self) -> bool:
        """Whether there is a packed product for these weights."""
        return packable(self.weight, self.precision)

    def pack(self) -> Product:
        """Pack the weights as they are now; layers that share them share the packed copy too."""
        (twin,) = self._twin
        if twin is not self and twin.weight is self.weight and twin.bias is self.bias:
            product = twin.pack() if twin._product is None or twin.stale() else twin._product
            self._product, self._packed_from = product, twin._packed_from
            return product
        weight = self.weight.detach()
        bias = None if self.bias is None else self.bias.detach()
        product = (PACKED if self.fast else PLAIN)[self.precision](weight, bias, self.inside)
        # torch counts the changes of a tensor in place; tensors made in inference mode cannot change unseen.
        counted = [t for t in (self.weight, self.bias) if t is not None and not t.is_inference()]
        self._packed_from = [(t, t._version) for t in counted]
        self._product, self._matrix = product, None
        return product

    def matrix(self) -> Matrix:
        """The weights as they are now, as the kernels of single tokens read them."""
        if self._matrix is None or self.stale():
            self.pack()
            bias = None if self.bias is None else self.bias.detach()
            self._matrix = Matrix.of(self.weight.detach(), bias, self.precision, self.inside)
        return self._matrix

    def stale(self) -> bool:
        """Whether the weights have changed since they were packed."""
        if self._product is not None:
            for tensor, version in self._packed_from:  # runs at every token: a plain loop is the fastest
                if tensor._version != version:
                    return True
        return False

    @property
    def original(self) -> nn.Linear:
        """The original layer, with the current tensors."""
        (linear,) = self._original
        linear.weight, linear.bias = self.weight, self.bias
        return linear.train(self.training)

    def forward(self, x: Tensor) -> Tensor:
        product = self._product
        differentiable = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
        if differentiable or self.stale():
            if self.precision != "fp32":
                raise ConfigError(
                    f"this network is prepared for inference in {self.precision}, but "
                    + (
                        "gradients are asked for; wrap the call in torch.inference_mode(), or train after unprepare()"
                        if differentiable
                        else "its weights have changed since; call prepare() again"
                    )
                )
            return F.linear(x, self.weight, self.bias)
        if self.multiplies_few(x):
            if self._few_tokens is None or self._matrix is None:
                self._few_tokens = FewTokensProduct(self.matrix())
            if (y := self._few_tokens(x)) is not None:
                return y
        return self.pack()(x) if product is None else product(x)

    def multiplies_few(self, x: Tensor) -> bool:
        """Whether it is a large head, and these are the tokens of a step of few rows: then compiled kernels pay."""
        few = x.dim() == 3 and x.shape[1] == 1 and len(x) <= MAX_TOKENS
        return few and not self.inside and self.weight.numel() >= LARGE

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, precision={self.precision}"

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> PackedLinear:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._product = self._matrix = None
        return self

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        super()._load_from_state_dict(*args, **options)
        self._product = self._matrix = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_packed_from"} | {
            "_product": None,
            "_matrix": None,
            "_few_tokens": None,
        }
