"""Asking a model about examples, in their order, laid out as in training: packed without padding where it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from glassformer.core.flow import Output
from glassformer.data.order import generator
from glassformer.engine.modes import evaluating
from glassformer.tasks.base import Examples, Objective
from glassformer.tasks.microbatch import Example, Pass, lay_out

WINDOW, TOKENS = 1_024, 4_096
"""Examples that are sorted among themselves, and tokens of a pass: they change the time it takes, and no figure."""


def answers(
    objective: Objective,
    examples: Examples | Sequence[Example],
    *,
    read: Callable[[Output, Pass], list[Any]] | None = None,
    tokens: int = TOKENS,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Any]:
    """What the head says to each example, as the objective reads it.

    Args:
        read: what is kept of a pass, one thing an example; None = the objective's `answers`
        tokens: of a pass at most · progress: called with how many more examples are answered
    """
    read = read or objective.answers
    network, device = objective.model.network, objective.model.device
    with evaluating(network):
        for start in range(0, len(examples), WINDOW):
            window = list(range(start, min(start + WINDOW, len(examples))))
            seen = [objective.varied(examples[i], generator(0, 0, i)) for i in window]
            found: dict[int, Any] = {}
            for item in cut(objective, seen, window, tokens, None):
                placed = item.to(device)
                with torch.inference_mode():
                    output = network(placed.batch, placed.flow)
                    found.update(zip(item.indices, read(output, placed), strict=True))
                if progress is not None:
                    progress(len(item.indices))
            yield from (found[i] for i in window)


def cut(
    objective: Objective,
    examples: Sequence[Example],
    indices: Sequence[int],
    tokens: int,
    size: int | None,
) -> list[Pass]:
    """Examples laid out in passes of at most so many tokens and examples, those of like length together."""
    if not examples:
        return []
    lengths = [objective.length(example) for example in examples]
    groups = lay_out(lengths, tokens)
    if size is not None:
        groups = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    return [objective.passed([examples[i] for i in group], [indices[i] for i in group]) for group in groups]


def first_pass(objective: Objective, examples: Examples) -> Pass:
    """The first example alone, for those who need any pass at all."""
    return cut(objective, [examples[0]], [0], 1, None)[0]
