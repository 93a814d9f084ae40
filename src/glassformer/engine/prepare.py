"""Prepared weights: the same network, its linear layers in the form the processor likes best.

    nn.Linear ──prepare(network, "bf16")──> PackedLinear ──unprepare(network)──> the very same nn.Linear
     weight            shares weight and bias with it, and holds a packed copy

    precision   the product of a linear layer                            differs from the plain one
    fp32        weights laid out in cache-sized blocks                   by the order of additions
    fp16        weights in 16 bits, everything else in fp32              by about 2⁻¹² of a value
    bf16        weights and inputs rounded to bfloat16                   by about 2⁻⁹ of a value
    int8        weights in 8 bits a row, inputs in 8 bits a token        by about 1 % of a vector

Only the products are narrow. Norms, the residual stream and everything outside the blocks stay in fp32; what flows from
one linear layer of a block to the next (q, k, v, z, neurons) is bfloat16 under "bf16" and "int8". These are the dtypes
that `torch.autocast` gives, too.

Many tokens at once (encoding, reading a prompt) keep the processor busy, and bf16 and int8 are its fastest numbers. A
step of generation is one token in each row and waits for the weights: the fewer bytes they have, the faster, and fp16
leaves all else exact.

The packed products are semi-private functions of torch's x86 build (oneDNN, FBGEMM). Where they are missing (ARM,
macOS, a GPU) the plain product does the work.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import ConfigError, nearest

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
TAKES = {  # the dtypes of weights that each is made from
    "fp32": (torch.float32,),
    "fp16": (torch.float32,),
    "bf16": (torch.float32, torch.bfloat16),
    "int8": (torch.float32, torch.bfloat16),
}
Product = Callable[[Tensor], Tensor]

TYPICAL_ROWS = 1_024  # oneDNN chooses the blocks for about so many tokens; any number from 8 up serves
LEVELS = 127  # 8 bits with a sign, symmetric around 0
FEW_ROWS = 16  # up to so many tokens, a product is over when its weights have been read
IN_CACHE = 1 << 19  # how many numbers are rounded to levels at a time
OFFSET = 128  # inputs are stored without a sign; the signed kernel of oneDNN is a slow reference

_surgery = threading.Lock()  # one thread at a time replaces modules; running them needs no lock
_packing = threading.Lock()  # one thread at a time changes torch's global settings


def prepare(network: nn.Module, precision: str) -> nn.Module:
    """Put every linear layer that can be packed into a packed form, in place; weights and names stay what they are.

    A head that shares the table of an embedding is packed when it is first run: whoever never runs it pays no copy.
    Left alone: subclasses of `nn.Linear`, layers with hooks.
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
    with _surgery:
        slots = list(_slots(network))
        for path, _, _, linear in slots:
            if linear.weight.dtype not in TAKES[precision]:
                raise ConfigError(
                    f"{path}.weight is {_short(linear.weight.dtype)}; preparing {precision} takes "
                    f"{' or '.join(map(_short, TAKES[precision]))}: load the model with that dtype"
                )
        shared = _shared(network)
        packed: dict[int, PackedLinear] = {}  # one layer that stands in two places stays one layer
        for path, _, _, linear in slots:
            if id(linear) not in packed and not _serves(linear, precision):
                original = linear.original if isinstance(linear, PackedLinear) else linear
                form = PackedLinear(original, precision, inside=_inside_a_block(path))
                if id(form.weight) not in shared:
                    form.pack()
                packed[id(linear)] = form
        for _, parent, name, linear in slots:  # only now, when all of them could be packed
            setattr(parent, name, packed.get(id(linear), linear))
        if any(not form.fast for form in packed.values()):
            _say_what_is_missing(precision, slots[0][3].weight.device)
    return network


def prepare_plain(network: nn.Module) -> None:
    """Prepare in fp32, which changes no result but in its last digits, a network that is plain, in fp32 on the CPU."""
    here = {(parameter.dtype, parameter.device.type) for parameter in network.parameters()}
    if here == {(torch.float32, "cpu")} and prepared_precision(network) is None:
        prepare(network, "fp32")


