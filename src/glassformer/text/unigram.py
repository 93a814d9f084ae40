"""Train a Unigram language model tokenizer: start from many candidate pieces, prune those whose loss costs least.

    words ──every substring that occurs twice──> candidates ──expected counts, probabilities (EM, twice)──┐
                                                    ▲                                                     │
                     until there are `size` pieces  └──── the quarter with the least loss is pruned ──────┘

The engine can train one too, but adds up in an order that changes from run to run, and so does its vocabulary. Here the
same words give the same pieces. All segmentations of all words are summed at once over a lattice of positions:

    ▁ f l i e s          an edge for each piece that fits: ▁ ▁f ▁fl f fl flies …
    0 1 2 3 4 5 6        forward[e] = log Σ exp(forward[s] + log p(piece)) over the edges s → e

Source: Kudo 2018, "Subword regularization", section 3.2.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

MAX_PIECE_LENGTH = 16  # characters of a piece
EM_STEPS = 2  # expectation-maximisation steps before each pruning
KEEP_FRACTION = 0.75  # of the pieces remain after each pruning
CANDIDATE_FACTOR = 20  # candidates, as a multiple of `size`
MAX_WORDS = 50_000  # the most frequent words are trained on; of the others, only the characters
MIN_COUNT = 1e-3  # the least expected count of a piece, so that its logarithm exists


def train_unigram(words: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Train a Unigram vocabulary: pieces and their log-probabilities, most probable first, with every character.

    Args:
        words: the count of each word
        size: the number of pieces, at least the number of characters
    Returns: `size` pieces, or fewer, where the words have no more substrings that occur twice.
    """
    by_count = sorted(words, key=lambda word: (-words[word], word))
    frequent, rare_characters = sorted(by_count[:MAX_WORDS]), Counter("".join(by_count[MAX_WORDS:]))
    counts = np.array([words[word] for word in frequent], dtype=np.float64)
    pieces, weights = _candidates(frequent, words, rare_characters, CANDIDATE_FACTOR * size)
    lattice, alternatives = _Lattice(frequent, pieces), _Lattice(pieces, pieces, include_unsplit=False)
    candidates = np.arange(
        len(pieces)
    )  # index of each piece among the candidates, which are the words of `alternatives`
    logs = np.log(weights / weights.sum())
    while True:
        for _ in range(EM_STEPS):
            expected = np.maximum(lattice.expected_counts(logs, counts), MIN_COUNT)
            logs = np.log(expected / expected.sum())
        if len(pieces) <= size:
            break
        loss = expected * (logs - alternatives.best_log_probs(logs)[candidates])
        keep = _pieces_to_keep(pieces, loss, max(size, int(KEEP_FRACTION * len(pieces))))
        pieces, logs, candidates = [pieces[i] for i in keep], logs[keep], candidates[keep]
        lattice, alternatives = lattice.restricted_to(keep), alternatives.restricted_to(keep)
    return sorted(zip(pieces, logs.round(6).tolist(), strict=True), key=lambda piece: (-piece[1], piece[0]))


def _candidates(
    frequent: Sequence[str], words: Mapping[str, int], rare_characters: Mapping[str, int], limit: int
) -> tuple[list[str], np.ndarray]:
    """Seed vocabulary: all characters, and the substrings with the largest count × length, which are their weights."""
    parts = Counter(rare_characters)
    for word in frequent:
        count, end = words[word], len(word)
        for first in range(end):
            for last in range(first + 1, min(first + MAX_PIECE_LENGTH, end) + 1):
                parts[word[first:last]] += count
    single = sorted(part for part in parts if len(part) == 1)
    longer = [part for part, count in parts.items() if len(part) > 1 and count > 1]
    longer.sort(key=lambda part: (-parts[part] * len(part), part))
    pieces = single + longer[:limit]
    return pieces, np.array([parts[piece] * len(piece) for piece in pieces], dtype=np.float64)


