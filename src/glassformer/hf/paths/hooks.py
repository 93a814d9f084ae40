"""Forward hooks on parts of a model by the reference library's paths: `model.bert.register_forward_hook(…)`.

A part whose call passes modules of ours has their hooks, which see what the reference's part is given and gives:

    body        ids ──> Output                     the network without its head
    encoder     x ──> Output                       Stack; of an encoder-decoder, Stream: ids ──> Output
    embeddings  ids ──> x                          Embedding, Patches
    layer       x ──> out, of some (out,)          Block
    attention   x ──> (out, None)                  Attention, or the residual connection around it
    mlp         x ──> out                          FeedForward, or the residual connection around it
    query       x ──> q                            the rows of our fused layer
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.core.attention import Attention
from glassformer.core.blocks import Block, ParallelBlock
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.embeddings import Embedding
from glassformer.core.experts import Experts
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.flow import Output
from glassformer.core.heads import Pooler
from glassformer.core.patches import Patches
from glassformer.core.stack import Stack
from glassformer.errors import UnsupportedError
from glassformer.weights.names import Fused, HeadByHead, Same, Slice

LAYERS_IN_TUPLES = frozenset("deberta deberta-v2 imagegpt mpnet openai-gpt t5 tapas".split())
"""Families whose layers give a tuple there, the stream first."""
ATTENTION_ALONE = frozenset({"layoutlm"})
"""Families whose attention gives no weights there, and no tuple."""
INNER = {"attn": "out", "cross": "out", "ffn": "down"}
"""Sub-layer of a block → its last linear layer."""


Shown = Callable[[tuple[Any, ...], Any], Any]
"""(the inputs of a module of ours, its output) → the output of the part."""


@dataclass(frozen=True)
class Passed:
    """Modules that a part's call passes.

    first: is given the part's input
    last: gives its output
    given: the inputs of `first` → the part's
    shown: (the inputs of `last`, its output) → the part's output
    taken: (what a hook gives instead, the output) → what `last` gives then; None: a body, whose output is not replaced
    """

    first: nn.Module
    last: nn.Module
    shown: Shown = lambda inputs, output: output
    taken: Callable[[Any, Any], Any] | None = lambda result, output: _states(result)
    given: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda inputs: inputs[:1]


def _states(result: Any) -> Any:
    """The tensor of a part's output: itself, or the first of a tuple or an `Output`."""
    return result if isinstance(result, Tensor) else result[0]


def passed_modules(network: Any, entries: Mapping[str, Any], path: str, parts: Any) -> Passed | None:
    """The modules of ours that a call of a part passes; None: there are none that see its input and output.

    Arguments as of `ReferenceModule`.
    """
    tensors, wanted = parts.tensors(), set(entries)
    if {name for ours, names in tensors.items() if not ours.startswith("head.") for name in names} <= wanted:
        first, own = network.READS[0], {name for name, _, _ in entries.values()}
        return Passed(
            network,
            network,
            lambda inputs, output: parts.body_output(own, output, inputs[1]),
            None,
            lambda inputs: (getattr(inputs[0], first),),
        )
    side = path.rpartition(".")[2]
    if side in ("encoder", "decoder") and isinstance(stream := network._modules.get(side), nn.Module):
        return Passed(stream, stream, _as_output)
    if (linear := _linear(network, entries, path)) is not None:
        return linear
    stacks = {at: module for at, module in network.named_modules() if isinstance(module, Stack)}
    if any(stack.spec.shared for stack in stacks.values()):  # a shared layer is called once for each block
        return None
    biases = {name for at in stacks for ours, names in tensors.items() if ours.startswith(f"{at}.bias.")
              for name in names}  # fmt: skip
    either = (wanted, wanted - biases)  # a bias is the first layer's there, the stack's here
    weight = f"{path}.weight"
    of_layers = _in_tuple if parts.family in LAYERS_IN_TUPLES else _as_it_is
    of_attention = _as_it_is if parts.family in ATTENTION_ALONE else _with_weights
    for owned, passed in _candidates(network, of_layers, of_attention):
        alone = side.isdigit() and isinstance(passed.first, Stack)  # the only layer of a stack is no stack
        alone = alone or (passed.shown is _context and weight in entries)  # a linear layer is no attention
        if not alone and {name for ours in owned for name in tensors[ours]} in either:
            return passed
    return None


def _linear(network: Any, entries: Mapping[str, Any], path: str) -> Passed | None:
    """A linear layer there, which is one of ours, or rows of one."""
    weight = entries.get(f"{path}.weight")
    if weight is None or not set(entries) <= {f"{path}.weight", f"{path}.bias"}:
        return None
    name, rule, number = weight
    module = network.get_submodule(name.rpartition(".")[0])
    if not isinstance(module, nn.Linear) or isinstance(rule, Slice | HeadByHead):
        return None
    if isinstance(rule, Same):
        return Passed(module, module)
    if not isinstance(rule, Fused):
        return None

    def parts_of(output: Tensor) -> list[Tensor]:
        return list(output.split(rule.rows(output.shape[-1]), -1))

    def replaced(result: Any, output: Tensor) -> Tensor:
        every = parts_of(output)
        return torch.cat([*every[:number], result, *every[number + 1 :]], -1)

    return Passed(module, module, lambda inputs, output: parts_of(output)[number], replaced)


