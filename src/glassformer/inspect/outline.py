"""Outline of a model, without its weights: of a checkpoint, of a config.json, or of a published model by its name.

outlined = outline("gpt3-175b")
summary(outlined.model.network).parameters      174_604_259_328; nothing was downloaded
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.compression.quantised_loading import SCHEMES, TABLES
from glassformer.compression.quantised_network import quantise_network
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import read_json_object
from glassformer.files.schema import given
from glassformer.inspect.summary import ModelSummary
from glassformer.load_options import dtype_of, level_bits, opened
from glassformer.loading import HeadLoading
from glassformer.models.presets import PRESETS
from glassformer.pretrained import ModelParts, new_parts, read_pretrained
from glassformer.text import Tokenizer
from glassformer.weights.load import stored_spelling

WEIGHT_FILES = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Outline:
    """A model on the meta device.

    source: of its sizes; None = a checkpoint
    """

    model: ModelParts
    source: str | None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of its folder, where that has one."""
        return self.model.tokenizer

    def checkpoint_names(self, *, allow_pickle: bool = False) -> Callable[[str], list[str]]:
        """A function from a parameter's name to its names in the checkpoint, or else in the reference library."""
        model = self.model
        table = model.family.names(model.spec, model.task)
        new, stored = set(model.report.new), frozenset[str]()
        prefixed = model.task != "feature-extraction" and table.prefixed
        if self.source is None and model.folder is not None:
            with opened(model.folder, allow_pickle=allow_pickle) as (_, open_weights), open_weights() as checkpoint:
                stored = frozenset(checkpoint.tensors)
            prefixed = table.has_prefix(stored)
        return lambda ours: (
            [] if ours in new else [stored_spelling(name, stored) for name in table.find(ours, prefixed=prefixed)[1]]
        )

    def facts(self, result: ModelSummary) -> dict[str, Any]:
        """What JSON of its summary says of the model, its checkpoint and its tokenizer."""
        model, report, tokenizer = self.model, self.model.report, self.tokenizer
        return {
            "model_type": model.family.model_type,
            "architecture": model.family.architecture(model.task),
            "task": model.task,
            "folder": None if model.folder is None else str(model.folder),
            "dtypes": list(result.dtypes),
            "weights": self.source is None,
            "sizes_from": self.source,
            "report": {name: getattr(report, name) for name in ("loaded", "new", "unused", "warnings")},
            "tokenizer": None if tokenizer is None else _tokenizer_facts(tokenizer),
        }


def outline(name: str, loading: HeadLoading | None = None) -> Outline:
    """A model on the meta device, which needs no memory: the first of these that there is.

        config.json, or a folder that holds no weights      a config alone
        a folder with weights                               a checkpoint, whose weights are not read
        the name of a published model                       the sizes that its authors have published
        a name on the Hub                                   a checkpoint

    Args:
        loading: as in `load`, but for the device
    Raises: DataError: no such model. Else as `load`.
    """
    loading = loading or HeadLoading()
    path = Path(name).expanduser()
    config = _config_alone(path)
    if config is not None:
        values = read_json_object(config, ConfigError)
        return Outline(_without_weights(values, config.parent, loading), "config.json alone")
    exists = path.exists()
    if not exists and loading.revision is None and name in PRESETS:  # a revision means a model on the Hub
        return Outline(_without_weights(PRESETS[name].config, None, loading), PRESETS[name].source)
    try:
        return Outline(read_pretrained(name, **{**given(loading), "device": "meta"}), None)
    except DataError as error:
        hint = "" if exists else nearest(name, PRESETS).replace("nearest", "sizes are known of")
        raise DataError(f"{error}{hint}") from error


def _config_alone(path: Path) -> Path | None:
    """The config.json of a folder without weights, or the file itself; None for a checkpoint."""
    if path.is_file() and path.suffix == ".json":
        return path
    if not (path / "config.json").is_file() or any(file.name.endswith(WEIGHT_FILES) for file in path.iterdir()):
        return None
    return path / "config.json"


def _without_weights(config: Mapping[str, Any], folder: Path | None, loading: HeadLoading) -> ModelParts:
    """A model from a config alone, on the meta device: shapes without weights."""
    tokenizer = None if folder is None else Tokenizer.find(folder)
    model = new_parts(config, task=loading.task, tokenizer=tokenizer, device="meta")
    model.folder = folder
    dtype = loading.dtype or config.get("dtype") or config.get("torch_dtype") or "float32"
    if (bits := level_bits(dtype)) is not None:
        quantise_network(model.network.float(), SCHEMES[bits], embeddings=TABLES)
    else:
        model.network.to(dtype_of(dtype))
    return model


def _tokenizer_facts(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "kind": type(tokenizer.engine.model).__name__,
        "tokens": len(tokenizer),
        "model_max_length": tokenizer.model_max_length,
        "padding_side": tokenizer.padding_side,
        "special_tokens": dict(tokenizer.special_tokens),
        "inputs": tokenizer.model_input_names,
    }
