"""Quantisation of one layer: histograms of its weights and inputs before and after, with scale, zero point and error.

    weights ── a scale of each row, each group, or all ──┐
                                                         ├─ q = round(f / S) + Z ─> S (q - Z)
    inputs ─── a scale of each token, or of all ─────────┘

Of a plain model: what 8 or 4 bits would do. Of a quantised one: what its folder holds. The levels of its weights are
known there, and the numbers that they were made of are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isnan
from threading import get_ident
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn

from glassformer.compression.calibrate import observed
from glassformer.compression.level_histograms import LevelHistogram
from glassformer.compression.quantise import LevelGrid, Scheme, affine_grid, grid_of, symmetric_grid
from glassformer.compression.quantised_network import embedding_layers, quantisable_layers
from glassformer.core.flow import Batch, Flow
from glassformer.core.levels import level_range
from glassformer.core.quantised import QuantisedEmbedding, QuantisedLinear, quantised_layers
from glassformer.engine.prepare import plain_copy
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.models import Network, eval_mode
from glassformer.reports.charts import Series, SeriesLine
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, number

if TYPE_CHECKING:
    from glassformer.inspect.session import Progress, Session

Layer: TypeAlias = nn.Linear | nn.Embedding

GROUP = 32
"""Neighbouring weights that share a scale, where groups do: as in the way `int4`."""
ERROR_BARS = 25
"""Bins of rounding errors between minus half and half of a step."""
CLIPPED = 0.5 + 1e-3
"""Steps by which a number has to change to count as clipped rather than rounded."""


@dataclass(frozen=True)
class LayerError(Record):
    """What rounding changes in one layer: the root mean square of it, over that of the numbers.

    shape: of the weight
    bits: of its levels in the folder; None: it holds numbers
    weights, inputs: None where there is nothing to compare: a folder of levels, inputs that are not rounded or not read
    """

    path: str
    shape: tuple[int, int]
    bits: int | None
    weights: float | None
    inputs: float | None


@dataclass(frozen=True)
class RoundedNumbers(Record):
    """Numbers of a layer before and after rounding, and their levels.

    centres: of the bins of a histogram
    before: shares of the numbers in the bins, which sum to 1; empty where they are not known
    after: the same of the rounded numbers; empty where nothing is rounded
    error: as that of a layer; None where one of both is empty
    scales: how many there are
    scale: the smallest S, the median and the largest
    zero: the lowest Z and the highest
    first_level: of `levels`
    levels: how many numbers have each level
    step_errors: shares of rounding errors, from minus half of a step to half of one
    largest_error: of one number
    clipped: share of the numbers outside of the range of levels
    """

    centres: list[float]
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    error: float | None = None
    scales: int = 0
    scale: list[float] = field(default_factory=list)
    zero: list[int] = field(default_factory=list)
    first_level: int = 0
    levels: list[int] = field(default_factory=list)
    step_errors: list[float] = field(default_factory=list)
    largest_error: float | None = None
    clipped: float | None = None

    @property
    def used(self) -> int:
        """How many levels occur."""
        return sum(n > 0 for n in self.levels)

    def cells(self) -> list[str]:
        """Number of scales, S, Z, levels in use, largest error and relative error as text."""
        if not self.levels:
            return ["", "not rounded", "", "", "", ""]
        low, middle, high = map(number, self.scale)
        zeros = sorted(set(self.zero))
        return [
            f"{self.scales:,}",
            middle if self.scales == 1 else f"{middle} ({low} to {high})",
            " to ".join(map(str, zeros)),
            f"{self.used} of {len(self.levels)}",
            "not known" if self.largest_error is None else number(self.largest_error),
            "not known" if self.error is None else number(self.error),
        ]


@dataclass(frozen=True, repr=False)
class LayerQuantisation(Report, kind="layer-quantisation"):
    """Weights and inputs of one layer before and after quantisation, and the error of each layer.

    layer: its path
    columns: weights of a row
    stored: the folder holds levels of this layer, rather than numbers
    bits: of a level of its weights
    weights: of the layer
    inputs: what it reads in this pass; None: an embedding, or a layer that never ran
    layers: the error of each layer under the same options
    """

    layer: str
    columns: int
    stored: bool
    bits: int
    weights: RoundedNumbers
    inputs: RoundedNumbers | None
    layers: list[LayerError]

    @property
    def finding(self) -> str:
        what = f"{self.layer} is stored in" if self.stored else f"{self.layer}, as it would be in"
        return f"{what} {self.bits} bits"

    def tables(self) -> list[Table]:
        names = ["numbers", "scales", "S", "Z", "levels in use", "largest error", "relative error"]
        rows = [["weights", *self.weights.cells()]]
        rows += [["inputs", *self.inputs.cells()]] if self.inputs else []
        layers = [
            [x.path, str(x.bits or ""), *("" if error is None else number(error) for error in (x.weights, x.inputs))]
            for x in self.layers
        ]
        columns = ["layer", "bits", "error of weights", "error of inputs"]
        return [Table(names, rows), Table(columns, layers, folded=True)]

    def charts(self) -> Sequence[Series]:
        made = []
        for name, each in (("weights", self.weights), ("inputs", self.inputs)):
            if each is not None:
                held = (("before", each.before), ("after", each.after))
                lines = [SeriesLine(line, each.centres, shares) for line, shares in held if shares]
                made.append(
                    Series(title=f"{name} of {self.layer}", x_label=name, y_label="share of the numbers", lines=lines)
                )
        return made


def layer_quantisation(
    session: Session,
    *,
    layer: str | None = None,
    bits: int = 8,
    scales: str = "row",
    symmetric: bool = True,
    inputs: str = "token",
    progress: Progress = lambda done, of: None,
) -> LayerQuantisation:
    """Quantise the weights of a layer, and what it reads in the pass of a session, and compare before and after.

    Args:
        layer: path of a linear layer or an embedding; None: the first linear layer
        bits: of a level of its weights, 8 or 4; inputs have 8
        scales: of weights: one for each "row", each "group" of 32 neighbours, or one for all ("tensor")
        symmetric: Z of weights is 0
        inputs: one scale for each "token" (dynamic), or one and a zero point for all ("tensor", static)
        progress: called after each layer
    Raises: ConfigError: no such layer, or a width that no groups of 32 divide. UnsupportedError: there is no layer.
    """
    network = plain_copy(session.network)  # a text that was written has packed its layers
    layers = _layers(network)
    if layer is not None and layer not in layers:
        raise ConfigError(f"no layer that is quantised is named {safe_repr(layer)}{nearest(layer, layers)}")
    options = _Rounding(Scheme(bits, GROUP if scales == "group" else 0, symmetric), scales == "tensor", inputs)
    read: list[Tensor] = []
    order: dict[str, None] = {}

    def see(path: str, x: Tensor) -> None:
        order.setdefault(path)
        if path == (layer or next(iter(order))):
            read.append(x.detach().float().flatten(0, -2))

    with torch.inference_mode():
        _run(network, session.batch, layers, see)
        layers = _as_run(layers, list(order))
        errors = session.cache.get(
            ("quantisation", options), lambda: (_errors(network, session.batch, layers, options, progress),)
        )[0]
        path = layer or next(iter(order or layers))
        chosen = layers[path]
        rounded = options.of_inputs(chosen, torch.cat(read)) if read and isinstance(chosen, nn.Linear) else None
        return LayerQuantisation(
            path,
            _shape(chosen)[1],
            _bits(chosen) is not None,
            _bits(chosen) or bits,
            options.of_weights(chosen, path),
            rounded,
            [
                LayerError(each, _shape(module), _bits(module), *(None if isnan(x) else x for x in numbers))
                for (each, module), numbers in zip(layers.items(), errors.tolist(), strict=True)
            ],
        )


@dataclass(frozen=True)
class _Rounding:
    """How numbers are rounded where the folder does not say so."""

    scheme: Scheme
    one_scale: bool
    inputs: str

    def weight_grid(self, weight: Tensor, path: str) -> tuple[Tensor, LevelGrid]:
        """The weight as it is cut, and its grid."""
        if self.one_scale:
            whole = weight.reshape(1, 1, -1)
            return whole, grid_of(whole, self.scheme.bits, symmetric=self.scheme.symmetric)
        return self.scheme.grouped(weight, path), self.scheme.grid(weight, path)

    def input_grid(self, layer: nn.Linear, x: Tensor) -> LevelGrid | None:
        """The grid of what a layer reads; None: it is not rounded. [tokens, in]"""
        way = self.inputs
        if isinstance(layer, QuantisedLinear):
            if layer.inputs == "wide":
                return None
            if layer.inputs == "static":
                assert layer.input_scale is not None and layer.input_zero is not None
                return LevelGrid(layer.input_scale.float(), layer.input_zero.float(), 8)
            way = "token"
        if way == "token":
            return symmetric_grid(x.abs().amax(-1, keepdim=True), 8)
        return affine_grid(x.min(), x.max(), 8)

    def of_weights(self, layer: Layer, path: str) -> RoundedNumbers:
        if isinstance(layer, QuantisedLinear | QuantisedEmbedding):
            stored = layer.stored
            zero = torch.zeros(1) if stored.zero is None else stored.zero
            return _rounded(None, stored.numbers().float(), stored.unpacked(), stored.scale, zero, stored.bits)
        cut, grid = self.weight_grid(layer.weight.detach().float(), path)
        levels = grid.levels(cut)
        return _rounded(cut, grid.numbers(levels), levels, grid.scale, grid.zero, grid.bits)

    def of_inputs(self, layer: nn.Linear, x: Tensor) -> RoundedNumbers:
        x = _scaled(layer, x)
        grid = self.input_grid(layer, x)
        if grid is None:
            histogram = LevelHistogram.of(x, x)
            return RoundedNumbers(histogram.centres, histogram.before)
        levels = grid.levels(x)
        return _rounded(x, grid.numbers(levels), levels, grid.scale, grid.zero, grid.bits)


def _layers(network: Network) -> dict[str, Layer]:
    """What is, or would be, quantised: linear layers and tables of tokens by path, each once."""
    candidates: dict[str, Layer] = dict(quantised_layers(network))
    candidates |= {**quantisable_layers(network), **embedding_layers(network)}
    once: dict[int, str] = {}
    for path, module in candidates.items():
        once.setdefault(id(getattr(module, "stored", None) or module.weight), path)
    layers = {path: candidates[path] for path in once.values()}
    if not layers:
        raise UnsupportedError("the network has no linear layer of its own: call unprepare() where it was prepared")
    return layers


def _as_run(layers: dict[str, Layer], order: Sequence[str]) -> dict[str, Layer]:
    """Tables of tokens, then linear layers as they run, then those that do not run."""
    tables = [path for path, layer in layers.items() if isinstance(layer, nn.Embedding)]
    return {path: layers[path] for path in [*tables, *order, *layers]}


def _errors(network: Network, batch: Batch, layers: dict[str, Layer], options: _Rounding, progress: Progress) -> Tensor:
    """The relative errors of weights and inputs of each layer, NaN where there are none. [layers, 2]"""
    read: dict[str, list[float]] = {}

    def compare(path: str, x: Tensor) -> None:
        layer = layers[path]
        assert isinstance(layer, nn.Linear)
        x = _scaled(layer, x.detach().float().flatten(0, -2))
        grid = options.input_grid(layer, x)
        if grid is not None:
            sums = read.setdefault(path, [0.0, 0.0])
            sums[0] += float((grid.round(x) - x).square().sum())
            sums[1] += float(x.square().sum())

    _run(network, batch, layers, compare)
    rows = []
    for done, (path, layer) in enumerate(layers.items()):
        error, size = read.get(path, [float("nan"), 1.0])
        rows.append([_weight_error(layer, path, options), (error / max(size, 1e-30)) ** 0.5])
        progress(done + 1, len(layers))
    return torch.tensor(rows)


def _weight_error(layer: Layer, path: str, options: _Rounding) -> float:
    if isinstance(layer, QuantisedLinear | QuantisedEmbedding):
        return float("nan")
    if options.scheme.group_size and layer.weight.shape[1] % options.scheme.group_size:
        return float("nan")  # no group of this size
    cut, grid = options.weight_grid(layer.weight.detach().float(), path)
    share = (grid.round(cut) - cut).square().sum() / cut.square().sum().clamp_min(1e-30)
    return float(share.sqrt())


def _run(network: Network, batch: Batch, layers: dict[str, Layer], see: Callable[[str, Tensor], None]) -> None:
    """Run the pass of a session again, and see what its linear layers read."""
    linear = {path: layer for path, layer in layers.items() if isinstance(layer, nn.Linear)}
    own = get_ident()  # other threads of a server may run the same network meanwhile

    def see_own(path: str, x: Tensor) -> None:
        if get_ident() == own:
            see(path, x)

    with observed(linear, see_own), eval_mode(network):
        network.states(batch, Flow())


def _scaled(layer: nn.Linear, x: Tensor) -> Tensor:
    """Inputs times the factors of a layer that has some: what is rounded."""
    factors = layer.input_factors if isinstance(layer, QuantisedLinear) else None
    return x if factors is None else x * factors.float()


def _shape(layer: Layer) -> tuple[int, int]:
    if isinstance(layer, nn.Embedding):
        return layer.num_embeddings, layer.embedding_dim
    return layer.out_features, layer.in_features


def _bits(layer: Layer) -> int | None:
    return layer.stored.bits if isinstance(layer, QuantisedLinear | QuantisedEmbedding) else None


def _rounded(
    before: Tensor | None, after: Tensor, levels: Tensor, scale: Tensor, zero: Tensor, bits: int
) -> RoundedNumbers:
    """Describe numbers that were rounded; scale and zero are broadcast against them where `before` is given."""
    lowest, highest = level_range(bits)
    scale = scale.float()
    histogram = LevelHistogram.of(after if before is None else before, after)
    known: dict[str, object] = {}
    if before is not None:
        steps = (after - before) / scale
        inside = steps.abs() <= CLIPPED
        within = steps[inside].clamp(-0.5, 0.5)
        shares = torch.histc(within, ERROR_BARS, -0.5, 0.5) / max(within.numel(), 1)
        known = {
            "before": histogram.before,
            "error": histogram.error,
            "step_errors": shares.tolist(),
            "largest_error": float((after - before).abs().max()),
            "clipped": float((~inside).float().mean()),
        }
    counts = torch.bincount(levels.flatten().to(torch.int64) - lowest, minlength=highest - lowest + 1)
    return RoundedNumbers(
        histogram.centres,
        after=histogram.after,
        scales=scale.numel(),
        scale=[float(x) for x in (scale.min(), scale.median(), scale.max())],
        zero=[int(zero.min()), int(zero.max())],
        first_level=lowest,
        levels=counts.tolist(),
        **known,  # type: ignore[arg-type] # fields by their names
    )
