"""Compare text generation systems on the same rows, by BLEU or ROUGE with confidence intervals.

    rows ─ some at a time ─┬─ lead-3 ──┐
                           ├─ MODEL_A ─┼─ counts of each row (never its texts) ─> figures, intervals, differences
                           └─ MODEL_B ─┘

Memory does not grow with the texts: of a row its counts are kept, and of the first few all that was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from time import perf_counter
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.pages.tables import html_table
from glassformer.tasks.generate.long import Summariser, check_written
from glassformer.tasks.generate.rows import Row
from glassformer.tasks.metrics.bleu import BleuMetric, ChrfMetric
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.metrics.rouge import KINDS, RougeMetric
from glassformer.tasks.metrics.text_metric import TextMetric

TASKS = ("summarization", "translation")
INTERVAL = "95 % interval"


@dataclass(frozen=True)
class System:
    """Something that writes a text about each text: a model, a baseline, any function."""

    name: str
    write: Summariser


@dataclass(frozen=True)
class SystemScores:
    """How one system did.

    figures: by name · differences: how far they lie above those of the first system; empty for that one
    seconds: for a row, on average · words: of what it wrote for a row, on average
    """

    name: str
    figures: dict[str, Interval]
    differences: dict[str, Interval]
    seconds: float
    words: float


@dataclass(frozen=True)
class Example:
    """One row and what each system wrote about it, by name."""

    line: int
    text: str
    references: list[str]
    outputs: dict[str, str]


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found.

    shown: the figures that a table shows, with their digits · words: of a reference, on average
    methods: how the figures were counted · interrupted: are these only the rows judged before Ctrl-C?
    """

    task: str
    rows: int
    words: float
    systems: list[SystemScores]
    examples: list[Example]
    shown: dict[str, int]
    methods: list[str]
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: for each figure every system, and how far it lies above the first on the same rows."""
        headings = ["", "", "", INTERVAL, *(["difference", INTERVAL] if len(self.systems) > 1 else [])]
        rows = [
            ["" if number else name.removesuffix(" f"), result.name, *self._cells(result, name, digits)]
            for name, digits in self.shown.items()
            for number, result in enumerate(self.systems)
        ]
        rows += [["" if i else "words", one.name, f"{one.words:.1f}"] for i, one in enumerate(self.systems)]
        rows += [["", "references", f"{self.words:.1f}"]]
        rows += [
            ["" if i else "seconds", one.name, f"{one.seconds:.2g}"] for i, one in enumerate(self.systems)
        ]
        return headings, [row + [""] * (len(headings) - len(row)) for row in rows]

    def _cells(self, result: SystemScores, name: str, digits: int) -> list[str]:
        cells = [result.figures[name].written(digits)]
        cells += [result.differences[name].written(digits, signed=True)] if result.differences else []
        return [part for text in cells for part in (*text.split(" ", 1), "")[:2]]

    @property
    def headed(self) -> str:
        """What the table shows, in a sentence."""
        until = ", those judged before Ctrl-C" * self.interrupted
        compared = f"; differences are to {self.systems[0].name}" * (len(self.systems) > 1)
        return f"{self.task} of {self.rows:,} rows{until}{compared}; words and seconds are means of a row"

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
        written = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
        return "\n".join([self.headed, *written, *self.methods])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.headed)


def compare(
    rows: Iterable[Row],
    systems: Sequence[System],
    *,
    task: str = "summarization",
    batch: int = 8,
    examples: int = 3,
    stemming: bool = False,
    language: str = "en",
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Let every system write about every row, and judge it: summaries by ROUGE, translations by BLEU and chrF.

    Ctrl-C ends it early; what was judged by then is the answer.

    Args:
        systems: the first is what the others are compared with.
        batch: how many rows a system is given at once · examples: of how many rows the texts are kept
        stemming, language: as in `rouge` · progress: called with how many rows are done
    Raises: DataError: no rows, or a system that fails on a row. ConfigError: no systems, or two of one name.
        MissingExtraError: without the packages that judge.
    """
    check_names([system.name for system in systems], task)
    if batch < 1:
        raise ConfigError(f"batch is {batch}; a system is given at least 1 row at once")
    measured = [
        _MeasuredSystem(system, text_metrics_of(task, stemming=stemming, language=language))
        for system in systems
    ]
    sizes: list[int] = []  # of the batches that all systems have written about
    words: list[float] = []
    shown_examples: list[Example] = []
    interrupted = False
    try:
        for some in _batches(rows, batch):
            written = {one.system.name: one.write(some) for one in measured}
            for i, row in enumerate(some[: max(0, examples - len(shown_examples))]):
                outputs = {name: outputs[i] for name, outputs in written.items()}
                shown_examples.append(Example(row.line, row.text, row.references, outputs))
            words.append(sum(_words(row.references) / len(row.references) for row in some))
            sizes.append(len(some))
            if progress is not None:
                progress(len(some))
    except KeyboardInterrupt:
        if not sizes:
            raise
        interrupted = True
    if not sizes:
        raise DataError("there is no row to compare systems on")
    for one in measured:
        one.shorten(sizes)
    return Comparison(
        task=task,
        rows=sum(sizes),
        words=sum(words[: len(sizes)]) / sum(sizes),
        systems=[one.scores(None if one is measured[0] else measured[0]) for one in measured],
        examples=shown_examples[: sum(sizes)],
        shown=dict.fromkeys([f"{kind} f" for kind in KINDS], 3)
        if task == "summarization"
        else {"BLEU": 2, "chrF": 2},
        methods=[text_metric.method for text_metric in measured[0].text_metrics],
        interrupted=interrupted,
    )


