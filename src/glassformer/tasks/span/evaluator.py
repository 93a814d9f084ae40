"""Judging answers that are read off a context: exact match and the F1 of words.

    windows of a row   [CLS] question [SEP] it plays 6000 hours [SEP]     best span 5.9    none 1.2
                       [CLS] question [SEP] hours of music .    [SEP]     best span 0.3    none 4.0
    the answer         the best span of all windows, where it beats "none" of the window that is least for it: 5.9 > 1.2

Source: Devlin et al. 2019, section 4.3, and released code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from glassformer import __version__
from glassformer.tasks.base import Rows
from glassformer.tasks.columns import chunks
from glassformer.tasks.evaluator import Baseline, Judge
from glassformer.tasks.loop import TOKENS, answers
from glassformer.tasks.metrics.answers import best_spans
from glassformer.tasks.metrics.bootstrap import Means
from glassformer.tasks.metrics.squad import exact_match, word_f1
from glassformer.tasks.microbatch import Example
from glassformer.tasks.predictions import Record
from glassformer.tasks.span.task import Answer, answers_of
from glassformer.text.encoding import Row
from glassformer.text.sentences import split_sentences

METHOD = f"glassformer {__version__}, words as in SQuAD: lower case, without punctuation and articles"


class AnswerJudge(Judge):
    """Where a context answers a question, or that it does not.

    Args: tokens: of a pass at most; no figure depends on it
    """

    METRIC = "f1"
    objective: Answer

    def __init__(self, objective: Answer, *, tokens: int = TOKENS) -> None:
        super().__init__(objective)
        self.tokens = tokens

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        objective = self.objective
        examples = objective.examples(rows)
        said = enumerate(answers(objective, examples, tokens=self.tokens))
        for numbers, held in chunks(rows):
            questions, contexts = (
                [str(row[objective.columns[role]]) for row in held] for role in ("question", "context")
            )
            encoding = objective.windows(questions, contexts)
            windows: list[list[Row]] = [[] for _ in numbers]
            for window, owner in zip(encoding.rows, encoding.overflow_to_sample, strict=True):
                windows[owner].append(window)
            for index, row, own, question, context in zip(
                numbers, held, windows, questions, contexts, strict=True
            ):
                found = [(*logits, examples[number]) for number, logits in islice(said, len(own))]
                answer, loss = self._best(own, found, context)
                spans = answers_of(row, context, objective.columns)
                label = [context[start:end] for start, end in spans]
                yield Record(
                    index=index,
                    where=rows.where(index),
                    row={"question": question, "context": context},
                    label=label,
                    said=answer,
                    right=bool(exact_match(answer, label)),
                    loss=loss,
                )
                if progress is not None:
                    progress(1)

    def _best(
        self, windows: Sequence[Row], found: Sequence[tuple[Tensor, Tensor, Example]], context: str
    ) -> tuple[str, float]:
        """The best span of all windows, or nothing, and the mean of their losses."""
        best, none, said, losses = -np.inf, np.inf, "", []
        for window, (start, end, example) in zip(windows, found, strict=True):
            start, end = start.float().cpu(), end.float().cpu()
            context_of_it = torch.from_numpy(np.asarray(example["context"]))
            spans, scores = best_spans(start[None], end[None], context_of_it[None], self.objective.longest)
            none = min(none, float(start[0] + end[0]))
            if float(scores[0]) > best:
                best = float(scores[0])
                first, last = spans[0].tolist()
                said = context[window.offsets[first][0] : window.offsets[last][1]]
            ends = zip((start, end), ("start_positions", "end_positions"), strict=True)
            losses.append(-sum(float(x.log_softmax(-1)[int(example[name])]) for x, name in ends) / 2)
        return said if best > none else "", float(np.mean(losses))

    def judged(self, records: Sequence[Record]) -> Means:
        return Means(
            {
                "f1": np.array([word_f1(record.said, record.label) for record in records]),
                "exact_match": np.array([exact_match(record.said, record.label) for record in records]),
            },
            dict.fromkeys(("f1", "exact_match"), METHOD),
        )

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        """Two that learn nothing."""
        simple: tuple[tuple[str, str, Callable[[str], str]], ...] = (
            ("no answer", "says that there is none", lambda context: ""),
            ("first sentence", "answers with it", lambda context: (split_sentences(context) or [""])[0]),
        )
        for name, about, answer in simple:
            texts = [answer(record.row["context"]) for record in records]
            own = [
                replace(record, said=text, right=bool(exact_match(text, record.label)), loss=None, details={})
                for record, text in zip(records, texts, strict=True)
            ]
            yield Baseline(name, about, own)

    def notes(self, records: Sequence[Record]) -> list[str]:
        silent = sum(not record.label for record in records)
        return [f"{silent:,} of {len(records):,} questions have no answer"] if silent else []
