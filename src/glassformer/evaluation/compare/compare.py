"""Compare models, runs, baselines and functions on the same rows, with paired differences and costs.

rows ─ some at a time ─┬─ a run, a model ─┐
                       ├─ lead-3          ├─ predictions, scored by the task ─> metrics, intervals, differences
                       └─ a function ─────┘
runs, without data: their saved predictions

the same rows, one run each     paired bootstrap: what makes a row hard for two systems cancels out
the same rows, several seeds    Welch's confidence interval of the difference of the two means
other rows                      no difference: rows differ more than models do
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from glassformer.data.options import ReadingOptions
from glassformer.data.rows import RowSequence, Source, is_data_set, read_rows
from glassformer.data.sets import find_data_set
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison, ExampleRow
from glassformer.evaluation.compare.costs import (
    TIMED_ROWS,
    WARM_UP,
    Cost,
    LatencySummary,
    measure_latency,
    model_cost,
    read_cost,
)
from glassformer.evaluation.compare.options import CompareOptions
from glassformer.evaluation.compare.predictors import (
    LEAD,
    Predictor,
    Scores,
    Scoring,
    TextScores,
    baseline_predictor,
    function_predictor,
    generator,
    is_baseline,
    label_answer,
    labelled_rows,
    model_of,
    read_references,
    references_of,
    score_by_task,
    text_answer,
)
from glassformer.evaluation.compare.seeds import SeedRun, SeedSummary, difference_of, summarise_seeds
from glassformer.evaluation.evaluate import PREDICTIONS, REPORT, EvaluationReport, distinct_metrics, equal_metrics
from glassformer.evaluation.runs import (
    EVALUATION,
    EvaluatedSplit,
    TrainedRun,
    open_run,
    trained_task,
)
from glassformer.files import counted, refuse_repeated, safe_repr
from glassformer.files.schema import given, parse
from glassformer.model import Model, load
from glassformer.progress import Bar, no_bar
from glassformer.runs.folder import CONFIG, describe_environment, no_run, run_name, seed_folders
from glassformer.task_names import TASK_ALIASES, TRAINED, beginning
from glassformer.tasks.base import Task, metrics_of
from glassformer.tasks.classify.task import ClassificationTask
from glassformer.tasks.columns import check_columns, columns_of
from glassformer.tasks.metrics.metric import RESAMPLES, Bootstrap, Interval, differences, greater_is_better, intervals
from glassformer.tasks.predictions import read_predictions
from glassformer.tasks.registry import task_class, task_name
from glassformer.tasks.seq2seq.baselines import Lead
from glassformer.tasks.seq2seq.generated import Summarise, Translate, summary_metrics, translation_metrics
from glassformer.tasks.tag.task import Tag
from glassformer.tasks.types import Prediction

DIGITS = 3
TEXT_TASKS = {name: TASK_ALIASES[name] for name in ("summarise", "translate")}
"""Tasks whose texts any model that writes may generate → their names in a config.json."""
TASK_NAMES = ", ".join([*TEXT_TASKS.values(), "classify"]) + "; with a model of it also " + beginning(TRAINED, 4)


@dataclass(eq=False)
class System:
    """One system of a comparison.

    source: as it was given
    run: of a run folder; of several seeds the first
    saved: the reports of its runs; of what predicts rows here, the report on these
    evaluation: the folder of a single saved report
    task, function: of what predicts rows, the task of its model, or a function of some rows
    cost: of that
    scores, seconds, words: of its predictions; seconds of each batch, and words of the texts
    measured: its scores, to be resampled
    """

    name: str
    source: Any
    run: TrainedRun | None = None
    saved: SeedSummary | None = None
    evaluation: Path | None = None
    task: Task | None = None
    function: Predictor | None = None
    cost: Cost = field(default_factory=Cost)
    scores: Scores | None = None
    seconds: list[float] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    measured: Bootstrap | None = None

    @property
    def seeds(self) -> SeedSummary:
        """The reports of its runs."""
        assert self.saved is not None  # at the latest when it has predicted the rows
        return self.saved

    @property
    def single(self) -> bool:
        """Whether it is no folder of several seeds."""
        return len(self.seeds.runs) == 1

    def bootstrap(self) -> Bootstrap | None:
        """The scores of its predictions, saved ones read now; None = they were not saved."""
        path = self.evaluation and self.evaluation / PREDICTIONS
        if self.measured is None and self.run is not None and path and path.is_file():
            self.measured = metrics_of(self.run.task_for_evaluation(), read_predictions(path))
        return self.measured


def compare(
    systems: Sequence[Any] | Mapping[str, Any],
    data: Source | None = None,
    *,
    loading: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    resamples: int = RESAMPLES,
    bar: Bar = no_bar,
    **options: Any,
) -> Comparison:
    """Compare systems on the same rows: the others with the first.

        compare(["runs/small", "runs/large"])                          by their saved predictions
        compare({"small": "runs/small", "shouting": shout})            and a function, on the rows of the run
        compare(["lead-3", "t5-small"], "news.csv")
        compare({"mine": model, "theirs": pipe}, "test.csv", task="classify", columns={"label": "mood"})

    Args:
        systems: or name → system. A system is a run: its folder, that of several seeds, or of an evaluation; a model:
            its folder, its name on the Hub, or loaded; lead-N; with a run the name of one of its baselines; or a
            function that takes a list of texts and gives a prediction for each, such as a pipeline of another library,
            or an object with `predict`
        data: rows, as in `read_rows`; None = those that the first run was evaluated on
        loading, generation: options of `load` and of `model.generate`
        resamples: of the bootstrap
        bar: shows progress, such as `glassformer.progress.progress_bar`
        options: fields of `CompareOptions`, and of `ReadingOptions` for `data`: kind="emotion", part="test"
    Returns: after Ctrl-C, of the rows that all systems have done.
    Raises: ConfigError: no systems, one that is given twice, or systems of different tasks. DataError: a row that does
        not fit, or a system that fails on one. MissingExtraError: without the packages of the metrics.
    """
    reading = parse(ReadingOptions, {x.name: options.pop(x.name) for x in fields(ReadingOptions) if x.name in options})
    asked, format = parse(CompareOptions, options), reading.keywords()
    if isinstance(systems, (str, Path)) or not isinstance(systems, Iterable):
        systems = [systems]
    named = list(systems.items()) if isinstance(systems, Mapping) else [(None, source) for source in systems]
    of_rows = () if all(_is_run(source) for _, source in named) else ("batch", "examples")
    if data is None and (of_data := {**given(asked), **given(reading)}.keys() - {"latency", "html", *of_rows}):
        options_of_data = " and ".join(f"{name}=" for name in sorted(of_data))
        raise ConfigError(f"{options_of_data}: of systems that predict test data, which is missing: data= FILE")
    with bar("evaluating", None) as advance:
        opened = _open(named, asked, data is not None, is_data_set(reading.kind), advance)
    first, work = opened[0], None
    tasks = {one.name: one.run.config.task for one in opened if one.run is not None}
    tasks |= {one.name: one.saved.first.task for one in opened if one.saved is not None}
    (name, task), *others = tasks.items() if tasks else [("", "")]
    if other := next((each for each in others if each[1] != task), None):
        raise ConfigError(f"{name} was trained to {task}, {other[0]} to {other[1]}; runs of one task can be compared")
    if any(one.saved is None for one in opened):
        work = _Lockstep(opened, data, format, asked, loading or {}, generation or {})
        work.predict(bar, resamples)
    compared = [_compared(one, first, work, resamples, asked.latency) for one in opened]
    taken = [name for one in opened for name in (one.name, one.source) if isinstance(name, str)]
    compared += [one for one in _baselines(first) if one.name not in taken]
    return _report(opened, compared, work)


# ---------------------------------------------------------------------------------------- systems as they are given


def _open(
    named: Sequence[tuple[str | None, Any]],
    asked: CompareOptions,
    live: bool,
    published: bool,
    advance: Callable[[int], None],
) -> list[System]:
    """The systems by names that differ; of runs their saved reports, unless they predict other data (`live`).

    Args:
        published: that is a published data set, of whose columns those that a run does not know are no mistake
    """
    if not named:
        raise ConfigError("no system to compare; name at least one")
    paths = [source for _, source in named if isinstance(source, (str, Path))]
    if not live and not any(_is_run(source) for _, source in named):
        what = f"{no_run(paths[0], 'holds no run and no evaluation')}; " if paths else "there are no rows; "
        raise ConfigError(
            f"{what}name folders that `glassformer train` or `evaluate` wrote, or give the test data that systems "
            "predict: data= FILE"
        )
    refuse_repeated((path for path in paths if Path(path).exists()), ConfigError)
    opened = []
    for name, source in named:
        one = System(_name_of(source), source)
        if _is_run(source):
            one = _run_to_predict(source, asked, ["*"] * published) if live else _saved_run(source, advance)
        opened.append(one if name is None else replace(one, name=str(name)))
    names = [one.name for one in opened]
    taken = dict.fromkeys(names, 0)
    for one in opened:  # models of one name are called by their paths, and runs are numbered
        if isinstance(one.source, (str, Path)) and one.saved is None and names.count(one.name) > 1:
            one.name = str(one.source)
        taken[one.name] = number = taken.get(one.name, 0) + 1
        if number > 1 and one.saved is None:
            raise ConfigError(f"two systems are called {one.name!r}; a table needs different names: {{name: system}}")
        one.name = f"{one.name} ({number})" if number > 1 else one.name
    return opened


def _is_run(source: Any) -> bool:
    """Is this a run, or the folder of one, of several seeds, or of an evaluation?"""
    if not isinstance(source, (str, Path)):
        return isinstance(source, TrainedRun)
    return (Path(source) / CONFIG).is_file() or (Path(source) / REPORT).is_file() or bool(seed_folders(source))


def _name_of(source: Any) -> str:
    if isinstance(source, (str, Path)):
        return Path(source).name or str(source)
    if isinstance(source, Model):
        return Path(source.folder).name if source.folder else "model"
    name = getattr(source, "__name__", type(source).__name__)
    return "function" if name == "<lambda>" else str(name)


def _run_to_predict(source: Any, asked: CompareOptions, ignore: list[str]) -> System:
    if isinstance(source, (str, Path)) and not (Path(source) / CONFIG).is_file():
        what = "an evaluation, of its own rows" if (Path(source) / REPORT).is_file() else "a folder of several seeds"
        raise ConfigError(f"{source}: is {what}; to predict data= name the folder of one run")
    run = source if isinstance(source, TrainedRun) else open_run(source, columns=dict(asked.columns), ignore=ignore)
    return System(run_name(run.folder), source, run, cost=read_cost(run.folder))


def _saved_run(source: Any, advance: Callable[[int], None]) -> System:
    """A run with its report, evaluated now where it was not; the runs of several seeds; or an evaluation."""
    path = source.folder if isinstance(source, TrainedRun) else Path(source)
    name, folders = run_name(path), seed_folders(path)
    if not folders and (path / REPORT).is_file():
        evaluation, folder = path, path.absolute().parent.parent
        in_run = path.absolute().parent.name == EVALUATION and (folder / CONFIG).is_file()
        run = open_run(folder) if in_run else None
        name = f"{run_name(folder)} ({name})" if in_run else name
        seed = SeedRun(report=EvaluationReport.load(path / REPORT), cost=read_cost(folder) if in_run else Cost())
        return System(name, source, run, SeedSummary(name=name, runs=[seed]), evaluation)
    if len(folders) > 1:
        return System(name, source, open_run(folders[0]), summarise_seeds(path, advance))
    run = open_run(folders[0] if folders else path)
    return System(name, source, run, summarise_seeds(run.folder, advance), run.evaluation_folder())


# ------------------------------------------------------------------------------------------ predictions in lockstep


class _Lockstep:
    """Predictions of some rows at a time by each system: after Ctrl-C, all have predicted the same rows.

    rows: gives the rows
    labelled: each with its label; None = the predictions of `labeller` have them
    sizes: of the batches that all systems have done
    words: of a reference on average, summed over each batch
    sample: the first rows, to time them
    """

    def __init__(
        self,
        systems: Sequence[System],
        data: Source | None,
        format: Mapping[str, Any],
        asked: CompareOptions,
        loading: Mapping[str, Any],
        generation: Mapping[str, Any],
    ) -> None:
        self.live = [one for one in systems if one.saved is None]
        self.asked, self.loading, self.batch, self.format = asked, loading, asked.batch, format
        self.data_set = find_data_set(str(kind)) if is_data_set(kind := format.get("kind")) else None
        self.names_task = "task" in given(asked)
        self.task = self.data_set.task if self.data_set and not self.names_task else asked.task
        self.labelled: Iterator[Prediction] | None = None
        self.labeller = next((one for one in systems if one.run is not None), None)
        self.rows: Callable[[], RowSequence]
        self.interrupted = False
        self.sizes: list[int] = []
        self.words: list[float] = []
        self.examples: list[ExampleRow] = []
        self.sample: list[Prediction] = []
        if self.labeller is not None:
            self.scoring = self._by_run(self.labeller, data)
        elif data is None:
            raise ConfigError("no run is among the systems, whose rows the others could predict; give data= FILE")
        else:
            if (baseline := next((one.source for one in self.live if is_baseline(one.source)), None)) is not None:
                raise ConfigError(
                    f"{safe_repr(baseline)} is no model; a baseline needs a run among the systems, and learns from its "
                    "training rows"
                )
            texts = task_name(self.task) in TEXT_TASKS
            self.scoring = self._by_references(data, generation) if texts else self._by_task(data)
        for one in self.live:
            one.scores = self.scoring.fresh()
            if one.task is None and one.function is None:
                one.function = function_predictor(one.name, self._function(one), self.scoring)

    def _by_run(self, first: System, data: Source | None) -> Scoring:
        """The rows that a run was evaluated on, or other rows, by its task."""
        run = first.run
        assert run is not None
        name, folder = run.config.task, first.evaluation or run.evaluation_folder()
        if "task" in given(self.asked) and task_name(self.asked.task) != name:
            raise ConfigError(f"{first.name} is a run of {name!r}, not of {self.asked.task!r}; leave task= out")
        report = EvaluationReport.load(folder / REPORT) if (folder / REPORT).is_file() else None
        if data is not None:
            paths = [data] if isinstance(data, (str, Path)) else data if isinstance(data, (list, tuple)) else []
            are_paths = paths and all(isinstance(path, (str, Path)) for path in paths)
            files = list(map(str, paths)) if are_paths else read_rows(data, **self.format)
            self._take(run.read_rows(files, format=self.format or None))
        else:
            assert report is not None  # `_open`
            records = read_predictions(folder / PREDICTIONS)
            self.labelled = iter(records)
            self.rows = cache(EvaluatedSplit(run, folder.name, None, report, records).rows)
        baselines = [one for one in self.live if is_baseline(one.source, report.baselines if report else ())]
        self._load_tasks(name, run.config.data.columns, run.config.task_options, baselines)
        task = first.task or run.task_for_evaluation()
        for one in baselines:
            one.function = baseline_predictor(one.source, task, run.splits[0])
            self.batch = len(self.rows())  # a baseline predicts all rows at once
        return score_by_task(name, task)

    def _by_task(self, data: Source) -> Scoring:
        """Rows by a named task: scored as the first model does, else by their labels."""
        name, columns = self.task, self.asked.columns
        kind, rows = task_class(name), self._take(read_rows(data, **self.format))
        self._load_tasks(name, columns, {}, [])
        self.labeller = next((one for one in self.live if one.task is not None), None)
        if self.labeller is not None and self.labeller.task is not None:
            return score_by_task(name, self.labeller.task)
        if not issubclass(kind, ClassificationTask) or issubclass(kind, Tag):
            raise UnsupportedError(f"{name} is scored as a model of it does; give one among the systems, or a run")
        own = columns_of(kind.COLUMNS, columns)
        check_columns(rows, {role: column for role, column in own.items() if role != "text_pair" or role in columns})
        inputs = {role: column for role, column in own.items() if role not in kind.TARGETS}
        labels = kind.kind_of_rows(rows, own, None)

        def read(row: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
            texts = {role: row[column] for role, column in inputs.items() if column in row}
            return texts, labels.value_of(labels.read(row.get(own["label"])))

        self.labelled, fresh = labelled_rows(rows, read), partial(Scores, labels.metrics)
        return Scoring(task=name, metric=labels.METRIC, answer=label_answer(labels), fresh=fresh)

    def _by_references(self, data: Source, generation: Mapping[str, Any]) -> Scoring:
        """Sources and references, for which anything that writes generates texts."""
        task, language = TEXT_TASKS[task_name(self.task)], self.asked.language
        published = self.data_set is not None
        without_task = f"; task= is missing, so they are to be summarised; there are: {TASK_NAMES}"
        unnamed = "" if self.names_task or published else without_task
        rows, columns = read_references(data, self.asked.columns, self.format, published, unnamed)
        rows = self._take(rows)
        metrics, main, digits = translation_metrics, Translate.METRIC, 2
        if task == "summarization":
            metrics = partial(summary_metrics, stemming=self.asked.stemming, language=language)
            main, digits = Summarise.METRIC, DIGITS

        read = references_of(columns)
        shown = {name: digits for _, names in metrics() for name in names}
        for _ in labelled_rows(rows, read):  # errors of rows come before models are loaded
            pass
        self.labelled, fresh = labelled_rows(rows, read), lambda: TextScores(metrics())
        scoring = Scoring(task=task, metric=main, answer=text_answer, fresh=fresh, texts=True, digits=shown)
        for one in self.live:
            if (source := model_of(one.source)) is not None:
                model = source if isinstance(source, Model) else load(source, **self.loading)
                options = {"language": language, "prefix": self.asked.prefix, **generation}
                one.function = function_predictor(one.name, generator(model, task, one.name, **options), scoring)
                one.cost = model_cost(model)
        return scoring

    def _take(self, rows: RowSequence) -> RowSequence:
        limit = self.asked.limit
        taken = rows if limit is None or limit >= len(rows) else rows.select(range(limit))
        self.rows = lambda: taken
        return taken

    def _load_tasks(
        self, name: str, columns: Mapping[str, str], options: Mapping[str, Any], baselines: Sequence[System]
    ) -> None:
        """The task of each system that is a run or a model."""
        for one in self.live:
            if one.run is not None:
                one.task = one.run.task_for_evaluation()
            elif one not in baselines and (model := model_of(one.source)) is not None:
                task = trained_task(model, name, columns, options, **self.loading)
                one.task, one.cost = task.for_evaluation(), model_cost(task.model)

    def _function(self, one: System) -> Callable[[Any], Any]:
        """The function that a system is: lead-N, one of the caller's own, or the `predict` of an object."""
        if isinstance(one.source, str) and (lead := LEAD.fullmatch(one.source)):
            if task_name(self.scoring.task) != "summarise":
                raise ConfigError(f"{one.source} is a baseline for summaries; it cannot do {self.scoring.task}")
            return Lead(int(lead[1]), self.asked.language)
        if callable(one.source):
            return one.source  # type: ignore[no-any-return]
        if not callable(predict := getattr(one.source, "predict", None)):
            raise ConfigError(f"{one.name} is {safe_repr(one.source)}; a system is a run, a model or a function")
        return predict  # type: ignore[no-any-return]

    def predict(self, bar: Bar, resamples: int) -> None:
        """Predict all rows, or those until Ctrl-C, and report on them."""
        rows = self.rows()
        with bar("evaluating", len(rows) * len(self.live)) as advance:
            try:
                self._predict(advance)
            except KeyboardInterrupt:
                if not self.sizes:
                    raise
                self.interrupted = True
        for one in self.live:
            assert one.scores is not None
            one.measured = one.scores.bootstrap(self.count)
            report = EvaluationReport(
                task=self.scoring.task,
                name=one.name,
                data={"rows": self.count, "fingerprint": rows.fingerprint},
                metric=self.scoring.metric,
                higher=greater_is_better(self.scoring.metric),
                metrics=intervals(one.measured, resamples),
                methods=dict(one.measured.methods),
                notes=one.measured.notes(),
                seconds=sum(one.seconds[: len(self.sizes)]),
                environment=describe_environment(torch.device("cpu")),
            )
            one.saved = SeedSummary(name=one.name, runs=[SeedRun(report=report, cost=one.cost)])

    @property
    def count(self) -> int:
        """How many rows all systems have predicted."""
        return sum(self.sizes)

    def words_a_row(self, one: System | None = None) -> float | None:
        """Words of a system's texts, or of the references, on average; None = no texts are generated."""
        words: Sequence[float] = self.words if one is None else one.words
        return sum(words[: len(self.sizes)]) / self.count if words else None

    def _predict(self, advance: Callable[[int], None]) -> None:
        # A task predicts all rows in one go, since it sorts them by length; its predictions are taken some at a time.
        streams = {one: iter(one.task.predict(self.rows(), advance)) for one in self.live if one.task is not None}
        labeller = self.labeller if self.labelled is None else None
        source = self.labelled if labeller is None else streams[labeller]
        assert source is not None
        while True:
            start = perf_counter()
            some = list(islice(source, self.batch))
            reading = perf_counter() - start
            if not some:
                return
            made = {one: self._batch(one, streams.get(one), some, one is labeller) for one in self.live}
            if labeller is not None:
                labeller.seconds[-1] = reading  # what has the labels is what it predicted
            advance(len(some) * (len(self.live) - len(streams)))  # tasks count their rows themselves
            if self.scoring.texts:
                self.words.append(sum(_words(x.label) / len(x.label) for x in some))
                for i, x in enumerate(some[: max(0, self.asked.examples - len(self.examples))]):
                    saved = {} if x.predicted is None or self.labeller is None else {self.labeller.name: x.predicted}
                    texts = saved | {one.name: own[i].predicted for one, own in made.items()}
                    self.examples.append(ExampleRow(x.where, x.row["source"], x.label, texts))
            if self.asked.latency:
                self.sample += some[: max(0, WARM_UP + TIMED_ROWS - len(self.sample))]
            self.sizes.append(len(some))

    def _batch(
        self, one: System, stream: Iterator[Prediction] | None, some: Sequence[Prediction], done: bool
    ) -> Sequence[Prediction]:
        """What a system predicts for some rows, scored; `done`: they are its predictions."""
        assert one.scores is not None
        start, made = perf_counter(), some
        if not done and stream is not None:
            made = list(islice(stream, len(some)))
        elif not done and one.function is not None:
            made = one.function(some)
        one.seconds.append(perf_counter() - start)
        if len(made) != len(some):
            gave = f"{counted(len(made), 'prediction')} for {counted(len(some), 'row')}"
            raise DataError(f"{one.name} gave {gave} ({some[0].where} to {some[-1].where}); it must give one for each")
        for x in made:
            one.scores.add(x)
        if self.scoring.texts:
            one.words.append(_words(x.predicted for x in made))
        return made


