"""Weighted combinations of adapters (task arithmetic): one adapter from several, by the ways of PEFT.

    cat      A = [w₁ s₁ A₁; w₂ s₂ A₂], B = [B₁ B₂]                    exact, of all ranks together
    svd      the best approximation of w₁ s₁ B₁ A₁ + w₂ s₂ B₂ A₂      of a given rank
    linear   A = Σ ±√|w s| A, B = Σ √|w s| B                          rough: products of different adapters too

Before they are added, numbers may be pruned, to a share `density` of them; each of these stands for `linear`, and with
`_svd` after it (`ties_svd`) for `svd`:

    magnitude_prune           the largest stay
    dare_linear               some stay at random, divided by density; torch.manual_seed makes it repeatable (PEFT has
                              drawn initial weights before, so it keeps others)
    ties, dare_ties           so pruned; then the mean of those whose sign is the majority's

Source: Ilharco et al. 2023, "Editing Models with Task Arithmetic", section 2; Eckart and Young 1936, for the SVD; Yadav
et al. 2023 (TIES), section 3; Yu et al. 2023 (DARE), section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
from glassformer.files import check_count, is_number, safe_repr

PRUNED = ("magnitude_prune", "ties", "dare_linear", "dare_ties")
COMBINATIONS = ("cat", "svd", "linear", *PRUNED, *(f"{kind}_svd" for kind in PRUNED))
SIGNS = ("total", "frequency")


@dataclass(frozen=True)
class Combination:
    """How adapters are combined.

    kind: one of `COMBINATIONS`
    svd_rank: of approximations; None = the largest of the adapters
    density: the share of numbers that pruning keeps; 1 = all
    majority_sign_method: what the signs of `ties` are weighed by: "total", the numbers, or "frequency", each once
    Raises: UnsupportedError, ConfigError: values that are none of these.
    """

    kind: str = "svd"
    svd_rank: int | None = None
    density: float | None = None
    majority_sign_method: str = "total"

    def __post_init__(self) -> None:
        if self.kind not in COMBINATIONS:
            more = nearest(str(self.kind), COMBINATIONS)
            raise UnsupportedError(
                f"combination_type is {safe_repr(self.kind)}; supported: {', '.join(COMBINATIONS)}{more}"
            )
        rank, density = self.svd_rank, self.density
        if rank is not None:
            check_count("svd_rank", rank)
        if self.prunes and not (is_number(density) and 0 < density <= 1):
            raise ConfigError(
                f"density is {safe_repr(density)}; for {self.kind!r} it must be a number above 0, up to 1: the share "
                "of numbers that stay"
            )
        if self.majority_sign_method not in SIGNS:
            raise ConfigError(
                f"majority_sign_method is {safe_repr(self.majority_sign_method)}; it must be {' or '.join(SIGNS)}"
            )

    @property
    def prunes(self) -> bool:
        return self.kind.removesuffix("_svd") in PRUNED

    def pruned(self, x: Tensor) -> Tensor:
        """A tensor with 0 in the place of numbers that do not stay."""
        if not self.prunes or self.density is None or self.density >= 1:
            return x
        if self.kind.startswith("dare"):
            return x * torch.bernoulli(torch.full_like(x, self.density)) / self.density
        largest = x.abs().flatten().topk(int(self.density * x.numel())).indices
        return x * torch.zeros_like(x).flatten().index_fill(0, largest, 1).view(x.shape)

    def merge(self, tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        """The weighted sum of pruned tensors of one shape; of ties, of those alone whose sign is the majority's."""
        stacked = torch.stack([self.pruned(x) for x in tensors])
        weighted = stacked * torch.tensor(weights, dtype=stacked.dtype, device=stacked.device).view(-1, 1, 1)
        if "ties" not in self.kind:
            return weighted.sum(0)
        votes = (stacked if self.majority_sign_method == "total" else stacked.sign()).sum(0)
        agreeing = stacked.sign() == torch.where(votes >= 0, 1, -1)
        return (weighted * agreeing).sum(0) / agreeing.sum(0).clamp(min=1)


def add_weighted(
    network: nn.Module, names: Sequence[str], weights: Sequence[float], name: str, combination: Combination
) -> Adapters:
    """Add the weighted combination of adapters as adapters of a name of their own; arguments as in the model's method.

    Raises: ConfigError, UnsupportedError: as there.
    """
    sets = adapters_of(network)
    _check(network, names, weights)
    check_full_parameters(network, names)
    how = Combination("linear") if len(names) == 1 else combination
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    for target in dict.fromkeys(target for one in names for target in sets[one].by_target):
        members = [(w, sets[one].by_target.get(target)) for one, w in zip(names, weights, strict=True)]
        pairs[target] = _combined([(w, adapter) for w, adapter in members if adapter is not None], how)
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
def _combined(members: list[tuple[float, LowRank]], how: Combination) -> tuple[Tensor, Tensor]:
    """A [r, in] and B [out, r] of the combination on one target module; its scale is 1."""
    factors = [weight * adapter.scale for weight, adapter in members]
    downs = [adapter.down.weight for _, adapter in members]
    ups = [adapter.up.weight for _, adapter in members]
    if how.kind == "cat":
        return torch.cat([f * down for f, down in zip(factors, downs, strict=True)]), torch.cat(ups, 1)
    if how.kind.endswith("svd"):
        rank = how.svd_rank or max(down.shape[0] for down in downs)
        whole = how.merge([adapter.matrix() for _, adapter in members], [weight for weight, _ in members])
        left, values, right = torch.linalg.svd(whole, full_matrices=False)
        return right[:rank], left[:, :rank] * values[:rank]
    if len({down.shape[0] for down in downs}) > 1:
        ranks = ", ".join(str(down.shape[0]) for down in downs)
        raise ConfigError(
            f"the adapters have the ranks {ranks}; {how.kind!r} adds equal ones: use 'cat', or one that ends in 'svd'"
        )
    roots = [math.sqrt(abs(f)) for f in factors]
    return how.merge(downs, [math.copysign(r, f) for r, f in zip(roots, factors, strict=True)]), how.merge(ups, roots)


def _check(network: nn.Module, names: Sequence[str], weights: Sequence[float]) -> None:
    for given in (names, weights):
        if not isinstance(given, (list, tuple)) or not given or len(given) != len(names):
            raise ConfigError(
                f"the adapters are {safe_repr(names)}, the weights {safe_repr(weights)}; give two lists, of names and "
                "of as many numbers"
            )
    for name in names:
        named_adapters(network, name)
    if wrong := [w for w in weights if not is_number(w)]:
        raise ConfigError(f"a weight is {safe_repr(wrong[0])}; weights are finite numbers")
