"""Attention masks and position encodings as matrices to look at: of this library's own modules, at any size.

    attention_masks(20)["causal"]            [20, 20], True = the row may attend to the column
    position_encodings(20)["sinusoids"]      [20, 32], a row a position
    own_patterns(session, 20, layer=0)       those of a model's layer

Every matrix is what a module of `core` gives: a mask its `keep`, waves their sines and cosines, buckets their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.core.embeddings import SinusoidalSpec
from glassformer.core.masks import AttentionPattern, Packing
from glassformer.core.position_bias import BucketedBias, BucketedBiasSpec
from glassformer.core.rotary import Rotary, RotarySpec
from glassformer.errors import DataError
from glassformer.files import is_int
from glassformer.models.big_bird.block_sparse import BlockPlan, BlockSparsePattern
from glassformer.models.big_bird.random_blocks import random_blocks
from glassformer.reports.heat_map import HeatMap
from glassformer.reports.report import Display
from glassformer.reports.table import Table, percent

if TYPE_CHECKING:
    from glassformer.inspect.head import AttentionHead
    from glassformer.inspect.session import Session

MOST_TOKENS = 4_096


@dataclass(frozen=True, eq=False)
class Pattern(Display):
    """A mask or a position encoding: a matrix, and what it is.

    values: bool of a mask, True = may attend; else numbers. [T, T] or [T, width]
    rule: in words, or as a formula
    options: arguments that it depends on, besides `tokens`
    """

    values: Tensor
    rule: str
    options: tuple[str, ...] = ()

    @property
    def caption(self) -> str:
        """What it is, and of a mask how many pairs attend."""
        if self.values.dtype != torch.bool:
            return self.rule
        pairs, most = int(self.values.sum()), self.values.numel()
        return f"{self.rule}; {pairs:,} of {most:,} pairs ({percent(pairs / most)})"

    def tables(self) -> list[Table]:
        """The matrix, shaded."""
        return HeatMap(self.values).tables()

    def __repr__(self) -> str:
        return f"Pattern({' × '.join(map(str, self.values.shape))}: {self.caption})"


def attention_masks(
    tokens: int = 20,
    *,
    window: int = 3,
    texts: int = 3,
    padding: int = 4,
    reading: int = 2,
    random: int = 3,
    block: int = 2,
    seed: int = 0,
) -> dict[str, Pattern]:
    """Attention masks by name.

    Args:
        tokens: T
        window: tokens that a band reaches to each side, itself included
        texts: that are packed in one row
        padding: tokens at the end that are padding
        reading: tokens that see all and are seen by all ("global")
        random: tokens that each sees at random
        block: tokens of a block of block-sparse attention
        seed: of what is random
    Returns: masks, each [T, T], True = the row may attend to the column
    Raises: DataError: a number out of range.
    Sources: Vaswani et al. 2017 (causal, padding); Beltagy et al. 2020 (band, global); Zaheer et al. 2020 (the others).
    """
    _check(tokens, window=(window, 1), texts=(texts, 1), padding=(padding, 0), reading=(reading, 0), random=(random, 0))
    _check(tokens, block=(block, 1))
    band, sliding = (AttentionPattern(causal=x, window=window).keep(tokens, tokens) for x in (False, True))
    places = torch.arange(tokens)
    reads = places < reading
    sizes = [tokens // texts + (i < tokens % texts) for i in range(texts)]
    picked = torch.rand(tokens, tokens, generator=torch.Generator().manual_seed(seed)).topk(random).indices
    return {
        "full": Pattern(AttentionPattern().keep(tokens, tokens), "every token attends to every token"),
        "causal": Pattern(AttentionPattern(causal=True).keep(tokens, tokens), "s ≤ t: no token attends to a later one"),
        "padding": Pattern(
            (places < tokens - padding).expand(tokens, -1),
            f"no token attends to the last {padding}, which are padding",
            ("padding",),
        ),
        "band": Pattern(band, f"|s − t| < {window}: a window around each token", ("window",)),
        "causal band": Pattern(sliding, f"t − {window} < s ≤ t: a sliding window", ("window",)),
        "packed": Pattern(
            Packing(tuple(sizes)).keep()[0], f"{texts} texts in one row, each of which attends to itself", ("texts",)
        ),
        "global": Pattern(
            band | reads[:, None] | reads[None, :],
            f"|s − t| < {window}, and {reading} tokens that see all and are seen by all",
            ("window", "reading"),
        ),
        "random": Pattern(
            torch.eye(tokens, dtype=torch.bool).scatter(-1, picked, True),
            f"itself, and {random} tokens drawn at random",
            ("random", "seed"),
        ),
        "block-sparse": _block_sparse(tokens, block, seed),
    }


def _block_sparse(tokens: int, block: int, seed: int) -> Pattern:
    """The attention of BigBird while it is trained, with one random block of each."""
    pattern, options = BlockSparsePattern(block=block, random=1), ("block", "seed")
    if pattern.is_dense(tokens):
        rule = f"blocks of {block}: so few of them that every token attends to every token"
        return Pattern(AttentionPattern().keep(tokens, tokens), rule, options)
    N = pattern.blocks_of(tokens)
    picked = torch.tensor(random_blocks(N, block, 1, 1, seed, max(4096, tokens)))
    seen = BlockPlan.fixed(N).with_random_blocks(picked).block_multiplicity()[0] > 0
    of = torch.arange(tokens) // block
    rule = f"blocks of {block}: each sees the first, the last, its neighbours and one at random; first and last see all"
    return Pattern(seen[of][:, of], rule, options)


def position_encodings(
    tokens: int = 20,
    *,
    width: int = 32,
    theta: float = 10_000.0,
    buckets: int = 32,
    max_distance: int = 128,
    heads: int = 8,
    head: int = 0,
) -> dict[str, Pattern]:
    """Position encodings by name.

    Args:
        tokens: T
        width: numbers of a vector; of a head's query and key for rotary positions
        theta: base of the wave lengths
        buckets, max_distance: of relative positions
        heads, head: of ALiBi, whose slope is another in each head
    Returns: matrices [T, width] of vectors, or [T, T] of what is added to scores, or by which it is chosen
    Raises: DataError: a number out of range.
    Sources: Vaswani et al. 2017 (sinusoids), Su et al. 2021 (rotary), Raffel et al. 2020 (buckets), Press et al. 2022
        (ALiBi, which no family here uses: its formula alone).
    """
    _check(tokens, width=(width, 2), heads=(heads, 1), head=(head, 0))
    if head >= heads:
        raise DataError(f"head is {head}; it must be below the number of heads, {heads}")
    positions = torch.arange(tokens)[None]
    distance = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]
    even = width + width % 2
    cosines, sines = Rotary(RotarySpec(width=even, theta=theta))(positions, torch.float32)
    relative = BucketedBias(BucketedBiasSpec(heads=1, buckets=buckets, max_distance=max_distance))
    slope = alibi_slope(head, heads)
    return {
        "sinusoids": Pattern(
            SinusoidalSpec(count=tokens, theta=theta).make(width)(positions, torch.float32)[0],
            "PE(p)[2i] = sin(p / θ^(2i/D)), PE(p)[2i + 1] = cos(p / θ^(2i/D))",
            ("width",),
        ),
        "rotary cosines": Pattern(
            cosines[0, 0, :, : even // 2],
            "cos(p · θ^(−2i/width)): by this angle pair i of q and k is turned",
            ("width",),
        ),
        "rotary sines": Pattern(sines[0, 0, :, : even // 2], "sin(p · θ^(−2i/width))", ("width",)),
        "buckets": Pattern(
            relative.buckets(distance), "the bucket of each distance s − t: near ones each, far ones on a log scale"
        ),
        "ALiBi": Pattern(
            -slope * distance.abs().float(),
            f"−m · |s − t|, m = 2^(−8 (h + 1) / H) = {slope:.3g} for head {head} of {heads}",
            ("heads", "head"),
        ),
    }


def alibi_slope(head: int, heads: int) -> float:
    """The slope of a head of ALiBi, 2^(-8 (h + 1) / H). Source: Press et al. 2022, section 3."""
    return float(2 ** (-8 * (head + 1) / heads))


def own_patterns(
    session: Session, tokens: int = 20, *, layer: int = 0, head: int = 0, map: str | None = None, padding: int = 0
) -> dict[str, Pattern]:
    """The masks of a layer of a model, and its position encodings, by name: "mask", "positions", "rotary", "bias".

    Args:
        tokens: T; of learned positions at most as many as the model has
        layer, head: of the model; of a map with fewer, its last
        map: None = all; of several the names say whose: "encoder mask", "decoder mask", "cross mask"
        padding: tokens at the end of a text that are padding, as where a batch has a longer one
    Raises: DataError: no such layer, head or map, or a number out of range.
    """
    _check(tokens, padding=(padding, 0))
    names = [map] if map is not None or len(session.maps) == 1 else list(session.maps)
    patterns: dict[str, Pattern] = {}
    for name in names:
        whose = f"{name} " if len(names) > 1 else ""
        own = _of_map(session, tokens, layer, head, name, len(names) > 1, padding)
        patterns |= {whose + kind: pattern for kind, pattern in own.items()}
    table: Any = getattr(session.network.text_embedding, "positions", None)
    if table is not None:
        count = min(tokens, len(table.weight) - table.offset) if hasattr(table, "weight") else tokens
        with torch.no_grad():
            vectors = table(torch.arange(count)[None], torch.float32)[0]
        patterns["positions"] = Pattern(vectors, f"{table.KIND} positions, {vectors.shape[-1]} wide")
    return patterns


def _of_map(
    session: Session, tokens: int, layer: int, head: int, name: str | None, one_of_several: bool, padding: int
) -> dict[str, Pattern]:
    """Mask, rotary positions and position bias of a layer of an attention map."""
    if one_of_several and name is not None:
        layer, head = min(layer, session.maps[name].layers - 1), min(head, session.maps[name].heads - 1)
    own = session.head(layer, head, name)
    where = session.attention_layer(layer, own.map)
    patterns = {"mask": _mask(session, own, tokens, padding)}
    if where.attention.spec.rotary is not None:
        spec = where.attention.spec.rotary
        cosines, _ = Rotary(spec)(torch.arange(tokens)[None], torch.float32)
        half = cosines.shape[-1] // 2
        rule = f"cosines of rotary positions, base {spec.theta:g}"
        patterns["rotary"] = Pattern(cosines[0, 0, :, :half], rule, ("layer",))
    bias = None if where.stack is None else where.stack.bias
    if bias is not None and bias.BY_DISTANCE:
        rows = torch.arange(tokens)
        empty = own.q.new_zeros(tokens, own.q.shape[-1])
        with torch.no_grad():
            numbers = bias.head_rows(where.attention, head, empty, empty, rows)
        rule = f"{bias.KIND} of head {head}, added to its scores"
        patterns["bias"] = Pattern(numbers.float(), rule, ("layer", "head"))
    return patterns


def _mask(session: Session, own: AttentionHead, tokens: int, padding: int) -> Pattern:
    """The mask of a layer; of one that sees later tokens, padding is hidden, which a causal one has after its text."""
    about = session.maps[own.map]
    rule = str(own.pattern) or (
        "every token attends to every token"
        if about.queries == about.keys
        else f"every token of the {about.queries} attends to every token of the {about.keys}"
    )
    padded = session.batch.input_ids is not None and about.keys in ("text", "source") and not about.causal
    keep = own.pattern.keep(tokens, tokens)
    if not padded:
        return Pattern(keep, rule, ("layer",))
    if padding:
        keep = keep & (torch.arange(tokens) < tokens - padding)
        rule += f" but the last {padding}, which are padding"
    return Pattern(keep, rule, ("layer", "padding"))


def _check(tokens: int, **least: tuple[int, int]) -> None:
    """Raises: DataError: a number that is no whole number, or out of range."""
    for name, (value, low) in {"tokens": (tokens, 1), **least}.items():
        most = (
            MOST_TOKENS if name == "tokens" else tokens if name in ("texts", "padding", "reading", "random") else None
        )
        if not is_int(value) or value < low or (most is not None and value > most):
            raise DataError(
                f"{name} is {value!r}; it must be a whole number from {low}{f' to {most:,}' if most else ' up'}"
            )
