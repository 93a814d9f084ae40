"""On-policy distillation: the student writes texts, and learns at its own words what the teacher would say there.

    prompt ──student samples──> text of its own ──both read it──> divergence of their distributions, token by token

A student that has read only true texts never sees its own mistakes, which it has to continue; at its own texts
the teacher shows the way back. No gradient flows through the sampling. `on_policy` of `distillation:` says how many
examples the student writes; of the others the true text is read.

Source: Agarwal et al. 2024, "On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import UnsupportedError
from glassformer.generation.decoding import Decoding, StoppingCriteria, multinomial
from glassformer.generation.generate import generation_defaults
from glassformer.generation.rows import Rows
from glassformer.models import eval_mode
from glassformer.tasks.base import Task
from glassformer.tasks.causal.task import Answers, Causal
from glassformer.tasks.microbatch import padded_texts
from glassformer.tasks.seq2seq.task import SequenceToSequence
from glassformer.tasks.types import Example

Writer = Callable[[Sequence[Example], int], list[Example]]
"""(examples, tokens at most) → the same with what the student has written in the place of the true text."""


def writer_of(task: Task) -> Writer:
    """How a student writes the examples of a task. Raises: UnsupportedError: it writes nothing."""
    if isinstance(task, Causal):
        return lambda examples, tokens: continued(task, examples, tokens)
    if isinstance(task, SequenceToSequence):
        return lambda examples, tokens: answered(task, examples, tokens)
    raise UnsupportedError(
        f"{type(task).__name__} writes no text; on_policy is for language models, instructions and encoder-decoders"
    )


def prompt_of(task: Causal, example: Example) -> np.ndarray:
    """What the student continues: of an instruction its prompt, of a text the first half of it."""
    ids = np.asarray(example["input_ids"])
    if isinstance(task, Answers) and not task.prompts:
        return ids[: int(np.argmax(np.asarray(example["labels"]) != IGNORE_INDEX))]
    first = int(np.asarray(example["documents"])[0]) if "documents" in example else len(ids)
    return ids[: max(1, first // 2)]


def continued(task: Causal, examples: Sequence[Example], tokens: int) -> list[Example]:
    """Prompts with what the student writes after them, which alone counts; a text has at most `task.block` tokens."""
    prompts = [prompt_of(task, example) for example in examples]
    longest = max(map(len, prompts))
    tokens = min(tokens, task.block - longest)
    if tokens < 1:
        return list(examples)
    ids = torch.zeros(len(prompts), longest, dtype=torch.long)
    keep = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.from_numpy(prompt.astype(np.int64))
        keep[row, longest - len(prompt) :] = True
    device = task.model.device
    with eval_mode(task.model.network):
        written = _written(task, Rows(task.model.network, ids.to(device), keep=keep.to(device)), tokens)
    made: list[Example] = []
    for prompt, text in zip(prompts, written, strict=True):
        labels = np.concatenate([np.full(len(prompt), IGNORE_INDEX), text]).astype(np.int32)
        made.append({"input_ids": np.concatenate([prompt, text]).astype(np.int32), "labels": labels})
    return made


def answered(task: SequenceToSequence, examples: Sequence[Example], tokens: int) -> list[Example]:
    """Sources with the student's answers as targets."""
    batch, flow = padded_texts(examples, task.padding)
    device = task.model.device
    start = torch.full((len(examples), 1), task.start, device=device)
    keep = None if flow.keep is None else flow.keep.to(device)
    assert batch.input_ids is not None
    with eval_mode(task.model.network):
        source = type(batch)(input_ids=batch.input_ids.to(device))
        rows = Rows(task.model.network, start, encoder_batch=source, encoder_keep=keep)
        written = _written(task, rows, min(tokens, task.max_target))
    return [
        {**example, "labels": text, "length": len(example["input_ids"]) + len(text)}
        for example, text in zip(examples, written, strict=True)
    ]


def _written(task: Task, rows: Rows, tokens: int) -> list[np.ndarray]:
    """What the student samples at temperature 1, row by row, up to and with its end token."""
    settings = generation_defaults(task.model)
    stops = list(settings.stop_ids)
    stop = StoppingCriteria(len(rows), ids=stops, device=rows.ids.device)
    with torch.inference_mode():
        made = Decoding(rows, max_new_tokens=tokens, stop=stop, pad_id=settings.pad_id, choose=multinomial).run()
    return [_up_to_end(row, stops) for row in made.ids[:, made.prompt_length :].cpu()]


def _up_to_end(row: Tensor, stops: Sequence[int]) -> np.ndarray:
    ends = torch.isin(row, torch.tensor(list(stops), dtype=row.dtype)).nonzero()
    return row[: int(ends[0]) + 1 if len(ends) else len(row)].numpy().astype(np.int32)
