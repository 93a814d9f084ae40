"""Pruning while training: masks that grow with a schedule, chosen by magnitude or by movement, and rewinding.

    y = (W · M) x          M: 1 where a weight stays

    magnitude         the largest |W|; gradually, so that training makes up for what has gone
    movement          the largest learned scores S: of weights that move away from zero
    soft movement     σ(S) > τ, and a penalty λ · mean σ(S) that grows; how many zeros that makes is measured

    ∂L/∂W = ∂L/∂W' · M        ∂L/∂S = ∂L/∂W' · W      (straight-through: as if M were S)        W' = W · M

So a score rises where a step moves its weight away from zero, whatever the weight's size: what fine-tuning changes
matters more than what pre-training left. `WeightPruning` does it during a run (`pruning:` in its configuration); all it
keeps is in the network's parameters and buffers, and so in the run's checkpoints. Saved weights are W · M.

Source: gradual magnitude: Zhu and Gupta 2017, "To prune, or not to prune"; movement: Sanh et al. 2020, "Movement
Pruning: Adaptive Sparsity by Fine-Tuning", sections 3 and 4; straight-through: Bengio et al. 2013; rewinding: Frankle
et al. 2020, "Linear Mode Connectivity and the Lottery Ticket Hypothesis", and Renda et al. 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.compression.low_rank import install
from glassformer.compression.prune import (
    CubicSchedule,
    Scope,
    magnitude_scores,
    prunable_weights,
    sparsity_masks,
)
from glassformer.errors import ConfigError
from glassformer.files.schema import BelowOne, Count, NonNegative, Positive, Schema, at_least

Time = Annotated[float, at_least(0.0, words="a number of steps, or a share of them below 1")]
FIRST_SCORE = 2.2
"""Score that soft thresholds begin with: σ(2.2) = 0.9, far above the threshold."""
EARLY = "early_"
"""Beginning of the names of buffers that hold the weights to which a run rewinds."""


@dataclass(frozen=True, kw_only=True)
class PruningSpec(Schema):
    """Pruning while training.

    method: magnitude, movement (the share `sparsity` with the lowest learned scores), or soft-movement (all scores
        below a threshold)
    sparsity: share of zeros at the end; soft-movement has `penalty` in its place
    initial: share of zeros at `begin`
    begin, end: between them the sparsity rises by a cubic schedule: steps, or below 1 shares of all
    every: steps between two choices of the masks
    scope: whether the share holds in all matrices together, or in each of them or of their rows
    learning_rate: of the scores, at its peak
    first_scores: of movement: zero, or magnitude, |W| divided by its mean in the matrix
    threshold, penalty: of soft-movement: τ, and λ at the end
    rewind: a step, or below 1 a share of all, to whose weights the run returns once at `end`; with magnitude
    Raises: ConfigError: numbers that do not go together.
    """

    method: Literal["magnitude", "movement", "soft-movement"] = "magnitude"
    sparsity: BelowOne = 0.5
    initial: BelowOne = 0.0
    begin: Time = 0.1
    end: Time = 0.7
    every: Count = 10
    scope: Scope = "global"
    learning_rate: Positive = 1e-2
    first_scores: Literal["zero", "magnitude"] = "zero"
    threshold: BelowOne = 0.1
    penalty: NonNegative = 100.0
    rewind: Time | None = None

    def validate(self) -> None:
        if self.rewind is not None and self.method != "magnitude":
            raise ConfigError("pruning.rewind goes with method: magnitude; learned scores belong to later weights")
        if self.first_scores != "zero" and self.method != "movement":
            raise ConfigError(f"pruning.first_scores is {self.first_scores}, which goes with method: movement")
        if self.initial > self.sparsity:
            raise ConfigError(f"pruning.initial is {self.initial}, above pruning.sparsity, {self.sparsity}")


class StraightThrough(torch.autograd.Function):
    """W · M, whose gradient reaches W where M is 1, and the scores S as if they were M."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, scores: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(weight, mask)
        return weight * mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weight, mask = ctx.saved_tensors
        return gradient * mask, gradient * weight, None


