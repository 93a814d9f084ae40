"""Chains of pedals as tokens, and greedy search for the chain of a recording.

    window 1 ─ encoder ─ decoder ─ log p ─┐
    window 2 ─ encoder ─ decoder ─ log p ─┴ mean ─> <overdrive> ─> <delay> ─> <end>

All windows of a recording write one chain: each next token is the one whose mean log-probability is the greatest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from glassformer.core.flow import Batch, EncoderOutput, Flow
from glassformer.loaded_model import LoadedModel
from glassformer.models import eval_mode
from glassformer_guitar.naming.windows import WINDOWS_AT_ONCE
from glassformer_guitar.pedals import PEDALS

PADDING, START, END = 0, 1, 2
TOKENS = ("<padding>", "<start>", "<end>", *(f"<{name}>" for name in PEDALS))
"""The vocabulary."""
FIRST = TOKENS.index("<end>") + 1
"""The first token that is a pedal."""

Chain = list[tuple[str, float]]
"""Pedals in their order, each with its probability, given those before it."""


def writes_pedals(model: LoadedModel) -> bool:
    """Whether a model reads spectrograms and has the vocabulary of pedals."""
    network = model.network
    return network.READS[0] == "input_features" and network.target_vocabulary == len(TOKENS)


def chain_ids(chain: Sequence[str]) -> list[int]:
    """The tokens of a chain, with its end."""
    return [*(FIRST + list(PEDALS).index(name) for name in chain), END]


def chain_names(ids: Iterable[int]) -> list[str]:
    """The chain that tokens are, without its end: the inverse of `chain_ids`."""
    return [list(PEDALS)[int(token) - FIRST] for token in ids if token >= FIRST]


def chain_text(pedals: Sequence[str]) -> str:
    """A chain of pedals as it is shown: `overdrive → delay`."""
    return " → ".join(pedals) or "none"


@torch.inference_mode()
def write_chains(model: LoadedModel, features: Tensor, windows: Sequence[int]) -> list[Chain]:
    """The chain of each recording.

    Args:
        features: log-mel spectrograms of all windows [W, M, frames]
        windows: how many each recording has
    """
    network, names = model.network, list(PEDALS)
    counts = torch.tensor(windows, device=model.device)
    recording = torch.arange(len(windows), device=model.device).repeat_interleave(counts)  # of each window [W]
    chains: list[Chain] = [[] for _ in windows]
    with eval_mode(network):
        parts = [
            network.memory(Batch(input_features=x.to(model.device)), Flow()) for x in features.split(WINDOWS_AT_ONCE)
        ]
        memory = EncoderOutput(torch.cat([part.states for part in parts if part is not None]))
        ids = torch.full((len(windows), 1), START, device=model.device)
        for _ in range(len(PEDALS) + 1):
            output = network(Batch(decoder_input_ids=ids[recording]), Flow(memory=memory))
            logits = output.logits[:, -1].float()
            logits[:, [PADDING, START]] = -torch.inf
            total = logits.new_zeros(len(windows), len(TOKENS)).index_add_(0, recording, logits.log_softmax(-1))
            probabilities = (total / counts[:, None]).softmax(-1)
            best, following = probabilities.max(-1)
            ended = (ids == END).any(1)
            ids = torch.cat([ids, following.where(~ended, END)[:, None]], 1)
            for chain, token, probability in zip(chains, ids[:, -1].tolist(), best.tolist(), strict=True):
                if token >= FIRST:
                    chain.append((names[token - FIRST], probability))
    return chains
