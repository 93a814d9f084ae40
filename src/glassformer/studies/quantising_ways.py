"""Ways to quantise a model: weights, and inputs of products, in 8 bits; weights alone in 4.

    int8          8-bit weights, inputs rounded token by token        compiled products of integers, no data needed
    int8-static   8-bit weights, inputs rounded by calibrated ranges
    int4          4-bit weights in groups, inputs as they are         an eighth of the bytes: nearest, GPTQ or AWQ

The folder stores levels and scales in compressed-tensors' layout. The methods are in `glassformer.compression`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from glassformer.compression.awq import activation_aware_factors, searched_round
from glassformer.compression.calibrate import calibrated_grid
from glassformer.compression.folding import NormReaders, norm_readers
from glassformer.compression.gptq import gptq
from glassformer.compression.layer_inputs import LayerInputs, recorded_inputs
from glassformer.compression.quantise import LevelGrid, Levels, Scheme, round_to_nearest
from glassformer.compression.quantised_network import Rounding, quantisable_layers, quantise_network
from glassformer.compression.sensitivity import Sensitivity, sensitivity_sweep
from glassformer.compression.smooth import best_factors
from glassformer.core.flow import Output
from glassformer.core.quantised import bytes_of_levels, check_not_quantised
from glassformer.errors import ConfigError
from glassformer.files import counted
from glassformer.files.schema import Count, Doc, NonNegativeInt, Schema
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table, byte_amount, number
from glassformer.studies.pruning_ways import run_calibration
from glassformer.studies.ways import Source, Way
from glassformer.tasks.microbatch import run_batches

SWEPT_ROWS = 64
"""Calibration rows of a sensitivity sweep, which runs them once for each layer."""

Embeddings = Annotated[bool, Doc("Embeddings in 8 bits too: the token table, and output projections over it.")]
Keep = Annotated[Sequence[str], Doc("Layers that stay in floating point, by patterns such as blocks.0 or *.ffn.down.")]
Wide = Annotated[
    NonNegativeInt, Doc("Sensitive layers that stay in floating point: how many, chosen by a sweep over all layers.")
]
Fold = Annotated[
    bool,
    Doc(
        "Scale only inputs whose factors fold into the norm before the layer, so that other libraries read the folder. "
        "Others keep factors of their own otherwise."
    ),
]
Choose = Callable[[Tensor, LayerInputs], Tensor | None]
"""(weight [rows, columns], its inputs) → factors of the inputs [columns]; None: they gain too little."""


@dataclass(frozen=True, kw_only=True)
class Int8Options(Schema):
    """Options of 8-bit weights and inputs."""

    embeddings: Embeddings = True
    smooth: Annotated[bool, Doc("SmoothQuant: outliers of inputs migrate to the weights; needs calibration rows.")] = (
        False
    )
    fold: Fold = False
    method: Annotated[
        Literal["nearest", "gptq"], Doc("Rounding of weights: nearest needs no data; gptq needs calibration rows.")
    ] = "nearest"
    keep: Keep = ()
    wide: Wide = 0


@dataclass(frozen=True, kw_only=True)
class Int8StaticOptions(Int8Options):
    """Options of 8-bit weights and inputs with calibrated ranges."""

    calibration: Annotated[
        Literal["minmax", "percentile", "mse", "entropy"], Doc("Calibration: how the range of inputs is chosen.")
    ] = "minmax"


@dataclass(frozen=True, kw_only=True)
class Int4Options(Schema):
    """Options of 4-bit weights."""

    method: Annotated[
        Literal["nearest", "gptq", "awq"],
        Doc("Method: nearest needs no data; gptq and awq need calibration rows."),
    ] = "gptq"
    group_size: Annotated[
        Count, Doc("Group size: neighbouring weights that share a scale; it must divide all widths.")
    ] = 32
    fold: Fold = False
    embeddings: Embeddings = True
    keep: Keep = ()
    wide: Wide = 0


class _Quantising(Way[Any]):
    """What the ways have in common: what is checked before anything is computed."""

    LAST = "which is quantised: its weights are stored as levels"

    def check(self, source: Source, options: Any) -> None:
        network, wide = source.outline.network, getattr(options, "wide", 0)
        check_not_quantised(network, "quantised again")
        layers = quantisable_layers(network, options.keep)
        for path, layer in layers.items():
            self.scheme(options).grouped(layer.weight, path)
        _behind_norms(network, layers, required=options.fold)
        if wide >= len(layers):
            left = f"{counted(len(layers), 'layer')} can be quantised" + " besides those of keep" * bool(options.keep)
            raise ConfigError(f"wide is {wide}, which leaves no layer to quantise: {left}")

    def scheme(self, options: Any) -> Scheme:
        """Of the weights of linear layers."""
        return Scheme(8)


class Int8(_Quantising):
    """Dynamic int8: weights in 8 bits, inputs in 8 bits with a scale for each token."""

    OPTIONS = Int8Options

    def needs(self, options: Int8Options) -> Sequence[str]:
        return ("calibration",) * (options.smooth or options.method == "gptq" or options.wide > 0)

    def __call__(self, source: Source, options: Int8Options, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        work = _Work(source, "int8", Scheme(8), "dynamic", options.keep, options.wide, progress)
        by_data = options.smooth or options.method == "gptq"
        inputs = work.record(hessian=options.method == "gptq") if by_data else {}
        if options.smooth:
            work.scale(inputs, _smoothed, fold=options.fold)
        work.finish(output, embeddings=options.embeddings, rounding=work.rounding(options.method, inputs))
        return work.tables


class Int8Static(_Quantising):
    """Static int8: weights in 8 bits, inputs in 8 bits with calibrated ranges."""

    OPTIONS = Int8StaticOptions
    NEEDS = ("calibration",)

    def __call__(
        self, source: Source, options: Int8StaticOptions, output: Path, progress: Bar = no_bar
    ) -> Sequence[Table]:
        work = _Work(source, "int8-static", Scheme(8), "static", options.keep, options.wide, progress)
        inputs = work.record(hessian=options.method == "gptq")
        if options.smooth:
            work.scale(inputs, _smoothed, fold=options.fold)
        rounding = work.rounding(options.method, inputs)
        if work.scaled:  # ranges are those of the inputs times their factors
            inputs = work.record(work.factors)
        grids = {path: calibrated_grid(x.histogram, options.calibration) for path, x in inputs.items()}
        work.finish(output, embeddings=options.embeddings, grids=grids, rounding=rounding)
        return [*work.tables, _range_table(inputs, grids)]


class Int4(_Quantising):
    """int4: weights in 4 bits, in groups with a scale each; inputs stay in floating point."""

    OPTIONS = Int4Options

    def needs(self, options: Int4Options) -> Sequence[str]:
        return ("calibration",) * (options.method != "nearest" or options.wide > 0)

    def scheme(self, options: Int4Options) -> Scheme:
        return Scheme(4, options.group_size)

    def __call__(self, source: Source, options: Int4Options, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        scheme = self.scheme(options)
        work = _Work(source, "int4", scheme, "wide", options.keep, options.wide, progress)
        inputs = {} if options.method == "nearest" else work.record(hessian=True)
        if options.method == "awq":
            work.scale(inputs, lambda weight, x: activation_aware_factors(weight, x, scheme), fold=options.fold)
        rounding = work.rounding("gptq" if options.method == "gptq" else "searched", inputs)
        work.finish(output, embeddings=options.embeddings, rounding=rounding)
        return work.tables


class _Work:
    """A model that is being quantised: its layers, what they read, and the folder at the end.

    tables: of sizes, of scaled inputs, and of the sensitivity sweep, where layers are chosen by one
    factors: of the inputs of layers that multiply by them, by path [columns]
    scaled: of all layers whose inputs are scaled, also by the norm before them, by path [columns]
    """

    def __init__(
        self,
        source: Source,
        way: str,
        scheme: Scheme,
        inputs: str,
        keep: Sequence[str],
        wide: int,
        progress: Bar,
    ) -> None:
        self.source, self.way, self.scheme, self.inputs, self.progress = source, way, scheme, inputs, progress
        self.network = source.model.unprepare().network
        check_not_quantised(self.network, "quantised again")
        self.keep = list(keep)
        self.tables: list[Table] = []
        self.factors: dict[str, Tensor] = {}
        self.scaled: dict[str, Tensor] = {}
        if wide:
            report = self._sweep()
            self.keep += report.most_sensitive(wide)
            self.tables = list(report.tables())
        self.layers = quantisable_layers(self.network, self.keep)

    def _sweep(self) -> Sensitivity:
        task, rows = self.source.task, self.source.needed("calibration", self.way)
        rows = rows.select(range(min(len(rows), SWEPT_ROWS)))
        examples = task.encode(rows)
        layers = quantisable_layers(self.network, self.keep)

        def outputs() -> list[Tensor]:
            with torch.inference_mode():
                return [_main_tensor(output).clone() for output, _ in run_batches(task, examples)]

        inputs = "dynamic" if self.inputs == "static" else self.inputs
        with self.progress("sensitivity", len(layers)) as done:
            return sensitivity_sweep(self.network, layers, self.scheme, outputs, inputs=inputs, progress=done)

    def record(self, factors: Mapping[str, Tensor] | None = None, *, hessian: bool = False) -> dict[str, LayerInputs]:
        """Run the calibration rows. Raises: ConfigError: there are none. DataError: they run not all layers."""
        with recorded_inputs(self.layers, hessian=hessian, factors=factors) as inputs:
            run_calibration(self.source, self.way, self.progress)
        return inputs

    def scale(self, inputs: Mapping[str, LayerInputs], choose: Choose, *, fold: bool) -> None:
        """Choose factors of inputs; those of layers behind a norm, which all its readers share, are folded into it.

        Args:
            fold: leave the others as they are
        Raises: ConfigError: as `_behind_norms`.
        """
        behind = _behind_norms(self.network, self.layers, required=fold)
        for readers in behind:
            paths = [path for path in readers.layers if path in self.layers]
            chosen = choose(torch.cat([self.layers[path].weight for path in paths]), inputs[paths[0]])
            if chosen is not None:
                readers.fold(chosen)
                self.scaled |= dict.fromkeys(paths, chosen)
        folded, shared = set(self.scaled), {path for readers in behind for path in readers.layers}
        for path, x in inputs.items():
            if not fold and path not in shared and (chosen := choose(self.layers[path].weight, x)) is not None:
                self.factors[path] = self.scaled[path] = chosen
        self.tables.append(_factor_table(self.layers, self.scaled, folded))

    def rounding(self, method: str, inputs: Mapping[str, LayerInputs]) -> Rounding:
        """How weights become levels: "nearest", "searched" (nearest on narrowed grids) or "gptq".

        Args:
            inputs: before they were scaled
        """

        def rounding(path: str, weight: Tensor, scheme: Scheme) -> Levels:
            if method != "gptq":
                return (round_to_nearest if method == "nearest" else searched_round)(weight, scheme, path)
            hessian = inputs[path].hessian
            if path in self.scaled:  # the layer reads x · f
                hessian = hessian * self.scaled[path] * self.scaled[path][:, None]
            return gptq(weight, hessian, scheme, path)

        return rounding

    def finish(self, output: Path, *, embeddings: bool, **options: Any) -> None:
        """Quantise the network and write the folder."""
        before = sum(parameter.nbytes for parameter in self.network.parameters())
        quantised = quantise_network(
            self.network,
            self.scheme,
            inputs=self.inputs,
            keep=self.keep,
            embeddings=Scheme(8) if embeddings else None,
            factors=self.factors,
            **options,
        )
        self.source.model.save_pretrained(output)
        wide = sum(parameter.nbytes for parameter in self.network.parameters())
        after = wide + bytes_of_levels(self.network)
        row = [counted(len(quantised), "layer"), byte_amount(before), byte_amount(after), number(after / before)]
        headings = ["quantised", "weights before", "weights after", "share"]
        self.tables.append(Table(headings, [row], caption="Bytes of the weights"))


def _behind_norms(network: nn.Module, layers: Mapping[str, nn.Linear], *, required: bool) -> list[NormReaders]:
    """Norms that layers read alone. Raises: ConfigError: there are none, and some are required."""
    behind = [readers for readers in norm_readers(network) if readers.layers.keys() & layers.keys()]
    if required and not behind:
        raise ConfigError(
            "fold is true, and no norm of this model is read by linear layers alone: in a post-norm network (BERT) the "
            "residual stream reads it too; leave fold out, and layers scale their inputs"
        )
    return behind


def _main_tensor(output: Output) -> Tensor:
    """The logits, or what the network gives instead."""
    tensors = (output.logits, output.start_logits, output.last_hidden_state)
    return next(x for x in tensors if x is not None)


def _smoothed(weight: Tensor, inputs: LayerInputs) -> Tensor | None:
    return best_factors(weight, inputs, Scheme(8))


def _factor_table(layers: Mapping[str, nn.Linear], scaled: Mapping[str, Tensor], folded: Container[str]) -> Table:
    """The layers whose inputs are scaled, by what, and how far the factors of their channels are apart."""
    rows = []
    for path in layers:
        spread = number(float(scaled[path].max() / scaled[path].min())) if path in scaled else "not scaled"
        rows.append([path, spread, "" if path not in scaled else "norm" if path in folded else "layer"])
    return Table(["layer", "largest / smallest factor of a channel", "scaled by"], rows, caption="Scaled inputs")


def _range_table(inputs: Mapping[str, LayerInputs], grids: Mapping[str, LevelGrid]) -> Table:
    """The range of each layer's inputs, and what of it has levels."""
    rows = []
    for path, recorded in inputs.items():
        grid, histogram = grids[path], recorded.histogram
        low, high = (float(grid.numbers(torch.tensor(level))) for level in (-128, 127))
        rows.append(
            [path, number(histogram.low), number(histogram.high), number(low), number(high), str(int(grid.zero))]
        )
    headings = ["layer", "smallest input", "largest input", "lowest level", "highest level", "zero point"]
    return Table(headings, rows, caption="Calibrated ranges of inputs")
