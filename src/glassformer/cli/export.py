"""`glassformer export MODEL --output FOLDER`: a model as ONNX files, or as programs of torch.export."""

from __future__ import annotations

from typing import Annotated

from glassformer.cli.options import Json, ModelName, Without, command
from glassformer.cli.screen import print_json, say
from glassformer.errors import DataError
from glassformer.export.options import ExportOptions
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.table import byte_amount


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
    if options.output.exists() and not options.output.is_dir():
        raise DataError(f"{options.output}: is a file; --output names a folder")
    with spinner("loading the model"):
        from glassformer.model import load

        loaded = load(model, task=options.task, dtype="float32", **given(loading))
    with spinner(f"exporting to {options.format}"):
        from glassformer.export import export_folder

        paths = export_folder(loaded, options.output, options.format)
    sizes = {str(path): sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) for path in paths}
    if json:
        print_json({"files": sizes})
        return
    for path, size in sizes.items():
        say(f"saved in {path}: {byte_amount(size)}")
