"""Options of a study: what differs from its configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.data.options import DATA, ColumnMapping, IgnoredColumns
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Count, Doc, NonNegative, Schema
from glassformer.reports.page import check_html_path
from glassformer.runs.options import Seeds, set_data, set_value

Baseline = Annotated[
    str | None, Doc("Level that the others are compared with, such as a method. Default: the first of each factor.")
]


@dataclass(frozen=True, kw_only=True)
class StudyOptions(Schema):
    """Values in place of those of a study's configuration, and where its report goes."""

    data: Annotated[str | None, Doc("Folder of the data files. Default: the configuration's.")] = None
    seeds: Annotated[Seeds | None, Doc("Random seeds of each training: how many, or a list: 0,1,2.")] = None
    baseline: Baseline = None
    output: Annotated[str | None, Doc("Output folder of the study.")] = None
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None

    def validate(self) -> None:
        if self.html is not None:
            check_html_path(self.html)


USUAL_METHODS = ("naive-bayes", "embeddings", "nearest-neighbours", "label-names", "contrastive", "fine-tuning")
"""Methods that are compared by default: each needs the sentence encoder alone."""


@dataclass(frozen=True, kw_only=True)
class FewLabelsOptions(Schema):
    """Which rows, methods and numbers of labels are compared."""

    columns: ColumnMapping = field(default_factory=dict)
    data: Annotated[
        Sequence[str],
        Doc(
            "File of labelled rows; rows whose label is empty count as unlabelled; repeatable. With data.fetch or "
            "data.folder in the configuration: also the folder that holds its files.",
            DATA,
        ),
    ] = ()
    unlabelled: Annotated[Sequence[str], Doc("File of rows without labels; repeatable.", DATA)] = ()
    test: Annotated[
        Sequence[str],
        Doc(
            "File of test rows; repeatable. Default: a quarter of the labelled rows, of few by cross-validation.", DATA
        ),
    ] = ()
    separator: Annotated[str | None, Doc("What is between several labels in a cell, such as '|'.", DATA)] = None
    model: Annotated[str | None, Doc("Sentence encoder: a folder, or a name.")] = None
    models: Annotated[
        Mapping[str, str],
        Doc("Another model, by what it is for: entailment=FOLDER, masked=FOLDER, decoder=FOLDER; repeatable."),
    ] = field(default_factory=dict)
    methods: Annotated[
        Sequence[str] | None,
        Doc("Methods, separated by commas. Default: those of the configuration, or six usual ones."),
    ] = None
    labels: Annotated[
        Sequence[int] | None, Doc("Numbers of labels, separated by commas. Default: 8,16,32,64,128,220.")
    ] = None
    max_tokens: Annotated[Count | None, Doc("Tokens of a text at most; longer ones are cut. Default: 128.")] = None
    choose: Annotated[
        Sequence[str] | None,
        Doc(
            "How labelled rows are chosen, separated by commas, a curve for each: stratified (default), random, or by "
            "active learning: least-confidence, margin, entropy, core-set, k-means, both."
        ),
    ] = None
    templates: Annotated[
        Sequence[str],
        Doc(
            "Sentence around a label, such as 'It is about {}.'; repeatable: each method that has one is compared with "
            "each."
        ),
    ] = ()
    settings: Annotated[
        Mapping[str, Any], Doc("Option of a method, by its path: contrastive.steps=100; repeatable.")
    ] = field(default_factory=dict)
    seeds: Annotated[Seeds | None, Doc("Random seeds: how many, or a list: 0,1,2. Default: 3.")] = None
    baseline: Baseline = None
    output: Annotated[str | None, Doc("Output folder of the study.")] = None
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained).")] = None

    def validate(self) -> None:
        if self.html is not None:
            check_html_path(self.html)
        if wrong := [path for path in self.settings if "." not in path]:
            raise ConfigError(f"settings= {safe_repr(wrong[0])} names no option of a method: METHOD.OPTION=VALUE")

    def apply(self, values: dict[str, Any], reading: Mapping[str, Any]) -> None:
        """Override values of a configuration.

        Args:
            reading: how the files of these options are read
        """
        named: dict[str, Any] = {"model": self.model, "output": self.output}
        named |= {"data.validation": [*self.test] or None}
        named |= {"few_labels.unlabelled": [*self.unlabelled] or None, "few_labels.separator": self.separator}
        named |= {"few_labels.labels": None if self.labels is None else [*self.labels]}
        named |= {"few_labels.max_tokens": self.max_tokens}
        named |= {"few_labels.templates": [*self.templates] or None}
        named |= {"few_labels.choose": None if self.choose is None else [*self.choose]}
        for path, value in named.items():
            if value is not None:
                set_value(values, path, value)
        set_data(values, "data.train", self.data)
        if self.data and reading:
            set_value(values, "data.format", dict(reading))
        for role, column in self.columns.items():
            set_value(values, f"data.columns.{role}", column)
        for role, model in self.models.items():
            set_value(values, f"few_labels.models.{role}", model)
        section = values.setdefault("few_labels", {})
        if self.methods is not None:
            known = section.get("methods")
            section["methods"] = {name: known.get(name) if isinstance(known, dict) else None for name in self.methods}
        if self.settings and not isinstance(section.get("methods"), dict):
            section["methods"] = dict.fromkeys(section.get("methods") or USUAL_METHODS)
        for path, value in self.settings.items():
            method, _, option = path.partition(".")
            if method not in section["methods"]:
                raise ConfigError(
                    f"settings= names {safe_repr(method)}; the methods are: {', '.join(section['methods'])}"
                )
            section["methods"][method] = section["methods"][method] or {}
            set_value(values, f"few_labels.methods.{method}.options.{option}", value)


