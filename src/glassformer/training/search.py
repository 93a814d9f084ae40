"""Hyperparameter search: trials of a training, each learning from those before it (TPE, by Optuna).

    space ──suggest──> settings ──make_trial──> metrics ──> the next suggestion
                          └── pruned where validations fall behind those of other trials

All of it is stored in one file, so that an interrupted search is resumed. What a trial is suggested depends on the
seed, its number and the trials before it: an interrupted search gives what an uninterrupted one would.

Source: Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization" (the tree-structured Parzen estimator);
Golovin et al. 2017, "Google Vizier", section 3.2.2 (median stopping); both as Optuna computes them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.errors import ConfigError, DataError, GlassformerError, import_optional, nearest
from glassformer.files import as_path, disk_reason, error_reason, is_number, json_value, safe_repr
from glassformer.files.atomic import disk_errors
from glassformer.runs.folder import EventLog
from glassformer.training.callbacks import Callback, TrainingStopped
from glassformer.training.gradients import is_out_of_memory
from glassformer.training.trials import Direction, SearchResult, Trial

if TYPE_CHECKING:
    from glassformer.training.trainer import Trainer


MakeTrial = Callable[[dict[str, Any], "TrialCallback"], Mapping[str, float]]


def search(
    make_trial: MakeTrial,
    space: Mapping[str, Any],
    *,
    metric: str,
    direction: Direction,
    trials: int,
    storage: str | Path,
    seed: int = 0,
    progress: Callable[[Trial], None] = lambda trial: None,
    begins: Callable[[SearchResult], None] = lambda so_far: None,
) -> SearchResult:
    """Search for the best hyperparameters, in this many trials.

        def make_trial(settings, watch):
            trainer = Trainer(…, Options(**settings), callbacks=[watch])
            return trainer.train().metrics

        search(make_trial, {"learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}, "batch_size": [8, 16, 32]},
               metric="f1", direction="maximize", trials=20, storage="search.log")

    Args:
        make_trial: trains with settings, and returns metrics. Its second argument is a callback for the trainer, which
            ends a trial whose validations are worse than half of the others' at that step.
        space: of each setting a list to choose from, `{low, high}` (whole numbers or not, perhaps `log`, `step`), or
            one value that all trials have
        metric: the metric to optimise
        direction: "minimize" or "maximize"
        trials: how many there shall be in the file, those of earlier calls among them
        storage: the file that holds them; where it exists, the search is resumed
        progress: called with each trial
        begins: called before each trial with the results so far
    Returns: all trials; settings that fail (an option that cannot be, no memory) are among them, with the reason.
    Raises: ConfigError: an invalid space, or a file that holds another search. DataError: the file cannot be read, or
        the disk refuses; the trial counts for nothing then.
        MissingExtraError: Optuna is not installed.
    """
    optuna = import_optional("optuna", "optuna", "search", "hyperparameter search")
    if trials < 1:
        raise ConfigError(f"trials is {trials}; try at least 1")
    distributions = {name: _distribution(optuna, name, choice) for name, choice in space.items()}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        about = {"space": dict(space), "metric": metric, "direction": direction, "seed": seed}
        study = _open_study(optuna, as_path(storage, "storage"), about)
        while (done := len(_finished_trials(study))) < trials:
            # A seed for each trial, so that its suggestion does not depend on where the search was interrupted.
            trial_seed = int(np.random.SeedSequence([seed, done]).generate_state(1)[0])
            study.sampler = optuna.samplers.TPESampler(seed=trial_seed)
            begins(_so_far(study, about))
            with _storing(storage):
                trial = study.ask(distributions)
            _run(optuna, study, TrialCallback(trial, metric, done), make_trial, storage)
            progress(_finished_trials(study)[-1])
        return _so_far(study, about)
    finally:
        optuna.logging.set_verbosity(verbosity)


# ------------------------------------------------------------------------------------------- one trial


class _TrialPrunedError(Exception):
    """This trial is worse than others at the same step, and was pruned."""


class _MissingMetricError(ConfigError):
    """Trials do not give the metric to optimise."""


class TrialCallback(Callback):
    """Reports a trial's validations, and ends it where they are worse than half of the others' at that step.

    number: of the trial, as in the results; one that was interrupted has it again when it is repeated
    """

    def __init__(self, trial: Any, metric: str, number: int) -> None:
        self.trial, self.metric, self.number = trial, metric, number
        self.metrics: dict[str, float] = {}

    def on_validation(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        self.metrics = dict(metrics)
        value = _metric_value(metrics, self.metric)
        if math.isfinite(value):
            self.trial.report(value, trainer.state.step)
            if self.trial.should_prune():
                raise _TrialPrunedError


def _run(optuna: Any, study: Any, watch: TrialCallback, make_trial: MakeTrial, storage: str | Path) -> None:
    """Run one trial; an error that is not due to its settings ends the search."""
    trial, metric, start = watch.trial, watch.metric, time.perf_counter()
    states = optuna.trial.TrialState
    state, value, error = states.FAIL, None, None
    try:
        watch.metrics = dict(make_trial(dict(trial.params), watch))
        last = _metric_value(watch.metrics, metric)
        if math.isfinite(last):
            state, value = states.COMPLETE, last
        else:
            error = f"{metric} is {last}"
    except _TrialPrunedError:
        state = states.PRUNED
    except Exception as problem:
        # Invalid options, a NaN loss, no memory: other settings may do better. A full disk fails all, and is no
        # trial's; all else is a bug.
        own = isinstance(problem, GlassformerError) and not isinstance(problem, TrainingStopped | _MissingMetricError)
        own = own and disk_reason(problem) is None
        if not own and not is_out_of_memory(problem):
            raise
        error = " ".join(f"{type(problem).__name__}: {problem}".split())[:500]
    finally:  # also after Ctrl-C: a trial without an error that failed counts for nothing, and is tried again
        seconds = time.perf_counter() - start
        with _storing(storage):
            trial.set_user_attr("outcome", json_value({"metrics": watch.metrics, "error": error, "seconds": seconds}))
            study.tell(trial, value, state=state)


def _storing(storage: str | Path) -> AbstractContextManager[None]:
    return disk_errors(storage, DataError, "the trials", "finished trials are kept, and the same command resumes it")


def _metric_value(metrics: Mapping[str, float], metric: str) -> float:
    if metric not in metrics:
        raise _MissingMetricError(f"a trial gives no metric {metric!r}; it gives {', '.join(metrics) or 'none'}")
    return float(metrics[metric])


# -------------------------------------------------------------------------------------------- the study


def _open_study(optuna: Any, path: Path, about: dict[str, Any]) -> Any:
    """Open the storage file of the trials; it is made where it is missing.

    Raises: ConfigError: it holds another search: in another space its trials would mean something else. DataError: it
        holds something else, or cannot be written.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    if about["direction"] not in ("minimize", "maximize"):
        raise ConfigError(f"direction is {safe_repr(about['direction'])}; it must be 'minimize' or 'maximize'")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size and b'"op_code"' not in path.read_bytes()[:200]:
            raise DataError(f"{path}: is no file of a search; choose another file")
        EventLog(path).close()  # drops a last line that a kill has cut, to which Optuna would append
        backend = JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path)))
        study = optuna.create_study(
            study_name="search",
            storage=JournalStorage(backend),
            direction=about["direction"],
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(),
        )
    except DataError:
        raise
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: the trials cannot be stored here: {error_reason(problem)}") from problem
    expected = json.loads(json.dumps(about))
    if "about" not in study.user_attrs:
        study.set_user_attr("about", expected)
    stored = study.user_attrs["about"]
    for name, value in expected.items():
        if stored[name] != value:
            raise ConfigError(
                f"{path}: holds another search: its {name} is {json.dumps(stored[name])}, not {json.dumps(value)}; "
                "choose another file"
            )
    # Trials that a kill has cut are marked as failed; they are not counted.
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _so_far(study: Any, about: Mapping[str, Any]) -> SearchResult:
    """The trials that are done, of what is stored about the search."""
    log = [name for name, choice in about["space"].items() if isinstance(choice, Mapping) and choice.get("log")]
    return SearchResult(about["metric"], about["direction"], _finished_trials(study), log)


