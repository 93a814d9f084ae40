"""The shapes and figures of one pass: every tensor with a name is measured as it goes by, and none is kept.

embed.out            B T D      1 × 13 × 384         mean, deviation, smallest, largest
blocks.0.attn.q      B H T E    1 × 12 × 13 × 32     …
blocks.0.attn.out    B T D      1 × 13 × 384         …
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from glassformer.core.cells import CellSelection
from glassformer.core.flow import Batch, Flow, Node, Tape
from glassformer.core.frames import Transcriber
from glassformer.core.heads import LanguageModel, MaskedLanguageModel
from glassformer.engine.modes import evaluating
from glassformer.models import Network

SLOW = ("scores", "probs")
"""Taps that a layer computes only where someone listens; T × S numbers a head."""

LETTERS = {
    "B": "batch",
    "T": "tokens",
    "S": "tokens looked at",
    "D": "model width",
    "H": "heads",
    "K": "key/value heads",
    "E": "head width",
    "F": "feed-forward width",
    "V": "vocabulary",
    "X": "experts",
    "N": "experts chosen",
    "R": "tokens sent to an expert",
    "C": "classes",
    "O": "operators",
    "A": "answers",
    "W": "width of a feature",
    "J": "width that texts and pictures share",
}

AXES = {
    "q": "BHTE",
    "k": "BKTE",
    "v": "BKTE",
    "cross.k": "BKSE",
    "cross.v": "BKSE",
    "scores": "BHTS",
    "probs": "BHTS",
    "z": "BHTE",
    "neurons": "BTF",
    "router.probs": "BTX",
    "router.chosen": "BTN",
    "memory": "BSD",
    "features.out": "BTW",
    "prediction_logits": "BTV",
    "seq_relationship_logits": "BC",
    "logits_aggregation": "BO",
    "start_logits": "BT",
    "end_logits": "BT",
    "pooler_output": "BD",
    "pooled_output": "BD",
    "cross_relationship_score": "BC",
    "question_answering_score": "BA",
    "text_embeds": "BJ",
    "image_embeds": "BJ",
    "logits_per_text": "BB",
    "logits_per_image": "BB",
}
"""The axes of a tap by the end of its name; all others are the stream or what is added to it, B T D."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TapRow:
    """One tensor of a pass, measured.

    axes: a letter for each of `shape`, as in `LETTERS`
    mean, deviation, smallest, largest: of the finite numbers; None where there are none
    zeros, nans, infinities: shares of all numbers
    """

    name: str
    axes: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    mean: float | None
    deviation: float | None
    smallest: float | None
    largest: float | None
    zeros: float
    nans: float
    infinities: float


@dataclass(frozen=True, slots=True)
class Layer:
    """What belongs together in a trace: a layer, neighbouring layers of one form, or what stands between stacks.

    stack: `blocks`; empty outside the layers
    first, repeats: the number of the first layer, and how many it stands for
    rows: those of the first, by their names within it: `attn.q`
    """

    stack: str
    first: int
    repeats: int
    rows: dict[str, TapRow]

    @property
    def path(self) -> str:
        """`blocks.0`; of several, `blocks.0-5`."""
        last = f"-{self.first + self.repeats - 1}" if self.repeats > 1 else ""
        return self.stack and f"{self.stack}.{self.first}{last}"


def trace(network: Network, batch: Batch, *patterns: str) -> list[TapRow]:
    """Run a batch through a network and measure the tensors that patterns name, in the order in which they are made.

    Args:
        patterns: as for a `Tape`; none = all taps but scores and probs. A layer whose scores or probs are asked for
            takes the explicit path, the others stay on the fused kernel.
    Raises: ConfigError: a pattern matches no tap.
    """
    tape = _Meter(network, patterns).attach(network)
    with torch.inference_mode(), evaluating(network):
        network(batch, Flow(tape=tape))
    return tape.rows


class _Meter(Tape):
    """A tape that measures what it hears and keeps none of it."""

    def __init__(self, network: Network, patterns: tuple[str, ...]) -> None:
        super().__init__(*patterns)
        self.rows: list[TapRow] = []
        self._points = isinstance(network.head, CellSelection)
        self._classes = not isinstance(network.head, (LanguageModel, MaskedLanguageModel, Transcriber))

    def attach(self, network: Node) -> _Meter:
        super().attach(network)
        if not self.patterns:
            self._listened = frozenset(name for name in network.taps() if name.split(".")[-1] not in SLOW)
        return self

    def pass_on(self, name: str, x: Tensor) -> Tensor:
        if name in self:
            self.rows.append(_measured(name, self._axes(name, x), x))
        return x

    def _axes(self, name: str, x: Tensor) -> str:
        if name == "logits" and self._points:
            return "BT"
        if name == "logits":  # a text's classes, a token's, or the vocabulary
            return ("BC" if x.dim() == 2 else "BTC") if self._classes else "BTV"
        parts = name.split(".")
        axes = AXES.get(".".join(parts[-2:])) or AXES.get(parts[-1], "BTD")
        return axes.replace("T", "R") if "experts" in parts else axes


def _measured(name: str, axes: str, x: Tensor) -> TapRow:
    finite = x.isfinite()
    numbers = (x if bool(finite.all()) else x[finite]).to(torch.promote_types(x.dtype, torch.float32))
    figures: tuple[float | None, ...] = (None,) * 4
    if numbers.numel():
        variance, mean = torch.var_mean(numbers, correction=0)
        figures = tuple(float(figure) for figure in (mean, variance.sqrt(), *numbers.aminmax()))
    mean_, deviation, smallest, largest = figures
    return TapRow(
        name=name,
        axes=axes,
        shape=tuple(x.shape),
        dtype=str(x.dtype).removeprefix("torch."),
        bytes=x.numel() * x.element_size(),
        mean=mean_,
        deviation=deviation,
        smallest=smallest,
        largest=largest,
        zeros=_share(x == 0),
        nans=_share(x.isnan()),
        infinities=_share(x.isinf()),
    )


def _share(which: Tensor) -> float:
    return int(which.count_nonzero()) / max(1, which.numel())


def folded(rows: Iterable[TapRow], *, each: bool = False) -> list[Layer]:
    """The rows by layer; neighbouring layers with the same names, axes, shapes and dtypes become one.

    Args:
        each: keep every layer by itself.
    """
    layers: list[Layer] = []
    for (stack, number), group in groupby(rows, key=lambda row: _place(row.name)[:2]):
        own = {_place(row.name)[2]: row for row in group}
        before = layers[-1] if layers else None
        if each or before is None or not _follows(before, stack, number, own):
            layers.append(Layer(stack, number, 1, own))
        else:
            layers[-1] = replace(before, repeats=before.repeats + 1)
    return layers


def _place(name: str) -> tuple[str, int, str]:
    """`encoder.blocks.3.attn.q` → `encoder.blocks`, 3, `attn.q`; what is in no layer has no stack."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return ("", 0, name) if at is None else (".".join(parts[:at]), int(parts[at]), ".".join(parts[at + 1 :]))


def _follows(before: Layer, stack: str, number: int, rows: dict[str, TapRow]) -> bool:
    """Is this the next layer of the same stack, of the same form?"""
    neighbour = stack and (before.stack, before.first + before.repeats) == (stack, number)
    return bool(neighbour) and _form(before.rows) == _form(rows)


def _form(rows: dict[str, TapRow]) -> list[tuple[str, str, tuple[int, ...], str]]:
    return [(name, row.axes, row.shape, row.dtype) for name, row in rows.items()]
