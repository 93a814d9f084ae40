"""How a task is judged: what is said of each row, what of it is right, and what it takes to be better than.

    Judge.records     the model is asked about each row
    Judge.judged      records → figures of any sample of them
    Judge.baselines   what else could answer, by name; their answers are judged in the same way

A task is a class here and a line in `JUDGES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import shown
from glassformer.model import Model
from glassformer.tasks.base import Objective, Rows
from glassformer.tasks.metrics.bootstrap import Sampled
from glassformer.tasks.predictions import Record

JUDGES = {
    "classify": "classify.evaluator.ClassifyJudge",
    "tag": "tag.evaluator.TagJudge",
    "answer": "span.evaluator.AnswerJudge",
    "generate": "causal.evaluator.LanguageJudge",
    "instruct": "causal.evaluator.AnswersJudge",
    "fill": "masked.evaluator.MaskedJudge",
    "translate": "seq2seq.evaluator.TranslateJudge",
    "summarise": "seq2seq.evaluator.SummariseJudge",
}
"""A task of `glassformer train` → the module and class in `judges/`."""


@dataclass(frozen=True)
class Baseline:
    """Something simple that answers the same rows.

    name: such as "most frequent" · about: how it does so, in half a sentence
    records: as the model's, with what it said; their order is the same
    """

    name: str
    about: str
    records: Sequence[Record]


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Figures of each class, label or type of entity by name, and for classes what was taken for what.

    names: of the classes, labels or tags, by number
    each: name, or type of entity → precision, recall, f1, support; None where a figure is not defined, because nothing
        is true or said
    confusion: rows are what is true, columns what was said, in the order of `names`; None where a row has no one class
    """

    names: list[str]
    each: dict[str, dict[str, float | None]]
    confusion: list[list[int]] | None = None


class Judge(ABC):
    """The judge of a task.

    METRIC: the figure that matters most · HIGHER: whether more of it is better
    body: gives the model that the training began with, where somebody knows it: baselines may use its vectors

    Args:
        objective: of the model that is judged; it reads the rows as in training
        options: of the task, such as `beams` where texts are written
    """

    METRIC: str
    HIGHER: bool = True
    body: Callable[[], Model] | None = None

    def __init__(self, objective: Objective, **options: Any) -> None:
        self.objective = objective
        self.model = objective.model

    @abstractmethod
    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        """What the model says of each row, in their order.

        Raises: DataError: a row that cannot be judged, with its file and line.
        """

    @abstractmethod
    def judged(self, records: Sequence[Record]) -> Sampled:
        """Figures of what was said."""

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        """What simple means say of the same rows, having seen the rows that the model learnt from, if there are any."""
        yield from ()

    def classes(self, records: Sequence[Record]) -> Classes | None:
        """Figures of each class, for tasks that have classes."""
        return None

    def notes(self, records: Sequence[Record]) -> list[str]:
        """What should be known beside the figures: classes that no row has, answers that were cut, …"""
        return []


def check_task(task: str) -> None:
    """Raises: UnsupportedError: a task of `glassformer train` that has no judge."""
    if task not in JUDGES:
        raise UnsupportedError(
            f"the task {shown(task)} cannot be judged{nearest(task, JUDGES)}; those that can: {', '.join(JUDGES)}"
        )


def judge_of(task: str, objective: Objective, **options: Any) -> Judge:
    """The judge of a task of `glassformer train`.

    Raises: UnsupportedError: it has none. ConfigError: it has no such option.
    """
    check_task(task)
    module, _, name = JUDGES[task].rpartition(".")
    kind: type[Judge] = getattr(import_module(f"glassformer.tasks.{module}"), name)
    known = [p.name for p in signature(kind).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise ConfigError(
                f"{shown(option)} is no option of judging {task!r}{nearest(option, known)}; "
                f"allowed: {', '.join(known) or 'none'}"
            )
    return kind(objective, **options)


OBJECTIVES = {
    "classify": "classify.task.Classify",
    "tag": "tag.task.Tag",
    "answer": "span.task.Answer",
    "generate": "causal.task.Causal",
    "instruct": "causal.task.Answers",
    "fill": "masked.task.Masked",
    "translate": "seq2seq.task.SequenceToSequence",
    "summarise": "seq2seq.task.SequenceToSequence",
    "next-sentence": "pretrain.NextSentence",
    "pre-train": "pretrain.PreTraining",
    "denoise": "seq2seq.denoise.Denoising",
    "gap-sentences": "seq2seq.denoise.GapSentences",
    "span-corruption": "seq2seq.denoise.SpanCorruption",
}
"""What can be learnt → the module and class in `objectives/`."""


def objective_class(task: str) -> type[Objective]:
    """What is learnt, by name."""
    module, _, name = OBJECTIVES[task].rpartition(".")
    found: type[Objective] = getattr(import_module(f"glassformer.tasks.{module}"), name)
    return found
