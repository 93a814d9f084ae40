"""Weight initialization, by the papers. A loaded checkpoint overwrites all of it."""

from __future__ import annotations

import math

import torch
from torch import nn

from glassformer.core.attention import Attention
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.embeddings import LearnedPositions, Sinusoidal, SinusoidalSpec
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.patches import Patches


def normal(network: nn.Module, std: float = 0.02) -> None:
    """Normal initialization: matrices, embeddings and single vectors from N(0, std²), biases 0, norms 1.

    Source: Radford et al. 2018, section 4.1; Devlin et al. 2019, released code (`initializer_range`).
    """
    for module in network.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
            if not isinstance(module, nn.Embedding) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Patches):
            nn.init.normal_(module.summary, std=std)
        elif isinstance(module, (LayerNorm, RMSNorm)):
            nn.init.constant_(module.weight, 1 - module.offset if isinstance(module, RMSNorm) else 1)
            if isinstance(module, LayerNorm) and module.bias is not None:
                nn.init.zeros_(module.bias)


@torch.no_grad()
def zero_padding(network: nn.Module) -> None:
    """Zero the rows of padding, which are not trained, so that they stay zeros."""
    for table in network.modules():
        if isinstance(table, nn.Embedding) and table.padding_idx is not None:
            table.weight[table.padding_idx] = 0


@torch.no_grad()
def sinusoidal_positions(network: nn.Module) -> None:
    """Initialize learned positions as sines and cosines, interleaved. Source: Vaswani et al. 2017, section 3.5."""
    for table in network.modules():
        if isinstance(table, LearnedPositions):
            rows, width = table.weight.shape
            wave = Sinusoidal(SinusoidalSpec(count=rows), width)
            table.weight.copy_(wave(torch.arange(rows)[None], torch.float32)[0])


def shrink_residual(network: nn.Module, layers: int, std: float = 0.02) -> None:
    """Scale the initial output projections by 1/√(2L), so that depth does not make the residual stream grow.

    Source: Radford et al. 2019, section 2.3.
    """
    for module in network.modules():
        if isinstance(module, (Attention, CrossAttention)):
            nn.init.normal_(module.out.weight, std=std / math.sqrt(2 * layers))
        elif isinstance(module, (FeedForward, GatedFeedForward)):
            nn.init.normal_(module.down.weight, std=std / math.sqrt(2 * layers))


def xavier(network: nn.Module) -> None:
    """Xavier initialization: matrices uniform within ±√(6 / (rows + columns)), tables N(0, 1/D), biases 0, norms 1.

    q, k and v are three matrices in the paper and one here; each gets its own bound.
    Source: Glorot and Bengio 2010, section 4.2; tables: Vaswani et al. 2017, released code.
    """
    normal(network)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    for module in network.modules():
        if isinstance(module, Attention):
            heads = (module.spec.heads, module.spec.K, module.spec.K)
            for part in module.qkv.weight.split([count * module.spec.E for count in heads]):
                nn.init.xavier_uniform_(part)
        elif isinstance(module, CrossAttention):
            for part in module.kv.weight.chunk(2):
                nn.init.xavier_uniform_(part)
        elif isinstance(module, nn.Embedding):  # after the linear layers: one of them may share its weight
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