GATE = "Gate"
SECTIONS = ("data", "training", "shrink", "task_options", "evaluation")
"""Sections of a recipe of `shrink` whose values can be given by their paths."""


@dataclass(frozen=True, kw_only=True)
class ShrinkOptions(Schema):
    """Which variants of a model are made, of what they are measured on, and which are written."""

    columns: ColumnMapping = field(default_factory=dict)
    ignore: IgnoredColumns = ()
    to: Annotated[
        Sequence[str] | None,
        Doc("Variants, separated by commas: half,int8,distilled+int8 (one after the other). Default: all ways."),
    ] = None
    model: Annotated[str | None, Doc("Run folder or model to shrink, in place of the recipe's.")] = None
    output: Annotated[str | None, Doc("Output folder, with a folder for each variant.")] = None
    settings: Annotated[
        Mapping[str, Any],
        Doc("Option of a variant or value of the recipe, by its path: int4.group_size=64, data.limit=500; repeatable."),
    ] = field(default_factory=dict)
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
        if self.to is not None and not any(self.to):
            raise ConfigError("to= names no variant; name one, such as half, or leave it out for all ways")
        if wrong := [path for path in self.settings if "." not in path]:
            raise ConfigError(f"settings= {safe_repr(wrong[0])} names no option of a variant: VARIANT.OPTION=VALUE")

    def apply(self, values: dict[str, Any]) -> None:
        """Override values of a recipe. Raises: ConfigError: a path goes through something that is no mapping."""
        named: dict[str, Any] = {name: getattr(self, name) for name in ("task", "model", "output")}
        named |= {f"shrink.{name}": getattr(self, name) for name in ("max_drop", "under", "within", "limit")}
        named |= {"data.train": [*self.train] or None, "data.ignore": [*self.ignore] or None}
        for path, value in named.items():
            if value is not None:
                set_value(values, path, value)
        for role, column in self.columns.items():
            set_value(values, f"data.columns.{role}", column)
        section = values["shrink"] = values.get("shrink") or {}
        if self.to is not None:
            section["variants"] = list(self.to)
        own = {path: x for path, x in self.settings.items() if path.partition(".")[0] in SECTIONS}
        for path, value in own.items():
            set_value(values, path, value)
        settings = {path: x for path, x in self.settings.items() if path not in own}
        if settings:
            given = section.get("variants")
            section["variants"] = variants = _by_name(given)
        for path, value in settings.items():
            variant, _, option = path.rpartition(".")
            if not any(f"{name}+".startswith(f"{variant}+") for name in variants):
                made = f"variants are {', '.join(variants)}" if variants else "name it: to= " + variant
                raise ConfigError(
                    f"settings= {path} is of a variant that is not made{nearest(variant, variants)}; {made}"
                )
            set_value(values, f"shrink.variants.{variant}.options.{option}", value)


def _by_name(variants: Any) -> dict[str, Any]:
    """Variants of a recipe with their options, where they were listed or left out. Raises: ConfigError: named twice."""
    if isinstance(variants, list) and (twice := [name for name in variants if variants.count(name) > 1]):
        raise ConfigError(f"variants= names {safe_repr(twice[0])} twice")
    return dict(variants or {}) if isinstance(variants, dict) else {str(name): {} for name in variants or ()}
