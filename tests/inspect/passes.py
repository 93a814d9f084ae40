"""Small networks with every number moved at random, readings made by hand, and what a Tape hears of the same pass."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from glassformer.core import (
    Embedding,
    EmbeddingSpec,
    Flow,
    LearnedPositionsSpec,
    Stack,
    StackSpec,
    Tape,
)
from glassformer.core.flow import Batch
from glassformer.inspect import AttentionHead, Session, SessionInput, Token
from glassformer.models import FAMILIES, ConfigReader, Network
from glassformer.models._network import Sizes
from tests.core.small import STACKS, WIDTH, perturbed
from tests.senses import CODECS, batch_of
from tests.senses import network_of as blank

KINDS = [*(family for family in FAMILIES if family not in CODECS), *STACKS]
"""Every family with attention, and every kind of stack that the core can build."""

T, S = 9, 6  # tokens of a text or target, tokens of a source


class Plain(Network):
    """An embedding and a stack, nothing else."""

    def __init__(self, spec: StackSpec, positions: int = 64) -> None:
        embed = EmbeddingSpec(vocabulary=99, width=WIDTH, positions=LearnedPositionsSpec(count=positions))
        super().__init__(Sizes.of_text(embed))
        self.embed = Embedding(embed)
        self.blocks = Stack(spec)
        self.head = None
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        assert batch.input_ids is not None
        x: Tensor = self.blocks(self.embed(batch.input_ids, flow), flow)
        return x


def network_of(kind: str, dtype: torch.dtype = torch.float32, task: str | None = None, **changes: object) -> Network:
    """A tiny network in eval mode; its queries are stretched, so that attention has something to show."""
    torch.manual_seed(3)
    if kind in STACKS:
        network: Network = Plain(STACKS[kind])
    else:
        record = FAMILIES[kind]
        task = task or record.tasks[0]
        spec = record.spec(ConfigReader({**record.tiny, **record.requires.get(task, {}), **changes}))
        network = record.build(spec, task)
        record.initialise(network, spec)
    perturbed(network)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith(("qkv.weight", "cross.q.weight")):
                parameter.mul_(1.5)
    return network.to(dtype)


def reading_of(kind: str, tokens: int = T, task: str | None = None) -> SessionInput:
    """Random ids; the first and the last token are special. Pictures and sounds have the tokens that they make."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(3, 99, (1, tokens), generator=generator)
    if kind not in FAMILIES:
        return SessionInput(("a text",), Batch(input_ids=ids), {"text": tokens_for(tokens)})
    config = FAMILIES[kind].tiny
    network = blank({**config, **FAMILIES[kind].requires.get(task or "", {})}, task or FAMILIES[kind].tasks[0])
    batch = batch_of(network, config, ids)
    streams = {
        stream: [Token(name, name, i) for i, name in enumerate(names)]
        for stream, names in network.token_labels(batch).items()
    }
    if "decoder_input_ids" in network.READS:
        if "source" not in streams:
            batch = replace(batch, input_ids=torch.randint(3, 99, (1, S), generator=generator))
            streams["source"] = tokens_for(S)
        streams["target"] = tokens_for(tokens)
    elif batch.input_ids is not None:
        streams["text"] = tokens_for(tokens)
    return SessionInput(("a text",), batch, streams)


def pairs(kind: str) -> bool:
    """Does it read a source and write a target?"""
    return kind in FAMILIES and "decoder_input_ids" in blank(FAMILIES[kind].tiny, FAMILIES[kind].tasks[0]).READS


def tokens_for(count: int) -> list[Token]:
    return [
        Token(f"t{i}", f"t{i}", i, segment=None if i in (0, count - 1) else 0, special=i in (0, count - 1))
        for i in range(count)
    ]


def session_of(kind: str, dtype: torch.dtype = torch.float32, **options: object) -> Session:
    return Session(network_of(kind, dtype), reading_of(kind), **options)  # type: ignore[arg-type]


def heard(network: Network, reading: SessionInput, *patterns: str) -> dict[str, Tensor]:
    """The tensors of one pass over the same ids, by the explicit path where scores or probs are asked for."""
    tape = Tape(*patterns).attach(network)
    with torch.inference_mode():
        network(reading.batch, Flow(tape=tape))
    return {name: tensor[0] for name, tensor in tape.taps.items()}


def every_head(session: Session) -> list[tuple[str, AttentionHead]]:
    """All heads of all maps, each with the path of its attention."""
    return [
        (session.attention_layer(layer, name).attention.path, session.head(layer, head, name))
        for name, result in session.maps.items()
        for layer in range(result.layers)
        for head in range(result.heads)
    ]
