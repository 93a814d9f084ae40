"""A unigram vocabulary learned from words: many candidates, then ever fewer, those gone first that are missed least.

    words ──every part that comes twice──> candidates ──expected counts, probabilities (twice)──┐
                                              ▲                                                 │
                                              └── the quarter that costs least to lose, dropped ┘  until `size` are left

The engine can train one too, but adds up in an order that changes from run to run, and so does its vocabulary. Here the
same words give the same pieces. All ways of cutting all words are summed at once, place by place:

    ▁ f l i e s          an edge for each piece that fits: ▁ ▁f ▁fl f fl flies …
    0 1 2 3 4 5 6        forward[e] = log Σ exp(forward[s] + log p(piece)) over the edges s → e

Source: Kudo 2018, "Subword regularization", section 3.2.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

LONGEST = 16  # characters of a piece
ROUNDS = 2  # of expectation and maximisation between two losses
KEPT = 0.75  # of the pieces survive a loss
CANDIDATES = 20  # times as many as are asked for
MOST_WORDS = 50_000  # the most frequent ones are learned from; of the others, the characters are
LEAST = 1e-3  # the expected count of a piece that no word seems to need, so that its logarithm exists


def train(words: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Pieces and their log-probabilities, the likeliest first; every character of the words is among them.

    Args: words: how often each comes · size: how many pieces, at least as many as there are characters
    Returns: `size` of them, or fewer, where the words have no more parts that come twice.
    """
    often = sorted(words, key=lambda word: (-words[word], word))
    listed, letters = sorted(often[:MOST_WORDS]), Counter("".join(often[MOST_WORDS:]))
    counts = np.array([words[word] for word in listed], dtype=np.float64)
    pieces, weights = _candidates(listed, words, letters, CANDIDATES * size)
    lattice, others = _Lattice(listed, pieces), _Lattice(pieces, pieces, whole=False)
    alive = np.arange(len(pieces))  # which of the candidates, the words of `others`, the pieces still are
    logs = np.log(weights / weights.sum())
    while True:
        for _ in range(ROUNDS):
            expected = np.maximum(lattice.expected(logs, counts), LEAST)
            logs = np.log(expected / expected.sum())
        if len(pieces) <= size:
            break
        worth = expected * (logs - others.best(logs)[alive])
        kept = _worthiest(pieces, worth, max(size, int(KEPT * len(pieces))))
        pieces, logs, alive = [pieces[i] for i in kept], logs[kept], alive[kept]
        lattice, others = lattice.of(kept), others.of(kept)
    return sorted(zip(pieces, logs.round(6).tolist(), strict=True), key=lambda found: (-found[1], found[0]))


def _candidates(
    listed: Sequence[str], words: Mapping[str, int], letters: Mapping[str, int], most: int
) -> tuple[list[str], np.ndarray]:
    """All characters, and the parts that save most: how often they come × how long they are."""
    parts = Counter(letters)
    for word in listed:
        often, end = words[word], len(word)
        for first in range(end):
            for last in range(first + 1, min(first + LONGEST, end) + 1):
                parts[word[first:last]] += often
    single = sorted(part for part in parts if len(part) == 1)
    longer = [part for part, often in parts.items() if len(part) > 1 and often > 1]
    longer.sort(key=lambda part: (-parts[part] * len(part), part))
    pieces = single + longer[:most]
    return pieces, np.array([parts[piece] * len(piece) for piece in pieces], dtype=np.float64)


def _worthiest(pieces: Sequence[str], worth: np.ndarray, count: int) -> np.ndarray:
    """The pieces to keep: characters, and those without which the words would become most unlikely.

    worth: how often a piece is used × how much likelier it is than the best cut of it into others
    """
    order = sorted(range(len(pieces)), key=lambda i: (len(pieces[i]) > 1, -worth[i], pieces[i]))
    return np.array(sorted(order[:count]))


class _Lattice:
    """Every way of cutting every word into pieces, as edges between the places before, between and behind characters.

    edges: start and end, as places numbered through all words; the piece's number; the end's place in its word. [E, 4]
    first: where each word begins
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], whole: bool = True) -> None:
        number = {piece: i for i, piece in enumerate(pieces)}
        found = array("q")
        self.first = np.cumsum([0, *(len(word) + 1 for word in words)])
        for base, word in zip(self.first.tolist(), words, strict=False):
            end = len(word)
            for start in range(end):
                for last in range(start + 1, min(start + LONGEST, end) + 1):
                    piece = number.get(word[start:last])
                    if piece is not None and (whole or last - start < end):
                        found.extend((base + start, base + last, piece, last))
        self._set(np.frombuffer(found, dtype=np.int64).reshape(-1, 4))

    def _set(self, edges: np.ndarray) -> None:
        self.edges = edges
        starts, ends, _, depths = edges.T
        self._forward = _steps(np.lexsort((starts, ends, depths)), ends, depths)
        self._backward = _steps(
            np.lexsort((ends, starts, -depths + ends - starts)), starts, ends - starts - depths
        )

    def of(self, kept: np.ndarray) -> _Lattice:
        """The same with these pieces alone, numbered anew."""
        number = np.full(int(self.edges[:, 2].max()) + 1, -1)
        number[kept[kept < len(number)]] = np.flatnonzero(kept < len(number))
        edges = self.edges[number[self.edges[:, 2]] >= 0].copy()
        edges[:, 2] = number[edges[:, 2]]
        smaller = object.__new__(_Lattice)
        smaller.first = self.first
        smaller._set(edges)
        return smaller

    def expected(self, logs: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """How often each piece is used, over all cuts by their probability."""
        starts, ends, ids, _ = self.edges.T
        forward = self._passed(logs, self._forward, starts, ends, self.first[:-1], np.logaddexp)
        backward = self._passed(logs, self._backward, ends, starts, self.first[1:] - 1, np.logaddexp)
        word = np.searchsorted(self.first, starts, side="right") - 1
        total = forward[self.first[1:] - 1]
        used = np.exp(forward[starts] + logs[ids] + backward[ends] - total[word]) * counts[word]
        return np.bincount(ids, weights=used, minlength=len(logs))

    def best(self, logs: np.ndarray) -> np.ndarray:
        """The log-probability of the likeliest cut of each word; -∞ where there is none."""
        starts, ends, _, _ = self.edges.T
        forward = self._passed(logs, self._forward, starts, ends, self.first[:-1], np.maximum)
        found: np.ndarray = forward[self.first[1:] - 1]
        return found

    def _passed(
        self,
        logs: np.ndarray,
        steps: list[tuple[np.ndarray, np.ndarray]],
        sources: np.ndarray,
        targets: np.ndarray,
        begun: np.ndarray,
        joined: np.ufunc,
    ) -> np.ndarray:
        """What reaches each place, from where words begin: edges by the depth of their target, all words at once."""
        reached = np.full(int(self.first[-1]), -np.inf)
        reached[begun] = 0
        for edges, groups in steps:
            values = reached[sources[edges]] + logs[self.edges[edges, 2]]
            reached[targets[edges[groups]]] = joined.reduceat(values, groups)
        return reached


def _steps(order: np.ndarray, targets: np.ndarray, depths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Edges in `order`, cut where the depth changes; within each, where those of the next target begin."""
    if not len(order):
        return []
    cuts = np.flatnonzero(np.diff(depths[order])) + 1
    return [(edges, np.flatnonzero(np.diff(targets[edges], prepend=-1))) for edges in np.split(order, cuts)]
