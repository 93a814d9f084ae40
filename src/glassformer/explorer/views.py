"""One function a view: what a picture needs of a session, as a frame.

Pictures get bytes (a probability is byte / 255 · scale, and each picture carries its own scale); what a person reads as
a number comes in the model's own precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.explorer.frames import encode
from glassformer.inspect.head import Head
from glassformer.inspect.reading import Token
from glassformer.inspect.session import AttentionMap, Session

MOST_ROWS = 4096
"""Rows times maps that one answer may take to compute; keys of one answer."""
MOST_LINES = 256
"""Keys a query that lines may show; more would be a heat map."""
MIXES = ("each", "mean", "max")
COMPANDINGS = ("linear", "sqrt")

Span = tuple[int, int]  # half open


def overview(session: Session, *, map: str, layer: int, exact: bool) -> bytes:
    """Every head of a layer as a small picture pooled by maximum, with figures that describe it."""
    found = session.overview(layer, map, exact=exact)
    largest = found.thumbnails.flatten(1).amax(dim=1)  # [H]
    return encode(
        "overview",
        {
            "thumbnails": _bytes(found.thumbnails, largest[:, None, None]),
            "scale": largest.float(),
            "stats": torch.stack(list(found.stats.values()), dim=1).float(),
        },
        {
            "map": map,
            "layer": layer,
            "bins": list(found.bins),
            "rows_used": found.rows_used,
            "rows_total": found.rows_total,
            "stats": list(found.stats),
            "summaries": list(found.summaries),
        },
    )


def lines(
    session: Session,
    *,
    map: str,
    layers: Span,
    heads: Sequence[int],
    mix: str,
    rows: Span,
    count: int,
    keys: Sequence[str] | None = None,
) -> bytes:
    """The strongest keys of each query, and what all others add up to.

    Args:
        mix: "each" head by itself, or all of them as one map: their "mean", or their "max".
        keys: the types of keys that may be shown: "special", or which text they are of; None = all.
    Raises: DataError: no such map, layer, head or rows; or more than one answer may hold.
    """
    about = _map(session, map)
    queries, others = session.sides[about.queries], session.sides[about.keys]
    _check_span("rows", rows, len(queries), "tokens that look")
    _check_span("layers", layers, about.layers, "layers")
    _check_choice("mix", mix, MIXES)
    if not heads or len(set(heads)) < len(heads):
        raise DataError(f"heads is {list(heads)}; give at least one, and each once")
    if not 1 <= count <= MOST_LINES:
        raise DataError(f"count is {count}; it must be from 1 to {MOST_LINES}")
    members = [(layer, head) for layer in range(*layers) for head in heads]
    asked = len(members) * (rows[1] - rows[0])
    if asked > MOST_ROWS:
        raise DataError(
            f"{len(members)} heads of {rows[1] - rows[0]} rows are {asked:,} rows; one answer holds at most "
            f"{MOST_ROWS:,}: ask for fewer rows at a time"
        )
    maps = (session.head(layer, head, map).probs(slice(*rows)) for layer, head in members)
    probs = torch.stack(list(maps)) if mix == "each" else _mixed(maps, mix, len(members))[None]  # [M, R, S]
    allowed = [place for place, token in enumerate(others) if keys is None or _type(token) in keys]
    some = torch.tensor(allowed, dtype=torch.long, device=probs.device)
    strongest = probs[..., some].topk(min(count, len(allowed)))
    other = (probs.sum(-1) - strongest.values.sum(-1)).clamp(min=0)
    return encode(
        "lines",
        {
            "keys": some[strongest.indices].to("cpu", torch.int64).numpy().astype("uint32"),
            "probs": strongest.values.float(),
            "other": other.float(),
        },
        {
            "map": map,
            "members": [list(member) for member in members] if mix == "each" else [],
            "mix": mix,
            "rows": list(rows),
        },
    )


def tile(
    session: Session, *, map: str, layer: int, head: int, level: int, row: int, column: int, companding: str
) -> bytes:
    """A square of a head's map; companding "sqrt" spends its bytes on faint heads."""
    _check_choice("companding", companding, COMPANDINGS)
    square = session.head(layer, head, map).tile(level, row, column)
    scale = square.amax()
    shown, largest = (square.sqrt(), scale.sqrt()) if companding == "sqrt" else (square, scale)
    return encode(
        "tile",
        {"tile": _bytes(shown, largest)},
        {
            "map": map,
            "layer": layer,
            "head": head,
            "level": level,
            "row": row,
            "column": column,
            "scale": float(scale),
            "companding": companding,
        },
    )


