"""A token's route through the layers: what its vector is made of after each block, by part and by token.

    before ──┬─────────────────────────────┬──> after         after = Σ of what each part has put into it
             ├─ head 0, …, head H - 1 ─────┤
             └─ feed-forward ──────────────┘                  share = ⟨part, after⟩ / ‖after‖², and Σ shares = 1

    route(session, token=2)             shares of each layer: what was there before, heads, feed-forward, biases
    route(session, token=2).tokens      what its heads brought, by the token that they read

A part that points along the vector has a positive share, one that points against it a negative one. Norms on the stream
itself (post-norm) are part of the way: their scale is fixed at its value in this pass, so that the parts add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.flow import Flow
from glassformer.core.gradient_tape import GradientTape
from glassformer.core.linearised import norm_biases, with_fixed_scales
from glassformer.errors import DataError, UnsupportedError
from glassformer.inspect.attribution.attribute import HEADS, map_of, written_by
from glassformer.inspect.attribution.attribution import PartKind, token_shares
from glassformer.inspect.tokens import readable
from glassformer.models import eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table

if TYPE_CHECKING:
    from glassformer.inspect.session import Progress, Session

BEFORE, BIASES = "before", "biases"
LITTLE = 0.005
"""A share that is written as 0%."""
ROUTE_KEYS = ("stream", "token", "names", "parts", "map", "finding", "gap", "shares", "tokens", "lengths", "turned")


@dataclass(frozen=True, repr=False)
class TokenRoute(Report, kind="token-route", keys=ROUTE_KEYS):
    """What the vector of a token is made of after each layer.

    stream: the residual stream
    token: its number there
    names: of the tokens of the stream
    parts: "before", each head, "feed-forward", …, "biases": the columns of `shares`
    map: attention map of the heads that read the same stream
    shares: of the vector after each layer; a row sums to 1, and 0 is also for what a layer does not have. [L, parts]
    tokens: what those heads brought, by the token that they read. [L, T]
    lengths: of the vector before the first layer, and after each. [L + 1]
    turned: cosine of the vector after each layer with that before it. [L]
    """

    stream: str
    token: int
    names: list[str]
    parts: list[str]
    map: str
    shares: Tensor
    tokens: Tensor
    lengths: Tensor
    turned: Tensor

    @property
    def gap(self) -> float:
        """How far the shares of a layer are from adding up to 1, at most: rounding."""
        return float((self.shares.double().sum(1) - 1).abs().max())

    @property
    def finding(self) -> str:
        """Which layer changed the vector most, and what it was that did."""
        layer = int(self.shares[:, 0].argmin())
        before, added = float(self.shares[layer, 0]), self.shares[layer, 1:]
        part = int(added.argmax())
        there = "none" if before <= -LITTLE else "less than 1%" if before < LITTLE else _percent(before)
        whose = f"The vector of “{readable(self.names[self.token])}”"
        words = f"{whose} changes most in layer {layer}. Of the sum of what entered and what it adds, {there} entered"
        if added[part] >= LITTLE:
            words += f", {_share(added[part])} is from {_in_words(self.parts[part + 1])}"
        read = self.tokens[layer].clone()
        if len(read) > 1:
            read[self.token] = -torch.inf
            other, brought = int(read.argmax()), bool(self.tokens[layer].any())
            words += (
                f"; of the other tokens “{readable(self.names[other])}” gave most, {_share(read[other])}"
                if read[other] >= LITTLE
                else "; what its heads read in other tokens gave less than 1%"
                if brought
                else "; its heads gave it nothing"
            )
        return f"{words}."

    def tables(self) -> list[Table]:
        def largest(row: Tensor, names: list[str]) -> str:
            return ", ".join(
                f"{names[at]} {_percent(row[at])}" for at in row.abs().topk(min(3, len(row))).indices.tolist()
            )

        rows = [
            [
                str(layer),
                f"{self.lengths[layer + 1]:.3g}",
                f"{self.turned[layer]:.2f}",
                _percent(self.shares[layer, 0]),
                largest(self.shares[layer, 1:], self.parts[1:]),
                largest(self.tokens[layer], self.names),
            ]
            for layer in range(len(self.shares))
        ]
        return [Table(["layer", "length", "cosine with before", "before", "largest parts", "by token"], rows)]

    notes = (
        "Shares of the squared length of the vector after the layer; all parts add up to 100%. A negative one points "
        "against it.",
    )


def route(
    session: Session,
    *,
    token: int | None = None,
    stream: str | None = None,
    progress: Progress = lambda done, of: None,
) -> TokenRoute:
    """What the vector of a token is made of after each layer.

    Args:
        token: its number, from 0; None: the last that is not special
        stream: of the token; None: the one that the model's head reads
        progress: called after each layer
    Raises: DataError: no such stream or token. UnsupportedError: the blocks of the stream are not one stack.
    """
    stream = session.network.head_stream() if stream is None else stream
    states = [session.states(layer, stream) for layer in range(len(session.stream_taps(stream)))]
    tokens = session.streams[stream]
    if token is None:
        token = next((at for at in reversed(range(len(tokens))) if not tokens[at].special), len(tokens) - 1)
    if not 0 <= token < len(tokens):
        raise DataError(f"there is no token {token} of {stream!r}; there are 0 to {len(tokens) - 1}")
    if len(states) != len(session.network.stacks()[stream]) + 1:
        kind = type(session.network).__name__
        raise UnsupportedError(f"the blocks of the {stream} stream of {kind} are not one stack, so there is no route")
    vectors = torch.stack([x[token].double() for x in states])  # [L + 1, D]
    along = vectors[1:] / vectors[1:].square().sum(-1, keepdim=True)
    parts, shares, by_token = contributions(session, stream, token, along, progress)
    cosines = torch.nn.functional.cosine_similarity(vectors[1:], vectors[:-1], dim=-1)
    return TokenRoute(
        stream=stream,
        token=token,
        names=[each.text for each in tokens],
        parts=parts,
        map=map_of(session, stream, "head"),
        shares=shares.float(),
        tokens=by_token.float(),
        lengths=vectors.norm(dim=-1).float(),
        turned=cosines.float(),
    )


def contributions(
    session: Session, stream: str, token: int, along: Tensor, progress: Progress = lambda done, of: None
) -> tuple[list[str], Tensor, Tensor]:
    """What each part has put into the vector of a token after each layer, as dot products with a direction.

    Args:
        along: a direction for each layer. [L, D]
        progress: called after each layer
    Returns: names of the parts; their dot products, which add up to that of the vector [L, parts]; those of the heads
        that read the stream itself, by the token that they read [L, T].
    """
    network = session.network
    twin = with_fixed_scales(network)
    taps = session.stream_taps(stream)
    written = list(written_by(network.stacks()[stream]))
    heads = [tap.removesuffix("out") + "z" for tap, kind, *_ in written if kind in HEADS]
    rows: list[dict[str, float]] = []
    by_token = torch.zeros(len(along), len(session.streams[stream]), dtype=torch.float64)

    def end(layer: int, after: Tensor) -> Tensor:
        """Take a layer's gradients as the stream leaves it, and forget the layer: one at a time is in memory."""
        own = [(tap, kind, module) for tap, kind, at, module in written if at == layer and tap in tape.taps]
        constants = norm_biases(twin.stacks()[stream][layer])
        read = [tape.taps[tap] for tap in (taps[layer], *(tap for tap, *_ in own))]
        score = (after[0, token].double() * along[layer].to(after.device)).sum()
        gradients = torch.autograd.grad(score, [*read, *constants], retain_graph=True, allow_unused=True)
        there, *of_parts = (_product(g, x, token) for g, x in zip(gradients, read, strict=False))
        row = {BEFORE: there}
        for (tap, kind, module), whole, gradient in zip(own, of_parts, gradients[1:], strict=False):
            if kind not in HEADS or gradient is None:
                row[kind] = whole
                continue
            z = tape.taps[tap.removesuffix("out") + "z"][0].detach()  # [H, T, E]
            of_z = (gradient[0, token] @ module.out.weight).unflatten(-1, (len(z), -1)).detach()  # [H, E]
            row |= {f"{kind} {head}": x for head, x in enumerate((of_z * z[:, token]).double().sum(-1).tolist())}
            if module.out.bias is not None:
                row[_bias_of(kind)] = float((gradient[0, token] * module.out.bias.detach()).double().sum())
            if kind == "head":
                with torch.no_grad():
                    by_token[layer] = _by_token(session, stream, layer, token, of_z)
        of_biases = gradients[len(read) :]
        row[BIASES] = sum(
            float((g * x.detach()).double().sum()) for g, x in zip(of_biases, constants, strict=True) if g is not None
        )
        rows.append(row)
        progress(layer + 1, len(along))
        tape.taps.clear()
        return after

    ends = {tap: partial(end, layer) for layer, tap in enumerate(taps[1:])}
    # The other stream has no gradient of its own: cut after each block, it is not held until the end.
    others = [tap for name in network.stacks() if name != stream for tap in session.stream_taps(name)]
    tape = GradientTape(*taps, *others, *(tap for tap, *_ in written), *heads, edit=ends, cut=True)
    tape.attach(twin)
    with torch.inference_mode(False), torch.enable_grad(), eval_mode(twin):
        twin.states(session.batch, Flow(tape=tape))
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != BIASES]
    parts = [*sorted(names, key=_place), BIASES]
    return parts, torch.tensor([[row.get(name, 0.0) for name in parts] for row in rows], dtype=torch.float64), by_token


