"""Named entities: an entity counts as found where its first word, its last word and its type are all right.

    words    Jeff    Dean    works  at  Google
    true     B-PER   I-PER   O      O   B-ORG        PER 0-1, ORG 4-4
    said     B-PER   O       O      O   B-ORG        PER 0-0, ORG 4-4        one of two is right, though four tags are

Tags are read as in conlleval: a type that begins without B begins all the same, and S and E stand for a single word and
for a last one (IOB2, IOB1, IOE and IOBES alike).
Source: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 shared task", section 3.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head
from glassformer.errors import MissingExtraError
from glassformer.tasks.metrics.classes import SaidKinds, averages
from glassformer.tasks.metrics.meters import Losses, counted_labels, per_name, ratio

if TYPE_CHECKING:
    from glassformer.tasks.microbatch import Pass

TAG = re.compile(r"O|([BIES])(?:-(.+))?", re.DOTALL)


def marks_entities(names: Sequence[str]) -> bool:
    """Are all of these tags of entities: O, B-PER, I-PER, …? (The letter O, not the number.)"""
    return all(map(TAG.fullmatch, names)) and any(name != "O" for name in names)


class Entities(Losses):
    """Precision, recall and F1 of whole entities, and the accuracy of tags, as seqeval has them.

    Args: names: of the tags, by number
    """

    def __init__(self, head: Head, names: Sequence[str]) -> None:
        super().__init__(head)
        self._runs = Runs(names)
        self.types = self._runs.types
        for name in ("hits", "said", "true"):
            self._keep(name, len(self.types))
        self._keep("tags", 2)  # how many, how many of them right

    def add(self, output: Output, item: Pass) -> None:
        super().add(output, item)
        assert isinstance(item.labels, Tensor)
        said, true = (tags.cpu().numpy() for tags in counted_labels(output, item))
        texts = text_of_each(item.labels, item.flow).flatten()[item.labels.flatten().cpu() >= 0].numpy()
        for name, count in self._runs.compared(said, true, texts).items():
            self.state[name] += torch.from_numpy(count)
        self.state["tags"] += torch.tensor([len(true), int((said == true).sum())])

    def figures(self) -> dict[str, float]:
        hits, said, true = (self.state[name].sum().numpy() for name in ("hits", "said", "true"))
        tags, right = self.state["tags"].tolist()
        return {
            **super().figures(),
            "precision": float(ratio(hits, said)),
            "recall": float(ratio(hits, true)),
            "f1": float(ratio(2 * hits, said + true)),
            "accuracy": right / tags,
        }

    def each(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and number of entities of each type."""
        counts = (self.state[name].numpy() for name in ("hits", "said", "true"))
        return per_name(self.types, *counts)


