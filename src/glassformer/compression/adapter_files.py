"""Adapter files in the layout of the PEFT library: adapters without their base model, a few megabytes.

    adapter_config.json           rank, alpha, target modules
    adapter_model.safetensors     base_model.model.{their layer}.lora_A.weight     A [r, in]
                                  base_model.model.{their layer}.lora_B.weight     B [out, r]
                                  base_model.model.{their tensor}                  of a module that is trained in full

Layers have the names of the model's own checkpoint, where each target module is one of its layers. Where it is not
(GPT-2's files have q, k and v in one matrix), the names are ours, and the config says so: PEFT cannot read those.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.compression.adapters import (
    Adapters,
    AdapterSpec,
    TargetModule,
    adapt,
    check_not_adapted,
    target_modules,
)
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.files import read_json_object, safe_repr
from glassformer.files.atomic import atomic_file, write_json
from glassformer.models.resolve import weight_names
from glassformer.weights.names import Fused, FusedNoKeyBias, Rule, Same, Slice, Transposed, WeightNames
from glassformer.weights.read import open_file
from glassformer.weights.write import write_tensors

if TYPE_CHECKING:
    from glassformer.model import Model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
UNSUPPORTED_KEYS = tuple("use_dora use_rslora rank_pattern alpha_pattern layer_replication megatron_config".split())
"""PEFT options that change the computation and are not supported."""


def save_adapters(adapters: Adapters, model: Model, folder: str | Path) -> None:
    """Save adapters, and the modules that were trained in full, to a folder of their own.

    Raises: ConfigError: adapters of another model. WeightsError: the disk refuses.
    """
    if adapters.network is not model.network:
        raise ConfigError("these adapters belong to another model")
    folder, names = Path(folder), _AdapterNames(model)
    # one module that the checkpoint fuses with others, and PEFT could not read any of them: then all names are ours
    fused = any(names.layer(name) is None for name in adapters.by_target)
    names.ours = fused or any(map(names.is_slice, adapters.full_parameters))
    layers = {name: str(names.layer(name)) for name in adapters.by_target}
    tensors: dict[str, Tensor] = {}
    for name, adapter in adapters.by_target.items():
        tensors[f"{PREFIX}{layers[name]}.lora_A.weight"] = adapter.down.weight
        tensors[f"{PREFIX}{layers[name]}.lora_B.weight"] = adapter.up.weight
    for name, parameter in adapters.full_parameters.items():
        exported = names.tensors(name, parameter.detach())
        tensors |= {f"{PREFIX}{key}": tensor for key, tensor in exported.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / WEIGHTS) as stream:
        write_tensors(stream, tensors, {"format": "pt"})
    spec = adapters.spec
    saved_modules = {key.removeprefix(PREFIX).rpartition(".")[0] for key in tensors if ".lora_" not in key}
    config = {
        "peft_type": "LORA",
        "r": spec.rank,
        "lora_alpha": spec.alpha,
        "lora_dropout": spec.dropout,
        "bias": "none",
        "target_modules": sorted(layers.values()),
        "modules_to_save": sorted(saved_modules) or None,
        "fan_in_fan_out": not names.ours and any(map(names.is_transposed, adapters.by_target)),
        "inference_mode": True,
        **({"names": "glassformer"} if names.ours else {}),
    }
    write_json(folder / CONFIG, config)


def load_adapters(model: Model, folder: str | Path) -> Adapters:
    """Load the adapters of a folder into their base model, ready for use, further training or merging.

    Raises: WeightsError: a missing or damaged file, an unexpected tensor. UnsupportedError: another kind of adapter.
        ConfigError: the model has adapters, or is prepared.
    """
    folder, network = Path(folder), model.network
    config = read_json_object(folder / CONFIG, ConfigError)
    _check_config(config, folder)
    check_not_adapted(network)
    names = _AdapterNames(model, ours=config.get("names") == "glassformer")
    with open_file(folder / WEIGHTS) as checkpoint:
        stored = {name.removeprefix(PREFIX): checkpoint.read(name).clone() for name in checkpoint.tensors}
    low_rank, full = _matched(stored, names, folder)
    parameters = dict(network.named_parameters())
    for name, (down, up) in low_rank.items():
        for matrix, shape, side in zip((down, up), names.shapes(name, config["r"]), "AB", strict=True):
            _check_shape(matrix, shape, f"{names.layer(name)}.lora_{side}.weight", folder)
    for name, tensor in full.items():
        _check_shape(tensor, tuple(parameters[name].shape), names.keys(name)[0], folder)
    spec = AdapterSpec(
        rank=config["r"],
        alpha=float(config["lora_alpha"]),
        dropout=float(config.get("lora_dropout", 0.0)),
        target_modules=tuple(low_rank),
        modules_to_save=tuple({name.rpartition(".")[0]: None for name in full}),
    )
    # All checks have passed: nothing below fails, so the model never keeps half of the adapters.
    adapters = adapt(network, spec)
    with torch.no_grad():
        for name, (down, up) in low_rank.items():
            adapters.by_target[name].down.weight.copy_(down)
            adapters.by_target[name].up.weight.copy_(up)
        for name, tensor in full.items():
            parameters[name].copy_(tensor)
    return adapters


def _matched(
    stored: Mapping[str, Tensor], names: _AdapterNames, folder: Path
) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
    """A and B of each target module, and the parameters that were trained in full.

    Raises: WeightsError: no adapter, or a tensor that fits nowhere in this model.
    """
    candidates = ((name, names.layer(name)) for name in names.targets)
    layers = {name: layer for name, layer in candidates if layer and f"{layer}.lora_A.weight" in stored}
    keys = {name: names.keys(name) for name, _ in names.network.named_parameters()}
    full = {name: of for name, of in keys.items() if all(key in stored for key in of)}
    needed = {f"{layer}.lora_{side}.weight" for layer in layers.values() for side in "AB"}
    needed |= {key for of in full.values() for key in of}
    if unexpected := sorted(needed ^ set(stored)):
        raise WeightsError(
            f"{folder / WEIGHTS}: {len(unexpected)} tensors fit nowhere in this {names.model_type!r} model, "
            f"or lack their other half, the first of them {safe_repr(unexpected[0])}; was it made for this model "
            "and this task?"
        )
    if not layers:
        raise WeightsError(f"{folder / WEIGHTS}: holds no adapter")
    low_rank = {
        name: (stored[f"{layer}.lora_A.weight"], stored[f"{layer}.lora_B.weight"]) for name, layer in layers.items()
    }
    return low_rank, {name: names.read(name, [stored[key] for key in of]) for name, of in full.items()}


def _check_shape(stored: Tensor, shape: tuple[int, ...], name: str, folder: Path) -> None:
    if tuple(stored.shape) != shape:
        raise WeightsError(
            f"{folder / WEIGHTS}: {safe_repr(name)} is {list(stored.shape)}; this model needs {list(shape)}"
        )


def _check_config(config: Mapping[str, Any], folder: Path) -> None:
    """Check that a config is of a plain LoRA adapter. Raises: UnsupportedError, ConfigError."""
    where = folder / CONFIG
    if config.get("peft_type") != "LORA":
        raise UnsupportedError(f"{where}: peft_type is {safe_repr(config.get('peft_type'))}; supported: 'LORA'")
    for key in UNSUPPORTED_KEYS:
        if config.get(key):
            raise UnsupportedError(f"{where}: {key} = {safe_repr(config[key])} is not supported")
    if config.get("bias", "none") != "none":
        raise UnsupportedError(f"{where}: bias = {safe_repr(config['bias'])} is not supported; supported: 'none'")
    for key in ("r", "lora_alpha", "lora_dropout"):
        value = config.get(key, 0.0 if key == "lora_dropout" else None)
        if isinstance(value, bool) or not isinstance(value, int if key == "r" else (int, float)):
            raise ConfigError(f"{where}: {key} is {safe_repr(value)}; it must be a number")


class _AdapterNames:
    """The names that a file has for a model's target modules and parameters; `ours`: our own, else its checkpoint's."""

    def __init__(self, model: Model, ours: bool = False) -> None:
        self.network, self.ours, self.model_type = model.network, ours, model.family.model_type
        self.table: WeightNames = weight_names(
            model.family, model.spec, model.task, model.network, own_head=model.own_head
        )
        self.prefixed = self.table.prefixed and (model.task != "feature-extraction" or model.own_head)
        self.targets: dict[str, TargetModule] = target_modules(model.network)

    def shapes(self, name: str, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of A and B at a target module."""
        target = self.targets[name]
        width = self.network.get_parameter(f"{target.layer}.weight").shape[1]
        return (rank, width), (target.rows.stop - target.rows.start, rank)

    def layer(self, name: str) -> str | None:
        """The layer of a target module, or None where the checkpoint fuses it."""
        if self.ours:
            return name
        target = self.targets[name]
        rule, theirs = self._find(f"{target.layer}.weight")
        single = target.of == 1 and type(rule) in (Same, Transposed)
        fused = isinstance(rule, Fused) and not isinstance(rule, FusedNoKeyBias) and len(theirs) == target.of
        return theirs[target.number].removesuffix(".weight") if single or fused else None

    def is_transposed(self, name: str) -> bool:
        """Whether the checkpoint stores the matrix transposed, with inputs as rows."""
        return isinstance(self._find(f"{self.targets[name].layer}.weight")[0], Transposed)

    def is_slice(self, parameter: str) -> bool:
        """Whether a parameter is a part of a checkpoint tensor."""
        return isinstance(self._find(parameter)[0], Slice)

    def keys(self, parameter: str) -> list[str]:
        """The names of the tensors that hold a parameter."""
        return [parameter] if self.ours else self._find(parameter)[1]

    def tensors(self, parameter: str, values: Tensor) -> dict[str, Tensor]:
        """Convert a parameter to the tensors of the file."""
        if self.ours:
            return {parameter: values}
        rule, theirs = self._find(parameter)
        return dict(zip(theirs, rule.write(values), strict=True))

    def read(self, parameter: str, tensors: list[Tensor]) -> Tensor:
        """Convert tensors of the file to a parameter."""
        return tensors[0] if self.ours else self._find(parameter)[0].read(tensors)

    def _find(self, parameter: str) -> tuple[Rule, list[str]]:
        return self.table.find(parameter, prefixed=self.prefixed)