def _product(gradient: Tensor | None, x: Tensor, token: int) -> float:
    """Dot product at a token; 0 where the score does not depend on the part."""
    return 0.0 if gradient is None else float((gradient[0, token] * x[0, token].detach()).double().sum())


def _by_token(session: Session, stream: str, layer: int, token: int, of_z: Tensor) -> Tensor:
    """What the heads of a layer brought, by the token that they read. [H, E] → [T]"""
    name = map_of(session, stream, "head")
    heads = [session.head(layer, head, name) for head in range(len(of_z))]
    shares = [token_shares(head.probs(token), head.v, of_z[at, None]).double() for at, head in enumerate(heads)]
    return torch.stack(shares).sum(0).cpu()


ORDER: tuple[str, ...] = (BEFORE, "head", "cross head", "attention bias", "cross bias", "convolution", "feed-forward")


def _place(name: str) -> tuple[int, int]:
    """Where a part is among the columns: by kind, then by number."""
    kind, _, number = name.rpartition(" ")
    numbered = number.isdigit()
    return ORDER.index(kind if numbered else name), int(number) if numbered else 0


def _bias_of(kind: PartKind) -> str:
    return "attention bias" if kind == "head" else "cross bias"


def _in_words(part: str) -> str:
    if part == "feed-forward":
        return "the feed-forward layer"
    return part if part.rpartition(" ")[2].isdigit() else f"the {part}"


def _share(share: Tensor) -> str:
    """A share in a sentence: what others point against may be more than the whole."""
    return "all" if share >= 1 - LITTLE else _percent(share)


def _percent(share: Tensor | float) -> str:
    return f"{float(share):.0%}".replace("-0%", "0%").replace("-", "−")
