"""Our scores of the book's chapters: from trained runs, from data, and from small examples."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.json_rows import parse_json
from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import DataError
from glassformer.evaluation.book.reproduce import DataFolders
from glassformer.evaluation.compare.costs import measure_latency, read_cost
from glassformer.evaluation.compare.seeds import Mean, mean_of
from glassformer.evaluation.evaluate import REPORT
from glassformer.evaluation.report import EvaluationReport
from glassformer.evaluation.runs import VALIDATION, TrainedRun, open_run
from glassformer.files import error_reason, safe_repr
from glassformer.runs.folder import CONFIG, seed_folders
from glassformer.tasks.metrics.bleu import Bleu, bleu
from glassformer.tasks.metrics.entities import EntityRuns

ComputeScore = Callable[[DataFolders], float | Mean]
MEBIBYTE = 2**20  # the chapter's "megabyte"


# ------------------------------------------------------------------------------------------- from trained runs


def find_runs(folders: DataFolders, name: str, command: str) -> list[TrainedRun]:
    """Find the runs of a name, one, or one for each seed; of several sizes, `name-2000`, the largest.

    Args: command: that trains them
    Raises: DataError: there is none.
    """
    path = folders.runs / name
    sized = [
        sibling
        for sibling in path.parent.glob(f"{path.name}-*")
        if sibling.name.removeprefix(f"{path.name}-").isdigit()
    ]
    sized.sort(key=lambda sibling: int(sibling.name.rpartition("-")[2]), reverse=True)
    for folder in (path, *sized):
        if of_seeds := seed_folders(folder):
            return [open_run(seed) for seed in of_seeds]
        if (folder / CONFIG).is_file():
            return [open_run(folder)]
    raise DataError(f"there is no run in {path} yet; train it: {command}")


def load_reports(folders: DataFolders, name: str, split: str, command: str) -> list[EvaluationReport]:
    """The reports of runs on a split; on their own validation rows they are evaluated now where needed.

    Raises: DataError: no runs, or not evaluated on that split.
    """
    reports = []
    for run in find_runs(folders, name, command):
        path = run.ensure_evaluated() if split == VALIDATION else run.evaluation_folder(split)
        if not (path / REPORT).is_file():
            raise DataError(f"{run.folder} was not evaluated on {split} yet; {command}")
        reports.append(EvaluationReport.load(path / REPORT))
    return reports


def run_score(name: str, metric: str, split: str = VALIDATION, command: str = "") -> ComputeScore:
    """A metric of a run, or its mean over seeds."""

    def ours(folders: DataFolders) -> Mean:
        reports = load_reports(folders, name, split, command or train_command(name))
        return mean_of([_named_metric(report.metrics, metric, report.name).value for report in reports])

    return ours


def baseline_score(name: str, word: str, metric: str) -> ComputeScore:
    """A metric of the baseline whose name has a word."""

    def ours(folders: DataFolders) -> Mean:
        values = []
        for report in load_reports(folders, name, VALIDATION, train_command(name)):
            matches = [x for baseline, x in report.baselines.items() if word in baseline]
            if not matches:
                raise DataError(
                    f"{name} was evaluated without a baseline of {word}; run glassformer evaluate"
                )
            values.append(_named_metric(matches[0].metrics, metric, report.name).value)
        return mean_of(values)

    return ours


def model_size(name: str) -> ComputeScore:
    """Size of a run's model on disk, in MB."""

    def ours(folders: DataFolders) -> float:
        size = read_cost(find_runs(folders, name, train_command(name))[0].folder).bytes
        if size is None:
            raise DataError(f"{folders.runs / name}: holds no model")
        return size / MEBIBYTE

    return ours


def run_latency(name: str) -> ComputeScore:
    """Latency of one row in milliseconds, measured now."""

    def ours(folders: DataFolders) -> float:
        run = find_runs(folders, name, train_command(name))[0]
        rows = run.splits[1]
        if rows is None:
            raise DataError(f"{run.folder}: has no validation rows")
        return measure_latency(run.task_for_evaluation(), rows).mean

    return ours


