"""Few labels as a study: which method pays off at how many labels, on your rows, and what it costs.

    rows with labels ──┬─ test rows: a file, a share, or by cross-validation each row once
                       └─ 8 ⊂ 16 ⊂ 32 ⊂ … nested slices, the same for all methods    ──fit──>  answers for the test
    rows without       ── without those that are labelled or tested                            rows, F1, intervals

Of N labels a method that has something to choose chooses it within the N. Interrupted, the same command continues.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from glassformer.data.sequence import InMemoryRows, RowSequence, shorten
from glassformer.data.splits import leaks, slices, split
from glassformer.errors import ConfigError, DataError
from glassformer.few_labels.active_learning import Strategy, choose_texts
from glassformer.few_labels.curves import measured_curves
from glassformer.few_labels.method import Method, Setting, find_method, make_method, rehearse
from glassformer.few_labels.reading import TextRows, kind_of_labels, sampled_texts, text_rows
from glassformer.few_labels.row_facts import language_note, language_shares, separator_in
from glassformer.few_labels.rows import (
    ALL_TESTED_BELOW,
    SIZES,
    TEST_SHARE,
    LabelledTexts,
    numbers_of_labels,
    without_leaks,
)
from glassformer.files import as_path, counted, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.schema import Allowed, Count, Schema, check, field_types, parse
from glassformer.hub import resolve
from glassformer.reports.report import plain
from glassformer.runs.config import DataConfig, as_list
from glassformer.runs.data import sample_rows
from glassformer.runs.folder import read_config, seed_folder
from glassformer.studies.cells import Cell, CellResult, folder_name, scored
from glassformer.studies.options import USUAL_METHODS, FewLabelsOptions
from glassformer.studies.report import Example, PlannedCell, PlannedStudy, ReportOptions, StudyReport
from glassformer.studies.study import CELL, Evaluator, Study, StudyProgress
from glassformer.tasks.types import Prediction

METHOD, LABELS = "method", "labels"
ANSWERS = "answers.json"
CHOSEN = "chosen.json"
"""What active learning chose next, after a cell: for each fold the rows of the pool with the next number of labels."""
STRATIFIED: Literal["stratified"] = "stratified"
Choice = Literal[Strategy, "stratified"]
WORK = ".work"
"""Folder in the output for what cells share, such as an adapted encoder."""
MAX_EXAMPLES = 40
MAX_TEXT = 200
"""Characters of a text that a table of rows shows."""
LEAST_LABELS = 4
Sizes = Annotated[
    list[int],
    Allowed("numbers of labels from 4 up, each once", lambda x: x and min(x) >= LEAST_LABELS and len({*x}) == len(x)),
]


@dataclass(frozen=True, kw_only=True)
class NamedMethod(Schema):
    """A method under a name of its own.

    method: which; None = that of its name
    options: of the method
    choose: how its labelled rows are chosen; None = as the plan says
    labels: those numbers of labels of the plan that it is evaluated with, as few for a slow one; None = all
    """

    method: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    choose: Choice | None = None
    labels: Sizes | None = None


@dataclass(frozen=True, kw_only=True)
class FewLabelsPlan(Schema):
    """The section `few_labels`.

    methods: name → which method, and its options
    labels: how many, of each slice; those that there are not are left out, and all that there are is added
    seeds: of slices and of all that is drawn
    choose: how the labelled rows are chosen; of several ways each method that needs labels has a curve for each
    templates: sentences around labels, or texts; each method that has a `template` is evaluated with each that suits it
    unlabelled: files of further texts without labels
    unlabelled_limit: a random sample of this many of them
    folds: of cross-validation, where neither a file nor a share of test rows is named and the labelled rows are few
    test_limit: a random sample of this many test rows
    separator: what is between several labels in a text, such as "|"
    descriptions: label → what it means, for methods that read names of labels
    models: other models by what they are for, see `Setting`
    max_tokens: longer texts are cut
    report: what the report shows
    """

    methods: dict[str, NamedMethod | None] | list[str] = field(default_factory=lambda: list(USUAL_METHODS))
    labels: Sizes = field(default_factory=lambda: list(SIZES))
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    choose: list[Choice] = field(default_factory=lambda: list[Choice]([STRATIFIED]))
    templates: list[str] = field(default_factory=list)
    unlabelled: str | list[str] = field(default_factory=list)
    unlabelled_limit: Count = 5_000
    folds: Count = 4
    test_limit: Count | None = None
    separator: str | None = None
    descriptions: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    max_tokens: Count = 128
    report: ReportOptions | None = None

    @property
    def named(self) -> dict[str, NamedMethod]:
        """The methods by name; with several templates, or ways to choose rows, each with each: `knn-margin`."""
        named: dict[str, NamedMethod] = {}
        for name, method in self._with_templates().items():
            alone = method.choose is not None or "labels" not in find_method(str(method.method)).NEEDS
            for choice in [method.choose or STRATIFIED] if alone else self.choose:
                named[name if alone or len(self.choose) == 1 else f"{name}-{choice}"] = replace(method, choose=choice)
        return named

    def _with_templates(self) -> dict[str, NamedMethod]:
        """The methods as they are given, and instead of one that has a template one for each that suits it."""
        given = self.methods if isinstance(self.methods, dict) else dict.fromkeys(self.methods)
        methods: dict[str, NamedMethod] = {}
        used: set[str] = set()
        for name, each in given.items():
            method = replace(each or NamedMethod(), method=(each and each.method) or name)
            hint = field_types(find_method(str(method.method)).OPTIONS).get("template")
            own = "template" in method.options
            suited = [] if hint is None or own else [x for x in self.templates if _suits(hint, x)]
            used |= {*suited}
            for template in suited:
                options = {**method.options, "template": template}
                methods[f"{name} “{template}”"] = replace(method, options=options)
            if not suited:
                methods[name] = method
        if unused := [x for x in self.templates if x not in used]:
            raise ConfigError(
                f"few_labels.templates has {safe_repr(unused[0])}, which suits none of the methods: label-names, "
                "entailment, embeddings and contrastive have one {} in the place of the label; prompts one {text} and "
                "one {mask}; in-context {text} and at its end {label}"
            )
        return methods

    def validate(self) -> None:
        if not self.named:
            raise ConfigError("few_labels.methods names none, or few_labels.choose; leave them out for the usual ones")
        for name, each in self.named.items():
            parse(find_method(str(each.method)).OPTIONS, each.options, f"few_labels.methods.{name}.options")
            if each.labels is not None and not {*each.labels} & {*self.labels}:
                raise ConfigError(
                    f"few_labels.methods.{name}.labels is {each.labels}; it must have one of few_labels.labels: "
                    f"{', '.join(map(str, self.labels))}"
                )


def _suits(hint: Any, template: str) -> bool:
    """Whether a method takes a template."""
    try:
        check(hint, template, "template")
    except ConfigError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class FewLabelsConfig(Schema):
    """The configuration of such a study.

    model: sentence encoder: a folder or a name; left out where no method needs one
    data: `train`: the labelled rows, of which some may have no label; `validation`: test rows, a file or a share
    """

    data: DataConfig
    model: str = ""
    output: str = "runs/few-labels"
    few_labels: FewLabelsPlan = field(default_factory=FewLabelsPlan)


# ----------------------------------------------------------------------------------------------------- the rows


@dataclass(frozen=True)
class FewLabelsRows:
    """Rows of a study.

    pool: labelled texts to draw slices from
    test: labelled texts to test on; None = those of the pool, by cross-validation
    unlabelled: texts without labels, none of which is in the pool or among the test texts
    notes: what was left out
    """

    pool: LabelledTexts
    test: LabelledTexts | None
    unlabelled: Sequence[str]
    notes: Sequence[str]


def read_few_labels(data: DataConfig, plan: FewLabelsPlan) -> FewLabelsRows:
    """Read labelled, unlabelled and test rows; what is in two of them is left out of one.

    Raises: DataError: no such rows, an empty text, labels that are none. ConfigError: a column.
    """
    rows = sample_rows(data.read(data.train), data.limit if isinstance(data.limit, int) else None, 0)
    read, tested, held_out = _some_labelled(rows, data), TextRows(), data.validation
    if isinstance(held_out, str | list):
        tested = _some_labelled(data.for_validation.read(held_out), data)
    kind = kind_of_labels([*read.values, *tested.values], [*read.places, *tested.places], plan.separator)
    if plan.separator is None:
        _warn_of_several(read.values)
    pool, notes = _distinct(LabelledTexts.read(read.texts, read.values, kind), "labelled rows")
    if empty := read.empty + tested.empty:
        notes.append(f"{counted(empty, 'row')} left out: a label and no text")
    test: LabelledTexts | None = None
    if tested.texts:
        test, more = _distinct(LabelledTexts.read(tested.texts, tested.values, kind), "test rows")
        notes += more
        if leaked := {i for _, i in leaks(pool.texts, test.texts)}:
            notes.append(f"{counted(len(leaked), 'test row')} left out: among the labelled rows too")
            test = test.select(i for i in range(len(test)) if i not in leaked)
            if not len(test):
                raise DataError(
                    "every test row is among the labelled rows too, so there is nothing to test on; give others, or "
                    "none: then a part of the labelled rows is held out"
                )
        for note in _only_in_test(pool, test):
            warnings.warn(note, stacklevel=2)  # before the work, and in the report
            notes.append(note)
    elif held_out is not None or len(pool) >= ALL_TESTED_BELOW:
        share = held_out if isinstance(held_out, float) else TEST_SHARE
        inner, outer = split(len(pool), (1 - share, share), labels=pool.labels)
        pool, test = pool.select(inner), pool.select(outer)
    elif pool.holds.sum(axis=0).max() < 2:
        notes.append("no label has two rows: a method that is tested on a row has never learnt its label; label more")
    if test is not None and plan.test_limit is not None and plan.test_limit < len(test):
        test = test.select(slices(test.labels, [plan.test_limit])[0])
    known = [*pool.texts, *(test.texts if test else ())]
    others, leaked_texts, repeated = without_leaks(
        chain(read.without, sampled_texts(data, plan.unlabelled, plan.unlabelled_limit)), known
    )
    if leaked_texts:
        notes.append(f"{counted(leaked_texts, 'unlabelled row')} left out: among the labelled or test rows too")
    if repeated:
        notes.append(f"{counted(repeated, 'unlabelled row')} left out: repeated or empty")
    return FewLabelsRows(pool, test, others, notes)


def _some_labelled(rows: RowSequence, data: DataConfig) -> TextRows:
    """The texts of rows. Raises: DataError: none has a label."""
    read = text_rows(rows, data.columns, skip=data.skips_bad_rows)
    if not read.texts:
        label = data.columns.get("label", "label")
        raise DataError(
            f"{rows.file(0)}: no row has a label in {label!r}; label some, at least {LEAST_LABELS}; what to do without "
            f"any: glassformer advise {shlex.quote(rows.file(0))}"
        )
    return read


def _warn_of_several(values: Sequence[Any]) -> None:
    """Warn of labels that look like several in one text."""
    counts = Counter(value for value in values if isinstance(value, str))
    if (mark := separator_in(counts)) is not None:
        joined = next(value for value in counts if mark in value)
        seem = f"labels such as {safe_repr(joined)} look like several with {mark!r} between them"
        warnings.warn(f"{seem}, and count as one each; separator={mark!r} reads them as several", stacklevel=4)


def _distinct(labelled: LabelledTexts, what: str) -> tuple[LabelledTexts, list[str]]:
    """The first row of each text."""
    remaining = without_leaks(labelled.texts, ())[0]
    if len(remaining) == len(labelled):
        return labelled, []
    place = {text: i for i, text in reversed([*enumerate(labelled.texts)])}
    repeated = len(labelled) - len(remaining)
    return labelled.select(place[text] for text in remaining), [
        f"{repeated:,} {what} left out: texts that are repeated"
    ]


def _only_in_test(pool: LabelledTexts, test: LabelledTexts) -> list[str]:
    lacking = np.flatnonzero(test.holds.any(axis=0) & ~pool.holds.any(axis=0))
    alone = [pool.kind.names[i] for i in lacking]
    return [f"no labelled row is {', '.join(alone)}, which test rows are: no method can learn it"] if alone else []


# ---------------------------------------------------------------------------------------------------- the study


class FewLabelsEvaluator(Evaluator):
    """Cells of a method and a number of labels; a method that needs no label has one cell."""

    def __init__(self, config: FewLabelsConfig, rows: FewLabelsRows) -> None:
        self.config, self.plan, self.rows, self.output = config, config.few_labels, rows, Path(config.output)
        smallest = len(rows.pool)
        if rows.test is None:
            smallest -= -(-smallest // self.plan.folds)
        sizes = numbers_of_labels(self.plan.labels, smallest) if smallest >= LEAST_LABELS else []
        if not sizes:
            raise DataError(
                f"{counted(len(rows.pool), 'labelled row')} are too few for {min(self.plan.labels)} labels and rows to "
                "test on; label more, or give fewer: labels= 4"
            )
        self.sizes = sizes
        self.notes = list(rows.notes)
        if config.model and "multilingual" not in Path(config.model).name.lower():
            languages, scripts = language_shares(rows.pool.texts)
            remedy = f"check that {Path(config.model).name} reads them"
            if note := language_note(languages, remedy, scripts=scripts):
                warnings.warn(note, stacklevel=2)
                self.notes.append(note)
        if beyond := [f"{size:,}" for size in sorted(self.plan.labels) if size > sizes[-1]]:
            self.notes.append(
                f"{', '.join(beyond)} labels left out: {counted(smallest, 'labelled row')} are there to learn from"
            )
        self.factors = {METHOD: list(self.plan.named), LABELS: [None, *sizes] if self._unlabelled_methods else sizes}
        self.setting = Setting(
            model=str(resolve(config.model)) if config.model else "", max_tokens=self.plan.max_tokens,
            descriptions=self.plan.descriptions,
            models=self.plan.models, work=self.output / WORK,
        )  # fmt: skip
        self._rehearsed: set[str] = set()
        if unknown := [name for name in self.plan.descriptions if name not in rows.pool.kind.names]:
            raise ConfigError(
                f"few_labels.descriptions names {safe_repr(unknown[0])}; the labels are: "
                f"{', '.join(rows.pool.kind.names)}"
            )

    @cached_property
    def _unlabelled_methods(self) -> list[str]:
        return [name for name in self.plan.named if "labels" not in self._class(name).NEEDS]

    def _class(self, name: str) -> type[Method[Any]]:
        return find_method(str(self.plan.named[name].method))

    def _method(self, name: str, seed: int = 0) -> Method[Any]:
        named = self.plan.named[name]
        return make_method(str(named.method), self.setting.seeded(seed), **named.options)

    def cells(self, seeds: Sequence[int] | None) -> list[Cell]:
        chosen, cells = list(seeds or self.plan.seeds), list[Cell]()
        for seed in chosen:  # first all of one seed: an early report has every method
            for size in (None, *self.sizes):
                for name in self.plan.named:
                    if size in self._sizes_of(name) and (size is not None or seed == chosen[0]):
                        levels = {METHOD: name, LABELS: size}
                        cells.append(Cell(levels, seed, seed_folder(self.output / folder_name(levels), seed)))
        return cells

    def _sizes_of(self, name: str) -> Sequence[int | None]:
        """The numbers of labels that a method is evaluated with; of one that needs none None alone."""
        if name in self._unlabelled_methods:
            return [None]
        own = self.plan.named[name].labels
        # All labels that there are belong to each method, where they are fewer than its least number.
        return [x for x in self.sizes if own is None or x in own or (x not in self.plan.labels and x < max(own))]

    def planned(self, seeds: Sequence[int] | None) -> PlannedStudy:
        cells = self.cells(seeds)
        took = [seconds_of(cell) for cell in cells]
        by_method: dict[str, list[float]] = {}
        for cell, seconds in zip(cells, took, strict=True):
            if seconds is not None:
                by_method.setdefault(cell[METHOD], []).append(seconds)
        expected = {name: float(np.mean(seconds)) for name, seconds in by_method.items()}
        if expected:
            times = [expected.get(cell[METHOD]) if x is None else x for cell, x in zip(cells, took, strict=True)]
        else:
            times = [self._measured_seconds(cell) for cell in cells]
        planned = [
            PlannedCell(str(cell), cell.seed, finished=x is not None, seconds=seconds)
            for cell, x, seconds in zip(cells, took, times, strict=True)
        ]
        return PlannedStudy(planned, basis="as finished ones took" if expected else "as it took on other data")

    def _measured_seconds(self, cell: Cell) -> float | None:
        """What such a cell took on other data; None = that was not measured."""
        named, folds = self.plan.named[cell[METHOD]], 1 if self.rows.test is not None else self.plan.folds
        if cell[LABELS] is None:
            return None
        return folds * measured_curves().seconds([str(named.method)], [cell[LABELS]], self._words) or None

    @cached_property
    def _words(self) -> float:
        """Of a text in the median, as far as it is read: a token is a word at most."""
        lengths = [len(text.split()) for text in (self.rows.test or self.rows.pool).texts]
        return float(np.median(np.minimum(lengths, self.plan.max_tokens)))

    def check(self, cells: Sequence[Cell]) -> str:
        lacking = [
            name for name in self.plan.named if "unlabelled" in self._class(name).NEEDS and not self.rows.unlabelled
        ]
        if lacking and len(self.rows.pool) <= max(self.sizes):
            raise ConfigError(
                f"{lacking[0]} learns from unlabelled rows, and there are none; name some: unlabelled= FILE"
            )
        for name in self.plan.named:
            for role in sorted(self._method(name).roles):
                self.setting.model_for(role)
        kind, pool, test = self.rows.pool.kind, len(self.rows.pool), self.rows.test
        tested = f"{self.plan.folds}-fold cross-validation" if test is None else f"{len(test):,} test rows"
        return (
            f"{len(self.plan.named)} methods, {counted(len(kind.names), 'label')}: {pool:,} labelled rows, {tested}, "
            f"{len(self.rows.unlabelled):,} unlabelled; {counted(len(cells), 'cell')}"
        )

    def made_of(self, cell: Cell) -> dict[str, Any]:
        named = self.plan.named[cell[METHOD]]
        uses: dict[str, Any] = (
            {"unlabelled": self._digests[1]} if "unlabelled" in self._class(cell[METHOD]).NEEDS else {}
        )
        if named.choose != STRATIFIED:  # a choice depends on those before it
            uses |= {"choose": named.choose, "sizes": [x for x in self.sizes if x <= cell[LABELS]]}
        return {
            "model": self.config.model, "method": named.method, "options": plain(named.options), "seed": cell.seed,
            "labels": cell[LABELS], "max_tokens": self.plan.max_tokens, "descriptions": self.plan.descriptions,
            "models": {role: self.plan.models[role] for role in sorted(self._method(cell[METHOD]).roles)},
            "rows": self._digests[0], **uses,
        }  # fmt: skip

    @cached_property
    def _digests(self) -> tuple[str, str]:
        """Fingerprints of labelled and test rows, and of the unlabelled ones."""
        test = self.rows.test
        known = [
            {"text": t, "label": json.dumps(x)}
            for part in (self.rows.pool, test)
            if part
            for t, x in zip(part.texts, part.labels, strict=True)
        ]
        others = [{"text": text} for text in self.rows.unlabelled]
        known.append({"text": f"folds {self.plan.folds if test is None else 0}", "label": str(len(self.rows.pool))})
        return InMemoryRows(known).fingerprint, InMemoryRows(others).fingerprint if others else ""

    # ------------------------------------------------------------------------------------------------- a cell

    def evaluate(self, cell: Cell, progress: StudyProgress) -> CellResult:
        progress.evaluating(str(cell))
        self._rehearse(cell[METHOD])
        start, borrowed = time.perf_counter(), self.setting.vectors.borrowed
        tested, holds, method = self._answers(cell)
        seconds = time.perf_counter() - start + self.setting.vectors.borrowed - borrowed
        cell.folder.mkdir(parents=True, exist_ok=True)
        answers = LabelledTexts(tested.texts, holds, tested.kind).labels
        write_json(cell.folder / ANSWERS, {"answers": answers}, DataError)
        predictions = [
            Prediction(index=i, where=f"row {i}", row={}, label=label, predicted=answer)
            for i, (label, answer) in enumerate(zip(tested.labels, answers, strict=True))
        ]
        result = scored(tested.kind.metrics(predictions), {"seconds": seconds}, rows=self._digests[0])
        chosen = list(self.metrics)
        result = replace(
            result,
            scores={name: result.scores[name] for name in chosen},
            tables=list(method.tables()) if method else [],
        )
        if cell[LABELS] is not None and method is not None and method.withheld and cell.seed == self.plan.seeds[0]:
            held_out = f"holds {method.withheld} out, to choose by, and learns from the rest"
            note = f"of {cell[LABELS]} labels {cell[METHOD]} {held_out}"
            result = replace(result, note=note)
        return result

    def _rehearse(self, name: str) -> None:
        """Before the first cell of a method is timed: pay what starting costs, which belongs to no cell."""
        if name not in self._rehearsed:
            named = self.plan.named[name]
            rehearse(str(named.method), self.setting, self.rows.pool.kind, **named.options)
            self._rehearsed.add(name)

    @property
    def metrics(self) -> tuple[str, str]:
        """Macro F1, and what is the same as micro F1 where a row has one label."""
        return ("f1_macro", "f1_micro" if self.rows.pool.several else "accuracy")

    def _answers(self, cell: Cell) -> tuple[LabelledTexts, np.ndarray, Method[Any] | None]:
        """The test rows, which labels hold by the method [N, L], and the method as it was fitted last."""
        pool, test = self.rows.pool, self.rows.test
        if test is not None:
            holds, method = self._fitted(cell, pool, test)
            return test, holds, method
        if cell[LABELS] is None:  # it learns nothing from the pool
            holds, method = self._fitted(cell, pool, pool)
            return pool, holds, method
        holds = np.zeros(pool.holds.shape, dtype=bool)
        for fold, (inner, outer) in enumerate(pool.folds(self.plan.folds, cell.seed)):
            holds[outer], method = self._fitted(cell, pool.select(inner), pool.select(outer), fold)
        return pool, holds, method

    def _fitted(
        self, cell: Cell, pool: LabelledTexts, test: LabelledTexts, fold: int = 0
    ) -> tuple[np.ndarray, Method[Any] | None]:
        named, size = self.plan.named[cell[METHOD]], cell[LABELS]
        method = self._method(cell[METHOD], cell.seed)
        if size is None:
            method.fit(LabelledTexts.names_only(pool.kind.names, several=pool.several), self.rows.unlabelled)
            return method.decide(method.scores(test.texts)), method
        chosen = self._chosen(cell, pool, fold)
        labelled = pool.select(chosen)
        # All that can be learned from equal labels is this label.
        equal = bool((labelled.holds == labelled.holds[0]).all())
        if not equal:
            # The texts of the pool that this slice does not have: their labels are not known here.
            others = [pool.texts[i] for i in np.setdiff1d(np.arange(len(pool)), chosen)]
            method.fit(labelled, [*others, *self.rows.unlabelled])
        if named.choose != STRATIFIED and size < self.sizes[-1]:
            self._choose_next(cell, pool, fold, chosen, None if equal else method.scores)
        if equal:
            return np.tile(labelled.holds[0], (len(test), 1)), None
        return method.decide(method.scores(test.texts)), method

    def _chosen(self, cell: Cell, pool: LabelledTexts, fold: int) -> np.ndarray:
        """Which rows of the pool a cell learns from."""
        size, strategy = min(cell[LABELS], len(pool)), self.plan.named[cell[METHOD]].choose
        smaller = [x for x in self.sizes if x < size]
        if strategy == STRATIFIED:
            return slices(pool.labels, [*smaller, size], seed=cell.seed)[-1]
        if not smaller:
            return self._more(cell, pool, np.zeros(0, dtype=np.int64), size, None)
        levels = {**cell.levels, LABELS: smaller[-1]}
        path = seed_folder(self.output / folder_name(levels), cell.seed) / CHOSEN
        return np.array(read_json_object(path, DataError)["next"][str(fold)])

    def _choose_next(self, cell: Cell, pool: LabelledTexts, fold: int, chosen: np.ndarray, scores: Any) -> None:
        """Choose the rows of the next cell, and store them."""
        size = min(self.sizes[self.sizes.index(cell[LABELS]) + 1], len(pool))
        more = self._more(cell, pool, chosen, size - len(chosen), scores)
        path = cell.folder / CHOSEN
        cell.folder.mkdir(parents=True, exist_ok=True)
        known = read_json_object(path, DataError)["next"] if fold and path.is_file() else {}
        write_json(path, {"next": {**known, str(fold): [*chosen.tolist(), *more.tolist()]}}, DataError)

    def _more(self, cell: Cell, pool: LabelledTexts, chosen: np.ndarray, count: int, scores: Any) -> np.ndarray:
        strategy = self.plan.named[cell[METHOD]].choose
        return choose_texts(
            pool.texts, chosen, count, strategy, np.random.default_rng([cell.seed, len(chosen)]),  # type: ignore[arg-type]
            scores=scores, vectors=self.setting.vectors, several=pool.several,
        )  # fmt: skip

    # ----------------------------------------------------------------------------------------------- the report

    def completed(self, report: StudyReport, cells: Sequence[Cell]) -> StudyReport:
        if len(report.cells) == report.planned:  # no cell needs what they share any more
            shutil.rmtree(self.output / WORK, ignore_errors=True)
        test = self.rows.test
        tested = "each labelled row once, by cross-validation" if test is None else f"{len(test):,} rows"
        notes = [
            f"tested on {tested}; a number of labels is all that a method had, those that it chose by among them",
            *self.notes,
            *dict.fromkeys(report.notes),
        ]
        facts = {
            "labels": list(self.rows.pool.kind.names), "labelled": len(self.rows.pool),
            "unlabelled": len(self.rows.unlabelled), "tested": len(self.rows.test or self.rows.pool),
            "words": self._words,
            "model": Path(str(self.config.model)).name, "page": str(self.output / "study.html"),
            "methods": {name: str(named.method) for name, named in self.plan.named.items()},
            "title": f"Few labels: {', '.join(Path(name).name for name in as_list(self.config.data.train))}",
        }  # fmt: skip
        return replace(report, notes=notes, facts=facts, examples=list(self._disagreements(cells)))

    def _disagreements(self, cells: Sequence[Cell]) -> Iterator[Example]:
        """Rows on which methods disagree: with the most labels so far, by the first seed, the most divided first."""
        first = [x for x in cells if x.seed == cells[0].seed]
        size = max((x[LABELS] for x in first if x[LABELS]), default=None)
        shown = [x for x in first if x[LABELS] in (size, None)]
        answers = {x[METHOD]: read_json_object(x.folder / ANSWERS, DataError)["answers"] for x in shown}
        tested = self.rows.test or self.rows.pool
        rows = []
        for i, (text, label) in enumerate(zip(tested.texts, tested.labels, strict=True)):
            outputs = {name: _written(column[i]) for name, column in answers.items()}
            if len({*outputs.values()}) > 1:
                rows.append((len({*outputs.values()}), text, _written(label), outputs))
        rows.sort(key=lambda x: -x[0])
        for _, text, label, outputs in rows[:MAX_EXAMPLES]:
            yield Example(
                test_set=f"the test with {size or 0} labels",
                reference=label,
                outputs=outputs,
                text=shorten(text, MAX_TEXT),
            )


def seconds_of(cell: Cell) -> float | None:
    """What a finished cell took; None = it is not finished."""
    if not (cell.folder / CELL).is_file():
        return None
    return float(read_json_object(cell.folder / CELL, DataError)["costs"]["seconds"])


def _written(label: Any) -> str:
    """A label, or several, as a cell of a table."""
    return label if isinstance(label, str) else ", ".join(label) or "–"


# ------------------------------------------------------------------------------------------------- from a file


def few_labels_study(source: str | Path | None, options: FewLabelsOptions | None = None, **reading: Any) -> Study:
    """A study of methods by the number of labels.

    Args:
        source: a configuration file (YAML); None = all is in the options
        options: in place of what the configuration says
        reading: options of reading the files of the options, as those of `read_rows`
    Raises: ConfigError: an invalid key or value. DataError: no such rows.
    """
    options = options or FewLabelsOptions()
    values = {} if source is None else read_config(as_path(source, "source"))
    options.apply(values, reading)
    if not (values.get("data") or {}).get("train"):
        raise ConfigError(
            "a study of few labels needs labelled rows: data= FILE; or a configuration, as examples/few_labels.yaml"
        )
    config = parse(FewLabelsConfig, values)
    for name, each in config.few_labels.named.items():
        make_method(str(each.method), Setting(), **each.options).require_encoder(config.model, name)
    evaluator = FewLabelsEvaluator(config, read_few_labels(config.data, config.few_labels))
    main, more = evaluator.metrics
    report = config.few_labels.report or ReportOptions(
        metric=main, more=[more], over=LABELS if len(evaluator.sizes) > 1 else None, cost="seconds",
        at={LABELS: evaluator.sizes[-1]}, compare=[METHOD], intervals="both", winners=True,
    )  # fmt: skip
    if options.baseline is not None:
        report = replace(report, baseline=options.baseline)
    return Study({}, evaluator, config.output, options=report)


def few_labels(
    source: str | Path | None = None,
    options: FewLabelsOptions | None = None,
    progress: StudyProgress | None = None,
    **reading: Any,
) -> StudyReport:
    """Which method of few-shot classification pays off at how many labels; see `few_labels_study`.

    few_labels(options=FewLabelsOptions(data=["rows.csv"], unlabelled=["more.csv"], model="all-MiniLM-L6-v2"))
    """
    study = few_labels_study(source, options, **reading)
    return study.run(None if options is None else options.seeds, progress)
