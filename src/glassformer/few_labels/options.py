"""Options of the advice on rows of few labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from glassformer.data.options import DATA, ColumnMapping
from glassformer.files.schema import Doc, Schema
from glassformer.reports.page import check_html_path


@dataclass(frozen=True, kw_only=True)
class AdviceOptions(Schema):
    """Which columns are read, and what the advice is about."""

    columns: ColumnMapping = field(default_factory=dict)
    unlabelled: Annotated[Sequence[str], Doc("File of rows without labels; repeatable.", DATA)] = ()
    separator: Annotated[str | None, Doc("What is between several labels in a cell, such as '|'.", DATA)] = None
    label_names: Annotated[
        Sequence[str] | None, Doc("Names of the labels, separated by commas, where no row has one yet.", DATA)
    ] = None
    model: Annotated[
        str | None, Doc("Sentence encoder of the commands: a folder, or a name. Default: a small one, by the language.")
    ] = None
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None

    def validate(self) -> None:
        if self.html is not None:
            check_html_path(self.html)
