"""Options of a study: what differs from its configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from glassformer.files.schema import Doc, Schema
from glassformer.reports.page import check_html_path
from glassformer.runs.options import Seeds


@dataclass(frozen=True, kw_only=True)
class StudyOptions(Schema):
    """Values in place of those of a study's configuration, and where its report goes."""

    data: Annotated[str | None, Doc("Folder of the data files. Default: the configuration's.")] = None
    seeds: Annotated[Seeds | None, Doc("Random seeds of each training: how many, or a list: 0,1,2.")] = None
    output: Annotated[str | None, Doc("Output folder of the study.")] = None
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None

    def validate(self) -> None:
        if self.html is not None:
            check_html_path(self.html)
