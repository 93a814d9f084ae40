"""Compute an attribution of a session: parts by direct logit attribution; words by gradients or replaced tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core.blocks import Block
from glassformer.core.experts import Experts
from glassformer.core.flow import Batch, Flow, Output, Tape
from glassformer.core.gradient_tape import GradientTape
from glassformer.core.linearised import ACTIVATIONS, biases, linearised
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.files.schema import refuse_unknown
from glassformer.inspect.attribution.attribution import (
    FIXED,
    FIXED_HEAD,
    INTEGRATED,
    LEAVE_ONE_OUT,
    MAX_GAP,
    MAX_STEPS,
    POST_NORM,
    ROUGH,
    SHAPLEY,
    Attribution,
    Part,
    PartKind,
    completeness_gap,
    token_shares,
)
from glassformer.inspect.attribution.replaced_tokens import (
    MAX_TOKENS,
    MAX_WORDS,
    each_left_out,
    left_out_values,
    places_that_differ,
    shapley_values,
    subsets_of,
    with_some,
    words_of,
)
from glassformer.inspect.attribution.target import Target, TargetRequest
from glassformer.inspect.outputs import output_table, reads_layers
from glassformer.models import eval_mode

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

STEPS, PIECE_STEPS = 16, 4
"""Gradients on the whole line from baseline to input, and on each piece of it after that."""
TOKENS_AT_ONCE = 1024
"""Rows of a batch of such gradients: as many as have this many tokens together."""
ZERO = "zero"
FEATURES = ("pixel_values", "input_features", "input_values")

Score = Callable[[Output], Tensor]
Progress = Callable[[int, int], None]
Piece = tuple[float, float]
"""Where a piece of the line begins and ends, from 0 (baseline) to 1 (input)."""


class AttributionOptions(TypedDict, total=False):
    """Options of `Session.attribute`.

    at: the token where the output is, by number, or a word; None = the last one, the gap, the most probable label
    against: explain the target rather than this output: the difference of their logits
    baseline: where integrated gradients begin: None = mask or padding for each word, "zero" = zero vectors
    steps: gradients from baseline to input; 0 = none: what is exact comes at once; None = 16, and where their sum
        misses more than 1%, what is more exact: Shapley values of a short text; of a longer one more gradients, or,
        where 16 miss more than a tenth, leaving out one word at a time
    progress: called with the number of gradients or texts done and of all
    """

    at: str | int | None
    against: str | int | None
    baseline: str | None
    steps: int | None
    progress: Progress


def attribute(session: Session, target: str | int | None, options: AttributionOptions) -> Attribution:
    """Which tokens and which parts of the network made an output; see `Session.attribute`."""
    refuse_unknown("attribute", options, AttributionOptions)
    steps, progress = options.get("steps"), options.get("progress", lambda done, of: None)
    if steps is not None and not 0 <= steps <= 10_000:
        raise ConfigError(f"steps is {safe_repr(steps)}; it must be from 0 to 10,000")
    request = TargetRequest(target, options.get("at"), options.get("against"))
    began = perf_counter()
    network, batch, names = session.network, session.batch, session.names()
    with eval_mode(network):
        with torch.no_grad():
            aim = request.resolve(network, _output(session), session.streams, names)

        def score(output: Output) -> Tensor:
            return aim.of(output_table(network, output, session.streams, names)[0])

        flow = Flow(last=aim.last)  # a head over a vocabulary computes the logits from there on alone
        parts, gradients = direct_parts(session, score, flow)
        inputs = {stream: taps[0] for stream, taps in network.stream_taps().items() if stream in session.streams}
        _, here = network.gradients(batch, flow, score, *inputs.values())
        products = {s: (here.taps[tap] * here.gradients[tap])[0].sum(-1).float() for s, tap in inputs.items()}
        path = _Path(session, score, flow, inputs, options.get("baseline"))
        shares, used = ({}, 0) if steps == 0 else path.integrate(aim.score, steps, progress)
        then, texts = path.next_method(completeness_gap(shares, aim.score - path.score_there))
        method = then if steps is None else INTEGRATED
        if method != INTEGRATED:
            shares = path.replaced(method, aim.score, progress)
    return Attribution(
        target=aim,
        tokens={stream: session.streams[stream] for stream in inputs},
        gradient_input=products,
        shares=shares,
        method=method,
        baseline=path.name,
        baseline_score=path.score_there,
        steps=used,
        texts=texts,
        parts=tuple(parts),
        by_token=_by_token(session, gradients),
        norms=session.norms(aim.stream),
        approximations=tuple(_approximations(session, aim)),
        seconds=perf_counter() - began,
    )


def _output(session: Session) -> Output:
    """The output of the pass: what the head reads in its last states, where they are all that it reads."""
    network, batch = session.network, session.batch
    if not reads_layers(network):
        output: Output = network(batch, Flow())
        return output
    stream = network.head_stream()
    return network.read_stream(session.states(len(session.stream_taps(stream)) - 1, stream)[None], batch, Flow())


# ------------------------------------------------------------------------------------------ direct logit attribution


def direct_parts(session: Session, score: Score, flow: Flow) -> tuple[list[Part], dict[tuple[str, int], Tensor]]:
    """What each part of the network wrote into the score along the residual stream.

    Returns: the parts, and the gradient with respect to z of the heads of each layer: map and layer → [H, T, E].
    """
    network = session.network
    stream = network.head_stream()
    stack = network.stacks()[stream]
    twin = linearised(network)
    written = list(written_by(stack))
    constants = biases(twin)
    cut = [f"{stack.path}.0.before", *(tap for tap, *_ in written)]
    heads = [tap.removesuffix("out") + "z" for tap, kind, *_ in written if kind in HEADS]
    _, tape = twin.gradients(session.batch, flow, score, *cut, *heads, cut=True, parameters=constants)
    parts = [Part("embedding", _product(tape, cut[0]))]
    gradients = {}
    names = {kind: map_of(session, stream, kind) for kind in HEADS}
    with torch.no_grad():
        for tap, kind, layer, module in written:
            if kind not in HEADS:
                parts.append(Part(kind, _product(tape, tap), layer))
                continue
            gradient, z = tape.gradients[tap][0], tape.taps[tap.removesuffix("out") + "z"][0]  # [T, D], [H, T, E]
            of_z = (gradient @ module.out.weight).unflatten(-1, (z.shape[0], -1)).transpose(0, 1)
            gradients[names[kind], layer] = of_z
            values = (of_z * z).double().sum((1, 2)).tolist()
            parts += [Part(kind, value, layer, head) for head, value in enumerate(values)]
            if module.out.bias is not None:
                parts.append(Part("attention bias", float((gradient.sum(0) * module.out.bias).double().sum()), layer))
        constant = sum(float((g * x).double().sum()) for g, x in zip(tape.of_parameters, constants, strict=True))
    return [*parts, Part("biases", constant)], gradients


HEADS: tuple[PartKind, ...] = ("head", "cross head")


def written_by(stack: Stack) -> Iterator[tuple[str, PartKind, int, Any]]:
    """What blocks add to the residual stream: tap, kind, layer, module."""
    for layer, block in enumerate(stack):
        place = f"{stack.path}.{layer}"
        yield f"{place}.attn.out", "head", layer, block.attn
        if isinstance(block, Block) and block.cross is not None:
            yield f"{place}.cross.out", "cross head", layer, block.cross
        yield f"{place}.ffn.out", "feed-forward", layer, block.ffn
        if (convolution := getattr(block, "convolution", None)) is not None:
            yield f"{place}.convolution.out", "convolution", layer, convolution


def _product(tape: GradientTape, tap: str) -> float:
    return float((tape.gradients[tap] * tape.taps[tap]).double().sum())


def map_of(session: Session, stream: str, kind: PartKind) -> str:
    """The attention map of a stream's own heads, or of its cross heads."""
    own = kind == "head"
    return next((name for name, m in session.maps.items() if m.queries == stream and (m.keys == stream) == own), "")


