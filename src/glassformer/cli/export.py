"""`glassformer export MODEL --output FOLDER`: a model as ONNX files, or as programs of torch.export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from glassformer.cli.options import Json, ModelName, Options, Without, command, option
from glassformer.cli.screen import print_json, say
from glassformer.errors import ConfigError, DataError
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """Options of `export`: output folder, format and head."""

    output: Path = option(..., "Output folder, made if it is missing.", "--output", "-o")
    format: str = option(
        "onnx", "Export format: onnx, for onnxruntime and other engines; pt2, a program of torch.export.", "--format"
    )
    task: str | None = option(None, "Head to export, such as classify or fill. Default: the checkpoint's own.")


@command
def export(
    model: ModelName,
    *,
    options: ExportOptions,
    loading: Annotated[Loading, Without(["device", "dtype"])],
    json: Json = False,
) -> None:
    """Export a model to ONNX: a forward pass with free batch size and lengths, and a step of text generation.

    Encoders and decoders give model.onnx; decoders also step.onnx, with past keys and values; encoder-decoders give
    encoder.onnx and step.onnx. config.json and the tokenizer lie next to them.

    Examples:

    [cyan]glassformer export MODEL --output onnx[/]

    [cyan]glassformer export runs/mood --format pt2 --output programs[/]  without other packages
    """
    from glassformer.export import FORMATS, export_folder

    if options.format not in FORMATS:
        raise ConfigError(f"--format is {options.format!r}; allowed: {', '.join(FORMATS)}")
    if options.output.exists() and not options.output.is_dir():
        raise DataError(f"{options.output}: is a file; --output names a folder")
    with spinner("loading the model"):
        from glassformer.model import load

        loaded = load(model, task=options.task, dtype="float32", **given(loading))
    with spinner(f"exporting to {options.format}"):
        paths = export_folder(loaded, options.output, options.format)
    sizes = {str(path): sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) for path in paths}
    if json:
        print_json({"files": sizes})
        return
    for path, size in sizes.items():
        say(f"saved in {path}: {byte_amount(size)}")
