"""`Trainer.hyperparameter_search`: trainings with suggested options, of which the best is given back (Optuna)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple

from glassformer.errors import ConfigError, UnsupportedError, import_optional, nearest


class BestRun(NamedTuple):
    """The best trial: its number, its objective and the options that it had."""

    run_id: str
    objective: float
    hyperparameters: dict[str, Any]
    run_summary: Any = None


def default_hp_space(trial: Any) -> dict[str, Any]:
    """Learning rate, epochs, seed and batch size: the search space by default."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-6, 1e-4, log=True),
        "num_train_epochs": trial.suggest_int("num_train_epochs", 1, 5),
        "seed": trial.suggest_int("seed", 1, 40),
        "per_device_train_batch_size": trial.suggest_categorical("per_device_train_batch_size", [4, 8, 16, 32, 64]),
    }


def default_compute_objective(metrics: Mapping[str, float]) -> float:
    """The sum of the metrics; the loss where there are none."""
    times = ("_runtime", "_per_second", "_time")
    scores = [x for name, x in metrics.items() if name not in ("eval_loss", "epoch") and not name.endswith(times)]
    return float(sum(scores)) if scores else float(metrics["eval_loss"])


def hyperparameter_search(
    trainer: Any,
    hp_space: Callable[[Any], dict[str, Any]] | None,
    compute_objective: Callable[[dict[str, float]], float] | None,
    n_trials: int,
    direction: Any,
    backend: Any,
    hp_name: Callable[[Any], str] | None,
    **options: Any,
) -> BestRun:
    """Train `n_trials` times, with what `hp_space` suggests, each time with a new model of `model_init`.

    Raises: ConfigError: the trainer has no model_init, or a trial an option that is none. MissingExtraError: Optuna is
        not installed. UnsupportedError: another backend, or several objectives.
    """
    if trainer.model_init is None:
        raise ConfigError("each trial needs a new model: give Trainer(model_init=…), a function that makes one")
    if getattr(backend, "value", backend) not in (None, "optuna"):
        raise UnsupportedError(f"backend={str(backend)!r} is not there; leave it out: trials are suggested by Optuna")
    if isinstance(direction, list | tuple):
        raise UnsupportedError("several objectives are not searched; give one direction")
    optuna = import_optional("optuna", "optuna", "search", "hyperparameter search")
    objective_of = compute_objective or default_compute_objective
    before = dict(vars(trainer.args))

    def objective(trial: Any) -> float:
        settings = (hp_space or default_hp_space)(trial)
        for name, value in settings.items():
            if name not in before:
                raise ConfigError(f"hp_space suggests {name!r}, which is no option of training{nearest(name, before)}")
            setattr(trainer.args, name, type(before[name])(value) if before[name] is not None else value)
        trainer.trial = trial
        trainer.train()
        logged = next((x for x in reversed(trainer.state.log_history) if "eval_loss" in x), None) or trainer.evaluate()
        return objective_of({name: x for name, x in logged.items() if name != "step"})

    create = {name: options.pop(name) for name in [*options] if name in signature(optuna.create_study).parameters}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(direction=str(getattr(direction, "value", direction)), **create)
        study.optimize(objective, n_trials=n_trials, **options)
    finally:
        optuna.logging.set_verbosity(verbosity)
        vars(trainer.args).update(before)
    best = study.best_trial
    return BestRun(hp_name(best) if hp_name else str(best.number), best.value, best.params)
