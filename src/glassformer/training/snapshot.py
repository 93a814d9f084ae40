"""Where a run stands, as tensors and values that a checkpoint holds: nothing of it is anywhere else.

weights.…      every parameter and buffer, whole          random.{rank}.…    each process's generators
optimiser.…    what it remembers of each parameter        values             step, place in the data, best figure, …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import WeightsError
from glassformer.training import randomness
from glassformer.training.parallel import Crew
from glassformer.training.state import optimiser_tensors, restore_optimiser


@dataclass
class State:
    """The counters of a run.

    step: steps done · epoch, place: of the next one · tokens: seen, without padding
    seconds, cpu_seconds: spent in all sessions, validation and saves among them; of processors, those of this process
    skipped: steps skipped in a row · rollbacks: how often it went back; each halves the learning rate
    narrowed: how often a pass was halved for want of memory
    since: sums since the last line of the log · journals: how long each process's log was, in bytes
    best, best_step, figures, worse: the best figure, where it was, all figures there, validations since
    """

    step: int = 0
    epoch: int = 0
    place: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    skipped: int = 0
    rollbacks: int = 0
    narrowed: int = 0
    since: dict[str, float] = field(default_factory=dict)
    journals: list[int] = field(default_factory=list)
    best: float | None = None
    best_step: int | None = None
    figures: dict[str, float] = field(default_factory=dict)
    worse: int = 0


def snapshot(
    network: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any, state: State, crew: Crew
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that decides how a run goes on; every process must call it, the main one writes it."""
    tensors = {f"weights.{name}": crew.whole(x) for name, x in _numbers(network)}
    remembered, of_optimiser = optimiser_tensors(optimizer, network.named_parameters())
    tensors |= {f"optimiser.{name}": crew.whole(x) for name, x in remembered.items()}
    for key, x in randomness.capture().items():
        tensors |= {f"random.{rank}.{key}": one for rank, one in enumerate(crew.each(x))}
    return tensors, {"state": asdict(state), "optimiser": of_optimiser, "scaler": scaler.state_dict()}


def restore(
    tensors: Mapping[str, Tensor],
    values: Mapping[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    crew: Crew,
    *,
    seed: int,
) -> State:
    """Put a run where its checkpoint says it stood.

    A process that the run did not have before gets generators of its own, from the seed and the step.
    Raises: WeightsError: the checkpoint is of another network.
    """
    state = State(**values["state"])
    for name, place in _numbers(network):
        whole = tensors.get(f"weights.{name}")
        if whole is None or whole.shape != place.shape:
            raise WeightsError(
                f"the checkpoint does not hold {name} {list(place.shape)}; it is of another model"
            )
        with torch.no_grad():
            place.copy_(crew.part(whole, place))
    parameters = dict(network.named_parameters())
    remembered = {
        name: crew.part(whole, parameters[name.partition("/")[0]])
        for name, whole in _below(tensors, "optimiser.")
        if name.partition("/")[0] in parameters
    }
    restore_optimiser(optimizer, network.named_parameters(), remembered, values["optimiser"])
    if values["scaler"]:
        scaler.load_state_dict(values["scaler"])
    own = dict(_below(tensors, f"random.{crew.rank}."))
    if own:
        randomness.restore(own)
    else:
        randomness.seed_all(crew.seed(seed, state.step))
    return state


def _numbers(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters()
    yield from network.named_buffers()


def _below(tensors: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), x) for name, x in tensors.items() if name.startswith(prefix))
