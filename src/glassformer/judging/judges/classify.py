"""Judging classes: which of several a text is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

import numpy as np
import torch

from glassformer.evaluation.samples import Sampled
from glassformer.judging.asking import answers
from glassformer.judging.judge import Classes, Judge
from glassformer.judging.records import Record
from glassformer.training.objective import Rows

TOP = 5
"""Of so many classes a record keeps how likely they were."""


class ClassifyJudge(Judge):
    """One class of several."""

    METRIC = "f1_weighted"

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        kind, columns = self.objective.kind, self.objective.columns  # type: ignore[attr-defined]
        examples = self.objective.examples(rows)
        for index, logits in enumerate(answers(self.objective, examples, progress=progress)):
            said = torch.log_softmax(logits.float(), -1)
            label = int(examples[index]["labels"])
            best = said.topk(min(TOP, len(said)))
            yield Record(
                index=index,
                where=rows.where(index),
                row={
                    role: rows[index][name]
                    for role, name in columns.items()
                    if role != "label" and name in rows.columns
                },
                label=kind.names[label],
                said=kind.names[int(best.indices[0])],
                right=label == int(best.indices[0]),
                loss=-float(said[label]),
                details={
                    "scores": {
                        kind.names[i]: float(x.exp())
                        for i, x in zip(best.indices.tolist(), best.values, strict=True)
                    }
                },
            )

    def judged(self, records: Sequence[Record]) -> Sampled:
        return ClassesSaid(self.objective.kind.names, records)  # type: ignore[attr-defined]

    def classes(self, records: Sequence[Record]) -> Classes | None:
        return None


class ClassesSaid(Sampled):
    """Accuracy and F1 of one class of several."""

    def __init__(self, names: Sequence[str], records: Sequence[Record]) -> None:
        self.names = list(names)
        number = {name: i for i, name in enumerate(self.names)}
        self.true = np.array([number[record.label] for record in records])
        self.said = np.array([number[record.said] for record in records])
        self.methods = {"accuracy": f"numpy {version('numpy')}"}

    def __len__(self) -> int:
        return len(self.true)

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        count = len(self.names)
        pairs = self.true * count + self.said
        tables = np.stack([np.bincount(pairs, row, count * count) for row in times]).reshape(-1, count, count)
        hits, said, true = tables.diagonal(0, 1, 2), tables.sum(1), tables.sum(2)
        f1 = np.divide(2 * hits, said + true, out=np.zeros_like(hits), where=said + true > 0)
        total = true.sum(-1)
        return {"accuracy": hits.sum(-1) / total, "f1_weighted": (f1 * true).sum(-1) / total}
