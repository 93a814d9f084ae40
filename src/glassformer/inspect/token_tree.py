"""Token tree of a generation trace: all tokens generated from one prompt, their probabilities and alternatives.

Once upon a time ─┬─ , ─ there ─ was ─ a          node 0 is the prompt, a path of nodes is a text
                  └─ in ─ a                       another beam, another sample, or a branch made by the user
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log
from threading import Lock
from typing import Literal

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.generation.decoding import StopReason
from glassformer.generation.detokenizer import IncrementalDetokenizer
from glassformer.generation.options import GenerationOptions
from glassformer.inspect.head import LRUCache
from glassformer.inspect.tokens import vocabulary_entry
from glassformer.text.tokenizer import Tokenizer

TOP = 10
"""Number of most likely tokens in a `Choice`."""
MAX_NODES = 20_000
"""Bounds the memory of a tree that a page may grow without end."""
DISTRIBUTION_BYTES = 32_000_000
"""Size of the cache of token distributions; those of other nodes are computed again when needed."""
LEFT_NEIGHBOURS = 16
"""Prompt tokens that the first new token is decoded with, so that its space, or the rest of a character, is right."""

Chosen = Literal["method", "hand"]


@dataclass(frozen=True, eq=False, slots=True)
class TokenDistribution:
    """Next-token distribution of a node: log-probabilities of the whole vocabulary. [V] each

    model: of the model
    after_rules: after bans, penalties and forced tokens, before sampling filters; not normalised, -inf where banned.
        The same tensor as `model` where the rules change nothing
    filtered: what the method chooses from, after all filters
    """

    model: Tensor
    after_rules: Tensor
    filtered: Tensor

    @property
    def entropy(self) -> float:
        """Entropy of the model's distribution, in bits."""
        # nansum: 0 · log 0 counts as 0.
        return float(-(self.model.exp() * self.model).nansum()) / log(2)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible next token: the characters it completes, and its log-probability before and after filtering.

    text: empty for a part of a character, and for a special token
    logprobs: None for -inf
    """

    token: int
    text: str
    piece: str
    special: bool
    logprob: float | None
    filtered_logprob: float | None


@dataclass(frozen=True, slots=True)
class TokenNode:
    """A generated token; joined along a path, the texts of nodes are the generated text.

    total: sum of log-probabilities from the prompt to here
    rank: rank in the model's distribution, 1 = the most likely
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
    """The alternatives after node `at`: the most likely tokens by the model, some of them filtered out.

    entropy: of the model's distribution, in bits
    remaining: number of tokens left by the filters
    """

    at: int
    entropy: float
    remaining: int
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """The last node of a text, finished or not.

    score: sum of log-probabilities; of a beam after filters and diversity penalty, and length-normalised at its end
    reason: stop reason of a finished text
    """

    node: int
    score: float | None
    reason: StopReason | None = None


@dataclass(frozen=True, slots=True)
class TreeStep:
    """What one decoding step added to the tree: new nodes, the alternatives at nodes that were read, and leaves.

    live: unfinished texts, best first
    ended: finished texts so far, best first; of a beam search, its pool
    """

    nodes: tuple[TokenNode, ...]
    choices: tuple[Choice, ...]
    live: tuple[Leaf, ...]
    ended: tuple[Leaf, ...] = ()


