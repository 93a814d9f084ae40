"""Micro-batches: examples collated for one call of the network, and the one loop that runs a network over examples.

    examples ─ windows of 1,024 ─ augment ─ sorted by length ─ micro-batches ─ network ─> (output, micro-batch) …

    packed   a a a b b c c c c c          one row without padding, where a network keeps texts apart by `Packing`
    padded   a a a . .                    a rectangle of texts of about one length, where it does not
             c c c c c

Splitting a step into micro-batches changes no gradient: losses are summed, and divided by the counts of the whole step.
Evaluation, pipelines and validation go through the same loop, so a text has the same logits alone, among thousands, and
in a report.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.masks import Packing
from glassformer.data.order import example_generator
from glassformer.engine.batching import plan_batches, run_planned
from glassformer.errors import ConfigError
from glassformer.models import eval_mode
from glassformer.tasks.types import Example, Examples, MicroBatch, RunnableTask

WINDOW = 1_024
"""Examples that are sorted among themselves, so that memory does not grow with the data."""
TOKENS = 4_096
"""Tokens of a micro-batch; it changes the time it takes, and no score."""


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

    Args:
        padding: the id of the padding token
        packed: whether texts share a row
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


def text_labels(examples: Sequence[Example], dtype: torch.dtype = torch.int64) -> Tensor:
    """A label for each example. [examples], or [examples, labels]"""
    return torch.from_numpy(np.stack([np.asarray(e["labels"]) for e in examples])).to(dtype)


def _types(examples: Sequence[Example]) -> list[Any] | None:
    """Which text of a pair each token is of; a single text is the first."""
    if not any("token_type_ids" in example for example in examples):
        return None
    return [example.get("token_type_ids", [0] * len(example["input_ids"])) for example in examples]


# --------------------------------------------------------------------------------- running them


def run_batches(
    task: RunnableTask,
    examples: Examples | Sequence[Example],
    indices: Sequence[int] | None = None,
    *,
    tokens: Callable[[], int] | int = TOKENS,
    size: int | None = None,
    labelled: bool = True,
    call: Callable[[MicroBatch], Output] | None = None,
    windows: int | None = None,
    on_window: Callable[[int], None] | None = None,
    on_out_of_memory: Callable[[Exception], int | None] | None = None,
) -> Iterator[tuple[Output, MicroBatch]]:
    """The network's output for examples, micro-batch by micro-batch; within a window in the order of their lengths.

    Args:
        indices: which examples; None = all
        tokens: of a micro-batch at most; a function is asked for each window
        size: examples of a whole batch, for a task of `WHOLE_BATCH`; None = cut as any, where the loss is not needed
        labelled: whether the examples have labels
        call: gives the output of a micro-batch that is on the device, by a network in eval mode; None = the model's
        windows: how many windows there are at least, empty ones behind the others
        on_window: called at the beginning of each with its number of micro-batches. Both for processes that must call
            their networks equally often.
        on_out_of_memory: gives the tokens that a micro-batch is split to after an error; None = the error is raised
    """
    network, device = task.model.network, task.model.device
    indices = range(len(examples)) if indices is None else indices
    whole = size if task.WHOLE_BATCH else None
    stride = WINDOW if whole is None else max(WINDOW // whole, 1) * whole  # a window holds whole batches
    count = max(-(-len(indices) // stride), windows or 0)

    def run(window: list[int], shown: list[Example], group: Sequence[int]) -> tuple[Output, MicroBatch]:
        members, own = [shown[i] for i in group], tuple(window[i] for i in group)
        batch = task.collate(members, own) if labelled else MicroBatch(*task.collate_inputs(members), {}, own)
        batch = batch.to(device)
        with torch.inference_mode() if call is None else nullcontext():
            output = network(batch.batch, batch.flow) if call is None else call(batch)
            return task.split_packed(output, batch), batch

    with eval_mode(network) if call is None else nullcontext():
        for start in range(0, count * stride, stride):
            window = [int(i) for i in indices[start : start + stride]]
            # Epoch 0 each time: the metrics of two validations differ by the weights alone, not by what was masked.
            shown = [task.augment(examples[i], example_generator(0, 0, i)) for i in window]
            lengths = [task.length(example) for example in shown]
            budget = tokens if isinstance(tokens, int) else tokens()
            # Without gradients a whole batch takes little memory, so one that is trained in parts is not cut here.
            budget = sys.maxsize if whole is not None and task.CACHES_GRADIENTS else budget
            batches = plan_batches(lengths, budget) if whole is None else plan_whole(lengths, budget, whole)
            if on_window is not None:
                on_window(len(batches))
            for _, result in run_planned(batches, lengths, partial(run, window, shown), on_out_of_memory):
                yield result


def run_examples(
    task: RunnableTask,
    examples: Examples | Sequence[Example],
    *,
    read: Callable[[Output, MicroBatch], list[Any]] | None = None,
    tokens: int = TOKENS,
    labelled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Any]:
    """What the head gives for each example, in their order.

    Args:
        read: what is kept of a micro-batch, one thing an example; None = the task's `unbatch`
        tokens: of a micro-batch at most
        labelled: whether the examples have labels
        progress: called with how many more examples are done
    """
    read = read or task.unbatch
    for start in range(0, len(examples), WINDOW):
        window = range(start, min(start + WINDOW, len(examples)))
        results: dict[int, Any] = {}
        for output, batch in run_batches(task, examples, window, tokens=tokens, labelled=labelled):
            with torch.inference_mode():
                results.update(zip(batch.indices, read(output, batch), strict=True))
            if progress is not None:
                progress(len(batch.indices))
        yield from (results[i] for i in window)


def micro_batches(
    task: RunnableTask, examples: Sequence[Example], indices: Sequence[int], tokens: int, size: int | None = None
) -> list[MicroBatch]:
    """Examples collated in micro-batches of at most this many tokens and examples, those of like length together.

    Of a task with `WHOLE_BATCH`, `size` examples (None = all) are a micro-batch, in their order; or, where it caches
    gradients, as many micro-batches as its tokens need, which say that they are parts of one batch (`whole`).
    """
    lengths = [task.length(example) for example in examples]

    def collated(group: Sequence[int], whole: int = 0) -> MicroBatch:
        return replace(task.collate([examples[i] for i in group], [indices[i] for i in group]), whole=whole)

    if task.WHOLE_BATCH and task.CACHES_GRADIENTS:
        return [
            collated([group[i] for i in part], number)
            for number, group in enumerate(plan_whole(lengths, sys.maxsize, size))
            for part in plan_batches([lengths[i] for i in group], tokens)
        ]
    groups = plan_whole(lengths, tokens, size) if task.WHOLE_BATCH else plan_batches(lengths, tokens)
    if size is not None and not task.WHOLE_BATCH:
        groups = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    return [collated(group, number * task.WHOLE_BATCH) for number, group in enumerate(groups)]


def plan_whole(lengths: Sequence[int], tokens: int, size: int | None) -> list[list[int]]:
    """Batches of `size` examples (None = all) in their order, which must stay whole.

    Raises: ConfigError: one has more than `tokens` tokens.
    """
    size = size or max(len(lengths), 1)
    groups = [list(range(i, min(i + size, len(lengths)))) for i in range(0, len(lengths), size)]
    largest = max((sum(lengths[i] for i in group) for group in groups), default=0)
    if largest > tokens:
        raise ConfigError(
            f"a batch of {min(size, len(lengths))} examples has {largest:,} tokens, and micro_batch_tokens is "
            f"{tokens:,}; its loss compares all of its examples, so it cannot be cut: raise micro_batch_tokens, or "
            "lower micro_batch_size (examples that are compared) or batch_size"
        )
    return groups


def dummy_batch(task: RunnableTask, examples: Examples) -> MicroBatch:
    """The first example alone, as it might be shown, for a process that has none and must call its network too."""
    return task.collate([task.augment(examples[0], example_generator(0, 0, 0))])
