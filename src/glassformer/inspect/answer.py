"""Answer: what a model says about the text of a session, in words and as probabilities.

text classification      anger: 98%                       each label
token classification     Ada: person · Paris: place       the label of each named token
fill-mask                “paris” at “[MASK]”: 63%         the most likely tokens
question answering       answer 'a banana': 41%
text generation          “of” after “teach”: 23%          the most likely next tokens
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.inspect.attribution.target import OUTSIDE, TargetRequest
from glassformer.inspect.outputs import YES_OR_NO, OutputTable, check_logits, output_table, reads_layers
from glassformer.models._network import eval_mode
from glassformer.reports.table import percent

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

MOST = 6
"""Choices that are listed."""
MOST_TOKENS = 12
"""Tokens with a label that are listed."""


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """An output with its probability, and as `Session.attribute` is asked for it.

    name: as it is shown
    target: its label or token
    at: the token's number; None where the text has one output
    """

    name: str
    share: float
    target: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the model says, in a sentence, and its choices, the most likely first."""

    sentence: str
    choices: list[AnswerChoice]


@torch.no_grad()
def answer(session: Session, position: int | None = None) -> ModelAnswer | None:
    """The answer of the model's head; None of a model without one, and of a text without the gap that it would fill.

    Args:
        position: of a model that writes, the token whose next one is read; None = the last
    """
    network = session.network
    if not reads_layers(network):
        return None
    stream = network.head_stream()
    states = session.states(len(session.stream_taps(stream)) - 1, stream)
    tokens = session.streams[stream]
    at = None
    if network.head is not None and network.head.OVER_VOCABULARY:
        causal = bool(next(iter(network.stacks()[stream])).attn.spec.causal)
        blank = session.names().blank
        gaps = [at for at, token in enumerate(tokens) if blank is not None and token.special and token.id == blank.id]
        if not causal and not gaps:
            return None
        usual = len(tokens) - 1 if position is None else position
        at = usual if causal else gaps[0]
        states = states[at : at + 1]
    with eval_mode(network):
        output = network.read_stream(states[None], session.batch, Flow())
    logits, table = output_table(network, output, session.streams, session.names())
    check_logits(logits, network)
    values = logits[0].float()
    if table.columns == "span":
        return _span(table, values)
    if table.columns == "text" or at is not None:
        return _one(table, values[0], at)
    return _tokens(table, values)


def _one(table: OutputTable, row: Tensor, position: int | None) -> ModelAnswer:
    """Of the text as a whole, or of one token of a vocabulary. [choices]"""
    shares = table.probabilities(row)
    if shares is None:
        return ModelAnswer(", ".join(f"{table.name(i)}: {x:.3g}" for i, x in enumerate(row.tolist())), [])
    top, numbers = (x.tolist() for x in shares.topk(min(MOST, len(row))))
    choices = [AnswerChoice(table.name(i), p, table.target(i), position) for i, p in zip(numbers, top, strict=True)]
    if position is None:
        stated = [choice for choice in choices if not table.normalised and choice.share > 0.5] or choices[:1]
        return ModelAnswer(", ".join(f"{choice.name}: {percent(choice.share)}" for choice in stated), choices)
    where = f"after “{table.tokens[position].text}”" if table.causal else f"at “{table.tokens[position].text}”"
    return ModelAnswer(f"“{choices[0].name}” {where}: {percent(choices[0].share)}", choices)


def _tokens(table: OutputTable, logits: Tensor) -> ModelAnswer:
    """The labels of tokens, those left out that have none. [T, labels]"""
    shares = table.probabilities(logits)
    assert shares is not None  # labels exclude each other, or are yes and no
    best, numbers = (x.tolist() for x in shares.max(-1))
    labelled = [
        AnswerChoice(f"{token.text}: {table.name(number)}", share, table.name(number), at)
        for at, (token, number, share) in enumerate(zip(table.tokens, numbers, best, strict=True))
        if not token.special and table.name(number) not in (OUTSIDE, YES_OR_NO[0])
    ]
    sentence = " · ".join(choice.name for choice in labelled[:MOST_TOKENS]) or "No token has a label"
    return ModelAnswer(sentence, labelled[:MOST_TOKENS])


def _span(table: OutputTable, logits: Tensor) -> ModelAnswer:
    """The most likely answer in a passage. [start and end, T]"""
    target = TargetRequest().span(table, logits)
    return ModelAnswer(f"{target.name}: {percent(target.probability)}", [])