def train_command(name: str) -> str:
    """The command that trains a run."""
    return f"glassformer train examples/{name}.yaml"


def _named_metric(metrics: Any, name: str, of: str) -> Any:
    if name not in metrics:
        raise DataError(f"the report of {of} has no {name}; it has {', '.join(metrics)}")
    return metrics[name]


# -------------------------------------------------------------------------------------------------- from data


@lru_cache(maxsize=1)
def _read_emotion(data: Path) -> tuple[RowSequence, RowSequence]:
    """The tweets of training and validation."""
    train, validation = (
        read_rows(
            str(data / "emotion" / name),
            kind="csv",
            delimiter=";",
            quotes=False,
            header=False,
            names=["text", "label"],
        )
        for name in ("train.txt.gz", "val.txt")
    )
    return train, validation


def tweet_count(split: int) -> ComputeScore:
    """Number of tweets: 0 = training, 1 = validation."""
    return lambda folders: float(len(_read_emotion(folders.data)[split]))


def emotion_count(folders: DataFolders) -> float:
    """Number of classes of the tweets."""
    return float(len({row["label"] for row in _read_emotion(folders.data)[0]}))


def majority_accuracy(folders: DataFolders) -> float:
    """Accuracy of the majority class of training."""
    train, validation = _read_emotion(folders.data)
    majority = Counter(row["label"] for row in train).most_common(1)[0][0]
    return float(np.mean([row["label"] == majority for row in validation]))


def sentence_count(file: str) -> ComputeScore:
    """Number of sentences in a file of tagged tokens."""
    return lambda folders: float(len(read_rows(str(folders.data / file))))


@lru_cache(maxsize=1)
def _read_intents(data: Path) -> dict[str, list[list[str]]]:
    path = data / "clinc150" / "data.json.gz"
    try:
        splits: dict[str, list[list[str]]] = parse_json(_gunzip(path))
        return {split: splits[split] for split in ("train", "val", "oos_train", "oos_val")}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is not the expected CLINC150: {safe_repr(str(error))}") from error


def query_count(*splits: str) -> ComputeScore:
    """Number of queries in some splits of CLINC150."""
    return lambda folders: float(sum(len(_read_intents(folders.data)[split]) for split in splits))


def intent_count(folders: DataFolders) -> float:
    """Number of intents in CLINC150."""
    return float(len({intent for _, intent in _read_intents(folders.data)["train"]}))


def review_count(split: str) -> ComputeScore:
    """Number of pairs of a question and a review; several rows of a pair are several annotators."""

    def ours(folders: DataFolders) -> float:
        text = _gunzip(folders.data / "subjqa_electronics" / f"{split}.csv.gz")
        return float(len({row["q_review_id"] for row in csv.DictReader(io.StringIO(text, newline=""))}))

    return ours


def _gunzip(path: Path) -> str:
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        what = error_reason(error) if isinstance(error, OSError) else str(error)
        raise DataError(f"{path}: cannot be read: {what}") from error


# --------------------------------------------------------------------------------------------- small examples


REFERENCE = "the cat is on the mat"


def bleu_of(text: str, smoothing: str = "exp") -> Bleu:
    """BLEU of a text against `REFERENCE`."""
    return bleu([text], [REFERENCE], smoothing=smoothing)


def entity_f1(_: DataFolders) -> float:
    """F1 of a MISC that begins one token too early, and a correct PER: one entity of two is right."""
    names = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER"]
    true = ["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER", "O"]
    predicted = ["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER", "O"]
    ours, theirs = (np.array([names.index(tag) for tag in tags]) for tags in (predicted, true))
    counts = EntityRuns(names).compared(ours, theirs, np.repeat([0, 1], [7, 3]))
    hits, predicted_count, true_count = (int(counts[name].sum()) for name in ("hits", "predicted", "true"))
    return 2 * hits / (predicted_count + true_count)


def unavailable(explanation: str) -> ComputeScore:
    """A score that cannot be computed here, and why."""

    def ours(_: DataFolders) -> float:
        raise DataError(explanation)

    return ours
