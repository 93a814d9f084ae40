"""Looking inside one pass: every layer, every head, computed when it is looked at.

    texts ──one pass──> the residual stream at every block (L + 1 × [T, D], kept)
                              └─ layer looked at ──norm, projection──> q, k, v (kept while there is room)
                                       └─ head, rows, tile looked at ──> scores, probs, z, out

A pass of T tokens has L × H × T × T probabilities, which nobody can look at all at once: 4,096 tokens in a model of
12 × 12 heads make 9.7 GB of them. The stream they all follow from is 164 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from time import perf_counter

import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.sight import Place, Sight
from glassformer.engine.modes import evaluating
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.inspect.head import Head
from glassformer.inspect.kept import Kept, held_bytes
from glassformer.inspect.overview import Overview, overview
from glassformer.inspect.reading import Reading, Token
from glassformer.inspect.trace import TapRow, trace
from glassformer.models import Network

LIMIT_BYTES = 2**30
"""What a session may hold beside the weights."""

Progress = Callable[[int, int], None]
"""Called after each block with the number of blocks done and of all blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionMap:
    """One family of attention in a network: layers × heads, and whose tokens look at whose.

    name: `self`; with two stacks `encoder`, `decoder` and `cross`
    heads: of each layer; most families have the same number in all
    queries, keys: names of sides, as in `Session.sides`
    windows: how far each layer sees, in tokens; None = as far as there are tokens
    """

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    queries: str
    keys: str
    causal: bool
    windows: tuple[int | None, ...]
    rotary: bool
    biased: bool


