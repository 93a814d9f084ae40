"""Options of evaluation and error analysis: which rows of a run or of a model, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.data.options import DATA, ColumnMapping, IgnoredColumns
from glassformer.errors import ConfigError
from glassformer.files.schema import Allowed, Count, Doc, NonNegativeInt, Schema
from glassformer.task_names import TRAINED, beginning

MODEL = "A model that is not a run"
PARTS = ("task_options", "evaluation")
Setting = Annotated[
    str,
    Allowed("task_options.NAME=VALUE or evaluation.NAME=VALUE", lambda x: x.partition(".")[0] in PARTS and "." in x),
]


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest(Schema):
    """What a run, or a model, is evaluated on."""

    columns: ColumnMapping = field(default_factory=dict)
    ignore: IgnoredColumns = ()
    data: Annotated[Sequence[str], Doc("Test data files; repeatable. Default: the run's validation split.", DATA)] = ()
    format: Annotated[
        Mapping[str, Any] | None,
        Doc("File format of --data, name=value: kind=csv, delimiter=';'. Default: the run's.", DATA),
    ] = None
    limit: Annotated[Count | None, Doc("Evaluate a random sample of this many rows.", DATA)] = None
    seed: Annotated[NonNegativeInt, Doc("Random seed of the sample of --limit.", DATA)] = 0
    name: Annotated[
        str | None,
        Doc("Name of the evaluation: saved as RUN/evaluation/NAME. Default: the name of the file."),
    ] = None
    output: Annotated[Path | None, Doc("Output folder, instead of one in the run.")] = None
    by: Annotated[
        str | None,
        Doc("Column, such as speaker or source: the metrics of each of its values too, and which stand out."),
    ] = None
    baselines: Annotated[bool, Doc("Evaluate baselines too, such as the majority class.")] = True
    device: Annotated[str | None, Doc("Device: cpu, cuda, mps or auto. Default: that of training.")] = None
    task: Annotated[str | None, Doc(f"Task: {beginning(TRAINED)}", MODEL)] = None
    train: Annotated[Sequence[str], Doc("Training data files for the baselines; repeatable.", MODEL)] = ()
    settings: Annotated[
        Mapping[Setting, Any],
        Doc(
            "Option of the evaluation (evaluation.beams=5; of a run, too) or of the task "
            "(task_options.language=uk); repeatable.",
            MODEL,
        ),
    ] = field(default_factory=dict)

    def validate(self) -> None:
        if self.task is not None:
            if not self.data:
                raise ConfigError("a model that is not a run has no test data of its own; name the files: data= FILE")
            if self.name is not None:
                raise ConfigError(
                    "name= names an evaluation within a run; a model that is not a run needs output= FOLDER"
                )
            return
        if self.train:
            raise ConfigError("train= is for a model that is not a run, with task=; a run knows its training data")
        if self.part("task_options"):
            raise ConfigError("settings= task_options.… is for a model with task=; a run has its own options")
        if self.format is not None and not self.data:
            raise ConfigError("format= describes the files of data=; give data= too")

    def part(self, kind: str) -> dict[str, Any]:
        """The settings of a kind: task_options or evaluation."""
        return {path.partition(".")[2]: x for path, x in self.settings.items() if path.partition(".")[0] == kind}


@dataclass(frozen=True, kw_only=True)
class ListeningOptions(Schema):
    """Which sounds a model hears, and where they go."""

    rows: Annotated[Count, Doc("Number of rows, drawn at random.", DATA)] = 4
    data: Annotated[
        Sequence[str],
        Doc(
            "Audio files, or data files and folders; repeatable. Default: the run's validation split.",
            DATA,
        ),
    ] = ()
    format: Annotated[
        Mapping[str, Any] | None, Doc("File format of --data, name=value: kind=guitar. Default: the run's.", DATA)
    ] = None
    seed: Annotated[NonNegativeInt, Doc("Random seed of the rows.", DATA)] = 0
    task: Annotated[str | None, Doc("Task of a model that is not a run: reconstruct, …")] = None
    device: Annotated[str | None, Doc("Device: cpu, cuda, mps or auto. Default: that of training.")] = None
    html: Annotated[Path | None, Doc("Write the page to this HTML file (self-contained) instead of opening it.")] = None
    output: Annotated[Path | None, Doc("Write the sounds as wav files to this folder.")] = None
    browser: Annotated[bool | None, Doc("Open a web browser. Default: when there is a display.")] = None

    def validate(self) -> None:
        if self.format is not None and not self.data:
            raise ConfigError("format= describes the files of data=; give data= too")


@dataclass(frozen=True, kw_only=True)
class RowOptions(Schema):
    """Rows of a run: a split, or other files."""

    part: Annotated[str, Doc("Dataset split: validation, train, or the name of an `evaluate --data`.")] = "validation"
    data: Annotated[Sequence[str], Doc("Data files to use instead of the split; repeatable.")] = ()
    columns: ColumnMapping = field(default_factory=dict)
    ignore: IgnoredColumns = ()


@dataclass(frozen=True, kw_only=True)
class ErrorOptions(Schema):
    """What an error analysis lists, and where its page goes."""

    html: Annotated[Path | None, Doc("Write the page to this HTML file or folder instead of serving it.")] = None
    look: Annotated[
        NonNegativeInt, Doc("With --html: number of rows, the worst, that get an attention explorer page.")
    ] = 10
    top: Annotated[Count, Doc("Number of rows to print.")] = 10
    by: Annotated[str | None, Doc("Column, such as speaker or source: the metrics of each of its values.")] = None


@dataclass(frozen=True, kw_only=True)
class CorrectionOptions(Schema):
    """Where corrected rows go."""

    output: Annotated[Path, Doc("Output file of the corrected rows: a new .jsonl, .csv or .tsv.")]
    new_labels: Annotated[bool, Doc("Allow corrections to labels that do not occur in the data.")] = False
