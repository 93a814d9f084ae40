"""How likely a network finds texts that are already there."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow
from glassformer.errors import ConfigError
from glassformer.models import Network


@torch.inference_mode()
def sequence_log_probs(
    network: Network,
    ids: Tensor,
    start: int = 1,
    *,
    keep: Tensor | None = None,
    memory_of: Batch | None = None,
    memory_keep: Tensor | None = None,
    stop_ids: tuple[int, ...] = (),
) -> Tensor:
    """The log-probability of each token of these rows, given those before it.

        log P(ids[t] | ids[0 … t−1])   for t = start … T−1;   their sum is the row's score in a beam search

    Args:
        ids: rows, padded on the left; for an encoder-decoder, its answers. [R, T]
        start: the first token that is judged, from 1; the length of a prompt judges what follows it.
        keep: False where a row is padding. [R, T] bool
        memory_of, memory_keep: for an encoder-decoder, what the encoder reads, and its mask [R, 1, S].
        stop_ids: tokens that end a row; what stands behind the first of them counts 0.
    Returns: in at least fp32. [R, T - start]
    Raises: ConfigError: no token stands before the first, or none is left to judge.
    """
    T = ids.shape[1]
    if not 1 <= start < T:
        raise ConfigError(
            f"start is {start}, the rows have {T} tokens; it must be from 1 to {T - 1}: a token is judged by those "
            "before it"
        )
    fed, judged = ids[:, :-1], ids[:, start:]
    seen = None if keep is None else keep[:, None, :-1]  # [R, 1, S]
    if memory_of is None:
        output = network(Batch(input_ids=fed), Flow(keep=seen, last=T - start))
    else:
        memory = network.memory(memory_of, Flow(keep=memory_keep))
        batch = Batch(decoder_input_ids=fed, decoder_keep=seen)
        output = network(batch, Flow(memory=memory, last=T - start))
    logits: Tensor = output.logits  # [R, T - start, V]
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    told = wide.gather(-1, judged[..., None])[..., 0]
    stops = torch.isin(judged, torch.tensor(stop_ids, dtype=judged.dtype, device=judged.device))
    behind = stops.cumsum(dim=1) - stops.long() > 0
    return told.masked_fill(behind, 0.0)
