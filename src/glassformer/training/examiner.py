"""Asking a network about examples: for figures while it trains, and for its answers.

examples ─ windows ─ sorted by length ─ passes ─ network ─┬─ losses and meter: figures of any amount of data
                                                          └─ answers, in the order of the examples
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.data.order import generator
from glassformer.tasks.base import Examples, Objective
from glassformer.tasks.loop import cut, first_pass
from glassformer.tasks.microbatch import Example, Pass
from glassformer.training.faults import is_out_of_memory
from glassformer.training.gradients import Gradients

WINDOW = 1_024  # examples that are sorted among themselves, so that memory does not grow with the data


class Examiner:
    """Asks in eval mode, each process a share of the examples.

    Args:
        gradients: whose network is asked, and how · tokens: what a pass holds at most; for want of memory it is halved,
            apart from training's
    """

    def __init__(self, gradients: Gradients, objective: Objective, *, tokens: int) -> None:
        self.gradients, self.objective, self.tokens = gradients, objective, tokens
        self.learner, self.crew, self.device = gradients.learner, gradients.crew, gradients.device

    def figures(self, examples: Examples) -> dict[str, float]:
        """The mean loss of all labels, and what the objective's meter says."""
        head = self.gradients.head
        meter = self.objective.meter()
        sums: dict[str, float] = {}
        for output, item in self._answers(
            examples, np.arange(len(examples))[self.crew.rank :: self.crew.world]
        ):
            for name, x in head.sums(output, item.labels).items():
                sums[f"sum {name}"] = sums.get(f"sum {name}", 0.0) + float(x)
            for name, count in head.counts(item.labels).items():
                sums[f"count {name}"] = sums.get(f"count {name}", 0.0) + count
            meter.add(output, item)
        sums = self._added(sums, examples, head)
        for name, x in meter.state.items():
            places = {str(i): v for i, v in enumerate(x.flatten().tolist())}
            meter.state[name] = torch.tensor(list(self.crew.added(places).values()), dtype=x.dtype).view(
                x.shape
            )
        names = [name.removeprefix("sum ") for name in sums if name.startswith("sum ")]
        loss = sum(sums[f"sum {name}"] / max(sums[f"count {name}"], 1) for name in names)
        return {"loss": loss, **meter.figures()}

    def answers(self, examples: Examples) -> Iterator[Any]:
        """What the head says to each example, in their order, as the objective reads it."""
        for start in range(0, len(examples), WINDOW):
            chosen = np.arange(start, min(start + WINDOW, len(examples)))
            found: dict[int, Any] = {}
            for output, item in self._answers(examples, chosen):
                found.update(zip(item.indices, self.objective.answers(output, item), strict=True))
            yield from (found[int(i)] for i in chosen)

    def _added(self, sums: dict[str, float], examples: Examples, head: Head) -> dict[str, float]:
        """The sums of all processes; one that had no share names its zeros."""
        if self.crew.world == 1:
            return sums
        names = head.counts(first_pass(self.objective, examples).labels)
        keys = [f"{kind} {name}" for name in names for kind in ("sum", "count")]
        return self.crew.added({key: sums.get(key, 0.0) for key in keys})

    def _answers(self, examples: Examples, chosen: np.ndarray) -> Iterator[tuple[Output, Pass]]:
        training = self.learner.training
        self.learner.eval()
        windows = self.crew.most(-(-len(chosen) // WINDOW))
        try:
            for start in range(0, windows * WINDOW, WINDOW):
                window = chosen[start : start + WINDOW].tolist()
                # The same draw each time: figures of two validations differ by the weights alone.
                seen = [self.objective.varied(examples[i], generator(0, 0, i)) for i in window]
                items = cut(self.objective, seen, window, self.tokens, None)
                for _ in range(self.crew.most(len(items)) - len(items)):
                    self._asked(first_pass(self.objective, examples))  # as often as the others
                for item in items:
                    yield from self._answered(item, dict(zip(window, seen, strict=True)))
        finally:
            self.crew.settle(self.learner)
            self.learner.train(training)

    def _answered(self, item: Pass, seen: Mapping[int, Example]) -> Iterator[tuple[Output, Pass]]:
        """The answer to a pass; where memory does not suffice, to its parts."""
        try:
            answer = self._asked(item)
        except Exception as error:
            if not is_out_of_memory(error) or len(item.indices) == 1 or self.crew.world > 1:
                raise
        else:
            yield answer
            return
        self.tokens = max(self.tokens // 2, 1)
        for part in cut(self.objective, [seen[i] for i in item.indices], item.indices, self.tokens, None):
            yield from self._answered(part, seen)

    def _asked(self, item: Pass) -> tuple[Output, Pass]:
        placed = item.to(self.device)
        with torch.no_grad(), self.gradients.precise():
            return self.learner(placed, learn=False), placed
