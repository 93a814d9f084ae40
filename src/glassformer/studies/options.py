"""Options of a study: what differs from its configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.data.options import DATA, ColumnMapping, IgnoredColumns
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.files.schema import Count, Doc, NonNegative, Schema
from glassformer.reports.page import check_html_path
from glassformer.runs.options import Seeds, set_value


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


GATE = "Gate"


@dataclass(frozen=True, kw_only=True)
class ShrinkOptions(Schema):
    """Which variants of a model are made, of what they are measured on, and which are written."""

    columns: ColumnMapping = field(default_factory=dict)
    ignore: IgnoredColumns = ()
    to: Annotated[
        Sequence[str] | None,
        Doc("Variants, separated by commas: half,int8,distilled+int8 (one after the other). Default: all ways."),
    ] = None
    output: Annotated[str | None, Doc("Output folder, with a folder for each variant.")] = None
    settings: Annotated[Mapping[str, Any], Doc("Option of a variant, by its path: int4.group_size=64; repeatable.")] = (
        field(default_factory=dict)
    )
    task: Annotated[str | None, Doc("Task of a model that is not a run: classify, tag, …")] = None
    data: Annotated[
        Sequence[str], Doc("Data files on which quality is measured; repeatable. Default: the validation rows.", DATA)
    ] = ()
    train: Annotated[
        Sequence[str],
        Doc("Training files, for ways that train or calibrate; repeatable. Default: those of the run.", DATA),
    ] = ()
    limit: Annotated[Count | None, Doc("Measure on a random sample of this many rows.", DATA)] = None
    max_drop: Annotated[
        NonNegative | None,
        Doc(
            "Largest loss, in points (hundredths) of the task's metric: a variant that loses more is not written.", GATE
        ),
    ] = None
    under: Annotated[
        str | None, Doc("Largest size on disk, such as 25MB: the best variant below it is kept.", GATE)
    ] = None
    within: Annotated[
        str | None, Doc("Largest median latency of a row, such as 5ms: the best variant within it is kept.", GATE)
    ] = None
    seeds: Annotated[Seeds | None, Doc("Random seeds of each variant: how many, or a list: 0,1,2.")] = None
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None

    def validate(self) -> None:
        if self.html is not None:
            check_html_path(self.html)
        if wrong := [path for path in self.settings if "." not in path]:
            raise ConfigError(f"settings= {safe_repr(wrong[0])} names no option of a variant: VARIANT.OPTION=VALUE")

    def apply(self, values: dict[str, Any]) -> None:
        """Override values of a recipe. Raises: ConfigError: a path goes through something that is no mapping."""
        named: dict[str, Any] = {"task": self.task, "output": self.output}
        named |= {f"shrink.{name}": getattr(self, name) for name in ("max_drop", "under", "within", "limit")}
        named |= {"data.train": [*self.train] or None, "data.ignore": [*self.ignore] or None}
        for path, value in named.items():
            if value is not None:
                set_value(values, path, value)
        for role, column in self.columns.items():
            set_value(values, f"data.columns.{role}", column)
        section = values["shrink"] = values.get("shrink") or {}
        if self.to is not None:
            section["variants"] = {name: {} for name in self.to}
        for path, value in self.settings.items():
            variant, _, option = path.rpartition(".")
            set_value(values, f"shrink.variants.{variant}.options.{option}", value)
