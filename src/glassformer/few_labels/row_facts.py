"""What decides which method to use for rows of few labels: labels, unlabelled texts, languages, lengths, problems.

row_facts([rows], columns, …) ──> RowFacts      one pass; of each row some counts and a digest stay in memory
"""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glassformer.data.findings import FindingCollector, spelling_variants
from glassformer.data.report import Lengths, usual_columns
from glassformer.data.sequence import RowSequence, check_column
from glassformer.errors import DataError, MissingExtraError
from glassformer.few_labels.curves import MeasuredData
from glassformer.few_labels.reading import ROLES, kind_of_labels, label_without_text, plain_label, row_text
from glassformer.reports.report import Record
from glassformer.tasks.classify.kinds import labels_in, name_of
from glassformer.tasks.columns import is_missing
from glassformer.text.language import is_long_enough, language_identifier

SEPARATORS = ("|", ";", ",", "/")
SAMPLE = 400
"""Texts whose language is identified, evenly spaced."""
MISSING = ("nan", "n/a", "#n/a", "#nv", "null", "none", "-", "?")
"""Labels that in most files are none, in lower case."""
LEAST_SHARE = 0.05
"""A language that fewer of the texts have may be a mistake of the identifier."""


@dataclass(frozen=True, kw_only=True)
class RowFacts(Record):
    """Rows, labels and texts of files.

    file: the first one
    columns: role → column that was read
    guessed: whether that of the labels is a guess
    others: the columns that were not read
    labels: name → labelled rows that have it, the most frequent first
    several: whether a row may have several
    separator: what seems to be between several labels of a text, and was not named
    words: quantiles of the lengths of texts in words
    languages: code, or name of a script, → share of the texts
    scripts: whether no identifier of languages is installed, and these are scripts alone
    problems: kind of a finding → how many rows, or labels: conflict, repeat, empty, spelling, missing, …
    """

    file: str
    columns: dict[str, str]
    rows: int
    labelled: int
    unlabelled: int
    labels: dict[str, int]
    several: bool
    separator: str | None
    words: dict[str, float]
    languages: dict[str, float]
    scripts: bool
    problems: dict[str, int] = field(default_factory=dict)
    guessed: bool = False
    others: list[str] = field(default_factory=list)

    @property
    def per_label(self) -> float:
        """Labelled rows of a label, in the median."""
        return float(np.median([*self.labels.values()])) if self.labels else 0.0

    @property
    def imbalance(self) -> float:
        """How many times as frequent the most frequent label is as the rarest."""
        counts = list(self.labels.values())
        return max(counts) / min(counts) if counts else 1.0

    def labels_in(self, data: MeasuredData) -> float:
        """The number of labels of measured data with as many a class as here."""
        return data.labels_as(self.labelled, len(self.labels) or data.classes)

    def rare(self, enough: int) -> list[str]:
        """The labels of fewer rows than are enough, the rarest first."""
        return [name for name, count in reversed(self.labels.items()) if count < enough]


def row_facts(
    labelled: RowSequence,
    unlabelled: Iterable[RowSequence],
    columns: Mapping[str, str],
    separator: str | None,
    *,
    skip: bool = False,
) -> RowFacts:
    """Read the rows of which some may have labels, and those of further files, whose labels are not looked at.

    Args:
        columns: role → column; else the usual ones
        separator: what is between several labels in a text
        skip: whether rows with a label and no text are left out
    Raises: DataError: a column that is named and missing, no text at all, labels that are numbers with fractions.
    """
    names = _columns(labelled, columns)
    label = None if "label" in names else plain_label(labelled, names["text"])
    names |= {"label": label} if label else {}
    collector, words, texts = FindingCollector(), list[int](), list[str]()
    values, places, empty = [], [], 0
    for rows, has_labels in [(labelled, "label" in names), *((rows, False) for rows in unlabelled)]:
        check_column(rows.file(0), names["text"], rows.columns, "text")
        for index, row in enumerate(rows):
            text = row_text(row, names)
            value = row.get(names["label"]) if has_labels else None
            has_one = not is_missing(value)
            if not text.strip():
                if has_one and not skip:
                    raise label_without_text(rows, index)
                empty += 1
                continue
            words.append(len(text.split()))
            texts.append(text)
            if has_one:
                values.append(value)
                places.append(rows.where(index))
            sets = tuple(sorted(_labels(value, separator))) if has_one else None
            collector.update("rows", rows, index, (text,), sets)
    if not texts:
        raise DataError(f"{labelled.file(0)}: no row has a text in {names['text']!r}")
    counts, several = _label_counts(values, places, separator)
    problems = {x.kind: x.count for x in collector.findings(["rows"]) if x.kind in ("conflict", "repeat", "damaged")}
    problems |= {"empty": empty, "spelling": len(spelling_variants(counts))}
    problems["missing"] = sum(n for name, n in counts.items() if name.strip().lower() in MISSING)
    languages, scripts = language_shares(texts)
    return RowFacts(
        file=labelled.file(0), columns=names, rows=len(texts) + empty, labelled=len(values),
        unlabelled=len(texts) - len(values), labels=counts, several=several,
        separator=None if several else separator_in(counts), words=Lengths("words", np.array(words)).quantiles,
        languages=languages, scripts=scripts, problems={kind: n for kind, n in problems.items() if n},
        guessed=label is not None, others=[name for name in labelled.columns if name not in names.values()],
    )  # fmt: skip