def _by_token(session: Session, gradients: dict[tuple[str, int], Tensor]) -> dict[str, Tensor]:
    """What each head added by the token that it read: map → [layers, heads, S]."""
    shares: dict[str, Tensor] = {}
    with torch.no_grad():
        for (name, layer), gradient in gradients.items():
            about = session.maps[name]
            table = shares.setdefault(name, torch.zeros(about.layers, about.heads, len(session.streams[about.keys])))
            rows = gradient.abs().amax((0, 2)).nonzero()[:, 0]  # a head is mostly read at one position
            for head in range(len(gradient)) if len(rows) else ():
                looked = session.head(layer, head, name)
                table[layer, head] = token_shares(looked.probs(rows), looked.v, gradient[head, rows])
    return shares


def _approximations(session: Session, target: Target) -> Iterator[str]:
    network = session.network
    stack = network.stacks()[target.stream]
    head = network.head
    gates = head is not None and any(isinstance(module, ACTIVATIONS) for module in head.modules())
    capped = getattr(head, "logit_cap", None) is not None
    yield FIXED + (f" {FIXED_HEAD}" if gates else "") + (", and the soft cap's factor" if capped else "")
    blocks = [block for block in stack if isinstance(block, Block)]
    if any(not isinstance(block.ffn_residual.on_residual, nn.Identity) for block in blocks):
        yield POST_NORM
    if any(isinstance(block.ffn, Experts) for block in blocks):
        yield "the experts that a token chose are counted together, as its feed-forward layer"
    if any(block.cross is not None for block in blocks):
        yield "the source acts through cross heads alone; what encoder layers did is theirs"


