"""Training state as tensors and values: random generators, optimizers, and files that hold both exactly, no pickle.

state.safetensors   weights.…      every parameter and buffer, whole, to the bit
                    optimiser.…    optimizer state of each parameter: blocks.0.attn.qkv.weight/exp_avg
                    random.{rank}.…   random generators of each process
state.json          step, position in the data, … {"betas": {"tuple": [0.9, 0.999]}, "worst": {"float": "inf"}}

Dropout draws from torch's own generator, whose state is saved. What is random about an example (masks, noise, spans)
depends on (seed, epoch, example) alone: in whatever order, by whichever process, the same.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import read_json_object, safe_repr
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