class TokenTree:
    """Tree of generated tokens by node number; thread-safe.

    nodes, choices: by node number
    options: the options with which a node was read, or else generated
    distributions: token distributions of recently read nodes

    Args:
        prompt: token ids before the first new token in the same stream.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.nodes: dict[int, TokenNode] = {}
        self.choices: dict[int, Choice] = {}
        self.options: dict[int, GenerationOptions] = {}
        self.distributions = LRUCache(DISTRIBUTION_BYTES)
        self._tokenizer = tokenizer
        self._children: dict[tuple[int, int], int] = {}
        self._detokenizers = {0: IncrementalDetokenizer(tokenizer)}
        for token in prompt[-LEFT_NEIGHBOURS:]:
            self._detokenizers[0].add(token)
        self._lock = Lock()

    def path(self, node: int) -> list[int]:
        """The nodes from the first generated token to this one."""
        nodes = []
        while node:
            nodes.append(node)
            node = self.nodes[node].parent
        return nodes[::-1]

    def leaf(self, node: int, reason: StopReason | None = None) -> Leaf:
        """A leaf at a node, with the sum of log-probabilities as its score."""
        return Leaf(node, self.nodes[node].total if node else 0.0, reason)

    def tokens(self, node: int) -> list[int]:
        """Token ids of the path to a node."""
        return [self.nodes[each].token for each in self.path(node)]

    def child(self, parent: int, token: int) -> int | None:
        """The child of a node with this token, or None."""
        return self._children.get((parent, token))

    def add(
        self,
        parent: int,
        token: int,
        distribution: TokenDistribution,
        options: GenerationOptions,
        chosen: Chosen = "method",
    ) -> tuple[int, tuple[TokenNode, ...]]:
        """Add a child with this token, unless there is one.

        Returns: the child's number, and the new nodes: itself, or none.
        Raises: DataError: the tree is full.
        """
        with self._lock:
            child = self.child(parent, token)
            if child is not None:
                return child, ()
            if len(self.nodes) == MAX_NODES:
                raise DataError(f"this tree is full: it holds {MAX_NODES:,} tokens; begin a new one")
            candidate, detokenizer = self._candidate(parent, token, distribution)
            total = self.nodes[parent].total if parent else 0.0
            node = TokenNode(
                id=len(self.nodes) + 1,
                parent=parent,
                depth=self.nodes[parent].depth + 1 if parent else 1,
                token=token,
                text=candidate.text,
                piece=candidate.piece,
                special=candidate.special,
                logprob=candidate.logprob,
                filtered_logprob=candidate.filtered_logprob,
                total=None if total is None or candidate.logprob is None else total + candidate.logprob,
                rank=int((distribution.model > distribution.model[token]).sum()) + 1,
                chosen=chosen,
            )
            self.nodes[node.id] = node
            self.options[node.id] = options
            self._detokenizers[node.id] = detokenizer
            self._children[parent, token] = node.id
            return node.id, (node,)

    def record(self, at: int, distribution: TokenDistribution, options: GenerationOptions) -> Choice:
        """Record the distribution after a node, and the options with which the node was read."""
        self.options[at] = options
        self.distributions.put(at, (distribution.model, distribution.after_rules, distribution.filtered))
        top = distribution.model.topk(min(TOP, len(distribution.model))).indices
        self.choices[at] = Choice(
            at=at,
            entropy=distribution.entropy,
            remaining=int((distribution.filtered > -torch.inf).sum()),
            top=tuple(self._candidate(at, token, distribution)[0] for token in top.tolist()),
        )
        return self.choices[at]

    def spelling(self, at: int, token: int) -> tuple[str, str]:
        """The characters that a token would complete after a node, and its vocabulary entry."""
        return self._detokenizers[at].copy().add(token), vocabulary_entry(self._tokenizer, token)

    def _candidate(
        self, at: int, token: int, distribution: TokenDistribution
    ) -> tuple[Candidate, IncrementalDetokenizer]:
        detokenizer = self._detokenizers[at].copy()
        text, special = detokenizer.add(token), token in self._tokenizer.special_ids
        logprobs = (_finite(distribution.model[token]), _finite(distribution.filtered[token]))
        return Candidate(token, text, vocabulary_entry(self._tokenizer, token), special, *logprobs), detokenizer


def best_first(leaves: Iterable[Leaf]) -> tuple[Leaf, ...]:
    """Sort leaves by score, the highest first."""
    return tuple(sorted(leaves, key=lambda leaf: inf if leaf.score is None else -leaf.score))


def _finite(logprob: Tensor) -> float | None:
    """None for -inf, which JSON cannot express."""
    number = float(logprob)
    return number if isfinite(number) else None
