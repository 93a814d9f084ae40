"""Options of an export: output folder, format, head, and the type of quantized weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from glassformer.errors import ConfigError
from glassformer.files.schema import Doc, Schema

Format: TypeAlias = Literal["onnx", "pt2", "gguf"]
GGUFType: TypeAlias = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_k"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Schema):
    """What is exported, in which format, and where to."""

    output: Annotated[Path, Doc("Output folder, made if it is missing.")]
    format: Annotated[
        Format,
        Doc(
            "Export format: onnx, for onnxruntime and other engines; pt2, a program of torch.export; gguf, a file of "
            "llama.cpp."
        ),
    ] = "onnx"
    task: Annotated[str | None, Doc("Head to export, such as classify or fill. Default: the checkpoint's own.")] = None
    type: Annotated[
        GGUFType | None, Doc("Type of the weights of a GGUF file; q8_0 and smaller are quantized. Default: q8_0.")
    ] = None

    def validate(self) -> None:
        if self.type is not None and self.format != "gguf":
            raise ConfigError(f"type is {self.type}, which is of GGUF files; give format gguf with it")