def _pieces_to_keep(pieces: Sequence[str], loss: np.ndarray, count: int) -> np.ndarray:
    """The indices of the pieces to keep: all characters, then those with the largest loss.

    Args:
        loss: expected count × how much its log-probability exceeds that of its best segmentation into other pieces
    """
    order = sorted(range(len(pieces)), key=lambda i: (len(pieces[i]) > 1, -loss[i], pieces[i]))
    return np.array(sorted(order[:count]))


class _Lattice:
    """The lattice of all segmentations of all words: edges are pieces, nodes the positions between characters.

    edges: [E, 4] start and end, as positions numbered through all words; the piece's id; the end's position in its word
    first: the first position of each word
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], include_unsplit: bool = True) -> None:
        number = {piece: i for i, piece in enumerate(pieces)}
        edges = array("q")
        self.first = np.cumsum([0, *(len(word) + 1 for word in words)])
        for base, word in zip(self.first.tolist(), words, strict=False):
            end = len(word)
            for start in range(end):
                for last in range(start + 1, min(start + MAX_PIECE_LENGTH, end) + 1):
                    piece = number.get(word[start:last])
                    if piece is not None and (include_unsplit or last - start < end):
                        edges.extend((base + start, base + last, piece, last))
        self._set(np.frombuffer(edges, dtype=np.int64).reshape(-1, 4))

    def _set(self, edges: np.ndarray) -> None:
        self.edges = edges
        starts, ends, _, depths = edges.T
        self._forward = _depth_groups(np.lexsort((starts, ends, depths)), ends, depths)
        self._backward = _depth_groups(
            np.lexsort((ends, starts, -depths + ends - starts)), starts, ends - starts - depths
        )

    def restricted_to(self, keep: np.ndarray) -> _Lattice:
        """The same lattice with these pieces alone, which get new ids."""
        number = np.full(int(self.edges[:, 2].max()) + 1, -1)
        number[keep[keep < len(number)]] = np.flatnonzero(keep < len(number))
        edges = self.edges[number[self.edges[:, 2]] >= 0].copy()
        edges[:, 2] = number[edges[:, 2]]
        smaller = object.__new__(_Lattice)
        smaller.first = self.first
        smaller._set(edges)
        return smaller

    def expected_counts(self, logs: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Expected count of each piece (E-step): over all segmentations, weighted by their probability."""
        starts, ends, ids, _ = self.edges.T
        forward = self._propagate(logs, self._forward, starts, ends, self.first[:-1], np.logaddexp)
        backward = self._propagate(logs, self._backward, ends, starts, self.first[1:] - 1, np.logaddexp)
        word = np.searchsorted(self.first, starts, side="right") - 1
        total = forward[self.first[1:] - 1]
        used = np.exp(forward[starts] + logs[ids] + backward[ends] - total[word]) * counts[word]
        return np.bincount(ids, weights=used, minlength=len(logs))

    def best_log_probs(self, logs: np.ndarray) -> np.ndarray:
        """The log-probability of the best segmentation of each word (Viterbi); -∞ where there is none."""
        starts, ends, _, _ = self.edges.T
        forward = self._propagate(logs, self._forward, starts, ends, self.first[:-1], np.maximum)
        best: np.ndarray = forward[self.first[1:] - 1]
        return best

    def _propagate(
        self,
        logs: np.ndarray,
        steps: list[tuple[np.ndarray, np.ndarray]],
        sources: np.ndarray,
        targets: np.ndarray,
        start_positions: np.ndarray,
        combine: np.ufunc,
    ) -> np.ndarray:
        """The score of each position, from `start_positions` along the edges, by depth of target, all words at once."""
        scores = np.full(int(self.first[-1]), -np.inf)
        scores[start_positions] = 0
        for edges, groups in steps:
            values = scores[sources[edges]] + logs[self.edges[edges, 2]]
            scores[targets[edges[groups]]] = combine.reduceat(values, groups)
        return scores


def _depth_groups(order: np.ndarray, targets: np.ndarray, depths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Edges in `order`, grouped by depth; and in each group, where the edges of each target begin."""
    if not len(order):
        return []
    boundaries = np.flatnonzero(np.diff(depths[order])) + 1
    return [(edges, np.flatnonzero(np.diff(targets[edges], prepend=-1))) for edges in np.split(order, boundaries)]
