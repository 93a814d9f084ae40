"""A search for settings: trials of a training, each learning from those before it.

    space ──suggest──> settings ──make_trial──> figures ──> the next suggestion
                          └── pruned where validations fall behind those of other trials

All of it is kept in one file, so that a search that was interrupted goes on. What a trial is suggested depends on the
seed, its number and the trials before it: an interrupted search finds what an uninterrupted one would.

Source: Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization" (the tree-structured Parzen estimator);
Golovin et al. 2017, "Google Vizier", section 3.2.2 (stopping at the median); both as Optuna computes them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError, GlassformerError, MissingExtraError, nearest
from glassformer.files import reason
from glassformer.files.parsing import strict
from glassformer.runs.event_log import Journal
from glassformer.training.callbacks import Callback, Training
from glassformer.training.faults import is_out_of_memory
from glassformer.training.stopping import Stopped
from glassformer.training.trials import Direction, Search, Trial

MakeTrial = Callable[[dict[str, Any], Callback], Mapping[str, float]]


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
) -> Search:
    """Try settings until there are so many trials, and find the best.

        def make_trial(settings, watch):
            trainer = Trainer(…, Options(**settings), callbacks=[watch])
            return trainer.train().figures

        search(make_trial, {"learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}, "batch_size": [8, 16, 32]},
               metric="f1", direction="maximize", trials=20, storage="search.log")

    Args:
        make_trial: trains with settings, and gives figures. Its second argument is a callback for the trainer, which
            ends a trial whose validations are worse than half of the others' at that step.
        space: of each setting a list to choose from, `{low, high}` (whole numbers or not, perhaps `log`, `step`), or
            one value that all trials have
        metric: which of the figures counts · direction: "minimize" or "maximize"
        trials: how many there shall be in the file, those of earlier calls among them
        storage: the file that holds them; where it exists, the search goes on · progress: told of each trial
    Returns: all trials; settings that fail (an option that cannot be, no memory) are among them, with the reason.
    Raises: ConfigError: a space that is none, or a file that holds another search. DataError: the file cannot be read.
        MissingExtraError: Optuna is not installed.
    """
    optuna = _optuna()
    if direction not in ("minimize", "maximize"):
        raise ConfigError(f"direction is {direction!r}; it must be 'minimize' or 'maximize'")
    if trials < 1:
        raise ConfigError(f"trials is {trials}; try at least 1")
    distributions = {name: _distribution(optuna, name, choice) for name, choice in space.items()}
    said = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = _study(optuna, Path(storage), direction)
        about = {"space": dict(space), "metric": metric, "direction": direction, "seed": seed}
        _check_same(study, about, storage)
        _give_up_cut_ones(optuna, study)
        while (done := len(_counted(study))) < trials:
            study.sampler = optuna.samplers.TPESampler(seed=_mixed(seed, done))
            _run(optuna, study, study.ask(distributions), make_trial, metric)
            progress(_counted(study)[-1])
        return Search(metric, direction, _counted(study))
    finally:
        optuna.logging.set_verbosity(said)


# ------------------------------------------------------------------------------------------- one trial


class _PrunedError(Exception):
    """This trial has fallen behind."""


class _NoFigureError(ConfigError):
    """Trials do not give the figure that was asked for."""


class _Watch(Callback):
    """Reports a trial's validations, and ends it where they are worse than half of the others' at that step."""

    def __init__(self, trial: Any, metric: str) -> None:
        self.trial, self.metric = trial, metric
        self.figures: dict[str, float] = {}

    def on_validation(self, trainer: Training, figures: Mapping[str, float]) -> None:
        self.figures = dict(figures)
        value = _figure(figures, self.metric)
        if math.isfinite(value):
            self.trial.report(value, trainer.state.step)
            if self.trial.should_prune():
                raise _PrunedError


def _run(optuna: Any, study: Any, trial: Any, make_trial: MakeTrial, metric: str) -> None:
    """One trial; an error that is not due to its settings ends the search."""
    watch, begun = _Watch(trial, metric), time.perf_counter()
    states = optuna.trial.TrialState
    state, value, error = states.FAIL, None, None
    try:
        watch.figures = dict(make_trial(dict(trial.params), watch))
        last = _figure(watch.figures, metric)
        if math.isfinite(last):
            state, value = states.COMPLETE, last
        else:
            error = f"{metric} is {last}"
    except _PrunedError:
        state = states.PRUNED
    except Exception as problem:
        if isinstance(problem, _NoFigureError) or not _due_to_settings(problem):
            raise
        error = " ".join(f"{type(problem).__name__}: {problem}".split())[:500]
    finally:  # also after Ctrl-C: a trial without an error that failed counts for nothing, and is tried again
        seconds = time.perf_counter() - begun
        trial.set_user_attr("told", strict({"figures": watch.figures, "error": error, "seconds": seconds}))
        study.tell(trial, value, state=state)


def _figure(figures: Mapping[str, float], metric: str) -> float:
    if metric not in figures:
        raise _NoFigureError(f"a trial gives no figure {metric!r}; it gives {', '.join(figures) or 'none'}")
    return float(figures[metric])


def _due_to_settings(problem: Exception) -> bool:
    """Options that cannot be, a loss that became no number, or no memory: others may do better."""
    stopped = isinstance(problem, Stopped)
    return is_out_of_memory(problem) or (isinstance(problem, GlassformerError) and not stopped)


# -------------------------------------------------------------------------------------------- the study


def _study(optuna: Any, path: Path, direction: Direction) -> Any:
    """The file of trials, made where it is missing: a log of what was asked and told."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size and b'"op_code"' not in path.read_bytes()[:200]:
            raise DataError(f"{path}: is no file of a search; choose another place for it")
        Journal(path).close()  # drops a last line that a kill has cut, which Optuna would write on
        backend = JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path)))
        return optuna.create_study(
            study_name="search",
            storage=JournalStorage(backend),
            direction=direction,
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(),
        )
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: the trials cannot be kept here: {reason(problem)}") from problem


