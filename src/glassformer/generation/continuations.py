"""How likely continuations are: each of several after each of many texts, which follow one prompt.

    prompt           Text: it crashes↵Label: bug↵↵Text:        read once: its keys and values serve all texts
    text              add a dark mode↵Label:                   read once, several texts at a time
    continuations     bug −5.1     feature −0.4                only their own tokens are read

The numbers are those of a pass over prompt, text and continuation, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow
from glassformer.generation.rows import Rows, logits_of
from glassformer.models import Network

CACHE_BYTES = 2**29
ROWS = 32
"""Texts at a time: as many as these bytes of keys and values allow, and at most so many."""


@torch.inference_mode()
def continuation_scores(
    network: Network, prompt: Sequence[int], texts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
) -> Tensor:
    """Σ log P(token) of each continuation after the prompt and each text. [texts, continuations]

    Args:
        network: with a causal language-model head
        prompt: ids that come before each text; at least one
        texts: ids of each text; may be empty
        continuations: ids of each; at least one
    """
    device = next(network.parameters()).device
    # The last token of the prompt is read with the texts, so that none of them is empty.
    shared = prompt[:-1]
    prefix = KeyValueCache()
    if shared:
        network(Batch(input_ids=torch.tensor([[*shared]], device=device)), Flow(cache=prefix, last=1))
    by_length: dict[int, list[int]] = {}  # no padding, so that windows of attention reach as far as ever
    for i, own in enumerate(texts):
        by_length.setdefault(len(own), []).append(i)
    scores = torch.empty(len(texts), len(continuations))
    tokens = [torch.tensor(x, device=device) for x in continuations]
    for length, alike in sorted(by_length.items()):
        row_bytes = prefix.nbytes // max(1, prefix.length) * (len(prompt) + length)
        count = max(1, min(ROWS, CACHE_BYTES // max(1, row_bytes)))
        for start in range(0, len(alike), count):
            chosen = alike[start : start + count]
            ids = torch.tensor([[*prompt, *texts[i]] for i in chosen], device=device)
            rows = Rows(network, ids, prefix=prefix if shared else None)
            scores[chosen] = _scores_of_rows(rows, tokens).cpu()
    return scores


def _scores_of_rows(rows: Rows, continuations: Sequence[Tensor]) -> Tensor:
    """Of each continuation after each row. [R, continuations]"""
    ids, columns = rows.ids, list[Tensor]()
    first = rows.logits().float().log_softmax(-1)
    for tokens in continuations:
        total = first[:, tokens[0]]
        if len(tokens) > 1:
            rows.append(tokens[:-1].expand(len(rows), -1))
            later = logits_of(rows.read(last=len(tokens) - 1)).float().log_softmax(-1)  # [R, n - 1, V]
            total = total + later.gather(-1, tokens[1:].expand(len(rows), -1)[..., None])[..., 0].sum(1)
            rows.rewrite(ids)
        columns.append(total)
    return torch.stack(columns, dim=1)
