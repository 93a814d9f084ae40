"""Architecture of a model: its tree of modules with repeats folded, and one weight of it as tiles and a histogram.

    architecture(session)                                     the tree: shapes, parameters, bytes, FLOPs of this text
    weight_numbers(session, parameter="blocks.0.attn.qkv.weight")
        rows of W, averaged to at most 128 × 128 tiles        mean, standard deviation, share of zeros, histogram

They are two reports, since the tree counts the zeros of all weights, and a weight reads one.

A weight that is stored as levels of 8 or 4 bits is shown by the numbers that they stand for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.flow import Node
from glassformer.core.quantised import QuantisedLinear, StoredLevels
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.inspect.ram import activations
from glassformer.inspect.summary import TreeLine, nth_of, summary, tree_lines
from glassformer.reports.charts import Series, SeriesLine
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, byte_amount, flops_amount, number, percent

if TYPE_CHECKING:
    from glassformer.inspect.session import Progress, Session

TILES = 128
"""Rows or columns of tiles, at most."""
BARS = 61
"""Bins of the histogram."""
SOME_ZEROS, MANY_ZEROS = 0.01, 0.25
"""Shares of zeros from which they have a column, and a clause of the finding."""
BLOCK = 1 << 22
"""Numbers of a weight that are read at a time: 16 MB in float32."""

ARCHITECTURE_KEYS, WEIGHT_KEYS = ("model", "texts", "finding", "parts"), ("weight", "tiles", "zero_tiles")
Stored: TypeAlias = nn.Parameter | QuantisedLinear | StoredLevels
"""Where a weight is: a tensor, or levels; of a quantised layer with the factors that its inputs are divided by."""


@dataclass(frozen=True, kw_only=True)
class ModulePart(Record):
    """A module; of repeated ones, one of them.

    name: of the module, with those that only wrap it; of repeated ones the path
    path: its full path, repeats folded: "blocks.0-5.attn"
    depth: modules above it
    repeats: how many are equal to it, with itself
    shape: of its weights, in words, and what shapes do not show, such as the number of heads
    parameters, bytes, flops: with its submodules; FLOPs of the whole text
    activations: bytes that a training step saves of the text; None: they are counted by another module
    zeros: share of its parameters that are exactly 0, of repeated ones of all; None: it has none of its own
    weights: the name of each of its weights, of repeated modules that of the first; of a tied one that of its twin
    """

    name: str
    path: str
    depth: int
    repeats: int
    kind: str
    shape: str
    parameters: int
    bytes: int
    flops: int
    activations: int | None
    zeros: float | None
    weights: list[str]


@dataclass(frozen=True, kw_only=True)
class WeightNumbers(Record):
    """What the numbers of a weight are.

    stored: dtype, or "int8" and "int4"
    step: rows and columns of the weight that a tile is the mean of; of three and more dimensions, all after the first
        are columns
    count: of all numbers; of which `zeros` are exactly 0, and `bad` NaN or infinite
    mean, std, least, most: of the finite ones; the standard deviation is that of all of them (divided by N)
    edges: of the bins of the histogram, one more than `counts`
    """

    name: str
    shape: list[int]
    stored: str
    step: list[int]
    count: int
    zeros: int
    bad: int
    mean: float
    std: float
    least: float
    most: float
    edges: list[float]
    counts: list[int]


@dataclass(frozen=True, repr=False)
class ModelArchitecture(Report, kind="architecture", keys=ARCHITECTURE_KEYS):
    """The modules of a model.

    model: class of the network
    texts: of what FLOPs and activations are counted: `18 tokens`, `17 source and 18 target tokens`
    parts: the tree, from the root down
    """

    model: str
    texts: str
    parts: list[ModulePart]

    @property
    def finding(self) -> str:
        """Where the parameters are, the arithmetic, and zeros, where many are."""
        root, ranked = self.parts[0], sorted(self._largest(), key=lambda part: -part.parameters * part.repeats)
        busiest = max(ranked, key=lambda part: part.flops * part.repeats)
        clauses: list[str] = []
        for part in ranked:
            large, busy = part in ranked[:2] and part.parameters, part is busiest and part.flops
            whole = "the" if clauses else f"{root.parameters:,}"
            shares = [f"{_share(part, 'parameters', root)} of {whole} parameters"] if large else []
            shares += [f"{_share(part, 'flops', root)} of the arithmetic of {self.texts}"] if busy else []
            if shares:
                name = f"{part.path} ({part.repeats} equal ones)" if part.repeats > 1 else part.path
                clauses.append(f"{name}: {' and '.join(shares)}")
        emptiest = max(ranked, key=lambda part: (part.zeros or 0.0) * part.parameters * part.repeats)
        if (zeros := emptiest.zeros or 0.0) >= MANY_ZEROS:
            clauses.append(f"{percent(zeros)} of the weights of {emptiest.path} are zeros")
        return f"{'; '.join(clauses)}."

    @property
    def has_zeros(self) -> bool:
        """Whether a module has so many zeros that they are worth a column."""
        return any((part.zeros or 0.0) >= SOME_ZEROS for part in self.parts)

    def _largest(self) -> Iterator[ModulePart]:
        """Blocks, and outside of them the modules with weights of their own."""
        block: int | None = None
        for part in self.parts[1:]:
            if block is not None and part.depth > block:
                continue
            block = part.depth if part.path.rpartition(".")[2][:1].isdigit() else None
            if block is not None or part.weights:
                yield part

    def tables(self) -> list[Table]:
        rows = [
            [
                "  " * part.depth + part.name + (f"  ×{part.repeats}, each" if part.repeats > 1 else ""),
                part.shape,
                f"{part.parameters:,}" if part.parameters else "",
                byte_amount(part.bytes) if part.bytes else "",
                byte_amount(part.activations) if part.activations else "",
                flops_amount(part.flops),
                *([percent(part.zeros or 0.0) if part.parameters else ""] if self.has_zeros else []),
            ]
            for part in self.parts
        ]
        columns = ["module", "shape", "parameters", "weights", "activations", "FLOPs"]
        columns += ["zeros"] if self.has_zeros else []
        return [Table(columns, rows, left=2)]


@dataclass(frozen=True, repr=False)
class ModelWeight(Report, kind="weight", keys=WEIGHT_KEYS):
    """A weight of a model.

    weight: what its numbers are
    tiles: their means, row by row; NaN where a number of them is. [≤ 128, ≤ 128]
    zero_tiles: the share of each tile that is exactly 0. [≤ 128, ≤ 128]
    """

    weight: WeightNumbers
    tiles: np.ndarray
    zero_tiles: np.ndarray

    def tables(self) -> list[Table]:
        w = self.weight
        facts = [
            ["mean", number(w.mean)],
            ["standard deviation", number(w.std)],
            ["from", number(w.least)],
            ["to", number(w.most)],
            ["zeros", f"{w.zeros:,} of {w.count:,} ({w.zeros / w.count:.1%})"],
        ]
        facts += [["NaN or infinite", f"{w.bad:,}"]] if w.bad else []
        return [Table([w.name, f"{' × '.join(map(str, w.shape))}, {w.stored}"], facts, left=1)]

    def charts(self) -> Sequence[Series]:
        w = self.weight
        line = SeriesLine("numbers", w.edges[:-1], [float(n) for n in w.counts], bars=True)
        return [Series(title=f"Numbers of {w.name}", x_label="number", y_label="how many", lines=[line])]


def architecture(session: Session, *, progress: Progress = lambda done, of: None) -> ModelArchitecture:
    """The modules of a model, with what they cost for the text of a session.

    Args:
        progress: called while the zeros of the weights are counted, with the number of weights done and of all
    Raises: UnsupportedError: the network has no weights.
    """
    network = session.network
    _own_weights(network)
    lengths = {name: len(tokens) for name, tokens in session.streams.items()}
    source = lengths.get("source") if "target" in lengths else None
    tokens = max(lengths.values()) if source is None else lengths["target"]
    texts = f"{tokens:,} tokens" if source is None else f"{source:,} source and {tokens:,} target tokens"
    return ModelArchitecture(type(network).__name__, texts, _parts(network, tokens, source, progress))


def weight_numbers(
    session: Session, *, parameter: str | None = None, progress: Progress = lambda done, of: None
) -> ModelWeight:
    """The numbers of one weight of a model.

    Args:
        parameter: name of the weight, as in `named_parameters()`; None: that of q, k and v in the first block
        progress: called while the weight is read, with the number of its blocks done and of all
    Raises: ConfigError: no such weight. UnsupportedError: the network has none.
    """
    stored = _own_weights(session.network)
    if parameter is not None and parameter not in stored:
        raise ConfigError(f"no weight is named {safe_repr(parameter)}{nearest(parameter, stored)}")
    name = parameter or next((name for name in stored if name.endswith(".qkv.weight")), next(iter(stored)))
    numbers, tiles, zeros = _read(name, stored[name], progress)
    return ModelWeight(numbers, tiles.numpy(), zeros.numpy())


def _own_weights(network: nn.Module) -> dict[str, Stored]:
    """The weights of a network by name. Raises: UnsupportedError: it has none."""
    if stored := weights_of(network):
        return stored
    raise UnsupportedError(f"{type(network).__name__} has no weights of its own: another engine runs it")


def weights_of(network: nn.Module) -> dict[str, Stored]:
    """The weights of a network by name, however they are stored; tied ones under each of their names."""
    weights: dict[str, Stored] = {}
    for path, module in network.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        if isinstance(module, StoredLevels):
            owner = network.get_submodule(path.removesuffix(".stored"))
            weights[f"{path.removesuffix('.stored')}.weight"] = owner if isinstance(owner, QuantisedLinear) else module
        for leaf, value in module.named_parameters(recurse=False):
            weights[prefix + leaf] = value
    return weights


def _parts(
    network: Node, tokens: int, source: int | None, progress: Progress = lambda done, of: None
) -> list[ModulePart]:
    saved = activations(network, tokens=tokens, source=source)
    zeros = _zeros(network, progress)
    return [
        ModulePart(
            name=line.name,
            path=line.path,
            depth=line.depth,
            repeats=line.repeats,
            kind=line.kind,
            shape=line.shape,
            parameters=line.parameters,
            bytes=line.bytes,
            flops=line.flops,
            activations=None if _is_scores(line) else saved.get(nth_of(line.path, 0)),
            zeros=_share_of_zeros(line, zeros),
            weights=[_weight_name(line, weight.leaf, weight.tied_to) for weight in line.weights],
        )
        for line in tree_lines(summary(network, tokens=tokens, source=source).root)
    ]


def _zeros(network: nn.Module, progress: Progress = lambda done, of: None) -> dict[str, tuple[int, int]]:
    """Of each weight how many numbers are exactly 0, and how many there are; of tied ones the first name alone."""
    counts, seen, weights = {}, set[int](), weights_of(network)
    for done, (name, stored) in enumerate(weights.items()):
        owner = stored.stored if isinstance(stored, QuantisedLinear) else stored
        if id(owner) not in seen:
            seen.add(id(owner))
            rows, columns = _as_matrix(_shape(stored))
            size = max(BLOCK // max(columns, 1), 1)
            blocks = (slice(start, start + size) for start in range(0, rows, size))
            counts[name] = sum(int((_rows(stored, block, columns) == 0).sum()) for block in blocks), rows * columns
        progress(done + 1, len(weights))
    return counts


def _share_of_zeros(line: TreeLine, zeros: Mapping[str, tuple[int, int]]) -> float | None:
    """Of the parameters of a module, and of those below it."""
    folded = [_numbers_of(step) for step in line.path.split(".")] if line.path else []

    def covers(name: str) -> bool:
        steps = name.split(".")
        return len(steps) > len(folded) and all(step in own for step, own in zip(steps, folded, strict=False))

    counts = [count for name, count in zeros.items() if covers(name)]
    every = sum(of for _, of in counts)
    return sum(zero for zero, _ in counts) / every if every and line.parameters else None


def _numbers_of(step: str) -> set[str]:
    """The steps that a folded one stands for: `0-2,5` → 0, 1, 2, 5."""
    if not step[:1].isdigit():
        return {step}
    spans = [each.split("-") for each in step.split(",")]
    return {str(number) for span in spans for number in range(int(span[0]), int(span[-1]) + 1)}


def _is_scores(line: TreeLine) -> bool:
    """Whether a line is the products of attention, which are no module."""
    return not line.parameters and not line.weights and bool(line.flops)


def _weight_name(line: TreeLine, leaf: str, tied_to: str | None) -> str:
    if tied_to is not None:
        return f"{tied_to.removesuffix('.stored')}.weight" if leaf == "levels" else tied_to
    path = nth_of(line.path, 0)
    name = "weight" if leaf == "levels" else leaf
    return f"{path}.{name}" if path else name


# ── the numbers of a weight ──────────────────────────────────────────────────────────────────────────────


def _read(name: str, stored: Stored, progress: Progress) -> tuple[WeightNumbers, Tensor, Tensor]:
    """Read a weight twice, block by block: for mean, range and tiles, then for deviation and histogram."""
    shape = _shape(stored)
    rows, columns = _as_matrix(shape)
    step = [-(-rows // TILES), -(-columns // TILES)]
    size = max(BLOCK // max(columns, 1) // step[0], 1) * step[0]
    blocks = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
    total, finite, zeros, least, most = 0.0, 0, 0, float("inf"), float("-inf")
    tiles, empty = [], []
    for done, block in enumerate(blocks):
        x = _rows(stored, block, columns)
        none = x == 0
        tiles.append(F.avg_pool2d(x[None, None], (step[0], step[1]), ceil_mode=True)[0, 0])
        empty.append(F.avg_pool2d(none.float()[None, None], (step[0], step[1]), ceil_mode=True)[0, 0])
        good = _finite(x)
        zeros += int(none.sum())
        if good.numel():
            total, finite = total + float(good.sum(dtype=torch.float64)), finite + good.numel()
            least, most = min(least, float(good.min())), max(most, float(good.max()))
        progress(done + 1, 2 * len(blocks))
    mean = total / finite if finite else float("nan")
    low, high = (least, most) if finite else (0.0, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    squares, counts = 0.0, torch.zeros(BARS, dtype=torch.float64)
    for done, block in enumerate(blocks):
        good = _finite(_rows(stored, block, columns))
        squares += float((good - mean).square().sum(dtype=torch.float64))
        counts += torch.histc(good, BARS, low, high).double()
        progress(len(blocks) + done + 1, 2 * len(blocks))
    numbers = WeightNumbers(
        name=name,
        shape=list(shape),
        stored=_kind(stored),
        step=step,
        count=rows * columns,
        zeros=zeros,
        bad=rows * columns - finite,
        mean=mean,
        std=(squares / finite) ** 0.5 if finite else float("nan"),
        least=least if finite else float("nan"),
        most=most if finite else float("nan"),
        edges=torch.linspace(low, high, BARS + 1, dtype=torch.float64).tolist(),
        counts=[int(n) for n in counts.tolist()],
    )
    return numbers, torch.cat(tiles).float(), torch.cat(empty)


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a weight; a vector is one row."""
    return (shape[0] if len(shape) > 1 else 1), math.prod(shape[1:] if len(shape) > 1 else shape)


