"""Initialisation of CLIP: standard deviations fall with width, and with depth where the residual stream is added to.

Source: Radford et al. 2019, section 2.3, for the depth; the released code for the rest.
"""

from __future__ import annotations

from torch import nn

from glassformer.core import init
from glassformer.core.patches import Patches
from glassformer.core.stack import Stack
from glassformer.models.clip.contrastive import ContrastiveHead, ProjectionHead


def initialise(network: nn.Module, factor: float) -> None:
    """Initialise towers and projections.

    Args:
        factor: multiplies all standard deviations
    """
    init.normal(network, 0.02 * factor)
    for module in network.modules():
        if isinstance(module, Stack):
            width_std, depth_factor = module.spec.width**-0.5 * factor, (2 * len(module)) ** -0.5
            for block in module:
                nn.init.normal_(block.attn.qkv.weight, std=width_std * depth_factor)
                nn.init.normal_(block.attn.out.weight, std=width_std)
                nn.init.normal_(block.ffn.get_parameter("up.weight"), std=width_std * 2**-0.5)
                nn.init.normal_(block.ffn.get_parameter("down.weight"), std=width_std * depth_factor)
        elif isinstance(module, Patches):
            nn.init.normal_(module.summary, std=module.spec.width**-0.5 * factor)
        elif isinstance(module, (ContrastiveHead, ProjectionHead)):
            for projection in module.children():
                assert isinstance(projection, nn.Linear)
                nn.init.normal_(projection.weight, std=projection.in_features**-0.5 * factor)
