"""Options of a benchmark: what is measured, on what, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from glassformer.data.options import ColumnMapping
from glassformer.files.schema import Count, Doc, NonNegativeInt, Schema
from glassformer.reports.page import check_html_path
from glassformer.task_names import TRAINED, beginning


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Schema):
    """What is measured of models, and how often."""

    count: Annotated[
        Count, Doc("Number of sentences to encode; of a model that generates: of steps, a token each.")
    ] = 256
    repeats: Annotated[Count, Doc("Timed repetitions of each precision; the median is reported.")] = 3
    precision: Annotated[
        Sequence[str] | None,
        Doc(
            "Inference precisions, such as fp32,int8. Default: of one model all; of several in a task each as it is "
            "stored."
        ),
    ] = None
    task: Annotated[str | None, Doc(f"Task to benchmark: {beginning(TRAINED, 3)}; a run has its own.")] = None
    data: Annotated[
        Sequence[str],
        Doc(
            "Test data files. Default: the run's validation split. Without a task: texts to encode or to read, such "
            "as a text file with one sentence per line. Default: a sample of everyday text."
        ),
    ] = ()
    columns: ColumnMapping = field(default_factory=dict)
    limit: Annotated[Count | None, Doc("Evaluate a random sample of this many rows.")] = None
    runs: Annotated[Count, Doc("Number of timed rows, after 10 warm-up rows.")] = 100
    seed: Annotated[NonNegativeInt, Doc("Random seed of the samples.")] = 0
    html: Annotated[
        Path | None, Doc("With a task or runs: write table and plot to this HTML file (self-contained).")
    ] = None

    def validate(self) -> None:
        if self.html is not None:
            check_html_path(self.html)
