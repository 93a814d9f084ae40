"""Entity-level precision, recall and F1: an entity is a hit where its first word, last word and type are all right.

    words      Jeff    Dean    works  at  Google
    true       B-PER   I-PER   O      O   B-ORG        PER 0-1, ORG 4-4
    predicted  B-PER   O       O      O   B-ORG        PER 0-0, ORG 4-4        one of two is right, though four tags are

Tags are read as in conlleval: a type that begins without B begins all the same, and S and E stand for a single word and
for a last one (so IOB2, IOB1, IOE and IOBES are all read).
Source: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 shared task", section 3.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.tasks.metrics.classes import (
    Items,
    PrecisionRecallMetric,
    PrecisionRecallScores,
    averages,
    confusion_matrix,
    precision_recall_f1,
)
from glassformer.tasks.metrics.metric import PerClassReport
from glassformer.tasks.metrics.scikit_learn import method, reference

TAG = re.compile(r"O|([BIES])(?:-(.+))?", re.DOTALL)


def marks_entities(names: Sequence[str]) -> bool:
    """Are all of these tags of entities: O, B-PER, I-PER, …? (The letter O, not the number.)"""
    return all(map(TAG.fullmatch, names)) and any(name != "O" for name in names)


class EntityMetric(PrecisionRecallMetric):
    """Precision, recall and F1 of whole entities, and the accuracy of tags, as seqeval has them.

    Args:
        names: of the tags, by number, the tag of no entity (O) among them
    """

    def __init__(self, head: Head, names: Sequence[str]) -> None:
        self._runs, self._outside = EntityRuns(names), list(names).index("O")
        super().__init__(head, self._runs.types)
        self.add_state("tags", 2)  # how many, how many of them right

    def update(self, output: Output, batch: Any) -> None:
        """Add the words of a `WordBatch`; those that the model does not see are of no entity."""
        super().update(output, batch)
        predicted, true, texts = (x.numpy() for x in batch.tags_of_words(output))
        predicted = np.where(predicted < 0, self._outside, predicted)
        for name, (_, types) in self._runs.items(true, predicted, texts).items():
            self.state[name] += torch.from_numpy(np.bincount(types, minlength=len(self.names)))
        self.state["tags"] += torch.tensor([len(true), int((predicted == true).sum())])

    def compute(self) -> dict[str, float]:
        loss = super().compute()  # which says so where nothing was added
        micro = precision_recall_f1(*(counts.sum() for counts in self.counts()))
        tags, right = self.state["tags"].tolist()
        return {**loss, **{k: float(x) for k, x in micro.items()}, "accuracy": right / tags}


class EntityScores(PrecisionRecallScores):
    """Whole entities of rows, and the accuracy of their tags. f1, precision and recall are micro means.

    Args:
        names: of the tags
        true, predicted: a tag for each word of each row
    """

    MEANS = "the macro mean"

    def __init__(self, names: Sequence[str], true: Sequence[list[str]], predicted: Sequence[list[str]]) -> None:
        self.true, self.predicted = true, predicted
        self.tag_names = list(names)
        number, runs = {name: i for i, name in enumerate(names)}, EntityRuns(names)
        rows = np.repeat(np.arange(len(true)), [len(tags) for tags in true])
        tags, predicted_tags = (
            np.array([number[tag] for tag in chain.from_iterable(side)], dtype=np.int64) for side in (true, predicted)
        )
        super().__init__(runs.types, len(true), "entity", **runs.items(tags, predicted_tags, rows))
        self._confusion = confusion_matrix(tags, predicted_tags, len(names))
        self._right = np.bincount(rows[tags == predicted_tags], minlength=len(true))
        self._words = np.bincount(rows, minlength=len(true))
        micro, macro = (
            method("seqeval.metrics", "seqeval", f"average='{mean}'", "zero_division=0", "as conlleval reads tags")
            for mean in ("micro", "macro")
        )
        self.methods = {
            **dict.fromkeys(("f1", "precision", "recall"), micro),
            "f1_macro": macro,
            "accuracy": method("seqeval.metrics", "seqeval"),
        }

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        hits, predicted, true = self.counts(resample_counts)
        computed = averages(hits, predicted, true, seen=predicted + true > 0)
        micro = {name: computed[f"{name}_micro"] for name in ("f1", "precision", "recall")}
        accuracy = resample_counts @ self._right / (resample_counts @ self._words)
        return {**micro, "f1_macro": computed["f1_macro"], "accuracy": accuracy}

    def reference_scores(self) -> dict[str, float]:
        metrics, sides = reference("seqeval.metrics", "seqeval"), (list(self.true), list(self.predicted))
        if metrics is None:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of figures that are not defined, which the evaluation reports
            computed = {
                "f1": metrics.f1_score(*sides, zero_division=0),
                "precision": metrics.precision_score(*sides, zero_division=0),
                "recall": metrics.recall_score(*sides, zero_division=0),
                "accuracy": metrics.accuracy_score(*sides),
            }
            # It fails where there is no entity at all.
            if any(row["f1"] is not None for row in self.per_class().values()):
                computed["f1_macro"] = metrics.f1_score(*sides, average="macro", zero_division=0)
        return {name: float(value) for name, value in computed.items()}

    def report(self) -> PerClassReport:
        """The scores of types of entities; the confusion matrix is that of the tags of words."""
        return PerClassReport(names=self.tag_names, scores=self.per_class(), confusion=self._confusion)


class EntityRuns:
    """Where entities begin and end in tags, which are numbers of `names`."""

    def __init__(self, names: Sequence[str]) -> None:
        computed = [TAG.fullmatch(name) for name in names]
        parts = [(match and match[1], (match and match[2]) or "entity") for match in computed]
        self.types = tuple(sorted({kind for prefix, kind in parts if prefix}))
        self._type = np.array([self.types.index(kind) if prefix else -1 for prefix, kind in parts])
        self._goes_on = np.array([prefix in ("B", "I") for prefix, _ in parts])  # the next may be of it
        # It may be of the one before.
        self._continues = np.array([prefix in ("I", "E") for prefix, _ in parts])

    def of(self, tags: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each place, whether an entity begins there, of which type it is, and where its run ends. [n] each

        Args:
            tags: [n]
            texts: which text each is of; no entity continues into the next. [n]
        """
        kinds = self._type[tags]
        joined = (
            (kinds[1:] == kinds[:-1]) & self._goes_on[tags[:-1]] & self._continues[tags[1:]] & (texts[1:] == texts[:-1])
        )
        begins = (kinds >= 0) & np.concatenate(([True], ~joined))[: len(tags)]
        last = np.flatnonzero(np.concatenate((~joined, [True])))
        return begins, kinds, last[np.searchsorted(last, np.arange(len(tags)))]

    def items(self, true: np.ndarray, predicted: np.ndarray, texts: np.ndarray) -> dict[str, Items]:
        """The text and the type of each entity that is true, that is predicted, and that is both (`hits`)."""
        begins, kinds, ends = self.of(true, texts)
        predicted_begins, predicted_kinds, predicted_ends = self.of(predicted, texts)
        hits = begins & predicted_begins & (kinds == predicted_kinds) & (ends == predicted_ends)
        return {
            "true": (texts[begins], kinds[begins]),
            "predicted": (texts[predicted_begins], predicted_kinds[predicted_begins]),
            "hits": (texts[hits], kinds[hits]),
        }
