"""View functions: one a view, from an inspection session to the binary frame that the page draws.

Images are quantised to bytes (a probability is byte / 255 · scale, and each image has its own scale); numbers that a
person reads come in the model's own precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.explorer.binary_frames import encode
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.head import AttentionHead, mixed
from glassformer.inspect.lookup import Lookup, embedding_table, look_up
from glassformer.inspect.overview import HEAD_KINDS
from glassformer.inspect.session import AttentionMap, Session
from glassformer.inspect.tokens import Token

MAX_ROWS = 4096
"""Limit of rows × maps that one response may compute, and of the keys of one response."""
WRITTEN_ROWS = 256
"""Rows of a head that are computed at a time where all are needed."""
MAX_LOOKUPS, MAX_TABLE_NUMBERS = 32, 2**26
"""Tokens that a standalone page has embedding look-ups of, and numbers of the largest table that it has them of."""

Span = tuple[int, int]  # half open


def overview(session: Session, *, map: str, layer: int, exact: bool) -> bytes:
    """Every head of a layer as a max-pooled thumbnail, with its statistics."""
    result = session.overview(layer, map, exact=exact)
    largest = result.thumbnails.flatten(1).amax(dim=1)  # [H]
    return encode(
        "overview",
        {
            "thumbnails": _quantize(result.thumbnails, largest[:, None, None]),
            "scale": largest.float(),
            "stats": torch.stack(list(result.stats.values()), dim=1).float(),
        },
        {
            "map": map,
            "layer": layer,
            "bins": list(result.bins),
            "rows_used": result.rows_used,
            "rows_total": result.rows_total,
            "stats": list(result.stats),
            "summaries": list(result.summaries),
            "kinds": [list(kind) for kind in result.kinds],
            "metrics": {name: HEAD_KINDS[name][1] for name, _ in result.kinds},
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
    weights: Sequence[float] | None = None,
) -> bytes:
    """Top-k attention: the keys of each query with the highest probability, and the total of all others.

    Args:
        mix: "each" head by itself, or all of them as one map, as `mixed` makes it.
        keys: types of the keys that may be shown: "special", or the index of their text; None = all.
        weights: of each of `heads`, the same in every layer.
    Raises: DataError: no such map, layer, head or rows; or more than one response may hold. ConfigError: as `mixed`.
    """
    attention_map = _map(session, map)
    queries, key_tokens = session.streams[attention_map.queries], session.streams[attention_map.keys]
    _check_span("rows", rows, len(queries), "query tokens")
    _check_span("layers", layers, attention_map.layers, "layers")
    if not heads or len(set(heads)) < len(heads):
        raise DataError(f"heads is {list(heads)}; give at least one, and each once")
    members = [(layer, head) for layer in range(*layers) for head in heads]
    row_count = len(members) * (rows[1] - rows[0])
    if row_count > MAX_ROWS:
        raise DataError(
            f"{len(members)} heads of {rows[1] - rows[0]} rows are {row_count:,} rows; one response holds at most "
            f"{MAX_ROWS:,}: ask for fewer rows at a time"
        )
    chosen = (session.head(layer, head, map) for layer, head in members)
    if mix == "each":
        probs = torch.stack([head.probs(slice(*rows)) for head in chosen])  # [M, R, S]
    else:
        shares = None if weights is None else [*weights] * (layers[1] - layers[0])
        probs = mixed(chosen, mix, rows=slice(*rows), weights=shares)[None]  # type: ignore[arg-type] # checked there
    strongest_keys, strongest, other = _strongest_keys(probs, key_tokens, keys, count)
    shown = [list(member) for member in members] if mix == "each" else []
    return encode(
        "lines",
        {
            "keys": strongest_keys.to("cpu", torch.int64).numpy().astype("uint32"),
            "probs": strongest.float(),
            "other": other.float(),
        },
        {"map": map, "members": shown, "mix": mix, "rows": list(rows)},
    )


def _strongest_keys(
    probs: Tensor, tokens: Sequence[Token], types: Sequence[str] | None, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The keys of these types with the highest probability: their positions, probabilities, the total of all others."""
    positions = [position for position, token in enumerate(tokens) if types is None or _type(token) in types]
    allowed = torch.tensor(positions, dtype=torch.long, device=probs.device)
    strongest = probs[..., allowed].topk(min(count, len(positions)))
    other = (probs.sum(-1) - strongest.values.sum(-1)).clamp(min=0)
    return allowed[strongest.indices], strongest.values, other


