"""Parts of a model called by themselves, by the reference library's paths: `model.encoder.layer[0](x)`.

embeddings  ids ──> x              Embedding
encoder     x ──> Output           Stack
layer       x ──> out              Block
mlp         x ──> out              FeedForward
pooler      x ──> [B, D]           Pooler
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.blocks import Block, ParallelBlock, run_block
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Pooler
from glassformer.core.stack import Stack
from glassformer.models.reference_hooks import LAYERS_IN_TUPLES

CALLED = (Stack, Block, ParallelBlock, FeedForward, GatedFeedForward, Embedding, Pooler)
MASKS = ("attention_mask", "hidden_states_mask")


def call_part(network: nn.Module, family: str, path: str, names: Collection[str], *args: Any, **inputs: Any) -> Any:
    """The output of a part with these parameters of ours, and no others; None: there is no such part, or input.

    Args:
        args: token ids, or states [B, T, D], and then a mask
        inputs: by name: `attention_mask`, `token_type_ids`, `position_ids`
    """
    module = next(_modules(network, path, {*names}), None)
    first = args[0] if args else next((inputs[x] for x in ("hidden_states", "input_ids") if x in inputs), None)
    mask = next((inputs[x] for x in MASKS if x in inputs), args[1] if len(args) > 1 else None)
    if module is None or not isinstance(first, Tensor) or not isinstance(mask, Tensor | None):
        return None
    if not isinstance(module, Embedding) and not first.is_floating_point():
        return None
    flow = Flow(keep=_keep(mask), positions=inputs.get("position_ids"))
    if isinstance(module, Embedding):
        return module(first, flow, inputs.get("token_type_ids"))
    if isinstance(module, Pooler):
        return module.pooled(first, flow)
    if isinstance(module, Stack):
        return Output(last_hidden_state=module(first, flow))
    if isinstance(module, FeedForward | GatedFeedForward):
        return module(first, flow)
    stack = next(x for x in network.modules() if isinstance(x, Stack) and module in list(x))
    output = run_block(module, first, stack.prepare(first, flow))  # type: ignore[arg-type] # a block
    return (output,) if family in LAYERS_IN_TUPLES else output


def _modules(network: nn.Module, path: str, names: set[str]) -> Iterator[nn.Module]:
    """Our modules with just these parameters; the only layer of a stack is no stack."""
    layer = path.rpartition(".")[2].isdigit()
    for at, module in network.named_modules():
        own = {f"{at}.{name}" for name, _ in module.named_parameters(remove_duplicate=False)}
        if isinstance(module, CALLED) and own == names and not (layer and isinstance(module, Stack)):
            yield module


def _keep(mask: Tensor | None) -> Tensor | None:
    """Which keys are attended to, of a mask of ones and zeros [B, S], or of numbers added to scores [B, 1, T, S]."""
    if mask is None:
        return None
    if mask.dim() == 2:
        return mask[:, None] != 0
    return (mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] == 0) if mask.dim() == 4 else mask != 0


def layer_list(network: nn.Module, names: Collection[str]) -> str | None:
    """The path of the stack whose layers have these parameters; None: there is none."""
    stacks = (at for at, module in network.named_modules() if isinstance(module, Stack))
    return next(
        (at for at in stacks if {n for n, _ in network.named_parameters() if n.startswith(f"{at}.")} == {*names}), None
    )


def with_layers(network: Any, at: str, chosen: list[int]) -> None:
    """Keep these layers of a stack of a network, in this order; their parameters stay the same objects."""
    old: Stack = network.get_submodule(at)
    blocks = [old[i] for i in chosen]
    made = Stack(replace(old.spec, blocks=tuple(old.spec.blocks[i] for i in chosen)))
    for i, block in enumerate(blocks):
        made._modules[str(i)] = block
    made.bias = old.bias
    stem, _, name = at.rpartition(".")
    setattr(network.get_submodule(stem), name, made)
    network.name_nodes()
