"""Trace recorder: adds the tokens and distributions of each decoding step to a token tree.

Decoding, beam search ──their filters──> LogitsProbe: distributions ─┐
                      ──their steps───> tokens ──────────────────────┴─> nodes, choices ──> on_step(TreeStep)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.generation.decoding import Decoding, Generated, StopReason
from glassformer.generation.filters import Filter
from glassformer.generation.options import GenerationOptions
from glassformer.generation.rows import Rows
from glassformer.inspect.token_tree import (
    Choice,
    Chosen,
    Leaf,
    TokenDistribution,
    TokenNode,
    TokenTree,
    TreeStep,
    best_first,
)

OnStep = Callable[[TreeStep], None]
"""Callback after each decoding step."""


class StopTrace(Exception):
    """Raised by a callback to stop generation; the texts end where they are."""


class LogitsProbe:
    """Records the logits of a step on their way through the filters, and changes nothing.

        logits ─probe─> rules ─probe─> temperature, top-k, … ─probe─> choice

    Args:
        filters: rules, and after them `sampling_filters` filters of the sampling distribution.
        beams: the filters get log-probabilities, as beam search adds them up, instead of logits.
    """

    def __init__(self, filters: Sequence[Filter], sampling_filters: int, *, beams: bool) -> None:
        split = len(filters) - sampling_filters
        self.filters: list[Filter] = [
            self._record_first,
            *filters[:split],
            self._record,
            *filters[split:],
            self._record,
        ]
        self._beams = beams
        self._records: list[Tensor] = []

    def _record_first(self, ids: Tensor, logits: Tensor) -> Tensor:
        self._records = []
        return self._record(ids, logits)

    def _record(self, ids: Tensor, logits: Tensor) -> Tensor:
        self._records.append(logits)
        return logits

    def distribution(self, row: int) -> TokenDistribution:
        """The distribution that a row's token was chosen from."""
        raw, after_rules, filtered = (logits[row].cpu() for logits in self._records)
        model = self._logprobs(raw)
        shift = 0.0 if self._beams else raw.logsumexp(-1)
        return TokenDistribution(
            model,
            model if torch.equal(after_rules, raw) else after_rules - shift,
            model if torch.equal(filtered, raw) else self._logprobs(filtered),
        )

    def read(self, rows: Rows) -> TokenDistribution:
        """The next-token distribution of a single row."""
        logits = rows.logits()
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logits = logits.log_softmax(-1) if self._beams else logits
        for logit_filter in self.filters:
            logits = logit_filter(rows.filter_ids, logits)
        return self.distribution(0)

    def _logprobs(self, logits: Tensor) -> Tensor:
        """Log-probabilities, in memory of their own. Those of beam search stay as they are, even not normalised."""
        return logits.clone() if self._beams else logits.log_softmax(-1)


