"""Reproduction of published scores: chapters of "Natural Language Processing with Transformers" next to ours.

    what               book   notebook   ours     difference
    F1, fine-tuned     0.91   0.9226     …        …              the same data, another model: the reason is below

Published scores are in `published_scores.yaml`; ours are never stored: they are computed from data, or read from
trained runs. Where a run or data are missing, the row says what to do. The target is the score of the book; that of its
public notebook, where it differs, is the centre of the tolerance.

Source: Tunstall, von Werra and Wolf, Natural Language Processing with Transformers (2022), and its public notebooks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.evaluation.compare.costs import measure_latency, read_cost
from glassformer.evaluation.compare.seeds import Mean, mean_of
from glassformer.evaluation.evaluate import REPORT, EvaluationReport
from glassformer.evaluation.runs import VALIDATION, TrainedRun, open_run
from glassformer.files import read_json_object
from glassformer.hub.data_sets import data_file, data_folder
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.runs.folder import CONFIG, RESULTS, read_config, seed_folders
from glassformer.tasks.metrics.answers import exact_match, word_f1
from glassformer.tasks.metrics.bleu import bleu
from glassformer.tasks.metrics.entities import EntityRuns
from glassformer.text.sentences import split_sentences

PUBLISHED = Path(__file__).parent / "published_scores.yaml"
TRAIN = "glassformer train examples/{name}.yaml"


@dataclass(frozen=True)
class DataFolders:
    """The folders to read from.

    data: of data sets
    runs: of runs
    """

    data: Path
    runs: Path


@dataclass(frozen=True, kw_only=True)
class PublishedScore:
    """A published score: an entry of `published_scores.yaml`, where its keys are explained."""

    id: str
    what: str
    ours: Callable[[DataFolders], float | Mean]
    book: float | None = None
    notebook: float | None = None
    tolerance: float = 0.0
    why: str = ""
    digits: int = 3

    def reproduce(self, folders: DataFolders) -> ReproducedScore:
        """This score next to ours."""
        target = self.book if self.book is not None else self.notebook
        centre = self.notebook if self.notebook is not None else self.book
        assert target is not None and centre is not None
        known = {name: x for name, x in vars(self).items() if name not in ("ours", "why")}
        try:
            result = self.ours(folders)
        except GlassformerError as error:
            return ReproducedScore(**known, missing=str(error))
        mean = result if isinstance(result, Mean) else Mean(float(result))
        return ReproducedScore(
            **known,
            ours=mean.value,
            half=mean.half,
            difference=mean.value - target,
            # the slack is for decimals that binary fractions cannot hold: 0.93 - 0.91 is a little above 0.02
            within=abs(mean.value - centre) <= self.tolerance + 1e-12,
            why=self.why,
        )


@dataclass(frozen=True, kw_only=True)
class ReproducedScore:
    """A published score next to ours; fields as in `PublishedScore`.

    half: half the width of the 95% interval over seeds
    within: the tolerance
    missing: what ours needs, where it cannot be computed yet
    """

    id: str
    what: str
    book: float | None
    notebook: float | None
    tolerance: float
    digits: int
    ours: float | None = None
    half: float | None = None
    difference: float | None = None
    within: bool | None = None
    why: str = ""
    missing: str | None = None

    def cells(self) -> list[str]:
        """The cells of the table."""
        published = ("" if x is None else f"{x:.{self.digits}f}" for x in (self.book, self.notebook))
        ours = "" if self.ours is None else Mean(self.ours, self.half).written(self.digits)
        marker = " !" if self.within is False else ""
        gap = "–" if self.difference is None else f"{self.difference:+z.{self.digits}f}{marker}"
        return [self.what, *published, ours, gap]


@dataclass(frozen=True, kw_only=True, repr=False)
class Reproduction(Report, kind="reproduction"):
    """The published scores of a chapter next to ours."""

    chapter: str
    title: str
    rows: list[ReproducedScore]

    def tables(self) -> list[Table]:
        """A table with one row a score."""
        return [Table(["", "book", "notebook", "ours", "difference"], [row.cells() for row in self.rows])]

    @property
    def caption(self) -> str:
        return (
            f"Chapter {self.chapter}, {self.title}: differences are to the book's score, where it names one; "
            "! is beyond the tolerance"
        )

    @property
    def notes(self) -> list[str]:
        """Why scores differ, and what missing ones need: each reason once, with its rows."""
        rows_of: dict[str, list[str]] = {}
        for row in self.rows:
            note = row.missing if row.ours is None else row.why if row.within is False else None
            if note:
                rows_of.setdefault(note, []).append(row.what)
        return [f"{'; '.join(rows)}: {note}" for note, rows in rows_of.items()]


def reproduce(
    chapter: str, *, data: str | Path | None = None, runs: str | Path, progress: Callable[[str], None] | None = None
) -> Reproduction:
    """Reproduce the published scores of a chapter.

    Args:
        data: the folder of data sets, None = that of `glassformer data fetch`
        runs: the folder of runs
        progress: called with the name of each score
    Raises: ConfigError: a chapter without scores.
    """
    chapters = read_config(PUBLISHED)
    if chapter not in chapters:
        raise ConfigError(f"no scores of chapter {chapter!r}; there are those of {', '.join(chapters)}")
    folders, rows = DataFolders(data_folder() if data is None else Path(data), Path(runs)), []
    for entry in chapters[chapter]["scores"]:
        if progress is not None:
            progress(entry["what"])
        rows.append(published_score(entry).reproduce(folders))
    return Reproduction(chapter=chapter, title=chapters[chapter]["title"], rows=rows)


def published_score(entry: Mapping[str, Any]) -> PublishedScore:
    """An entry of `published_scores.yaml`, with the function that computes ours."""
    values = dict(entry)
    name, *arguments = values.pop("ours", None) or ("unavailable", values.pop("missing"))
    return PublishedScore(ours=lambda folders: OURS[name](folders, *arguments), **values)


# ------------------------------------------------------------------------------------------- from trained runs


def find_runs(folders: DataFolders, name: str, command: str = TRAIN) -> list[TrainedRun]:
    """Find the runs of a name, one, or one for each seed; of several sizes, `name-2000`, the largest.

    Args:
        command: that trains them
    Raises: DataError: there is none.
    """
    path = folders.runs / name
    sizes = (sibling.name.removeprefix(f"{path.name}-") for sibling in path.parent.glob(f"{path.name}-*"))
    sized = sorted((size for size in sizes if size.isdigit()), key=int, reverse=True)
    for folder in (path, *(path.with_name(f"{path.name}-{size}") for size in sized)):
        if of_seeds := seed_folders(folder):
            return [open_run(seed) for seed in of_seeds]
        if (folder / CONFIG).is_file():
            return [open_run(folder)]
    raise DataError(f"there is no run in {path} yet; train it: {command.format(name=name)}")


def load_reports(
    folders: DataFolders, name: str, split: str = VALIDATION, command: str = TRAIN
) -> list[EvaluationReport]:
    """The reports of runs on a split; on their own validation rows they are evaluated now where needed.

    Raises: DataError: no runs, or not evaluated on that split.
    """
    reports = []
    for run in find_runs(folders, name, command):
        path = run.ensure_evaluated() if split == VALIDATION else run.evaluation_folder(split)
        if not (path / REPORT).is_file():
            raise DataError(f"{run.folder} was not evaluated on {split} yet: {command.format(name=name)}")
        reports.append(EvaluationReport.load(path / REPORT))
    return reports


def run_score(folders: DataFolders, name: str, metric: str, *split_and_command: str) -> Mean:
    """A metric of a run, or its mean over seeds; `split_and_command`: as in `load_reports`."""
    reports = load_reports(folders, name, *split_and_command)
    return mean_of([_named_metric(report.metrics, metric, report.name) for report in reports])


def baseline_score(folders: DataFolders, name: str, word: str, metric: str) -> Mean:
    """A metric of the baseline whose name has a word."""
    values = []
    for report in load_reports(folders, name):
        matches = [x for baseline, x in report.baselines.items() if word in baseline]
        if not matches:
            raise DataError(f"{name} was evaluated without a baseline of {word}; run glassformer evaluate")
        values.append(_named_metric(matches[0].metrics, metric, report.name))
    return mean_of(values)


def model_size(folders: DataFolders, name: str) -> float:
    """Size of a run's model on disk, in MB."""
    size = read_cost(find_runs(folders, name)[0].folder).bytes
    if size is None:
        raise DataError(f"{folders.runs / name}: holds no model")
    return size / 2**20  # the chapter's "megabyte"