class SaidEntities(SaidKinds):
    """The entities of rows, judged as wholes, and the accuracy of their tags. f1, precision and recall are micro means.

    Args: names: of the tags · true, said: a tag for each word of each row
    Raises: MissingExtraError: without the package seqeval.
    """

    def __init__(self, names: Sequence[str], true: Sequence[list[str]], said: Sequence[list[str]]) -> None:
        self.true, self.said, self._metrics = true, said, seqeval_metrics()
        number, runs = {name: i for i, name in enumerate(names)}, Runs(names)
        rows = np.repeat(np.arange(len(true)), [len(tags) for tags in true])
        tags = [np.array([number[tag] for tag in chain.from_iterable(side)]) for side in (true, said)]
        (begins, kinds, ends), (said_begins, said_kinds, said_ends) = (runs.of(side, rows) for side in tags)
        both = begins & said_begins & (kinds == said_kinds) & (ends == said_ends)
        super().__init__(
            runs.types,
            len(true),
            true=(rows[begins], kinds[begins]),
            said=(rows[said_begins], said_kinds[said_begins]),
            both=(rows[both], kinds[both]),
        )
        self._right = np.bincount(rows[tags[0] == tags[1]], minlength=len(true))
        self._words = np.bincount(rows, minlength=len(true))
        package = f"seqeval {version('seqeval')}"
        micro = f"{package}, average='micro', zero_division=0, as conlleval reads tags"
        self.methods = {
            **dict.fromkeys(("f1", "precision", "recall"), micro),
            "f1_macro": micro.replace("micro", "macro"),
            "accuracy": package,
        }

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        both, said, true = self.counts(times)
        found = averages(both, said, true, seen=said + true > 0)
        micro = {name: found[f"{name}_micro"] for name in ("f1", "precision", "recall")}
        accuracy = times @ self._right / (times @ self._words)
        return {**micro, "f1_macro": found["f1_macro"], "accuracy": accuracy}

    def packaged(self) -> dict[str, float]:
        metrics, sides = self._metrics, (list(self.true), list(self.said))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of figures that are not defined, which the judge tells
            found = {
                "f1": metrics.f1_score(*sides, zero_division=0),
                "precision": metrics.precision_score(*sides, zero_division=0),
                "recall": metrics.recall_score(*sides, zero_division=0),
                "accuracy": metrics.accuracy_score(*sides),
            }
            if any(
                row["f1"] is not None for row in self.each().values()
            ):  # it fails where there is no entity at all
                found["f1_macro"] = metrics.f1_score(*sides, average="macro", zero_division=0)
        return {name: float(value) for name, value in found.items()}


def seqeval_metrics() -> Any:
    """Raises: MissingExtraError: without the package seqeval."""
    try:
        import seqeval.metrics
    except ImportError as error:
        raise MissingExtraError("seqeval", "evaluate", "judging entities") from error
    return seqeval.metrics


class Runs:
    """Where entities begin and end in tags, which are numbers of `names`."""

    def __init__(self, names: Sequence[str]) -> None:
        found = [TAG.fullmatch(name) for name in names]
        parts = [(match and match[1], (match and match[2]) or "entity") for match in found]
        self.types = tuple(sorted({kind for prefix, kind in parts if prefix}))
        self._type = np.array([self.types.index(kind) if prefix else -1 for prefix, kind in parts])
        self._goes_on = np.array([prefix in ("B", "I") for prefix, _ in parts])  # the next may be of it
        self._continues = np.array(
            [prefix in ("I", "E") for prefix, _ in parts]
        )  # it may be of the one before

    def of(self, tags: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each place, whether an entity begins there, of which type it is, and where its run ends. [n] each

        Args: tags: [n] · texts: which text each is of; no entity goes on into the next. [n]
        """
        kinds = self._type[tags]
        joined = (
            (kinds[1:] == kinds[:-1])
            & self._goes_on[tags[:-1]]
            & self._continues[tags[1:]]
            & (texts[1:] == texts[:-1])
        )
        begins = (kinds >= 0) & np.concatenate(([True], ~joined))[: len(tags)]
        last = np.flatnonzero(np.concatenate((~joined, [True])))
        return begins, kinds, last[np.searchsorted(last, np.arange(len(tags)))]

    def compared(self, said: np.ndarray, true: np.ndarray, texts: np.ndarray) -> dict[str, np.ndarray]:
        """How many entities of each type are said, are true, and are both (`hits`). [types] each"""
        if not len(true):
            return {}
        (said_begins, said_kinds, said_ends), (begins, kinds, ends) = (
            self.of(said, texts),
            self.of(true, texts),
        )
        both = begins & said_begins & (kinds == said_kinds) & (ends == said_ends)
        found = {"hits": kinds[both], "said": said_kinds[said_begins], "true": kinds[begins]}
        return {name: np.bincount(of, minlength=len(self.types)) for name, of in found.items()}


def text_of_each(labels: Tensor, flow: Flow) -> Tensor:
    """Which text each label of a layout is of. [B, T], or [1, tokens] of a packed row"""
    if flow.segments is None:
        return torch.arange(len(labels))[:, None].expand(labels.shape)
    lengths = torch.tensor(flow.segments.lengths)
    return torch.arange(len(lengths)).repeat_interleave(lengths)[None]
