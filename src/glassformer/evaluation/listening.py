"""What a model of sound listens to: rows of a run, or audio files."""

from __future__ import annotations

from pathlib import Path

from glassformer.data.rows import read_rows
from glassformer.data.sequence import RowSequence
from glassformer.errors import ConfigError
from glassformer.evaluation.options import ListeningOptions
from glassformer.evaluation.runs import load_trained_model, open_run
from glassformer.runs.data import sample_rows
from glassformer.runs.folder import CONFIG, no_run
from glassformer.tasks.base import Task, task_class

AUDIO = (".wav", ".flac", ".mp3", ".m4a", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".webm")


def heard_rows(run: str, options: ListeningOptions) -> tuple[Task, RowSequence]:
    """The task with its model, and the rows that `Task.listen` is for: a random sample, as many as options say.

    Args:
        run: its folder; with a task, a model's folder or name on the Hub
    Raises: ConfigError: no run, and no task. Else as `open_run` and `read_rows`.
    """
    task, rows = _task_and_rows(run, options)
    return task, sample_rows(rows, count=options.rows, seed=options.seed)


def _task_and_rows(run: str, options: ListeningOptions) -> tuple[Task, RowSequence]:
    reading = None if options.format is None else dict(options.format)
    if options.task is None:
        if not Path(run, CONFIG).is_file():
            problem = no_run(run, "is no run") if Path(run).exists() else f"{run}: is no run"
            raise ConfigError(f"{problem}; give the task of the model, such as task= reconstruct")
        opened = open_run(run, device=options.device)
        task = opened.task
        return task, _audio_rows(task, options) or opened.read_rows(list(options.data) or None, format=reading)
    kind = task_class(options.task)
    task = kind(load_trained_model(run, options.task, options.device or "cpu"))
    if options.data:
        return task, _audio_rows(task, options) or read_rows(list(options.data), **(reading or {}))
    raise ConfigError(f"{run} is no run, so it has no rows of its own; give sounds to listen to: data= FILE.wav")


def _audio_rows(task: Task, options: ListeningOptions) -> RowSequence | None:
    """The rows of `data`, where it names audio files."""
    files = options.data
    if not files or not all(name.lower().endswith(AUDIO) for name in files):
        return None
    column = task.columns.get("file") or task.columns["source"]  # of pairs, what is converted
    return read_rows([{column: name} for name in files])
