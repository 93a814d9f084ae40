"""Compare systems that generate texts for the same rows, by ROUGE, or BLEU and chrF.

    rows ─ some at a time ─┬─ lead-3 ──┐
                           ├─ MODEL_A ─┼─ counts of each row (never its texts) ─> metrics, intervals, differences
                           └─ MODEL_B ─┘

Memory does not grow with the texts: of a row its counts are kept, and of the first few rows every output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from time import perf_counter
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison, ExampleRow
from glassformer.tasks.generate.long import Summariser, check_written
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapUnion, differences, intervals
from glassformer.tasks.seq2seq.generated import TextMetrics, summary_metrics, translation_metrics

TASKS = ("summarization", "translation")
JSON_KEYS = {
    "name": "name",
    "metrics": "figures",
    "differences": "differences",
    "seconds_a_row": "seconds",
    "words": "words",
}


@dataclass(frozen=True)
class Row:
    """A text and what a good system generates for it; `line`: where it begins in its file."""

    line: int
    text: str
    references: list[str]


@dataclass(frozen=True)
class System:
    """Something that generates a text for each text: a model, a baseline, any function."""

    name: str
    write: Summariser


@dataclass(frozen=True, kw_only=True, repr=False)
class TextComparison(Comparison):
    """A comparison of generated texts.

    rows: how many · words: of a reference, on average · interrupted: are these only the rows before Ctrl-C?
    notes: how the metrics were computed
    """

    rows: int
    words: float
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "rows": self.rows,
            "words": self.words,
            "systems": [one.selected(JSON_KEYS) for one in self.systems],
            "examples": [asdict(example) for example in self.examples],
            "shown": self.shown,
            "methods": self.notes,
            "interrupted": self.interrupted,
        }

    @property
    def caption(self) -> str:
        until = ", those judged before Ctrl-C" * self.interrupted
        compared = f"; differences are to {self.systems[0].name}" * (len(self.systems) > 1)
        return f"{self.task} of {self.rows:,} rows{until}{compared}; words and seconds are means of a row"

    def costs(self) -> tuple[list[str], list[list[str]]]:
        headings, rows = super().costs()
        references = [f"{self.words:.1f}" if name == "words" else "" for name in headings[1:]]
        return headings, [*rows, ["references", *references]]


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
) -> TextComparison:
    """Compare systems by the texts that they generate: summaries by ROUGE, translations by BLEU and chrF.

    Args:
        systems: the others are compared with the first · batch: rows a system gets at once · examples: rows kept whole
        stemming, language: as in `rouge` · progress: called with how many rows are done
    Returns: after Ctrl-C, of the rows that all systems have done.
    Raises: DataError: no rows, or a system that fails on a row. ConfigError: no systems, or two of one name.
        MissingExtraError: without the packages of the metrics.
    """
    check_names([system.name for system in systems], task)
    measured = [_MeasuredSystem(s, metrics_of(task, stemming=stemming, language=language)) for s in systems]
    sizes: list[int] = []  # of the batches that all systems have done
    words: list[float] = []
    shown: list[ExampleRow] = []
    interrupted = False
    try:
        for some in _generated(rows, measured, batch):
            shown += some[: max(0, examples - len(shown))]
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
    first, count = measured[0], sum(sizes)
    return TextComparison(
        task=task,
        rows=count,
        words=sum(words[: len(sizes)]) / count,
        systems=[one.compared(sizes, first) for one in measured],
        examples=shown[:count],
        shown={name: 3 if task == "summarization" else 2 for _, names in first.metrics for name in names},
        notes=[metric.method for metric, _ in first.metrics],
        interrupted=interrupted,
    )


def _generated(rows: Iterable[Row], systems: Sequence[_MeasuredSystem], batch: int) -> Iterator[list[ExampleRow]]:
    """Some rows at a time, with what every system generates for them."""
    if batch < 1:
        raise ConfigError(f"batch is {batch}; a system is given at least 1 row at once")
    waiting = iter(rows)
    while some := list(islice(waiting, batch)):
        outputs = {one.system.name: one.generate(some) for one in systems}
        yield [
            ExampleRow(row.line, row.text, row.references, {name: texts[i] for name, texts in outputs.items()})
            for i, row in enumerate(some)
        ]


class _MeasuredSystem:
    """A system, the counts of its outputs, and of each batch the seconds and words."""

    def __init__(self, system: System, metrics: TextMetrics) -> None:
        self.system, self.metrics = system, metrics
        self._seconds: list[float] = []
        self._words: list[int] = []

    def generate(self, some: list[Row]) -> list[str]:
        """Let it generate texts for some rows, and count."""
        name = self.system.name
        start = perf_counter()
        try:
            outputs = self.system.write([row.text for row in some])
        except DataError as error:
            where = f"about the rows of lines {some[0].line} to {some[-1].line}"
            raise DataError(f"{name}, {where}: {error}") from error
        self._seconds.append(perf_counter() - start)
        check_written(outputs, len(some), name)
        for metric, _ in self.metrics:
            for row, output in zip(some, outputs, strict=True):
                metric.add(output, row.references)
        self._words.append(_words(outputs))
        return outputs

    def bootstrap(self, sizes: list[int]) -> Bootstrap:
        """The scores of batches of these sizes, to be resampled; what came behind them is forgotten."""
        for metric, _ in self.metrics:
            metric.shorten(sum(sizes))
        return BootstrapUnion(*(metric.bootstrap() for metric, _ in self.metrics))

    def compared(self, sizes: list[int], first: _MeasuredSystem) -> ComparedSystem:
        """Its scores and costs, and how far it lies above the first."""
        own = self.bootstrap(sizes)
        return ComparedSystem(
            name=self.system.name,
            metrics=intervals(own),
            differences={} if first is self else differences(own, first.bootstrap(sizes)),
            seconds_a_row=sum(self._seconds[: len(sizes)]) / sum(sizes),
            words=sum(self._words[: len(sizes)]) / sum(sizes),
        )


def check_names(names: Sequence[str], task: str) -> None:
    """Can systems of these names be told apart, and compared by this task? Raises: ConfigError: no."""
    if task not in TASKS:
        raise ConfigError(f"the task is {task!r}; systems are compared by {' or '.join(TASKS)}")
    if not names:
        raise ConfigError("no system to compare; name at least one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two systems are called {twice[0]!r}; a table needs different names")


def metrics_of(task: str, *, stemming: bool = False, language: str = "en") -> TextMetrics:
    """Fresh metrics of a task. Raises: MissingExtraError: without the packages for them."""
    if task == "translation":
        return translation_metrics()
    return summary_metrics(stemming=stemming, language=language)


def _words(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)
