"""Compare systems that generate texts for the same rows, by ROUGE, or BLEU and chrF.

    rows ─ some at a time ─┬─ lead-3 ──┐
                           ├─ MODEL_A ─┼─ counts of each row (never its texts) ─> metrics, intervals, differences
                           └─ MODEL_B ─┘

Memory does not grow with the texts: of a row its counts are kept, and of the first few rows every output.

    rows.csv   article,highlights                    rows.jsonl   {"article": "…", "highlights": "…"}
               "A long text …","What it says."                    {"article": "…", "highlights": ["one", "another"]}

An encoder-decoder answers a text. A decoder continues it, so behind a text to be summarised is "TL;DR:".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from glassformer.data.lines import LineFile, data_extension
from glassformer.data.rows import EXTENSIONS, make_format
from glassformer.data.sequence import check_column
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison, ExampleRow
from glassformer.evaluation.compare.options import CompareOptions
from glassformer.files import refuse_repeated, safe_repr
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.tasks.generate.long import ChunkAndMerge, Summariser, check_written
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.generate.settings import recommended
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapUnion, differences, intervals
from glassformer.tasks.seq2seq.baselines import Lead
from glassformer.tasks.seq2seq.generated import TextMetrics, summary_metrics, translation_metrics

TASKS = ("summarization", "translation")


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


def _caption(task: str, rows: int, systems: Sequence[ComparedSystem], interrupted: bool) -> str:
    until = ", those evaluated before Ctrl-C" * interrupted
    compared = f"; differences are to {systems[0].name}" * (len(systems) > 1)
    return f"{task} of {rows:,} rows{until}{compared}; words and seconds are means of a row"


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
    """Compare systems by the texts that they generate: summaries by ROUGE, translations by BLEU and chrF.

    Args:
        systems: the others are compared with the first
        batch: rows a system gets at once
        examples: rows kept whole
        stemming, language: as in `rouge`
        progress: called with how many rows are done
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
    compared = [one.compared(sizes, first) for one in measured]
    return Comparison(
        task=task,
        rows=count,
        words=sum(words[: len(sizes)]) / count,
        systems=compared,
        caption=_caption(task, count, compared, interrupted),
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
            seconds_per_row=sum(self._seconds[: len(sizes)]) / sum(sizes),
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


# ---------------------------------------------------------------------------------- rows of a file, systems by name


def compare_file(
    names: Sequence[str],
    options: CompareOptions,
    *,
    loading: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    bar: Bar = no_bar,
) -> tuple[Comparison, int]:
    """Compare systems by the texts that they generate for the rows of a file; with the number of its rows.

    Args:
        names: as in `named_systems`
        loading, generation: options of `load` and of `model.generate`
        bar: shows progress, such as `glassformer.progress.progress_bar`
    Raises: ConfigError: no file. Else as `compare`, `read_rows` and `named_systems`.
    """
    if options.data is None:
        raise ConfigError("data= is missing: the file of test data")
    columns = {"source": "article", "target": "highlights", **options.columns}
    read = (options.data, columns["source"], columns["target"], options.limit)
    task, language, stemming = options.task, options.language, options.stemming
    # All rows are read, and the metrics' packages imported, before models are loaded: errors come early.
    count = sum(1 for _ in read_rows(*read))
    metrics_of(task, stemming=stemming, language=language)
    written = {"prefix": options.prefix, **(generation or {})}
    systems = named_systems(names, task, language=language, loading=loading, **written)
    scoring: dict[str, Any] = {"task": task, "language": language, "stemming": stemming}
    with bar("evaluating", count) as advance:
        compared = compare(
            read_rows(*read), systems, batch=options.batch, examples=options.examples, progress=advance, **scoring
        )
    return compared, count


FORMATS = ("csv", "tsv", "jsonl")
LONGEST = 100_000_000  # bytes of a row: whole books are summarised too
_LEAD = re.compile(r"lead-(\d{1,4})")


def read_rows(path: Path, text: str, reference: str, limit: int | None = None) -> Iterator[Row]:
    """The rows of a file in UTF-8, one by one.

    Args:
        text, reference: the names of the two columns (CSV, TSV) or keys (JSONL). In JSONL a text may be a list of its
            sentences, and a reference a list of several.
        limit: no more than this many.
    Raises: DataError: what is wrong, with the line.
    """
    kind = EXTENSIONS.get(data_extension(path))
    if kind not in FORMATS:
        ends = ", ".join(end for end, kind in EXTENSIONS.items() if kind in FORMATS)
        raise DataError(f"{path}: rows come as CSV, TSV or JSONL; its name must end in {ends} (.gz)")
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit} rows; take at least 1")
    empty = True
    for raw in islice(LineFile(path, make_format(kind, {})).parse(limit=LONGEST), limit):
        empty = False
        where = f"{path}: line {raw.line}"
        references = _texts(raw.row, reference, where, "target")
        yield Row(raw.line, " ".join(_texts(raw.row, text, where, "source")), references)
    if empty:
        raise DataError(f"{path}: holds no row")


