"""What a training is, in a few facts, before its first step."""

from __future__ import annotations

from glassformer.files import counted
from glassformer.reports.amounts import amount
from glassformer.runs.charts import number
from glassformer.runs.config import RunConfig, as_list
from glassformer.runs.folder import CONFIG
from glassformer.training.batch_loader import LEAST_STEPS
from glassformer.training.trainer import Trainer


def training_facts(config: RunConfig, trainer: Trainer) -> dict[str, str]:
    """A training in five facts: the model, the task, examples, steps, and where all settings are."""
    options, model, labels = config.training, trainer.model, trainer.model.config.get("id2label") or {}
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    trained = sum(parameter.numel() for parameter in model.network.parameters() if parameter.requires_grad)
    part = "" if trained == parameters else f", {amount(trained)} of them trained"
    count = f", {len(labels)} labels" if config.task in ("classify", "tag") else ""
    if model.config.get("problem_type") == "regression":
        count = ", a number"
    best = "" if trainer.validation_examples is None else f"; the best model by {chosen_by(trainer)}"
    first, *more = as_list(config.data.train)
    if first == ".":
        first = str(config.data.root)
    files = f"{first} and {len(more)} more" if more else first
    held_out = trainer.validation_examples
    validation = "no validation data (-v 0.1 holds out a tenth)"
    if held_out is not None:
        validation = f"{len(held_out):,} for validation"
    size = f"{options.batch_size} examples" if options.batch_tokens is None else f"{options.batch_tokens:,} tokens"
    length = f"{counted(trainer.steps, 'step')} of {size}"
    passes = trainer.batch_sampler.epochs
    epochs = "" if options.steps is not None else f" ({passes:g} epoch{'s' * (passes != 1)})"
    resumed = f"; resumed after step {trainer.state.step:,}" if trainer.state.step else ""
    return {
        "model": f"{config.model or 'from scratch'}: {model.family.model_type}, {amount(parameters)} parameters{part}",
        "task": f"{config.task}{count}{best}",
        "data": f"{files}: {len(trainer.train_examples):,} examples, {validation}",
        "budget": f"{length}{epochs}, learning rate {number(options.learning_rate)}, on {trainer.device}",
        "output": f"{config.output}, with every setting in its {CONFIG}{resumed}",
    }


def chosen_by(trainer: Trainer) -> str:
    """The metric that chooses the best model, and next to it that of the report, where it is another."""
    reported = trainer.task.METRIC
    if trainer.task.EVALUATION is None or reported == trainer.metric:
        return trainer.metric
    return f"{trainer.metric}, while the report leads with {reported}"


def few_steps_note(trainer: Trainer) -> str | None:
    """What to type where the epochs that were asked for are too few steps to learn anything; None = they suffice."""
    options, sampler = trainer.options, trainer.batch_sampler
    if options.epochs is None or options.steps is not None or trainer.steps >= LEAST_STEPS or options.dry_run:
        return None
    epochs = -(-LEAST_STEPS // sampler.steps_per_epoch(0))
    return (
        f"{counted(trainer.steps, 'step')} are few, a new head hardly learns in them: "
        f"--epochs {epochs} makes {LEAST_STEPS:,} of the same rows"
    )
