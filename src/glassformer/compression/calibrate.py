"""Calibration: the ranges of activations, from examples, for static quantisation.

    calibration batches ──> Histogram of each layer's inputs ──a way to choose──> range ──> LevelGrid (S, Z)

    minmax       the smallest and the largest number: nothing is clipped, and one outlier makes every step wide
    percentile   all but the outermost 0.01%
    mse          the range whose rounding and clipping has the least squared error
    entropy      the range that loses the least information, by the Kullback-Leibler divergence

Clipping few large numbers narrows the steps of all others. What is best depends on the layer, so a report shows the
ranges.

Source: Migacz 2017, "8-bit Inference with TensorRT" (entropy); Wu et al. 2020, "Integer Quantization for Deep Learning
Inference", section 5 (a comparison of all four).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from glassformer.compression.quantise import LevelGrid, affine_grid, symmetric_grid
from glassformer.core.levels import level_range
from glassformer.errors import ConfigError, DataError, nearest

BINS = 4096
"""Bins of a histogram, of which half stay when its range doubles; a level of 8 bits is at least eight of them wide."""

PERCENTILE = 99.99
CANDIDATES = 60
"""Ranges that are compared: from a twentieth of the whole to all of it."""


@dataclass
class Histogram:
    """Counts of numbers in bins of one width from -limit to limit, which doubles when a number lies outside.

    Doubling joins neighbouring bins, so the order of the batches changes no count.

    low, high: the smallest and the largest number
    largest: the largest magnitude of each channel; None before the first batch. [channels]
    """

    limit: float = 0.0
    counts: Tensor = field(default_factory=lambda: torch.zeros(BINS, dtype=torch.float64))
    low: float = 0.0
    high: float = 0.0
    largest: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """Count numbers. [..., channels]

        Raises: DataError: one of them is not finite.
        """
        x = x.detach().float().reshape(-1, x.shape[-1])
        if not x.numel():
            return
        channels = x.abs().amax(0)
        reach = float(channels.max())
        if not reach < float("inf"):
            raise DataError("an activation of the calibration set is infinite or not a number: check the weights")
        self.largest = channels if self.largest is None else torch.maximum(self.largest, channels)
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        if self.limit == 0.0 and reach > 0.0:  # a power of two, whatever the first batch: doublings of it meet
            self.limit = 2.0 ** torch.tensor(reach).log2().ceil().item()
        while reach > self.limit:
            joined = self.counts.view(-1, 2).sum(-1)
            self.counts = torch.cat([torch.zeros(BINS // 4), joined, torch.zeros(BINS // 4)])
            self.limit *= 2
        if self.limit:
            self.counts += torch.histc(x, BINS, -self.limit, self.limit).double()

    @property
    def centres(self) -> Tensor:
        """The middle of each bin."""
        width = 2 * self.limit / BINS
        return -self.limit + width * (torch.arange(BINS, dtype=torch.float64) + 0.5)


Range = tuple[float, float]


def minmax_range(histogram: Histogram, bits: int) -> Range:
    """From the smallest to the largest number."""
    return histogram.low, histogram.high


def percentile_range(histogram: Histogram, bits: int, percentile: float = PERCENTILE) -> Range:
    """The range without the outermost numbers of each side, half of 100 - `percentile` each."""
    total = histogram.counts.sum()
    outside = total * (100 - percentile) / 200
    cumulative = histogram.counts.cumsum(0)
    first = int(torch.searchsorted(cumulative, outside, right=True).clamp_max(BINS - 1))
    last = int(torch.searchsorted(cumulative, total - outside).clamp_max(BINS - 1))
    half = histogram.limit / BINS
    low, high = (float(histogram.centres[place]) for place in (first, last))
    return max(histogram.low, low - half), min(histogram.high, high + half)


def mse_range(histogram: Histogram, bits: int) -> Range:
    """The range with the least squared error of its rounded and clipped numbers."""

    def error(low: float, high: float) -> float:
        grid = affine_grid(torch.tensor(low).double(), torch.tensor(high).double(), bits)
        return float((histogram.counts * (grid.round(histogram.centres) - histogram.centres).square()).sum())

    return min(_candidates(histogram), key=lambda ends: error(*ends))


def entropy_range(histogram: Histogram, bits: int) -> Range:
    """The range whose levels lose the least information about the numbers, KL(P ‖ Q).

    P: the bins within the range, with what was clipped added to the outermost; Q: what the levels tell of them, each
    level's count spread over its bins that hold anything.
    """
    return min(_candidates(histogram), key=lambda ends: _divergence(histogram, ends, bits))


def _candidates(histogram: Histogram) -> Iterator[Range]:
    reach = max(-histogram.low, histogram.high)
    for number in range(CANDIDATES, 0, -1):  # the widest first: of equal ones it is taken
        end = reach * (0.05 + 0.95 * number / CANDIDATES)
        yield max(histogram.low, -end), min(histogram.high, end)


def _divergence(histogram: Histogram, ends: Range, bits: int) -> float:
    low, high = ends
    counts, centres = histogram.counts, histogram.centres
    inside = (centres >= low) & (centres <= high)
    if not inside.any():
        return float("inf")
    within = counts[inside]
    clipped = within.clone()
    clipped[0] += counts[centres < low].sum()
    clipped[-1] += counts[centres > high].sum()
    lowest, highest = level_range(bits)
    grid = affine_grid(torch.tensor(low).double(), torch.tensor(high).double(), bits)
    level = grid.levels(centres[inside]).long() - lowest
    occupied = (within > 0).double()
    sums, bins = (torch.zeros(highest - lowest + 1).double().index_add_(0, level, x) for x in (within, occupied))
    spread = torch.where(occupied > 0, (sums / bins.clamp_min(1))[level], 0.0)
    p, q = clipped / clipped.sum(), spread / spread.sum().clamp_min(1e-30)
    where = p > 0  # an outermost bin that holds nothing but what was clipped has no q: it counts as a rare one
    return float((p[where] * (p[where] / q[where].clamp_min(1e-9)).log()).sum())


CALIBRATIONS: Mapping[str, Callable[[Histogram, int], Range]] = {
    "minmax": minmax_range,
    "percentile": percentile_range,
    "mse": mse_range,
    "entropy": entropy_range,
}


def calibrated_grid(histogram: Histogram, way: str, bits: int = 8, *, symmetric: bool = False) -> LevelGrid:
    """The grid of a layer's inputs, by one of `CALIBRATIONS`.

    Raises: ConfigError: an unknown way. DataError: the histogram is empty.
    """
    if way not in CALIBRATIONS:
        raise ConfigError(f"calibration is {way!r}; allowed: {', '.join(CALIBRATIONS)}{nearest(way, CALIBRATIONS)}")
    if histogram.largest is None:
        raise DataError("the calibration set is empty; give rows of the model's task")
    low, high = CALIBRATIONS[way](histogram, bits)
    if symmetric:
        return symmetric_grid(torch.tensor(max(-low, high)), bits)
    return affine_grid(torch.tensor(low), torch.tensor(high), bits)


@contextmanager
def observed(layers: Mapping[str, nn.Module], see: Callable[[str, Tensor], None]) -> Iterator[None]:
    """Call `see(name, inputs)` for each run of these layers within the block."""
    handles = [
        layer.register_forward_pre_hook(lambda module, inputs, name=name: see(name, inputs[0]))
        for name, layer in layers.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def input_histograms(
    layers: Mapping[str, nn.Module], batches: Iterable[object], run: Callable[[object], object]
) -> dict[str, Histogram]:
    """Histograms of the inputs of layers over a calibration set.

    Args:
        layers: by name
        batches: of the calibration set
        run: runs the network on a batch
    Raises: DataError: the calibration set is empty, or a layer was never run.
    """
    histograms = {name: Histogram() for name in layers}
    with observed(layers, lambda name, x: histograms[name].add(x)), torch.inference_mode():
        for batch in batches:
            run(batch)
    if idle := [name for name, histogram in histograms.items() if histogram.largest is None]:
        everything = len(idle) == len(histograms)
        raise DataError(
            "the calibration set is empty; give rows of the model's task"
            if everything
            else f"the calibration set never runs {', '.join(idle[:5])}; give rows of the model's task"
        )
    return histograms