def _shape(stored: Stored) -> tuple[int, ...]:
    if isinstance(stored, nn.Parameter):
        return tuple(stored.shape)
    levels = stored.stored if isinstance(stored, QuantisedLinear) else stored
    return levels.rows, levels.columns


def _kind(stored: Stored) -> str:
    if isinstance(stored, nn.Parameter):
        return str(stored.dtype).removeprefix("torch.")
    return f"int{(stored.stored if isinstance(stored, QuantisedLinear) else stored).bits}"


def _rows(stored: Stored, block: slice, columns: int) -> Tensor:
    """Some rows of a weight as numbers, in float32 or float64 on the CPU. [rows, columns]"""
    if isinstance(stored, nn.Parameter):
        values = stored.detach().reshape(-1, columns)[block]
    elif isinstance(stored, StoredLevels):
        values = stored.numbers(block)
    else:
        values = stored.stored.numbers(block)
        if stored.input_factors is not None:
            values = values * stored.input_factors.to(values.dtype)
    return values.to("cpu", torch.promote_types(values.dtype, torch.float32))


def _finite(x: Tensor) -> Tensor:
    """The finite numbers of a tensor; itself where all are."""
    good = x.isfinite()
    return x if good.all() else x[good]


# ── words of the finding ─────────────────────────────────────────────────────────────────────────────────


def _share(part: ModulePart, of: str, root: ModulePart) -> str:
    share = getattr(part, of) * part.repeats / max(getattr(root, of), 1)
    return percent(share, 0 if share >= 0.005 else 1)
