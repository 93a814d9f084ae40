"""Ways to shrink a model: quantise, prune, distil, export; each writes a folder that loads like any other.

    source  ──way(source, options, output)──>  output: a model folder, for `load`
                                           └─> tables: what was done (ranges, sensitivities, fused operators)

    @dataclass(frozen=True, kw_only=True)
    class PrunedOptions(Schema):
        sparsity: Annotated[BelowOne, Doc("Share of the weights that become zero.")] = 0.5

    class Pruned(Way[PrunedOptions]):
        \"""Magnitude pruning: the smallest weights become zero.\"""

        OPTIONS = PrunedOptions

        def __call__(self, source, options, output, progress):
            prune(source.model.network, options.sparsity)
            source.model.save_pretrained(output)
            return [Table(["layer", "zeros"], …)]

A way is a line of `WAYS`. Ways can be chained: the folder that one has written is the source of the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import torch

from glassformer.core.quantised import check_not_quantised
from glassformer.data.sequence import RowSequence
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.evaluation.runs import trained_task
from glassformer.files import safe_repr
from glassformer.files.lazy import imported
from glassformer.files.schema import Doc, Schema, parse
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table
from glassformer.runs.config import RunConfig
from glassformer.tasks.base import Task
from glassformer.weights.layout import find_program

Options = TypeVar("Options")


@dataclass(frozen=True)
class Source:
    """What a way starts from.

    folder: of the model, or of what an earlier way has written
    config: of the run that trained the model: its task, columns, options and training settings. Of a model that is no
        run the same with defaults
    train, calibration, validation: rows with the columns of the task; None = there are none
    seed: of everything that is drawn at random
    work: folder for what is resumed after an interruption, such as a training; None = nothing is
    """

    folder: Path
    config: RunConfig
    train: RowSequence | None
    calibration: RowSequence | None
    validation: RowSequence | None
    seed: int = 0
    work: Path | None = None

    @cached_property
    def task(self) -> Task:
        """The task with a model of its own, loaded when first asked for: a way may change it in place."""
        config = self.config
        return trained_task(
            self.folder, config.task, config.data.columns, config.task_options, device=config.device
        ).for_evaluation(**config.evaluation)

    @property
    def model(self) -> Model:
        """The model of `task`."""
        model = self.task.model
        assert isinstance(model, Model)  # `trained_task` has loaded it
        return model

    @cached_property
    def outline(self) -> Model:
        """The model without its weights, by which options are checked before minutes of work.

        Raises: UnsupportedError: it is a program of ONNX Runtime, which has no layers. ConfigError: it is quantised.
        """
        if (program := find_program(self.folder)) is not None:
            raise UnsupportedError(
                f"{program}: is run by ONNX Runtime as a whole, and no way makes another model of it; take the model "
                "that it was exported from"
            )
        model = load(self.folder, device="meta")
        check_not_quantised(model.network, "shrunk again")
        return model

    def needed(self, rows: str, way: str) -> RowSequence:
        """Rows that a way cannot do without: "train", "calibration" or "validation".

        Raises: ConfigError: there are none.
        """
        chosen: RowSequence | None = getattr(self, rows)
        if chosen is None or not len(chosen):
            option, key = ("data", "data.validation") if rows == "validation" else ("train", "data.train")
            raise ConfigError(
                f"{way} needs {rows} rows, and there are none; name files: {option}= FILE, or {key} in the recipe"
            )
        return chosen


class Way(ABC, Generic[Options]):
    """Makes a smaller or faster model of a source.

    OPTIONS: a dataclass of its options, each with its `Doc`
    NEEDS: rows that it cannot do without, whatever its options are: "train", "calibration"
    LAST: what it writes where no way can make another model of it, such as "which is quantised"; "" = one can
    """

    OPTIONS: ClassVar[type]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    LAST: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, source: Source, options: Options, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        """Write the folder of a model that `glassformer.load` loads.

        Args:
            output: does not exist, or is empty
            progress: shows how far the work is
        Returns: what was done, as tables for the report.
        Raises: ConfigError: an option that does not fit this model. The source is left as it was.
        """

    def needs(self, options: Options) -> Sequence[str]:
        """The rows that it cannot do without, with these options; looked for before anything is computed."""
        return self.NEEDS

    def check(self, source: Source, options: Options) -> None:
        """Check by `source.outline` what would be refused later, before anything is computed.

        Raises: ConfigError: an option that does not fit this model. UnsupportedError: a model that this way does not
            suit.
        """

    def parse(self, values: Any, path: str = "options") -> Options:
        """Options from the keys and values of a recipe. Raises: ConfigError: an invalid one."""
        options: Options = parse(self.OPTIONS, values, path)
        return options


@dataclass(frozen=True, kw_only=True)
class HalfOptions(Schema):
    """Options of storing weights in 16 bits."""

    dtype: Annotated[
        Literal["bfloat16", "float16"],
        Doc("Data type: bfloat16 has the range of float32, float16 three more bits of precision."),
    ] = "bfloat16"


class Half(Way[HalfOptions]):
    """Half precision: every weight rounded to 16 bits."""

    OPTIONS = HalfOptions

    def __call__(self, source: Source, options: HalfOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        dtype: torch.dtype = getattr(torch, options.dtype)
        source.model.to(dtype).save_pretrained(output)
        return []


WAYS: dict[str, str | Way[Any]] = {
    "half": "glassformer.studies.ways:Half",
    "int8": "glassformer.studies.quantising_ways:Int8",
    "int8-static": "glassformer.studies.quantising_ways:Int8Static",
    "int4": "glassformer.studies.quantising_ways:Int4",
    "distilled": "glassformer.studies.distilled_way:Distilled",
    "pruned": "glassformer.studies.pruning_ways:Pruned",
    "heads": "glassformer.studies.pruning_ways:FewerHeads",
    "neurons": "glassformer.studies.pruning_ways:FewerNeurons",
    "layers": "glassformer.studies.pruning_ways:FewerLayers",
    "gguf": "glassformer.studies.exporting_ways:GGUF",
    "vocabulary": "glassformer.studies.pruning_ways:SmallerVocabulary",
    "onnx": "glassformer.studies.onnx_ways:Onnx",
    "onnx-int8": "glassformer.studies.onnx_ways:OnnxInt8",
}
"""Name → the class of a way as "module:class", imported on first use; or a way that was registered."""


def register(name: str, way: Way[Any]) -> None:
    """Let recipes and `--to` name a way of your own. Raises: ConfigError: the name is taken, or it is no way."""
    if not isinstance(way, Way):
        raise ConfigError(f"the way {safe_repr(name)} is {safe_repr(way)}; it must be a glassformer.studies.ways.Way")
    if name in WAYS and WAYS[name] is not way:
        raise ConfigError(f"there is a way {safe_repr(name)} already; choose another name")
    WAYS[name] = way


def find_way(name: str) -> Way[Any]:
    """The way of a name. Raises: ConfigError: there is none, with the nearest that there is."""
    if name not in WAYS:
        raise ConfigError(f"there is no way {safe_repr(name)}{nearest(name, WAYS)}; there are: {', '.join(WAYS)}")
    known = WAYS[name]
    if isinstance(known, str):
        known = WAYS[name] = imported(known)()
    return known
