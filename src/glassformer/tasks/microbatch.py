"""Micro-batches: examples collated for one call of the network, of a bounded number of tokens.

    packed   a a a b b c c c c c          one row without padding, where a network keeps texts apart by `Packing`
    padded   a a a . .                    a rectangle of texts of about one length, where it does not
             c c c c c

Splitting a step into micro-batches changes no gradient: losses are summed, and divided by the counts of the whole step.
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
from glassformer.core.masks import Packing

Example = Mapping[str, Any]
"""One example: arrays by the names of a `Batch`, with its labels; see `Task`."""

IGNORE_INDEX = -100
"""A label that does not count."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One call of the network: its inputs and labels.

    indices: which examples of the data these are, for messages · tokens: how many are not padding
    """

    batch: Batch
    flow: Flow
    labels: Labels
    indices: tuple[int, ...] = ()
    tokens: int = 0

    def to(self, device: torch.device) -> MicroBatch:
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


def joined(arrays: Sequence[Any], dtype: torch.dtype = torch.int64) -> Tensor:
    """Texts laid end to end. [1, tokens]"""
    return torch.from_numpy(np.concatenate([np.asarray(a) for a in arrays])).to(dtype)[None]


def padded(arrays: Sequence[Any], fill: float, dtype: torch.dtype = torch.int64) -> Tensor:
    """Texts below each other, the shorter ones filled up on the right. [texts, longest], or [texts, longest, books]"""
    longest = max(map(len, arrays))
    matrix = torch.full((len(arrays), longest, *np.shape(arrays[0])[1:]), fill, dtype=dtype)
    for row, array in zip(matrix, arrays, strict=True):
        row[: len(array)] = torch.from_numpy(np.asarray(array))
    return matrix


def padding_keep(arrays: Sequence[Any]) -> Tensor:
    """True where a padded row holds text. [texts, 1, longest] bool"""
    lengths = torch.tensor([len(array) for array in arrays])
    return (torch.arange(int(lengths.max()))[None] < lengths[:, None])[:, None]


def collate_inputs(examples: Sequence[Example], padding: int, *, packed: bool) -> tuple[Batch, Flow]:
    """Examples as one call of the network reads them.

    Texts are packed in one row or padded; waves are padded with silence; images, spectrograms and whatever else has one
    shape are stacked. Examples may have several such fields of a `Batch`, of which the network reads those it knows.

    Args: padding: the id of the padding token · packed: whether texts share a row
    """
    flow = Flow()
    values: dict[str, Tensor] = {}
    if "input_ids" in examples[0]:
        text, flow = packed_texts(examples) if packed else padded_texts(examples, padding)
        values = {"input_ids": text.input_ids, "token_type_ids": text.token_type_ids}  # type: ignore[dict-item]
    for name in FLOAT_FIELDS:
        if name not in examples[0]:
            continue
        arrays = [np.asarray(example[name], dtype=np.float32) for example in examples]
        if len({array.shape for array in arrays}) == 1:
            values[name] = torch.from_numpy(np.stack(arrays))
        else:  # waves of different lengths, [samples]
            values[name] = padded(arrays, 0.0, torch.float32)
            flow = replace(flow, keep=padding_keep(arrays))
    return Batch(**values), flow


FLOAT_FIELDS = ("input_values", "input_features", "pixel_values")
"""The fields of a `Batch` that hold numbers instead of token ids: waves, spectrograms, images."""


def packed_texts(examples: Sequence[Example]) -> tuple[Batch, Flow]:
    """Texts in one row; an example that holds several documents says so in `documents`, their lengths."""
    lengths = [int(length) for example in examples for length in example.get("documents", [len(example["input_ids"])])]
    ids, types = [e["input_ids"] for e in examples], _types(examples)
    batch = Batch(input_ids=joined(ids), token_type_ids=None if types is None else joined(types))
    return batch, Flow(packing=Packing(tuple(lengths)))


def padded_texts(examples: Sequence[Example], padding: int) -> tuple[Batch, Flow]:
    """Texts in a rectangle, filled up with the id `padding`; each document of an example is a row."""
    ids, types = _documents([e["input_ids"] for e in examples], examples), _types(examples)
    types = None if types is None else _documents(types, examples)
    batch = Batch(input_ids=padded(ids, padding), token_type_ids=None if types is None else padded(types, 0))
    even = len(set(map(len, ids))) == 1
    return batch, Flow(keep=None if even else padding_keep(ids))


def _documents(arrays: Sequence[Any], examples: Sequence[Example]) -> list[Any]:
    """Arrays that lie along the tokens of examples, one for each of their documents."""
    ends = [np.cumsum(example.get("documents", [len(example["input_ids"])])) for example in examples]
    return [part for array, own in zip(arrays, ends, strict=True) for part in np.split(array, own[:-1])]


def _types(examples: Sequence[Example]) -> list[Any] | None:
    """Which text of a pair each token is of; a text that stands alone is the first."""
    if not any("token_type_ids" in example for example in examples):
        return None
    return [example.get("token_type_ids", [0] * len(example["input_ids"])) for example in examples]
