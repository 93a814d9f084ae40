"""Logit lens: what the model would say if it ended after a layer.

    residual stream after layer l ─ final norm ─ head ─ logits: the most likely outputs, entropy, divergence to the end

Row 0 is the embedding, row l + 1 what leaves layer l, the last row the model's own output. L × T × V logits are never
in memory: a part of the columns is read at a time, at all layers. Of a long text a page asks for the columns on screen
(`first`, `count`), since the time is that of C × V logits.

Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; KL divergence: Belrose et al. 2023, "Eliciting latent
predictions from transformers with the tuned lens", section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.flow import Batch, Flow
from glassformer.errors import DataError
from glassformer.files import counted
from glassformer.files.schema import refuse_unknown
from glassformer.inspect.numbers import level_names
from glassformer.inspect.outputs import OutputNames, OutputTable, check_logits, output_table
from glassformer.inspect.tokens import Token
from glassformer.models import Network, eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

LOGITS_AT_ONCE = 1 << 24
"""Logits that exist at a time: 67 MB in fp32. A text of fewer is read as the model reads it, so its last row is bit for
bit the model's output."""

NUMBERS_AT_ONCE = 1 << 22
"""Numbers of a temporary tensor: 17 MB, which memory that was just freed holds; larger ones are allocated again."""

SHOWN_CHARACTERS = 12
"""Of an output in a cell of the table of a lens."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LensCell:
    """What the head reads at a layer in a column.

    top: the most likely outputs, with their probabilities
    entropy_bits, kl_bits: of the distribution; from it to the model's own
    rank, probability: of the column's target
    """

    top: list[tuple[str, float]]
    entropy_bits: float
    kl_bits: float
    rank: int
    probability: float


@dataclass(frozen=True, repr=False)
class Lens(Report, kind="lens", keys=("output_kind", "stream", "first", "columns", "target_names", "rows", "cells")):
    """The logit lens of a pass: rows × columns, a row for the embedding and one for each layer.

    about: what columns and choices are
    ids, logits, logprobs: the k most likely choices of each cell, the first the most likely. [L + 1, C, k]
    entropy: of the distribution of a cell, in bits. [L + 1, C]
    kl: KL divergence of the last row's distribution from a cell's, in bits; 0 in the last row. [L + 1, C]
    targets: the choice that each column is asked about; by default the model's own. [C]
    ranks, target_logprobs: of the target in each cell; rank 1 = the most likely. [L + 1, C]
    choices: how many there are
    followed: the target that was asked for in all columns; None = the model's own in each
    first: the first column that was read, of those that `about` names

    Where choices do not exclude each other (several labels, a number), log-probabilities are each by itself (the log of
    a sigmoid), and entropy and KL divergence are the sums over choices.
    """

    about: OutputTable
    ids: Tensor
    logits: Tensor
    logprobs: Tensor
    entropy: Tensor
    kl: Tensor
    targets: Tensor
    ranks: Tensor
    target_logprobs: Tensor
    choices: int
    followed: int | None = None
    first: int = 0

    @property
    def output_kind(self) -> str:
        """What the choices are: entries of a vocabulary, labels, or positions."""
        return self.about.kind

    @property
    def stream(self) -> str:
        """The stream that the head reads."""
        return self.about.stream

    @property
    def columns(self) -> list[str]:
        """The names of the columns that were read."""
        return self.about.column_names[self.first : self.first + len(self.targets)]

    @property
    def target_names(self) -> list[str]:
        """The name of each column's target."""
        return [self.about.name(choice) for choice in self.targets.tolist()]

    @property
    def rows(self) -> list[str]:
        """The names of the rows."""
        return level_names(len(self.ids))

    def top(self, row: int, column: int) -> list[tuple[str, float]]:
        """The most likely outputs of a cell, with their probabilities."""
        pairs = zip(self.ids[row, column].tolist(), self.logprobs[row, column].exp().tolist(), strict=True)
        return [(self.about.name(choice), p) for choice, p in pairs]

    def settled(self, column: int) -> int:
        """The first row from which on the most likely output is that of the end."""
        same = self.ids[:, column, 0] == self.ids[-1, column, 0]
        return int((~same).nonzero().max()) + 1 if not bool(same.all()) else 0

    @property
    def cells(self) -> list[list[LensCell]]:
        """What the head reads in each row, at each column."""
        names = {choice: self.about.name(choice) for choice in set(self.ids.flatten().tolist())}
        numbers = (self.ids, self.logprobs.exp(), self.entropy, self.kl, self.ranks, self.target_logprobs.exp())
        return [
            [
                LensCell([(names[i], p) for i, p in zip(ids, shares, strict=True)], *others)
                for ids, shares, *others in zip(*row, strict=True)
            ]
            for row in zip(*(x.tolist() for x in numbers), strict=True)
        ]

    @property
    def heading(self) -> str:
        shown = "the most likely output" if self.followed is None else f"rank of {self.about.name(self.followed)}"
        shown = "each label" if self.about.columns == "text" else shown
        text = f"logit lens: {shown} after each layer, and its probability; the last column is the model's output"
        return f"{text}. {self.doubt}" if self.doubt else text

    @property
    def doubt(self) -> str:
        """A sentence, where the model's likeliest label is hardly better than chance; else ""."""
        return self.about.doubt(float(self.logprobs[-1, 0, 0].exp()), self.choices)

    def tables(self) -> list[Table]:
        """A row for each column of the lens, or for each label of one output; a column for each layer."""
        first = {"tokens": "after" if self.about.causal else "at", "text": "label", "span": ""}[self.about.columns]
        lines = self._label_rows() if self.about.columns == "text" else self._column_rows()
        rows = [[name or "␣", *(text for text, _ in cells)] for name, cells in lines]
        shades = [[share for _, share in cells] for _, cells in lines]
        return [Table([first, *(row.removeprefix("layer ") for row in self.rows)], rows, shades=shades, evenly=True)]

    def _column_rows(self) -> list[tuple[str, list[tuple[str, float]]]]:
        """Of each column what its cells say: the best output or the target's rank, and its probability."""
        cells = self.cells

        def shown(cell: LensCell) -> tuple[str, float]:
            name, share = cell.top[0] if self.followed is None else (f"{cell.rank:,}", cell.probability)
            short = name if len(name) <= SHOWN_CHARACTERS else name[: SHOWN_CHARACTERS - 1] + "…"
            return f"{short or '␣'} {percent(share)}", share

        return [(name, [shown(row[column]) for row in cells]) for column, name in enumerate(self.columns)]

    def _label_rows(self) -> list[tuple[str, list[tuple[str, float]]]]:
        """Of each label its probability after each layer; of many labels those at the end, and where they are known."""
        ids, shares = self.ids[:, 0].tolist(), self.logprobs[:, 0].exp().tolist()
        known = [dict(zip(*row, strict=True)) for row in zip(ids, shares, strict=True)]
        labels = ids[-1] if len(ids[-1]) < self.choices else range(self.choices)
        return [
            (
                self.about.name(label),
                [(percent(row[label], 1), row[label]) if label in row else ("", 0.0) for row in known],
            )
            for label in labels
        ]


