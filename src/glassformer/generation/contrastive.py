"""Contrastive search: a likely token whose hidden state differs from those before it, against repetition.

    top k     p      highest cosine         score = (1 - α) p - α · cosine      α = 0.6
    the       0.50   0.95                                    -0.37
    a         0.30   0.60                                    -0.24   is chosen
    my        0.10   0.70                                    -0.38

Source: Su et al. 2022, section 4.2.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.generation.rows import LookaheadRows, Rows, logits_of


class ContrastiveSearch(LookaheadRows):
    """Contrastive search: the network reads the k most likely tokens of each row, R · k rows, before one is chosen.

        rows.logits() ─> choose: read k candidates, compare their states ─> append; the next logits are known already

    The candidates of a row share all keys but the last, so selecting one writes a single column of the cache.

    Args:
        rows: prompts, none of them read yet.
        alpha: degeneration penalty, the weight of similarity against probability, from 0 (greedy search) to 1.
        k: number of candidates.
    """

    def __init__(self, rows: Rows, *, alpha: float, k: int) -> None:
        super().__init__(rows)
        self._alpha = alpha
        self._k = k
        self._states = torch.empty(0)  # unit hidden states of all tokens of the rows. [R, T, D]
        self._next: Tensor | None = None  # logits of the next token. [R, V]

    def logits(self) -> Tensor:
        if self._next is None:
            self._next = self._read_prompts()
        return self._next

    def choose(self, logits: Tensor) -> Tensor:
        """The candidate with the best contrastive score; one of probability 0 is never chosen. [R, V] → [R]

        Args:
            logits: after filters.
        """
        candidates = logits.topk(self._k).indices  # [R, k]
        probs = logits.softmax(-1).gather(1, candidates)
        self.rows.append(candidates.flatten())
        output = self.rows.read()
        states = _unit_states(output.last_hidden_state)[:, -1].unflatten(0, (-1, self._k))  # [R, k, D]
        cosines = states @ self._states.mT  # [R, k, T]
        similarity = cosines.masked_fill(self.filter_ids[:, None] < 0, -torch.inf).amax(-1)  # [R, k]
        scores = (1 - self._alpha) * probs - self._alpha * similarity
        best = scores.masked_fill(probs == 0, -torch.inf).argmax(-1)  # [R]
        rows = torch.arange(len(self), device=best.device)
        chosen = rows * self._k + best
        self._next = logits_of(output)[chosen, -1]
        self._states = torch.cat([self._states, states[rows, best][:, None]], dim=1)
        self.rows.pick(chosen.repeat_interleave(self._k))
        return candidates[rows, best]

    def _read_prompts(self) -> Tensor:
        """Read the prompts: logits, and the states of all their tokens; then repeat each row k times."""
        output = self.rows.read()
        logits = logits_of(output)[:, -1]
        self._k = min(self._k, logits.shape[-1])
        self._states = _unit_states(output.last_hidden_state)
        self.rows.pick(torch.arange(len(self), device=logits.device).repeat_interleave(self._k))
        return logits


def _unit_states(states: Tensor | None) -> Tensor:
    """Normalised hidden states in at least fp32, whose products are cosines. [R, T, D]"""
    assert states is not None  # every head returns the states that it is given
    return F.normalize(states.to(torch.promote_types(states.dtype, torch.float32)), dim=-1)
