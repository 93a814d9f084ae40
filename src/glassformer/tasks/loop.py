"""Run a network over examples: sorted by length, in micro-batches without padding where it can, in eval mode.

    examples ─ windows of 1,024 ─ augment ─ sorted by length ─ micro-batches ─ network ─> (output, micro-batch) …

Evaluation, pipelines and validation all go this way, so a text has the same logits alone, among thousands, and in
a report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from glassformer.core.flow import Output
from glassformer.data.order import example_generator
from glassformer.engine.modes import eval_mode
from glassformer.models import Network
from glassformer.tasks.base import Examples, Task
from glassformer.tasks.microbatch import Example, MicroBatch, lay_out

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
    labelled: bool = True,
    call: Callable[[MicroBatch], Output] | None = None,
    windows: int | None = None,
    on_window: Callable[[int], None] | None = None,
    on_out_of_memory: Callable[[Exception], int | None] | None = None,
) -> Iterator[tuple[Output, MicroBatch]]:
    """The network's output for examples, micro-batch by micro-batch; within a window in the order of their lengths.

    Args:
        indices: which examples; None = all · tokens: of a micro-batch at most; a function is asked for each window
        labelled: whether the examples have labels
        call: gives the output of a micro-batch that is on the device; None = the model's network
        windows: how many windows there are at least, empty ones behind the others · on_window: called at the beginning
            of each with its number of micro-batches. Both for processes that must call their networks equally often.
        on_out_of_memory: gives the tokens that a micro-batch is split to after an error; None = the error is raised
    """
    network, device = task.model.network, task.model.device
    indices = range(len(examples)) if indices is None else indices
    count = -(-len(indices) // WINDOW) if windows is None else windows

    def run(batch: MicroBatch, shown: Mapping[int, Example]) -> Iterator[tuple[Output, MicroBatch]]:
        try:
            placed = batch.to(device)
            output = task.split_packed(call(placed) if call else _infer(network, placed), placed)
        except Exception as error:
            if on_out_of_memory is None or len(batch.indices) == 1:
                raise
            if (fewer := on_out_of_memory(error)) is None:
                raise
        else:
            yield output, placed
            return
        parts = [shown[i] for i in batch.indices]
        for part in micro_batches(task, parts, batch.indices, fewer, labelled=labelled):
            yield from run(part, shown)

    with eval_mode(network) if call is None else nullcontext():
        for start in range(0, count * WINDOW, WINDOW):
            window = [int(i) for i in indices[start : start + WINDOW]]
            # Epoch 0 each time: the metrics of two validations differ by the weights alone, not by what was masked.
            shown = {i: task.augment(examples[i], example_generator(0, 0, i)) for i in window}
            most = tokens if isinstance(tokens, int) else tokens()
            batches = micro_batches(task, list(shown.values()), window, most, labelled=labelled)
            if on_window is not None:
                on_window(len(batches))
            for batch in batches:
                yield from run(batch, shown)


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
    *,
    labelled: bool = True,
) -> list[MicroBatch]:
    """Examples collated in micro-batches of at most so many tokens and examples, those of like length together."""
    if not examples:
        return []
    groups = lay_out([task.length(example) for example in examples], tokens)
    if size is not None:
        groups = [group[i : i + size] for group in groups for i in range(0, len(group), size)]
    batches = []
    for group in groups:
        members, numbers = [examples[i] for i in group], [indices[i] for i in group]
        batches.append(
            task.collate(members, numbers)
            if labelled
            else MicroBatch(*task.collate_inputs(members), {}, tuple(numbers))
        )
    return batches


def first_batch(task: Task, examples: Examples) -> MicroBatch:
    """The first example alone, for those who need any micro-batch at all."""
    return micro_batches(task, [examples[0]], [0], 1)[0]
