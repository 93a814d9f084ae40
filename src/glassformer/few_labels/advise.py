"""Few labels or none: which technique to use when; what to do next with rows, why, and the command that does it.

    no label            zero-shot by the names of the labels; label a few rows of each
    few labels          learn from them with a sentence encoder; with many unlabelled rows from those too
    many labels         fine-tune the encoder

Which method is expected to be best, and how good it is, is read off measured curves of other data (`curves.py`).
Source: Tunstall et al. 2022, "Natural Language Processing with Transformers", figure 9-1.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.options import ReadingOptions
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError
from glassformer.few_labels.advice import Advice, AdviceStep, Branch
from glassformer.few_labels.curves import MeasuredCurves, measured_curves
from glassformer.few_labels.options import AdviceOptions
from glassformer.few_labels.row_facts import MISSING, RowFacts, is_english, language_note, row_facts
from glassformer.few_labels.rows import ALL_TESTED_BELOW, SIZES, TEST_SHARE, numbers_of_labels
from glassformer.files import counted
from glassformer.files.schema import given
from glassformer.reports.page import shown_label
from glassformer.reports.table import hours_and_minutes, number

MANY_A_LABEL, MANY = 64, 500
"""Labelled rows of a label, in the median, and in all, from which on fine-tuning is the first thing to do."""
ENOUGH_UNLABELLED = 200
"""Unlabelled rows from which on methods that learn from them are worth a try."""
LEAST_TO_COMPARE = 12
"""Labelled rows from which on methods can be compared on them."""
FIRST_LABELS = 8
"""Rows of each label that are to be labelled first."""
IMBALANCED = 10
"""From so many times as many rows as the rarest label has, the most frequent one dominates."""
LONG_WORDS = 95
"""Words of a text of about 128 tokens, the most that methods of few labels read by default."""
LONGEST_TOKENS = 512
MANY_LABELS = 16
"""Labels from which on the usual numbers of labelled rows are too few, and others are tried."""
FOLDS, SEEDS = 4, 3
"""Of a comparison, by default."""
AN_HOUR = 4_000.0
"""Seconds that the first comparison should take at most."""
BEST = 4
"""Methods whose expected quality a step names."""
MAX_NAMED = 5
LABELLED = "labelled.csv"
"""Where labels go whose rows are in a file without a column of labels."""
ENGLISH = "sentence-transformers/all-MiniLM-L6-v2"
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
PLAIN = "fine-tuning"
"""The method that those which learn from unlabelled rows are to beat."""


@dataclass(frozen=True)
class Extent:
    """How much a comparison does: how many seeds, and which numbers of labels."""

    seeds: int
    sizes: list[int]


@dataclass(frozen=True)
class AdvisedRows:
    """The rows that the advice is on, and what commands on them say."""

    data: str
    facts: RowFacts
    options: AdviceOptions
    reading: ReadingOptions
    model: str
    curves: MeasuredCurves

    def command(self, verb: str, **options: object) -> str:
        """A command on the file, with how it is read, for a shell."""
        first = [self.data] if verb in ("data inspect", "advise") else ["--data", self.data]
        columns = {role: name for role, name in self.facts.columns.items() if role != name}
        words = ["glassformer", *verb.split(), *first]
        words += [word for role, name in columns.items() for word in ("--column", f"{role}={name}")]
        for name, value in {**given(self.reading), **options}.items():
            if value is True:
                words.append(f"--{name.replace('_', '-')}")
            elif value is not None:
                text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
                words += [f"--{name.replace('_', '-')}", text]
        return shlex.join(words)

    @property
    def folder(self) -> str:
        """The name of output folders."""
        return Path(self.data).name.partition(".")[0] or "rows"

    def learn(self, method: str, *more: str) -> str:
        """The command that learns a method from all labels, and saves it."""
        command = self.command("train", task="classify", method=method, model=self.model, output=f"runs/{self.folder}")
        keys = [*more, *([f"task_options.separator={json.dumps(x)}"] if (x := self.options.separator) else [])]
        keys += [f"method.max_tokens={LONGEST_TOKENS}"] * self.is_long
        return " ".join([command, *(shlex.quote(word) for key in keys for word in ("--set", key))])

    @property
    def is_long(self) -> bool:
        """Whether texts are longer than what methods read by default."""
        return self.facts.words["95%"] > LONG_WORDS

    def compare(self, methods: Sequence[str] | None = None, extent: Extent | None = None, ending: str = "few") -> str:
        """The command that compares methods on the rows; those of a file that has no labels are the unlabelled ones.

        Args:
            extent: seeds and numbers of labels; None = the usual ones
            ending: of the output folder: studies of other methods are other studies
        """
        has_labels, others = "label" in self.facts.columns, [*self.options.unlabelled]
        rows = self if has_labels else replace(self, data=LABELLED)
        command = rows.command(
            "few-labels", separator=self.options.separator, model=self.model, output=f"runs/{self.folder}-{ending}",
            methods=methods, labels=extent.sizes if extent and extent.sizes != self.usual_sizes else self.sizes,
            seeds=extent.seeds if extent and extent.seeds != SEEDS else None,
            max_tokens=LONGEST_TOKENS if self.is_long else None,
        )  # fmt: skip
        words = [x for path in ([] if has_labels else [self.data]) + others for x in ("--unlabelled", path)]
        return " ".join([command, *map(shlex.quote, words)])

    @property
    def sizes(self) -> list[int] | None:
        """Numbers of labelled rows to compare with; None = the usual ones."""
        labels, most = len(self.facts.labels), self.pool
        if labels < MANY_LABELS:
            return None
        return [n for k in range(8) if (n := labels * 2**k) <= most] or [most]

    @property
    def pool(self) -> int:
        """Labelled rows that a method of a comparison may learn from."""
        labelled = self.facts.labelled
        return int(labelled * (1 - 1 / FOLDS if labelled < ALL_TESTED_BELOW else 1 - TEST_SHARE))

    @property
    def usual_sizes(self) -> list[int]:
        """Numbers of labelled rows that a comparison has by itself; all that there are is added to fewer."""
        if self.sizes:
            return self.sizes
        return numbers_of_labels(SIZES, self.pool)

    def seconds(self, methods: Sequence[str], extent: Extent) -> float:
        """About how long that takes, as it was measured on other data."""
        folds = FOLDS if self.facts.labelled < ALL_TESTED_BELOW else 1
        words = min(self.facts.words["50%"], LONGEST_TOKENS if self.is_long else LONG_WORDS)
        return extent.seeds * folds * self.curves.seconds(methods, extent.sizes, words)

    def within_an_hour(self, methods: Sequence[str]) -> Extent:
        """The most seeds and numbers of labels that take about an hour, or the fewest: 1 seed, the largest number."""
        usual = self.usual_sizes
        extents = [Extent(seeds, sizes) for seeds in range(SEEDS, 0, -1) for sizes in (usual, usual[-2:])]
        return next((x for x in extents if self.seconds(methods, x) <= AN_HOUR), Extent(1, usual[-1:]))

    def quick(self, methods: Sequence[str]) -> list[str]:
        """Those of the methods that can be compared in about an hour: without the slowest, as far as is needed."""
        least = Extent(1, self.usual_sizes[-1:])
        chosen = sorted(methods, key=lambda name: self.seconds([name], least))
        while len(chosen) > 2 and self.seconds(chosen, least) > AN_HOUR:
            chosen.pop()
        return [name for name in methods if name in chosen]

    def time(self, methods: Sequence[str], extent: Extent) -> str:
        """With how many seeds and labels methods are compared, and about how long that takes."""
        parts = [counted(extent.seeds, "seed")] if extent.seeds != SEEDS else []
        parts += [f"{_and([*map(str, extent.sizes)])} labels"] if extent.sizes != self.usual_sizes else []
        seconds = self.seconds(methods, extent)
        less = f"; with {', '.join(parts)}" if parts else ""
        return less + (f"; about {hours_and_minutes(seconds)}" if seconds else "")

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """Methods, the best first, as measured on other data with as many labels a class."""
        return self.curves.ranked(self.facts.labelled, len(self.facts.labels), unlabelled=False)


def advise(data: str | Path, options: AdviceOptions | None = None, reading: ReadingOptions | None = None) -> Advice:
    """What to do next with a file of rows, of which some may have labels.

        advise("rows.csv").steps[0].command

    Args:
        reading: how files are read
    Raises: DataError: no such file or column, no text, labels that are none. ConfigError: names of labels twice.
    """
    options, reading = options or AdviceOptions(), reading or ReadingOptions()
    keywords = reading.keywords()
    others = [read_rows(path, **keywords) for path in options.unlabelled]
    own, joined = read_rows(data, **keywords), ""
    facts = row_facts(own, others, options.columns, options.separator, skip=reading.skip_bad_rows)
    if (mark := facts.separator) is not None:  # labels of labels would hide how many each has
        joined = f"labels such as {_listed([x for x in facts.labels if mark in x], 2)} are read as several"
        options = replace(options, separator=mark)
        facts = row_facts(own, others, options.columns, mark, skip=reading.skip_bad_rows)
    if options.label_names and facts.labels:
        raise ConfigError(f"label_names= are of labels that no row has yet; rows have {_listed(list(facts.labels))}")
    if options.label_names and options.separator is None and len(set(options.label_names)) < 2:
        raise ConfigError(
            f"label_names= is {options.label_names[0]} alone; there is nothing to tell apart: name another"
        )
    model = options.model or (ENGLISH if is_english(facts.languages, scripts=facts.scripts) else MULTILINGUAL)
    rows = AdvisedRows(str(data), facts, options, reading, model, measured_curves())
    branch = branch_of(facts)
    steps = [*problems(rows), *BRANCHES[branch](rows)]
    lines = [*notes(rows), *([f"{joined}, with {mark!r} between them; separator= names another"] if joined else [])]
    return Advice(branch=branch, steps=steps, facts=facts, model=model, measured=rows.curves, notes=lines)


def branch_of(facts: RowFacts) -> Branch:
    """The branch of the decision tree."""
    if not facts.labelled:
        return "none"
    if len(facts.labels) < 2 and not facts.several:
        return "one"
    return "many" if facts.per_label >= MANY_A_LABEL and facts.labelled >= MANY else "few"


# ------------------------------------------------------------------------------------------------- steps


def problems(rows: AdvisedRows) -> list[AdviceStep]:
    """What is wrong with the labels, and comes first since every method learns it."""
    facts, steps = rows.facts, list[AdviceStep]()
    inspect = rows.command("data inspect")
    if n := facts.problems.get("conflict"):
        why = f"rows that repeat a text with another label: {n:,}; no method can be right on both"
        steps.append(AdviceStep(what="Decide which label is right", why=why, command=inspect))
    if n := facts.problems.get("spelling"):
        why = f"labels that differ in case or white space alone count as different ones: {n:,}"
        steps.append(AdviceStep(what="Write each label in one way", why=why, command=inspect))
    if n := facts.problems.get("missing"):
        names = _listed([name for name in facts.labels if name.strip().lower() in MISSING])
        why = f"rows whose label is {names}: {n:,}; it counts as a label like any other, and a row without one has none"
        steps.append(AdviceStep(what=f"Empty the cells of {names}, if it says that there is no label", why=why))
    return steps


def without_labels(rows: AdvisedRows) -> list[AdviceStep]:
    """No label: zero-shot, and labels for a few rows."""
    names, facts = rows.options.label_names or (), rows.facts
    count = (
        f"{FIRST_LABELS * len(names)} rows, {FIRST_LABELS} of each label"
        if names
        else f"{FIRST_LABELS} rows of each label"
    )
    where = ""
    if "label" not in facts.columns:
        where = f"; write them to {LABELLED}, with the columns {facts.columns['text']} and label"
    why = f"without any label nothing says how good an answer is, and few are enough to begin with{where}"
    zero = "a method that reads nothing but the names of the labels is among them (zero-shot), and may be the best"
    steps = [
        AdviceStep(what=f"Label {count}", why=why, expected=_from_labels(rows)),
        AdviceStep(
            what="Then compare methods on them", why=zero, command=rows.compare([name for name, _ in rows.ranking])
        ),
    ]
    if names:
        meanwhile = rows.learn("label-names", f"method.labels={json.dumps([*names])}")
        why = "it reads the names alone, and how good it is only labels can tell"
        steps.insert(0, AdviceStep(what="Meanwhile, classify by the names of the labels", why=why, command=meanwhile))
    return steps


def one_label(rows: AdvisedRows) -> list[AdviceStep]:
    """One label alone: rows of another kind are needed."""
    only = next(iter(rows.facts.labels))
    why = (
        f"all {counted(rows.facts.labelled, 'labelled row')} are {shown_label(only)}, so there is nothing to tell apart"
    )
    return [
        AdviceStep(what=f"Label rows that are not {shown_label(only)}, {FIRST_LABELS} of each other label", why=why),
        AdviceStep(what="Then ask again", why="what to do depends on the labels", command=rows.command("advise")),
    ]


def few(rows: AdvisedRows) -> list[AdviceStep]:
    """Few labels: compare, use the unlabelled rows, label more."""
    facts, steps = rows.facts, list[AdviceStep]()
    usual = [name for name, _ in rows.ranking]
    best = next(name for name in usual if all(x.learns(name) for x in rows.curves.data_sets))
    if facts.labelled >= LEAST_TO_COMPARE:
        quick = rows.quick(usual)
        steps.append(_compare(rows, "Compare methods on your rows", _which_is_best(rows), quick, "few"))
        if slow := [name for name in usual if name not in quick]:
            why = f"{_and(slow)} would have taken the first comparison beyond an hour"
            steps.append(_compare(rows, "Then compare the slow ones", why, slow, "few-slow"))
        better, worse = _learners_from_texts(rows)
        if better and facts.unlabelled >= ENOUGH_UNLABELLED:
            why = f"{facts.unlabelled:,} rows without a label show the words of your texts, and some methods learn them"
            if worse:
                why += f" (without {_and(worse)}, worse than {PLAIN} on all other data)"
            names = list(dict.fromkeys([best, *([PLAIN] if PLAIN in usual else []), *better]))
            steps.append(_compare(rows, "Learn from the rows without labels too", why, names, "few-unlabelled"))
    more = AdviceStep(what=_more(facts), why=_why_more(rows), expected=_twice(rows))
    if not steps:
        least = f"{LEAST_TO_COMPARE} labelled rows are the least"
        return [more, AdviceStep(what="Then compare methods", why=least, command=rows.compare())]
    why = f"of methods that learn from labels, the best on other data was {best}; write the one that is best on yours"
    last = AdviceStep(
        what="Then learn from all labels by the best method, and save it", why=why, command=rows.learn(best)
    )
    return [*steps, more, last]


def many(rows: AdvisedRows) -> list[AdviceStep]:
    """Many labels: fine-tune."""
    facts, run = rows.facts, f"runs/{rows.folder}"
    extra: dict[str, object] = (
        {"set": f"task_options.separator={json.dumps(rows.options.separator)}"} if rows.options.separator else {}
    )
    if facts.unlabelled:  # training refuses such rows, unless it may leave them out
        extra["skip_bad_rows"] = True
    train = rows.command("train", task="classify", model=rows.model, validation=0.1, output=run, **extra)
    why = (
        f"{facts.labelled:,} labelled rows are {number(facts.per_label)} a label, enough to train the whole encoder; a "
        "tenth is held out, on which baselines are evaluated too"
    )
    errors, mixed = f"glassformer errors {shlex.quote(run)}", "labels that are wrong, or mixed up, show there first"
    steps = [
        AdviceStep(what="Fine-tune an encoder", why=why, command=train),
        AdviceStep(what="Look at its errors", why=mixed, command=errors),
    ]
    if facts.rare(FIRST_LABELS) or facts.imbalance >= IMBALANCED:
        steps.append(AdviceStep(what=_more(facts), why=_why_more(rows)))
    return steps


def _compare(rows: AdvisedRows, what: str, why: str, methods: Sequence[str], ending: str) -> AdviceStep:
    """A comparison of methods: its command has all that its sentence names."""
    extent = rows.within_an_hour(methods)
    return AdviceStep(
        what=what, why=why + rows.time(methods, extent), expected=_reached(rows, methods),
        command=rows.compare(methods, extent, ending),
    )  # fmt: skip


def _learners_from_texts(rows: AdvisedRows) -> tuple[list[str], list[str]]:
    """Methods that learn from unlabelled rows: those to try, and those that were worse than plain on all other data."""
    below: dict[str, list[bool]] = {}
    for data in rows.curves.data_sets:
        names = [x.name for x in data.curves if x.unlabelled]
        values = {x.name: point.value for x, point in data.compared(rows.facts.labels_in(data), [PLAIN, *names])}
        for name in names:
            below.setdefault(name, []).append(values.get(name, 0.0) < values.get(PLAIN, 0.0))
    return [name for name in below if not all(below[name])], [name for name in below if all(below[name])]


BRANCHES = {"none": without_labels, "one": one_label, "few": few, "many": many}


# --------------------------------------------------------------------------------------- reasons and numbers


def _more(facts: RowFacts) -> str:
    """Which rows to label, and how many."""
    rare = facts.rare(FIRST_LABELS)
    if rare:
        missing = sum(FIRST_LABELS - facts.labels[name] for name in rare)
        return f"Label {missing:,} more rows, so that each label has {FIRST_LABELS}"
    if facts.imbalance >= IMBALANCED:
        return f"Label more rows of {_listed(list(facts.labels)[::-1][:MAX_NAMED])}"
    return f"Label {facts.labelled:,} more rows"


def _why_more(rows: AdvisedRows) -> str:
    facts = rows.facts
    rare = facts.rare(FIRST_LABELS)
    if rare:
        few_of = f"fewer have {len(rare)} of {len(facts.labels)} labels: {_listed(rare)}"
        return f"{few_of}; what has one or two rows can hardly be learned, and not be tested"
    if facts.imbalance >= IMBALANCED:
        times = f"{facts.imbalance:,.0f} times as many rows as the rarest"
        return f"the most frequent label has {times}, and macro F1 counts both the same"
    return "more labels help every method, and narrow all intervals"


def _which_is_best(rows: AdvisedRows) -> str:
    labelled = counted(rows.facts.labelled, "labelled row")
    return f"which method is best with {labelled} differs between data, and on yours can be measured, with intervals"


def _reached(rows: AdvisedRows, methods: Sequence[str]) -> str:
    """What these methods reached on other data, all with the same number of labels, the best first."""
    parts = []
    for data in rows.curves.data_sets:
        now = rows.facts.labels_in(data)
        number, named = data.common(now, methods), data.compared(now, methods)
        shown = ", ".join(f"{x.name} {point.written_value}" for x, point in named[:BEST])
        if named:
            parts.append(f"{data.name} ({data.metric}{f' with {number:,} labels' if number else ''}): {shown}")
    return _on_other_data(parts)


def _twice(rows: AdvisedRows) -> str:
    """What twice as many labels brought on other data, by the method that is best there with as many."""
    parts = []
    for data in rows.curves.data_sets:
        now = rows.facts.labels_in(data)
        curves = [x for x in data.curves if x.needs_labels and x.near(now).labels != x.near(2 * now).labels]
        if curves:
            best, _ = data.compared(now, [x.name for x in curves])[0]
            parts.append(f"{data.name}: {best.name} {best.near(now).result}, {best.near(2 * now).result}")
    return _on_other_data(parts)


def _from_labels(rows: AdvisedRows) -> str:
    """What names alone, and the first labels, brought on other data."""
    parts = []
    for data in rows.curves.data_sets:
        flat = [x for x in data.curves if not x.needs_labels]
        learned = data.compared(
            FIRST_LABELS * data.classes, [x.name for x in data.curves if x.needs_labels and not x.unlabelled]
        )
        if flat and learned:
            zero = max(flat, key=lambda x: x.points[0].value)
            results = [f"{x.name} {point.result}" for x, point in ((zero, zero.points[0]), learned[0])]
            parts.append(f"{data.name}: {', '.join(results)}")
    return _on_other_data(parts)


def _on_other_data(parts: Sequence[str]) -> str:
    return f"On other data, {'; '.join(parts)}." if parts else ""


def notes(rows: AdvisedRows) -> list[str]:
    """What one has to know of the advice."""
    facts, given_model = rows.facts, rows.options.model is not None
    lines = [
        "expectations are measurements of other data, not of yours: "
        + "; ".join(data.described for data in rows.curves.data_sets)
    ]
    chosen = f"so the commands name {rows.model}, which reads 50 languages"
    remedy = f"check that {rows.model} reads them" if given_model else chosen
    if note := language_note(facts.languages, remedy, scripts=facts.scripts):
        lines.append(note)
    if facts.scripts:
        lines.append("languages of one script are not told apart: pip install 'glassformer[clean]' does")
    if rows.is_long:
        lines.append(f"texts are long: by default {128} tokens of each are read, about {LONG_WORDS} words")
    if n := facts.problems.get("repeat"):
        lines.append(f"rows that repeat an earlier text: {n:,}; a comparison counts each text once")
    if n := facts.problems.get("empty"):
        lines.append(f"rows without a text, left out: {n:,}")
    return lines


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _listed(names: Sequence[str], most: int = MAX_NAMED) -> str:
    return ", ".join(map(shown_label, names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")