def _words(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)


# ------------------------------------------------------------------------------------------------------ the report


def _compared(one: System, first: System, work: _Lockstep | None, resamples: int, latency: bool) -> ComparedSystem:
    """The scores of a system, how far they lie above those of the first, and its costs."""
    runs, report = one.seeds.runs, one.seeds.first
    deltas, why = ({}, None) if one is first else _differences(one, first, resamples)
    words = work.words_a_row(one) if work and one.words else None
    return ComparedSystem(
        name=one.name,
        seeds=len(runs),
        metrics=report.metrics if one.single else {name: x.interval for name, x in one.seeds.means.items()},
        differences=deltas,
        apart=why,
        rows=int(report.data["rows"]) if words is None else None,
        seconds_per_row=sum(each.report.seconds / int(each.report.data["rows"]) for each in runs) / len(runs),
        words=words,
        cost=one.seeds.cost,
        latency=_latency(one, work) if latency else None,
    )


def _differences(one: System, first: System, resamples: int) -> tuple[dict[str, Interval], str | None]:
    """The differences of its metrics to the first; or the reason why there are none."""
    if len({str(run.report.data.get("fingerprint")) for each in (one, first) for run in each.seeds.runs}) > 1:
        return {}, "other rows or labels"
    if one.single != first.single:
        return {}, "one run compared with several seeds"
    if not one.single:
        own, others = (
            {name: [run.report.metrics[name].value for run in each.runs] for name in each.means}
            for each in (one.seeds, first.seeds)
        )
        by_metric = {name: difference_of(own[name], others[name]) for name in own if name in others}
        return {name: x for name, x in by_metric.items() if x is not None}, None
    mine, theirs = one.bootstrap(), first.bootstrap()
    if mine is None or theirs is None:
        return {}, "its predictions were not saved"
    return ({}, "interrupted") if len(mine) != len(theirs) else (differences(mine, theirs, resamples), None)


