"""Pruning: weights that count least become zeros, W ← W · M, with an exact number of them.

    scores      magnitude_scores   |W|                   wanda_scores   |W| · ‖X‖ of the inputs that it multiplies
    masks       sparsity_masks     a share of zeros: of all matrices together, of each, or of each of their rows
                n_of_m_masks       n of every m neighbours stay: what some processors multiply in half of the time
    schedule    CubicSchedule      few zeros at first, and more slowly towards the end
    zeros       apply_masks, and how many there are: `sparsity_of`

    weights = prunable_weights(model.network)
    apply_masks(weights, sparsity_masks(magnitude_scores(weights), 0.5))

A pruned model is saved as any other: zeros are weights. What takes less memory: `sparse.py`; less time: `structure.py`.
Source: magnitude: Han et al. 2015, "Learning both Weights and Connections for Efficient Neural Networks", section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from glassformer.core.experts import RouterScores
from glassformer.core.flow import Flow
from glassformer.core.quantised import check_not_quantised
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, WeightsError
from glassformer.files.schema import BelowOne, Count, NonNegativeInt, Schema, check
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent

Scope = Literal["global", "layer", "row"]
"""Where a share of zeros holds: in all matrices together, in each of them, or in each row of each."""
Tensors = Mapping[str, Tensor]


def prunable_weights(network: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices of the linear layers in the blocks of a network, by name; one that blocks share is there once.

    Not embeddings, norms, biases and the head: they are few, or each number of them counts; nor routers of experts.

    Raises: ConfigError: the network is quantised.
    """
    check_not_quantised(network, "pruned")
    weights: dict[str, nn.Parameter] = {}
    visited: set[int] = set()
    for owner, stack in network.named_modules():
        if not isinstance(stack, Stack):
            continue
        for path, layer in stack.named_modules():
            prunable = isinstance(layer, nn.Linear) and not isinstance(layer, RouterScores)
            if prunable and id(layer.weight) not in visited:
                visited.add(id(layer.weight))
                weights[f"{owner}.{path}.weight".removeprefix(".")] = layer.weight
    return weights


# ------------------------------------------------------------------------------------------------ scores


def magnitude_scores(weights: Tensors) -> dict[str, Tensor]:
    """|W|, in at least fp32. Raises: WeightsError: a weight is NaN, which is neither small nor large."""
    scores = {name: _wide(weight.detach()).abs() for name, weight in weights.items()}
    for name, x in scores.items():
        if x.isnan().any():
            raise WeightsError(f"{name} holds NaN, which is neither small nor large; load a checkpoint without")
    return scores


def wanda_scores(weights: Tensors, norms: Tensors) -> dict[str, Tensor]:
    """|W_ij| · ‖X_j‖: a small weight of a large input counts too; to be compared within a row.

    Source: Sun et al. 2024, "A Simple and Effective Pruning Approach for Large Language Models", section 3.

    Args:
        norms: of the inputs of each matrix, by its name: `InputNorms.values`
    """
    return {name: scores * norms[name].to(scores) for name, scores in magnitude_scores(weights).items()}


