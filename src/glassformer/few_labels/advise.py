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
from glassformer.few_labels.row_facts import RowFacts, row_facts
from glassformer.files import counted
from glassformer.files.schema import given
from glassformer.reports.page import shown_label
from glassformer.reports.table import clock

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
ALL_TESTED_BELOW, FOLDS, SEEDS, TESTED = 400, 4, 3, 0.25
"""How a comparison tests: by cross-validation below this many labelled rows, else on a quarter of them."""
SIZES = (8, 16, 32, 64, 128, 220)
BEST = 3
"""Methods whose expected quality a step names."""
MAX_NAMED = 5
LABELLED = "labelled.csv"
"""Where labels go whose rows are in a file without a column of labels."""
ENGLISH = "sentence-transformers/all-MiniLM-L6-v2"
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
SELF_TAUGHT = ("domain-adaptation", "self-training")
"""Methods that learn from unlabelled rows and need no other model."""


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

    def compare(self, methods: Sequence[str] | None = None, ending: str = "few") -> str:
        """The command that compares methods on the rows; those of a file that has no labels are the unlabelled ones.

        Args:
            ending: of the output folder: studies of other methods are other studies
        """
        has_labels, others = "label" in self.facts.columns, [*self.options.unlabelled]
        rows = self if has_labels else replace(self, data=LABELLED)
        command = rows.command(
            "few-labels", separator=self.options.separator, model=self.model, output=f"runs/{self.folder}-{ending}",
            methods=methods, labels=self.sizes,
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
        return int(labelled * (1 - 1 / FOLDS if labelled < ALL_TESTED_BELOW else 1 - TESTED))

    def time(self, methods: Sequence[str]) -> str:
        """About how long that takes, as it was measured; empty = that was not."""
        sizes = self.sizes or [size for size in SIZES if size <= self.pool] or [self.pool]
        runs = SEEDS * (FOLDS if self.facts.labelled < ALL_TESTED_BELOW else 1)
        seconds = runs * self.curves.seconds(methods, sizes, len(self.facts.labels))
        return (
            f"; about {clock(seconds)} hours:minutes"
            if seconds >= 3600
            else f"; about {max(1, round(seconds / 60))} min" * (seconds > 0)
        )

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
    facts = row_facts(own, others, options.columns, options.separator)
    if (mark := facts.separator) is not None:  # labels of labels would hide how many each has
        joined = f"labels such as {_listed([x for x in facts.labels if mark in x], 2)} are read as several"
        options = replace(options, separator=mark)
        facts = row_facts(own, others, options.columns, mark)
    if options.label_names and facts.labels:
        raise ConfigError(f"label_names= are of labels that no row has yet; rows have {_listed(list(facts.labels))}")
    if options.label_names and options.separator is None and len(set(options.label_names)) < 2:
        raise ConfigError(
            f"label_names= is {options.label_names[0]} alone; there is nothing to tell apart: name another"
        )
    model = options.model or (ENGLISH if is_english(facts) else MULTILINGUAL)
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


def is_english(facts: RowFacts) -> bool:
    """Whether an English encoder can read the texts, as far as that can be told."""
    return not {*facts.languages} - ({"latin"} if facts.scripts else {"en"})


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
        AdviceStep(what="Then compare methods on them", why=zero, command=rows.compare()),
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
    facts, ranking, steps = rows.facts, rows.ranking, list[AdviceStep]()
    usual = [name for name, _ in ranking]
    best = next(name for name in usual if all(x.learns(name) for x in rows.curves.data_sets))
    if facts.labelled >= LEAST_TO_COMPARE:
        why = (
            f"which method is best with {counted(facts.labelled, 'labelled row')} differs between data, and on yours "
            f"can be measured, with intervals{rows.time(usual)}"
        )
        steps.append(
            AdviceStep(what="Compare methods on your rows", why=why, expected=_best(rows), command=rows.compare())
        )
        if facts.unlabelled >= ENOUGH_UNLABELLED:
            why = f"{facts.unlabelled:,} rows without a label show the words of your texts, and some methods learn them"
            command = rows.compare(list(dict.fromkeys([best, "fine-tuning", *SELF_TAUGHT])), "few-unlabelled")
            what = "Learn from the rows without labels too"
            steps.append(AdviceStep(what=what, why=why, expected=_from_unlabelled(rows), command=command))
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
        f"{facts.labelled:,} labelled rows are {facts.per_label:,.0f} a label, enough to train the whole encoder; a "
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


def _best(rows: AdvisedRows) -> str:
    """The methods that were best on other data with about as many labels a class."""
    parts = []
    for data in rows.curves.data_sets:
        now = rows.facts.labels_in(data)
        usable = [x for x in data.curves if not x.unlabelled or rows.facts.unlabelled >= ENOUGH_UNLABELLED]
        best = sorted(usable, key=lambda x: -x.near(now).value)[:BEST]
        parts.append(f"{data.name} ({data.metric}): {', '.join(f'{x.name} {x.near(now).result}' for x in best)}")
    return _on_other_data(parts)


def _twice(rows: AdvisedRows) -> str:
    """What twice as many labels brought on other data, by the method that is best there with as many."""
    parts = []
    for data in rows.curves.data_sets:
        now = rows.facts.labels_in(data)
        curves = [x for x in data.curves if x.needs_labels and x.near(now).labels != x.near(2 * now).labels]
        if curves:
            best = max(curves, key=lambda x: x.near(now).value)
            parts.append(f"{data.name}: {best.name} {best.near(now).result}, {best.near(2 * now).result}")
    return _on_other_data(parts)


def _from_labels(rows: AdvisedRows) -> str:
    """What names alone, and the first labels, brought on other data."""
    parts = []
    for data in rows.curves.data_sets:
        flat = [x for x in data.curves if not x.needs_labels]
        curves = [x for x in data.curves if x.needs_labels]
        if flat and curves:
            zero = max(flat, key=lambda x: x.points[0].value)
            number = FIRST_LABELS * data.classes
            best = max(curves, key=lambda x: x.near(number).value)
            results = [f"{x.name} {x.near(number).result}" for x in (zero, best)]
            parts.append(f"{data.name}: {', '.join(results)}")
    return _on_other_data(parts)


def _from_unlabelled(rows: AdvisedRows) -> str:
    """What methods that learn from unlabelled rows brought on other data, next to fine-tuning."""
    parts = []
    for data in rows.curves.data_sets:
        now, plain = rows.facts.labels_in(data), data.curve("fine-tuning")
        others = [x for x in data.curves if x.unlabelled]
        if plain is not None and others:
            parts.append(f"{data.name}: {', '.join(f'{x.name} {x.near(now).result}' for x in (plain, *others))}")
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
    if "label" not in facts.columns:
        lines.append(
            "the file has no column 'label'; if its labels are in another one, name it: columns={'label': NAME}"
        )
    languages = ", ".join(facts.languages)
    if not is_english(facts):
        checked = (
            f"check that {rows.model} reads them"
            if given_model
            else f"so the commands name {rows.model}, which reads 50 languages"
        )
        lines.append(f"not all texts are English ({languages}), {checked}")
    if facts.scripts:
        lines.append("languages of one script are not told apart: pip install 'glassformer[clean]' does")
    if rows.is_long:
        lines.append(f"texts are long: by default {128} tokens of each are read, about {LONG_WORDS} words")
    if n := facts.problems.get("repeat"):
        lines.append(f"rows that repeat an earlier text: {n:,}; a comparison counts each text once")
    if n := facts.problems.get("empty"):
        lines.append(f"rows without a text, left out: {n:,}")
    return lines


def _listed(names: Sequence[str], most: int = MAX_NAMED) -> str:
    return ", ".join(map(shown_label, names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")