def variant_figure(folders: DataFolders, study: str, variant: str, name: str) -> float:
    """A metric or a cost of a variant of `glassformer shrink`: accuracy, megabytes on disk, milliseconds a row.

    Raises: DataError: it was not made yet.
    """
    path = folders.runs / study / RESULTS["cell"]
    if not path.is_file():
        raise DataError(f"there is no {path} yet; make it: glassformer shrink examples/{study}.yaml")
    points = [x for x in read_json_object(path, DataError)["points"] if x["levels"].get("variant") == variant]
    if not points:
        raise DataError(f"{path}: has no variant {variant} yet; make it: glassformer shrink examples/{study}.yaml")
    values = {**points[0]["metrics"], **points[0]["costs"]}
    if name not in values:
        raise DataError(f"{path}: {variant} has no {name}; it has {', '.join(values)}")
    value = float(values[name]["value"])
    return value / 2**20 if name == "bytes" else value  # the chapter's "megabyte"


def run_latency(folders: DataFolders, name: str) -> float:
    """Latency of one row in milliseconds, measured now."""
    run = find_runs(folders, name)[0]
    rows = run.splits[1]
    if rows is None:
        raise DataError(f"{run.folder}: has no validation rows")
    return measure_latency(run.task_for_evaluation(), rows).mean


