"""Findings of a forward pass, for the first look: links between two words, and the head with the clearest pattern.

    “time” gives 93% of its attention to “flies”     a link, in one head
    each token attends to the one before it: 91%     a pattern, of one head

A link counts where it is at least twice what its head gives there anyway: to this key from other queries, and to keys
at this distance. Without that, heads that attend to the previous token or to one token would win in every text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.inspect.answer import answer
from glassformer.inspect.overview import PATTERNS, PatternShares, main_pattern, rank, sampled_rows
from glassformer.inspect.tokens import Token
from glassformer.reports.table import percent

if TYPE_CHECKING:
    from glassformer.inspect.session import AttentionMap, Session

ROWS = 64  # queries of a head that are looked at, at most
CELLS = 2**16  # probabilities of a head that are looked at, at most
TOKENS = 2**13  # layers × tokens: of a longer text a few layers represent all, so that the first picture comes soon
FAINT = 0.01  # below this, nothing stands out
MIN_TOKENS = 4  # besides special ones: among fewer, any head seems to have a pattern
MIN_LETTERS = 4  # shorter words are mostly function words, in languages that write words with letters
MIN_LINK = 0.25  # share of a query's attention, from which a link is a finding
MOST_LINKS = 4

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
class HeadFinding:
    """What an attention head does in this text.

    sentence: in words, with the share of attention
    short: the same for a button
    query, key: the tokens of a link; None of a pattern
    """

    map: str
    layer: int
    head: int
    sentence: str
    short: str
    query: int | None = None
    key: int | None = None


def findings(session: Session) -> list[HeadFinding]:
    """Links between two words, the strongest first, then the head with the clearest pattern; empty where nothing stands
    out, as in a text of a few tokens.

    Where there is cross-attention, its heads are the candidates. Deterministic: of equals, the first.
    """
    short = short_streams(session)
    maps = list(session.maps.values())
    maps = [about for about in maps if about.queries != about.keys] or maps
    patterns: list[_Pattern] = []
    links: list[_Link] = []
    for about in maps:
        if not {about.queries, about.keys} & short:
            for sample in _samples(session, about):
                patterns += _patterns(session, sample)
                links += _links(session, sample)
    links_in_words = [_tell_link(session, link) for link in _different(links)]
    best = max(patterns, key=_Pattern.rank, default=None)
    return links_in_words if best is None or best.clarity < FAINT else [*links_in_words, _tell_pattern(session, best)]


def short_streams(session: Session) -> set[str]:
    """The texts of so few tokens that any head would seem to have a pattern; `findings` reads none of them."""
    return {name for name, tokens in session.streams.items() if sum(not x.special for x in tokens) < MIN_TOKENS}


def opening_findings(session: Session) -> list[HeadFinding]:
    """The findings of a pass; first, of a model whose answer is read from one token, the strongest link of that token.

    Where there is cross-attention, its heads tell more.
    """
    others, reply = findings(session), answer(session)
    at = reply.choices[0].at if reply is not None and reply.choices else None
    if at is None or any(about.queries != about.keys for about in session.maps.values()):
        return others
    first = link_from(session, at)
    if first is None:
        return others
    same = ((first.map, first.layer, first.head), {first.query, first.key})
    rest = [
        each
        for each in others
        if each.query is None or ((each.map, each.layer, each.head) != same[0] and {each.query, each.key} != same[1])
    ]
    return [first, *rest]


def link_from(session: Session, query: int) -> HeadFinding | None:
    """The strongest link from one token to a word, in any head of self-attention; None where no head makes one."""
    links: list[_Link] = []
    for about in session.maps.values():
        if about.queries == about.keys and query < len(session.streams[about.queries]):
            for sample in _samples(session, about, query):
                links += _links(session, sample, query)
    return _tell_link(session, max(links, key=lambda link: link.share)) if links else None


def explained_token(session: Session) -> int | None:
    """Of an encoder-decoder, the token that the first finding is about: the next one is to be explained. Else None."""
    first = next(iter(session.findings), None)
    crosses = first is not None and session.maps[first.map].queries != session.maps[first.map].keys
    return first.query if first is not None and crosses else None


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


@dataclass(frozen=True, slots=True)
class _Link:
    """A share of attention from one word to another."""

    share: float
    map: str
    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True, slots=True)
class _Sample:
    """The attention of some heads of a layer, by some of the queries.

    heads: their numbers
    rows: the queries [R]
    probs: [H, R, S]
    masked: the keys that are masked, if any are [R, S]
    """

    about: AttentionMap
    layer: int
    heads: Sequence[int]
    rows: Tensor
    probs: Tensor
    masked: Tensor | None

    @classmethod
    def of(cls, session: Session, about: AttentionMap, layer: int, numbers: Sequence[int], rows: Tensor) -> _Sample:
        heads = [session.head(layer, number, about.name) for number in numbers]
        masked = heads[0].masked(rows)
        probs = torch.stack([head.probs(rows).float().cpu() for head in heads])
        return cls(about, layer, numbers, rows, probs, None if masked is None else masked.cpu())


def _samples(session: Session, about: AttentionMap, also: int | None = None) -> Iterator[_Sample]:
    """The heads of each layer, by all queries; of a long text a part, and `also` one."""
    T, S = (len(session.streams[stream]) for stream in (about.queries, about.keys))
    rows = torch.arange(0, T, -(-T // min(ROWS, max(1, CELLS // S))))
    if also is not None:
        rows = torch.cat([rows, torch.tensor([also])]).unique()
    for layer in range(0, about.layers, -(-about.layers * max(T, S) // TOKENS)):
        heads = range(session.attention_layer(layer, about.name).attention.spec.heads)
        yield _Sample.of(session, about, layer, heads, rows)


def _shares(session: Session, sample: _Sample) -> dict[str, list[float]]:
    """Share of attention that follows each pattern: of each head, and of one that looks at all keys equally. H + 1"""
    about = sample.about
    streams = session.streams[about.queries], session.streams[about.keys]
    shares = PatternShares(*streams, len(sample.rows), same_stream=about.queries == about.keys)
    shares.add(sample.probs, sample.rows, sample.masked)
    return shares.shares()


def _patterns(session: Session, sample: _Sample) -> Iterator[_Pattern]:
    """The patterns of each head of a layer, as some of its queries show them."""
    for kind, (*shares, uniform) in _shares(session, sample).items():
        for head, share in zip(sample.heads, shares, strict=True):
            yield _Pattern(kind, share - uniform, sample.about.name, sample.layer, head)


def _links(session: Session, sample: _Sample, of: int | None = None) -> Iterator[_Link]:
    """The links between two different words that are at least twice what the head gives there anyway.

    Args:
        of: the query, whatever it is; None = any word
    """
    about, rows, probs, masked = sample.about, sample.rows, sample.probs, sample.masked
    queries, keys = session.streams[about.queries], session.streams[about.keys]
    from_word, to_word = _content_words(queries)[rows] if of is None else rows == of, _content_words(keys)
    texts = [token.text.casefold() for token in keys]
    visible = torch.ones(len(rows), len(keys)) if masked is None else (~masked).float()
    anyway = _mean_of_others(probs, visible, torch.arange(len(keys)).expand_as(visible))
    if about.queries == about.keys:
        distances = rows[:, None] - torch.arange(len(keys)) + len(keys)
        anyway = torch.maximum(anyway, _mean_of_others(probs, visible, distances))
    strong = (probs >= MIN_LINK) & (probs >= 2 * anyway) & from_word[:, None] & to_word
    for (head, row, key), share in zip(strong.nonzero().tolist(), probs[strong].tolist(), strict=True):
        query = int(rows[row])
        if queries[query].text.casefold() != texts[key]:
            yield _Link(share, about.name, sample.layer, sample.heads[head], query, key)


def _mean_of_others(probs: Tensor, visible: Tensor, groups: Tensor) -> Tensor:
    """For each cell, the mean of the other visible cells of its group; 0 where it is alone.

    Args:
        probs: [H, R, S]
        visible: 1 where a query sees the key [R, S]
        groups: the group of each cell, such as its distance [R, S]
    """
    of, size = groups.flatten(), int(groups.max()) + 1
    sums = torch.zeros(len(probs), size).index_add_(1, of, probs.flatten(1))
    counts = torch.zeros(size).index_add_(0, of, visible.flatten())
    return (sums[:, groups] - probs) / (counts[groups] - 1).clamp(min=1)


def _content_words(tokens: Sequence[Token]) -> Tensor:
    """Which tokens are whole words with a meaning of their own, by their letters. [T] bool"""
    letters = [0 if token.special else sum(map(str.isalpha, token.text)) for token in tokens]
    ends = [*(not token.continues for token in tokens[1:]), True]
    whole = torch.tensor(
        [0 if token.continues or not end else count for token, end, count in zip(tokens, ends, letters, strict=True)]
    )
    long = whole >= MIN_LETTERS
    return long if int(long.sum()) > 1 else whole > 0


def _different(links: Sequence[_Link]) -> list[_Link]:
    """The strongest links, each of two words and of a head that no stronger one has."""
    chosen: list[_Link] = []
    for link in sorted(links, key=lambda link: -link.share):
        same = (
            {link.query, link.key} == {x.query, x.key} or (link.layer, link.head) == (x.layer, x.head) for x in chosen
        )
        if not any(same):
            chosen.append(link)
        if len(chosen) == MOST_LINKS:
            break
    return chosen


def link_sentence(session: Session, about: AttentionMap, layer: int, head: int, query: int, key: int) -> str:
    """What a head gives from one token to another, in a sentence; in cross-attention also what the decoder writes next:
    the token that it looks for.
    """
    share = float(session.head(layer, head, about.name).probs([query])[0, key])
    names = session.streams[about.queries][query].text, session.streams[about.keys][key].text
    following = written_next(session, about, query)
    then = "" if following is None else f", and “{following}” comes next"
    return f"In layer {layer}, head {head}, “{names[0]}” gives {percent(share)} of its attention to “{names[1]}”{then}."


def written_next(session: Session, about: AttentionMap, query: int) -> str | None:
    """The token of a decoder that follows a query of cross-attention; None at the end, and in other attention."""
    tokens = session.streams[about.queries]
    decodes = any(x.causal and x.queries == x.keys == about.queries for x in session.maps.values())
    return tokens[query + 1].text if decodes and about.queries != about.keys and query + 1 < len(tokens) else None


def _tell_link(session: Session, link: _Link) -> HeadFinding:
    about = session.maps[link.map]
    query, key = session.streams[about.queries][link.query].text, session.streams[about.keys][link.key].text
    following = written_next(session, about, link.query)
    words = f"{query} → {key}" if following is None else f"{following} ← {key}"
    return HeadFinding(
        link.map,
        link.layer,
        link.head,
        sentence=link_sentence(session, about, link.layer, link.head, link.query, link.key),
        short=f"{words} {percent(link.share)}",
        query=link.query,
        key=link.key,
    )


def _tell_pattern(session: Session, best: _Pattern) -> HeadFinding:
    about = session.maps[best.map]
    rows = sampled_rows(len(session.streams[about.queries]))  # those of the overview, shown next to this
    shares = _shares(session, _Sample.of(session, about, best.layer, [best.head], rows))
    kind, share, _ = main_pattern(shares, 0)
    words = WORDS[kind].format(queries=about.queries, keys=about.keys, first=session.streams[about.keys][0].text)
    sentence = f"In layer {best.layer}, head {best.head}, {words}: {percent(share)} of the attention."
    return HeadFinding(best.map, best.layer, best.head, sentence, short=f"{PATTERNS[kind]} {percent(share)}")
