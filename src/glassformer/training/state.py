"""Training state: everything that resuming a run needs, and its files: safetensors, strict JSON, nothing as a pickle.

state.safetensors   weights.…      every parameter and buffer, whole, to the bit
                    optimiser.…    optimizer state of each parameter: blocks.0.attn.qkv.weight/exp_avg
                    random.{rank}.…   random generators of each process
state.json          step, position in the data, … {"betas": {"tuple": [0.9, 0.999]}, "worst": {"float": "inf"}}
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import safe_repr
from glassformer.files.strict_json import read_json_object
from glassformer.tasks.metrics.metric import greater_is_better
from glassformer.training import randomness
from glassformer.training.callbacks import StepReport
from glassformer.training.distributed import Distributed
from glassformer.weights.read import open_file
from glassformer.weights.write import check_storable, write_tensors

# What JSON has no type for is an object of one key; an object that happens to look like that is nested in one.
_TAGS = ("float", "tuple", "object")


def write_state(folder: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any], *, name: str = "state") -> None:
    """Write `NAME.safetensors` and `NAME.json`, to be read back exactly.

    They are not flushed to the disk here: `Checkpoints.save` flushes all files of a checkpoint.

    Args:
        values: nested dicts, lists, tuples, strings, booleans, None, integers (up to 4,300 digits), floats (also NaN)
        name: another one for another part of a checkpoint
    Raises: ConfigError: a value that could not be read back exactly. WeightsError: a tensor that cannot be stored.
        OSError: as the system refuses.
    """
    for key, tensor in tensors.items():
        check_storable(key, tensor)
    try:
        text = json.dumps({"values": _encode(dict(values), "")}, indent=1).encode()
    except ValueError as problem:  # an integer of more digits than Python turns into text
        raise ConfigError(f"the values of {name} cannot be written: {problem}") from problem
    with open(folder / f"{name}.safetensors", "wb") as stream:
        write_tensors(stream, tensors, {"format": "pt"})
    (folder / f"{name}.json").write_bytes(text)


def read_state(folder: Path, *, name: str = "state") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_state` wrote: the tensors, on the CPU and in RAM of their own, and the values.

    Raises: WeightsError: a file that is missing or damaged.
    """
    path = folder / f"{name}.json"
    with open_file(folder / f"{name}.safetensors") as file:
        tensors = {key: file.read(key).clone() for key in file.tensors}
    values = _decode(read_json_object(path).get("values"))
    if not isinstance(values, dict):
        raise WeightsError(f"{path}: holds no values; it is no training state")
    return tensors, values


def _encode(value: Any, where: str) -> Any:
    """A value as strict JSON; `where` names it in errors."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) in (list, tuple):
        items = [_encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if type(value) is list else {"tuple": items}
    if type(value) is dict and all(type(key) is str for key in value):
        named = {key: _encode(item, f"{where}[{key!r}]") for key, item in value.items()}
        return {"object": named} if _is_tagged(named) else named
    raise ConfigError(
        f"values{where} is {safe_repr(value)} ({type(value).__name__}), which cannot be saved exactly; values are "
        "dicts with string keys, lists, tuples, strings, booleans, None, int and float; tensors go beside them"
    )


def _decode(encoded: Any) -> Any:
    """The value that `_encode` took."""
    if isinstance(encoded, list):
        return [_decode(item) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    if _is_tagged(encoded):
        ((tag, content),) = encoded.items()
        if tag == "float":
            return float(content)
        if tag == "tuple":
            return tuple(_decode(item) for item in content)
        encoded = content
    return {key: _decode(item) for key, item in encoded.items()}


def _is_tagged(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _TAGS


# ------------------------------------------------------------------------------------------- optimisers


def optimiser_tensors(
    optimizer: Optimizer, names: Iterable[tuple[str, nn.Parameter]]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state of a torch optimizer, by the names of its parameters, for `write_state`.

    Args: names: `network.named_parameters()`
    Returns: the tensors themselves, such as `blocks.0.attn.qkv.weight/exp_avg`; its other values and its groups.
    Raises: ConfigError: a parameter of it has no name, or its state cannot be saved exactly.
    """
    name_of = _names_of(optimizer, names)
    tensors: dict[str, Tensor] = {}
    state: dict[str, dict[str, Any]] = {}
    for parameter, name in name_of.items():
        slots = optimizer.state.get(parameter, {})
        tensors.update({f"{name}/{slot}": x for slot, x in slots.items() if isinstance(x, Tensor)})
        state[name] = {slot: x for slot, x in slots.items() if not isinstance(x, Tensor)}
    groups = [
        {
            "members": {name_of[parameter]: list(parameter.shape) for parameter in group["params"]},
            # A learning rate may be a tensor of one number.
            "options": {key: x.item() if isinstance(x, Tensor) else x for key, x in group.items() if key != "params"},
        }
        for group in optimizer.param_groups
    ]
    values = {"state": state, "groups": groups}
    _encode(values, f" of {type(optimizer).__name__}: ")
    return tensors, values


