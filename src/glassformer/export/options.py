"""Options of an export: output folder, format and head."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from glassformer.files.schema import Doc, Schema

Format: TypeAlias = Literal["onnx", "pt2"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Schema):
    """What is exported, in which format, and where to."""

    output: Annotated[Path, Doc("Output folder, made if it is missing.")]
    format: Annotated[
        Format, Doc("Export format: onnx, for onnxruntime and other engines; pt2, a program of torch.export.")
    ] = "onnx"
    task: Annotated[str | None, Doc("Head to export, such as classify or fill. Default: the checkpoint's own.")] = None
