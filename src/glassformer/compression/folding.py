"""SmoothQuant and AWQ in pre-norm networks: factors of a layer's inputs are folded into the norm before it.

    x ── norm · f ──> qkv / f           y = (W / f) (f · norm(x)) = W norm(x)      f: a factor for each channel
                 └──> gate / f, up / f  layers that read one norm share its factors

The function stays what it was, and no product is added: weights and norms are all that changes, so other libraries read
the folder. It takes a norm that nothing else reads: before the sub-layers of GPT-2 and Llama. In a post-norm network
(BERT) the residual stream reads the norm's output too; behind attention and activations there is no norm.

Source: Xiao et al. 2023, "SmoothQuant", section 4; Lin et al. 2024, "AWQ", section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.core.attention import Attention
from glassformer.core.blocks import Block, ParallelBlock
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.norms import LayerNorm, RMSNorm

READERS: dict[type[nn.Module], tuple[str, ...]] = {
    Attention: ("qkv",),
    FeedForward: ("up",),
    GatedFeedForward: ("gate", "up"),
}
"""Kind of a sub-layer → its layers that read its input, where nothing else does."""


@dataclass(frozen=True)
class NormReaders:
    """A norm, and all that reads its output: linear layers.

    layers: path → layer
    """

    norm: LayerNorm | RMSNorm
    layers: dict[str, nn.Linear]

    @torch.no_grad()
    def fold(self, factors: Tensor) -> None:
        """Multiply the norm's output by factors and divide the columns of the layers by them. [width]"""
        norm = self.norm
        factors = factors.to(norm.weight.dtype)
        if isinstance(norm, RMSNorm):
            norm.weight.copy_((norm.offset + norm.weight) * factors - norm.offset)
        else:
            norm.weight.mul_(factors)
            if norm.bias is not None:
                norm.bias.mul_(factors)
        for layer in self.layers.values():
            layer.weight.div_(factors.to(layer.weight.dtype))


def norm_readers(network: nn.Module) -> list[NormReaders]:
    """The norms of a network that linear layers alone read; none where a norm or a layer is shared between blocks."""
    uses = Counter(id(x) for module in network.modules() for x in module.parameters(recurse=False))
    every = []
    for path, block in network.named_modules():
        for norm, layers in _reads(block):
            if not isinstance(norm, LayerNorm | RMSNorm) or norm.weight is None or not layers:
                continue
            if all(uses[id(x)] == 1 for x in (norm.weight, *(layer.weight for layer in layers.values()))):
                every.append(NormReaders(norm, {f"{path}.{name}": layer for name, layer in layers.items()}))
    return every


def _reads(block: nn.Module) -> Iterator[tuple[nn.Module, dict[str, nn.Linear]]]:
    """The norms of a block before its sub-layers, each with the linear layers that read it; {} where others do too."""
    if type(block) is Block:
        yield block.attn_residual.before, _first_layers(block, "attn")
        yield block.ffn_residual.before, _first_layers(block, "ffn")
    elif type(block) is ParallelBlock:
        attention, ffn = _first_layers(block, "attn"), _first_layers(block, "ffn")
        if block.ffn_norm is not None:
            yield block.norm, attention
            yield block.ffn_norm, ffn
        else:
            yield block.norm, {**attention, **ffn} if attention and ffn else {}


def _first_layers(block: nn.Module, name: str) -> dict[str, nn.Linear]:
    """The linear layers that read the input of a sub-layer; {} of kinds whose input is read by others too (experts)."""
    sublayer = block.get_submodule(name)
    paths = [f"{name}.{x}" for x in READERS.get(type(sublayer), ())]
    layers = {path: x for path in paths if type(x := block.get_submodule(path)) is nn.Linear}
    return layers if len(layers) == len(paths) else {}