def tile(
    session: Session, *, map: str, layer: int, head: int, level: int, row: int, column: int, companding: str
) -> bytes:
    """A square tile of a head's attention map; companding "sqrt" gives small probabilities more of the 255 levels."""
    square = session.head(layer, head, map).tile(level, row, column)
    scale = square.amax()
    pixels, largest = (square.sqrt(), scale.sqrt()) if companding == "sqrt" else (square, scale)
    return encode(
        "tile",
        {"tile": _quantize(pixels, largest)},
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
    chosen = session.head(layer, head, map)
    _check_query(query, chosen)
    return encode(
        "row",
        {"scores": _float_array(chosen.scores(query)[0]), "probs": _float_array(chosen.probs(query)[0])},
        {"map": map, "layer": layer, "head": head, "query": query},
    )


def neuron(session: Session, *, map: str, layer: int, head: int, query: int, keys: Span) -> bytes:
    """One query's whole computation: its q, scores, probabilities and z, and k and v of a range of tokens."""
    chosen = session.head(layer, head, map)
    _check_query(query, chosen)
    _check_span("keys", keys, len(chosen.k), "key tokens")
    if keys[1] - keys[0] > MAX_ROWS:
        raise DataError(
            f"keys is {keys[0]}:{keys[1]}; one response holds at most {MAX_ROWS:,}: ask for fewer at a time"
        )
    key_range = slice(*keys)
    arrays = {
        "q": chosen.q[query],
        "k": chosen.k[key_range],
        "v": chosen.v[key_range],
        "scores": chosen.scores(query)[0],
        "probs": chosen.probs(query)[0],
        "z": chosen.z(query)[0],
    }
    bias = chosen.bias(query)
    if bias is not None:
        arrays["bias"] = bias[0]
    return encode(
        "neuron",
        {name: _float_array(array) for name, array in arrays.items()},
        {
            "map": map,
            "layer": layer,
            "head": head,
            "query": query,
            "keys": list(keys),
            "scale": chosen.scale,
            "score_cap": chosen.score_cap,
            "kv_head": chosen.kv_head,
        },
    )


def has_distance_based_mask(session: Session, *, map: str, layer: int) -> bool:
    """Do mask and position bias depend on the distance of query and key only, so that a page can compute them?"""
    head = session.head(layer, 0, map)
    return head.pattern.is_distance_based(len(head.k)) and head.bias_by_distance


def layer(session: Session, *, map: str, layer: int) -> bytes:
    """A layer's queries, keys and values, from which a standalone page computes all of the above by itself.

    Raises: DataError: no such map or layer; or a mask or a bias which a page cannot compute: a block-sparse mask, a
        position bias that depends on queries and keys.
    """
    if not has_distance_based_mask(session, map=map, layer=layer):
        first = session.head(layer, 0, map)
        what, instead = (
            (f"sees {first.pattern}", ", or save a page of a shorter text")
            if first.bias_by_distance
            else ("has a position bias that depends on queries and keys", "")
        )
        raise DataError(
            f"layer {layer} {what}, which a page cannot compute by itself; look at it in the explorer (glassformer "
            f"look, without --html){instead}"
        )
    q, k, v = session.projections(layer, map)
    heads = [session.head(layer, head, map) for head in range(len(q))]
    arrays = {"q": q, "k": k, "v": v, "written": torch.stack([_written(head) for head in heads])}
    if _map(session, map).biased:
        arrays["bias"] = torch.stack([_bias_by_distance(head) for head in heads])
    fields = {"map": map, "layer": layer, "scale": heads[0].scale, "score_cap": heads[0].score_cap}
    return encode("layer", {name: _float_array(array) for name, array in arrays.items()}, fields)


def _written(head: AttentionHead) -> Tensor:
    """Lengths of what the head writes, `WRITTEN_ROWS` queries at a time, so that no T × S matrix is made. [T]"""
    starts = range(0, len(head.q), WRITTEN_ROWS)
    return torch.cat([head.written(slice(start, start + WRITTEN_ROWS)) for start in starts])


def _bias_by_distance(head: AttentionHead) -> Tensor:
    """Relative position bias by key − query, from −(T − 1) to S − 1: rows from the last up, S apart. [T + S − 1]"""
    T, S = len(head.q), len(head.k)
    by_distance = head.q.new_empty(T + S - 1)
    for query in [*range(T - 1, 0, -S), 0]:
        bias = head.bias(query)
        assert bias is not None
        by_distance[T - 1 - query : T - 1 - query + S] = bias[0]
    return by_distance


# ---------------------------------------------------------------------------------------------------- numbers


def _quantize(values: Tensor, largest: Tensor) -> Tensor:
    """Quantise [0, largest] to 0 … 255."""
    return (values / largest.clamp(min=torch.finfo(values.dtype).tiny) * 255).round().to(torch.uint8)


def _float_array(values: Tensor) -> Tensor:
    """Float32 or float64: browsers have no 16-bit float arrays."""
    return values if values.dtype == torch.float64 else values.float()


def _type(token: Token) -> str:
    return "special" if token.special else str(token.segment or 0)


# ----------------------------------------------------------------------------------------------------- checks


def _map(session: Session, name: str) -> AttentionMap:
    if name not in session.maps:
        raise DataError(f"there is no map {name!r}; this pass has {', '.join(map(repr, session.maps))}")
    return session.maps[name]


def _check_query(query: int, head: AttentionHead) -> None:
    if not 0 <= query < len(head.q):
        raise DataError(f"query is {query}; the query tokens are 0 to {len(head.q) - 1}")


def _check_span(name: str, span: Span, size: int, what: str) -> None:
    if not 0 <= span[0] < span[1] <= size:
        raise DataError(f"{name} is {span[0]}:{span[1]}; there are {size} {what}, so give a:b with 0 ≤ a < b ≤ {size}")


BINS = 64
"""Of the histogram: at most, since empty ones are left out."""
MAX_SPELLED_TOKENS = 200
"""Most probable tokens whose text is sent; a person reads no more of them."""
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "min_p", "typical_p")


