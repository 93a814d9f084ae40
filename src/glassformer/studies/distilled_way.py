"""Knowledge distillation as a way to shrink a model: a student of fewer layers learns from the model itself.

    model, 6 layers ─ layers 0, 2, 5 ─> student ─ trained as the model was, with its logits as soft targets ─> output

The training continues where it was interrupted; the teacher's logits are computed once for several students.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from glassformer.compression.distil import Distillation, TeacherLosses, even_layers
from glassformer.compression.structure import Parts, keep_layers, only_stack
from glassformer.files.schema import Count, Doc, NonNegativeInt, Positive, Share
from glassformer.model import load
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table, number
from glassformer.runs.config import RunConfig
from glassformer.runs.folder import MODEL
from glassformer.studies.ways import Source, Way
from glassformer.tasks.distil import taught_by
from glassformer.tasks.registry import task_class
from glassformer.training.callbacks import Callback, StepReport
from glassformer.training.run import freeze, make_trainer, teacher_of
from glassformer.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class DistilledOptions(TeacherLosses):
    """Options of distillation. What is left out of the training is as in the run that trained the model."""

    layers: Annotated[
        Count | list[NonNegativeInt] | None,
        Doc("Layers of the student: how many, evenly spaced, or which, from 0. None = half of the model's."),
    ] = None
    teacher: Annotated[str | None, Doc("Teacher: a run or a model. None = the model that is shrunk.")] = None
    alpha: Annotated[Share, Doc("Weight of the labels' own loss; the rest is the teacher's.")] = 0.25
    temperature: Annotated[Positive, Doc("Temperature T of both distributions.")] = 4.0
    freeze: Annotated[Sequence[str], Doc("Parts of the student that stay as they are, such as embed.tokens.")] = ()
    epochs: Annotated[Positive | None, Doc("Epochs of the training. None = those of the model's run.")] = None
    learning_rate: Annotated[Positive | None, Doc("Peak learning rate. None = that of the model's run.")] = None


class Distilled(Way[DistilledOptions]):
    """Knowledge distillation: some of the layers, trained with the model as teacher."""

    OPTIONS = DistilledOptions
    NEEDS = ("train",)

    def check(self, source: Source, options: DistilledOptions) -> None:
        parts = Parts.of(source.outline)
        config = replace(self._config(source, options, source.folder), device="meta")  # no weights are read
        assert config.distillation is not None and config.distillation.layers is not None
        layers, depth = config.distillation.layers, len(only_stack(parts.network))
        keep_layers(parts, even_layers(layers, depth) if isinstance(layers, int) else layers)
        kind = task_class(config.task)
        student: Any = kind
        model = load(source.folder, task=kind.HEAD, device="meta")
        freeze(model.network, config.freeze)
        task = student(model, columns=config.data.columns or None, **config.task_options)
        taught_by(task, teacher_of(config, kind), config.distillation)

    def __call__(
        self, source: Source, options: DistilledOptions, output: Path, progress: Bar = no_bar
    ) -> Sequence[Table]:
        config = self._config(source, options, output)
        with progress("distilling, steps", None) as advance:
            trainer = make_trainer(config, [_Advance(advance)])
            result = trainer.train()
        shutil.copytree(Path(config.output) / MODEL, output)
        shutil.rmtree(config.output)
        depth, before = len(only_stack(trainer.network)), _depth(source.folder)
        facts = {"layers": f"{depth} of {before}", "steps": f"{result.steps:,}"}
        if trainer.validation_examples is not None:
            # Of the rows and the precision of the training, which need not be those of the table.
            rows = f"{len(trainer.validation_examples):,} validation rows of the training"
            facts |= {f"{name}, on the {rows}": number(value) for name, value in result.metrics.items()}
        return [Table(["", "student"], [[name, text] for name, text in facts.items()], "Distillation")]

    def _config(self, source: Source, options: DistilledOptions, output: Path) -> RunConfig:
        layers = options.layers if options.layers is not None else max(1, _depth(source.folder) // 2)
        losses = {x.name: getattr(options, x.name) for x in fields(TeacherLosses)}
        teacher = options.teacher or str(source.folder)
        changes = {name: x for name in ("epochs", "learning_rate") if (x := getattr(options, name)) is not None}
        if "epochs" in changes:
            changes["steps"] = None
        training = replace(source.config.training, seed=source.seed, **changes)
        left_out: dict[str, Any] = dict.fromkeys(("scratch", "tokenizer", "adapter", "pruning", "quantisation"))
        left_out |= {"overrides": {}, "freeze": [*options.freeze], "trackers": []}
        own = Distillation(teacher=teacher, layers=layers, **losses)
        model: dict[str, Any] = {"model": str(source.folder), "training": training, "distillation": own}
        config = replace(source.config, **left_out, **model)
        # By its settings: a training that was interrupted continues, one of others begins.
        work = output.parent if source.work is None else source.work
        settings = json.dumps(asdict(config), sort_keys=True, default=str)
        run = work / f"distilled-{hashlib.sha256(settings.encode()).hexdigest()[:16]}"
        assert config.distillation is not None
        return replace(config, output=str(run), distillation=replace(config.distillation, store=str(work / "teacher")))


class _Advance(Callback):
    """Shows each step of the training."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance

    def on_step(self, trainer: Trainer, report: StepReport) -> None:
        self.advance(1)


def _depth(folder: Path) -> int:
    """The number of layers of a model. Raises: UnsupportedError: it has several stacks of them."""
    return len(only_stack(load(folder, device="meta").network))
