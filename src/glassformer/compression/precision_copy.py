"""A copy of a network in another precision, while others go on using the original.

    float32, bfloat16 …   every parameter ──> that dtype
    int8, int4            weights of linear layers and tables ──> levels, the rest ──> fp32

Its weights are what `load(folder, dtype=…)` makes of the same numbers, and no folder has to hold them.
"""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

from glassformer.compression.adapters import check_not_adapted
from glassformer.compression.quantised_loading import RoundedWhenRead
from glassformer.core.quantised import check_not_quantised
from glassformer.engine.prepare import plain_copy
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.load_options import DTYPES, LEVELS, PRECISIONS
from glassformer.weights.load import distinct_parameters

N = TypeVar("N", bound=nn.Module)


def precision_copy(network: N, precision: str) -> N:
    """A copy of a network in one of `PRECISIONS`, which shares no weights with it that training could change.

    Raises: ConfigError: the network is quantised already, or is to be and has adapters; or a width that groups of
        4-bit levels do not divide. UnsupportedError: another engine runs it.
    """
    network = plain_copy(network)
    rounding = _rounding(network, precision)
    dtype = DTYPES.get(precision, torch.float32)
    parameters = list(distinct_parameters(network).values())
    copies = {id(x): x for x, _ in parameters}  # those that become levels are replaced afterwards, one at a time
    for x, names in parameters:
        if rounding is None or not rounding.takes(names):
            copies[id(x)] = nn.Parameter(x.detach().to(dtype, copy=True), x.requires_grad)
    copied = copy.deepcopy(network, copies)
    for x, names in parameters:
        if rounding is not None and rounding.takes(names):
            rounding.put(copied, names, x.detach())
    return copied


def other_precisions(network: nn.Module) -> list[str]:
    """What a copy of a network can have for its precision: not its own, and float64 is of no use to compare with."""
    own = {str(x.dtype).removeprefix("torch.") for x in network.parameters()}
    return [each for each in PRECISIONS if each != "float64" and {each} != own and _takes(network, each)]


def _takes(network: nn.Module, precision: str) -> bool:
    try:
        _rounding(network, precision)
    except (ConfigError, UnsupportedError):
        return False
    return True


def _rounding(network: nn.Module, precision: str) -> RoundedWhenRead | None:
    check_not_quantised(network, f"copied as {precision}")
    if precision in DTYPES:
        return None
    check_not_adapted(network)
    return RoundedWhenRead(network, LEVELS[precision])
