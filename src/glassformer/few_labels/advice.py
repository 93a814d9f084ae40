"""The report of an advice: steps with reasons and commands, the labels of the rows, and what others have measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from glassformer.few_labels.curves import MeasuredCurve, MeasuredCurves, MeasuredData
from glassformer.few_labels.row_facts import RowFacts
from glassformer.files import counted
from glassformer.reports.charts import Marks, Series, SeriesLine
from glassformer.reports.page import shown_label
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, bar, number, percent

MAX_LABELS = 12
Branch = Literal["none", "one", "few", "many"]


@dataclass(frozen=True, kw_only=True)
class AdviceStep(Record):
    """Something to do.

    why: a sentence
    expected: what it may bring, by measurements on other data
    command: that does it; empty = it is done by hand
    """

    what: str
    why: str
    command: str = ""
    expected: str = ""

    @property
    def reason(self) -> str:
        """Why, as a sentence."""
        return f"{self.why[:1].upper()}{self.why[1:]}."


@dataclass(frozen=True, kw_only=True, repr=False)
class Advice(Report, kind="advice", keys=("branch", "steps", "facts", "model", "finding", "notes", "measured")):
    """What to do next with rows of which few have a label, or none.

    branch: of the decision tree: no label, one label alone, few, or many
    steps: in their order
    facts: what the rows are
    model: sentence encoder of the commands
    measured: the curves of other data that expectations are read off
    """

    branch: Branch
    steps: list[AdviceStep]
    facts: RowFacts
    model: str
    measured: MeasuredCurves
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"What to do next with {Path(self.facts.file).name}"

    @property
    def heading(self) -> str:
        facts = self.facts
        labels = f" of {counted(len(facts.labels), 'label')}" if facts.labels else ""
        kinds = ", several a row" if facts.several else ""
        shares = ", ".join(f"{name} {percent(share)}" for name, share in facts.languages.items())
        language = f"{'script' if facts.scripts else 'language'}: {shares or 'too short to tell'}"
        return (
            f"{counted(facts.labelled, 'row')} with a label{labels}{kinds}, {facts.unlabelled:,} without; "
            f"{facts.words['50%']:.0f} words in the median, {facts.words['95%']:.0f} at 95%; {language}{self._columns}"
        )

    @property
    def _columns(self) -> str:
        """Which column of labels was taken, or that there is none."""
        text, label, others = self.facts.columns["text"], self.facts.columns.get("label"), self.facts.others
        if self.facts.guessed:
            return f"; texts are read from {text!r}, labels from {label!r} (a guess; another: --column label=NAME)"
        if label is None and others:
            named = ", ".join(map(repr, others[:MAX_LABELS]))
            return f"; no column 'label': if labels are in one of {named}, name it: --column label=NAME"
        return ""

    @property
    def finding(self) -> str:
        """The branch of the decision tree, in a sentence."""
        labelled, each = (
            counted(self.facts.labelled, "labelled row"),
            f"{number(self.facts.per_label)} of a label in the median",
        )
        return {
            "none": "No row has a label: label a few of each kind; until then the names of labels are all there is.",
            "one": "All labelled rows have one label: label rows of another kind.",
            "few": f"{labelled} ({each}) are few: compare methods on them before you train one.",
            "many": f"{labelled} ({each}) are many: fine-tune an encoder.",
        }[self.branch]

    @property
    def commands(self) -> list[str]:
        """Those of all steps, in their order."""
        return [step.command for step in self.steps if step.command]

    def tables(self) -> list[Table]:
        """What to do, the labels, and what methods reached on other data; `commands` are the commands."""
        steps = [[f"{i}.", _paragraph(step)] for i, step in enumerate(self.steps, 1)]
        return [Table(["", "what to do next"], steps, left=2, longest=2_000), *self._numbers()]

    def page_tables(self) -> list[Table]:
        """The same, each step with its command."""
        rows = [[f"{i}. {x.what}", f"{x.reason} {x.expected}".rstrip()] for i, x in enumerate(self.steps, 1)]
        commands = [step.command for step in self.steps]
        headings = ["what to do next", "why, and the command"]
        return [Table(headings, rows, left=2, longest=2_000, commands=commands), *self._numbers()]

    def _numbers(self) -> Iterator[Table]:
        if self.facts.labels:
            yield self._label_table()
        yield from map(self._expected_table, self.measured.data_sets)

    def _label_table(self) -> Table:
        counts = list(self.facts.labels.items())
        most, total = counts[0][1], max(self.facts.labelled, 1)
        rows = [[shown_label(x), bar(n / most, 16), f"{n:,}", percent(n / total)] for x, n in counts[:MAX_LABELS]]
        rarest = (
            f"the {MAX_LABELS} most frequent of {len(counts):,} labels; the rarest has {counted(counts[-1][1], 'row')}"
        )
        return Table(["label", "", "rows", "share"], rows, rarest * (len(counts) > MAX_LABELS), left=2)

    def _expected_table(self, data: MeasuredData) -> Table:
        """What methods reached there with as many labels a class, with twice as many, and where all can be compared."""
        now = self.facts.labels_in(data)
        near = [x.near(each).labels for x in data.curves if x.needs_labels for each in (now, 2 * now)]
        all_of = data.common(now, [x.name for x in data.curves])
        numbers: list[int | None] = [*sorted({n for n in (*near, all_of) if n})] or [None]
        rows = [[x.name, *("–" if (point := x.at(n)) is None else point.written for n in numbers)] for x in data.curves]
        headings = ["method", *(data.metric if n is None else f"{data.metric}, {n:,} labels" for n in numbers)]
        about = f"Other data: as many labels a class as yours is {now:,.0f} there; – was not measured"
        return Table(headings, rows, f"{about}. {data.described}")

    def charts(self) -> list[Series]:
        """The measured curves, with where these rows are."""
        known = [data for data in self.measured.data_sets if data.most]
        return [self._chart(data, folded=i > 0) for i, data in enumerate(known)]

    def _chart(self, data: MeasuredData, *, folded: bool) -> Series:
        sizes = sorted({x.labels for curve in data.curves for x in curve.points if x.labels})
        here = self.facts.labels_in(data)
        marks = [Marks("as many a class as here", [round(here)])] if sizes[0] <= here <= sizes[-1] else []
        return Series(
            title=f"Other data: {data.name}", x_label="labels", y_label=data.metric, log_x=True, folded=folded,
            wide=not folded, marks=marks, lines=[_line(curve, sizes) for curve in data.curves], note=data.described,
        )  # fmt: skip

    def remarks(self) -> list[str]:
        """What one has to know of the advice."""
        return self.notes


def _paragraph(step: AdviceStep) -> str:
    return "\n".join(filter(None, [step.what, step.reason, step.expected]))


def _line(curve: MeasuredCurve, sizes: list[int]) -> SeriesLine:
    """A curve; of a method that needs no labels a horizontal line."""
    points = curve.points if curve.needs_labels else [*curve.points[:1]] * 2
    numbers = [x.labels or 0 for x in points] if curve.needs_labels else [sizes[0], sizes[-1]]
    flat = not curve.needs_labels
    return SeriesLine(curve.name, numbers, [x.value for x in points], dashed=flat, markers=not flat, group=curve.name)
