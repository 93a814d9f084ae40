"""Activation statistics of one forward pass: shape, mean, standard deviation, … of the tensor at every tap.

embed.out            B T D      1 × 13 × 384         mean, standard deviation, minimum, maximum
blocks.0.attn.q      B H T E    1 × 12 × 13 × 32     …
blocks.0.attn.out    B T D      1 × 13 × 384         …
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Self

import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Node, Tape
from glassformer.models import Network, eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table, byte_amount, percent

SLOW = ("scores", "probs")
"""Taps that are computed only for a tape that listens to them, on the explicit path; T × S numbers per head."""

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
    "Q": "codebooks",
    "L": "latents of all codebooks",
    "P": "samples",
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
    "sop_logits": "BC",
    "logits_aggregation": "BO",
    "start_logits": "BT",
    "end_logits": "BT",
    "relevance_logits": "B",
    "quantizer.codes": "BTQ",
    "quantizer.latents": "BTL",
    "audio_values": "BP",
    "pooler_output": "BD",
    "pooled_output": "BD",
    "cross_relationship_score": "BC",
    "question_answering_score": "BA",
    "text_embeds": "BJ",
    "image_embeds": "BJ",
    "logits_per_text": "BB",
    "logits_per_image": "BB",
}
"""Axes of a tap by the end of its name; all others are the residual stream or a contribution to it, B T D."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TapRow:
    """Statistics of the tensor at one tap.

    axes: a letter for each of `shape`, as in `LETTERS`
    mean, deviation, smallest, largest: of the finite numbers; None where there are none
    zeros, nans, infinities: as fractions of all numbers
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
class TracedLayer:
    """Taps of a layer, of consecutive layers with equal shapes, or of modules outside the layers.

    stack: `blocks`; empty outside the layers
    first, repeats: index of the first layer, and number of layers
    rows: those of the first layer, by their names within it: `attn.q`
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


class Trace(Report, list[TapRow], kind="trace", keys=("taps",)):
    """Statistics of the tensor at each tap, in the order of computation: a list that shows itself as a table.

    Args:
        complete: scores and probs were left out only because nothing asked for them
        folded: the table has the first of consecutive layers with equal shapes
    """

    def __init__(self, rows: Iterable[TapRow], *, complete: bool = True, folded: bool = True) -> None:
        super().__init__(rows)
        self.complete, self.folded = complete, folded

    @property
    def taps(self) -> list[TapRow]:
        return list(self)

    def unfolded(self) -> Trace:
        """The same, with a table of every layer."""
        return Trace(self, complete=self.complete, folded=False)

    @property
    def heading(self) -> str:
        kinds = ", ".join(dict.fromkeys(row.dtype for row in self))
        return f"{len(self)} tensors, {byte_amount(sum(row.bytes for row in self))} as {kinds}"

    def tables(self) -> list[Table]:
        """A row for each tap, below the name of its layer."""
        mixed = len({row.dtype for row in self}) > 1
        layers = fold_layers(self, separate=not self.folded)
        special = any(_special_values(row) for layer in layers for row in layer.rows.values())
        rows = []
        for layer in layers:
            if layer.path:
                repeats = f"×{layer.repeats}, the first:" if layer.repeats > 1 else ""
                rows.append([layer.path, repeats, *[""] * (5 + mixed + special)])
            for name, row in layer.rows.items():
                numbers = (row.mean, row.deviation, row.smallest, row.largest)
                rows.append(
                    [
                        ("  " if layer.path else "") + name,
                        " ".join(f"{letter}{size}" for letter, size in zip(row.axes, row.shape, strict=True)),
                        *[row.dtype] * mixed,
                        *[_special_values(row)] * special,
                        *("–" if value is None else f"{value:.3g}" for value in numbers),
                        byte_amount(row.bytes),
                    ]
                )
        texts = ["tensor", "shape", *["dtype"] * mixed, *["of these"] * special]
        return [Table([*texts, "mean", "std", "min", "max", "size"], rows, left=len(texts))]

    def remarks(self) -> list[str]:
        """The legend of the axes, and which tensors were left out."""
        used = {letter for row in self for letter in row.axes}
        legend = " · ".join(f"{letter} {meaning}" for letter, meaning in LETTERS.items() if letter in used)
        rest = ["scores and probs are computed only on request: --taps attn.probs"] if self.complete else []
        return [legend, *rest]


def _special_values(row: TapRow) -> str:
    """Shares of zeros, NaN and infinities: `31% zero, 46% inf`."""
    shares = {"zero": row.zeros, "NaN": row.nans, "inf": row.infinities}
    return ", ".join(f"{percent(share)} {name}" for name, share in shares.items() if share)


