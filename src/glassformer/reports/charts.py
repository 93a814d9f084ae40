"""Charts, passages and rows of a report as data: line charts, trade-offs, matrices, texts. The page draws them.

    Series(title="Loss", x_label="step", lines=[SeriesLine("training", steps, losses)])
    TradeOff("Size and score", Axis("size", "MB", more=False), Axis("F1", more=True), [Point("fp16", size, score)])

Bars with intervals are no class of their own: the page draws a table's column of `IntervalCell` as bars on one scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from glassformer.reports.table import IntervalCell


@dataclass(frozen=True)
class SeriesLine:
    """A line of a chart.

    x, y: its points, x ascending; NaN is no point [N]
    low, high: a band around it, as of intervals
    group: lines of one group, such as a run, have one colour over all charts of a report and are switched together
    faint: drawn pale behind the line after it, which smooths it
    dashed: as baselines are
    markers: a dot at each point
    bars: a bar from zero at each point, as wide as the distance to the next one
    best: x of the point that is marked as the best
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    _: KW_ONLY
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    group: str = ""
    faint: bool = False
    dashed: bool = False
    markers: bool = False
    bars: bool = False
    best: float | None = None

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        if len(lengths) != 1 or (self.low is None) != (self.high is None):
            raise ValueError(f"line {self.name!r}: x, y, and low with high must be equally long")


@dataclass(frozen=True)
class Marks:
    """Places on the x axis, such as checkpoints.

    alert: something went wrong there: a line across the chart.
    """

    name: str
    at: Sequence[float]
    _: KW_ONLY
    group: str = ""
    alert: bool = False


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """The model that was kept of a place on the x axis: a click on a chart says which, and leads to its rows.

    at: its x
    rows: where its rows are: the path of another page, or "#TITLE" of a part of this one; "" = they were not evaluated
    states: x of training states that are kept, of which no rows were evaluated
    removed: x of training states that were removed when newer ones were saved
    group: whose it is
    """

    at: float
    rows: str
    states: Sequence[float] = ()
    removed: Sequence[float] = ()
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line chart.

    x_label: charts with the same one are zoomed and pointed at together
    wide: as wide as the page
    folded: behind a click, with the others that are
    note: a sentence below it
    saved: the models of which a click on it, and on those with the same x axis, tells
    """

    title: str
    x_label: str
    y_label: str = ""
    lines: Sequence[SeriesLine]
    marks: Sequence[Marks] = ()
    log_x: bool = False
    log_y: bool = False
    wide: bool = False
    folded: bool = False
    note: str = ""
    saved: Sequence[SavedModel] = ()


@dataclass(frozen=True)
class Axis:
    """An axis of a trade-off.

    more: is more of it better? None: neither
    ticks: values that are labelled where there is room for all; else round numbers
    """

    label: str
    unit: str = ""
    _: KW_ONLY
    more: bool | None = None
    log: bool = False
    ticks: Sequence[float] = ()


@dataclass(frozen=True)
class Point:
    """A point of a trade-off.

    x, y: numbers, with intervals where they have some
    size: area of its dot, relative to the others
    group: one of those of the trade-off, whose colour it has
    mark: written next to its dot; "" = its name
    """

    name: str
    x: IntervalCell
    y: IntervalCell
    _: KW_ONLY
    size: float | None = None
    baseline: bool = False
    group: str = ""
    mark: str = ""


@dataclass(frozen=True)
class TradeOff:
    """Points between two amounts, of which one costs the other; those that no other beats in both are joined.

    groups: of points, in the order of their colours, which are those of the lines of a chart next to it
    """

    title: str
    x: Axis
    y: Axis
    points: Sequence[Point]
    groups: Sequence[str] = ()


@dataclass(frozen=True)
class PairCounts:
    """Counts of pairs of a true and a predicted class; a cell chooses the rows of a `RowBrowser` next to it.

    names: of the classes
    counts: rows are true classes, columns predicted ones. [C][C]
    unit: what is counted
    """

    title: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]
    unit: str = "rows"


Chart = Series | TradeOff | PairCounts


@dataclass(frozen=True)
class TextMark:
    """A part of a text that is marked.

    start, stop: its characters
    note: what it is, shown where one points at it
    strong: the part that the others are around, such as an answer
    """

    start: int
    stop: int
    note: str
    _: KW_ONLY
    strong: bool = False


@dataclass(frozen=True)
class Passages:
    """Texts side by side, such as what systems wrote for one row.

    texts, references: name and text of each
    marks: parts of each of the texts
    source: what they were made from, folded
    """

    title: str
    texts: Sequence[tuple[str, str]]
    _: KW_ONLY
    references: Sequence[tuple[str, str]] = ()
    marks: Sequence[Sequence[TextMark]] = ()
    source: str = ""


RowKind = Literal["classes", "labels", "number", "tags", "texts"]
"""What a row has as its label: a class, several labels, a number, a tag for each word, a text."""


@dataclass(frozen=True, kw_only=True)
class BrowserRow:
    """A row of data, and what a model predicted of it.

    index: its number in the file
    where: its file and line
    texts: its inputs by name
    words: of which each has a tag, instead of texts
    true, predicted: classes, labels, tags or texts, or a number as text
    correct: None = neither right nor wrong
    loss: in nats
    scores: probabilities of the likeliest classes
    losses: of each word; None = it was not evaluated
    values: metrics of this row
    groups: of the rows, to which it belongs
    whole: characters of its texts, where these are cut
    look: what the explorer opens with: texts
    page: address of its page in the explorer
    fingerprint: by which a correction of its label is known to be of this row; "" = it cannot be corrected
    """

    index: int
    where: str
    texts: Mapping[str, str] = field(default_factory=dict)
    words: Sequence[str] = ()
    true: Sequence[str] = ()
    predicted: Sequence[str] = ()
    correct: bool | None = None
    loss: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    losses: Sequence[float | None] = ()
    values: Mapping[str, float | None] = field(default_factory=dict)
    groups: Sequence[str] = ()
    whole: int | None = None
    look: Sequence[str] = ()
    page: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class RowBrowser:
    """Rows with their predictions: ordered, filtered, searched, a page of them at a time. One on a page.

    names: classes, labels or tags by which rows are filtered
    grouped_by: what the groups of the rows are
    command: that opens the explorer on the texts of a row
    explorer: its address, where it is served next to the page
    first: how many rows are shown until one asks for all; None = a page of them
    review: the command that reads a sheet of corrected labels, after which its path comes
    doubt: a sentence, where the predictions are hardly better than chance
    """

    rows: Sequence[BrowserRow]
    kind: RowKind
    names: Sequence[str] = ()
    grouped_by: str = ""
    command: str = ""
    explorer: str = ""
    first: int | None = None
    review: str = ""
    doubt: str = ""
