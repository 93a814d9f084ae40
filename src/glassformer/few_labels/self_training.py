"""Uncertainty-aware self-training: a teacher labels unlabelled texts, and a student learns from those it is certain of.

    labelled ──> teacher ──passes with dropout──> mean: pseudo-labels      spread: uncertainty  ──the least──> student
                    ↑                                                                                               │
                    └────── the next round's teacher; where texts are held out, if its loss there is lower ─────────┘

    uncertainty     H(mean of p) − mean of H(p): what passes disagree about (BALD); of each label the least are learned

Source: Mukherjee and Awadallah 2020, "Uncertainty-aware Self-training for Text Classification with Few Labels"; Gal and
Ghahramani 2016, "Dropout as a Bayesian Approximation"; Houlsby et al. 2011 (BALD).
Differs: the source samples texts, certain ones more often; with 32 labels of six emotions, a third of the pseudo-labels
that it draws are right, and half of those of the most certain texts. The student's loss does not weigh texts by their
variance as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from glassformer.core.flow import Output
from glassformer.few_labels.fine_tuning import (
    ONE_STEP,
    TINY,
    FineTuningOptions,
    fine_tune,
    fine_tuned,
    held_out_loss,
    new_classifier,
    scores_of,
    scores_of_examples,
    shown_loss,
)
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.few_labels.thresholds import best_thresholds
from glassformer.files.schema import Count, Doc
from glassformer.reports.table import Table
from glassformer.tasks.classify.kinds import THRESHOLD
from glassformer.tasks.classify.scorer import decide
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.types import MicroBatch


@dataclass(frozen=True, kw_only=True)
class SelfTrainingOptions(FineTuningOptions):
    """Rounds, passes and samples, and each training."""

    rounds: Annotated[Count, Doc("Rounds of teacher and student.")] = 2
    passes: Annotated[Count, Doc("Passes with dropout over each unlabelled text.")] = 5
    pool: Annotated[Count, Doc("Unlabelled texts that each round looks at, at most.")] = 1_000
    chosen: Annotated[Count, Doc("Texts with pseudo-labels that a student learns from, at most.")] = 96


class SelfTraining(Method[SelfTrainingOptions]):
    """Self-training with the pseudo-labels that are the most certain."""

    OPTIONS = SelfTrainingOptions
    NEEDS = ("labels", "unlabelled")
    BRIEF: ClassVar[dict[str, Any]] = {**ONE_STEP, "rounds": 1, "passes": 1}

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        setting, options, draw = self.setting, self.options, np.random.default_rng(self.setting.seed)
        teacher = fine_tuned(labelled, options, setting)
        self.task, train, validation = teacher.task, teacher.train, teacher.validation
        self.withheld, self._rounds = len(validation), list[list[str]]()
        lowest = held_out_loss(self.task, validation) if len(validation) else math.inf
        for round_ in range(1, options.rounds + 1):
            places = draw.permutation(len(unlabelled))[: options.pool]
            pool = [unlabelled[i] for i in places]
            pseudo, uncertainty = self._pseudo_labelled(pool, labelled)
            student = new_classifier(setting.model, labelled, setting)
            fine_tune(student, train.joined(pseudo), validation, options, setting)
            loss = held_out_loss(student, validation) if len(validation) else math.nan
            better = not loss > lowest  # without texts to compare by, the student is the next teacher
            row = [str(round_), str(len(pseudo)), f"{uncertainty:.3f}", shown_loss(loss)]
            self._rounds.append([*row, "student" if better else "teacher"])
            if better:
                self.task, lowest = student, loss
        if labelled.several and len(validation):
            self.thresholds = best_thresholds(scores_of(self.task, validation.texts), validation.holds)
        return None

    def _pseudo_labelled(self, pool: Sequence[str], labelled: LabelledTexts) -> tuple[LabelledTexts, float]:
        """Texts with the teacher's labels, as many of each label; and their mean uncertainty."""
        passes = dropout_scores(self.task, pool, self.options.passes)
        mean, spread = passes.mean(0), bald(passes, several=labelled.several)
        holds = decide(mean, several=labelled.several, thresholds=THRESHOLD, top_k=None)
        groups = holds.argmax(1)  # of several labels the first
        each = -(-self.options.chosen // len(np.unique(groups)))
        chosen = most_certain(spread, groups, each)[: self.options.chosen]
        texts = [pool[i] for i in chosen]
        return LabelledTexts(texts, holds[chosen], labelled.kind), float(spread[chosen].mean())

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return scores_of(self.task, texts)

    def saved(self) -> Classify:
        return self.task

    def tables(self) -> list[Table]:
        """What each round did."""
        headings = ["round", "pseudo-labels", "uncertainty", "held-out loss", "retained"]
        return [Table(headings, self._rounds, "Self-training", folded=True)]


def dropout_scores(task: Classify, texts: Sequence[str], passes: int) -> np.ndarray:
    """The probabilities of each label in several passes with dropout. [passes, N, L]"""
    examples, _ = task.encoded(list(texts), None)
    network = task.model.network

    def call(batch: MicroBatch) -> Output:
        with torch.inference_mode():
            output: Output = network(batch.batch, batch.flow)
        return output

    network.train()
    try:
        return np.stack([scores_of_examples(task, examples, call=call) for _ in range(passes)])
    finally:
        network.eval()


def bald(passes: np.ndarray, *, several: bool) -> np.ndarray:
    """How much passes disagree: H(mean of p) − mean of H(p), in nats; of several labels their sum. [P, N, L] → [N]"""

    def entropy(p: np.ndarray) -> np.ndarray:
        p = np.clip(p, TINY, 1 - TINY)
        own = -p * np.log(p) - ((1 - p) * np.log(1 - p) if several else 0)
        return np.asarray(own.sum(-1))

    return np.asarray(np.maximum(entropy(passes.mean(0)) - entropy(passes).mean(0), 0))


def most_certain(spread: np.ndarray, groups: np.ndarray, each: int) -> np.ndarray:
    """Indices of the texts of each group with the least spread.

    Args:
        spread: uncertainty of all texts. [N]
        groups: the group of each. [N]
        each: how many of a group, at most
    """
    order = np.argsort(spread, kind="stable")
    return np.concatenate([order[groups[order] == group][:each] for group in np.unique(groups)])