def trace(network: Network, batch: Batch, *patterns: str) -> Trace:
    """Run a batch through a network, and compute statistics of taps, in the order of computation.

    Args:
        patterns: as for a `Tape`; none = all taps but scores and probs. A layer whose scores or probs are included
            takes the explicit path, the others stay on the fused kernel.
    Raises: ConfigError: a pattern matches no tap.
    """
    tape = _MeasuringTape(network, patterns).attach(network)
    with torch.no_grad(), eval_mode(network):
        network(batch, Flow(tape=tape))
    return Trace(tape.rows, complete=not patterns)


class _MeasuringTape(Tape):
    """A tape that computes statistics instead of storing tensors."""

    def __init__(self, network: Network, patterns: tuple[str, ...]) -> None:
        super().__init__(*patterns)
        self.rows: list[TapRow] = []
        self._logit_a_token = network.head is not None and network.head.LOGIT_A_TOKEN
        self._classes = not (network.head is not None and network.head.OVER_VOCABULARY)

    def attach(self, network: Node) -> Self:
        super().attach(network)
        if not self.patterns:
            self._listened = frozenset(name for name in network.taps() if name.split(".")[-1] not in SLOW)
        return self

    def record(self, name: str, x: Tensor) -> Tensor:
        if name in self:
            self.rows.append(_measure(name, self._axes(name, x), x))
        return x

    def _axes(self, name: str, x: Tensor) -> str:
        if name == "logits" and self._logit_a_token:
            return "BT"
        if name == "logits" and self._classes:  # of a text, of a token, or ids of each codebook
            return {2: "BC", 3: "BTC", 4: "BTQV"}[x.dim()]
        if name == "logits":
            return "BTV"
        parts = name.split(".")
        axes = AXES.get(".".join(parts[-2:])) or AXES.get(parts[-1], "BTD")
        return axes.replace("T", "R") if "experts" in parts else axes


def _measure(name: str, axes: str, x: Tensor) -> TapRow:
    finite = x.isfinite()
    numbers = (x if bool(finite.all()) else x[finite]).to(torch.promote_types(x.dtype, torch.float32))
    stats: tuple[float | None, ...] = (None,) * 4
    if numbers.numel():
        variance, average = torch.var_mean(numbers, correction=0)
        stats = tuple(float(number) for number in (average, variance.sqrt(), *numbers.aminmax()))
    mean, deviation, smallest, largest = stats
    return TapRow(
        name=name,
        axes=axes,
        shape=tuple(x.shape),
        dtype=str(x.dtype).removeprefix("torch."),
        bytes=x.numel() * x.element_size(),
        mean=mean,
        deviation=deviation,
        smallest=smallest,
        largest=largest,
        zeros=_fraction(x == 0),
        nans=_fraction(x.isnan()),
        infinities=_fraction(x.isinf()),
    )


def _fraction(mask: Tensor) -> float:
    return int(mask.count_nonzero()) / max(1, mask.numel())


def fold_layers(rows: Iterable[TapRow], *, separate: bool = False) -> list[TracedLayer]:
    """Group rows by layer, and fold consecutive layers with the same names, axes, shapes and dtypes into one.

    Args:
        separate: do not fold.
    """
    layers: list[TracedLayer] = []
    for (stack, number), group in groupby(rows, key=lambda row: _split_name(row.name)[:2]):
        own = {_split_name(row.name)[2]: row for row in group}
        previous = layers[-1] if layers else None
        if separate or previous is None or not _follows(previous, stack, number, own):
            layers.append(TracedLayer(stack, number, 1, own))
        else:
            layers[-1] = replace(previous, repeats=previous.repeats + 1)
    return layers


def _split_name(name: str) -> tuple[str, int, str]:
    """`encoder.blocks.3.attn.q` → `encoder.blocks`, 3, `attn.q`; outside the layers the stack is empty."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return ("", 0, name) if at is None else (".".join(parts[:at]), int(parts[at]), ".".join(parts[at + 1 :]))


def _follows(previous: TracedLayer, stack: str, number: int, rows: dict[str, TapRow]) -> bool:
    """Whether this is the next layer of the same stack, with equal taps."""
    consecutive = stack and (previous.stack, previous.first + previous.repeats) == (stack, number)
    return bool(consecutive) and _signature(previous.rows) == _signature(rows)


def _signature(rows: dict[str, TapRow]) -> list[tuple[str, str, tuple[int, ...], str]]:
    return [(name, row.axes, row.shape, row.dtype) for name, row in rows.items()]