class LensOptions(TypedDict, total=False):
    """Options of `Session.lens`.

    top: how many outputs of each cell; 10
    progress: called with the number of parts done and of all
    target: an output to follow in all columns, by name or number; None = the model's own in each
    first, count: of a column a token: the first that is read, from 0, and how many; all
    """

    first: int
    count: int | None
    top: int
    target: str | int | None
    progress: Progress


@torch.no_grad()
def read_lens(session: Session, options: LensOptions) -> Lens:
    """The logit lens of a session; see `Session.lens`."""
    refuse_unknown("lens", options, LensOptions)
    top, target = options.get("top", 10), options.get("target")
    progress: Progress = options.get("progress", lambda done, of: None)
    if top < 1:
        raise DataError(f"top is {top}; it must be 1 or more")
    network, batch, streams, names = session.network, session.batch, session.streams, session.names()
    stream = network.head_stream()
    states = [session.states(layer, stream) for layer in range(len(session.stream_taps(stream)))]
    parts: list[dict[str, Tensor]] = []
    about, followed = None, None
    spans = _spans(network, range(len(states[0])), options)
    with eval_mode(network):
        for span in spans:
            (logits,), table = _read(network, batch, states[-1][None, span], streams, names)
            about = about or table
            count = logits.shape[-1]
            followed = about.find(target, count) if target is not None and followed is None else followed
            wanted = logits.argmax(-1)
            if followed is not None:
                wanted = torch.full_like(wanted, followed)
            step = max(1, NUMBERS_AT_ONCE // count)
            end = [_Distribution(each, about.normalised) for each in logits.split(step)]
            earlier = _earlier(network, batch, [x[span] for x in states[:-1]], streams, names)
            before = ((_Distribution(each, about.normalised) for each in read.split(step)) for read in earlier)
            rows = []
            for here in chain(before, [end]):
                some = zip(here, end, wanted.split(step), strict=True)
                cells = [one.cells(last, aims, min(top, count)) for one, last, aims in some]
                rows.append({name: torch.cat([each[name] for each in cells]) for name in cells[0]})
                progress(len(parts) * len(states) + len(rows), len(spans) * len(states))
            stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
            parts.append({**stacked, "targets": wanted[None]})
    assert about is not None
    joined = {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}
    whole = range(len(about.column_names))
    columns = _columns(whole, options) if about.columns == "tokens" else whole
    if not _vocabulary(network):  # its head read all of them
        joined = {name: x[:, columns.start : columns.stop] for name, x in joined.items()}
    targets = joined.pop("targets")[0]
    return Lens(about=about, choices=count, followed=followed, first=columns.start, targets=targets, **joined)


def _columns(tokens: range, options: LensOptions) -> range:
    """The tokens that are asked for. Raises: DataError: there are none."""
    first, count = options.get("first", 0), options.get("count")
    columns = tokens[first:] if count is None else tokens[first : first + count]
    if first < 0 or not columns:
        asked = f"first is {first}" if count is None else f"first is {first}, count {count}"
        raise DataError(
            f"{asked}; the text has {counted(len(tokens), 'token')}, from 0: give a first below {len(tokens)}"
        )
    return columns


def _read(
    network: Network, batch: Batch, x: Tensor, streams: dict[str, list[Token]], names: OutputNames
) -> tuple[Tensor, OutputTable]:
    """Logits of streams [R, C, D] → [R, C, V], and what they mean."""
    logits, table = output_table(network, network.read_stream(x, batch, Flow()), streams, names)
    check_logits(logits, network)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)), table


