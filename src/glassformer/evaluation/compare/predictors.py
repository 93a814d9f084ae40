"""Predictors: a model, a baseline, a function or a pipeline of another library, each a function of labelled rows.

rows with their labels ──Predictor──> the same rows with what a system predicts, scored as `Scoring` says:

by the task of a model            any task; functions by labels, tags, answers and texts
by the labels of rows             classification, without a model
by the references of rows         summaries and translations of anything that writes
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.rows import Source, read_rows
from glassformer.data.sequence import MissingColumnError, RowSequence
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError, nearest
from glassformer.files import counted, safe_repr
from glassformer.model import Model
from glassformer.tasks.base import Task
from glassformer.tasks.classify.kinds import (
    LabelKind,
    MultiLabel,
    RegressionTarget,
    SingleLabel,
    labels_in,
    name_of,
)
from glassformer.tasks.classify.task import ClassificationTask
from glassformer.tasks.columns import columns_of, parts_of, placed
from glassformer.tasks.generate.long import ChunkAndMerge, Summariser
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.generate.settings import recommended
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapUnion
from glassformer.tasks.seq2seq.generated import ReferenceTask, TextMetrics
from glassformer.tasks.span import AnswerText
from glassformer.tasks.tag.task import Tag
from glassformer.tasks.types import Prediction

Predictor = Callable[[Sequence[Prediction]], Sequence[Prediction]]
"""Gives a prediction for each of some rows, which come as predictions with their label."""
Fields = dict[str, Any]
"""Of a prediction: predicted, correct, and details."""
LEAD = re.compile(r"lead-(\d{1,4})")
"""A baseline of summaries: the first sentences, this many."""
LONGEST = 100_000_000  # bytes of a row: whole books are summarised too
YES = 0.5
"""From which score on a label of several holds."""


class Scores:
    """The predictions of one system, kept without the inputs of their rows to be scored."""

    def __init__(self, metrics: Callable[[Sequence[Prediction]], Bootstrap]) -> None:
        self.metrics = metrics
        self.added: list[Prediction] = []

    def add(self, prediction: Prediction) -> None:
        self.added.append(replace(prediction, row={}))

    def bootstrap(self, rows: int) -> Bootstrap:
        """The scores of the first rows, to be resampled; what came after them is forgotten."""
        del self.added[rows:]
        return self.metrics(self.added)

    def notes(self) -> list[str]:
        """How they are scored, where the metrics do not say it one by one."""
        return []


class TextScores(Scores):
    """The counts of texts: memory does not grow with these."""

    def __init__(self, metrics: TextMetrics) -> None:
        self.counted = [metric for metric, _ in metrics]

    def add(self, prediction: Prediction) -> None:
        for metric in self.counted:
            metric.add(prediction.predicted, prediction.label)

    def bootstrap(self, rows: int) -> Bootstrap:
        for metric in self.counted:
            metric.shorten(rows)
        return BootstrapUnion(*(metric.bootstrap() for metric in self.counted))

    def notes(self) -> list[str]:
        return [metric.method for metric in self.counted]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """What is right for rows, and how predictions of them are scored.

    task: its name
    metric: the main one
    answer: what a function gave for a row → the fields of a prediction
    fresh: makes the scores of a system
    texts: whether texts are generated
    digits: of the metrics that are shown; None = of all that differ
    """

    task: str
    metric: str
    answer: Callable[[Any, Prediction], Fields]
    fresh: Callable[[], Scores]
    texts: bool = False
    digits: dict[str, int] | None = None


def score_by_task(name: str, task: Task) -> Scoring:
    """Score as the task of a model does; its predictions have the labels of rows."""

    def no_answer(output: Any, row: Prediction) -> Fields:
        raise UnsupportedError(f"functions are compared by labels, tags, answers and texts; {name} is none of these")

    answer: Callable[[Any, Prediction], Fields] = no_answer
    if isinstance(task, Tag):
        answer = tag_answer(task.kind.scored_names)
    elif isinstance(task, ClassificationTask):
        answer = label_answer(task.kind)
    elif isinstance(task, (AnswerText, ReferenceTask)):
        answer = text_answer
    texts, fresh = isinstance(task, ReferenceTask), partial(Scores, task.metrics)
    return Scoring(task=name, metric=task.METRIC, answer=answer, fresh=fresh, texts=texts)


def labelled_rows(rows: RowSequence, read: Callable[[Mapping[str, Any]], tuple[Fields, Any]]) -> Iterator[Prediction]:
    """Rows with their labels, by what reads the inputs and the label of one."""
    for index, row in enumerate(rows):
        with placed(rows, index):
            inputs, label = read(row)
        yield Prediction(index=index, where=rows.where(index), row=inputs, label=label, predicted=None)


def read_references(
    data: Source, named: Mapping[str, str], format: Mapping[str, Any], published: bool, without_task: str
) -> tuple[RowSequence, dict[str, str]]:
    """Rows of sources and references, and the column of each role.

    Args:
        named: role → column, where it is not the usual one: an article and its highlights
        format: options of reading files
        published: it is a data set that is read by its name: its columns are called as the roles
        without_task: what errors say of columns, where no task was named
    Raises: ConfigError: no such role. DataError: no such column.
    """
    usual = {"source": "article", "target": "highlights"}
    if published or {*usual} <= {*getattr(data, "columns", ())}:
        usual = {role: role for role in usual}
    try:
        columns = columns_of(usual, named)
    except ConfigError as error:
        raise ConfigError(f"{error}{without_task}") from error
    try:
        return read_rows(data, columns=list(columns.values()), limit=LONGEST, **format), columns
    except MissingColumnError as error:
        role = next(role for role, name in columns.items() if name == error.column)
        remedy = f"; say which one it is: columns={{{role!r}: NAME}}"
        raise DataError(f"{error}{remedy if named else without_task or remedy}") from error


def references_of(columns: Mapping[str, str]) -> Callable[[Mapping[str, Any]], tuple[Fields, list[str]]]:
    """What reads the source and the references of a row, for `labelled_rows`."""

    def read(row: Mapping[str, Any]) -> tuple[Fields, list[str]]:
        texts = {role: parts_of(row, name) for role, name in columns.items()}
        for role, parts in texts.items():
            if not all(part.strip() for part in parts):
                value = safe_repr(row[columns[role]])
                raise DataError(f"{columns[role]!r} is {value}; it must be a text that is not blank")
        return {"source": " ".join(texts["source"])}, texts["target"]

    return read


# ---------------------------------------------------------------------------------------- what functions may give


def text_answer(output: Any, row: Prediction) -> Fields:
    """A text, also as pipelines of Hugging Face transformers give it: {"summary_text": "…"}."""
    if isinstance(output, Mapping):
        output = next((text for key, text in output.items() if key == "answer" or str(key).endswith("_text")), output)
    if not isinstance(output, str):
        raise DataError(f"gave {safe_repr(output)}; it must give a text")
    return {"predicted": output}


def tag_answer(names: Sequence[str]) -> Callable[[Any, Prediction], Fields]:
    """A tag for each word."""

    def answer(output: Any, row: Prediction) -> Fields:
        if not isinstance(output, (list, tuple)) or len(output) != len(row.label) or set(output) - set(names):
            known = ", ".join(names)
            raise DataError(
                f"gave {safe_repr(output)}; it must give {counted(len(row.label), 'tag')}, of these: {known}"
            )
        return {"predicted": list(output), "correct": list(output) == row.label}

    return answer


def label_answer(kind: LabelKind) -> Callable[[Any, Prediction], Fields]:
    """A label, or scores: {"joy": 0.9, "fear": 0.1}, {"label": "joy", "score": 0.9} as of pipelines, or a list of such.

    A number is a label only where the labels are numbers themselves.
    """
    names = ", ".join(kind.names[:10]) + " …" * (len(kind.names) > 10)
    expected = {MultiLabel: f"a list of labels, of these: {names}", RegressionTarget: "a finite number"}

    def answer(output: Any, row: Prediction) -> Fields:
        several = [output] if isinstance(output, Mapping) else output if isinstance(output, (list, tuple)) else []
        scores = {x["label"]: x["score"] for x in several if isinstance(x, Mapping) and {"label", "score"} <= x.keys()}
        if isinstance(output, Mapping) and output and kind.names and set(output) <= set(kind.names):
            scores = {str(name): score for name, score in output.items()}
        for name, score in scores.items():
            if not isinstance(score, (int, float)) or not math.isfinite(score):
                raise DataError(f"gave {safe_repr(name)} the score {safe_repr(score)}; it must be a finite number")
        best = max(scores, key=lambda name: scores[name]) if scores else output
        if scores and isinstance(kind, (MultiLabel, RegressionTarget)):
            best = scores[best] if isinstance(kind, RegressionTarget) else [x for x in scores if scores[x] > YES]
        must = expected.get(type(kind), f"one of: {names}")
        try:
            predicted = kind.value_of(kind.read(best))
        except DataError:
            near = nearest(best, kind.names) if isinstance(best, str) else ""
            raise DataError(f"gave {safe_repr(best)}{near}; it must give {must}") from None
        if isinstance(kind, SingleLabel):
            # Rows may number their labels; the numbers of a function are those of an order that is not known here.
            of_one = labels_in(best, kind.separator) if isinstance(kind, MultiLabel) else [name_of(best)]
            if any(name not in kind.names for name in of_one):
                raise DataError(f"gave {safe_repr(best)}, a number, and the labels are names; it must give {must}")
        correct = None if isinstance(kind, RegressionTarget) else predicted == row.label
        return {"predicted": predicted, "correct": correct, **({"scores": scores} if scores else {})}

    return answer


# --------------------------------------------------------------------------------------------------- predictors


def is_baseline(source: Any, known: Iterable[str] = ()) -> bool:
    """Is it a baseline's name? No name of a model has a space, and most baselines' have; those of a run are known."""
    return isinstance(source, str) and not Path(source).exists() and (source in known or " " in source)


def model_of(source: Any) -> str | Path | Model | None:
    """A model, or the name of one; None = it is lead-N, a function or nothing of these."""
    named = isinstance(source, (str, Path)) and not LEAD.fullmatch(str(source))
    return source if named or isinstance(source, Model) else None


def function_predictor(name: str, function: Callable[[Any], Any], scoring: Scoring) -> Predictor:
    """A function that takes a list of inputs and gives a prediction for each.

    An input is a text; where a row has several, a dict by role: {"question": "…", "context": "…"}.

    Raises: DataError: it fails, or gives too few, too many or other predictions; with the rows that it was given.
    """

    def predict(some: Sequence[Prediction]) -> list[Prediction]:
        where = " to ".join(dict.fromkeys((some[0].where, some[-1].where)))
        if not some[0].row:
            raise UnsupportedError(f"{name} is a function, which reads texts; the rows are none")
        inputs = [next(iter(x.row.values())) if len(x.row) == 1 else dict(x.row) for x in some]
        try:
            outputs = function(inputs)
            if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes, Mapping, Set)):
                outputs = list(islice(outputs, len(some) + 1))  # one more than wanted: a generator may never end
        except Exception as error:
            if isinstance(error, GlassformerError) and not isinstance(error, DataError):
                raise
            kind = "" if isinstance(error, DataError) else f"{type(error).__name__}: "
            raise DataError(f"{name}, for {where}: {kind}{error}") from error
        if not isinstance(outputs, list) or len(outputs) != len(some):
            gave = "more" if isinstance(outputs, list) and len(outputs) > len(some) else safe_repr(outputs)
            raise DataError(f"{name} gave {gave} for {counted(len(some), 'row')} ({where}); it must give one for each")
        made = []
        for x, output in zip(some, outputs, strict=True):
            try:
                fields = scoring.answer(output, x)
            except DataError as error:
                raise DataError(f"{name}, for {x.where}: {error}") from None
            made.append(x.by_baseline(fields.pop("predicted"), fields.pop("correct", None), **fields))
        return made

    return predict


def baseline_predictor(name: str, task: Task, train: RowSequence) -> Predictor:
    """A baseline of a task, such as "bag of words", fitted to training rows. It must be given all rows at once."""

    def predict(some: Sequence[Prediction]) -> Sequence[Prediction]:
        known = []
        for baseline in task.baselines(train, some):
            if baseline.name == name:
                return baseline.predictions
            known.append(baseline.name)
        raise ConfigError(f"there is no baseline {name!r}{nearest(name, known)}; there are: {', '.join(known)}")

    return predict


def generator(
    model: Model,
    task: str,
    name: str,
    *,
    language: str = "en",
    prefix: str | None = None,
    max_new_tokens: int = 60,
    **options: Any,
) -> Summariser:
    """What a model writes, as a function; a document to be summarised that it cannot read at once is merged of chunks.

    An encoder-decoder answers a text. A decoder continues it, so behind a text to be summarised is "TL;DR:".

    Args:
        task: summarization or translation
        name: of the model, for messages
        prefix: what is put before a text; None = what the folder's config.json says for the task
        max_new_tokens, options: as in `model.generate`
    Raises: UnsupportedError: a model that does not write, or that cannot do this. ConfigError: no room for a text.
    """
    if model.task not in ("translation", "text-generation"):
        raise UnsupportedError(f"{name} was loaded for {model.task!r}; to be compared it must write texts")
    continues = model.task == "text-generation"
    if continues and task != "summarization":
        raise UnsupportedError(f"{name} continues texts; for {task} give an encoder-decoder")
    before = recommended(model, task).get("prefix", "") if prefix is None else prefix

    def prompt(text: str) -> str:
        return before + (tldr(text) if continues else text)

    def write(texts: Sequence[str]) -> list[str]:
        written = model.generate([prompt(text) for text in texts], max_new_tokens=max_new_tokens, **options)
        return [text.strip() for text in written]

    limits = [limit for limit in (model.network.max_tokens, model.tokenizer.model_max_length) if limit]
    if task != "summarization" or not limits:
        return write
    framed, text = (model.tokenizer.encode(x, add_special_tokens=False) for x in (prompt("."), "."))
    room = min(limits) - (len(framed) - len(text)) - (max_new_tokens if continues else 0)
    if room < 1:
        raise ConfigError(
            f"{name} reads {min(limits):,} tokens; with {max_new_tokens} new ones there is no room for a text"
        )
    return ChunkAndMerge(write, model.tokenizer, room, language)