# ------------------------------------------------------------------------------------------------ integrated gradients


class _Path:
    """The straight line from a baseline to the input, in the vectors that enter the first block of each stream."""

    def __init__(
        self, session: Session, score: Score, flow: Flow, inputs: dict[str, str], baseline: str | None
    ) -> None:
        self.network, self.batch, self.score, self.inputs = session.network, session.batch, score, inputs
        self.flow = flow
        self.blank, self.name = _baseline_batch(session, baseline)
        here = {tap: session.states(0, stream)[None] for stream, tap in inputs.items()}
        there, self.score_there = self._vectors(self.blank)
        self.places = places_that_differ(self.batch, self.blank, tuple(inputs))
        self.words = words_of(self.places, session.streams)
        if baseline == ZERO:
            there = {tap: torch.zeros_like(x) for tap, x in here.items()}
            with torch.no_grad():
                tape = Tape(edit=there).attach(self.network)
                output = self.network(self.batch, replace(self.flow, tape=tape))
                self.score_there = float(score(output))
        self.there, self.step = there, {tap: here[tap] - there[tap] for tap in here}

    def _vectors(self, batch: Batch) -> tuple[dict[str, Tensor], float]:
        tape = Tape(*self.inputs.values()).attach(self.network)
        with torch.no_grad():
            value = self.score(self.network(batch, replace(self.flow, tape=tape)))
        return dict(tape.taps), float(value)

    def next_method(self, gap: float) -> tuple[str, int]:
        """What the words are computed by where a first few gradients miss a share of the change, and its texts."""
        only_tokens = self.places and all(getattr(self.batch, name) is None for name in FEATURES)
        if gap <= MAX_GAP or not only_tokens:
            return INTEGRATED, 0
        if len(self.places) <= MAX_TOKENS:
            return SHAPLEY, 2 ** len(self.places)
        return (LEAVE_ONE_OUT, len(self.words)) if gap > ROUGH and len(self.words) <= MAX_WORDS else (INTEGRATED, 0)

    def replaced(self, method: str, end: float, progress: Progress) -> dict[str, Tensor]:
        """Shares of each token by stream, from texts of which some tokens are replaced.

        Args:
            end: the score of the input
        """
        there = subsets_of(len(self.places)) if method == SHAPLEY else each_left_out(self.words, self.places)
        scores = list[float]()
        with torch.no_grad():
            for rows in there.split(self._rows):
                progress(len(scores), len(there))
                given = with_some(_repeated(self.batch, len(rows)), _repeated(self.blank, len(rows)), self.places, rows)
                scores += self.score(self.network(given, self.flow)).reshape(-1).tolist()
        progress(len(there), len(there))
        shares = {stream: torch.zeros(self.step[tap].shape[1]) for stream, tap in self.inputs.items()}
        table = torch.tensor(scores, dtype=torch.float64)
        values = shapley_values(table) if method == SHAPLEY else left_out_values(table, end, there)
        for (stream, at), value in zip(self.places, values.tolist(), strict=True):
            shares[stream][at] = value
        return shares

    def integrate(self, end: float, steps: int | None, progress: Progress) -> tuple[dict[str, Tensor], int]:
        """Integrated gradients of each token by stream, and how many gradients it took.

        The score is known at both ends of each piece of the line, and so is by how much the sum over its tokens misses
        the change. Pieces that miss most are halved, since the score may change within a hundredth of the line.

        Args:
            end: the score of the input
            steps: gradients on the whole line; None = as many as it takes, unless another method is next
        """
        scores, used = {0.0: self.score_there, 1.0: end}, steps or STEPS
        pieces = dict(self._integrals([(0.0, 1.0)], used, progress, (0, used)))
        first = completeness_gap(next(iter(pieces.values())), end - self.score_there)
        refined = steps is None and self.next_method(first)[0] == INTEGRATED
        while refined and used < MAX_STEPS:
            gaps = {
                (low, high): abs(float(sum(x.sum() for x in tokens.values())) - (scores[high] - scores[low]))
                for (low, high), tokens in pieces.items()
            }
            halved, excess = list[Piece](), sum(gaps.values()) - MAX_GAP * abs(end - self.score_there) / 2
            for piece in sorted(gaps, key=gaps.__getitem__, reverse=True):
                if excess > 0 and used + 2 * PIECE_STEPS * (len(halved) + 1) <= MAX_STEPS:
                    halved.append(piece)
                    excess -= gaps[piece]
            if not halved:
                break
            scores |= self._scores([(low + high) / 2 for low, high in halved])
            halves = [half for low, high in halved for half in ((low, (low + high) / 2), ((low + high) / 2, high))]
            for piece in halved:
                del pieces[piece]
            more = PIECE_STEPS * len(halves)
            pieces |= self._integrals(halves, PIECE_STEPS, progress, (used, used + more))
            used += more
        progress(used, used)
        return {s: torch.stack([tokens[s] for tokens in pieces.values()]).sum(0).float() for s in self.inputs}, used

    def _points(self, places: Sequence[float]) -> dict[str, Tensor]:
        """The vectors at some places of the line, from 0 to 1. [places, T, D] by tap"""
        share = torch.tensor(places, device=next(iter(self.step.values())).device)[:, None, None]
        return {tap: x + share.to(x.dtype) * self.step[tap] for tap, x in self.there.items()}

    def _scores(self, places: Sequence[float]) -> dict[float, float]:
        """The score at some places of the line."""
        scores = dict[float, float]()
        for start in range(0, len(places), self._rows):
            part = places[start : start + self._rows]
            tape = Tape(edit=dict(self._points(part))).attach(self.network)
            with torch.no_grad():
                values = self.score(self.network(_repeated(self.batch, len(part)), replace(self.flow, tape=tape)))
            scores |= zip(part, values.reshape(-1).tolist(), strict=True)
        return scores

    @property
    def _rows(self) -> int:
        return max(1, TOKENS_AT_ONCE // max(x.shape[1] for x in self.step.values()))

    def _integrals(
        self, pieces: Sequence[Piece], steps: int, progress: Progress, done: tuple[int, int]
    ) -> dict[Piece, dict[str, Tensor]]:
        """Gauss-Legendre quadrature of step · gradient over pieces of the line. piece → stream → [T]

        Args:
            steps: gradients of each piece
            done: gradients that were computed before, and all after this
        """
        nodes, weights = (x / 2 for x in np.polynomial.legendre.leggauss(steps))
        zero = {stream: torch.zeros(self.step[tap].shape[1]).double() for stream, tap in self.inputs.items()}
        sums = {piece: dict(zero) for piece in pieces}
        places = [
            (piece, piece[0] + (node + 0.5) * (piece[1] - piece[0]), weight * (piece[1] - piece[0]))
            for piece in pieces
            for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
        ]
        for start in range(0, len(places), self._rows):
            progress(done[0] + start, done[1])
            part = places[start : start + self._rows]
            points = self._points([place for _, place, _ in part])
            flow = replace(self.flow, tape=Tape(edit=dict(points)))
            _, tape = self.network.gradients(_repeated(self.batch, len(part)), flow, self.score, *points)
            for stream, tap in self.inputs.items():
                products = (self.step[tap] * tape.gradients[tap]).sum(-1).double().cpu()  # [places, T]
                for (piece, _, weight), product in zip(part, products, strict=True):
                    sums[piece][stream] = sums[piece][stream] + weight * product
        return sums


def _repeated(batch: Batch, rows: int) -> Batch:
    """The same input in each of several rows."""
    given = {f.name: x for f in fields(batch) if (x := getattr(batch, f.name)) is not None}
    return replace(batch, **{name: x.expand(rows, *x.shape[1:]) for name, x in given.items()})


def _baseline_batch(session: Session, baseline: str | None) -> tuple[Batch, str]:
    """The input with every token replaced that is not special, and how it is called.

    Raises: ConfigError: no such baseline. DataError: the model has no token for it.
    """
    if baseline == ZERO:
        return session.batch, "vectors of zeros"
    if baseline is not None:
        raise ConfigError(f"baseline is {safe_repr(baseline)}; allowed: zero, or nothing for a token that says nothing")
    batch, blank = session.batch, session.names().blank
    changes = {name: torch.zeros_like(x) for name in FEATURES if (x := getattr(batch, name)) is not None}
    called = ["a grey picture" if name == "pixel_values" else "silence" for name in changes]
    reading = "source" if "source" in session.streams else "text"
    for field, stream in (("input_ids", reading), ("decoder_input_ids", "target")):
        ids = getattr(batch, field)
        if ids is None or stream not in session.streams:
            continue
        if blank is None:
            raise DataError("this model has no token that says nothing (mask, padding, unknown); give baseline='zero'")
        untouched = torch.tensor([token.special for token in session.streams[stream]], device=ids.device)
        changes[field] = torch.where(untouched, ids, blank.id)
    if not changes.keys().isdisjoint(("input_ids", "decoder_input_ids")) and blank is not None:
        called.append(f"{blank.text} in the place of each word")
    return replace(batch, **changes), " and ".join(called)
