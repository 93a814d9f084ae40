"""The base model of a folder of adapters (PEFT): found by the name that their config records, or by the caller's.

adapters/adapter_config.json   base_model_name_or_path: "org/name", a folder, or one relative to the adapters'
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from glassformer.compression.adapter_config import CONFIG, AdapterConfig
from glassformer.compression.adapter_files import open_adapter_weights
from glassformer.errors import ConfigError, DataError, WeightsError
from glassformer.files import check_links, read_json_object, safe_repr
from glassformer.foreign import PICKLES
from glassformer.hub.find import is_adapter_folder
from glassformer.load_options import LoadOptions
from glassformer.models import LABEL_KEYS, LABEL_TASKS, find_family, resolve_task, text_part
from glassformer.models.model_config import ModelConfig

OUTPUTS = ("classifier.weight", "score.weight", "out_proj.weight")
"""What the names of the tensors end with that have a row for each label."""


def find_base_model(
    folder: Path,
    base: str | Path | None,
    task: str | None,
    options: LoadOptions,
    *,
    allow_pickle: bool,
) -> tuple[str | Path, str | None, LoadOptions]:
    """Find the base model of a folder of adapters, and what these say about its head.

    Args:
        base: a folder, or a name on the Hub, in place of the one that the adapters name
    Returns: the folder or foreign file of the base model, the task, and the options to load it with.
    Raises: DataError: there is none of this name. ConfigError: the adapters name no base model, or themselves.
    """
    if not is_adapter_folder(folder):
        raise ConfigError(
            f"base = {safe_repr(str(base))} is the base model of a folder of adapters, and {folder} holds no "
            f"{CONFIG} without weights of a model: leave it out, or call model.load_adapter(folder)"
        )
    options = replace(options, subfolder="")
    check_links(folder, ConfigError)
    config = AdapterConfig.read(folder)
    location = _base_location(folder, config, base, options, allow_pickle=allow_pickle)
    stored = os.path.join(location, "config.json")
    if os.path.isfile(stored):
        values = text_part(read_json_object(Path(stored), ConfigError))
        family = find_family(values, Path(location))
        task = task or (config.task if config.task in family.tasks else None)
        head = task and resolve_task(family, values, task)[0]
        count = next(_label_counts(folder, allow_pickle=allow_pickle), None) if head in LABEL_TASKS else None
        if LABEL_KEYS.isdisjoint(options.overrides) and count not in (None, ModelConfig(values).num_labels):
            labels = {"num_labels": count, "id2label": None, "label2id": None}
            options = replace(options, overrides={**options.overrides, **labels})
    return location, task, options


def _base_location(
    folder: Path, config: AdapterConfig, base: str | Path | None, options: LoadOptions, *, allow_pickle: bool
) -> str | Path:
    """Where the base model is: here, next to the adapters, or on the Hub."""
    name = base or config.base
    if not (name is None or isinstance(name, (str, Path))):
        raise DataError(f"base is {safe_repr(name)}; give the folder of a model, or its name on the Hub")
    if name is None:
        raise ConfigError(
            f"{config.path}: names no base model (base_model_name_or_path is null); give it: base='folder or name' "
            "(--base)"
        )
    local = folder / name
    try:
        if base is None and not os.path.isdir(name) and os.path.isdir(local):
            name = local
        revision = config.values.get("revision") if base is None and isinstance(name, str) else None
        location = options.locate(name, revision, allow_pickle=allow_pickle)
    except DataError as problem:
        raise DataError(
            f"{folder}: the base model of these adapters cannot be had: {problem}; where it is, or under another name, "
            "give it: base='folder or name' (--base)"
        ) from problem
    if base is None and not allow_pickle and Path(location).suffix in PICKLES and not os.path.isdir(location):
        raise WeightsError(
            f"{folder}: its base model {safe_repr(str(name))} is a pickle, refused because a pickle can run any code; "
            "if you trust its source, pass allow_pickle=True (--allow-pickle), or give it: base='file' (--base)"
        )
    if is_adapter_folder(location):
        raise ConfigError(
            f"{folder}: its base model {safe_repr(str(name))} is a folder of adapters too; merge those first: "
            "load(folder).merge_and_unload().save_pretrained(other), and give base=other"
        )
    return location


def _label_counts(folder: Path, *, allow_pickle: bool) -> Iterator[int]:
    """The number of labels of a head that was trained in full."""
    with open_adapter_weights(folder, allow_pickle=allow_pickle) as checkpoint:
        shapes = {name: info.shape for name, info in checkpoint.tensors.items()}
    yield from (shape[0] for name, shape in shapes.items() if name.endswith(OUTPUTS) and len(shape) == 2)
