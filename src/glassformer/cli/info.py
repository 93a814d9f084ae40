"""`glassformer info MODEL`: model summary: modules, parameters, FLOPs, memory, tensor names, taps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json, Options, Without, command, option
from glassformer.cli.screen import show, show_tables, terminal
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files.schema import given
from glassformer.loading import HeadLoading
from glassformer.progress import spinner

if TYPE_CHECKING:
    from glassformer.inspect import ModelSummary
    from glassformer.model import Model
    from glassformer.text import Tokenizer

WEIGHT_FILES = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(Options):
    """What a summary counts and lists."""

    tokens: int = option(128, "Sequence length in tokens, for FLOPs and memory.", min=1)
    memory: bool = option(False, "Estimate the memory of training and inference.")
    batch: int = option(1, "Batch size, for memory.", min=1)
    names: bool = option(False, "List the weight tensors, with our names and those in the checkpoint.")
    taps: bool = option(False, "List every tap, without folding repeated layers.")


@command
def info(
    model: Annotated[
        str,
        typer.Argument(
            help="Model folder, config.json, name of a published model (see `glassformer sizes`), "
            "or model name on the Hugging Face Hub; the first that exists."
        ),
    ],
    *,
    shown: SummaryOptions,
    loading: Annotated[HeadLoading, Without(["device"])],
    json: Json = False,
) -> None:
    """Model summary: modules, shapes, parameters, bytes, FLOPs per token, memory, tensor names and taps.

    No weights are read, so the model may be larger than the machine. A config.json alone is enough, and so is
    the name of a published model.
    """
    with spinner("loading the model"):
        from glassformer.inspect import ram as estimate_memory
        from glassformer.inspect import summary

        loaded, origin = _load(model, loading)
    theirs = _their_names(loaded, origin is None, loading.allow_pickle) if shown.names or json else None
    result = summary(loaded.network, tokens=shown.tokens, theirs=theirs)
    estimate = estimate_memory(loaded.network, batch=shown.batch, tokens=shown.tokens)
    if json:
        show(result, json, **_facts(loaded, result, origin), memory=estimate.to_dict())
        return
    from glassformer.cli import info_screen

    console = terminal()
    info_screen.show_head(console, loaded, _tokenizer_of(loaded), result, origin)
    info_screen.show_report(console, loaded.report)
    console.print()
    show_tables(result.tables(), result.remarks())
    console.print()
    if shown.memory:
        show(estimate)
        console.print()
    tensors = [result.tensor_table()] if shown.names else []
    show_tables([*tensors, result.tap_table(folded=not shown.taps)])


def _load(name: str, loading: HeadLoading) -> tuple[Model, str | None]:
    """Load the model on the meta device; with the source of its sizes, None for a checkpoint."""
    from glassformer.files import read_json_object
    from glassformer.model import load
    from glassformer.models.presets import PRESETS

    path = Path(name).expanduser()
    config = _config_alone(path)
    if config is not None:
        values = read_json_object(config, ConfigError)
        return _without_weights(values, config.parent, loading), "config.json alone"
    exists = path.exists()
    if not exists and loading.revision is None and name in PRESETS:  # a revision means a model on the Hub
        return _without_weights(PRESETS[name].config, None, loading), PRESETS[name].source
    try:
        loaded = load(name, **{**given(loading), "device": "meta"})
    except DataError as error:
        hint = "" if exists else nearest(name, PRESETS).replace("nearest", "sizes are known of")
        raise DataError(f"{error}{hint}") from error
    return loaded, None


def _config_alone(path: Path) -> Path | None:
    """The config.json of a folder without weights, or the file itself; None for a checkpoint."""
    if path.is_file() and path.suffix == ".json":
        return path
    if not (path / "config.json").is_file() or any(file.name.endswith(WEIGHT_FILES) for file in path.iterdir()):
        return None
    return path / "config.json"


def _without_weights(config: Mapping[str, Any], folder: Path | None, loading: HeadLoading) -> Model:
    """A model from a config alone, on the meta device: shapes without weights."""
    from glassformer.load_options import dtype_of
    from glassformer.model import Model
    from glassformer.text import Tokenizer

    tokenizer = None if folder is None else Tokenizer.find(folder)
    model = Model.from_config(config, task=loading.task, tokenizer=tokenizer, device="meta")
    model.folder = folder
    return model.to(dtype_of(loading.dtype or config.get("dtype") or config.get("torch_dtype") or "float32"))


def _their_names(model: Model, weights: bool, allow_pickle: bool) -> Callable[[str], list[str]]:
    """A function from a parameter's name to its names in the checkpoint, or else in the reference library."""
    from glassformer.load_options import opened
    from glassformer.weights.load import stored_spelling

    table = model.family.names(model.spec, model.task)
    new, stored = set(model.report.new), frozenset[str]()
    prefixed = model.task != "feature-extraction" and table.prefixed
    if weights and model.folder is not None:
        with opened(model.folder, allow_pickle=allow_pickle) as (_, open_weights), open_weights() as checkpoint:
            stored = frozenset(checkpoint.tensors)
        prefixed = table.has_prefix(stored)

    return lambda ours: (
        [] if ours in new else [stored_spelling(name, stored) for name in table.find(ours, prefixed=prefixed)[1]]
    )


def _facts(model: Model, result: ModelSummary, origin: str | None) -> dict[str, Any]:
    report = model.report
    return {
        "model_type": model.family.model_type,
        "architecture": model.family.architecture(model.task),
        "task": model.task,
        "folder": None if model.folder is None else str(model.folder),
        "dtypes": list(result.dtypes),
        "weights": origin is None,
        "sizes_from": origin,
        "report": {
            "loaded": report.loaded,
            "new": report.new,
            "unused": report.unused,
            "warnings": report.warnings,
        },
        "tokenizer": _tokenizer_data(_tokenizer_of(model)),
    }


def _tokenizer_of(model: Model) -> Tokenizer | None:
    try:
        return model.tokenizer
    except DataError:
        return None


def _tokenizer_data(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    if tokenizer is None:
        return None
    return {
        "kind": type(tokenizer.engine.model).__name__,
        "tokens": len(tokenizer),
        "model_max_length": tokenizer.model_max_length,
        "padding_side": tokenizer.padding_side,
        "special_tokens": dict(tokenizer.special_tokens),
        "inputs": tokenizer.model_input_names,
    }
