"""Fusion-in-decoder: an encoder-decoder reads many passages, each encoded by itself, and writes one answer from all.

    question, passage 1 ── encoder ──┐
    question, passage 2 ── encoder ──┼─ states one after another ── memory of the decoder's cross-attention ── answer
    question, passage 3 ── encoder ──┘

Passages are apart in the encoder, so its time grows with their number and not with its square; the decoder compares
them. With one passage it is ordinary generation. A decoder adds no positions to its memory, so the order of the
passages changes nothing.
Source: Izacard and Grave 2021, "Leveraging Passage Retrieval with Generative Models for Open Domain Question
Answering", section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.call import encoder_of
from glassformer.core.heads import not_none
from glassformer.engine.batching import plan_batches
from glassformer.generation.decoding import Generated
from glassformer.generation.generate import generate
from glassformer.model import Model
from glassformer.models import eval_mode
from glassformer.tasks.microbatch import TOKENS


def fused_memory(model: Model, sources: Sequence[Sequence[int]]) -> Tensor:
    """The encoder's states of each source, one after another, without padding. [1, sum of tokens, width]

    Args:
        sources: token ids of a question with a passage, each
    """
    encode = encoder_of(model.network, model.family.model_type)
    states: dict[int, Tensor] = {}
    with eval_mode(model.network), torch.inference_mode():
        for group in plan_batches([len(source) for source in sources], TOKENS):
            rows = [torch.tensor(list(sources[number]), device=model.device) for number in group]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            keep = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            output = not_none(encode(ids, keep).last_hidden_state)
            states.update((number, own[: len(row)]) for number, own, row in zip(group, output, rows, strict=True))
    return torch.cat([states[number] for number in range(len(sources))])[None]


def generate_fused(model: Model, sources: Sequence[Sequence[int]], **options: Any) -> Generated:
    """Write one answer from several sources; options as of `Model.generate`."""
    memory = {"encoder_outputs": (fused_memory(model, sources),)}
    generated: Generated = generate(model, None, None, {**options, **memory, "return_scores": True})
    return generated