def _texts(row: Mapping[str, Any], name: str, where: str, role: str) -> list[str]:
    check_column(where, name, row, role)
    value = row[name]
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: {name!r} is {safe_repr(value)}; it must be a text that is not blank")
    return texts


def named_systems(
    names: Sequence[str], task: str, *, language: str = "en", loading: Any = None, **options_of_model: Any
) -> list[System]:
    """The systems of these names, models loaded; a model's folder is shown by its own name where that is enough.

    Args:
        names: "lead-N", folders, or names on the Hub
        loading: options of `load`
        options_of_model: as in `model_system`
    Raises: ConfigError: a name twice, or no such task. Else as `load` and `model_system`.
    """
    refuse_repeated((name for name in names if Path(name).exists()), ConfigError)
    ends = [Path(name).name for name in names]
    shown = [end if end and ends.count(end) == 1 else name for name, end in zip(names, ends, strict=True)]
    check_names(shown, task)
    systems = []
    for name, short in zip(names, shown, strict=True):
        if (lead := _LEAD.fullmatch(name)) is None:
            model = load(name, **(loading or {}))
            systems.append(model_system(model, task, short, language=language, **options_of_model))
        elif task != "summarization":
            raise ConfigError(f"{name} is a baseline for summaries; it cannot do {task}")
        else:
            systems.append(System(name, Lead(int(lead[1]), language)))
    return systems


def model_system(
    model: Model,
    task: str,
    name: str,
    *,
    language: str = "en",
    prefix: str | None = None,
    max_new_tokens: int = 60,
    **options: Any,
) -> System:
    """A model as a system; a document to be summarised that is longer than it reads goes through `ChunkAndMerge`.

    Args:
        prefix: what is put before a text; None = what the folder's config.json says for the task.
        max_new_tokens, options: as in `model.generate`.
    Raises: UnsupportedError: a model that does not write, or that cannot do this. ConfigError: no room for a text.
    """
    if model.task not in ("translation", "text-generation"):
        raise UnsupportedError(f"{name} was loaded for {model.task!r}; to be compared it must write texts")
    continues = model.task == "text-generation"
    if continues and task != "summarization":
        raise UnsupportedError(f"{name} continues texts; for {task} give an encoder-decoder")
    before = recommended(model, task).get("prefix", "") if prefix is None else prefix

    def prompt(text: str) -> str:
        return before + (tldr(text) if continues else text)

    def write(texts: Sequence[str]) -> list[str]:
        written = model.generate([prompt(text) for text in texts], max_new_tokens=max_new_tokens, **options)
        return [text.strip() for text in written]

    limits = [limit for limit in (model.network.max_tokens, model.tokenizer.model_max_length) if limit]
    if task != "summarization" or not limits:
        return System(name, write)
    framed, text = (model.tokenizer.encode(x, add_special_tokens=False) for x in (prompt("."), "."))
    room = min(limits) - (len(framed) - len(text)) - (max_new_tokens if continues else 0)
    if room < 1:
        raise ConfigError(
            f"{name} reads {min(limits):,} tokens; with {max_new_tokens} new ones there is no room for a text"
        )
    return System(name, ChunkAndMerge(write, model.tokenizer, room, language))