def _columns(rows: RowSequence, given: Mapping[str, str]) -> dict[str, str]:
    """Role → column: those that are named, else the usual ones; a file may have no labels."""
    for role, name in given.items():
        check_column(rows.file(0), name, rows.columns, role)
    usual = {role: name for role, name in usual_columns([rows]).items() if name in rows.columns}
    names = {**{role: role for role in ROLES if role in rows.columns}, **usual, **given}
    if "text" not in names:
        check_column(rows.file(0), "text", rows.columns, "text")
    return names


def _labels(value: object, separator: str | None) -> list[str]:
    several = separator is not None or isinstance(value, list | tuple | np.ndarray)
    return labels_in(value, separator) if several else [str(value)]


def _label_counts(
    values: Sequence[object], places: Sequence[str], separator: str | None
) -> tuple[dict[str, int], bool]:
    """How many rows have each label, and whether a row may have several."""
    if not values:
        return {}, False
    several = separator is not None or any(isinstance(value, list | tuple | np.ndarray) for value in values)
    if len({str(value) for value in values}) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # of labels with one row, and of spellings: the report has both
            kind_of_labels(values, places, separator)  # refuses what is no label
    counts = Counter(name for value in values for name in (_labels(value, separator) if several else [name_of(value)]))
    return dict(counts.most_common()), several


def separator_in(counts: Mapping[str, int]) -> str | None:
    """What is between several labels in one text, where the parts of most such texts are labels themselves."""
    for separator in SEPARATORS:
        joined = [name for name in counts if separator in name]
        parts = Counter(part for name in joined for part in dict.fromkeys(labels_in(name, separator)))
        again = sum(count > 1 or part in counts for part, count in parts.items())
        if len(joined) > 1 and again > len(parts) / 2:
            return separator
    return None


def language_shares(texts: Sequence[str]) -> tuple[dict[str, float], bool]:
    """The languages of texts with their shares, the most frequent first; scripts where no identifier is installed.

    Returns: the shares, and whether they are of scripts. Texts that are too short to tell are left out.
    """
    step = max(1, len(texts) // SAMPLE)
    sample = [text for text in texts[::step] if is_long_enough(text)]
    try:
        identifier = language_identifier("the languages of rows")
    except MissingExtraError:  # the report says so
        identifier, counts = None, Counter(map(script_of, sample))
    else:
        counts = Counter(str(identifier.rank(text)[0][0]) for text in sample)
    total = max(sum(counts.values()), 1)
    return {name: n / total for name, n in counts.most_common() if n >= LEAST_SHARE * total}, identifier is None


def is_english(languages: Mapping[str, float], *, scripts: bool) -> bool:
    """Whether an English encoder can read texts in these languages, or scripts, as far as that can be told."""
    return not {*languages} - ({"latin"} if scripts else {"en"})


def language_note(languages: Mapping[str, float], remedy: str, *, scripts: bool) -> str:
    """That an English encoder cannot read texts in these languages, and what is to be done; empty = it can."""
    if is_english(languages, scripts=scripts):
        return ""
    return f"not all texts are English ({', '.join(languages)}), {remedy}"


def script_of(text: str) -> str:
    """The script that most letters of a text have: latin, cyrillic, cjk, …"""
    letters = Counter(unicodedata.name(x, "other").split()[0].lower() for x in text if x.isalpha())
    return letters.most_common(1)[0][0]
