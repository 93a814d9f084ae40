"""Baselines of language models: uniform, unigram and trigram probabilities, and compression by xz."""

from __future__ import annotations

import lzma
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from glassformer.tasks.causal.evaluation import score_prediction
from glassformer.tasks.columns import text_of
from glassformer.tasks.types import Baseline, Dataset, Prediction

if TYPE_CHECKING:
    from glassformer.tasks.causal.evaluation import LanguageModelTask

Run = tuple[int, ...]

TRIGRAM = 3
"""Order of the longest n-gram baseline."""
TRAINING_TOKENS = 2_000_000
"""N-grams are counted on this many tokens at most: the table lies in memory."""
TRAINING_CHARACTERS = 2**22
"""And xz sees this many characters before, the last ones."""


class Ngrams:
    """N-gram language model with Witten-Bell smoothing: counts of runs of up to `order` tokens.

        p(cat | the old) = (times "the old cat" was seen + kinds · p(cat | old)) / (times "the old" was seen + kinds)

    where kinds is how many different tokens have followed "the old": the more there were, the less of a surprise
    another one is, and the more the shorter run has to say. Runs of one token count as if seen once more.

    Args:
        documents: ids of each text; runs do not go from one into the next
        order: the longest run
        vocabulary: V, how many tokens there are
    Source: Witten and Bell 1991, "The zero-frequency problem", method C, interpolated as in Chen and Goodman 1998.
    """

    def __init__(self, documents: Iterable[Sequence[int]], order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        self.runs: list[Counter[Run]] = [Counter() for _ in range(order)]  # by length - 1
        for document in documents:
            ids = tuple(map(int, document))
            for length, runs in enumerate(self.runs, start=1):
                runs.update(ids[i : i + length] for i in range(len(ids) - length + 1))
        # How often something followed a run, and how many different tokens did.
        self.seen: list[Counter[Run]] = [Counter() for _ in range(order)]
        self.kinds: list[Counter[Run]] = [Counter() for _ in range(order)]
        for runs, seen, kinds in zip(self.runs, self.seen, self.kinds, strict=True):
            for run, count in runs.items():
                seen[run[:-1]] += count
                kinds[run[:-1]] += 1

    def probability(self, token: int, before: Sequence[int] = ()) -> float:
        """p(token | what is before it), of which the last `order` - 1 tokens matter."""
        p = (self.runs[0][token,] + 1) / (self.seen[0][()] + self.vocabulary)
        for length in range(1, min(self.order, len(before) + 1)):
            context = tuple(before[len(before) - length :])
            if not (seen := self.seen[length][context]):
                break
            kinds = self.kinds[length][context]
            p = (self.runs[length][*context, token] + kinds * p) / (seen + kinds)
        return p

    def losses(self, ids: Sequence[int], before: Sequence[int] = (), order: int | None = None) -> np.ndarray:
        """-ln p of each token, in nats; by runs of at most `order`, None = of all. [n]"""
        whole = [*before, *ids]
        begun, reach = len(before), (order or self.order) - 1
        probabilities = [
            self.probability(token, whole[max(place - reach, 0) : place])
            for place, token in enumerate(whole[begun:], start=begun)
        ]
        losses: np.ndarray = -np.log(np.array(probabilities))
        return losses


def language_baselines(
    task: LanguageModelTask, train: Dataset | None, predictions: Sequence[Prediction]
) -> Iterator[Baseline]:
    """Uniform probabilities, and with training rows n-grams and compression."""
    vocabulary = task.vocabulary
    uniform = [np.full(len(x.details["ids"]), math.log(vocabulary)) for x in predictions]
    yield Baseline("uniform", f"each of {vocabulary:,} tokens is as likely", _with_losses(predictions, uniform))
    if train is None:
        return
    table = Ngrams(_first(task.training_ids(train), TRAINING_TOKENS), TRIGRAM, vocabulary)
    counted = f"among {table.seen[0][()]:,} tokens of the training rows"
    for name, order, about in (
        ("unigram", 1, f"how frequent a token is {counted}, each counted once more"),
        ("trigram", TRIGRAM, f"and after the two before it, {counted} (Witten-Bell)"),
    ):
        yield Baseline(name, about, _with_losses(predictions, list(_ngram_losses(table, order, predictions))))
    about = "how much longer xz makes the training rows with these behind them; spread evenly over the characters"
    yield Baseline("xz", about, _with_losses(predictions, list(_xz_losses(task, train, predictions))))


def _ngram_losses(table: Ngrams, order: int, predictions: Sequence[Prediction]) -> Iterator[np.ndarray]:
    """The loss of each token; the context continues from one stretch of a text to the next."""
    before: list[int] = []
    for x in predictions:
        if not x.details["start"]:
            before = []
        yield table.losses(x.details["ids"], before, order)
        before = [*before, *x.details["ids"]][-TRIGRAM:]


def _xz_losses(task: LanguageModelTask, train: Dataset, predictions: Sequence[Prediction]) -> Iterator[np.ndarray]:
    texts = "".join("\n" * (x.details["start"] == 0) + str(x.row[task.SCORED_ROLE]) for x in predictions)
    seen = _last(train, task.columns[task.SCORED_ROLE], TRAINING_CHARACTERS)
    nats = 8 * math.log(2) * compressed(seen, texts)
    per_character = nats / max(sum(x.details["characters"] for x in predictions), 1)
    for x in predictions:
        tokens = len(x.details["ids"])
        yield np.full(tokens, per_character * x.details["characters"] / max(tokens, 1))


def compressed(before: str, text: str) -> int:
    """How many bytes more xz needs for a text, when it has seen another before."""
    # A character takes up to four bytes: the window reaches back over all of `before`. No container, whose header and
    # checksum would count as text.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 4 * TRAINING_CHARACTERS}]

    def size(raw: str) -> int:
        return len(lzma.compress(raw.encode("utf-8", "replace"), lzma.FORMAT_RAW, filters=filters))

    return size(before + text) - size(before)


def _first(documents: Iterable[list[int]], tokens: int) -> Iterator[list[int]]:
    """The first documents, of this many tokens at most; the last of them may be cut."""
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