def distribution(trace: GenerationTrace, *, w: str, node: int, count: int | None = None) -> bytes:
    """The next-token distribution at a node: its most probable tokens, and a histogram of the rest.

    Args:
        w: the id of the trace.
        count: how many tokens are listed; None = the whole vocabulary, from which everything is exact.
    Raises: DataError: no such node, a node that ends its text, or an invalid count.
    """
    if count is not None and count < 1:
        raise DataError(f"count is {count}; it must be 1 or more")
    next_token = trace.distribution(node)
    options = trace.options_at(node)
    ranked = next_token.model.sort(descending=True, stable=True)
    listed = ranked.indices[:count]
    arrays: dict[str, Any] = {
        "ids": listed.numpy().astype("uint32"),
        "logprobs": _float_array(ranked.values[:count]),
    }
    if next_token.after_rules is not next_token.model:
        arrays["ruled"] = _float_array(next_token.after_rules[listed])
    values, counts = logprob_histogram(next_token.after_rules[ranked.indices[len(listed) :]])
    return encode(
        "distribution",
        {**arrays, "rest_logprobs": _float_array(values), "rest_counts": counts.numpy().astype("uint32")},
        {
            "w": w,
            "node": node,
            "vocabulary": len(next_token.model),
            "entropy": next_token.entropy,
            "tokens": [trace.tree.spelling(node, token) for token in listed[:MAX_SPELLED_TOKENS].tolist()],
            **{name: getattr(options, name) for name in SAMPLING_OPTIONS},
        },
    )


def logprob_histogram(logprobs: Tensor) -> tuple[Tensor, Tensor]:
    """Histogram of log-probabilities, at most 64 bins of equal width: log mean probability and count of each.

    At temperature 1 the total probability is exact. A bin is a fraction of a nat wide: at others it is nearly so.
    """
    logprobs = logprobs[logprobs > -torch.inf]
    if not len(logprobs):
        return logprobs, torch.zeros(0, dtype=torch.long)
    low, high = logprobs.aminmax()
    width = (high - low).clamp(min=1e-6) / BINS
    bin_index = ((logprobs - low) / width).long().clamp(max=BINS - 1)
    counts = torch.bincount(bin_index, minlength=BINS)
    sums = torch.zeros(BINS, dtype=torch.float64).index_add_(0, bin_index, logprobs.double().exp())
    occupied = counts > 0
    return (sums[occupied] / counts[occupied]).log().to(logprobs.dtype), counts[occupied]


def lookup(session: Session, *, stream: str, token: int) -> Lookup:
    """The look-up of a token of a stream. Raises: DataError: there is no such token, or no table."""
    tokens = session.streams.get(stream, [])
    if not 0 <= token < len(tokens):
        raise DataError(f"there is no token {token} of {stream!r}; there are {len(tokens)}")
    return look_up(session, stream, [tokens[token].id])[0]


def stored_lookups(session: Session) -> dict[str, list[dict[str, Any]]]:
    """What a standalone page has of them: the first different tokens of each stream, where its table is small."""
    stored = {}
    for stream, tokens in session.streams.items():
        table = embedding_table(session, stream)
        if table is not None and table.weight.numel() <= MAX_TABLE_NUMBERS:
            ids = list(dict.fromkeys(token.id for token in tokens))[:MAX_LOOKUPS]
            stored[stream] = [asdict(each) for each in look_up(session, stream, ids)]
    return stored
