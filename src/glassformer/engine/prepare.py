"""Weight preparation for inference: replace linear layers by packed or quantised ones, reversibly.

    nn.Linear ──prepare(network, "bf16")──> PackedLinear ──unprepare(network)──> the very same nn.Linear
     weight            shares weight and bias with it, and holds a packed copy

    fp32: the same numbers, faster · fp16: narrow weights · bf16, int8: narrow weights and inputs; see `products`

Only the products are narrow. Norms, the residual stream and everything outside the blocks stay in fp32; what flows from
one linear layer of a block to the next (q, k, v, z, neurons) is bfloat16 under "bf16" and "int8". These are the dtypes
that `torch.autocast` gives, too.

Many tokens at once (encoding, prefill) are bound by compute, where bf16 and int8 are fastest. A step of generation is
one token in each row and bound by memory bandwidth: the fewer bytes the weights have, the faster, and fp16 leaves all
else exact.
"""

from __future__ import annotations

import copy
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.engine.products import PACKED, PLAIN, TAKES, Product, packable
from glassformer.errors import ConfigError, nearest

PRECISIONS = ("fp32", "fp16", "bf16", "int8")

_module_lock = threading.Lock()  # one thread at a time replaces modules; running them needs no lock

Prepared = TypeVar("Prepared", bound=nn.Module)


def prepare(network: nn.Module, precision: str) -> nn.Module:
    """Replace every linear layer that can be packed, in place; weights and their names do not change.

    A head tied to an embedding is packed when it is first run, so that it costs no copy if it never is.
    Not replaced: subclasses of `nn.Linear`, layers with hooks.
    Preparing again is cheap; another precision, or weights that changed since, are packed anew. Any number of threads
    may run a prepared network; none should while its precision changes, or it may meet both (fp32 is always safe).

    Args:
        network: any module tree with fp32 weights (or bfloat16 ones, for "bf16" and "int8").
        precision: "fp32", "fp16", "bf16" or "int8".
    Returns: the network itself.
    Raises: ConfigError: an unknown precision, or weights of another dtype. Nothing is changed then.
    """
    if precision not in PRECISIONS:
        raise ConfigError(
            f"precision is {precision!r}; allowed: {', '.join(PRECISIONS)}{nearest(str(precision), PRECISIONS)}"
        )
    with _module_lock:
        slots = list(_slots(network))
        for path, _, _, linear in slots:
            if linear.weight.dtype not in TAKES[precision]:
                raise ConfigError(
                    f"{path}.weight is {_short(linear.weight.dtype)}; preparing {precision} takes "
                    f"{' or '.join(map(_short, TAKES[precision]))}: load the model with that dtype"
                )
        shared = _shared(network)
        packed: dict[int, PackedLinear] = {}  # one layer under two names stays one layer
        twins: dict[tuple[int, int, bool], PackedLinear] = {}  # layers of equal tensors are packed once
        for path, _, _, linear in slots:
            if id(linear) not in packed and not _is_prepared(linear, precision):
                original = linear.original if isinstance(linear, PackedLinear) else linear
                form = PackedLinear(original, precision, inside=_inside_a_block(path))
                form._twin = (twins.setdefault((id(form.weight), id(form.bias), form.inside), form),)
                if id(form.weight) not in shared:
                    form.pack()
                packed[id(linear)] = form
        for _, parent, name, linear in slots:  # only now, when all of them could be packed
            setattr(parent, name, packed.get(id(linear), linear))
        if any(not form.fast for form in packed.values()):
            _warn_of_slow_products(precision, slots[0][3].weight.device)
    return network


def prepare_plain(network: nn.Module) -> None:
    """Prepare an unprepared fp32 network on the CPU in fp32: results change in their last digits only."""
    kinds = {(parameter.dtype, parameter.device.type) for parameter in network.parameters()}
    if kinds == {(torch.float32, "cpu")} and prepared_precision(network) is None:
        prepare(network, "fp32")


def prepared_copy(network: Prepared, precision: str) -> Prepared:
    """A copy that shares all weights and is prepared in a precision, while others go on using the original.

    The network itself, where that is its precision already.
    """
    if prepared_precision(network) == precision:
        return network
    copied = copy.deepcopy(network, {id(x): x for x in (*network.parameters(), *network.buffers())})
    unprepare(copied)
    prepare(copied, precision)
    return copied


def unprepare(network: nn.Module) -> nn.Module:
    """Restore the original linear layers: the same modules with the same tensors. Returns the network itself."""
    with _module_lock:
        for _, parent, name, linear in list(_slots(network)):
            if isinstance(linear, PackedLinear):
                setattr(parent, name, linear.original)
    return network


def prepared_precision(network: nn.Module) -> str | None:
    """The precision that a network is prepared for, or None."""
    return next((m.precision for m in network.modules() if isinstance(m, PackedLinear)), None)


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
        self._product = product
        return product

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
        return self.pack()(x) if product is None else product(x)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, precision={self.precision}"

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> PackedLinear:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._product = None
        return self

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        super()._load_from_state_dict(*args, **options)
        self._product = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_packed_from"} | {"_product": None}


def _warn_of_slow_products(precision: str, device: torch.device) -> None:
    if precision in ("int8", "fp16"):
        processor = "with VNNI" if precision == "int8" else "with AVX2"
        warnings.warn(
            f"{precision} products need an x86 processor {processor}, and weights on the CPU (they are on {device}); "
            "the network keeps its plain products and their precision",
            stacklevel=3,
        )
    elif precision == "bf16" and device.type == "cpu":
        warnings.warn(
            "bf16 products are packed on x86 processors with AVX-512 only; plain ones are used, which may be slow",
            stacklevel=3,
        )


def _is_prepared(linear: nn.Linear, precision: str) -> bool:
    """Whether a layer is prepared in this precision, with its current weights."""
    return isinstance(linear, PackedLinear) and linear.precision == precision and not linear.stale()


def _slots(network: nn.Module) -> Iterator[tuple[str, nn.Module, str, nn.Linear]]:
    """(path, parent, name in it, layer) of each linear layer that is or can be packed."""
    for path, parent in network.named_modules():
        for name, child in list(parent._modules.items()):
            if type(child) is PackedLinear or (
                type(child) is nn.Linear
                and child._parameters.get("weight") is not None
                and not (child._forward_hooks or child._forward_pre_hooks or child._backward_hooks)
            ):
                yield f"{path}.{name}".removeprefix("."), parent, name, child


def _shared(network: nn.Module) -> set[int]:
    """The ids of tensors that several modules share."""
    own = (tensor for module in network.modules() for tensor in module._parameters.values())
    owners = Counter(id(tensor) for tensor in own if tensor is not None)
    return {tensor for tensor, count in owners.items() if count > 1}


def _inside_a_block(path: str) -> bool:
    """Blocks stand in lists, so the path of what is inside one has a number: `blocks.3.attn.qkv`."""
    return any(part.isdigit() for part in path.split("."))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
