"""Weighted combinations of adapters (task arithmetic): one adapter from several, by the ways of PEFT.

    cat      A = [w₁ s₁ A₁; w₂ s₂ A₂], B = [B₁ B₂]                    exact, of all ranks together
    svd      the best approximation of w₁ s₁ B₁ A₁ + w₂ s₂ B₂ A₂      of a given rank
    linear   A = Σ ±√|w s| A, B = Σ √|w s| B                          rough: products of different adapters too

Source: Ilharco et al. 2023, "Editing Models with Task Arithmetic", section 2; Eckart and Young 1936, for the SVD.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from glassformer.compression.adapter_config import common
from glassformer.compression.adapters import (
    Adapters,
    AdapterSpec,
    adapt,
    adapters_of,
    check_full_parameters,
    named_adapters,
)
from glassformer.compression.low_rank import LowRank
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr

COMBINATIONS = ("cat", "svd", "linear")


def add_weighted(
    network: nn.Module, names: Sequence[str], weights: Sequence[float], name: str, kind: str, svd_rank: int | None
) -> Adapters:
    """Add the weighted combination of adapters as adapters of a name of their own; arguments as in the model's method.

    Raises: ConfigError, UnsupportedError: as there.
    """
    sets = adapters_of(network)
    _check(network, names, weights, kind, svd_rank)
    check_full_parameters(network, names)
    kind = "linear" if len(names) == 1 else kind
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    for target in dict.fromkeys(target for one in names for target in sets[one].by_target):
        members = [(w, sets[one].by_target.get(target)) for one, w in zip(names, weights, strict=True)]
        pairs[target] = _combined([(w, adapter) for w, adapter in members if adapter is not None], kind, svd_rank)
    rank, pattern = common({target: down.shape[0] for target, (down, _) in pairs.items()})
    full = {key: value.clone() for one in names for key, value in sets[one].full_values().items()}
    spec = AdapterSpec(
        rank=rank,
        alpha=rank,
        dropout=sets[names[0]].spec.dropout,
        target_modules=tuple(pairs),
        modules_to_save=tuple(dict.fromkeys(pattern for one in names for pattern in sets[one].spec.modules_to_save)),
        rank_pattern=pattern,
        alpha_pattern={target: float(other) for target, other in pattern.items()},
    )
    adapters = adapt(network, spec, name)
    with torch.no_grad():
        for target, (down, up) in pairs.items():
            adapters.by_target[target].down.weight.copy_(down)
            adapters.by_target[target].up.weight.copy_(up)
        for key, value in full.items():
            adapters.full_values()[key].copy_(value)
    return adapters


@torch.no_grad()
def _combined(members: list[tuple[float, LowRank]], kind: str, svd_rank: int | None) -> tuple[Tensor, Tensor]:
    """A [r, in] and B [out, r] of the combination on one target module; its scale is 1."""
    factors = [weight * adapter.scale for weight, adapter in members]
    downs = [adapter.down.weight for _, adapter in members]
    ups = [adapter.up.weight for _, adapter in members]
    if kind == "cat":
        return torch.cat([f * down for f, down in zip(factors, downs, strict=True)]), torch.cat(ups, 1)
    if kind == "svd":
        rank = svd_rank or max(down.shape[0] for down in downs)
        whole = torch.stack([weight * adapter.matrix() for weight, adapter in members]).sum(0)
        left, values, right = torch.linalg.svd(whole, full_matrices=False)
        return right[:rank], left[:, :rank] * values[:rank]
    if len({down.shape[0] for down in downs}) > 1:
        ranks = ", ".join(str(down.shape[0]) for down in downs)
        raise ConfigError(f"the adapters have the ranks {ranks}; 'linear' adds equal ones: use 'cat' or 'svd'")
    roots = [math.sqrt(abs(f)) for f in factors]
    down = torch.stack([math.copysign(root, f) * x for root, f, x in zip(roots, factors, downs, strict=True)]).sum(0)
    return down, torch.stack([root * x for root, x in zip(roots, ups, strict=True)]).sum(0)


def _check(network: nn.Module, names: Sequence[str], weights: Sequence[float], kind: str, svd_rank: int | None) -> None:
    for given in (names, weights):
        if not isinstance(given, (list, tuple)) or not given or len(given) != len(names):
            raise ConfigError(
                f"the adapters are {safe_repr(names)}, the weights {safe_repr(weights)}; give two lists, of names and "
                "of as many numbers"
            )
    for name in names:
        named_adapters(network, name)
    if wrong := [w for w in weights if isinstance(w, bool) or not isinstance(w, (int, float)) or not math.isfinite(w)]:
        raise ConfigError(f"a weight is {safe_repr(wrong[0])}; weights are finite numbers")
    if kind not in COMBINATIONS:
        more = nearest(str(kind), COMBINATIONS)
        raise UnsupportedError(f"combination_type is {safe_repr(kind)}; supported: {', '.join(COMBINATIONS)}{more}")
    if svd_rank is not None and (isinstance(svd_rank, bool) or not isinstance(svd_rank, int) or svd_rank < 1):
        raise ConfigError(f"svd_rank is {safe_repr(svd_rank)}; it must be a whole number from 1 up")
