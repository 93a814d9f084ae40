"""N-gram language model with Witten-Bell smoothing: the baseline of neural ones.

    p(cat | the old) = (times "the old cat" was seen + kinds · p(cat | old)) / (times "the old" was seen + kinds)

where kinds is how many different tokens have followed "the old": the more there were, the less of a surprise another
one is, and the more the shorter run has to say. Runs of one token are counted as if each had been seen once more.

Source: Witten and Bell 1991, "The zero-frequency problem", method C, interpolated as in Chen and Goodman 1998.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

Run = tuple[int, ...]


class Ngrams:
    """Counts of runs of up to `order` tokens.

    Args:
        documents: ids of each text; runs do not go from one into the next
        order: the longest run · vocabulary: V, how many tokens there are
    """

    def __init__(self, documents: Iterable[Sequence[int]], order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        self.runs: list[Counter[Run]] = [Counter() for _ in range(order)]  # by length - 1
        for document in documents:
            ids = tuple(map(int, document))
            for length, runs in enumerate(self.runs, start=1):
                runs.update(ids[i : i + length] for i in range(len(ids) - length + 1))
        self.seen: list[Counter[Run]] = [
            Counter() for _ in range(order)
        ]  # how often something followed a run
        self.kinds: list[Counter[Run]] = [Counter() for _ in range(order)]
        for runs, seen, kinds in zip(self.runs, self.seen, self.kinds, strict=True):
            for run, count in runs.items():
                seen[run[:-1]] += count
                kinds[run[:-1]] += 1

    def probability(self, token: int, before: Sequence[int] = ()) -> float:
        """p(token | what stands before it), of which the last `order` - 1 tokens matter."""
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