def row(session: Session, *, map: str, layer: int, head: int, query: int) -> bytes:
    """One query's scores and probabilities over all keys."""
    found = session.head(layer, head, map)
    _check_query(query, found)
    return encode(
        "row",
        {"scores": _exact(found.scores(query)[0]), "probs": _exact(found.probs(query)[0])},
        {"map": map, "layer": layer, "head": head, "query": query},
    )


def neuron(session: Session, *, map: str, layer: int, head: int, query: int, keys: Span) -> bytes:
    """Everything that makes one query's row, and the keys and values of a range of tokens."""
    found = session.head(layer, head, map)
    _check_query(query, found)
    _check_span("keys", keys, len(found.k), "tokens that are looked at")
    if keys[1] - keys[0] > MOST_ROWS:
        raise DataError(
            f"keys is {keys[0]}:{keys[1]}; one answer holds at most {MOST_ROWS:,}: ask for fewer at a time"
        )
    some = slice(*keys)
    arrays = {
        "q": found.q[query],
        "k": found.k[some],
        "v": found.v[some],
        "scores": found.scores(query)[0],
        "probs": found.probs(query)[0],
        "z": found.z(query)[0],
    }
    bias = found.bias(query)
    if bias is not None:
        arrays["bias"] = bias[0]
    return encode(
        "neuron",
        {name: _exact(array) for name, array in arrays.items()},
        {
            "map": map,
            "layer": layer,
            "head": head,
            "query": query,
            "keys": list(keys),
            "scale": found.scale,
            "kv_head": found.kv_head,
        },
    )


def suffices(session: Session, *, map: str, layer: int) -> bool:
    """Can a page compute what this layer sees from queries, keys and values?"""
    head = session.head(layer, 0, map)
    return head.pattern.by_distance(len(head.k))


def layer(session: Session, *, map: str, layer: int) -> bytes:
    """A layer's queries, keys and values: from them a page computes all of the above by itself.

    Raises: DataError: no such map or layer; or one whose queries see blocks of keys, which a page does not know of.
    """
    if not suffices(session, map=map, layer=layer):
        raise DataError(
            f"layer {layer} sees {session.head(layer, 0, map).pattern}, which a page cannot compute by itself; look at "
            "it in the explorer (glassformer look, without --html), or save a page of a shorter text"
        )
    q, k, v = session.projections(layer, map)
    arrays = {"q": q, "k": k, "v": v}
    heads = [session.head(layer, head, map) for head in range(len(q))]
    if _map(session, map).biased:
        arrays["bias"] = torch.stack([_bias_by_distance(head) for head in heads])
    fields: dict[str, Any] = {"map": map, "layer": layer, "scale": heads[0].scale}
    return encode("layer", {name: _exact(array) for name, array in arrays.items()}, fields)


def _bias_by_distance(head: Head) -> Tensor:
    """What the position adds, by key − query, from −(T − 1) to S − 1: rows from the last up, S apart. [T + S − 1]"""
    T, S = len(head.q), len(head.k)
    found = head.q.new_empty(T + S - 1)
    for query in [*range(T - 1, 0, -S), 0]:
        bias = head.bias(query)
        assert bias is not None
        found[T - 1 - query : T - 1 - query + S] = bias[0]
    return found


# ---------------------------------------------------------------------------------------------------- numbers


def _bytes(values: Tensor, largest: Tensor) -> Tensor:
    """From [0, largest] to 0 … 255."""
    return (values / largest.clamp(min=torch.finfo(values.dtype).tiny) * 255).round().to(torch.uint8)


def _exact(values: Tensor) -> Tensor:
    """As the model computed them; 16-bit floats, which browsers do not know, fit into 32."""
    return values if values.dtype == torch.float64 else values.float()


def _mixed(maps: Any, mix: str, count: int) -> Tensor:
    """One map of many, with one of them in memory at a time."""
    whole: Tensor = next(maps)
    for probs in maps:
        whole = whole + probs if mix == "mean" else torch.maximum(whole, probs)
    return whole / count if mix == "mean" else whole


def _type(token: Token) -> str:
    return "special" if token.special else str(token.segment or 0)


# ----------------------------------------------------------------------------------------------------- checks


def _map(session: Session, name: str) -> AttentionMap:
    if name not in session.maps:
        raise DataError(f"there is no map {name!r}; this pass has {', '.join(map(repr, session.maps))}")
    return session.maps[name]


def _check_query(query: int, head: Head) -> None:
    if not 0 <= query < len(head.q):
        raise DataError(f"query is {query}; the tokens that look are 0 to {len(head.q) - 1}")


def _check_span(name: str, span: Span, size: int, what: str) -> None:
    if not 0 <= span[0] < span[1] <= size:
        raise DataError(
            f"{name} is {span[0]}:{span[1]}; there are {size} {what}, so give a:b with 0 ≤ a < b ≤ {size}"
        )


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise DataError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
