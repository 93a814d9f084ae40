"""Weight preparation for inference: replace linear layers by packed or quantised ones, reversibly.

    nn.Linear ──prepare(network, "bf16")──> PackedLinear ──unprepare(network)──> the very same nn.Linear
     weight            shares weight and bias with it, and holds a packed copy

    fp32: the same numbers, faster · fp16: narrow weights · bf16, int8: narrow weights and inputs; see `products`

Only the products are narrow. Norms, the residual stream and everything outside the blocks stay in fp32; what flows from
one linear layer of a block to the next (q, k, v, z, neurons) is bfloat16 under "bf16" and "int8", on processors that
have instructions for it (fp32 where `packed_row` runs the blocks). These are the dtypes of `torch.autocast`, too.

Many tokens at once (encoding, prefill) are bound by compute, where bf16 and int8 are fastest. A step of generation is
one token in each row and bound by memory bandwidth: the fewer bytes the weights have, the faster, and fp16 leaves all
else exact.
"""

from __future__ import annotations

import copy
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

from glassformer.core import processor
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.quantised import FixedProgram, QuantisedLinear, quantised_layers
from glassformer.core.stack import Stack
from glassformer.engine import native
from glassformer.engine.decode_step import DecodeStep
from glassformer.engine.malloc import keep_memory_of_batches
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.packed_row import PackedRow
from glassformer.engine.products import TAKES
from glassformer.engine.screening import LargestLogits
from glassformer.engine.stored_levels import StoredLevelsProduct
from glassformer.errors import ConfigError, nearest

PRECISIONS = ("fp32", "fp16", "bf16", "int8")

MIN_TEXTS_TO_PREPARE = 128
"""Preparing weights takes about as long as encoding a dozen texts."""
MIN_STEPS_TO_PACK = 16
"""Packing weights takes about as long as ten steps of generation, and makes each twice as fast."""

_module_lock = threading.Lock()  # one thread at a time replaces modules; running them needs no lock

Prepared = TypeVar("Prepared", bound=nn.Module)


def prepare(network: nn.Module, precision: str) -> nn.Module:
    """Replace every linear layer that can be packed, in place; weights and their names do not change.

    A head tied to an embedding is packed when it is first run, so that it costs no copy if it never is.
    Not replaced: subclasses of `nn.Linear`, layers with hooks. Quantised layers get a product of their stored levels.
    Preparing again is cheap; another precision, or weights that changed since, are packed again. Any number of threads
    may run a prepared network; none should while its precision changes, or it may meet both (fp32 is always safe).

    Args:
        network: any module tree with fp32 weights (or bfloat16 ones, for "bf16" and "int8").
        precision: "fp32", "fp16", "bf16" or "int8".
    Returns: the network itself.
    Raises: ConfigError: an unknown precision, or weights of another dtype. Nothing is changed then.
        UnsupportedError: a program of another engine, in another precision than its own.
    """
    if precision not in PRECISIONS:
        raise ConfigError(
            f"precision is {precision!r}; allowed: {', '.join(PRECISIONS)}{nearest(str(precision), PRECISIONS)}"
        )
    if isinstance(network, FixedProgram) and precision not in ("fp32", network.fixed_precision):
        network.refuse(f"prepared in {precision}")
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
        for path, layer in quantised_layers(network).items():
            if isinstance(layer, QuantisedLinear) and _levels_precision(layer) != precision:
                layer.product = StoredLevelsProduct(layer, precision, inside=_inside_a_block(path))
        for stack in (module for module in network.modules() if isinstance(module, Stack)):
            if any(block.attn.pattern.causal for block in stack):
                stack.few_tokens = DecodeStep()
            stack.packed_row = PackedRow() if precision == "int8" or _rounds_tokens(stack) else None
        for head in _vocabulary_heads(network):
            head.largest_logits = LargestLogits()
        if packed:
            keep_memory_of_batches()
            _note_on_products(precision, slots[0][3].weight.device, all(form.fast for form in packed.values()))
    return network


def possible_precisions(network: nn.Module) -> list[str]:
    """The precisions that a network can be prepared in; of a program of another engine its own alone."""
    if isinstance(network, FixedProgram):
        return [network.fixed_precision]
    kinds = {linear.weight.dtype for *_, linear in _slots(network)}
    return [name for name in PRECISIONS if kinds <= {*TAKES[name]}]


def usual_precision(network: nn.Module) -> str | None:
    """The precision of weights as they are stored; None = it is none of `PRECISIONS`, and the network runs as it is."""
    if isinstance(network, FixedProgram):
        return network.fixed_precision
    kinds = {x.dtype for x in network.parameters() if x.is_floating_point()}
    return {torch.float32: "fp32", torch.bfloat16: "bf16"}.get(kinds.pop()) if len(kinds) == 1 else None


