"""Adapter files in the layout of the PEFT library: adapters without their base model, a few megabytes.

    adapter_config.json           rank, alpha, target modules, base model (`adapter_config.py`)
    adapter_model.safetensors     base_model.model.{their layer}.lora_A.weight     A [r, in]
                                  base_model.model.{their layer}.lora_B.weight     B [out, r]
                                  base_model.model.{their tensor}                  of a module that is trained in full

Layers have the names of the model's own checkpoint (`adapter_names.py`), so that either library reads what the other
has written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor

from glassformer.compression.adapter_config import CONFIG, TASK_TYPES, WITH_HEAD, AdapterConfig, base_name, common
from glassformer.compression.adapter_names import BaseConfig, CheckpointLayers, LayerAdapter
from glassformer.compression.adapters import DEFAULT, Adapters, AdapterSpec, active_within, adapt
from glassformer.compression.target_modules import INSIDE
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.files import as_path, check_link, parse_json_object, safe_repr
from glassformer.files.atomic import atomic_file, disk_errors, write_json
from glassformer.models import Network
from glassformer.weights.load import untie
from glassformer.weights.read import WeightFiles, open_file, open_pickle
from glassformer.weights.write import write_tensors

WEIGHTS, PICKLED = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
COLUMNS = "glassformer_columns"
"""In the metadata of a file: which columns of B are those of a target module; other libraries do not look there."""


def save_adapters(adapters: Adapters, network: Network, base: BaseConfig, folder: str | Path) -> None:
    """Save adapters, and the modules that were trained in full, to a folder of their own.

    Args:
        base: what the network was made from
    Raises: ConfigError: adapters of another network. WeightsError: the disk refuses.
    """
    if adapters.network is not network:
        raise ConfigError("these adapters belong to another model")
    folder, layers = as_path(folder, "folder"), CheckpointLayers(network, base)
    held: dict[str, LayerAdapter] = {}
    for layer in dict.fromkeys(layers.by_target[name].layer for name in adapters.by_target):
        members = {name: adapters.by_target[name] for name in layers.members(layer) if name in adapters.by_target}
        held[layer] = LayerAdapter.of_targets(members, layers)
    with active_within(network, [adapters.name]) if adapters.full_parameters else nullcontext():
        full = layers.tensors(adapters.full_parameters)
    tensors = {f"{PREFIX}{key}": tensor for key, tensor in full.items()}
    for layer, adapter in held.items():
        tensors[f"{PREFIX}{layer}.lora_A.weight"] = adapter.down
        tensors[f"{PREFIX}{layer}.lora_B.weight"] = adapter.up
    columns = {
        name: [part.start, part.stop]
        for layer, adapter in held.items()
        for name, part in adapter.columns.items()
        if len(layers.members(layer)) > 1
    }
    own = {COLUMNS: json.dumps(columns)} if columns else {}
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / WEIGHTS) as stream:
        write_tensors(stream, tensors, {"format": "pt", **own})
    ranks = {layer: adapter.down.shape[0] for layer, adapter in held.items()}
    (rank, rank_pattern), (name, revision) = common(ranks), base_name(base.folder)
    alpha, alpha_pattern = common({layer: adapter.scale * ranks[layer] for layer, adapter in held.items()})
    config = {
        "peft_type": "LORA",
        # For these tasks PEFT wants the head's weights in the file.
        "task_type": TASK_TYPES.get(base.task) if full or base.task not in WITH_HEAD else None,
        "base_model_name_or_path": name,
        "revision": revision,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": rank_pattern,
        "alpha_pattern": alpha_pattern,
        "lora_dropout": adapters.spec.dropout,
        "bias": "none",
        "target_modules": sorted(held),
        "modules_to_save": sorted({key.rpartition(".")[0] for key in full}) or None,
        "fan_in_fan_out": any(map(layers.is_transposed, adapters.by_target)),
        "inference_mode": True,
    }
    write_json(folder / CONFIG, config)


def load_adapters(
    network: Network, base: BaseConfig, folder: str | Path, name: str = DEFAULT, *, allow_pickle: bool = False
) -> Adapters:
    """Load the adapters of a folder into the network of their base model, for use, further training or merging.

    Those of PiSSA and OLoRA, which take a part out of the base weights at first, become plain ones of twice the rank:
    the base weights stay as they are.

    Args:
        base: what the network was made from
        name: of these adapters in the network; the first that it gets are active, others after `set_adapter`
        allow_pickle: also read `adapter_model.bin`, in a sandboxed child process
    Raises: WeightsError: a missing or damaged file, an unexpected tensor. UnsupportedError: another kind of adapter.
        ConfigError: the model has adapters of this name, or is prepared.
    Source: Meng et al. 2024, "PiSSA", section 3; Büyükakyüz 2024, "OLoRA", section 3; Kalajdzievski 2023, rsLoRA.
    """
    folder = as_path(folder, "folder")
    for file in (CONFIG, WEIGHTS, PICKLED):
        check_link(folder, folder / file)
    config, layers = AdapterConfig.read(folder), CheckpointLayers(network, base)
    with open_adapter_weights(folder, allow_pickle=allow_pickle) as checkpoint:
        stored = {key.removeprefix(PREFIX): checkpoint.read(key).clone() for key in checkpoint.tensors}
        columns = _columns(checkpoint, folder)
    held, full = _matched(stored, layers, config, columns)
    parts = {target: (adapter, part) for adapter in held.values() for target, part in adapter.columns.items()}
    ranks = {target: part.stop - part.start for target, (_, part) in parts.items()}
    rank, rank_pattern = common(ranks)
    alpha, alpha_pattern = common({target: adapter.scale * ranks[target] for target, (adapter, _) in parts.items()})
    spec = AdapterSpec(
        rank=rank,
        alpha=alpha,
        dropout=config.dropout,
        target_modules=tuple(parts),
        modules_to_save=tuple({key.rpartition(".")[0]: None for key in full}),
        rank_pattern=rank_pattern,
        alpha_pattern=alpha_pattern,
    )
    # What the files can do wrong has been checked: the model never keeps half of the adapters.
    distinct = dict(network.named_parameters())
    for key in full:
        if key not in distinct:  # a tied head that was trained in full is one of its own from here on, as in PEFT
            untie(network, key)
    adapters = adapt(network, spec, name)
    with torch.no_grad():
        for target, (adapter, part) in parts.items():
            adapters.by_target[target].down.weight.copy_(adapter.down[part])
            adapters.by_target[target].up.weight.copy_(adapter.up[layers.by_target[target].rows, part])
        for key, tensor in full.items():
            adapters.full_values()[key].copy_(tensor)
    return adapters


def open_adapter_weights(folder: Path, *, allow_pickle: bool = False) -> WeightFiles:
    """Open the tensors of a folder of adapters.

    Raises: WeightsError: they are missing, damaged, or pickled and not allowed.
    """
    if (folder / WEIGHTS).exists() or not (folder / PICKLED).exists():
        return open_file(folder / WEIGHTS)
    if not allow_pickle:
        raise WeightsError(
            f"{folder}: holds only pickled adapters ({PICKLED!r}), refused because a pickle can run any code; if you "
            "trust where they come from, pass allow_pickle=True (--allow-pickle); else look for a safetensors copy"
        )
    return open_pickle(folder / PICKLED)


def _matched(
    stored: Mapping[str, Tensor],
    layers: CheckpointLayers,
    config: AdapterConfig,
    columns: Mapping[str, slice],
) -> tuple[dict[str, LayerAdapter], dict[str, Tensor]]:
    """The adapter of each layer of the checkpoint, and the parameters that were trained in full.

    Raises: WeightsError: no adapter, or a tensor that fits nowhere in this model.
    """
    adapted = {place.layer: None for place in layers.by_target.values() if f"{place.layer}.lora_A.weight" in stored}
    if embedded := next((key for key in stored if ".lora_embedding_" in key), None):
        raise UnsupportedError(
            f"{config.path.parent}: adapts an embedding ({safe_repr(embedded)}), which is not supported; merge it in "
            "PEFT: model.merge_and_unload().save_pretrained(folder), and load that"
        )
    named = layers.network.named_parameters(remove_duplicate=False)  # a tied head has a name of its own in the file
    parameters = {name: p for name, p in named if not INSIDE.search(name)}
    keys = {name: layers.keys(name) for name in parameters}
    trained: dict[str, list[str]] = {}
    for name, of in keys.items():
        if all(key in stored for key in of) and of not in trained.values():
            trained[name] = of
    needed = {f"{layer}.lora_{side}.weight" for layer in adapted for side in "AB"}
    needed |= {key for of in trained.values() for key in of}
    folder, made_for = config.path.parent, "" if config.base is None else f" ({safe_repr(config.base)})"
    if unexpected := sorted(needed ^ set(stored)):
        shape = list(stored[unexpected[0]].shape) if unexpected[0] in stored else "missing"
        raise WeightsError(
            f"{folder}: {len(unexpected)} tensors fit nowhere in this {layers.model_type!r} model, "
            f"or lack their other half, the first of them {safe_repr(unexpected[0])} ({shape}); was it made for this "
            f"model and this task? Load the base model that its {CONFIG} names{made_for}"
        )
    if not adapted:
        raise WeightsError(f"{folder}: holds no adapter")
    full = {name: layers.read(name, [stored[key] for key in of]) for name, of in trained.items()}
    shapes = {keys[name][0]: (tensor.shape, parameters[name].shape) for name, tensor in full.items()}
    for layer in adapted:
        first, down, up = layers.members(layer)[0], f"{layer}.lora_A.weight", f"{layer}.lora_B.weight"
        rank, inputs, outputs = config.rank(layer), layers.weight(first).shape[1], layers.by_target[first].outputs
        shapes[down] = stored[down].shape, torch.Size((rank, inputs))
        shapes[up] = stored[up].shape, torch.Size((outputs, rank))
    if wrong := {key: both for key, both in shapes.items() if both[0] != both[1]}:
        listed = [f"{safe_repr(key)} is {list(a)}, needed {list(b)}" for key, (a, b) in wrong.items()]
        raise WeightsError(
            f"{folder}: {len(wrong)} tensors have other shapes than this {layers.model_type!r} model needs: "
            f"{'; '.join(listed[:3])}{'; …' * (len(wrong) > 3)}; load the base model that they belong to{made_for}"
        )
    held = {layer: _layer_adapter(layer, stored, layers, config, columns) for layer in adapted}
    return held, full


def _layer_adapter(
    layer: str,
    stored: Mapping[str, Tensor],
    layers: CheckpointLayers,
    config: AdapterConfig,
    columns: Mapping[str, slice],
) -> LayerAdapter:
    down, up = (stored[f"{layer}.lora_{side}.weight"] for side in "AB")
    members, scale = layers.members(layer), config.scale(layer)
    rank = down.shape[0]
    for name in columns.keys() & set(members):
        if columns[name].stop > rank:
            raise WeightsError(
                f"{config.path.parent / WEIGHTS}: {COLUMNS} gives {safe_repr(name)} the columns up to "
                f"{safe_repr(columns[name].stop)} of an adapter of rank {rank}; the file is damaged: save it again"
            )
    parts = {name: columns[name] for name in members if name in columns} or dict.fromkeys(members, slice(0, rank))
    adapter = LayerAdapter(down, up, scale, parts)
    start = INITIALISED.get(config.start)
    return adapter if start is None else adapter.minus(*start(layers.layer_weight(layer), rank, scale))


def _pissa(weight: Tensor, rank: int, scale: float) -> tuple[Tensor, Tensor]:
    """PiSSA's first A and B: scale · B A is the best approximation of the weight by a matrix of this rank."""
    left, values, right = torch.linalg.svd(weight, full_matrices=False)
    return right[:rank], left[:, :rank] * (values[:rank] / scale)


def _olora(weight: Tensor, rank: int, scale: float) -> tuple[Tensor, Tensor]:
    """OLoRA's first A and B: of the weight's QR decomposition."""
    q, r = torch.linalg.qr(weight)
    return r[:rank], q[:, :rank]


INITIALISED: dict[str, Callable[[Tensor, int, float], tuple[Tensor, Tensor]]] = {"pissa": _pissa, "olora": _olora}
"""Ways of PEFT to begin with a part of the base weight, which it takes out of it: what they begin with."""


def _columns(checkpoint: WeightFiles, folder: Path) -> dict[str, slice]:
    """Which columns belong to a target module, where the file says it."""
    if COLUMNS not in checkpoint.metadata:
        return {}
    where = f"{folder / WEIGHTS}: {COLUMNS}"
    columns = {}
    for name, ends in parse_json_object(checkpoint.metadata[COLUMNS].encode(), where).items():
        if not (isinstance(ends, list) and len(ends) == 2 and all(type(end) is int for end in ends)) or not (
            0 <= ends[0] < ends[1]
        ):
            raise WeightsError(f"{where} has {safe_repr(ends)} for {safe_repr(name)}; it must be [first, behind last]")
        columns[name] = slice(*ends)
    return columns