def _earlier(
    network: Network, batch: Batch, rows: Sequence[Tensor], streams: dict[str, list[Token]], names: OutputNames
) -> Iterator[Tensor]:
    """Logits [C, V] of one row after another; of a short text many are read at a time, since a vocabulary's weights are
    what takes long to fetch.
    """
    vocabulary = _vocabulary(network)
    together = max(1, LOGITS_AT_ONCE // (len(rows[0]) * vocabulary)) if vocabulary and rows else 1
    for start in range(0, len(rows), together):
        logits, _ = _read(network, batch, torch.stack(list(rows[start : start + together])), streams, names)
        yield from logits


def _vocabulary(network: Network) -> int:
    """Entries that the head chooses from at each position by itself; 0: it reads more than one position at a time."""
    return network.target_vocabulary if network.head is not None and network.head.OVER_VOCABULARY else 0


def _spans(network: Network, tokens: range, options: LensOptions) -> list[slice]:
    """Parts of the columns that are asked for; a head that reads more than one position at a time reads all."""
    vocabulary = _vocabulary(network)
    if not vocabulary:
        return [slice(tokens.start, tokens.stop)]
    columns, count = _columns(tokens, options), max(1, LOGITS_AT_ONCE // vocabulary)
    return [slice(start, min(start + count, columns.stop)) for start in columns[::count]]


class _Distribution:
    """Logits of some columns [C, V], and what is computed of them more than once."""

    def __init__(self, logits: Tensor, normalised: bool) -> None:
        self.logits, self.normalised = logits, normalised
        if normalised:
            largest = logits.amax(-1, keepdim=True)
            self.shifted = logits - largest
            self.weights = self.shifted.exp()
            self.total = self.weights.sum(-1)
            self.log_total = self.total.log()
            self.normaliser = largest[:, 0] + self.log_total
        self.entropy = self.cross_entropy(self)

    def logprobs(self, logits: Tensor) -> Tensor:
        """Of chosen logits [C, …]."""
        if not self.normalised:
            return F.logsigmoid(logits)
        return logits - self.normaliser.view(-1, *[1] * (logits.dim() - 1))

    def cross_entropy(self, other: _Distribution) -> Tensor:
        """-Σ p log q, with q of the other. [C]"""
        if not self.normalised:
            p = self.logits.sigmoid()
            return -(p * F.logsigmoid(other.logits) + (1 - p) * F.logsigmoid(-other.logits)).sum(-1)
        return other.log_total - torch.einsum("cv,cv->c", self.weights, other.shifted) / self.total

    def cells(self, last: _Distribution, wanted: Tensor, top: int) -> dict[str, Tensor]:
        """What the lens shows of these columns."""
        logits, ids = self.logits.topk(top, dim=-1)
        target = self.logits.gather(-1, wanted[:, None])
        kl = torch.zeros_like(self.entropy) if self is last else last.cross_entropy(self) - last.entropy
        return {
            "ids": ids,
            "logits": logits,
            "logprobs": self.logprobs(logits),
            "entropy": self.entropy.clamp(min=0) / math.log(2),
            "kl": kl.clamp(min=0) / math.log(2),
            "ranks": torch.count_nonzero(self.logits > target, dim=-1) + 1,
            "target_logprobs": self.logprobs(target)[:, 0],
        }
