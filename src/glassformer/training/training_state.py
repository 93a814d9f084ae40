"""Training state: everything that resuming a run needs, as the tensors and values of a checkpoint.

weights.…      every parameter and buffer, whole          random.{rank}.…    random generators of each process
optimiser.…    optimizer state of each parameter          values             step, position in the data, best metric, …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import WeightsError
from glassformer.training import randomness
from glassformer.training.distributed import Distributed
from glassformer.training.state_files import optimiser_tensors, restore_optimiser


@dataclass
class TrainingState:
    """The counters of a run.

    step: steps done · epoch, position: of the next step · tokens: seen, without padding
    seconds, cpu_seconds: spent in all sessions, with validation and saves; CPU time is that of this process
    skipped: steps skipped in a row · rollbacks: to a checkpoint; each halves the learning rate
    micro_batch_halvings: after running out of memory
    log_sums: sums since the last step in the event log · log_offsets: bytes of each process's event log
    best, best_step, best_metrics: the best value of the main metric, its step, and all metrics there
    validations_without_improvement: since then
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    skipped: int = 0
    rollbacks: int = 0
    micro_batch_halvings: int = 0
    log_sums: dict[str, float] = field(default_factory=dict)
    log_offsets: list[int] = field(default_factory=list)
    best: float | None = None
    best_step: int | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    validations_without_improvement: int = 0


FORMER_NAMES = {
    "place": "position",
    "narrowed": "micro_batch_halvings",
    "since": "log_sums",
    "journals": "log_offsets",
    "figures": "best_metrics",
    "worse": "validations_without_improvement",
}
"""Counters in checkpoints of former versions → their names now."""


def capture_state(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    state: TrainingState,
    distributed: Distributed,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that decides how a run goes on, as tensors and values; a collective call of all processes."""
    tensors = {f"weights.{name}": distributed.full_tensor(x) for name, x in _named_tensors(network)}
    optimiser_state, optimiser_values = optimiser_tensors(optimizer, network.named_parameters())
    tensors |= {f"optimiser.{name}": distributed.full_tensor(x) for name, x in optimiser_state.items()}
    for key, x in randomness.capture().items():
        tensors |= {f"random.{rank}.{key}": one for rank, one in enumerate(distributed.all_gather(x))}
    return tensors, {"state": asdict(state), "optimiser": optimiser_values, "scaler": scaler.state_dict()}


def restore_state(
    tensors: Mapping[str, Tensor],
    values: Mapping[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    distributed: Distributed,
    *,
    seed: int,
) -> TrainingState:
    """Restore the state that `capture_state` took; a collective call.

    A process that the run did not have before gets random generators of its own, from the seed and the step.
    Raises: WeightsError: the checkpoint is of another network.
    """
    state = TrainingState(**{FORMER_NAMES.get(name, name): x for name, x in values["state"].items()})
    for name, target in _named_tensors(network):
        whole = tensors.get(f"weights.{name}")
        if whole is None or whole.shape != target.shape:
            raise WeightsError(
                f"the checkpoint does not hold {name} {list(target.shape)}; it is of another model"
            )
        with torch.no_grad():
            target.copy_(distributed.shard_like(whole, target))
    parameters = dict(network.named_parameters())
    optimiser_state = {
        name: distributed.shard_like(whole, parameters[name.partition("/")[0]])
        for name, whole in _with_prefix(tensors, "optimiser.")
        if name.partition("/")[0] in parameters
    }
    restore_optimiser(optimizer, network.named_parameters(), optimiser_state, values["optimiser"])
    if values["scaler"]:
        scaler.load_state_dict(values["scaler"])
    own = dict(_with_prefix(tensors, f"random.{distributed.rank}."))
    if own:
        randomness.restore(own)
    else:
        randomness.seed_all(distributed.process_seed(seed, state.step))
    return state


def _named_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters()
    yield from network.named_buffers()


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), x) for name, x in tensors.items() if name.startswith(prefix))
