"""Adapters as files, without the model that they stand on: a few megabytes, laid out as the field's PEFT library does.

    adapter_config.json           rank, alpha, which layers
    adapter_model.safetensors     base_model.model.{their layer}.lora_A.weight     A [r, in]
                                  base_model.model.{their layer}.lora_B.weight     B [out, r]
                                  base_model.model.{their tensor}                  of a module that is trained whole

Layers go by the names of the model's own checkpoint, where each place is one of its layers. Where it is not (GPT-2's
files have q, k and v in one matrix), the names are ours, and the config says so: PEFT cannot read those.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.compression.adapters import Adapters, AdapterSpec, Place, adapt, not_adapted, places
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.files import shown
from glassformer.files.strict_json import read_object
from glassformer.models._family import Network
from glassformer.models.choice import names_of
from glassformer.weights.names import Fused, Gapped, Names, Part, Same, Transposed
from glassformer.weights.read import open_file
from glassformer.weights.write import atomic_file, write_json, write_tensors

if TYPE_CHECKING:
    from glassformer.model import Model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
ELSEWHERE = (
    "use_dora",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "megatron_config",
)
"""Keys of a config that change what adapters compute, in a way that is not supported."""


def save_adapters(adapters: Adapters, model: Model, folder: str | Path) -> None:
    """Write the adapters, and the modules that were trained whole, to a folder of their own.

    Raises: ConfigError: the adapters stand on another model. WeightsError: the disk refuses.
    """
    if adapters.network is not model.network:
        raise ConfigError("these adapters stand on another model")
    folder, names = Path(folder), _Names(model)
    spelled = {name: names.layer(name) for name in adapters.by_place}
    theirs = None not in spelled.values() and all(map(names.is_one_of_theirs, adapters.whole))
    tensors: dict[str, Tensor] = {}
    for place, adapter in adapters.by_place.items():
        layer = spelled[place] if theirs else place
        tensors[f"{PREFIX}{layer}.lora_A.weight"] = adapter.down.weight
        tensors[f"{PREFIX}{layer}.lora_B.weight"] = adapter.up.weight
    for name, parameter in adapters.whole.items():
        found = names.tensors(name, parameter.detach()) if theirs else {name: parameter}
        tensors |= {f"{PREFIX}{key}": tensor for key, tensor in found.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / WEIGHTS) as stream:
        write_tensors(stream, tensors, {"format": "pt"})
    spec = adapters.spec
    saved_whole = {key.removeprefix(PREFIX).rpartition(".")[0] for key in tensors if ".lora_" not in key}
    write_json(
        folder / CONFIG,
        {
            "peft_type": "LORA",
            "r": spec.rank,
            "lora_alpha": spec.alpha,
            "lora_dropout": spec.dropout,
            "bias": "none",
            "target_modules": sorted(str(spelled[name] if theirs else name) for name in spelled),
            "modules_to_save": sorted(saved_whole) or None,
            "fan_in_fan_out": theirs and any(map(names.is_transposed, adapters.by_place)),
            "inference_mode": True,
            **({} if theirs else {"names": "glassformer"}),
        },
    )


def load_adapters(model: Model, folder: str | Path) -> Adapters:
    """Put the adapters of a folder on the model that they were made for, ready to be used, trained on or merged.

    Raises: WeightsError: a file that is missing or damaged, a tensor that fits nowhere. UnsupportedError: another kind
        of adapter. ConfigError: the model has adapters, or is prepared.
    """
    folder = Path(folder)
    config = read_object(folder / CONFIG, ConfigError)
    _check(config, folder)
    not_adapted(model.network)
    network, names = model.network, _Names(model)
    with open_file(folder / WEIGHTS) as checkpoint:
        stored = {name.removeprefix(PREFIX): checkpoint.read(name).clone() for name in checkpoint.tensors}
    theirs = config.get("names") != "glassformer"
    chosen = {
        name: layer
        for name in places(network)
        if (layer := names.layer(name) if theirs else name) and f"{layer}.lora_A.weight" in stored
    }
    needed = {f"{layer}.lora_{side}.weight" for layer in chosen.values() for side in "AB"}
    whole: dict[str, list[str]] = {}
    for name, _ in network.named_parameters():
        keys = names.keys(name) if theirs else [name]
        if all(key in stored for key in keys):
            whole[name] = keys
    needed |= {key for keys in whole.values() for key in keys}
    if odd := sorted(needed ^ set(stored)):
        raise WeightsError(
            f"{folder / WEIGHTS}: {len(odd)} tensors fit nowhere in this {model.family.model_type!r} model, or lack "
            f"their other half, the first of them {shown(odd[0])}; was it made for this model and this task?"
        )
    if not chosen:
        raise WeightsError(f"{folder / WEIGHTS}: holds no adapter")
    parameters = dict(network.named_parameters())
    moved = {
        name: names.read(name, [stored[key] for key in keys]) if theirs else stored[name]
        for name, keys in whole.items()
    }
    for place, layer in chosen.items():
        down, up = names.shapes(place, config["r"])
        _expect(stored[f"{layer}.lora_A.weight"], down, f"{layer}.lora_A.weight", folder)
        _expect(stored[f"{layer}.lora_B.weight"], up, f"{layer}.lora_B.weight", folder)
    for name, tensor in moved.items():
        _expect(tensor, tuple(parameters[name].shape), whole[name][0], folder)
    spec = AdapterSpec(
        rank=config["r"],
        alpha=float(config["lora_alpha"]),
        dropout=float(config.get("lora_dropout", 0.0)),
        places=tuple(chosen),
        whole=tuple({name.rpartition(".")[0]: None for name in whole}),
    )
    adapters = adapt(network, spec)  # from here on nothing can fail
    with torch.no_grad():
        for place, layer in chosen.items():
            adapter = adapters.by_place[place]
            adapter.down.weight.copy_(stored[f"{layer}.lora_A.weight"])
            adapter.up.weight.copy_(stored[f"{layer}.lora_B.weight"])
        for name, tensor in moved.items():
            parameters[name].copy_(tensor)
    return adapters


def _expect(stored: Tensor, shape: tuple[int, ...], name: str, folder: Path) -> None:
    if tuple(stored.shape) != shape:
        raise WeightsError(
            f"{folder / WEIGHTS}: {shown(name)} is {list(stored.shape)}; this model needs {list(shape)}"
        )


def _check(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse what is no plain low-rank adapter."""
    where = folder / CONFIG
    if config.get("peft_type") != "LORA":
        raise UnsupportedError(f"{where}: peft_type is {shown(config.get('peft_type'))}; supported: 'LORA'")
    for key in ELSEWHERE:
        if config.get(key):
            raise UnsupportedError(f"{where}: {key} = {shown(config[key])} is not supported")
    if config.get("bias", "none") != "none":
        raise UnsupportedError(f"{where}: bias = {shown(config['bias'])} is not supported; supported: 'none'")
    for key in ("r", "lora_alpha", "lora_dropout"):
        value = config.get(key, 0.0 if key == "lora_dropout" else None)
        if isinstance(value, bool) or not isinstance(value, int if key == "r" else (int, float)):
            raise ConfigError(f"{where}: {key} is {shown(value)}; it must be a number")