class Session:
    """One pass of a network over one text or two, kept so that all of its attention can be looked at.

        session = model.inspect("time flies like an arrow", "fruit flies like a banana")
        session.maps                            the attention there is: {"self": 6 layers × 12 heads}
        session.head(4, 11).probs(3)            one query's row of one head [1, S]
        session.overview(4).summaries           what each head of a layer mostly does, in words
        session.states(4)                       the residual stream that enters block 4 [T, D]
        session.trace()                         shape, mean, spread of what goes through every tap

    The numbers are the model's own: q, k and v come from its modules, scores and probabilities from the functions of
    its explicit path. A session may be used by several threads at once.

    Args:
        network: a family of attention blocks: one stack, two that read each other, or two towers.
        reading: what it reads. One row, without padding.
        progress: called after each block.
        limit_bytes: what the session may hold: the stream always, the rest while there is room.
    Raises: DataError: the text is longer than the model can read, or its stream larger than the limit.
        UnsupportedError: the network has no attention to look at.
    """

    def __init__(
        self,
        network: Network,
        reading: Reading,
        *,
        progress: Progress | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self.network = network
        self.texts = reading.texts
        self.sides: dict[str, list[Token]] = reading.sides
        network.name_nodes()
        self._streams, self._sights = network.streams(), network.sights()
        if not self._sights:
            raise UnsupportedError(
                f"{type(network).__name__} has no stack of attention blocks, so there is no attention to look at"
            )
        missing = self._streams.keys() - self.sides.keys()
        if missing:
            raise UnsupportedError(
                f"the reading has {' and '.join(self.sides)} tokens and no {' and '.join(sorted(missing))}; "
                + (
                    "an encoder-decoder is looked at as a translator: load it with task='translation'"
                    if "target" in missing
                    else f"this model reads {', '.join(network.READS)}: give them all, inspect(text, visual_feats=…)"
                )
            )
        self.maps = {
            name: _map(name, sight, len(self.sides[sight.keys])) for name, sight in self._sights.items()
        }
        room = limit_bytes - self._check_room(limit_bytes)
        self.kept = Kept(room // 2)  # the other half is for what a look needs for a moment
        self._batch = _on_device(reading.batch, network)
        blocks = sum(len(stream) - 1 for stream in self._streams.values())
        tape = _Recorder(tuple(self._taps()), blocks, progress).attach(network)
        start = perf_counter()
        with torch.inference_mode(), evaluating(network):
            network.states(self._batch, Flow(tape=tape))
        self.seconds = perf_counter() - start
        self._stream = tape.taps

    # ------------------------------------------------------------------------------------------ looking at it

    def head(self, layer: int, head: int, map: str | None = None) -> Head:
        """One head of one layer; `map` may be left out where there is one.

        Raises: DataError: there is no such map, layer or head.
        """
        name, place = self._name(map), self.place(layer, map)
        attention = place.attention
        H, K, E = attention.spec.heads, attention.spec.K, attention.spec.E
        _check_number("head", head, H)
        q, k, v = self.projections(layer, name)
        shared = head // (H // K)
        return Head(
            map=name,
            layer=layer,
            head=head,
            kv_head=shared,
            q=q[head],
            k=k[shared],
            v=v[shared],
            projection=attention.out.weight[:, head * E : (head + 1) * E],
            scale=attention.scale,
            pattern=attention.pattern,
            position_bias=None if place.stack is None else place.stack.bias,
            kept=self.kept,
        )

    def projections(self, layer: int, map: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """q [H, T, E], k and v [K, S, E] of all heads of a layer, as its attention computes them."""
        name, place = self._name(map), self.place(layer, map)
        q, k, v = self.kept.get(("qkv", name, layer), lambda: self._project(place))
        return q, k, v

    def place(self, layer: int, map: str | None = None) -> Place:
        """A layer's attention where it stands in the network: its module, and the streams it reads.

        Raises: DataError: there is no such map or layer.
        """
        name = self._name(map)
        _check_number("layer", layer, self.maps[name].layers)
        return self._sights[name].places[layer]

    def states(self, layer: int, side: str | None = None) -> Tensor:
        """The residual stream that enters block `layer`; at the number of layers, what leaves the last. [T, D]

        Raises: DataError: there is no such side or layer.
        """
        stream = self._streams[_chosen("side", side, self._streams)]
        _check_number("layer", layer, len(stream))
        return self._stream[stream[layer]][0]

    def overview(self, layer: int, map: str | None = None, *, exact: bool = False) -> Overview:
        """All heads of a layer at a glance: thumbnails, statistics, a sentence each.

        Args:
            exact: use every row; else of a long text a sample of rows, as `Overview.rows_used` says.
        """
        name, place = self._name(map), self.place(layer, map)
        found = self.maps[name]
        heads = [self.head(layer, head, name) for head in range(place.attention.spec.heads)]
        return overview(heads, self.sides[found.keys], same_side=found.queries == found.keys, exact=exact)

    def trace(self, *patterns: str) -> list[TapRow]:
        """Run the pass once more, head and all, and measure what goes through each tap, keeping none of it.

        Args:
            patterns: as for a `Tape`; none = all taps but scores and probs.
        Raises: ConfigError: a pattern matches no tap.
        """
        return trace(self.network, self._batch, *patterns)

    @property
    def nbytes(self) -> int:
        """The memory that the session holds beside the weights."""
        return held_bytes(self._stream.values()) + self.kept.nbytes

    # --------------------------------------------------------------------------------------------- how it works

    def _check_room(self, limit_bytes: int) -> int:
        """What the stream will take.

        Raises: DataError: more than the limit allows beside the work on a head.
        """
        item = next(self.network.parameters()).element_size()
        a_token = dict.fromkeys(self.sides, 0)
        for side, width in self._taps().values():
            a_token[side] += width * item
        wanted = sum(len(self.sides[side]) * cost for side, cost in a_token.items())
        if wanted > limit_bytes // 2:
            most = limit_bytes // 2 // max(a_token.values())
            tokens = sum(map(len, self.sides.values()))
            raise DataError(
                f"the text has {tokens:,} tokens, whose states take {wanted / 1e6:,.0f} MB; a session of "
                f"{limit_bytes / 1e6:,.0f} MB holds about {most:,} tokens: shorten the text, or raise limit_bytes"
            )
        return wanted

    def _taps(self) -> dict[str, tuple[str, int]]:
        """The streams that are kept: the residual stream, and whatever else attention reads; tap → side and width."""
        widths = {sight.queries: sight.places[0].attention.spec.width for sight in self._sights.values()}
        taps = {tap: (side, widths[side]) for side, stream in self._streams.items() for tap in stream}
        for sight in self._sights.values():
            for place in sight.places:
                taps[place.stream] = (sight.queries, widths[sight.queries])
                if place.memory is not None:
                    taps[place.memory] = (sight.keys, widths[sight.keys])
        return taps

    def _project(self, place: Place) -> tuple[Tensor, Tensor, Tensor]:
        memory = None if place.memory is None else self._stream[place.memory]
        with torch.inference_mode():
            q, k, v = place.project(self._stream[place.stream], memory)
        return q[0], k[0], v[0]

    def _name(self, map: str | None) -> str:
        return _chosen("map", map, self.maps)

    def __repr__(self) -> str:
        tokens = " and ".join(f"{len(tokens)} {side} tokens" for side, tokens in self.sides.items())
        maps = ", ".join(f"{m.name} {m.layers} × {m.heads} heads" for m in self.maps.values())
        return f"Session({tokens}: {maps}, {self.nbytes / 1e6:.1f} MB)"


class _Recorder(Tape):
    """A tape that says how far the pass has come."""

    def __init__(self, names: tuple[str, ...], blocks: int, progress: Progress | None) -> None:
        super().__init__(*names)
        self._blocks = blocks
        self._done = 0
        self._progress = progress

    def pass_on(self, name: str, x: Tensor) -> Tensor:
        if self._progress is not None and name.endswith(".out") and name.split(".")[-2].isdigit():
            self._done += 1
            self._progress(self._done, self._blocks)
        return super().pass_on(name, x)


def _map(name: str, sight: Sight, keys: int) -> AttentionMap:
    layers = [place.attention for place in sight.places]
    first, stack = layers[0], sight.places[0].stack
    return AttentionMap(
        name=name,
        layers=len(layers),
        heads=max(attention.spec.heads for attention in layers),
        kv_heads=first.spec.K,
        head_width=first.spec.E,
        queries=sight.queries,
        keys=sight.keys,
        causal=first.pattern.causal,
        windows=tuple(attention.pattern.window for attention in layers),
        rotary=stack is not None and stack.rotary is not None,
        biased=(stack is not None and stack.bias is not None)
        or first.pattern.bias(torch.arange(1), keys) is not None,
    )


def _on_device(batch: Batch, network: Network) -> Batch:
    device = next(network.parameters()).device
    given = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{name: x.to(device) for name, x in given.items() if x is not None})


def _chosen(what: str, name: str | None, there: Collection[str]) -> str:
    """The name itself if it is there; the only one if none was given."""
    if name is None and len(there) == 1:
        return next(iter(there))
    if name is None or name not in there:
        raise DataError(
            f"there is no {what} {name!r}; this pass has {', '.join(map(repr, there))}"
            f"{nearest(name, there) if name else ''}"
        )
    return name


def _check_number(what: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise DataError(f"there is no {what} {number!r}; there are {what}s 0 to {count - 1}")