def unprepare(network: nn.Module) -> nn.Module:
    """Put the original linear layers back: the same modules with the same tensors. Returns the network itself."""
    with _surgery:
        for _, parent, name, linear in list(_slots(network)):
            if isinstance(linear, PackedLinear):
                setattr(parent, name, linear.original)
    return network


def prepared_precision(network: nn.Module) -> str | None:
    """What the network was prepared for, or None."""
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
        inside: does it stand inside a block? Then "bf16" and "int8" answer in bfloat16, else in the dtype of x.
    Raises: ConfigError (forward): gradients, or changed weights, under a narrow precision.
    """

    def __init__(self, linear: nn.Linear, precision: str, *, inside: bool) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.precision, self.inside = precision, inside
        self._original = (linear,)  # in a tuple, so that it is not counted as a part
        self._product: Product | None = None
        self.train(linear.training)

    @property
    def fast(self) -> bool:
        """Is there a packed product for these weights here?"""
        return _packable(self.weight, self.precision)

    def pack(self) -> Product:
        """Pack the weights as they are now."""
        weight = self.weight.detach()
        bias = None if self.bias is None else self.bias.detach()
        product = (PACKED if self.fast else PLAIN)[self.precision](weight, bias, self.inside)
        # torch counts the changes of a tensor in place; tensors made in inference mode cannot change unseen.
        counted = [t for t in (self.weight, self.bias) if t is not None and not t.is_inference()]
        self._packed_from = [(t, t._version) for t in counted]
        self._product = product
        return product

    def stale(self) -> bool:
        """Have the weights changed since they were packed?"""
        if self._product is not None:
            for tensor, version in self._packed_from:  # asked for at every token: a plain loop is the fastest
                if tensor._version != version:
                    return True
        return False

    @property
    def original(self) -> nn.Linear:
        """The layer this one stands for, with whatever tensors it has by now."""
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
                        "gradients are asked for; wrap the call in torch.inference_mode(), or train after "
                        "unprepare()"
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
        return {name: value for name, value in self.__dict__.items() if name != "_packed_from"} | {
            "_product": None
        }


# The products. Each is made once from a weight [out, in] and a bias, and then maps x [..., in] to [..., out].


def _plain(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    return lambda x: F.linear(x, weight, bias)


def _plain_bf16(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    weight, bias = _bf16(weight), _bf16(bias)

    def product(x: Tensor) -> Tensor:
        y = F.linear(x.to(torch.bfloat16), weight, bias)
        return y if inside else y.to(x.dtype)

    return product


def _packed_fp32(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    blocks = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS)
    linear = torch.ops.mkldnn._linear_pointwise.default
    return lambda x: linear(x, blocks, bias, "none", [], "")


def _packed_fp16(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    """16 bits for the weights alone, which a few tokens wait for; they are widened on the way into the product."""
    weights = torch.ops.quantized.linear_prepack_fp16(weight, bias)
    linear = torch.ops.quantized.linear_dynamic_fp16.default

    def product(x: Tensor) -> Tensor:
        y: Tensor = linear(x.float().reshape(-1, x.shape[-1]), weights)
        return y.to(x.dtype).view(*x.shape[:-1], len(weight))

    return product


def _packed_bf16(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    if not inside and weight.dtype == torch.float32:  # logits keep the digits that tell them apart
        return _packed_fp16(weight, bias, inside)
    blocks, bias = torch.ops.mkldnn._reorder_linear_weight(_bf16(weight), TYPICAL_ROWS), _bf16(bias)
    linear = torch.ops.mkldnn._linear_pointwise.default

    def product(x: Tensor) -> Tensor:
        y: Tensor = linear(x.to(torch.bfloat16), blocks, bias, "none", [], "")
        return y if inside else y.to(x.dtype)

    return product


def _packed_int8(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    """y = levels(x) levels(W)ᵀ · step(token) · step(row) + b, with step = largest magnitude / 127.

    Each token has its own step, so that no vector depends on the texts beside it, and an outlier costs its token alone.
    A step of generation, one token in each of a few rows, waits for the weights, many tokens for the processor: either
    has a product of its own, packed when first needed.
    Source: Dettmers et al. 2022, "LLM.int8()", section 2.1 (vector-wise quantisation).
    """
    many = cache(lambda: _int8_for_many(weight, bias, inside))
    few = cache(lambda: _int8_for_step(weight, bias)) if _rounds_inputs() else many

    def product(x: Tensor) -> Tensor:
        step = x.dim() == 3 and x.shape[1] == 1 and 0 < x.shape[0] <= FEW_ROWS
        return (few if step else many)()(x)

    return product


def _int8_for_step(weight: Tensor, bias: Tensor | None) -> Product:
    """One call rounds the inputs, multiplies and answers in their dtype, with one step for all its tokens.

    So that none depends on the tokens beside it, each is first divided by its largest magnitude, and a row is put below
    them that reaches from -1 to 1 whatever they are. A token alone needs neither: its steps are a little finer.
    """
    bias = None if bias is None else bias.float()
    with _rounding_weights():
        steps = _steps(weight.float()).flatten().double()
        levels = torch.quantize_per_channel(
            weight.float(), steps, torch.zeros(len(steps)).long(), 0, torch.qint8
        )
        weights = torch.ops.quantized.linear_prepack(levels, None)
    linear = torch.ops.quantized.linear_dynamic.default
    edge = torch.zeros(1, weight.shape[1])
    edge[0, 0], edge[0, -1] = -1.0, 1.0

    def product(x: Tensor) -> Tensor:
        tokens = x.float().reshape(-1, x.shape[-1])
        if tokens.shape[0] == 1:
            y: Tensor = linear(tokens, weights)
            y = y if bias is None else y.add_(bias)
        else:
            largest = tokens.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-30)
            y = linear(torch.cat([tokens / largest, edge]), weights)[:-1]
            y = y.mul_(largest) if bias is None else torch.addcmul(bias, y, largest)
        return y.to(x.dtype).view(*x.shape[:-1], -1)

    return product


def _int8_for_many(weight: Tensor, bias: Tensor | None, inside: bool) -> Product:
    steps = _steps(weight.float())  # [out, 1]
    blocks = torch.ops.onednn.qlinear_prepack((weight.float() / steps).round_().to(torch.int8), None)
    steps, zeros = steps.flatten(), torch.zeros(len(weight), dtype=torch.int32)
    linear = torch.ops.onednn.qlinear_pointwise.default
    biases = {dtype: None if bias is None else bias.to(dtype) for dtype in (torch.float32, torch.bfloat16)}

    def product(x: Tensor) -> Tensor:
        dtype = torch.bfloat16 if inside else torch.float32
        levels, step = _levels(x.reshape(-1, x.shape[-1]))  # [tokens, in], [tokens, 1]
        # Per-tensor scale 1 leaves y in steps of its token.
        y: Tensor = linear(levels, 1.0, OFFSET, blocks, steps, zeros, None, 1.0, 0, dtype, "none", [], "")
        bias, step = biases[dtype], step.to(dtype)
        y = y.mul_(step) if bias is None else torch.addcmul(bias, y, step, out=y)
        return (y if inside else y.to(x.dtype)).view(*x.shape[:-1], len(weight))

    return product


PACKED: dict[str, Callable[[Tensor, Tensor | None, bool], Product]] = {
    "fp32": _packed_fp32,
    "fp16": _packed_fp16,
    "bf16": _packed_bf16,
    "int8": _packed_int8,
}
PLAIN: dict[str, Callable[[Tensor, Tensor | None, bool], Product]] = {
    "fp32": _plain,
    "fp16": _plain,
    "bf16": _plain_bf16,
    "int8": _plain,
}


def _levels(x: Tensor) -> tuple[Tensor, Tensor]:
    """The levels of each token, 128 added, and its step. [tokens, in] → uint8 [tokens, in], fp32 [tokens, 1]"""
    if x.numel() <= IN_CACHE:
        rounded, step = _rounded(x)
        levels = rounded.to(torch.int8)
    else:  # a few tokens at a time stay in the cache through these small steps: up to twice as fast
        levels, step = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x), 1)
        rows = max(1, IN_CACHE // x.shape[-1])
        for part, to, own in zip(x.split(rows), levels.split(rows), step.split(rows), strict=True):
            rounded, steps = _rounded(part)
            to.copy_(rounded)
            own.copy_(steps)
    # -127 … 127 becomes 1 … 255 by flipping the sign bit; torch converts to uint8 slowly.
    return levels.view(torch.uint8).bitwise_xor_(OFFSET), step


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """The level nearest to each number, and the step of each token. fp32 [tokens, in] and [tokens, 1]"""
    wide = x.float()
    step = _steps(wide)
    return (wide / step).round_(), step


def _steps(x: Tensor) -> Tensor:
    """The distance between two levels of each row, so that its largest magnitude is level 127. [..., in] → [..., 1]"""
    if not x.numel():  # no tokens: there is no largest one
        return x.new_ones(*x.shape[:-1], 1)
    return x.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-30).div_(LEVELS)


def _bf16(x: Any) -> Any:
    return None if x is None else x.to(torch.bfloat16)


def kernels(precision: str) -> bool:
    """Has this build of torch the packed product, and this processor the instructions that make it fast?"""
    here = hasattr(torch.ops.mkldnn, "_linear_pointwise") and hasattr(torch.ops.onednn, "qlinear_pointwise")
    if not (here and torch.backends.mkldnn.is_available() and torch.cpu._is_avx2_supported()):
        return False
    if precision == "fp16":
        return "fbgemm" in torch.backends.quantized.supported_engines
    if precision == "bf16":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    # Without these instructions 8-bit products saturate in 16 bits, and the numbers are wrong.
    return precision != "int8" or bool(torch.cpu._is_vnni_supported())


def _rounds_inputs() -> bool:
    """Has this build the product that rounds its inputs itself? Its quantised tensors are to leave torch one day."""
    return hasattr(torch, "quantize_per_channel") and "fbgemm" in torch.backends.quantized.supported_engines


@contextmanager
def _rounding_weights() -> Iterator[None]:
    """Weights are packed for the library that a global setting names: for the time of packing, the fastest here."""
    with _packing, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantize", category=UserWarning)
        engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            yield
        finally:
            torch.backends.quantized.engine = engine


def _packable(weight: Tensor, precision: str) -> bool:
    here = weight.device.type == "cpu" and weight.dtype in TAKES[precision] and weight.numel() > 0
    return here and kernels(precision)


def _say_what_is_missing(precision: str, device: torch.device) -> None:
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


def _serves(linear: nn.Linear, precision: str) -> bool:
    """Is this the wanted form already?"""
    return isinstance(linear, PackedLinear) and linear.precision == precision and not linear.stale()


def _slots(network: nn.Module) -> Iterator[tuple[str, nn.Module, str, nn.Linear]]:
    """(path, parent, name in it, layer) of each linear layer that can be packed or is."""
    for path, parent in network.named_modules():
        for name, child in list(parent._modules.items()):
            if type(child) is PackedLinear or (
                type(child) is nn.Linear
                and child._parameters.get("weight") is not None
                and not (child._forward_hooks or child._forward_pre_hooks or child._backward_hooks)
            ):
                yield f"{path}.{name}".removeprefix("."), parent, name, child


def _shared(network: nn.Module) -> set[int]:
    """The ids of tensors that several modules have."""
    own = (tensor for module in network.modules() for tensor in module._parameters.values())
    owners = Counter(id(tensor) for tensor in own if tensor is not None)
    return {tensor for tensor, count in owners.items() if count > 1}


def _inside_a_block(path: str) -> bool:
    """Blocks stand in lists, so the path of what is inside one has a number: `blocks.3.attn.qkv`."""
    return any(part.isdigit() for part in path.split("."))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