def restore_optimiser(
    optimizer: Optimizer,
    names: Iterable[tuple[str, nn.Parameter]],
    tensors: Mapping[str, Tensor],
    values: Mapping[str, Any],
) -> None:
    """Restore the state that `optimiser_tensors` took, to the bit, in whatever order its parameters stand.

    Args: tensors: those of the optimiser become its own, and change with it; others may be among them
    Raises: WeightsError: its parameters, their shapes or their groups are others. ConfigError: one has no name.
    """
    name_of = _names_of(optimizer, names)
    _check_same(values["groups"], optimizer, name_of)
    state = {name: dict(slots) for name, slots in values["state"].items()}
    for key, tensor in tensors.items():
        name, _, slot = key.rpartition("/")
        if name in state:
            state[name][slot] = tensor
    saved = {frozenset(group["members"]): group["options"] for group in values["groups"]}
    # Not by `load_state_dict`, which casts the state to the type of its parameter: a wider state would lose bits.
    for group in optimizer.param_groups:
        for key, x in saved[frozenset(name_of[parameter] for parameter in group["params"])].items():
            group[key] = torch.full_like(group[key], x) if isinstance(group.get(key), Tensor) else x
        counts_on_device = group.get("fused") or group.get("capturable")
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                slot: x.to(parameter.device) if isinstance(x, Tensor) and (slot != "step" or counts_on_device) else x
                for slot, x in state[name_of[parameter]].items()
            }


def _names_of(optimizer: Optimizer, names: Iterable[tuple[str, nn.Parameter]]) -> dict[nn.Parameter, str]:
    """The name of each parameter, in the optimiser's order."""
    known = {parameter: name for name, parameter in names}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    nameless = [parameter for parameter in parameters if parameter not in known]
    if nameless:
        raise ConfigError(
            f"{len(nameless)} of the optimiser's {len(parameters)} parameters have no name, one of shape "
            f"{list(nameless[0].shape)}; hand in the names of all of them: network.named_parameters()"
        )
    return {parameter: known[parameter] for parameter in parameters}


def _check_same(groups: list[dict[str, Any]], optimizer: Optimizer, name_of: Mapping[nn.Parameter, str]) -> None:
    """Raises: WeightsError: the state is of other parameters, or of the same in other groups."""
    saved = {name: shape for group in groups for name, shape in group["members"].items()}
    here = {name: list(parameter.shape) for parameter, name in name_of.items()}
    for name in sorted(saved.keys() | here.keys()):
        if saved.get(name) != here.get(name):
            raise WeightsError(
                f"the optimiser's state is of another model: parameter {safe_repr(name)} has shape "
                f"{saved.get(name, '(it is missing)')} in the checkpoint and {here.get(name, '(it is missing)')} here"
            )
    saved_groups = {frozenset(group["members"]) for group in groups}
    for group in optimizer.param_groups:
        members = frozenset(name_of[parameter] for parameter in group["params"])
        if members not in saved_groups:
            raise WeightsError(
                f"the optimiser's state has the parameters in other groups: none is of the {len(members)} with "
                f"{safe_repr(min(members, default=''))}; use the groups that the run had"
            )


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

    def __post_init__(self) -> None:
        self.start_clocks()

    def start_clocks(self) -> None:
        """Count time from now on."""
        self._clocks = time.perf_counter(), time.process_time()

    def update_clocks(self) -> None:
        """Add the time since the last call to the counters."""
        before = self._clocks
        self.start_clocks()
        self.seconds += self._clocks[0] - before[0]
        self.cpu_seconds += self._clocks[1] - before[1]

    def mean_since_log(self, report: StepReport) -> dict[str, float]:
        """Add a step to what is logged next; the mean loss and the speed since the last logged step."""
        seconds = report.tokens / report.tokens_per_s
        added = {"steps": 1, "loss": report.loss, "tokens": report.tokens, "seconds": seconds}
        self.log_sums = sums = {name: self.log_sums.get(name, 0) + value for name, value in added.items()}
        return {"loss": sums["loss"] / sums["steps"], "tokens_per_s": sums["tokens"] / sums["seconds"]}

    def note_validation(self, metrics: dict[str, float], metric: str) -> bool:
        """Count a validation; whether it is the best so far."""
        value = metrics[metric]
        sign = 1 if greater_is_better(metric) else -1
        better = math.isfinite(value) and (self.best is None or sign * value > sign * self.best)
        self.validations_without_improvement = 0 if better else self.validations_without_improvement + 1
        if better:
            self.best, self.best_step, self.best_metrics = value, self.step, metrics
        return better


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
            raise WeightsError(f"the checkpoint does not hold {name} {list(target.shape)}; it is of another model")
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
