"""Options of a comparison: of trained runs, or of systems that generate text for the rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from glassformer.data.options import DATA
from glassformer.errors import ConfigError
from glassformer.files.atomic import check_output
from glassformer.files.schema import Count, Doc, NonNegativeInt, Schema, given, one_of

Roles = Mapping[Annotated[str, one_of("source", "target")], str]
TEXTS = "Generated texts, with --data"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Schema):
    """What systems are compared on, how they are scored, and where the page goes."""

    data: Annotated[Path | None, Doc("Test data: .csv, .tsv or .jsonl, also with .gz.", DATA)] = None
    columns: Annotated[
        Roles,
        Doc("Column mapping, role=column: source=article, target=highlights (the default); repeatable.", DATA),
    ] = field(default_factory=dict)
    limit: Annotated[Count | None, Doc("Maximum number of rows.", DATA)] = None
    task: Annotated[
        Literal["summarization", "translation"],
        Doc("Task: summarization (metric ROUGE) or translation (BLEU and chrF).", TEXTS),
    ] = "summarization"
    language: Annotated[str, Doc("Language of the texts, for sentence splitting: en, de, …", TEXTS)] = "en"
    stemming: Annotated[bool, Doc("ROUGE on word stems (Porter stemmer).", TEXTS)] = False
    batch: Annotated[Count, Doc("Batch size, in rows.", TEXTS)] = 8
    examples: Annotated[NonNegativeInt, Doc("Number of example rows to show with their outputs.", TEXTS)] = 3
    prefix: Annotated[
        str | None, Doc("Prefix (prompt) put before each text. Default: that of the model's config.", TEXTS)
    ] = None
    latency: Annotated[bool, Doc("Measure the latency of runs, on 100 single rows each.")] = False
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None

    def validate(self) -> None:
        if self.html is not None:
            check_output(self.html, "the page")
        of_texts = given(self).keys() - {"data", "latency", "html"}
        if self.data is None and of_texts:
            named = " and ".join(f"{name}=" for name in sorted(of_texts))
            raise ConfigError(f"{named}: of texts that systems generate for test data, which is missing: data= FILE")
        if self.data is not None and self.latency:
            raise ConfigError("latency= is of trained runs; leave it out, or leave out data=")