class MaskedLinear(nn.Linear):
    """A linear layer with a mask, y = (W · M) x + b, and scores that it is chosen by, where these are learned.

    `weight` and `bias` are those of the original layer.
    """

    mask: Tensor

    def __init__(self, base: nn.Linear, first_scores: Tensor | None = None) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.register_buffer("mask", torch.ones_like(base.weight, dtype=torch.bool))
        self.scores = None if first_scores is None else nn.Parameter(first_scores)
        self.train(base.training)

    @property
    def masked(self) -> Tensor:
        """W · M."""
        if self.scores is None:
            return self.weight * self.mask
        return StraightThrough.apply(self.weight, self.scores, self.mask)  # type: ignore[no-any-return,no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.masked, self.bias)

    @torch.no_grad()
    def plain(self) -> nn.Linear:
        """A layer of torch with the masked weights, in tensors of its own but for the bias."""
        with torch.device("meta"):
            plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        stays = self.weight.masked_fill(~self.mask, 0)
        plain.weight = nn.Parameter(stays, requires_grad=self.weight.requires_grad)
        plain.bias = self.bias
        return plain.train(self.training)


class WeightPruning:
    """Masks on the matrices of a network's blocks during a run of this many steps.

    layers: path → masked layer
    schedule: sparsity by step
    final_step: from here on the sparsity is that of the end
    Raises: ConfigError: nothing to prune, or times that do not go together.
    """

    def __init__(self, network: nn.Module, spec: PruningSpec, steps: int) -> None:
        self.network, self.spec = network, spec
        begin, end = (_step(time, steps) for time in (spec.begin, spec.end))
        if not begin < end <= steps:
            raise ConfigError(
                f"pruning goes from step {begin} to step {end} of {steps}; it must end after it begins, and not later "
                "than the run"
            )
        self.schedule = CubicSchedule(initial=spec.initial, final=spec.sparsity, begin=begin, end=end)
        self.final_step = end
        self.rewind_step = None if spec.rewind is None else _step(spec.rewind, steps)
        if self.rewind_step is not None and self.rewind_step >= end:
            raise ConfigError(f"pruning.rewind is step {self.rewind_step}, which must be before step {end}, its end")
        weights = {name: x for name, x in prunable_weights(network).items() if x.requires_grad}
        if not weights:
            raise ConfigError("there is nothing to prune: the network has no blocks, or all of them are frozen")
        modules = dict(network.named_modules())
        self.layers: dict[str, MaskedLinear] = {}
        for name in weights:
            path = name.removesuffix(".weight")
            base = modules[path]
            assert isinstance(base, nn.Linear)  # `prunable_weights` has no others
            self.layers[path] = MaskedLinear(base, _first_scores(base.weight.detach(), spec))
        install(network, self.layers)
        if self.rewind_step is not None:
            self._note_early()
        if begin == 0:
            self._choose(0)

    @property
    def rates(self) -> dict[str, float]:
        """The learning rate of each parameter that has one of its own: the scores."""
        return {
            name: self.spec.learning_rate for name, _ in self.network.named_parameters() if name.endswith(".scores")
        }

    @property
    def sparsity(self) -> float:
        """The share of zeros in the masks."""
        zeros = sum(int((~layer.mask).sum()) for layer in self.layers.values())
        return zeros / sum(layer.mask.numel() for layer in self.layers.values())

    def before_update(self, step: int) -> None:
        """Add the gradient of the penalty to that of the scores; `step`: of the update, from 1."""
        if self.spec.method != "soft-movement":
            return
        count = sum(layer.mask.numel() for layer in self.layers.values())
        factor = self._growth(step) * self.spec.penalty / count
        for layer in self.layers.values():
            if layer.scores is not None and layer.scores.grad is not None:
                share = layer.scores.detach().sigmoid()
                layer.scores.grad.add_(share * (1 - share), alpha=factor)

    def after_update(self, step: int, optimizer: torch.optim.Optimizer) -> None:
        """Choose the masks where it is time, and rewind; `step`: updates that are done."""
        if step == self.rewind_step:
            self._note_early()
        learned = self.spec.method != "magnitude"
        due = step % self.spec.every == 0 and (step <= self.final_step or learned)
        if step >= self.schedule.begin and (due or step == self.final_step):
            self._choose(step)
        if step == self.final_step and self.rewind_step is not None:
            self._rewind(optimizer)

    def _growth(self, step: int) -> float:
        """How much of the penalty there is: from 0 at the beginning of the schedule to 1 at its end."""
        begin, end = self.schedule.begin, self.schedule.end
        left = 1 - min(1.0, max(0.0, (step - begin) / (end - begin)))
        return 1 - left**3

    @torch.no_grad()
    def _choose(self, step: int) -> None:
        layers, spec = self.layers, self.spec
        if spec.method == "soft-movement":
            masks = {path: layer.scores.sigmoid() > spec.threshold for path, layer in layers.items()}  # type: ignore[union-attr]
        else:
            scores = {path: layer.weight if layer.scores is None else layer.scores for path, layer in layers.items()}
            ranked = magnitude_scores(scores) if spec.method == "magnitude" else dict(scores)
            masks = sparsity_masks({name: x.detach() for name, x in ranked.items()}, self.schedule(step), spec.scope)
        for path, mask in masks.items():
            layers[path].mask.copy_(mask)

    # -------------------------------------------------------------------------------------------- rewinding

    def _trained(self) -> list[tuple[nn.Module, str, nn.Parameter]]:
        """Module, name and parameter of all that is trained; what is shared comes once."""
        visited: set[int] = set()
        trained = []
        for module in self.network.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad and id(parameter) not in visited:
                    visited.add(id(parameter))
                    trained.append((module, name, parameter))
        return trained

    @torch.no_grad()
    def _note_early(self) -> None:
        """Keep the weights of now, as buffers of their modules, so that checkpoints hold them."""
        for module, name, parameter in self._trained():
            buffer = module._buffers.get(EARLY + name)
            if buffer is None:
                module.register_buffer(EARLY + name, parameter.detach().clone())
            else:
                buffer.copy_(parameter)

    @torch.no_grad()
    def _rewind(self, optimizer: torch.optim.Optimizer) -> None:
        """Give all weights the values of the earlier step; masks stay, and the optimizer's averages begin again."""
        for module, name, parameter in self._trained():
            early = module._buffers[EARLY + name]
            assert early is not None
            parameter.copy_(early)
            for slot in optimizer.state.get(parameter, {}).values():
                if isinstance(slot, Tensor):
                    slot.zero_()

    # -------------------------------------------------------------------------------------------- saving

    def merge(self) -> None:
        """Put plain layers with W · M in the place of the masked ones, to save the network as any."""
        install(self.network, {path: layer.plain() for path, layer in self.layers.items()})

    def unmerge(self) -> None:
        """Put the masked layers back: the same parameters, which an optimizer may hold."""
        install(self.network, self.layers)

    def remove(self) -> None:
        """Leave plain layers with W · M, and nothing else of the pruning."""
        self.merge()
        for module in self.network.modules():
            for name in [name for name in module._buffers if name.startswith(EARLY)]:
                del module._buffers[name]


def _first_scores(weight: Tensor, spec: PruningSpec) -> Tensor | None:
    """The scores with which a matrix begins, fp32; None where they are not learned."""
    if spec.method == "magnitude":
        return None
    if spec.first_scores == "magnitude":
        size = weight.float().abs()
        return size / size.mean().clamp_min(torch.finfo(torch.float32).tiny)
    first = FIRST_SCORE if spec.method == "soft-movement" else 0.0
    return torch.full_like(weight, first, dtype=torch.float32)


def _step(time: float, steps: int) -> int:
    return round(time * steps) if time < 1 else int(time)
