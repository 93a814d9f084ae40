"""Tour of a forward pass: six steps on the text of the page, from tokens by a head and its arithmetic to the output.

A step is a title, a text, some numbers, and the state of the page that shows what it tells. The page plays such a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from glassformer.inspect.answer import answer
from glassformer.inspect.opening import HeadFinding, findings
from glassformer.inspect.session import Session

SHOWN = 6
"""Numbers of a vector that are shown."""
MOST_TOKENS = 24
"""Tokens that are listed."""


@dataclass(frozen=True, kw_only=True)
class TourStep:
    """A step of a tour.

    views: the first of these that the page has is shown
    items: what is listed: a name, what stands next to it, and a share from 0 to 1 that is drawn as a bar, or None
    state: of the page: map, layers, heads, query, key
    """

    title: str
    text: str
    views: list[str]
    state: dict[str, Any]
    items: Sequence[tuple[str, str, float | None]] = field(default_factory=list)


def tour(session: Session) -> dict[str, Any]:
    """The tour of a pass, as the page reads it: its steps."""
    link = _link(session)
    steps = [
        _tokens(session, link),
        _vector(session, link),
        _head(session, link),
        _arithmetic(session, link),
        _layers(session, link),
        _output(session, link),
    ]
    return {"steps": [asdict(step) for step in steps]}


@dataclass(frozen=True)
class _TourLink:
    """The attention that the tour follows: a finding, or the strongest of the last token in the first head.

    sentence: of the finding
    """

    map: str
    layer: int
    head: int
    query: int
    key: int
    sentence: str

    @property
    def state(self) -> dict[str, Any]:
        layers, heads = [self.layer, self.layer], [self.head]
        return {"map": self.map, "layers": layers, "heads": heads, "query": self.query, "key": self.key}


def _link(session: Session) -> _TourLink:
    telling: list[HeadFinding] = findings(session)
    linked = next((each for each in telling if each.query is not None), None)
    if linked is not None and linked.query is not None and linked.key is not None:
        return _TourLink(linked.map, linked.layer, linked.head, linked.query, linked.key, linked.sentence)
    about = session.maps[telling[0].map] if telling else next(iter(session.maps.values()))
    layer, head = (telling[0].layer, telling[0].head) if telling else (0, 0)
    queries, keys = session.streams[about.queries], session.streams[about.keys]
    query = max((at for at, token in enumerate(queries) if not token.special), default=len(queries) - 1)
    share, key = (x.item() for x in session.head(layer, head, about.name).probs([query])[0].max(-1))
    where = f"In layer {layer}, head {head}"
    sentence = f"{where}, “{queries[query].text}” gives {share:.0%} of its attention to “{keys[int(key)].text}”."
    return _TourLink(about.name, layer, head, query, int(key), sentence)


def _tokens(session: Session, link: _TourLink) -> TourStep:
    tokens = session.streams[session.maps[link.map].queries]
    more = f" The first {MOST_TOKENS}:" if len(tokens) > MOST_TOKENS else ""
    return TourStep(
        title="Tokens",
        text=f"The model reads {len(tokens):,} tokens: words, pieces of words, and signs of its own. Each has a number "
        f"in its vocabulary.{more}",
        items=[(token.text, str(token.id), None) for token in tokens[:MOST_TOKENS]],
        views=["model"],
        state=link.state,
    )


def _vector(session: Session, link: _TourLink) -> TourStep:
    stream = session.maps[link.map].queries
    token, x = session.streams[stream][link.query], session.states(0, stream)[link.query].float()
    return TourStep(
        title="Vectors",
        text=f"Token {token.id:,}, “{token.text}”, becomes a vector of {len(x):,} numbers: its row in the table of "
        f"embeddings, as it enters the first layer. Its length is {float(x.norm()):.3g}; it begins:",
        items=[(f"{number}", f"{value:.3f}", None) for number, value in enumerate(x[:SHOWN].tolist())],
        views=["embedding"],
        state=link.state,
    )


def _head(session: Session, link: _TourLink) -> TourStep:
    about = session.maps[link.map]
    shares, keys = session.head(link.layer, link.head, link.map).probs([link.query])[0].float().sort(descending=True)
    strongest = list(zip(keys.tolist(), shares.tolist(), strict=True))[:SHOWN]
    return TourStep(
        title="One head",
        text=f"{link.sentence} What it passes on there is added to the vector. The model has {about.layers} layers of "
        f"{about.heads} such heads.",
        items=[(session.streams[about.keys][key].text, f"{share:.1%}", share) for key, share in strongest],
        views=["head"],
        state=link.state,
    )


def _arithmetic(session: Session, link: _TourLink) -> TourStep:
    about = session.maps[link.map]
    head = session.head(link.layer, link.head, link.map)
    rows = torch.tensor([link.query])
    query, key = session.streams[about.queries][link.query], session.streams[about.keys][link.key]
    dot = float(head.q[link.query].double() @ head.k[link.key].double())
    score, prob = (float(x[0, link.key]) for x in (head.scores(rows), head.probs(rows)))
    plain = abs(dot * head.scale - score) < 1e-3 * max(1, abs(score))
    return TourStep(
        title="Its arithmetic",
        text=f"Where does that share come from? The query of “{query.text}” times the key of “{key.text}”, number by "
        f"number, adds up to {dot:.4g}; times {head.scale:.4g}{'' if plain else ', with what positions add,'} that is "
        f"the score, {score:.4g}. The softmax over {len(session.streams[about.keys]):,} tokens makes it {prob:.4g}.",
        items=[("q · k", f"{dot:.4g}", None), ("score", f"{score:.4g}", None), ("share", f"{prob:.4g}", prob)],
        views=["neuron"],
        state=link.state,
    )


def _layers(session: Session, link: _TourLink) -> TourStep:
    stream = session.maps[link.map].queries
    states = [session.states(layer, stream)[link.query].double() for layer in range(len(session.stream_taps(stream)))]
    cosines = torch.nn.functional.cosine_similarity(torch.stack(states), states[0][None]).tolist()
    names = ["start", *(f"layer {layer}" for layer in range(len(states) - 1))]
    return TourStep(
        title="Layers",
        text=f"Each layer adds what its heads read, and what its feed-forward network makes of it, to the vector of "
        f"“{session.streams[stream][link.query].text}”. Its cosine to where it began goes from {cosines[0]:.3f} to "
        f"{cosines[-1]:.3f}: it is no longer the word alone, but the word in this text.",
        items=[(name, f"{x:.3f}", max(0.0, x)) for name, x in zip(names, cosines, strict=True)],
        views=["lens", "embedding"],
        state={**link.state, "key": None},
    )


def _output(session: Session, link: _TourLink) -> TourStep:
    reply = answer(session)
    if reply is not None:
        text = f"The head of the model reads the last vectors: {reply.sentence}."
        items = [(choice.name, f"{choice.share:.1%}", choice.share) for choice in reply.choices]
        return TourStep(title="Output", text=text, items=items, views=["attribution", "model"], state=link.state)
    about = session.maps[link.map]
    x = session.states(len(session.stream_taps(about.queries)) - 1, about.queries).float()
    token = session.streams[about.queries][link.query].text
    return TourStep(
        title="Output",
        text=f"What comes out is a vector of {x.shape[1]:,} numbers for each token, its context in it; a vector of "
        f"the text is made of them, and compared with those of other texts. That of “{token}” begins:",
        items=[(f"{number}", f"{value:.3f}", None) for number, value in enumerate(x[link.query, :SHOWN].tolist())],
        views=["similarity", "embedding"],
        state=link.state,
    )