def _candidates(network: Any, of_layers: Shown, of_attention: Shown) -> Iterator[tuple[set[str], Passed]]:
    """The names of a part's parameters, and what its call passes."""
    for at, module in network.named_modules():
        shown: Shown
        if isinstance(module, Stack):
            shown = _as_output
        elif isinstance(module, Pooler) and at == "head":
            shown = _pooled
        elif isinstance(module, Attention | CrossAttention):
            shown = of_attention
        elif isinstance(module, Block | ParallelBlock):
            shown = of_layers
        elif isinstance(module, FeedForward | GatedFeedForward | Experts | Embedding | Patches):
            shown = _as_it_is
        else:
            continue
        taken = _pools if isinstance(module, Pooler) else lambda result, output: _states(result)
        yield _names(module, at), Passed(module, module, shown, taken)
        if isinstance(module, Attention):
            yield _names(module.qkv, f"{at}.qkv"), Passed(module, module.out, _context, _projected(module.out))
        if isinstance(module, Block):
            yield from _sublayers(module, at, of_attention)


def _sublayers(block: Block, at: str, of_attention: Shown) -> Iterator[tuple[set[str], Passed]]:
    """Sub-layers with their residual connection, and the two halves of one."""
    for name, inner in INNER.items():
        sublayer, residual = block._modules.get(name), block._modules.get(f"{name}_residual")
        if sublayer is None or residual is None:
            continue
        if not (around := _names(residual, f"{at}.{name}_residual")):
            continue
        shown = _as_it_is if name == "ffn" else of_attention
        yield _names(sublayer, f"{at}.{name}") | around, Passed(residual, residual, shown)
        if isinstance(linear := sublayer._modules.get(inner), nn.Module):
            yield _names(linear, f"{at}.{name}.{inner}") | around, Passed(linear, residual)
    if isinstance(block.ffn, FeedForward):
        yield _names(block.ffn.up, f"{at}.ffn.up"), Passed(block.ffn.up, block.ffn.activation)


def _names(module: nn.Module, at: str) -> set[str]:
    return {f"{at}.{name}" for name, _ in module.named_parameters(remove_duplicate=False)}


def _as_it_is(inputs: tuple[Any, ...], output: Any) -> Any:
    return output


def _as_output(inputs: tuple[Any, ...], output: Any) -> Any:
    return Output(last_hidden_state=output)


def _pooled(inputs: tuple[Any, ...], output: Any) -> Any:
    return output.pooler_output


def _pools(result: Any, output: Any) -> Any:
    return replace(output, pooler_output=result)


def _in_tuple(inputs: tuple[Any, ...], output: Any) -> Any:
    return (output,)


def _context(inputs: tuple[Any, ...], output: Any) -> Any:
    return inputs[0], None  # what attention gives to its last layer


def _projected(linear: nn.Linear) -> Callable[[Any, Any], Any]:
    return lambda result, output: linear.forward(_states(result))  # without the hooks, of which this is one


def _with_weights(inputs: tuple[Any, ...], output: Any) -> Any:
    return output, None  # as there without output_attentions


class Handles:
    """Handles of several hooks that are removed together."""

    def __init__(self, *handles: RemovableHandle) -> None:
        self._handles = handles

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Handles:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def add_forward_hook(
    part: Any, passed: Passed, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
) -> Handles:
    """Call `hook(part, inputs, output)` after each call of a part; what it returns replaces the output."""
    begun: dict[int, tuple[Any, ...]] = {}

    def begin(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        begun[threading.get_ident()] = inputs

    def end(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        own = passed.given(begun.pop(threading.get_ident(), inputs))
        result = hook(part, own, *({},) * with_kwargs, passed.shown(inputs, output))
        return None if result is None else _required(passed)(result, output)

    handles = [passed.last.register_forward_hook(end, prepend=prepend)]
    if passed.first is not passed.last:
        handles.append(passed.first.register_forward_pre_hook(begin))
    return Handles(*handles)


def add_forward_pre_hook(
    part: Any, passed: Passed, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
) -> Handles:
    """Call `hook(part, inputs)` before each call of a part; what it returns replaces the inputs."""

    def begin(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
        result = hook(part, passed.given(inputs), *({},) * with_kwargs)
        if result is None:
            return None
        _required(passed)
        replaced = result[0] if with_kwargs else result
        return (replaced[0] if isinstance(replaced, tuple) else replaced, *inputs[1:])

    return Handles(passed.first.register_forward_pre_hook(begin, prepend=prepend))


def add_full_backward_hook(
    part: Any, passed: Passed, hook: Callable[..., Any], *, prepend: bool = False
) -> Handles | None:
    """Call `hook(part, gradients of the inputs, of the outputs)` in the backward pass; None: not of this part."""
    if passed.first is not passed.last or passed.taken is None:
        return None

    def call(module: nn.Module, inputs: Any, outputs: Any) -> Any:
        result = hook(part, inputs[:1], outputs)
        return None if result is None else (result[0], *inputs[1:])

    return Handles(passed.first.register_full_backward_hook(call, prepend=prepend))


def _required(passed: Passed) -> Callable[[Any, Any], Any]:
    """Raises: UnsupportedError: a body, whose inputs and output hooks do not replace."""
    if passed.taken is None:
        raise UnsupportedError(
            "a hook on the body replaces nothing: replace the inputs or the output of one of its layers, or of its "
            "embeddings"
        )
    return passed.taken