def _finished_trials(study: Any) -> list[Trial]:
    """The trials that were not interrupted, numbered from 0."""
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    outcomes = [(trial, trial.user_attrs.get("outcome", {})) for trial in study.trials]
    # A trial that failed without an error was interrupted.
    finished = [(trial, out) for trial, out in outcomes if trial.state.name != "FAIL" or out.get("error")]
    return [
        Trial(
            number=number,
            settings=dict(trial.params),
            metrics={name: float(x) for name, x in out["metrics"].items()},
            state=states[trial.state.name],  # type: ignore[arg-type]
            seconds=out["seconds"],
            error=out["error"],
        )
        for number, (trial, out) in enumerate(finished)
    ]


def _distribution(optuna: Any, name: str, choice: Any) -> Any:
    """The distribution of a hyperparameter.

    Raises: ConfigError: no list, range or value.
    """
    known = ("low", "high", "log", "step")
    if isinstance(choice, Mapping):
        unknown = [key for key in choice if key not in known]
        if unknown:
            raise ConfigError(f"{name}: {safe_repr(unknown[0])} is no key of a range{nearest(str(unknown[0]), known)}")
        low, high = (_as_number(name, choice.get(end), end) for end in ("low", "high"))
        step = None if choice.get("step") is None else _as_number(name, choice["step"], "step")
        integers = all(isinstance(x, int) for x in (low, high, 1 if step is None else step))
        kind = optuna.distributions.IntDistribution if integers else optuna.distributions.FloatDistribution
        try:
            return kind(low, high, log=bool(choice.get("log")), step=(step or 1) if integers else step)
        except ValueError as problem:
            raise ConfigError(f"{name}: from {low} to {high} is no range: {problem}") from problem
    choices = list(choice) if isinstance(choice, list | tuple) else [choice]
    invalid = [x for x in choices if not (x is None or isinstance(x, bool | int | float | str))]
    if invalid or not choices:
        raise ConfigError(
            f"{name}: {safe_repr(choices)} is nothing to choose from; give a list of numbers or texts, or {{low, high}}"
        )
    return optuna.distributions.CategoricalDistribution(choices)


def _as_number(name: str, x: Any, end: str) -> int | float:
    """A number, also one such as "1e-5", which YAML takes for a text."""
    if isinstance(x, str):
        try:
            return float(x)
        except ValueError:
            pass
    if not is_number(x):
        raise ConfigError(f"{name}: {end} is {safe_repr(x)}; it must be a number")
    return x
