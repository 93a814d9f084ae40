"""Run a network over examples: sorted by length, in micro-batches without padding where it can, in eval mode.

    examples ─ windows of 1,024 ─ augment ─ sorted by length ─ micro-batches ─ network ─> (output, micro-batch) …

Evaluation, pipelines and validation all go this way, so a text has the same logits alone, among thousands, and in
a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

from glassformer.core.flow import Output
from glassformer.data.order import example_generator
from glassformer.engine.batching import eval_mode, plan_batches, run_planned
from glassformer.errors import ConfigError
from glassformer.models import Network
from glassformer.tasks.base import Examples, Task
from glassformer.tasks.microbatch import Example, MicroBatch

WINDOW = 1_024
"""Examples that are sorted among themselves, so that memory does not grow with the data."""
TOKENS = 4_096
"""Tokens of a micro-batch; it changes the time it takes, and no score."""


def run_batches(
    task: Task,
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
        indices: which examples; None = all · tokens: of a micro-batch at most; a function is asked for each window
        size: examples of a whole batch, for a task of `WHOLE_BATCH`; None = cut as any, where nobody asks for the loss
        labelled: whether the examples have labels
        call: gives the output of a micro-batch that is on the device; None = the model's network
        windows: how many windows there are at least, empty ones behind the others · on_window: called at the beginning
            of each with its number of micro-batches. Both for processes that must call their networks equally often.
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
        return task.split_packed(call(batch) if call else _infer(network, batch), batch), batch

    with eval_mode(network) if call is None else nullcontext():
        for start in range(0, count * stride, stride):
            window = [int(i) for i in indices[start : start + stride]]
            # Epoch 0 each time: the metrics of two validations differ by the weights alone, not by what was masked.
            shown = [task.augment(examples[i], example_generator(0, 0, i)) for i in window]
            lengths = [task.length(example) for example in shown]
            budget = tokens if isinstance(tokens, int) else tokens()
            batches = plan_batches(lengths, budget) if whole is None else plan_whole(lengths, budget, whole)
            if on_window is not None:
                on_window(len(batches))
            for _, result in run_planned(batches, lengths, partial(run, window, shown), on_out_of_memory):
                yield result


def _infer(network: Network, batch: MicroBatch) -> Output:
    with torch.inference_mode():
        output: Output = network(batch.batch, batch.flow)
        return output


def run_examples(
    task: Task,
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
        tokens: of a micro-batch at most · labelled: whether the examples have labels
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
    task: Task,
    examples: Sequence[Example],
    indices: Sequence[int],
    tokens: int,
    size: int | None = None,
) -> list[MicroBatch]:
    """Examples collated in micro-batches of at most so many tokens and examples, those of like length together.

    Of a task with `WHOLE_BATCH`, `size` examples (None = all) are a micro-batch, in their order.
    """
    lengths = [task.length(example) for example in examples]
    groups = plan_whole(lengths, tokens, size) if task.WHOLE_BATCH else plan_batches(lengths, tokens)
    if size is not None and not task.WHOLE_BATCH:
        groups = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    return [task.collate([examples[i] for i in group], [indices[i] for i in group]) for group in groups]


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


def first_batch(task: Task, examples: Examples) -> MicroBatch:
    """The first example alone, for those who need any micro-batch at all."""
    return task.collate([examples[0]], [0])
