"""Ways to export: an ONNX folder that ONNX Runtime runs, in 32 or in 8 bits.

onnx        the same numbers, fused operations       compared with the original at five lengths, and padded
onnx-int8   8-bit weights and inputs, dynamic or static; refused where a cosine falls below the gate
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from torch import Tensor

from glassformer.core.quantised import check_not_quantised
from glassformer.data.rows import RowSequence
from glassformer.errors import UnsupportedError
from glassformer.export.onnx import export_onnx
from glassformer.export.onnx_int8 import (
    LENGTHS,
    check_differences,
    difference_table,
    differences_by_length,
    fuse,
    quantise_dynamic,
    quantise_static,
)
from glassformer.files.schema import BelowOne, Doc, Schema
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table
from glassformer.studies.ways import Source, Way

CALIBRATION_TOKENS = 64
"""Calibration texts are cut to this many tokens: ranges do not change with length, and time does."""

Fused = Annotated[bool, Doc("Fused operations: normalisation with the sum before it, GELU with its bias.")]
Gate = Annotated[
    BelowOne, Doc("Gate: the smallest cosine with the original's outputs, at five lengths, alone and padded.")
]


@dataclass(frozen=True, kw_only=True)
class OnnxOptions(Schema):
    """Options of an ONNX folder."""

    fuse: Fused = True
    gate: Gate = 0.9999


@dataclass(frozen=True, kw_only=True)
class OnnxInt8Options(Schema):
    """Options of an ONNX folder in 8 bits."""

    inputs: Annotated[
        Literal["dynamic", "static"],
        Doc("Scales of the inputs of products: computed in each call, or calibrated, which needs training rows."),
    ] = "dynamic"
    embeddings: Annotated[bool, Doc("Embeddings in 8 bits too.")] = True
    fuse: Fused = True
    gate: Gate = 0.95


class _Exporting(Way[Any]):
    """What the ways have in common: what is checked before anything is computed."""

    LAST = "which is a program that ONNX Runtime runs as a whole"

    def check(self, source: Source, options: Any) -> None:
        _check_exportable(source.outline)


class Onnx(_Exporting):
    """ONNX export: the same numbers, run by ONNX Runtime."""

    OPTIONS = OnnxOptions

    def __call__(self, source: Source, options: OnnxOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        path, tables = _exported(source, output, fused=options.fuse)
        return [*tables, _checked(source, path, options.gate)]


class OnnxInt8(_Exporting):
    """ONNX export in 8 bits: weights and inputs of products, embeddings too."""

    OPTIONS = OnnxInt8Options

    def needs(self, options: OnnxInt8Options) -> Sequence[str]:
        return ("calibration",) * (options.inputs == "static")

    def __call__(
        self, source: Source, options: OnnxInt8Options, output: Path, progress: Bar = no_bar
    ) -> Sequence[Table]:
        rows = source.needed("calibration", "onnx-int8") if options.inputs == "static" else None
        path, tables = _exported(source, output, fused=options.fuse)
        if rows is None:
            quantise_dynamic(path, embeddings=options.embeddings)
        else:
            quantise_static(path, list(_batches(source, rows)), embeddings=options.embeddings)
        return [*tables, _checked(source, path, options.gate)]


def _check_exportable(model: Model) -> None:
    """Raises: ConfigError: it is quantised. UnsupportedError: it reads more than a text, or writes one."""
    check_not_quantised(model.network, "exported")
    if list(model.network.stacks()) != ["text"] or model.writes:
        raise UnsupportedError(
            f"ONNX folders run models of one text that write none; this is a {model.family.model_type!r} model for "
            f"{model.task}"
        )


def _exported(source: Source, output: Path, *, fused: bool) -> tuple[Path, list[Table]]:
    """The file of the exported model, and what was fused in it. Raises: as `_check_exportable`."""
    model = source.model.unprepare()
    _check_exportable(model)
    (path,) = export_onnx(model.float(), output)
    blocks = model.network.stacks()["text"]
    return path, [fuse(path, blocks[0].attn.spec.heads, model.network.width)] if fused else []


def _checked(source: Source, path: Path, gate: float) -> Table:
    """The differences of a file from the model. Raises: ConfigError: it differs too much."""
    ids = [number for text in islice(_ids(source, source.validation), LENGTHS[-1]) for number in text]
    if not ids:  # no rows: any tokens do
        ids = [(7 * i + 3) % source.model.vocabulary for i in range(LENGTHS[-1])]
    differences = differences_by_length(source.model, load(path), ids)
    check_differences(differences, gate)
    return difference_table(differences)


def _ids(source: Source, rows: RowSequence | None) -> Iterator[list[int]]:
    """The ids of rows."""
    examples: Any = () if rows is None else source.task.encode(rows)
    return (list(map(int, examples[i]["input_ids"])) for i in range(len(examples)))


def _batches(source: Source, rows: RowSequence) -> Iterator[Mapping[str, Tensor]]:
    """What the exported program reads for each calibration row."""
    model: Model = source.model
    types = model.network.token_types and "token_type_ids" in model.network.READS
    for ids in _ids(source, rows):
        x = Tensor([ids[:CALIBRATION_TOKENS]]).long()
        yield {"input_ids": x, "attention_mask": x * 0 + 1} | ({"token_type_ids": x * 0} if types else {})
