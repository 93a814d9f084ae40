"""The tokens that a model wrote from one prompt, as a tree: how likely each was, and what else could have come.

Once upon a time ─┬─ , ─ there ─ was ─ a          node 0 is the prompt, a path of nodes is a text
                  └─ in ─ a                       another beam, another draw, or a person's branch
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from threading import Lock
from typing import Literal

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.generation.options import Options
from glassformer.generation.pieces import Pieces
from glassformer.generation.stop import Reason
from glassformer.inspect.kept import Kept
from glassformer.text.tokenizer import Tokenizer

TOP = 10
"""How many of the likeliest tokens a choice names."""
MOST_NODES = 20_000
ODDS_BYTES = 32_000_000
"""Log-probabilities of whole vocabularies that are kept; those of other nodes are computed again when asked for."""
LEFT_NEIGHBOURS = 16
"""Tokens of the prompt behind which the first written one is decoded: with its space, or as the rest of a character."""

Chosen = Literal["method", "hand"]


@dataclass(frozen=True, eq=False, slots=True)
class Odds:
    """What could follow a node: log-probabilities of the whole vocabulary. [V] each

    model: as the model gives them
    ruled: behind bans, penalties and forced tokens, before temperature and cuts; not normalised, -inf where banned.
        The same tensor as `model` where the rules change nothing
    drawn: what a token is chosen from
    """

    model: Tensor
    ruled: Tensor
    drawn: Tensor

    @property
    def entropy(self) -> float:
        """Of the model's own distribution, in nats."""
        return float(-(self.model.exp() * self.model).nansum())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could come: the characters it would complete, its log-probability, and the one it is drawn with.

    text is empty for half a character, and for a special token; logprobs are None where nothing can choose it.
    """

    token: int
    text: str
    piece: str
    special: bool
    logprob: float | None
    filtered_logprob: float | None


@dataclass(frozen=True, slots=True)
class Node:
    """A token that was written; joined along a path, the texts are the text.

    total: the sum of log-probabilities from the prompt to here
    rank: 1 = the likeliest of the vocabulary, as the model gives it
    chosen: by the method, or by hand
    """

    id: int
    parent: int
    depth: int
    token: int
    text: str
    piece: str
    special: bool
    logprob: float | None
    filtered_logprob: float | None
    total: float | None
    rank: int
    chosen: Chosen


@dataclass(frozen=True, slots=True)
class Choice:
    """What could follow node `at`: how many tokens the options leave, and the likeliest, which they may have cut."""

    at: int
    entropy: float
    kept: int
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands, or has ended.

    score: the sum of its log-probabilities; of a beam as filters and groups left it, of an ended one by its length
    """

    node: int
    score: float | None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the model added: nodes that are new, what could follow those it read, and where texts stand.

    live: what is carried on, the best first · ended: all that has ended so far, the best first; of beams, the best as
        many as are searched
    """

    nodes: tuple[Node, ...]
    choices: tuple[Choice, ...]
    live: tuple[Place, ...]
    ended: tuple[Place, ...] = ()


class Tree:
    """Nodes by number, and what could follow those that were read. Several threads may add to it.

    asked: the options with which a node was read, or else written · odds: of the nodes read last

    Args:
        before: the tokens that stand before the first written one on the same side.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int]) -> None:
        self.nodes: dict[int, Node] = {}
        self.choices: dict[int, Choice] = {}
        self.asked: dict[int, Options] = {}
        self.odds = Kept(ODDS_BYTES)
        self._tokenizer = tokenizer
        self._children: dict[tuple[int, int], int] = {}
        self._pieces = {0: Pieces(tokenizer)}
        for token in before[-LEFT_NEIGHBOURS:]:
            self._pieces[0].add(token)
        self._lock = Lock()

    def path(self, node: int) -> list[int]:
        """The nodes from the first written token to this one."""
        found = []
        while node:
            found.append(node)
            node = self.nodes[node].parent
        return found[::-1]

    def place(self, node: int, reason: Reason | None = None) -> Place:
        """A node, with the sum of log-probabilities as its score."""
        return Place(node, self.nodes[node].total if node else 0.0, reason)

    def tokens(self, node: int) -> list[int]:
        """The tokens of the path."""
        return [self.nodes[each].token for each in self.path(node)]

    def child(self, parent: int, token: int) -> int | None:
        """The node that says this token behind another; None if none does."""
        return self._children.get((parent, token))

    def add(
        self, parent: int, token: int, odds: Odds, asked: Options, chosen: Chosen = "method"
    ) -> tuple[int, tuple[Node, ...]]:
        """The node that says this token behind another, and the nodes that are new: itself, or none.

        Raises: DataError: the tree is full.
        """
        with self._lock:
            known = self.child(parent, token)
            if known is not None:
                return known, ()
            if len(self.nodes) == MOST_NODES:
                raise DataError(f"this tree holds {MOST_NODES:,} tokens, as many as it can; begin a new one")
            found, pieces = self._candidate(parent, token, odds)
            above = self.nodes[parent].total if parent else 0.0
            node = Node(
                id=len(self.nodes) + 1,
                parent=parent,
                depth=self.nodes[parent].depth + 1 if parent else 1,
                token=token,
                text=found.text,
                piece=found.piece,
                special=found.special,
                logprob=found.logprob,
                filtered_logprob=found.filtered_logprob,
                total=None if above is None or found.logprob is None else above + found.logprob,
                rank=int((odds.model > odds.model[token]).sum()) + 1,
                chosen=chosen,
            )
            self.nodes[node.id] = node
            self.asked[node.id] = asked
            self._pieces[node.id] = pieces
            self._children[parent, token] = node.id
            return node.id, (node,)

    def note(self, at: int, odds: Odds, asked: Options) -> Choice:
        """Remember what could follow a node, and with which options it was read."""
        self.asked[at] = asked
        self.odds.put(at, (odds.model, odds.ruled, odds.drawn))
        best = odds.model.topk(min(TOP, len(odds.model))).indices
        self.choices[at] = Choice(
            at=at,
            entropy=odds.entropy,
            kept=int((odds.drawn > -torch.inf).sum()),
            top=tuple(self._candidate(at, token, odds)[0] for token in best.tolist()),
        )
        return self.choices[at]

    def spelled(self, at: int, token: int) -> tuple[str, str]:
        """The characters that a token would complete behind a node, and its vocabulary entry."""
        return self._pieces[at].fork().add(token), self._piece(token)

    def _candidate(self, at: int, token: int, odds: Odds) -> tuple[Candidate, Pieces]:
        pieces = self._pieces[at].fork()
        text, special = pieces.add(token), token in self._tokenizer.special_ids
        numbers = (_finite(odds.model[token]), _finite(odds.drawn[token]))
        return Candidate(token, text, self._piece(token), special, *numbers), pieces

    def _piece(self, token: int) -> str:
        """As the vocabulary spells it; an embedding may have more rows than the vocabulary has entries."""
        piece: str | None = self._tokenizer.engine.id_to_token(token)
        return f"[{token}]" if piece is None else piece


def best_first(places: Iterable[Place]) -> tuple[Place, ...]:
    """By score, the highest first."""
    return tuple(sorted(places, key=lambda place: inf if place.score is None else -place.score))


def _finite(logprob: Tensor) -> float | None:
    """None for what cannot come: JSON knows no -inf."""
    number = float(logprob)
    return number if isfinite(number) else None
