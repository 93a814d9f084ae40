"""Scorers: another opinion of what may follow, added to a network's own while it writes (shallow fusion).

    log P(token) + weight · score(token)

    network    cat −0.7  hat −0.9         a transcript "the …": what was heard
    scorer     cat −0.5  hat −3.0         what is usually written
    at 0.5     cat −0.95 hat −2.4

Source: Gulcehre et al. 2015, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generation.filters import Filter
from glassformer.generation.rows import Rows
from glassformer.generation.sample import Generated
from glassformer.models import Network


class Scorer(Protocol):
    """Judges every token that could come next, given rows so far.

    Rows of a search are reordered, copied and dropped between two calls, and nobody says how: a row is known by its
    ids. A scorer that has a state for each row, such as an n-gram model, finds it with `generation.said.Said`.
    """

    def __call__(self, ids: Tensor, begun: int) -> Tensor:
        """What is added for each token, natural logarithms as a rule. [R, V]

        Args:
            ids: rows, -1 where a prompt is padded. [R, T]
            begun: the first so many columns are prompt, or an encoder-decoder's start token.
        """
        ...


def fused(scorer: Scorer, weight: float, *, begun: int) -> Filter:
    """The filter that adds a scorer's opinion: logits + weight · scores.

    Raises: ConfigError: it does not judge the tokens that logits judge.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        scores = scorer(ids, begun)
        if scores.shape != logits.shape:
            raise ConfigError(
                f"a scorer gives scores of shape {list(scores.shape)} for logits of shape {list(logits.shape)}; it "
                "must judge the same rows and the same vocabulary"
            )
        return logits + weight * scores.to(logits)

    return apply


class LanguageModel:
    """Another language model as a scorer: log-probabilities of a decoder-only network with the same vocabulary.

    It keeps its keys and values from step to step, as the search does, and finds again which row was which by what it
    has said. One scorer serves one search at a time.

    Args:
        network: such as `model.network` of one that was loaded.
        begin: its rows begin with these ids instead of the prompt; to judge what an encoder-decoder says, whose own
            start token means nothing to it, give its first token. None = it reads the prompt too.
    """

    def __init__(self, network: Network, *, begin: Sequence[int] | None = None) -> None:
        self._network = network
        self._begin = begin
        self._rows: Rows | None = None

    @torch.inference_mode()
    def __call__(self, ids: Tensor, begun: int) -> Tensor:
        if self._begin is not None:
            start = torch.tensor(self._begin, dtype=ids.dtype, device=ids.device)
            ids = torch.cat([start.expand(len(ids), -1), ids[:, begun:]], dim=1)
        rows = self._continued(ids)
        return rows.logits().float().log_softmax(-1)

    def _continued(self, ids: Tensor) -> Rows:
        """Rows that hold these ids: those of the step before, reordered and one token longer, or new ones."""
        rows = self._rows
        places = None if rows is None else _places(rows.seen, ids[:, :-1])
        if rows is not None and places is not None:
            rows.pick(places)
            rows.append(ids[:, -1])
            return rows
        self._rows = Rows(self._network, ids.clamp(min=0), keep=ids >= 0)
        return self._rows


def _places(before: Tensor, ids: Tensor) -> Tensor | None:
    """Where each of these rows stands among those of before; None where one does not. [R, T] → [R]"""
    if before.shape[1] != ids.shape[1]:
        return None
    same = {tuple(row): place for place, row in enumerate(before.tolist())}
    found = [same.get(tuple(row)) for row in ids.tolist()]
    return None if None in found else torch.tensor(found, device=ids.device)


def rescore(
    found: Generated, scorer: Scorer, weight: float, *, answers: int, attention_mask: Tensor | None = None
) -> Generated:
    """The answers to each prompt in the order of score + weight · what a scorer adds for all their new tokens.

    Sums are compared with sums where a beam search had length_penalty=0.

    Args:
        found: of `generate(…, num_return_sequences=answers, return_scores=True)`.
        attention_mask: as `generate` had it, 0 where prompts are padded. [N, begun]
    Returns: the same rows, reordered within each prompt, with their new scores.
    Raises: ConfigError: rows that were not scored, or a number of them that `answers` does not divide.
    """
    if found.scores is None or found.spoken is None or len(found.ids) % answers:
        raise ConfigError(
            f"rescore was given {len(found.ids)} rows {'without' if found.scores is None else 'with'} scores, "
            f"{answers} a prompt; generate them with return_scores=True and num_return_sequences={answers}"
        )
    ids, scores = found.ids.clone(), found.scores.clone()
    if attention_mask is not None:
        hidden = (attention_mask == 0).repeat_interleave(answers, dim=0)
        ids[:, : found.begun].masked_fill_(hidden, -1)
    for place in range(found.begun, ids.shape[1]):
        added = scorer(ids[:, :place], found.begun).gather(1, found.ids[:, place, None])[:, 0]
        scores += weight * added.masked_fill(~found.spoken[:, place - found.begun], 0.0)
    order = scores.unflatten(0, (-1, answers)).argsort(dim=1, descending=True, stable=True)
    first = torch.arange(0, len(scores), answers, device=scores.device)[:, None]
    return _in_order(replace(found, scores=scores), (first + order).flatten())


def _in_order(found: Generated, order: Tensor) -> Generated:
    """The rows in another order."""
    changed: dict[str, Any] = {}
    for field in fields(found):
        value = getattr(found, field.name)
        if isinstance(value, Tensor):
            changed[field.name] = value[order]
        elif isinstance(value, list):
            changed[field.name] = [value[row] for row in order.tolist()]
    return replace(found, **changed)