class _MeasuredSystem:
    """A system, the counts of what it wrote, and of each batch the seconds and words."""

    def __init__(self, system: System, text_metrics: list[TextMetric]) -> None:
        self.system = system
        self.text_metrics = text_metrics
        self._seconds: list[float] = []
        self._words: list[int] = []

    def write(self, some: list[Row]) -> list[str]:
        """Let it write about some rows, and count."""
        name = self.system.name
        start = perf_counter()
        try:
            outputs = self.system.write([row.text for row in some])
        except DataError as error:
            where = f"about the rows of lines {some[0].line} to {some[-1].line}"
            raise DataError(f"{name}, {where}: {error}") from error
        self._seconds.append(perf_counter() - start)
        outputs = check_written(outputs, len(some), name)
        for text_metric in self.text_metrics:
            for row, output in zip(some, outputs, strict=True):
                text_metric.add(output, row.references)
        self._words.append(_words(outputs))
        return outputs

    def shorten(self, sizes: list[int]) -> None:
        """Forget what came behind batches of these sizes."""
        for text_metric in self.text_metrics:
            text_metric.shorten(sum(sizes))
        del self._seconds[len(sizes) :], self._words[len(sizes) :]

    def scores(self, first: _MeasuredSystem | None) -> SystemScores:
        """How it did, and how far it lies above the first."""
        pairs = [] if first is None else list(zip(self.text_metrics, first.text_metrics, strict=True))
        rows = len(self.text_metrics[0])
        return SystemScores(
            self.system.name,
            figures={
                name: x for text_metric in self.text_metrics for name, x in text_metric.intervals().items()
            },
            differences={name: x for own, other in pairs for name, x in own.differences(other).items()},
            seconds=sum(self._seconds) / rows,
            words=sum(self._words) / rows,
        )


def check_names(names: Sequence[str], task: str) -> None:
    """Can systems of these names be told apart, and compared by this task? Raises: ConfigError: no."""
    if task not in TASKS:
        raise ConfigError(f"the task is {task!r}; systems are compared by {' or '.join(TASKS)}")
    if not names:
        raise ConfigError("no system to compare; name at least one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two systems are called {twice[0]!r}; a table needs different names")


def text_metrics_of(task: str, *, stemming: bool = False, language: str = "en") -> list[TextMetric]:
    """What counts the outputs of one system. Raises: MissingExtraError: without the packages for it."""
    if task == "summarization":
        return [RougeMetric(stemming=stemming, language=language)]
    return [BleuMetric(), ChrfMetric()]


def _batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    waiting = iter(rows)
    while some := list(islice(waiting, size)):
        yield some


def _words(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)
