"""How the examples of one step are laid out for the network: passes of a bounded number of tokens.

    packed   a a a b b c c c c c          one row without padding, where a network keeps texts apart by `Segments`
    padded   a a a . .                    a rectangle of texts of about one length, where it does not
             c c c c c

Splitting a step into passes changes no gradient: losses are summed, and divided by the counts of the whole step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Labels
from glassformer.core.masks import Segments
from glassformer.engine.passes import plan_passes

Example = Mapping[str, Any]
"""One example: arrays by the names of a `Batch`, with what its head should have said; see `Objective`."""

HIDDEN = -100
"""A label that does not count."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One call of the network in training: what goes in, and what should come out.

    indices: which examples of the data these are, for messages · tokens: how many are no padding
    """

    batch: Batch
    flow: Flow
    labels: Labels
    indices: tuple[int, ...] = ()
    tokens: int = 0

    def to(self, device: torch.device) -> Pass:
        """The same on a device."""
        if device.type == "cpu":
            return self
        batch = {
            f.name: x.to(device, non_blocking=True)
            for f in fields(self.batch)
            if (x := getattr(self.batch, f.name)) is not None
        }
        keep = None if self.flow.keep is None else self.flow.keep.to(device, non_blocking=True)
        labels = (
            {name: x.to(device) for name, x in self.labels.items()}
            if isinstance(self.labels, dict)
            else self.labels.to(device, non_blocking=True)
        )
        return replace(self, batch=Batch(**batch), flow=replace(self.flow, keep=keep), labels=labels)


def lay_out(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Which examples share a pass of at most `budget` tokens, those of like length together; none alone is cut."""
    return plan_passes(lengths, budget)


def joined(arrays: Sequence[Any], dtype: torch.dtype = torch.int64) -> Tensor:
    """Texts laid end to end. [1, tokens]"""
    return torch.from_numpy(np.concatenate([np.asarray(a) for a in arrays])).to(dtype)[None]


def padded(arrays: Sequence[Any], fill: float, dtype: torch.dtype = torch.int64) -> Tensor:
    """Texts below each other, the shorter ones filled up on the right. [texts, longest]"""
    longest = max(map(len, arrays))
    found = torch.full((len(arrays), longest), fill, dtype=dtype)
    for row, array in zip(found, arrays, strict=True):
        row[: len(array)] = torch.from_numpy(np.asarray(array))
    return found


def kept(arrays: Sequence[Any]) -> Tensor:
    """True where a padded row holds text. [texts, 1, longest] bool"""
    lengths = torch.tensor([len(array) for array in arrays])
    return (torch.arange(int(lengths.max()))[None] < lengths[:, None])[:, None]


def packed_texts(examples: Sequence[Example]) -> tuple[Batch, Flow]:
    """Texts in one row; an example that holds several documents says so in `documents`, their lengths."""
    lengths = [
        int(length)
        for example in examples
        for length in example.get("documents", [len(example["input_ids"])])
    ]
    ids, types = [e["input_ids"] for e in examples], _types(examples)
    batch = Batch(input_ids=joined(ids), token_type_ids=None if types is None else joined(types))
    return batch, Flow(segments=Segments(tuple(lengths)))


def padded_texts(examples: Sequence[Example], padding: int) -> tuple[Batch, Flow]:
    """Texts in a rectangle, filled up with the id `padding`."""
    ids, types = [e["input_ids"] for e in examples], _types(examples)
    batch = Batch(input_ids=padded(ids, padding), token_type_ids=None if types is None else padded(types, 0))
    even = len(set(map(len, ids))) == 1
    return batch, Flow(keep=None if even else kept(ids))


def _types(examples: Sequence[Example]) -> list[Any] | None:
    """Which text of a pair each token is of; a text that stands alone is the first."""
    if not any("token_type_ids" in example for example in examples):
        return None
    return [example.get("token_type_ids", [0] * len(example["input_ids"])) for example in examples]
