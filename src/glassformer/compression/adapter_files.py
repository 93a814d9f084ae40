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
from glassformer.files import safe_repr
from glassformer.files.atomic import atomic_file, write_json
from glassformer.files.strict_json import read_json_object
from glassformer.models._network import Network
from glassformer.models.resolve import weight_names
from glassformer.weights.names import Fused, FusedNoKeyBias, Same, Slice, Transposed, WeightNames
from glassformer.weights.read import open_file
from glassformer.weights.write import write_tensors

if TYPE_CHECKING:
    from glassformer.model import Model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
UNSUPPORTED_KEYS = (
    "use_dora",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "megatron_config",
)
"""PEFT options that change the computation and are not supported."""


def save_adapters(adapters: Adapters, model: Model, folder: str | Path) -> None:
    """Save adapters, and the modules that were trained in full, to a folder of their own.

    Raises: ConfigError: adapters of another model. WeightsError: the disk refuses.
    """
    if adapters.network is not model.network:
        raise ConfigError("these adapters belong to another model")
    folder, names = Path(folder), _AdapterNames(model)
    layer_names = {name: names.layer(name) for name in adapters.by_target}
    peft_names = None not in layer_names.values() and all(
        map(names.is_whole_tensor, adapters.full_parameters)
    )
    tensors: dict[str, Tensor] = {}
    for name, adapter in adapters.by_target.items():
        layer = layer_names[name] if peft_names else name
        tensors[f"{PREFIX}{layer}.lora_A.weight"] = adapter.down.weight
        tensors[f"{PREFIX}{layer}.lora_B.weight"] = adapter.up.weight
    for name, parameter in adapters.full_parameters.items():
        exported = names.tensors(name, parameter.detach()) if peft_names else {name: parameter}
        tensors |= {f"{PREFIX}{key}": tensor for key, tensor in exported.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / WEIGHTS) as stream:
        write_tensors(stream, tensors, {"format": "pt"})
    spec = adapters.spec
    saved_modules = {key.removeprefix(PREFIX).rpartition(".")[0] for key in tensors if ".lora_" not in key}
    write_json(
        folder / CONFIG,
        {
            "peft_type": "LORA",
            "r": spec.rank,
            "lora_alpha": spec.alpha,
            "lora_dropout": spec.dropout,
            "bias": "none",
            "target_modules": sorted(str(layer_names[name] if peft_names else name) for name in layer_names),
            "modules_to_save": sorted(saved_modules) or None,
            "fan_in_fan_out": peft_names and any(map(names.is_transposed, adapters.by_target)),
            "inference_mode": True,
            **({} if peft_names else {"names": "glassformer"}),
        },
    )


def load_adapters(model: Model, folder: str | Path) -> Adapters:
    """Load the adapters of a folder into their base model, ready for use, further training or merging.

    Raises: WeightsError: a missing or damaged file, an unexpected tensor. UnsupportedError: another kind of adapter.
        ConfigError: the model has adapters, or is prepared.
    """
    folder = Path(folder)
    config = read_json_object(folder / CONFIG, ConfigError)
    _check_config(config, folder)
    check_not_adapted(model.network)
    network, names = model.network, _AdapterNames(model)
    with open_file(folder / WEIGHTS) as checkpoint:
        stored = {name.removeprefix(PREFIX): checkpoint.read(name).clone() for name in checkpoint.tensors}
    peft_names = config.get("names") != "glassformer"
    chosen = {
        name: layer
        for name in target_modules(network)
        if (layer := names.layer(name) if peft_names else name) and f"{layer}.lora_A.weight" in stored
    }
    needed = {f"{layer}.lora_{side}.weight" for layer in chosen.values() for side in "AB"}
    full: dict[str, list[str]] = {}
    for name, _ in network.named_parameters():
        keys = names.keys(name) if peft_names else [name]
        if all(key in stored for key in keys):
            full[name] = keys
    needed |= {key for keys in full.values() for key in keys}
    if unexpected := sorted(needed ^ set(stored)):
        raise WeightsError(
            f"{folder / WEIGHTS}: {len(unexpected)} tensors fit nowhere in this {model.family.model_type!r} model, "
            f"or lack their other half, the first of them {safe_repr(unexpected[0])}; was it made for this model "
            "and this task?"
        )
    if not chosen:
        raise WeightsError(f"{folder / WEIGHTS}: holds no adapter")
    parameters = dict(network.named_parameters())
    converted = {
        name: names.read(name, [stored[key] for key in keys]) if peft_names else stored[name]
        for name, keys in full.items()
    }
    for name, layer in chosen.items():
        down, up = names.shapes(name, config["r"])
        _check_shape(stored[f"{layer}.lora_A.weight"], down, f"{layer}.lora_A.weight", folder)
        _check_shape(stored[f"{layer}.lora_B.weight"], up, f"{layer}.lora_B.weight", folder)
    for name, tensor in converted.items():
        _check_shape(tensor, tuple(parameters[name].shape), full[name][0], folder)
    spec = AdapterSpec(
        rank=config["r"],
        alpha=float(config["lora_alpha"]),
        dropout=float(config.get("lora_dropout", 0.0)),
        target_modules=tuple(chosen),
        modules_to_save=tuple({name.rpartition(".")[0]: None for name in full}),
    )
    adapters = adapt(
        network, spec
    )  # all checks have passed: nothing below fails, so the model never keeps half
    with torch.no_grad():
        for name, layer in chosen.items():
            adapter = adapters.by_target[name]
            adapter.down.weight.copy_(stored[f"{layer}.lora_A.weight"])
            adapter.up.weight.copy_(stored[f"{layer}.lora_B.weight"])
        for name, tensor in converted.items():
            parameters[name].copy_(tensor)
    return adapters