def prepare_plain(network: nn.Module) -> None:
    """Prepare an unprepared fp32 network on the CPU in fp32: results change in their last digits only."""
    kinds = {(parameter.dtype, parameter.device.type) for parameter in network.parameters()}
    if kinds == {(torch.float32, "cpu")} and prepared_precision(network) is None:
        prepare(network, "fp32")


def prepare_for_texts(network: nn.Module, texts: int) -> None:
    """Prepare a plain network for this many texts, where that pays: stored levels are not packed, so always."""
    if prepared_precision(network) is None and (
        texts >= MIN_TEXTS_TO_PREPARE or any(isinstance(module, QuantisedLinear) for module in network.modules())
    ):
        prepare_plain(network)


def prepare_for_steps(network: nn.Module) -> None:
    """Prepare a plain network for `MIN_STEPS_TO_PACK` steps of generation or more, and begin to load their kernels."""
    prepare_plain(network)
    if prepared_precision(network) is not None:
        native.preload()  # alongside the prompt


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


def plain_copy(network: Prepared) -> Prepared:
    """A copy that shares all weights and is not prepared, while others go on using the original.

    The network itself, where it is not prepared.
    """
    packed = {id(x): x.original for x in network.modules() if isinstance(x, PackedLinear)}
    if not packed:
        return network
    shared = {id(x): x for x in (*network.parameters(), *network.buffers())}
    return unprepare(copy.deepcopy(network, {**shared, **packed}))


def unprepare(network: Prepared) -> Prepared:
    """Restore the original linear layers: the same modules with the same tensors. Returns the network itself."""
    with _module_lock:
        for _, parent, name, linear in list(_slots(network)):
            if isinstance(linear, PackedLinear):
                setattr(parent, name, linear.original)
        for layer in quantised_layers(network).values():
            if isinstance(layer, QuantisedLinear):
                layer.product = None
        for stack in (module for module in network.modules() if isinstance(module, Stack)):
            stack.few_tokens = stack.packed_row = None
        for head in _vocabulary_heads(network):
            head.largest_logits = None
    return network


def prepared_precision(network: nn.Module) -> str | None:
    """The precision that a network is prepared for, or None."""
    for module in network.modules():
        if isinstance(module, PackedLinear):
            return module.precision
        if isinstance(module, QuantisedLinear) and (precision := _levels_precision(module)):
            return precision
    return None


def _rounds_tokens(stack: Stack) -> bool:
    """Whether stored 8-bit levels of a prepared stack meet rounded inputs, whatever its precision is."""
    products = (x.product for x in stack.modules() if isinstance(x, QuantisedLinear))
    return any(isinstance(product, StoredLevelsProduct) and product.rounds_tokens for product in products)


def _levels_precision(layer: QuantisedLinear) -> str | None:
    """The precision that a quantised layer is prepared for, or None."""
    return layer.product.precision if isinstance(layer.product, StoredLevelsProduct) else None


def _note_on_products(precision: str, device: torch.device, packed: bool) -> None:
    """Warn where a network does not get the products that its precision names."""
    if not packed and precision in ("int8", "fp16"):
        warnings.warn(
            f"{precision} products need an x86 processor with AVX2, and weights on the CPU (they are on {device}); "
            "the network keeps its plain products and their precision",
            stacklevel=3,
        )
    elif not packed and precision == "bf16" and device.type == "cpu":
        warnings.warn(
            "bf16 products are packed on x86 processors with AVX2 only; plain ones are used, which may be slow",
            stacklevel=3,
        )
    elif precision == "bf16" and not processor.is_fast(torch.bfloat16, device.type):
        warnings.warn(
            "this processor has no instructions for bf16 products: weights are rounded to bf16, and everything else "
            "stays in fp32, which is faster here",
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


def _vocabulary_heads(network: nn.Module) -> Iterator[TokenPrediction]:
    return (x for x in network.modules() if isinstance(x, TokenPrediction) and x.OVER_VOCABULARY)


def _shared(network: nn.Module) -> set[int]:
    """The ids of tensors that several modules share."""
    own = (tensor for module in network.modules() for tensor in module._parameters.values())
    owners = Counter(id(tensor) for tensor in own if tensor is not None)
    return {tensor for tensor, count in owners.items() if count > 1}


def _inside_a_block(path: str) -> bool:
    """Blocks are in lists, so the path of what is inside one has a number: `blocks.3.attn.qkv`."""
    return any(part.isdigit() for part in path.split("."))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