class _Names:
    """What a model's checkpoint calls the places and parameters of its network."""

    def __init__(self, model: Model) -> None:
        network: Network = model.network
        self.table: Names = names_of(model.family, model.spec, model.task, network, own_head=model.own_head)
        self.prefixed = self.table.prefixed and (model.task != "feature-extraction" or model.own_head)
        self.network = network
        self.places: dict[str, Place] = places(network)

    def shapes(self, name: str, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of A and B at a place."""
        place = self.places[name]
        width = self.network.get_parameter(f"{place.layer}.weight").shape[1]
        return (rank, width), (place.rows.stop - place.rows.start, rank)

    def layer(self, name: str) -> str | None:
        """The layer of theirs that is this place, if there is one."""
        place = self.places[name]
        rule, theirs = self.table.find(f"{place.layer}.weight", prefixed=self.prefixed)
        whole = place.of == 1 and type(rule) in (Same, Transposed)
        part = isinstance(rule, Fused) and not isinstance(rule, Gapped) and len(theirs) == place.of
        if not (whole or part):
            return None
        return theirs[place.number].removesuffix(".weight")

    def is_transposed(self, name: str) -> bool:
        """Does their matrix have inputs as rows?"""
        rule, _ = self.table.find(f"{self.places[name].layer}.weight", prefixed=self.prefixed)
        return isinstance(rule, Transposed)

    def is_one_of_theirs(self, parameter: str) -> bool:
        """Can a parameter be written by itself?"""
        return not isinstance(self.table.find(parameter, prefixed=self.prefixed)[0], Part)

    def keys(self, parameter: str) -> list[str]:
        """What their tensors of a parameter are called."""
        return self.table.find(parameter, prefixed=self.prefixed)[1]

    def tensors(self, parameter: str, values: Tensor) -> dict[str, Tensor]:
        """A parameter as their tensors."""
        rule, theirs = self.table.find(parameter, prefixed=self.prefixed)
        return dict(zip(theirs, rule.write(values), strict=True))

    def read(self, parameter: str, tensors: list[Tensor]) -> Tensor:
        """Their tensors as a parameter."""
        return self.table.find(parameter, prefixed=self.prefixed)[0].read(tensors)
