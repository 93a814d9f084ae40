"""Training state as tensors and values: random generators, optimizers, and files that hold both exactly, no pickle.

state.safetensors   weights.…      every parameter and buffer, whole, to the bit
                    optimiser.…    optimizer state of each parameter: blocks.0.attn.qkv.weight/exp_avg
                    random.{rank}.…   random generators of each process
state.json          step, position in the data, … {"betas": {"tuple": [0.9, 0.999]}, "worst": {"float": "inf"}}

Dropout draws from torch's own generator, whose state is saved. What is random about an example (masks, noise, spans)
depends on (seed, epoch, example) alone: in whatever order, by whichever process, the same.

What must be the same when a run is resumed is its identity: options, data, task, model and adapters (`run_identity`).
"""

from __future__ import annotations

import inspect
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import read_json_object, safe_repr
from glassformer.model import Model
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task
from glassformer.tasks.metrics.metric import quality
from glassformer.tasks.types import Examples
from glassformer.training.callbacks import StepReport
from glassformer.training.distributed import Distributed
from glassformer.weights.read import open_file
from glassformer.weights.write import check_storable, write_tensors

if TYPE_CHECKING:
    from glassformer.compression.adapters import Adapters
    from glassformer.compression.movement import PruningSpec
    from glassformer.compression.quantisation_aware import QuantisationSpec

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
        "dicts with string keys, lists, tuples, strings, booleans, None, int and float; tensors go next to them"
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

    Args:
        names: `network.named_parameters()`
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
    """Restore the state that `optimiser_tensors` took, to the bit, in whatever order its parameters are.

    Args:
        tensors: those of the optimiser become its own, and change with it; others may be among them
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
                slot: _as_of(parameter, x) if isinstance(x, Tensor) and (slot != "step" or counts_on_device) else x
                for slot, x in state[name_of[parameter]].items()
            }


def _as_of(parameter: nn.Parameter, x: Tensor) -> Tensor:
    """A tensor of state on the device of its parameter, and in its layout.

    GPT-2's matrices are loaded transposed, and a fused step walks through parameter and state in the order of memory.
    """
    x = x.to(parameter.device)
    same_layout = x.shape != parameter.shape or x.stride() == parameter.stride()
    return x if same_layout else torch.empty_like(parameter, dtype=x.dtype).copy_(x)


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


# ------------------------------------------------------------------------------------------- random generators


def seed_all(seed: int) -> None:
    """Seed the random generators of Python, numpy and torch, those of accelerators too.

    Raises: ConfigError: not a whole number from 0 to 2^32 - 1: numpy takes no more, and torch's CPU generator would
        take a larger one for another, smaller one.
    """
    if not 0 <= seed < 1 << 32:
        raise ConfigError(f"a seed is a whole number from 0 to 2^32 - 1, got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def capture_rng() -> dict[str, Tensor]:
    """The states of all random generators, that of this process's accelerator included.

    Returns: tensors by names such as `torch`, for a checkpoint.

    Raises: ConfigError: numpy's global generator was replaced.
    """
    _, words, gauss = random.getstate()
    of_numpy: Any = np.random.get_state(legacy=False)
    if of_numpy["bit_generator"] != "MT19937":
        raise ConfigError(
            f"numpy's global generator was replaced by {of_numpy['bit_generator']}; only MT19937 can be saved"
        )
    states = {
        "python": torch.tensor(words, dtype=torch.int64),
        "python.gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy": torch.tensor([*of_numpy["state"]["key"].tolist(), of_numpy["state"]["pos"]]),
        "numpy.gauss": torch.tensor([of_numpy["gauss"]] if of_numpy["has_gauss"] else [], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is not None:
        states[f"torch.{device.type}"] = torch.get_device_module(device).get_rng_state()
    return states


def restore_rng(states: Mapping[str, Tensor]) -> None:
    """Restore the states that `capture_rng` took; that of an accelerator where there is one of its type.

    Raises: WeightsError: a state is missing, or not one.
    """
    try:
        words, gauss = states["python"].tolist(), states["python.gauss"].tolist()
        random.setstate((3, tuple(words), gauss[0] if gauss else None))
        *keys, position = states["numpy"].tolist()
        normal = states["numpy.gauss"].tolist()
        np.random.set_state(("MT19937", np.array(keys, np.uint32), position, len(normal), *(normal or [0.0])))
        torch.set_rng_state(states["torch"])
        device = torch.accelerator.current_accelerator(check_available=True)
        if device is not None and f"torch.{device.type}" in states:
            torch.get_device_module(device).set_rng_state(states[f"torch.{device.type}"])
    except KeyError as missing:
        raise WeightsError(f"the state of the random generators lacks {missing}") from None
    except (ValueError, TypeError, RuntimeError) as problem:
        raise WeightsError(f"the state of the random generators cannot be restored: {problem}") from problem


RESUME_MAY_CHANGE = frozenset(
    "micro_batch_tokens micro_batch_size keep log_every max_skipped max_failed_saves save_every deterministic "
    "training_sample".split()
)
"""Options that may differ when a run is resumed: they change no weight, but by rounding."""

WEIGHTS_DIGEST = "loaded weights"
UNREAD_KEYS = frozenset("_name_or_path transformers_version torch_dtype dtype architectures".split())
"""Keys of config.json that change no number of a run."""


def model_identity(
    model: Model,
    adapters: Adapters | None = None,
    pruning: PruningSpec | None = None,
    quantisation: QuantisationSpec | None = None,
) -> dict[str, Any]:
    """What tells a model from another before it is trained: its config, what changes it, a digest of its weights.

    New weights are drawn by the run's seed, and are no part of the digest.
    """
    loaded = set(model.report.loaded)
    digest = model.network.fingerprint(loaded, dtypes=False)  # a run may go on in another one
    known = {f"config.{key}": value for key, value in model.config.items() if key not in UNREAD_KEYS}
    if adapters is not None:
        known |= {f"adapter.{key}": value for key, value in asdict(adapters.spec).items()}
    if pruning is not None:
        known |= {f"pruning.{key}": value for key, value in asdict(pruning).items()}
    if quantisation is not None:
        known |= {f"quantisation.{key}": value for key, value in asdict(quantisation).items()}
    size = sum(parameter.numel() for parameter in model.network.parameters())
    known["model"] = f"{model.family.model_type}, {size} parameters"
    return {**known, WEIGHTS_DIGEST: digest if loaded else None}


def task_identity(task: Task) -> dict[str, Any]:
    """The options of a task, by default or given: some act on an example each time it is shown, and leave no trace in
    the stored ones. Files may move.
    """
    parameters = inspect.signature(type(task)).parameters
    defaults = {name: parameters[name].default if name in parameters else None for name in task.options()}
    return {
        f"task_options.{name}": task.given_options.get(name, default)
        for name, default in defaults.items()
        if name not in ("folder", "report")
    }


def run_identity(
    task: Task, options: TrainingOptions, model: Mapping[str, Any], train: Examples, validation: Examples | None
) -> dict[str, Any]:
    """Everything that must be the same, by name, as it comes back from a checkpoint; model: its `model_identity`."""
    # Which examples a whole batch compares decides its loss.
    free = RESUME_MAY_CHANGE - ({"micro_batch_size"} if task.WHOLE_BATCH else set())
    known: dict[str, Any] = {name: x for name, x in asdict(options).items() if name not in free}
    known |= {"task": task.training_identity, **task_identity(task), "data": train.fingerprint}
    known |= {"validation": None if validation is None else validation.fingerprint, **model}
    as_read: dict[str, Any] = json.loads(json.dumps(known, default=str))
    return as_read


def check_same_run(theirs: Mapping[str, Any], ours: Mapping[str, Any], folder: Path | None) -> None:
    """Compare the run of a checkpoint with this one.

    Raises: ConfigError: they differ, with the first five differences.
    """
    changed = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if changed:
        what = "; ".join(
            f"{name} was {safe_repr(theirs.get(name))}, is now {safe_repr(ours.get(name))}" for name in changed[:5]
        )
        raise ConfigError(f"{folder}: holds a run of another configuration: {what}; choose another folder")


# ------------------------------------------------------------------------------------------- the training state


@dataclass
class TrainingState:
    """The counters of a run.

    step: steps done
    epoch, position: of the next step
    tokens: seen, without padding
    seconds, cpu_seconds: spent in all sessions, with validation and saves; CPU time is that of this process
    skipped: steps skipped in a row
    rollbacks: to a checkpoint; each halves the learning rate
    micro_batch_halvings: after running out of memory
    log_sums: sums since the last step in the event log
    log_offsets: bytes of each process's event log
    best, best_step, best_metrics: the best value of the main metric, its step, and all metrics there; of equal values
        that with the lower loss
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
        better = math.isfinite(value) and (
            self.best is None or quality(metrics, metric) > quality(self.best_metrics, metric)
        )
        self.validations_without_improvement = 0 if better else self.validations_without_improvement + 1
        if better:
            self.best, self.best_step, self.best_metrics = value, self.step, metrics
        return better


def capture_state(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    state: TrainingState,
    distributed: Distributed,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that decides how a run continues, as tensors and values; a collective call of all processes."""
    tensors = {f"weights.{name}": distributed.full_tensor(x) for name, x in _named_tensors(network)}
    optimiser_state, optimiser_values = optimiser_tensors(optimizer, network.named_parameters())
    tensors |= {f"optimiser.{name}": distributed.full_tensor(x) for name, x in optimiser_state.items()}
    for key, x in capture_rng().items():
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
    state = TrainingState(**values["state"])
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
        restore_rng(own)
    else:
        seed_all(distributed.process_seed(seed, state.step))
    return state


def _named_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters()
    yield from network.named_buffers()


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), x) for name, x in tensors.items() if name.startswith(prefix))