def _latency(one: System, work: _Lockstep | None) -> LatencySummary | None:
    """The latency of one row at a time: of saved runs on the validation rows, of several seeds the first's."""
    if one.function is not None and work is not None:
        rows = (work.sample[i % len(work.sample)] for i in range(WARM_UP + TIMED_ROWS))
        return LatencySummary.measure((partial(one.function, [x]) for x in rows), WARM_UP)
    if one.task is not None and work is not None:
        return measure_latency(one.task, work.rows())
    if one.run is None:
        return None  # an evaluation outside a run folder: there is no model
    if (validation := one.run.splits[1]) is None:
        raise DataError(f"{one.name}: has no validation rows to measure latency on")
    return measure_latency(one.run.task_for_evaluation(), validation)


def _baselines(first: System) -> list[ComparedSystem]:
    """The baselines of the first run. Their differences are known of the main metric alone."""
    systems, report = [], first.seeds.first
    for name, baseline in report.baselines.items():
        metrics, difference = baseline.metrics, baseline.difference
        if not first.single:
            metrics, difference = {x: mean.interval for x, mean in first.seeds.baselines[name].items()}, None
        # The report has how far the run lies above the baseline; here it is how far the baseline does.
        deltas = {} if difference is None else {report.metric: -difference}
        rows, about = int(report.data["rows"]), baseline.about
        systems.append(ComparedSystem(name=name, seeds=0, about=about, metrics=metrics, differences=deltas, rows=rows))
    return systems


