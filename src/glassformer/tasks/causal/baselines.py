"""Baselines of language models: uniform, unigram and trigram probabilities, and compression by xz."""

from __future__ import annotations

import lzma
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from glassformer.tasks.base import Baseline, Dataset
from glassformer.tasks.causal.evaluation import score_prediction
from glassformer.tasks.causal.ngrams import Ngrams
from glassformer.tasks.columns import text_of
from glassformer.tasks.predictions import Prediction

if TYPE_CHECKING:
    from glassformer.tasks.causal.evaluation import LanguageModelTask

TRIGRAM = 3
TRAINING_TOKENS = 2_000_000
"""N-grams are counted on so many tokens at most: the table lies in memory."""
TRAINING_CHARACTERS = 2**22
"""And xz sees so many characters before, the last ones."""


def language_baselines(
    task: LanguageModelTask, train: Dataset | None, predictions: Sequence[Prediction]
) -> Iterator[Baseline]:
    """Uniform probabilities, and with training rows n-grams and compression."""
    vocabulary = task.vocabulary
    uniform = [np.full(len(x.details["ids"]), math.log(vocabulary)) for x in predictions]
    yield Baseline(
        "uniform", f"each of {vocabulary:,} tokens is as likely", _with_losses(predictions, uniform)
    )
    if train is None:
        return
    table = Ngrams(_first(task.training_ids(train), TRAINING_TOKENS), TRIGRAM, vocabulary)
    counted = f"among {table.seen[0][()]:,} tokens of the training rows"
    for name, order, about in (
        ("unigram", 1, f"how frequent a token is {counted}, each counted once more"),
        ("trigram", TRIGRAM, f"and after the two before it, {counted} (Witten-Bell)"),
    ):
        yield Baseline(name, about, _with_losses(predictions, list(_ngram_losses(table, order, predictions))))
    about = (
        "how much longer xz makes the training rows with these behind them; spread evenly over the characters"
    )
    yield Baseline("xz", about, _with_losses(predictions, list(_xz_losses(task, train, predictions))))


def _ngram_losses(table: Ngrams, order: int, predictions: Sequence[Prediction]) -> Iterator[np.ndarray]:
    """The loss of each token; the context goes on from one stretch of a text to the next."""
    before: list[int] = []
    for x in predictions:
        if not x.details["start"]:
            before = []
        yield table.losses(x.details["ids"], before, order)
        before = [*before, *x.details["ids"]][-TRIGRAM:]


def _xz_losses(
    task: LanguageModelTask, train: Dataset, predictions: Sequence[Prediction]
) -> Iterator[np.ndarray]:
    texts = "".join("\n" * (x.details["start"] == 0) + str(x.row[task.SCORED]) for x in predictions)
    seen = _last(train, task.columns[task.SCORED], TRAINING_CHARACTERS)
    nats = 8 * math.log(2) * compressed(seen, texts)
    per_character = nats / max(sum(x.details["characters"] for x in predictions), 1)
    for x in predictions:
        tokens = len(x.details["ids"])
        yield np.full(tokens, per_character * x.details["characters"] / max(tokens, 1))


def compressed(before: str, text: str) -> int:
    """How many bytes more xz needs for a text, when it has seen another before."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 4 * TRAINING_CHARACTERS}]

    def size(raw: str) -> int:
        return len(lzma.compress(raw.encode("utf-8", "replace"), lzma.FORMAT_RAW, filters=filters))

    return size(before + text) - size(before)


def _first(documents: Iterable[list[int]], tokens: int) -> Iterator[list[int]]:
    """The first documents, of so many tokens at most; the last of them may be cut."""
    for document in documents:
        if tokens <= 0:
            return
        yield document[:tokens]
        tokens -= len(document)


def _last(rows: Dataset, column: str, characters: int) -> str:
    """The end of the texts of rows."""
    texts: list[str] = []
    for index in reversed(range(len(rows))):
        texts.append(text_of(rows[index], column))
        if sum(map(len, texts)) >= characters:
            break
    return "\n".join(reversed(texts))[-characters:]


def _with_losses(predictions: Sequence[Prediction], losses: Sequence[np.ndarray]) -> list[Prediction]:
    """The same predictions with the losses of something else."""
    return [
        score_prediction(
            index=x.index,
            where=x.where,
            row=x.row,
            ids=np.array(x.details["ids"], dtype=np.int64),
            losses=own,
            alone=len(x.details["ids"]) - x.details["tokens"],
            details=x.details,
        )
        for x, own in zip(predictions, losses, strict=True)
    ]
