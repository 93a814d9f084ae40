"""One writing under way: what each step of a method adds to the tree.

Decoding, beams ──their filters──> Ear: what could come ─┐
                ──their steps───> tokens ────────────────┴─> nodes, choices ──> watch(Step)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.generation.filters import Filter
from glassformer.generation.options import Options
from glassformer.generation.rows import Rows
from glassformer.generation.sample import Decoding, Generated
from glassformer.generation.stop import Reason
from glassformer.inspect.tree import Choice, Chosen, Node, Odds, Place, Step, Tree, best_first

Watch = Callable[[Step], None]


class Enough(Exception):
    """What a watcher raises to end a text where it stands."""


class Ear:
    """Hears the logits of a step on their way through the filters, and changes nothing.

        logits ─ear─> rules ─ear─> temperature, cuts ─ear─> the choice

    Args:
        filters: rules, and behind them so many `shapes`: what only a draw goes through.
        summed: they are given log-probabilities, as beams add them up, instead of logits.
    """

    def __init__(self, filters: Sequence[Filter], shapes: int, *, summed: bool) -> None:
        rules, shape = filters[: len(filters) - shapes], filters[len(filters) - shapes :]
        self.filters: list[Filter] = [self._first, *rules, self._next, *shape, self._next]
        self._summed = summed
        self._heard: list[Tensor] = []

    def _first(self, ids: Tensor, logits: Tensor) -> Tensor:
        self._heard = []
        return self._next(ids, logits)

    def _next(self, ids: Tensor, logits: Tensor) -> Tensor:
        self._heard.append(logits)
        return logits

    def odds(self, row: int) -> Odds:
        """What a row was chosen from."""
        model, ruled, drawn = (heard[row].cpu() for heard in self._heard)
        found = self._normal(model)
        shift = 0.0 if self._summed else model.logsumexp(-1)
        return Odds(
            found,
            found if torch.equal(ruled, model) else ruled - shift,
            found if torch.equal(drawn, model) else self._normal(drawn),
        )

    def listen(self, rows: Rows) -> Odds:
        """What could come next in the only row of these."""
        logits = rows.logits()
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logits = logits.log_softmax(-1) if self._summed else logits
        for change in self.filters:
            logits = change(rows.seen, logits)
        return self.odds(0)

    def _normal(self, heard: Tensor) -> Tensor:
        """As log-probabilities, apart from the rows beside it. What beams add up stays as it is."""
        return heard.clone() if self._summed else heard.log_softmax(-1)


@dataclass(frozen=True)
class Growing:
    """A tree that grows as `asked`, and who watches it."""

    tree: Tree
    asked: Options
    ear: Ear
    watch: Watch

    def say(self, at: int, token: int, rows: Rows) -> int:
        """Write a token by hand."""
        odds = self.ear.listen(rows)
        new = _New(self, {at: odds}, "hand")
        node = new.child(at, token)
        rows.append(torch.tensor([token], device=rows.ids.device))
        self.watch(new.step([self.tree.place(node)], []))
        return node

    def decode(self, at: int, decoding: Decoding) -> list[Place]:
        """Greedy search, or draws: where each row ended."""
        rows = [at] * len(decoding.rows)
        ended: list[Place] = []
        otherwise: Reason = "max_new_tokens"
        try:
            for step in decoding:
                spoken, running = step.spoken.tolist(), decoding.stop.running.tolist()
                new = _New(self, {rows[row]: self.ear.odds(row) for row in range(len(rows)) if spoken[row]})
                for row, token in enumerate(step.tokens.tolist()):
                    if spoken[row]:
                        rows[row] = new.child(rows[row], token)
                places = list(map(self.tree.place, rows, decoding.stop.reasons()))
                ended += [place for row, place in enumerate(places) if spoken[row] and not running[row]]
                live = dict.fromkeys(node for row, node in enumerate(rows) if running[row])
                self.watch(new.step(best_first(map(self.tree.place, live)), best_first(ended)))
        except Enough:
            otherwise = "interrupted"
        return list(map(self.tree.place, rows, decoding.stop.reasons(otherwise)))

    def search(self, at: int, run: Callable[[Callable[[Generated], None]], Generated]) -> tuple[Place, ...]:
        """Beams: all that ended, the best first; those carried on where none had.

        Args:
            run: the search, to be watched.
        """
        rows: list[int | None] = [at] * self.asked.num_beams  # None: a beam that has no way on
        ended: list[Place] = []
        live: tuple[Place, ...] = ()

        def see(found: Generated) -> None:
            nonlocal live
            new = _New(self, {node: self.ear.odds(row) for row, node in enumerate(rows) if node is not None})
            assert found.scores is not None and found.spoken is not None and found.beams is not None
            lengths = found.spoken.sum(-1).tolist()
            rated = zip(found.new_ids.tolist(), lengths, found.scores.tolist(), found.reasons, strict=True)
            ended[:] = [
                Place(new.follow(at, ids[:length]), score, reason)
                for ids, length, score, reason in rated
                if score > -torch.inf and length
            ]
            carried = []
            last = found.beams[-1]
            steps = (part[0].tolist() for part in (last.parents, last.tokens, last.scores))
            for parent, token, score in zip(*steps, strict=True):
                before = rows[parent]
                goes_on = before is not None and score > -torch.inf
                carried.append(
                    Place(new.child(before, token), score) if before is not None and goes_on else None
                )
            rows[:] = [None if place is None else place.node for place in carried]
            live = best_first(place for place in carried if place is not None)
            self.watch(new.step(live, ended))

        try:
            run(see)
        except Enough:
            return tuple(ended) or tuple(replace(place, reason="interrupted") for place in live)
        return tuple(ended)


class _New:
    """What one step adds to the tree.

    Args:
        odds: of the nodes that the network has read in this step.
    """

    def __init__(self, growing: Growing, odds: dict[int, Odds], chosen: Chosen = "method") -> None:
        self._growing = growing
        self._odds = odds
        self._chosen: Chosen = chosen
        self._nodes: list[Node] = []
        self._choices: list[Choice] = [
            growing.tree.note(node, found, growing.asked) for node, found in odds.items()
        ]

    def child(self, parent: int, token: int) -> int:
        """The node that says this token behind another, made now if it is not there."""
        tree = self._growing.tree
        known = tree.child(parent, token)
        if known is not None:
            return known
        node, new = tree.add(parent, token, self._odds[parent], self._growing.asked, self._chosen)
        self._nodes.extend(new)
        return node

    def follow(self, node: int, tokens: Sequence[int]) -> int:
        for token in tokens:
            node = self.child(node, token)
        return node

    def step(self, live: Sequence[Place], ended: Sequence[Place]) -> Step:
        return Step(tuple(self._nodes), tuple(self._choices), tuple(live), tuple(ended))
