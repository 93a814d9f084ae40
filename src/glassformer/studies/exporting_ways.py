"""Ways to shrink a model by exporting it: files of other runtimes.

gguf    a file of llama.cpp, quantized
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from glassformer.export.gguf import check_gguf, export_gguf
from glassformer.export.options import GGUFType
from glassformer.files.schema import Doc, Schema
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table
from glassformer.studies.ways import Source, Way


@dataclass(frozen=True, kw_only=True)
class GGUFOptions(Schema):
    """Options of a GGUF file."""

    type: Annotated[GGUFType, Doc("Type of the weights; q8_0 and smaller are quantized.")] = "q8_0"


class GGUF(Way[GGUFOptions]):
    """GGUF file of a decoder, for llama.cpp: smaller on disk; here its weights are loaded as float32."""

    OPTIONS = GGUFOptions
    LAST = "which is a file of llama.cpp"

    def check(self, source: Source, options: GGUFOptions) -> None:
        check_gguf(source.outline)

    def __call__(self, source: Source, options: GGUFOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        return [export_gguf(source.model, output, options.type)[1]]