def _check_shape(stored: Tensor, shape: tuple[int, ...], name: str, folder: Path) -> None:
    if tuple(stored.shape) != shape:
        raise WeightsError(
            f"{folder / WEIGHTS}: {safe_repr(name)} is {list(stored.shape)}; this model needs {list(shape)}"
        )


def _check_config(config: Mapping[str, Any], folder: Path) -> None:
    """Check that a config is of a plain LoRA adapter. Raises: UnsupportedError, ConfigError."""
    where = folder / CONFIG
    if config.get("peft_type") != "LORA":
        raise UnsupportedError(
            f"{where}: peft_type is {safe_repr(config.get('peft_type'))}; supported: 'LORA'"
        )
    for key in UNSUPPORTED_KEYS:
        if config.get(key):
            raise UnsupportedError(f"{where}: {key} = {safe_repr(config[key])} is not supported")
    if config.get("bias", "none") != "none":
        raise UnsupportedError(
            f"{where}: bias = {safe_repr(config['bias'])} is not supported; supported: 'none'"
        )
    for key in ("r", "lora_alpha", "lora_dropout"):
        value = config.get(key, 0.0 if key == "lora_dropout" else None)
        if isinstance(value, bool) or not isinstance(value, int if key == "r" else (int, float)):
            raise ConfigError(f"{where}: {key} is {safe_repr(value)}; it must be a number")


class _AdapterNames:
    """The checkpoint names of a model's target modules and parameters."""

    def __init__(self, model: Model) -> None:
        network: Network = model.network
        self.table: WeightNames = weight_names(
            model.family, model.spec, model.task, network, own_head=model.own_head
        )
        self.prefixed = self.table.prefixed and (model.task != "feature-extraction" or model.own_head)
        self.network = network
        self.targets: dict[str, TargetModule] = target_modules(network)

    def shapes(self, name: str, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of A and B at a target module."""
        target = self.targets[name]
        width = self.network.get_parameter(f"{target.layer}.weight").shape[1]
        return (rank, width), (target.rows.stop - target.rows.start, rank)

    def layer(self, name: str) -> str | None:
        """The checkpoint layer of a target module, or None where the checkpoint fuses it."""
        target = self.targets[name]
        rule, theirs = self.table.find(f"{target.layer}.weight", prefixed=self.prefixed)
        single = target.of == 1 and type(rule) in (Same, Transposed)
        fused = isinstance(rule, Fused) and not isinstance(rule, FusedNoKeyBias) and len(theirs) == target.of
        if not (single or fused):
            return None
        return theirs[target.number].removesuffix(".weight")

    def is_transposed(self, name: str) -> bool:
        """Whether the checkpoint stores the matrix transposed, with inputs as rows."""
        rule, _ = self.table.find(f"{self.targets[name].layer}.weight", prefixed=self.prefixed)
        return isinstance(rule, Transposed)

    def is_whole_tensor(self, parameter: str) -> bool:
        """Whether a parameter is a checkpoint tensor of its own, and not a slice of one."""
        return not isinstance(self.table.find(parameter, prefixed=self.prefixed)[0], Slice)

    def keys(self, parameter: str) -> list[str]:
        """The checkpoint names of a parameter."""
        return self.table.find(parameter, prefixed=self.prefixed)[1]

    def tensors(self, parameter: str, values: Tensor) -> dict[str, Tensor]:
        """Convert a parameter to checkpoint tensors."""
        rule, theirs = self.table.find(parameter, prefixed=self.prefixed)
        return dict(zip(theirs, rule.write(values), strict=True))

    def read(self, parameter: str, tensors: list[Tensor]) -> Tensor:
        """Convert checkpoint tensors to a parameter."""
        return self.table.find(parameter, prefixed=self.prefixed)[0].read(tensors)
