"""Contrastive search: a likely token whose state is unlike those before it, so that a text does not repeat itself.

    likely    p      state most like        score = (1 - α) p - α · likeness      α = 0.6
    the       0.50   0.95                                    -0.37
    a         0.30   0.60                                    -0.24   is said
    my        0.10   0.70                                    -0.38

Source: Su et al. 2022, section 4.2.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.generation.rows import Ahead, Rows, logits_of


class Contrast(Ahead):
    """R rows, of which the network reads each of the k likeliest next tokens before one is chosen: R · k rows.

        rows.logits() ─> choose: read k candidates, compare their states ─> append, and the next logits are there

    The candidates of a row share its keys but for their own, so taking one over writes a single column of the cache.

    Args:
        rows: prompts of which nothing was read yet.
        alpha: how much likeness counts against probability, from 0 (greedy search) to 1.
        k: how many candidates.
    """

    def __init__(self, rows: Rows, *, alpha: float, k: int) -> None:
        super().__init__(rows)
        self._alpha = alpha
        self._k = k
        self._states = torch.empty(0)  # of all tokens that were said, as directions. [R, T, D]
        self._next: Tensor | None = None  # logits. [R, V]

    def logits(self) -> Tensor:
        if self._next is None:
            self._next = self._begin()
        return self._next

    def choose(self, logits: Tensor) -> Tensor:
        """The candidate with the best score, given filtered logits; a token of probability 0 is none. [R, V] → [R]"""
        candidates = logits.topk(self._k).indices  # [R, k]
        probs = logits.softmax(-1).gather(1, candidates)
        self.rows.append(candidates.flatten())
        output = self.rows.read()
        states = _directions(output.last_hidden_state)[:, -1].unflatten(0, (-1, self._k))  # [R, k, D]
        cosines = states @ self._states.mT  # [R, k, T]
        likeness = cosines.masked_fill(self.seen[:, None] < 0, -torch.inf).amax(-1)  # [R, k]
        scores = (1 - self._alpha) * probs - self._alpha * likeness
        best = scores.masked_fill(probs == 0, -torch.inf).argmax(-1)  # [R]
        rows = torch.arange(len(self), device=best.device)
        chosen = rows * self._k + best
        self._next = logits_of(output)[chosen, -1]
        self._states = torch.cat([self._states, states[rows, best][:, None]], dim=1)
        self.rows.pick(chosen.repeat_interleave(self._k))
        return candidates[rows, best]

    def _begin(self) -> Tensor:
        """Read the prompts: logits, and the states of all their tokens; then each row becomes k."""
        output = self.rows.read()
        logits = logits_of(output)[:, -1]
        self._k = min(self._k, logits.shape[-1])
        self._states = _directions(output.last_hidden_state)
        self.rows.pick(torch.arange(len(self), device=logits.device).repeat_interleave(self._k))
        return logits


def _directions(states: Tensor | None) -> Tensor:
    """States of length 1 in at least fp32, whose products are cosines. [R, T, D]"""
    assert states is not None  # every head is given states, and hands them on
    return F.normalize(states.to(torch.promote_types(states.dtype, torch.float32)), dim=-1)
