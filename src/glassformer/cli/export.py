"""`glassformer export MODEL --output FOLDER`: a model as ONNX files, as programs of torch.export, or as a GGUF file."""

from __future__ import annotations

from typing import Annotated

from glassformer.cli.options import Json, ModelName, Without, command
from glassformer.cli.screen import print_json, say, show_tables
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
    """Export a model to ONNX or GGUF: files that onnxruntime and llama.cpp run.

    ONNX, with free batch size and lengths: encoders and decoders give model.onnx; decoders also step.onnx, with past
    keys and values; encoder-decoders give encoder.onnx and step.onnx. config.json and the tokenizer lie next to them.

    GGUF, of a decoder: model.gguf, quantized, with the tokenizer and the chat template in it.

    Examples:
      glassformer export MODEL --output onnx
      # for llama.cpp
      glassformer export MODEL --format gguf --type q4_k --output gguf
      # without other packages
      glassformer export runs/mood --format pt2 --output programs
    """
    if options.output.exists() and not options.output.is_dir():
        raise DataError(f"{options.output}: is a file; --output names a folder")
    with spinner("loading the model"):
        from glassformer.model import load

        dtype = None if options.format == "gguf" else "float32"
        loaded = load(model, task=options.task, dtype=dtype, **given(loading))
    made = None
    with spinner(f"exporting to {options.format}"):
        from glassformer.export import export_folder, export_gguf

        if options.format == "gguf":
            file, made = export_gguf(loaded, options.output, options.type or "q8_0")
            paths = [file]
        else:
            paths = export_folder(loaded, options.output, options.format)
    sizes = {str(path): sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) for path in paths}
    if json:
        print_json(
            {"files": sizes}
            | ({} if made is None else {"types": [dict(zip(made.headings, row, strict=True)) for row in made.rows]})
        )
        return
    if made is not None:
        show_tables([made])
    for path, size in sizes.items():
        say(f"saved in {path}: {byte_amount(size)}")