@dataclass(frozen=True)
class TraceRecorder:
    """Records one call of `GenerationTrace.write` in a token tree."""

    tree: TokenTree
    options: GenerationOptions
    probe: LogitsProbe
    on_step: OnStep

    def append_token(self, at: int, token: int, rows: Rows) -> int:
        """Append a token by hand; returns its node."""
        record = _StepRecord(self, {at: self.probe.read(rows)}, "hand")
        node = record.child(at, token)
        rows.append(torch.tensor([token], device=rows.ids.device))
        self.on_step(record.step([self.tree.leaf(node)], []))
        return node

    def decode(self, at: int, decoding: Decoding) -> list[Leaf]:
        """Record greedy search or sampling from a node; returns the leaf of each row."""
        nodes = [at] * len(decoding.rows)
        ended: list[Leaf] = []
        otherwise: StopReason = "max_new_tokens"
        try:
            for step in decoding:
                active, running = step.active.tolist(), decoding.stop.running.tolist()
                rows = [row for row in range(len(nodes)) if active[row]]
                record = _StepRecord(self, {nodes[row]: self.probe.distribution(row) for row in rows})
                tokens = step.tokens.tolist()
                for row in rows:
                    nodes[row] = record.child(nodes[row], tokens[row])
                leaves = list(map(self.tree.leaf, nodes, decoding.stop.reasons()))
                ended += [leaves[row] for row in rows if not running[row]]
                live = dict.fromkeys(node for row, node in enumerate(nodes) if running[row])
                self.on_step(record.step(best_first(map(self.tree.leaf, live)), best_first(ended)))
        except StopTrace:
            otherwise = "interrupted"
        return list(map(self.tree.leaf, nodes, decoding.stop.reasons(otherwise)))

    def search(self, at: int, run: Callable[[Callable[[Generated], None]], Generated]) -> tuple[Leaf, ...]:
        """Record a beam search from a node; returns finished hypotheses, best first, or else the running beams.

        Args:
            run: runs the search with a callback for each step.
        """
        beams: list[int | None] = [at] * self.options.num_beams  # the node of each beam; None: a dead beam
        ended: list[Leaf] = []
        live: tuple[Leaf, ...] = ()

        def record_step(partial: Generated) -> None:
            nonlocal live
            read = {node: self.probe.distribution(beam) for beam, node in enumerate(beams) if node is not None}
            record = _StepRecord(self, read)
            ended[:] = record.hypotheses(at, partial)
            leaves = record.extend(beams, partial)
            beams[:] = [None if leaf is None else leaf.node for leaf in leaves]
            live = best_first(leaf for leaf in leaves if leaf is not None)
            self.on_step(record.step(live, ended))

        try:
            run(record_step)
        except StopTrace:
            return tuple(ended) or tuple(replace(leaf, reason="interrupted") for leaf in live)
        return tuple(ended)


class _StepRecord:
    """What one decoding step adds to the tree.

    Args:
        distributions: of the nodes that the network has read in this step.
    """

    def __init__(
        self, recorder: TraceRecorder, distributions: dict[int, TokenDistribution], chosen: Chosen = "method"
    ) -> None:
        self._recorder = recorder
        self._distributions = distributions
        self._chosen: Chosen = chosen
        self._nodes: list[TokenNode] = []
        self._choices: list[Choice] = [
            recorder.tree.record(node, distribution, recorder.options) for node, distribution in distributions.items()
        ]

    def child(self, parent: int, token: int) -> int:
        """The child of a node with this token, added if there is none."""
        tree = self._recorder.tree
        child = tree.child(parent, token)
        if child is not None:
            return child
        distribution, options = self._distributions[parent], self._recorder.options
        node, new = tree.add(parent, token, distribution, options, self._chosen)
        self._nodes.extend(new)
        return node

    def hypotheses(self, at: int, partial: Generated) -> list[Leaf]:
        """Leaves of the finished hypotheses of a beam search."""
        assert partial.scores is not None and partial.active is not None
        leaves, lengths = [], partial.active.sum(-1).tolist()
        rows = zip(partial.new_ids.tolist(), lengths, partial.scores.tolist(), partial.reasons, strict=True)
        for ids, length, score, reason in rows:
            if score > -torch.inf and length:
                node = at
                for token in ids[:length]:
                    node = self.child(node, token)
                leaves.append(Leaf(node, score, reason))
        return leaves

    def extend(self, beams: Sequence[int | None], partial: Generated) -> list[Leaf | None]:
        """Leaves of the beams after the last step; None: a dead beam."""
        assert partial.beams is not None
        last, leaves = partial.beams[-1], list[Leaf | None]()
        columns = (column[0].tolist() for column in (last.parents, last.tokens, last.scores))
        for parent, token, score in zip(*columns, strict=True):
            node = beams[parent]
            dead = score == -torch.inf
            leaves.append(None if node is None or dead else Leaf(self.child(node, token), score))
        return leaves

    def step(self, live: Sequence[Leaf], ended: Sequence[Leaf]) -> TreeStep:
        return TreeStep(tuple(self._nodes), tuple(self._choices), tuple(live), tuple(ended))
