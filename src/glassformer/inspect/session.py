"""Looking inside one pass: every layer, every head, computed when it is looked at.

    texts ──one pass──> the residual stream at every block (L + 1 × [T, D], kept)
                              └─ layer looked at ──norm, projection──> q, k, v (kept while there is room)
                                       └─ head, rows, tile looked at ──> scores, probs, z, out

A pass of T tokens has L × H × T × T probabilities, which nobody can look at all at once: 4,096 tokens in a model of
12 × 12 heads make 9.7 GB of them. The stream they all follow from is 164 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import torch
from torch import Tensor

from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.blocks import Block
from glassformer.core.flow import Batch, Flow, Memory, Tape
from glassformer.core.stack import Stack
from glassformer.engine.modes import evaluating
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.inspect.head import Head
from glassformer.inspect.kept import Kept, held_bytes
from glassformer.inspect.overview import Overview, overview
from glassformer.inspect.reading import Reading, Token, check_length
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
        network: a family of attention blocks; one stack, or an encoder and a decoder.
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
        self._stacks = _stacks_of(network)
        missing = self._stacks.keys() - self.sides.keys()
        if missing:
            raise UnsupportedError(
                f"the reading has {' and '.join(self.sides)} tokens and no {' and '.join(sorted(missing))}; "
                "an encoder-decoder is looked at as a translator: load it with task='translation'"
            )
        self.maps = {found.name: found for found in self._find_maps()}
        for side, tokens in self.sides.items():
            check_length(len(tokens), side, network.max_tokens)
        room = limit_bytes - self._check_room(limit_bytes)
        self.kept = Kept(room // 2)  # the other half is for what a look needs for a moment
        self._batch = _on_device(reading.batch, network)
        tape = _Recorder(self._taps(), sum(map(len, self._stacks.values())), progress).attach(network)
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
        found, attention = self._attention(layer, map)
        H, K, E = attention.spec.heads, attention.spec.K, attention.spec.E
        _check_number("head", head, H)
        q, k, v = self.projections(layer, found.name)
        shared = head // (H // K)
        stack = self._stacks[found.queries]
        return Head(
            map=found.name,
            layer=layer,
            head=head,
            kv_head=shared,
            q=q[head],
            k=k[shared],
            v=v[shared],
            projection=attention.out.weight[:, head * E : (head + 1) * E],
            scale=attention.scale,
            pattern=attention.pattern,
            position_bias=stack.bias if isinstance(attention, Attention) else None,
            kept=self.kept,
        )

    def projections(self, layer: int, map: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """q [H, T, E], k and v [K, S, E] of all heads of a layer, as its attention computes them."""
        found, attention = self._attention(layer, map)
        q, k, v = self.kept.get(("qkv", found.name, layer), lambda: self._project(found, layer, attention))
        return q, k, v

    def states(self, layer: int, side: str | None = None) -> Tensor:
        """The residual stream that enters block `layer`; at the number of layers, what leaves the last. [T, D]

        Raises: DataError: there is no such side or layer.
        """
        side = _chosen("side", side, self._stacks)
        layers = len(self._stacks[side])
        _check_number("layer", layer, layers + 1)
        name = f"{layers - 1}.out" if layer == layers else f"{layer}.before"
        return self._stream[f"{self._path(side)}.{name}"][0]

    def overview(self, layer: int, map: str | None = None, *, exact: bool = False) -> Overview:
        """All heads of a layer at a glance: thumbnails, statistics, a sentence each.

        Args:
            exact: use every row; else of a long text a sample of rows, as `Overview.rows_used` says.
        """
        found, attention = self._attention(layer, map)
        heads = [self.head(layer, head, found.name) for head in range(attention.spec.heads)]
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

    def _find_maps(self) -> list[AttentionMap]:
        found = []
        single = len(self._stacks) == 1
        for side, stack in self._stacks.items():
            name = "self" if single else self._path(side).split(".")[0]
            found.append(_map(name, stack, [block.attn for block in stack], side, side))
        for side, stack in self._stacks.items():
            crossing = [block.cross for block in stack if block.cross is not None]
            if crossing:
                source = next(other for other in self._stacks if other != side)
                found.append(_map("cross", stack, crossing, side, source))
        return found

    def _check_room(self, limit_bytes: int) -> int:
        """What the stream will take.

        Raises: DataError: more than the limit allows beside the work on a head.
        """
        item = next(self.network.parameters()).element_size()
        a_token = {
            side: (len(stack) + 1) * stack.spec.width * item * (2 if "cross" in self.maps else 1)
            for side, stack in self._stacks.items()
        }
        wanted = sum(len(self.sides[side]) * cost for side, cost in a_token.items())
        if wanted > limit_bytes // 2:
            most = limit_bytes // 2 // max(a_token.values())
            tokens = sum(map(len, self.sides.values()))
            raise DataError(
                f"the text has {tokens:,} tokens, whose states take {wanted / 1e6:,.0f} MB; a session of "
                f"{limit_bytes / 1e6:,.0f} MB holds about {most:,} tokens: shorten the text, or raise limit_bytes"
            )
        return wanted

    def _taps(self) -> tuple[str, ...]:
        """The residual stream where attention reads it, and where it ends."""
        names = []
        for side, stack in self._stacks.items():
            path = self._path(side)
            for layer, block in enumerate(stack):
                names.append(f"{path}.{layer}.before")
                if block.cross is not None:
                    names.append(f"{path}.{layer}.mid")
            names.append(f"{path}.{len(stack) - 1}.out")
        return (*names, "memory") if "cross" in self.maps else tuple(names)

    def _path(self, side: str) -> str:
        return self._stacks[side].path

    def _project(
        self, found: AttentionMap, layer: int, attention: Attention | CrossAttention
    ) -> tuple[Tensor, Tensor, Tensor]:
        stack = self._stacks[found.queries]
        block = stack[layer]
        path = f"{self._path(found.queries)}.{layer}"
        with torch.inference_mode():
            if isinstance(attention, Attention):
                x = self._stream[f"{path}.before"]
                flow = stack.turned(x, Flow())
                q, k, v = attention.project(block.attention_input(x), flow)
            else:
                assert isinstance(block, Block) and block.cross_residual is not None  # it has cross-attention
                x = self._stream[f"{path}.mid"]
                flow = Flow(memory=Memory(self._stream["memory"]))
                q, k, v = attention.project(block.cross_residual.before(x), flow)
        return q[0], k[0], v[0]

    def _attention(self, layer: int, map: str | None) -> tuple[AttentionMap, Attention | CrossAttention]:
        found = self.maps[_chosen("map", map, self.maps)]
        _check_number("layer", layer, found.layers)
        block = self._stacks[found.queries][layer]
        attention = block.cross if found.name == "cross" else block.attn
        assert attention is not None  # a map is made of the blocks that have it
        return found, attention

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


def _stacks_of(network: Network) -> dict[str, Stack]:
    """The stacks by side: `text`, or `source` and `target`; a stack that attends to another is a target."""
    network.name_nodes()
    found = [node for _, node in network.named_nodes() if isinstance(node, Stack)]
    if not found:
        raise UnsupportedError(
            f"{type(network).__name__} has no stack of attention blocks, so there is no attention to look at"
        )
    if len(found) == 1:
        return {"text": found[0]}
    crossing = [any(block.cross is not None for block in stack) for stack in found]
    if sorted(crossing) != [False, True]:
        raise UnsupportedError(
            f"{type(network).__name__} has {len(found)} stacks; one can be looked at, or an encoder and its decoder"
        )
    return {"source": found[crossing.index(False)], "target": found[crossing.index(True)]}


def _map(
    name: str, stack: Stack, layers: list[Attention] | list[CrossAttention], queries: str, keys: str
) -> AttentionMap:
    first = layers[0]
    own = isinstance(first, Attention)
    return AttentionMap(
        name=name,
        layers=len(layers),
        heads=max(attention.spec.heads for attention in layers),
        kv_heads=first.spec.K,
        head_width=first.spec.E,
        queries=queries,
        keys=keys,
        causal=first.pattern.causal,
        windows=tuple(attention.pattern.window for attention in layers),
        rotary=own and stack.rotary is not None,
        biased=own and stack.bias is not None,
    )


def _on_device(batch: Batch, network: Network) -> Batch:
    device = next(network.parameters()).device
    moved = {
        name: getattr(batch, name).to(device)
        for name in ("input_ids", "token_type_ids", "decoder_input_ids")
        if getattr(batch, name) is not None
    }
    return replace(batch, **moved)


def _chosen(what: str, name: str | None, there: dict[str, AttentionMap] | dict[str, Stack]) -> str:
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