def _named_metric(metrics: Mapping[str, Any], name: str, of: str) -> float:
    if name not in metrics:
        raise DataError(f"the report of {of} has no {name}; it has {', '.join(metrics)}")
    return float(metrics[name].value)


# -------------------------------------------------------------------------------------------------- from data


@lru_cache(maxsize=1)
def _read_emotion(data: Path) -> tuple[RowSequence, RowSequence]:
    """The tweets of training and validation."""
    train, validation = (data_file(data, f"emotion/{name}") for name in ("train.txt.gz", "val.txt"))
    return read_rows(train, kind="emotion"), read_rows(validation, kind="emotion")


def majority_accuracy(folders: DataFolders) -> float:
    """Accuracy of the majority class of training."""
    train, validation = _read_emotion(folders.data)
    majority = Counter(row["label"] for row in train).most_common(1)[0][0]
    return float(np.mean([row["label"] == majority for row in validation]))


@lru_cache(maxsize=8)
def _read_intents(data: Path, *splits: str) -> RowSequence:
    """The queries of CLINC150 in some splits, with their intents."""
    return read_rows(data_file(data, "clinc150/data.json.gz"), kind="clinc150", part=splits)


def review_count(folders: DataFolders, split: str) -> int:
    """Number of pairs of a question and a review; several rows of a pair are several annotators."""
    rows = read_rows(data_file(folders.data, f"subjqa_electronics/{split}.csv.gz"), kind="subjqa_electronics")
    return len({row["id"] for row in rows})


# --------------------------------------------------------------------------------------------- small examples


def bleu_part(_: DataFolders, part: str, text: str, smoothing: str = "exp") -> float:
    """BLEU of a text against the chapter's reference, its precision of 1-grams, or its brevity penalty."""
    result = bleu([text], ["the cat is on the mat"], smoothing=smoothing)
    if part == "brevity_penalty":
        return result.brevity_penalty
    return result.precisions[0] if part == "unigrams" else result.score.value


def entity_f1(_: DataFolders) -> float:
    """F1 of a MISC that begins one token too early, and a correct PER: one entity of two is right."""
    names = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER"]
    true = ["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER", "O"]
    predicted = ["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O", "B-PER", "I-PER", "O"]
    ours, theirs = (np.array([names.index(tag) for tag in tags]) for tags in (predicted, true))
    items = EntityRuns(names).items(theirs, ours, np.repeat([0, 1], [7, 3]))
    hits, predicted_count, true_count = (len(items[name][1]) for name in ("hits", "predicted", "true"))
    return 2 * hits / (predicted_count + true_count)


def unavailable(_: DataFolders, explanation: str) -> float:
    """A score that cannot be computed here, and why."""
    raise DataError(explanation)


OURS: Mapping[str, Callable[..., float | Mean]] = {
    **{function.__name__: function for function in (run_score, baseline_score, model_size, run_latency)},
    "variant_figure": variant_figure,
    **{function.__name__: function for function in (majority_accuracy, review_count, bleu_part, entity_f1)},
    # split: 0 = training, 1 = validation
    "tweet_count": lambda folders, split: len(_read_emotion(folders.data)[split]),
    "tweet_classes": lambda folders: len({row["label"] for row in _read_emotion(folders.data)[0]}),
    "row_count": lambda folders, file: len(read_rows(str(data_file(folders.data, file)))),
    "query_count": lambda folders, *splits: len(_read_intents(folders.data, *splits)),
    "intent_count": lambda folders: len({row["label"] for row in _read_intents(folders.data, "train")}),
    "exact_match": lambda _, text, answer: exact_match(text, [answer]),
    "word_f1": lambda _, text, answer: word_f1(text, [answer]),
    "sentence_count": lambda _, text: len(split_sentences(text)),
    "unavailable": unavailable,
}
"""The functions that `published_scores.yaml` names; each takes the folders and the arguments that are there."""