def _report(opened: Sequence[System], systems: list[ComparedSystem], work: _Lockstep | None) -> Comparison:
    """The comparison of systems that have reports."""
    first, metrics = opened[0].seeds.first, [one.metrics for one in systems]
    scores = work.live[0].scores if work else None
    digits, notes = work.scoring.digits if work else None, scores.notes() if scores else []
    if digits is None:
        digits = dict.fromkeys(distinct_metrics(metrics, first.metric), DIGITS)
        notes += equal_metrics(metrics, first.metric)
    predicted: dict[str, Any] = {}
    if work is not None:
        predicted = {"rows": work.count, "total": len(work.rows()), "words": work.words_a_row()}
        predicted |= {"interrupted": work.interrupted, "examples": work.examples[: work.count]}
    return Comparison(
        task=first.task,
        systems=systems,
        caption=_caption(first, systems, work),
        shown=digits,
        metric=first.metric,
        higher=first.higher,
        methods={name: how for one in reversed(opened) for name, how in one.seeds.first.methods.items()},
        notes=[*notes, *_notes(opened)],
        **predicted,
    )


def _caption(report: EvaluationReport, systems: Sequence[ComparedSystem], work: _Lockstep | None) -> str:
    """What is compared, on what."""
    runs = [one for one in systems if one.seeds]
    several = [one for one in runs if one.seeds > 1]
    names = ", ".join(f"{one.name} ({one.seeds} seeds)" if one in several else one.name for one in runs)
    of_rows = f" of {counted(work.count, 'row')}" if work else ""
    until = ", those evaluated before Ctrl-C" if work and work.interrupted else ""
    better = "" if report.higher else " (lower is better)"
    over = "over rows, or over seeds"
    if len(several) in (0, len(runs)):
        over = "over seeds" if several else "over rows"
    apart = f"; differences are to {runs[0].name}, in brackets 95% intervals {over}" * (len(runs) > 1)
    means = "; words and seconds are means of a row" if work and work.words else ""
    return f"{report.task}{of_rows}{until}, by {report.metric}{better}: {names}{apart}{means}"


def _notes(opened: Sequence[System]) -> list[str]:
    """Remarks: metrics computed otherwise, other machines, and the notes of each system."""
    notes, first = [], opened[0].seeds.first
    for one in opened[1:]:
        own = one.seeds.first
        for name, how in own.methods.items():
            if (other := first.methods.get(name)) not in (None, how):
                notes.append(f"{name} was computed otherwise: {opened[0].name} by {other}; {one.name} by {how}")
        if first.environment.get("processor") != own.environment.get("processor"):
            message = "were evaluated on other machines: do not compare their times"
            notes.append(f"{opened[0].name} and {one.name} {message}")
    return [*notes, *(f"{one.name}: {note}" for one in opened for note in one.seeds.notes)]
