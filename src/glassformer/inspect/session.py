"""Inspection session: one forward pass whose attention and hidden states are computed on demand.

    texts ──one pass──> the residual stream at every block (L + 1 × [T, D], stored)
                              └─ layer ──norm, projection──> q, k, v (in an LRU cache)
                                       └─ head, rows, tile ──> scores, probs, z, out

A pass over T tokens has L × H × T × T attention probabilities: 9.7 GB for 4,096 tokens in a model of 12 × 12 heads. The
residual stream that they are computed from is 164 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Unpack

import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.stack import AttentionGroup, AttentionLayer
from glassformer.data.sequence import shorten
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.inspect.attribution.attribute import AttributionOptions, attribute
from glassformer.inspect.attribution.attribution import Attribution
from glassformer.inspect.difference import PassDifference, difference
from glassformer.inspect.head import AttentionHead, LRUCache, storage_bytes
from glassformer.inspect.inputs import SessionInput
from glassformer.inspect.lens import Lens, LensOptions, read_lens
from glassformer.inspect.numbers import level_names
from glassformer.inspect.opening import HeadFinding, opening_findings
from glassformer.inspect.outputs import OutputNames, check_numbers
from glassformer.inspect.overview import Overview, overview
from glassformer.inspect.patching.effects import PatchOptions, PatchResult, patch
from glassformer.inspect.patching.patches import Component
from glassformer.inspect.patching.sweep import PatchSweep, sweep
from glassformer.inspect.tokens import Token
from glassformer.inspect.trace import Trace, trace
from glassformer.models import Network, eval_mode
from glassformer.reports.report import Display
from glassformer.reports.table import Table

LIMIT_BYTES = 2**30
"""Default RAM limit of a session, without the weights."""

Progress = Callable[[int, int], None]
"""Called after each block with the number of blocks done and of all blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionMap:
    """The attention maps of one kind, layers × heads: self-attention of a stack, or cross-attention.

    name: `self`; with two stacks `encoder`, `decoder` and `cross`
    heads: the largest number in a layer; most families have the same number in all
    queries, keys: names of streams, as in `Session.streams`
    windows: attention window of each layer, in tokens; None = unlimited
    rotary_bases: base θ of each layer's rotary positions; None = it has none
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
    rotary_bases: tuple[float | None, ...]
    biased: bool

    @property
    def rotary(self) -> bool:
        """Whether a layer rotates its queries and keys."""
        return any(base is not None for base in self.rotary_bases)


def attention_map(name: str, group: AttentionGroup, keys: int) -> AttentionMap:
    """Describe a group of attention layers.

    Args:
        keys: number of key tokens
    """
    layers = [layer.attention for layer in group.layers]
    first, stack = layers[0], group.layers[0].stack
    return AttentionMap(
        name=name,
        layers=len(layers),
        heads=max(attention.spec.heads for attention in layers),
        kv_heads=first.spec.K,
        head_width=first.spec.E,
        queries=group.queries,
        keys=group.keys,
        causal=first.pattern.causal,
        windows=tuple(attention.pattern.window for attention in layers),
        rotary_bases=tuple(a.spec.rotary.theta if a.spec.rotary else None for a in layers),
        biased=(stack is not None and stack.bias is not None) or first.pattern.bias(torch.arange(1), keys) is not None,
    )


class Session(Display):
    """Inspect one forward pass: attention heads, hidden states, and statistics of activations.

        session = model.inspect("time flies like an arrow", "fruit flies like a banana")
        session.maps                            the attention maps: {"self": 6 layers × 12 heads}
        session.head(4, 11).probs(3)            attention of one query in one head [1, S]
        session.overview(4).summaries           the main pattern of each head of a layer, in words
        session.findings                        what tells most in this text: links between words, a head's pattern
        session.states(4)                       the residual stream that enters block 4 [T, D]
        session.trace()                         shape, mean, standard deviation, … of every tap
        session.patch("blocks.3.attn.z[5]")     the prediction without a head

    The numbers are the model's own: q, k and v come from its modules, scores and probabilities from the functions of
    its explicit path. Thread-safe.

    Args:
        network: one stack of attention blocks, an encoder and a decoder, or two towers.
        inputs: what it reads: one row, without padding.
        progress: called after each block.
        limit_bytes: RAM limit: for the residual stream, which is always stored, and for the cache of the rest.
        names: names of what the model predicts, where the inputs bring none.
    Raises: DataError: the text is longer than the model can read, or its residual stream larger than the limit.
        UnsupportedError: the network has no attention.
    """

    def __init__(
        self,
        network: Network,
        inputs: SessionInput,
        *,
        progress: Progress | None = None,
        limit_bytes: int = LIMIT_BYTES,
        names: Callable[[], OutputNames] | None = None,
    ) -> None:
        self.network = network
        self.names = names or inputs.names
        self.texts = inputs.texts
        self.streams: dict[str, list[Token]] = inputs.streams
        network.name_nodes()
        self._stream_taps, self._attention = network.stream_taps(), network.attention_layout()
        if not self._attention:
            raise UnsupportedError(
                f"{type(network).__name__} has no stack of attention blocks, so there is no attention to inspect"
            )
        missing = self._stream_taps.keys() - self.streams.keys()
        if missing:
            raise UnsupportedError(
                f"the input has {' and '.join(self.streams)} tokens and no {' and '.join(sorted(missing))}; "
                + (
                    "an encoder-decoder is inspected as a translator: load it with task='translation'"
                    if "target" in missing
                    else f"this model reads {', '.join(network.READS)}: give them all, inspect(text, visual_feats=…)"
                )
            )
        sizes = {name: len(self.streams[group.keys]) for name, group in self._attention.items()}
        self.maps = {name: attention_map(name, group, sizes[name]) for name, group in self._attention.items()}
        room = limit_bytes - self._check_room(limit_bytes)
        self.cache = LRUCache(room // 2)  # the other half is for temporary tensors
        self.batch = _on_device(inputs.batch, network)
        blocks = sum(len(taps) - 1 for taps in self._stream_taps.values())
        tape = _ProgressTape(tuple(self._taps()), blocks, progress).attach(network)
        start = perf_counter()
        with torch.no_grad(), eval_mode(network):
            network.states(self.batch, Flow(tape=tape))
        self.seconds = perf_counter() - start
        self._states = tape.taps

    @property
    def caption(self) -> str:
        """What was run, above the tables in a notebook."""
        return f"Session of {' and '.join(repr(shorten(text, 80)) for text in self.texts)}, {self.nbytes / 1e6:.1f} MB"

    def tables(self) -> list[Table]:
        """The streams with their first tokens, and the attention maps."""
        streams = [
            [name, f"{len(tokens):,}", shorten(" ".join(token.text for token in tokens[:32]), 80)]
            for name, tokens in self.streams.items()
        ]
        maps = [[m.name, str(m.layers), str(m.heads), m.queries, m.keys] for m in self.maps.values()]
        return [
            Table(["stream", "tokens", "first tokens"], streams),
            Table(["attention", "layers", "heads", "queries", "keys"], maps),
        ]

    @cached_property
    def findings(self) -> list[HeadFinding]:
        """What heads do in this text, in sentences: links between two words, the strongest first, then the head with
        the clearest pattern. Empty where nothing stands out. Computed once.
        """
        return opening_findings(self)

    def head(self, layer: int, head: int, map: str | None = None) -> AttentionHead:
        """One head of one layer; `map` may be omitted where there is only one.

        Raises: DataError: there is no such map, layer or head. WeightsError: its layer has NaN or infinity.
        """
        name, where = self._name(map), self.attention_layer(layer, map)
        attention, about = where.attention, self.maps[name]
        H, K, E = attention.spec.heads, attention.spec.K, attention.spec.E
        _check_number("head", head, H)
        q, k, v = self.projections(layer, name)
        bias = None if where.stack is None else where.stack.bias
        kv_head = head // (H // K)  # grouped-query attention: H / K heads share keys and values
        return AttentionHead(
            map=name,
            layer=layer,
            head=head,
            kv_head=kv_head,
            q=q[head],
            k=k[kv_head],
            v=v[kv_head],
            projection=attention.out.weight[:, head * E : (head + 1) * E],
            scale=attention.scale,
            pattern=attention.pattern,
            position_bias=None if bias is None else partial(bias.head_rows, attention, head),
            cache=self.cache,
            score_cap=attention.spec.score_cap,
            bias_by_distance=bias is None or bias.BY_DISTANCE,
            tokens=(self._tokens(about.queries), self._tokens(about.keys)),
        )

    def projections(self, layer: int, map: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value projections of a layer: q [H, T, E], k and v [K, S, E].

        Raises: DataError: there is no such map or layer. WeightsError: they hold NaN or infinity.
        """
        name, where = self._name(map), self.attention_layer(layer, map)
        q, k, v = self.cache.get(("qkv", name, layer), lambda: self._project(where))
        return q, k, v

    def attention_layer(self, layer: int, map: str | None = None) -> AttentionLayer:
        """The attention module of a layer, and the taps that it reads.

        Raises: DataError: there is no such map or layer.
        """
        name = self._name(map)
        _check_number("layer", layer, self.maps[name].layers)
        return self._attention[name].layers[layer]

    def states(self, layer: int, stream: str | None = None) -> Tensor:
        """Hidden states: the residual stream that enters block `layer`; at the number of layers, the output. [T, D]

        Raises: DataError: there is no such stream or layer. WeightsError: they hold NaN or infinity.
        """
        taps = self.stream_taps(stream)
        _check_number("layer", layer, len(taps))
        states = self._states[taps[layer]][0]
        check_numbers((states,), f"the vectors of the level {level_names(len(taps))[layer]!r}", self.network)
        return states

    def norms(self, stream: str | None = None) -> Tensor:
        """Length (L2 norm) of each token's vector in the residual stream, at every layer. [L + 1, T]

        Raises: DataError: there is no such stream. WeightsError: a vector holds NaN or infinity.
        """
        levels = range(len(self.stream_taps(stream)))
        return torch.stack([self.states(level, stream).float().norm(dim=-1) for level in levels])

    def lens(self, **options: Unpack[LensOptions]) -> Lens:
        """Logit lens: the model's head read at every layer; the last row is the model's own output.

            lens = session.lens()
            lens.top(3, 5)                          what layer 2 would say at token 5, with probabilities
            lens.ranks, lens.kl, lens.entropy       of every cell [L + 1, T]

        Args:
            options: `LensOptions`
        Raises: UnsupportedError: no head that gives logits of one stream. DataError: no such target. WeightsError: NaN.
        """
        return read_lens(self, options)

    def attribute(self, target: str | int | None = None, **options: Unpack[AttributionOptions]) -> Attribution:
        """Attribution: which tokens, heads and feed-forward layers made an output.

        Args:
            target: an output, by name or number; of a span "start" or "end"; None = the model's own
            options: `AttributionOptions`
        Raises: DataError: no such output, word or token. UnsupportedError, WeightsError: as `lens`.
        """
        return attribute(self, target, options)

    def overview(self, layer: int, map: str | None = None, *, exact: bool = False) -> Overview:
        """Thumbnails, statistics and a summary of all heads of a layer.

        Args:
            exact: use every row; else a sample of the rows of a long text, as `Overview.rows_used` says.
        """
        name, where = self._name(map), self.attention_layer(layer, map)
        about = self.maps[name]
        heads = [self.head(layer, head, name) for head in range(where.attention.spec.heads)]
        queries = None if about.queries == about.keys else self.streams[about.queries]
        return overview(heads, self.streams[about.keys], queries, exact=exact)

    def difference(
        self,
        other: Session,
        map: str | None = None,
        *,
        names: tuple[str, str] = ("this pass", "the other"),
        progress: Progress = lambda done, of: None,
    ) -> PassDifference:
        """Compare with another pass: of another checkpoint or precision on the same text, or over another text.

            found = model.inspect(text).difference(int8.inspect(text), names=("float32", "int8"))
            print(found)                            where they part, and the heads that differ most
            found.first(0.1)                        the level and token where vectors differ by more than 10%

        Args:
            other: of a model with as many layers and heads, as wide
            map: attention map, and with it the stream of its queries; None = the only one
            names: of the two, in sentences
            progress: called with the number of layers done and of all
        Raises: DataError: no such map, models of other shapes, or texts without a token in common.
        """
        return difference(self, other, self._name(map), names=names, progress=progress)

    def trace(self, *patterns: str) -> Trace:
        """Run the forward pass again, and compute statistics of the tensor at each tap.

        Args:
            patterns: as for a `Tape`; none = all taps but scores and probs.
        Raises: ConfigError: a pattern matches no tap.
        """
        return trace(self.network, self.batch, *patterns)

    def patch(self, *components: str | Component, **options: Unpack[PatchOptions]) -> PatchResult:
        """Replace components of the pass, all together, and run it again: activation patching and ablation.

            session.patch("blocks.3.attn.z[5]")                              a head switched off (zero ablation)
            session.patch("blocks.3.ffn.out", mode="mean")                   a layer's mean over positions in its place
            corrupt.patch("blocks.3.before@4", source=clean)                 a position of the stream, of another text

        Args:
            components: as in `Component`
            options: `PatchOptions`
        Returns: the prediction before and after: logits, probabilities, text.
        Raises: ConfigError: no such tap. DataError: no such head, neuron, position or target; texts of other lengths.
            UnsupportedError: the model has no head. WeightsError: the logits are NaN.
        """
        return patch(self, components, options)

    def sweep(self, kind: str = "heads", map: str | None = None, **options: Unpack[PatchOptions]) -> PatchSweep:
        """Patch each head, or each layer and position, one after another: a map of effects.

        Args:
            kind: "residual", "heads", "attention" or "feed-forward"
            map: of its stream, or its heads; None = the decoder's, or the only one
            options: `PatchOptions`
        Raises: as `patch`.
        """
        return sweep(self, kind, map, options)

    def stream_taps(self, stream: str | None = None) -> tuple[str, ...]:
        """The taps of a residual stream: before each block, and after the last."""
        return self._stream_taps[_check_name("stream", stream, self._stream_taps)]

    @property
    def nbytes(self) -> int:
        """RAM of the session in bytes, without the weights."""
        return storage_bytes(self._states.values()) + self.cache.nbytes

    def _check_room(self, limit_bytes: int) -> int:
        """The size of the stored states in bytes.

        Raises: DataError: it is more than half of the limit.
        """
        item = next(self.network.parameters()).element_size()
        bytes_per_token = dict.fromkeys(self.streams, 0)
        for stream, width in self._taps().values():
            bytes_per_token[stream] += width * item
        needed = sum(len(self.streams[stream]) * cost for stream, cost in bytes_per_token.items())
        if needed > limit_bytes // 2:
            maximum = limit_bytes // 2 // max(bytes_per_token.values())
            tokens = sum(map(len, self.streams.values()))
            raise DataError(
                f"the text has {tokens:,} tokens, whose states take {needed / 1e6:,.0f} MB; a session of "
                f"{limit_bytes / 1e6:,.0f} MB holds about {maximum:,} tokens: shorten the text, or in "
                "Python raise limit_bytes"
            )
        return needed

    def _taps(self) -> dict[str, tuple[str, int]]:
        """The stored taps: residual streams, and other inputs of attention; tap → stream and width."""
        groups = self._attention.values()
        widths = {group.queries: group.layers[0].attention.spec.width for group in groups}
        taps = {tap: (stream, widths[stream]) for stream, names in self._stream_taps.items() for tap in names}
        for group in groups:
            for layer in group.layers:
                taps[layer.query_tap] = (group.queries, widths[group.queries])
                if layer.memory_tap is not None:
                    taps[layer.memory_tap] = (group.keys, widths[group.keys])
        return taps

    def _project(self, layer: AttentionLayer) -> tuple[Tensor, Tensor, Tensor]:
        memory = None if layer.memory_tap is None else self._states[layer.memory_tap]
        with torch.no_grad():
            q, k, v = layer.project(self._states[layer.query_tap], memory)
        check_numbers((q, k, v), "the queries, keys and values of this layer", self.network)
        return q[0], k[0], v[0]

    def _tokens(self, stream: str) -> list[str]:
        return [token.text for token in self.streams[stream]]

    def _name(self, map: str | None) -> str:
        return _check_name("map", map, self.maps)

    def __repr__(self) -> str:
        tokens = " and ".join(f"{len(tokens)} {stream} tokens" for stream, tokens in self.streams.items())
        maps = ", ".join(f"{m.name} {m.layers} × {m.heads} heads" for m in self.maps.values())
        return f"Session({tokens}: {maps}, {self.nbytes / 1e6:.1f} MB)"


class _ProgressTape(Tape):
    """A tape that reports the progress of the pass."""

    def __init__(self, names: tuple[str, ...], blocks: int, progress: Progress | None) -> None:
        super().__init__(*names)
        self._blocks = blocks
        self._done = 0
        self._progress = progress

    def record(self, name: str, x: Tensor) -> Tensor:
        if self._progress is not None and name.endswith(".out") and name.split(".")[-2].isdigit():
            self._done += 1
            self._progress(self._done, self._blocks)
        return super().record(name, x)


def _on_device(batch: Batch, network: Network) -> Batch:
    device = next(network.parameters()).device
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{name: x.to(device) for name, x in tensors.items() if x is not None})


def _check_name(what: str, name: str | None, names: Collection[str]) -> str:
    """The name if there is one like it; the only one if None."""
    if name is None and len(names) == 1:
        return next(iter(names))
    if name is None or name not in names:
        raise DataError(
            f"there is no {what} {name!r}; this pass has {', '.join(map(repr, names))}"
            f"{nearest(name, names) if name else ''}"
        )
    return name


def _check_number(what: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise DataError(f"there is no {what} {number!r}; there are {what}s 0 to {count - 1}")
