"""Log-probabilities of given texts by teacher forcing: what a search's scores are compared with."""

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
    encoder_batch: Batch | None = None,
    encoder_keep: Tensor | None = None,
    stop_ids: tuple[int, ...] = (),
) -> Tensor:
    """Log-probability of each token of given rows, conditioned on the tokens before it.

        log P(ids[t] | ids[0 … t−1])   for t = start … T−1;   their sum is the row's score in a beam search

    Args:
        ids: rows, padded on the left; for an encoder-decoder, decoder ids. [R, T]
        start: index of the first scored token, from 1; the length of a prompt scores its continuation.
        keep: attention mask, False where a row is padding. [R, T] bool
        encoder_batch, encoder_keep: encoder input of an encoder-decoder, and its mask [R, 1, S].
        stop_ids: tokens that end a row; tokens after the first of them count 0.
    Returns: in at least fp32. [R, T - start]
    Raises: ConfigError: no token comes before the first scored one, or none is left to score.
    """
    T = ids.shape[1]
    if not 1 <= start < T:
        raise ConfigError(
            f"start is {start}, the rows have {T} tokens; it must be from 1 to {T - 1}: a token is scored given those "
            "before it"
        )
    inputs, targets = ids[:, :-1], ids[:, start:]
    mask = None if keep is None else keep[:, None, :-1]  # [R, 1, S]
    if encoder_batch is None:
        output = network(Batch(input_ids=inputs), Flow(keep=mask, last=T - start))
    else:
        memory = network.memory(encoder_batch, Flow(keep=encoder_keep))
        batch = Batch(decoder_input_ids=inputs, decoder_keep=mask)
        output = network(batch, Flow(memory=memory, last=T - start))
    logits: Tensor = output.logits  # [R, T - start, V]
    all_logprobs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    logprobs = all_logprobs.gather(-1, targets[..., None])[..., 0]
    stops = torch.isin(targets, torch.tensor(stop_ids, dtype=targets.dtype, device=targets.device))
    after_stop = stops.cumsum(dim=1) - stops.long() > 0
    return logprobs.masked_fill(after_stop, 0.0)