def _check_same(study: Any, about: dict[str, Any], storage: str | Path) -> None:
    """A file holds one search: in another space its trials would say something else.

    Raises: ConfigError: what differs.
    """
    wanted = json.loads(json.dumps(about))
    if "about" not in study.user_attrs:
        study.set_user_attr("about", wanted)
    kept = study.user_attrs["about"]
    for name, value in wanted.items():
        if kept[name] != value:
            raise ConfigError(
                f"{storage}: holds another search: its {name} is {json.dumps(kept[name])}, not {json.dumps(value)}; "
                "choose another file"
            )


def _give_up_cut_ones(optuna: Any, study: Any) -> None:
    """Trials that a kill has cut are over; they count for nothing."""
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _counted(study: Any) -> list[Trial]:
    """The trials that came to an end of their own, numbered from 0."""
    kinds = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    told = [(each, each.user_attrs.get("told", {})) for each in study.trials]
    ended = [(each, said) for each, said in told if each.state.name != "FAIL" or said.get("error")]
    return [
        Trial(
            number=place,
            settings=dict(each.params),
            figures={name: float(x) for name, x in said["figures"].items()},
            state=kinds[each.state.name],  # type: ignore[arg-type]
            seconds=said["seconds"],
            error=said["error"],
        )
        for place, (each, said) in enumerate(ended)
    ]


def _distribution(optuna: Any, name: str, choice: Any) -> Any:
    """What a setting is drawn from.

    Raises: ConfigError: nothing that one could draw from.
    """
    known = ("low", "high", "log", "step")
    if isinstance(choice, Mapping):
        wrong = [key for key in choice if key not in known]
        if wrong:
            raise ConfigError(f"{name}: {wrong[0]!r} is no part of a range{nearest(str(wrong[0]), known)}")
        low, high = (_as_number(name, choice.get(end), end) for end in ("low", "high"))
        step = None if choice.get("step") is None else _as_number(name, choice["step"], "step")
        whole = all(isinstance(x, int) for x in (low, high, 1 if step is None else step))
        kind = optuna.distributions.IntDistribution if whole else optuna.distributions.FloatDistribution
        try:
            return kind(low, high, log=bool(choice.get("log")), step=(step or 1) if whole else step)
        except ValueError as problem:
            raise ConfigError(f"{name}: from {low} to {high} is no range: {problem}") from problem
    choices = list(choice) if isinstance(choice, list | tuple) else [choice]
    odd = [x for x in choices if not (x is None or isinstance(x, bool | int | float | str))]
    if odd or not choices:
        raise ConfigError(
            f"{name}: {choices!r} is nothing to choose from; give a list of numbers or texts, or {{low, high}}"
        )
    return optuna.distributions.CategoricalDistribution(choices)


def _as_number(name: str, x: Any, end: str) -> int | float:
    """A number, also one such as "1e-5", which YAML takes for a text."""
    if isinstance(x, str):
        try:
            return float(x)
        except ValueError:
            pass
    if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
        raise ConfigError(f"{name}: {end} is {x!r}; it must be a number")
    return x


def _mixed(seed: int, number: int) -> int:
    """A seed for each trial, so that what it is suggested does not hang on where the search was interrupted."""
    import numpy as np

    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("optuna", "search", "a search for settings") from error
    return optuna
