"""Opening head: the attention head with the clearest pattern, for the first look at a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.inspect.attention_map import AttentionMap
from glassformer.inspect.overview import sampled_rows
from glassformer.inspect.session import Session
from glassformer.inspect.tokens import Token

ROWS = 64  # queries of a head that are looked at, at most
CELLS = 2**16  # probabilities of a head that are looked at, at most
TOKENS = (
    2**13
)  # layers × tokens: of a long text a few layers stand for all, so that the first picture is not kept waiting
CLEAR = 1 / 3  # attention above that of a uniform head, from which a relation between tokens comes before any sink
FAINT = 0.01  # below this, nothing stands out
FEWEST = 3  # queries that a pattern of repeated tokens must be seen in

RELATIONS = {
    "repeat": "a token attends to its other occurrences",
    "followed": "a token attends to what came after its last occurrence",
    "previous": "each token attends to the one before it",
    "next": "each token attends to the one after it",
    "copy": "a {queries} token attends to the same token in the {keys}",
    "order": "the {queries} tokens attend to the {keys} in order, from beginning to end",
}
SINKS = {
    "same": "each token attends to itself",
    "first": "the tokens attend to the first one, {first}",
    "special": "the tokens attend to special tokens",
}
SOME = ("repeat", "followed", "copy")  # patterns that only some queries can have: shares are means over these


@dataclass(frozen=True, slots=True)
class OpeningHead:
    """An attention head to open with. sentence: its pattern in words, with the share of attention that follows it."""

    map: str
    layer: int
    head: int
    sentence: str


def opening(session: Session) -> OpeningHead | None:
    """The head with the clearest pattern: a relation between tokens rather than a sink; None where nothing stands out.

    Clear is what takes much more attention than a head that looks at all keys alike would give it. Where there is
    cross-attention, its heads are the candidates. Deterministic: of equals, the first.
    """
    maps = list(session.maps.values())
    maps = [about for about in maps if about.queries != about.keys] or maps
    best = max((each for about in maps for each in _patterns(session, about)), key=_Pattern.rank, default=None)
    if best is None or best.clarity < FAINT:
        return None
    about = session.maps[best.map]
    rows = sampled_rows(len(session.streams[about.queries]))  # those of the overview, whose figures stand beside this
    share = float(_shares(session, about, best.layer, [best.head], rows)[best.kind][0])
    words = (RELATIONS | SINKS)[best.kind].format(
        queries=about.queries, keys=about.keys, first=session.streams[about.keys][0].text
    )
    sentence = f"In layer {best.layer}, head {best.head}, {words}: {share:.0%} of the attention."
    return OpeningHead(best.map, best.layer, best.head, sentence)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern in a head. clarity: its share of the attention, less that in a head that looks at all keys alike."""

    kind: str
    clarity: float
    map: str
    layer: int
    head: int

    def rank(self) -> tuple[bool, float]:
        return self.kind in RELATIONS and self.clarity >= CLEAR, self.clarity


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
    """The share of attention that follows each pattern: of each head, and of one that looks at all keys alike. H + 1"""
    queries, keys = session.streams[about.queries], session.streams[about.keys]
    heads = [session.head(layer, number, about.name) for number in numbers]
    masked = heads[0].masked(rows)
    visible = torch.ones(len(rows), len(keys), dtype=torch.bool) if masked is None else ~masked.cpu()
    uniform = visible / visible.sum(-1, keepdim=True)
    probs = torch.stack([*(head.probs(rows).float().cpu() for head in heads), uniform])  # [H + 1, R, S]
    shares = {}
    for kind, targets in _targets(queries, keys, rows, about.queries == about.keys).items():
        there = (targets & visible).any(-1)
        if there.sum() >= (FEWEST if kind in SOME else 1):
            share = torch.einsum("hrs,rs->hr", probs, targets.float())
            shares[kind] = (share[:, there] if kind in SOME else share).mean(-1).tolist()
    if about.queries != about.keys:
        shares["order"] = _in_order(probs).tolist()
    return shares


def _targets(queries: Sequence[Token], keys: Sequence[Token], rows: Tensor, same_stream: bool) -> dict[str, Tensor]:
    """The keys that each pattern means, for each query of `rows`. [R, S] bool"""
    t, s = rows[:, None], torch.arange(len(keys))[None]
    special = torch.tensor([token.special for token in keys])[None]
    numbers = {text: at for at, text in enumerate({token.text.casefold() for token in (*queries, *keys)})}
    words = torch.tensor([numbers[token.text.casefold()] for token in keys])[None]
    of = torch.tensor([-1 if token.special else numbers[token.text.casefold()] for token in queries])[rows][:, None]
    alike = (of == words) & ~special
    sinks = {"first": (s == 0).expand_as(alike), "special": special.expand_as(alike)}
    if not same_stream:
        return {"copy": alike, **sinks}
    repeat = alike & (s != t)
    followed = (repeat & (s < t)).roll(1, -1) & (s > 0) & (s != t)
    return {"repeat": repeat, "followed": followed, "previous": s == t - 1, "next": s == t + 1, "same": s == t, **sinks}


def _in_order(probs: Tensor) -> Tensor:
    """The largest share that one key a query can take, where each key stands after the last one taken. [H, R, S] → [H]

    Dynamic programming over queries; a query may be passed over. Of many keys a query, as frames of sound are, it takes
    a band of neighbours.
    """
    H, R, S = probs.shape
    band = max(1, S // max(R, 100))
    bands = torch.nn.functional.avg_pool1d(probs, band, ceil_mode=True) * band
    best = torch.zeros(H, bands.shape[-1] + 1)  # best[:, k]: with keys before band k
    for row in bands.unbind(1):
        best[:, 1:] = torch.maximum(best[:, 1:], best[:, :-1] + row).cummax(-1).values
    return best[:, -1] / R
