"""Opening head: the attention head with the clearest pattern, for the first look at a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.inspect.overview import PatternShares, main_pattern, rank, sampled_rows
from glassformer.inspect.session import AttentionMap, Session

ROWS = 64  # queries of a head that are looked at, at most
CELLS = 2**16  # probabilities of a head that are looked at, at most
TOKENS = 2**13  # layers × tokens: of a longer text a few layers represent all, so that the first picture comes soon
FAINT = 0.01  # below this, nothing stands out
MIN_TOKENS = 4  # besides special ones: among fewer, any head seems to have a pattern

WORDS = {
    "repeat": "a token attends to its other occurrences",
    "followed": "a token attends to what came after its last occurrence",
    "previous": "each token attends to the one before it",
    "next": "each token attends to the one after it",
    "copy": "a {queries} token attends to the same token in the {keys}",
    "order": "the {queries} tokens attend to the {keys} in order, from beginning to end",
    "same": "each token attends to itself",
    "first": "the tokens attend to the first one, {first}",
    "special": "the tokens attend to special tokens",
}


@dataclass(frozen=True, slots=True)
class OpeningHead:
    """An attention head to open with.

    sentence: its pattern in words, with the share of attention that follows it.
    """

    map: str
    layer: int
    head: int
    sentence: str


def opening(session: Session) -> OpeningHead | None:
    """The head with the clearest pattern: a relation between tokens rather than a sink; None where nothing stands out,
    as in a text of a few tokens.

    Clear is what takes much more attention than a head that looks at all keys equally would give it. Where there is
    cross-attention, its heads are the candidates. Deterministic: of equals, the first.
    """
    long = {
        name for name, tokens in session.streams.items() if sum(not token.special for token in tokens) >= MIN_TOKENS
    }
    maps = list(session.maps.values())
    maps = [about for about in maps if about.queries != about.keys] or maps
    telling = [about for about in maps if {about.queries, about.keys} <= long]
    best = max((each for about in telling for each in _patterns(session, about)), key=_Pattern.rank, default=None)
    if best is None or best.clarity < FAINT:
        return None
    about = session.maps[best.map]
    rows = sampled_rows(len(session.streams[about.queries]))  # those of the overview, shown next to this
    kind, share, _ = main_pattern(_shares(session, about, best.layer, [best.head], rows), 0)
    words = WORDS[kind].format(queries=about.queries, keys=about.keys, first=session.streams[about.keys][0].text)
    sentence = f"In layer {best.layer}, head {best.head}, {words}: {share:.0%} of the attention."
    return OpeningHead(best.map, best.layer, best.head, sentence)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern in a head.

    clarity: its share of the attention, less that in a head that looks at all keys equally.
    """

    kind: str
    clarity: float
    map: str
    layer: int
    head: int

    def rank(self) -> tuple[bool, float]:
        return rank(self.kind, self.clarity)


def _patterns(session: Session, about: AttentionMap) -> Iterator[_Pattern]:
    """The patterns of each head of a map, as a few of its queries show them."""
    T, S = (len(session.streams[stream]) for stream in (about.queries, about.keys))
    rows = torch.arange(0, T, -(-T // min(ROWS, max(1, CELLS // S))))
    for layer in range(0, about.layers, -(-about.layers * max(T, S) // TOKENS)):
        heads = range(session.attention_layer(layer, about.name).attention.spec.heads)
        for kind, (*shares, uniform) in _shares(session, about, layer, heads, rows).items():
            for head, share in zip(heads, shares, strict=True):
                yield _Pattern(kind, share - uniform, about.name, layer, head)


def _shares(
    session: Session, about: AttentionMap, layer: int, numbers: Sequence[int], rows: Tensor
) -> dict[str, list[float]]:
    """Share of attention that follows each pattern: of each head, and of one that looks at all keys equally. H + 1"""
    heads = [session.head(layer, number, about.name) for number in numbers]
    streams = session.streams[about.queries], session.streams[about.keys]
    shares = PatternShares(*streams, len(rows), same_stream=about.queries == about.keys)
    masked = heads[0].masked(rows)
    probs = torch.stack([head.probs(rows).float().cpu() for head in heads])  # [H, R, S]
    shares.add(probs, rows, None if masked is None else masked.cpu())
    return shares.shares()