class InputNorms:
    """Norms ‖X_j‖₂ of each input of each matrix, over all calls of a network within a `with`; padding is left out.

    with InputNorms(network) as norms:
        model.encode(texts)
    norms.values["blocks.0.ffn.up.weight"]      [D]

    Tokens that a router has sent to an expert are counted with their padding.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._sums: dict[str, Tensor] = {}
        self._keep: Tensor | None = None  # of the stack that runs
        self._hooks = ExitStack()

    @property
    def values(self) -> dict[str, Tensor]:
        """The norms, by the name of the matrix. Raises: ConfigError: nothing has run."""
        if not self._sums:
            raise ConfigError("no text has gone through the network; pruning by activations needs calibration rows")
        return {name: sums.sqrt() for name, sums in self._sums.items()}

    def __enter__(self) -> Self:
        modules = dict(self.network.named_modules())
        for name in prunable_weights(self.network):
            layer = modules[name.removesuffix(".weight")]
            self._hooks.callback(layer.register_forward_pre_hook(partial(self._add, name)).remove)
        for stack in modules.values():
            if isinstance(stack, Stack):
                self._hooks.callback(stack.register_forward_pre_hook(self._note_padding).remove)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.close()

    def _note_padding(self, stack: nn.Module, arguments: tuple[Any, ...]) -> None:
        flow = next(x for x in arguments if isinstance(x, Flow))
        self._keep = None if flow.keep is None else flow.keep.any(dim=1)  # [B, S]

    def _add(self, name: str, layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        x = arguments[0].detach()
        if self._keep is not None and self._keep.shape == x.shape[:-1]:
            x = x[self._keep]
        squares = _wide(x).flatten(0, -2).square().sum(dim=0)
        self._sums[name] = self._sums[name] + squares if name in self._sums else squares


# ------------------------------------------------------------------------------------------------ masks


def keep_largest(scores: Tensor, zeros: int) -> Tensor:
    """Mask of all but the `zeros` lowest scores; of equal ones the first go. bool, the shape of the scores."""
    flat = scores.flatten()
    if zeros == 0:
        return torch.ones_like(scores, dtype=torch.bool)
    threshold = flat.kthvalue(zeros).values
    mask = flat > threshold
    equal = (flat == threshold).nonzero()[:, 0]
    stay = flat.numel() - zeros - int(mask.sum())  # of the equal ones
    mask[equal[len(equal) - stay :]] = True
    return mask.reshape(scores.shape)


def sparsity_masks(scores: Tensors, sparsity: float, scope: Scope = "global") -> dict[str, Tensor]:
    """Masks of which this share is False, rounded to a whole number of weights, where the scores are lowest.

    Raises: ConfigError: no share below 1: a matrix of zeros computes nothing.
    """
    check(BelowOne, sparsity, "sparsity")
    if scope == "global":
        joined = torch.cat([x.flatten() for x in scores.values()])
        parts = keep_largest(joined, round(sparsity * joined.numel())).split([x.numel() for x in scores.values()])
        return {name: part.reshape(x.shape) for (name, x), part in zip(scores.items(), parts, strict=True)}
    if scope == "layer":
        return {name: keep_largest(x, round(sparsity * x.numel())) for name, x in scores.items()}
    return {name: _keep_in_rows(x, x.shape[-1] - round(sparsity * x.shape[-1])) for name, x in scores.items()}


def check_pattern(weights: Tensors, n: int, m: int) -> None:
    """Raises: ConfigError: n is not from 1 to m - 1, or m does not divide the width of a matrix."""
    if not 0 < n < m:
        raise ConfigError(f"{n} of every {m} weights are to stay; it must be at least 1, and fewer than {m}")
    for name, x in weights.items():
        if x.shape[-1] % m:
            raise ConfigError(f"{name} has {x.shape[-1]} inputs, which is no multiple of {m}: no {n}:{m} pattern fits")


def n_of_m_masks(scores: Tensors, n: int, m: int) -> dict[str, Tensor]:
    """Masks in which n of every m neighbours of a row are True, those with the highest scores.

    Source: Mishra et al. 2021, "Accelerating Sparse Deep Neural Networks", section 3: 2 of 4.

    Raises: ConfigError: as `check_pattern`.
    """
    check_pattern(scores, n, m)
    return {name: _keep_in_rows(x.unflatten(-1, (-1, m)), n).flatten(-2) for name, x in scores.items()}


def _keep_in_rows(scores: Tensor, count: int) -> Tensor:
    """Mask of the `count` highest scores of each row; of equal ones the first stay."""
    order = scores.argsort(dim=-1, descending=True, stable=True)[..., :count]
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order, True)


@torch.no_grad()
def apply_masks(weights: Tensors, masks: Tensors) -> None:
    """W ← W · M, in place; a weight that is not finite becomes 0 as well."""
    for name, mask in masks.items():
        weights[name].masked_fill_(~mask, 0)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


# ------------------------------------------------------------------------------------------------ schedule and figures


@dataclass(frozen=True, kw_only=True)
class CubicSchedule(Schema):
    """Sparsity by step: s = s_f + (s_i − s_f) · (1 − (step − begin) / (end − begin))³, constant before and after.

    Many weights go while many can be spared, few at the end, and training makes up for each in between.
    Source: Zhu and Gupta 2017, "To prune, or not to prune", section 3.

    final, initial: sparsity at the end and at the beginning
    begin, end: steps
    Raises: ConfigError: it ends before it begins.
    """

    final: BelowOne
    initial: BelowOne = 0.0
    begin: NonNegativeInt = 0
    end: Count

    def validate(self) -> None:
        if self.end <= self.begin:
            raise ConfigError(f"the schedule of sparsity ends at step {self.end}, and begins at {self.begin}")

    def __call__(self, step: float) -> float:
        """The sparsity after this many steps."""
        if step < self.begin:
            return 0.0
        left = 1 - min(1.0, (step - self.begin) / (self.end - self.begin))
        return self.final + (self.initial - self.final) * left**3


@dataclass(frozen=True, repr=False)
class SparsityReport(Report, kind="sparsity", keys=("zeros", "weights", "sparsity")):
    """How many weights of each matrix are zero.

    zeros, weights: by the name of the matrix
    """

    zeros: dict[str, int]
    weights: dict[str, int]
    notes: list[str] = field(default_factory=list)

    @property
    def sparsity(self) -> float:
        """The share of zeros in all of them."""
        return sum(self.zeros.values()) / max(1, sum(self.weights.values()))

    @property
    def caption(self) -> str:
        """The share of zeros, in a sentence."""
        return f"{percent(self.sparsity, 1)} of {sum(self.weights.values()):,} weights are zero"

    def tables(self) -> list[Table]:
        """A row for each matrix."""
        rows = [
            [name, f"{count:,}", f"{self.zeros[name]:,}", percent(self.zeros[name] / count, 1)]
            for name, count in self.weights.items()
        ]
        return [Table(["matrix", "weights", "zeros", "sparsity"], rows)]


def sparsity_of(weights: Tensors) -> SparsityReport:
    """The sparsity of matrices, counted."""
    zeros = {name: int((x == 0).sum()) for name, x in weights.items()}
    return SparsityReport(zeros, {name: x.numel() for name, x in weights.items()})
