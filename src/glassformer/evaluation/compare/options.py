"""Options of a comparison: the rows and their task, how texts are scored, and where the page goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from glassformer.data.options import DATA
from glassformer.files.atomic import check_output
from glassformer.files.schema import Count, Doc, NonNegativeInt, Schema
from glassformer.task_names import TRAINED, beginning

TEXTS = "Generated texts"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Schema):
    """What systems are compared on, how they are scored, and where the page goes."""

    data: Annotated[Path | None, Doc("Test data. Default: the validation rows of the runs.", DATA)] = None
    columns: Annotated[
        Mapping[str, str],
        Doc("Column mapping, role=column: label=mood; for texts source=article, target=highlights; repeatable.", DATA),
    ] = field(default_factory=dict)
    limit: Annotated[Count | None, Doc("Maximum number of rows.", DATA)] = None
    task: Annotated[
        str,
        Doc(
            "Task of --data, where no system is a run: summarization (metric ROUGE), translation (BLEU and chrF), "
            f"{beginning(TRAINED, 3)}",
            DATA,
        ),
    ] = "summarization"
    batch: Annotated[Count, Doc("Batch size, in rows.")] = 8
    latency: Annotated[bool, Doc("Measure the latency of 100 single rows.")] = False
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None
    language: Annotated[str, Doc("Language of the texts, for sentence splitting: en, de, …", TEXTS)] = "en"
    stemming: Annotated[bool, Doc("ROUGE on word stems (Porter stemmer).", TEXTS)] = False
    examples: Annotated[NonNegativeInt, Doc("Number of example rows to show with their outputs.", TEXTS)] = 3
    prefix: Annotated[
        str | None, Doc("Prefix (prompt) put before each text. Default: that of the model's config.", TEXTS)
    ] = None

    def validate(self) -> None:
        if self.html is not None:
            check_output(self.html, "the page")
