"""Adapter files in the layout of the PEFT library: adapters without their base model, a few megabytes.

    adapter_config.json           rank, alpha, target modules
    adapter_model.safetensors     base_model.model.{their layer}.lora_A.weight     A [r, in]
                                  base_model.model.{their layer}.lora_B.weight     B [out, r]
                                  base_model.model.{their tensor}                  of a module that is trained in full

Layers have the names of the model's own checkpoint (`adapter_names.py`), so that either library reads what the other
has written.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.compression.adapter_names import CheckpointLayers, LayerAdapter
from glassformer.compression.adapters import Adapters, AdapterSpec, adapt, check_not_adapted
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.files import parse_json_object, read_json_object, safe_repr
from glassformer.files.atomic import atomic_file, write_json
from glassformer.models.resolve import LABEL_TASKS
from glassformer.weights.read import WeightFiles, open_file
from glassformer.weights.write import write_tensors

if TYPE_CHECKING:
    from glassformer.model import Model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
COLUMNS = "glassformer_columns"
"""In the metadata of a file: which columns of B are those of a target module; other libraries do not look there."""

READ = frozenset("peft_type r lora_alpha lora_dropout bias use_rslora rank_pattern alpha_pattern".split())
UNUSED = frozenset(
    # What was trained is known by the tensors; the others say how it came about.
    "task_type auto_mapping peft_version base_model_name_or_path revision inference_mode target_modules "
    "modules_to_save exclude_modules layers_to_transform layers_pattern fan_in_fan_out ephemeral_gpu_offload "
    "runtime_config loftq_config eva_config corda_config lora_ga_config qalora_group_size ensure_weight_tying "
    "megatron_core init_lora_weights".split()
)
UNCHANGED = (True, False, None, "gaussian", "orthogonal", "eva", "mica")
"""Initial values of `init_lora_weights` under which the base model stays as it is."""

TASK_TYPES = {
    "text-generation": "CAUSAL_LM",
    "translation": "SEQ_2_SEQ_LM",
    "text-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "feature-extraction": "FEATURE_EXTRACTION",
}
WITH_HEAD = (*LABEL_TASKS, "question-answering")


def save_adapters(adapters: Adapters, model: Model, folder: str | Path) -> None:
    """Save adapters, and the modules that were trained in full, to a folder of their own.

    Raises: ConfigError: adapters of another model. WeightsError: the disk refuses.
    """
    if adapters.network is not model.network:
        raise ConfigError("these adapters belong to another model")
    folder, layers = Path(folder), CheckpointLayers(model)
    held: dict[str, LayerAdapter] = {}
    for layer in dict.fromkeys(layers.by_target[name].layer for name in adapters.by_target):
        members = {name: adapters.by_target[name] for name in layers.members(layer) if name in adapters.by_target}
        held[layer] = LayerAdapter.of_targets(members, layers)
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
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / WEIGHTS) as stream:
        own = {COLUMNS: json.dumps(columns)} if columns else {}
        write_tensors(stream, tensors, {"format": "pt", **own})
    ranks = {layer: adapter.down.shape[0] for layer, adapter in held.items()}
    alphas = {layer: adapter.scale * ranks[layer] for layer, adapter in held.items()}
    rank, alpha = (Counter(values.values()).most_common(1)[0][0] for values in (ranks, alphas))
    transposed = any(map(layers.is_transposed, adapters.by_target))
    config = {
        "peft_type": "LORA",
        # For these tasks PEFT wants the head's weights in the file.
        "task_type": TASK_TYPES.get(model.task) if full or model.task not in WITH_HEAD else None,
        "base_model_name_or_path": None if model.folder is None else str(model.folder),
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": {layer: r for layer, r in ranks.items() if r != rank},
        "alpha_pattern": {layer: a for layer, a in alphas.items() if a != alpha},
        "lora_dropout": adapters.spec.dropout,
        "bias": "none",
        "target_modules": sorted(held),
        "modules_to_save": sorted({key.rpartition(".")[0] for key in full}) or None,
        "fan_in_fan_out": transposed,
        "inference_mode": True,
    }
    write_json(folder / CONFIG, config)


def load_adapters(model: Model, folder: str | Path) -> Adapters:
    """Load the adapters of a folder into their base model, ready for use, further training or merging.

    Those of PiSSA and OLoRA, which take a part out of the base weights at first, become plain ones of twice the rank:
    the base weights stay as they are.

    Raises: WeightsError: a missing or damaged file, an unexpected tensor. UnsupportedError: another kind of adapter.
        ConfigError: the model has adapters, or is prepared.
    Source: Meng et al. 2024, "PiSSA", section 3; Büyükakyüz 2024, "OLoRA", section 3; Kalajdzievski 2023, rsLoRA.
    """
    folder, network = Path(folder), model.network
    config = read_json_object(folder / CONFIG, ConfigError)
    _check_config(config, folder)
    check_not_adapted(network)
    layers = CheckpointLayers(model)
    with open_file(folder / WEIGHTS) as checkpoint:
        stored = {name.removeprefix(PREFIX): checkpoint.read(name).clone() for name in checkpoint.tensors}
        columns = _columns(checkpoint, folder)
    held, full = _matched(stored, layers, config, columns, folder)
    parts = {name: (adapter, part) for adapter in held.values() for name, part in adapter.columns.items()}
    ranks = {name: part.stop - part.start for name, (_, part) in parts.items()}
    alphas = {name: adapter.scale * ranks[name] for name, (adapter, _) in parts.items()}
    rank, alpha = (Counter(values.values()).most_common(1)[0][0] for values in (ranks, alphas))
    spec = AdapterSpec(
        rank=rank,
        alpha=alpha,
        dropout=float(config.get("lora_dropout", 0.0)),
        target_modules=tuple(parts),
        modules_to_save=tuple({name.rpartition(".")[0]: None for name in full}),
        rank_pattern={name: r for name, r in ranks.items() if r != rank},
        alpha_pattern={name: a for name, a in alphas.items() if a != alpha},
    )
    # All checks have passed: nothing below fails, so the model never keeps half of the adapters.
    adapters = adapt(network, spec)
    parameters = dict(network.named_parameters())
    with torch.no_grad():
        for name, (adapter, part) in parts.items():
            adapters.by_target[name].down.weight.copy_(adapter.down[part])
            adapters.by_target[name].up.weight.copy_(adapter.up[layers.by_target[name].rows, part])
        for name, tensor in full.items():
            parameters[name].copy_(tensor)
    return adapters


def _matched(
    stored: Mapping[str, Tensor],
    layers: CheckpointLayers,
    config: Mapping[str, Any],
    columns: Mapping[str, slice],
    folder: Path,
) -> tuple[dict[str, LayerAdapter], dict[str, Tensor]]:
    """The adapter of each layer of the checkpoint, and the parameters that were trained in full.

    Raises: WeightsError: no adapter, or a tensor that fits nowhere in this model.
    """
    adapted = {place.layer: None for place in layers.by_target.values() if f"{place.layer}.lora_A.weight" in stored}
    parameters = dict(layers.network.named_parameters())
    keys = {name: layers.keys(name) for name in parameters}
    trained = {name: of for name, of in keys.items() if all(key in stored for key in of)}
    needed = {f"{layer}.lora_{side}.weight" for layer in adapted for side in "AB"}
    needed |= {key for of in trained.values() for key in of}
    if unexpected := sorted(needed ^ set(stored)):
        raise WeightsError(
            f"{folder / WEIGHTS}: {len(unexpected)} tensors fit nowhere in this {layers.model_type!r} model, "
            f"or lack their other half, the first of them {safe_repr(unexpected[0])}; was it made for this model "
            "and this task?"
        )
    if not adapted:
        raise WeightsError(f"{folder / WEIGHTS}: holds no adapter")
    held = {layer: _layer_adapter(layer, stored, layers, config, columns, folder) for layer in adapted}
    full = {name: layers.read(name, [stored[key] for key in of]) for name, of in trained.items()}
    for name, tensor in full.items():
        _check_shape(tensor, tuple(parameters[name].shape), keys[name][0], folder)
    return held, full


def _layer_adapter(
    layer: str,
    stored: Mapping[str, Tensor],
    layers: CheckpointLayers,
    config: Mapping[str, Any],
    columns: Mapping[str, slice],
    folder: Path,
) -> LayerAdapter:
    down, up = (stored[f"{layer}.lora_{side}.weight"] for side in "AB")
    rank = _of_layer(config.get("rank_pattern"), layer, config["r"])
    alpha = _of_layer(config.get("alpha_pattern"), layer, config["lora_alpha"])
    members = layers.members(layer)
    _check_shape(down, (rank, layers.weight(members[0]).shape[1]), f"{layer}.lora_A.weight", folder)
    _check_shape(up, (layers.by_target[members[0]].outputs, rank), f"{layer}.lora_B.weight", folder)
    scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
    parts = {name: columns[name] for name in members if name in columns} or dict.fromkeys(members, slice(0, rank))
    adapter = LayerAdapter(down, up, scale, parts)
    start = INITIALISED.get(str(config.get("init_lora_weights")).lower())
    return adapter if start is None else adapter.minus(*start(layers.layer_weight(layer), rank, scale))


def _of_layer(patterns: Mapping[str, Any] | None, layer: str, default: Any) -> Any:
    """The value of the first pattern that a layer's name ends with: a name of PEFT's patterns may be its end."""
    ends = (value for name, value in (patterns or {}).items() if f".{layer}".endswith(f".{name}"))
    return next(ends, default)


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
    parsed = parse_json_object(checkpoint.metadata[COLUMNS].encode(), f"{folder / WEIGHTS}: {COLUMNS}")
    return {name: slice(start, stop) for name, (start, stop) in parsed.items()}


def _check_shape(stored: Tensor, shape: tuple[int, ...], name: str, folder: Path) -> None:
    if tuple(stored.shape) != shape:
        raise WeightsError(
            f"{folder / WEIGHTS}: {safe_repr(name)} is {list(stored.shape)}; this model needs {list(shape)}"
        )


def _check_config(config: Mapping[str, Any], folder: Path) -> None:
    """Check that a config is of LoRA as it is computed here. Raises: UnsupportedError, ConfigError."""
    where = folder / CONFIG
    if config.get("peft_type") != "LORA":
        raise UnsupportedError(f"{where}: peft_type is {safe_repr(config.get('peft_type'))}; supported: 'LORA'")
    for key, value in config.items():
        if value and key not in READ | UNUSED:
            raise UnsupportedError(f"{where}: {key} = {safe_repr(value)} is not supported")
    start = config.get("init_lora_weights")
    if start not in UNCHANGED and str(start).lower() not in INITIALISED:
        raise UnsupportedError(
            f"{where}: init_lora_weights = {safe_repr(start)} changes the base model in a way that the file does not "
            f"tell; supported: {', '.join(INITIALISED)}; or save it in PEFT with "
            "path_initial_model_for_weight_conversion"
        )
    if config.get("bias", "none") != "none":
        raise UnsupportedError(f"{where}: bias = {safe_repr(config['bias'])} is not supported; supported: 'none'")
    numbers = {
        key: config.get(key, 0.0 if key == "lora_dropout" else None) for key in ("r", "lora_alpha", "lora_dropout")
    }
    for pattern, kind in (("rank_pattern", "r"), ("alpha_pattern", "lora_alpha")):
        given = config.get(pattern) or {}
        if not isinstance(given, dict):
            raise ConfigError(f"{where}: {pattern} is {safe_repr(given)}; it must map names of layers to numbers")
        if regex := next((name for name in given if not re.fullmatch(r"[\w.-]+", name)), None):
            raise UnsupportedError(
                f"{where}: {pattern} has the regular expression {safe_repr(regex)}; supported: names of layers, or "
                "their ends"
            )
        numbers |= {f"{kind} of {name}": value for name, value in given.items()}
    for key, value in numbers.items():
        whole = key.partition(" ")[0] == "r"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or value < whole:
            raise ConfigError(f"{where}: {key} is {safe_repr(value)}; it must be a number{' from 1 up' * whole}")
