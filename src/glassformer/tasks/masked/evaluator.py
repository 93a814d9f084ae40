"""Judging a masked language model: tokens are hidden as in training, the same ones each time, and it says which.

Source: Devlin et al. 2019, section 3.1, by the masks; the perplexity is that of hidden tokens alone, and not of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from glassformer.errors import DataError
from glassformer.tasks.base import Rows
from glassformer.tasks.causal.ngrams import Ngrams
from glassformer.tasks.causal.token_losses import Surprise, surprises
from glassformer.tasks.columns import check_columns, text_of
from glassformer.tasks.evaluator import Baseline, Judge
from glassformer.tasks.masked.task import Masked
from glassformer.tasks.metrics.bootstrap import Counted, Sampled
from glassformer.tasks.predictions import Record
from glassformer.tasks.windows import encoded


class MaskedJudge(Judge):
    """Loss, perplexity and accuracy of the tokens that are hidden in each text."""

    METRIC = "perplexity"
    HIGHER = False
    objective: Masked

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        column = self.objective.columns["text"]
        check_columns(rows, [column])
        texts = list(encoded(rows, column, self.objective.read))
        windows = [list(self.objective.windows(*text)) for text in texts]
        if not any(windows):
            raise DataError(f"{rows.where(0)}: no text has a token; texts must not be blank")
        found = surprises(self.objective, [example for of_text in windows for example in of_text])
        for index, of_text in enumerate(windows):
            parts = [next(found) for _ in of_text]
            yield self._record(index, rows, parts)
            if progress is not None:
                progress(1)

    def _record(self, index: int, rows: Rows, parts: Sequence[Surprise]) -> Record:
        true, likeliest = (
            [int(i) for part in parts for i in getattr(part, name)] for name in ("true", "likeliest")
        )
        losses = np.array([loss for part in parts for loss in part.losses])
        named = self.model.tokenizer.convert_ids_to_tokens
        return Record(
            index=index,
            where=rows.where(index),
            row={"text": text_of(rows[index], self.objective.columns["text"])},
            label=named(true),
            said=named(likeliest),
            right=true == likeliest if true else None,
            loss=float(losses.mean()) if true else None,
            details={
                "tokens": len(true),
                "hits": sum(a == b for a, b in zip(true, likeliest, strict=True)),
                "ids": true,
                "losses": [round(float(loss), 4) for loss in losses],
            },
        )

    def judged(self, records: Sequence[Record]) -> Sampled:
        rows = [
            [(r.loss or 0.0) * r.details["tokens"], r.details["hits"], r.details["tokens"]] for r in records
        ]
        drawn = f"{self.objective.masking.rate:.0%} of the tokens chosen, those of a text always the same"
        how = f"{drawn}; numpy {version('numpy')}"
        methods = {
            "perplexity": f"exp(loss); {how}",
            "accuracy": f"the likeliest token is the hidden one; {how}",
            "loss": f"mean over hidden tokens, in nats; {how}",
        }
        return Counted(np.array(rows, dtype=np.float64).reshape(-1, 3), _figures, methods)

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        known = self.model.network.vocabulary
        if train is None:
            return
        column = self.objective.columns["text"]
        table = Ngrams((ids for ids, _ in encoded(train, column, self.objective.read)), 1, known)
        ((most,), _), *_ = table.runs[0].most_common(1)
        name = str(self.model.tokenizer.convert_ids_to_tokens(most))
        said = []
        for record in records:
            ids = record.details["ids"]
            hits = sum(number == most for number in ids)
            losses = table.losses(ids) if ids else np.zeros(0)
            said.append(
                replace(
                    record,
                    said=[name] * len(ids),
                    right=hits == len(ids) if ids else None,
                    loss=float(losses.mean()) if ids else None,
                    details={**record.details, "hits": hits, "losses": [round(float(x), 4) for x in losses]},
                )
            )
        about = (
            f"how frequent a token is in the training rows, each counted once more; it always says {name!r}"
        )
        yield Baseline("unigram", about, said)

    def notes(self, records: Sequence[Record]) -> list[str]:
        empty = sum(not r.details["tokens"] for r in records)
        return [f"{empty:,} texts are too short for a token of theirs to be hidden"] if empty else []


def _figures(sums: np.ndarray) -> dict[str, np.ndarray]:
    nats, hits, tokens = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing hidden: there is no figure
        loss = nats / tokens
        return {"perplexity": np.exp(np.minimum(loss, 700.0)), "accuracy": hits / tokens, "loss": loss}
