"""What stands in files of rows, before anything is trained on them: how many, how long, of which class, what is odd.

    inspect({"train.csv": rows, "test.csv": more}, text="text", label="label") ──> Report
        parts      of each file: columns and their kinds, rows a class, lengths
        findings   empty texts, one text with two labels, repeats, leaks between files, classes of one row, …

A file is gone through once; what is kept of a row is some numbers and 16 bytes that stand for its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.data.findings import Finding, Odd, of_labels
from glassformer.data.schema import kind_of, missing
from glassformer.data.sequence import Rows
from glassformer.errors import DataError
from glassformer.files import shown

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
AT_ONCE = 1_000  # texts that are tokenised together

TokenCounts = Callable[[Sequence[str]], Sequence[int]]
"""How many tokens each of some texts is for a model, special ones included."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long texts are, in one unit. values: of each text. [texts] int64"""

    unit: str
    values: np.ndarray
    limit: int | None = None

    @property
    def beyond(self) -> int:
        """How many texts are longer than the limit."""
        return 0 if self.limit is None else int((self.values > self.limit).sum())

    def quantiles(self) -> dict[str, float]:
        """The least, the most, their mean, and what 5 %, 25 %, … of texts do not exceed."""
        if not len(self.values):
            return {}
        found = {
            f"{share:.0%}": float(np.quantile(self.values, share, method="inverted_cdf"))
            for share in QUANTILES
        }
        ends = {"mean": float(self.values.mean()), "most": float(self.values.max())}
        return {"least": float(self.values.min()), **found, **ends}


@dataclass(frozen=True, slots=True)
class Part:
    """One file. columns: name → what it holds · gaps: name → rows without a value, where there are some

    classes: label → rows, the most frequent first

    of_class: the class of each text, by its number in `classes`; -1 where a row has none or several. [rows] int64
    """

    name: str
    rows: int
    columns: Mapping[str, str]
    gaps: Mapping[str, int]
    classes: Mapping[str, int]
    lengths: Mapping[str, Lengths]
    of_class: np.ndarray

    def by_class(self, unit: str) -> dict[str, np.ndarray]:
        """The lengths of the texts of each class."""
        values = self.lengths[unit].values
        return {
            name: values[self.of_class == number]
            for number, name in enumerate(self.classes)
            if (self.of_class == number).any()
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What `inspect` found."""

    text: str
    label: str | None
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...]

    @property
    def unit(self) -> str:
        """What lengths are best told in: tokens where a tokenizer was there to count them, else words."""
        return "tokens" if "tokens" in self.parts[0].lengths else "words"

    @property
    def classes(self) -> list[str]:
        """The classes of all files, the most frequent first."""
        total = sum((Counter(part.classes) for part in self.parts), Counter[str]())
        return [name for name, _ in total.most_common()]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        return {
            "text": self.text,
            "label": self.label,
            "files": [
                {
                    "name": part.name,
                    "rows": part.rows,
                    "columns": dict(part.columns),
                    "gaps": dict(part.gaps),
                    "classes": dict(part.classes),
                    "lengths": {
                        unit: lengths.quantiles()
                        | (
                            {}
                            if lengths.limit is None
                            else {"limit": lengths.limit, "beyond": lengths.beyond}
                        )
                        for unit, lengths in part.lengths.items()
                    },
                    "by_class": {
                        name: Lengths(self.unit, values).quantiles()
                        for name, values in part.by_class(self.unit).items()
                    },
                }
                for part in self.parts
            ],
            "findings": [
                {"kind": found.kind, "said": found.said, "count": found.count, "places": list(found.places)}
                for found in self.findings
            ],
        }


def inspect(
    files: Mapping[str, Rows],
    *,
    text: str,
    label: str | None = None,
    tokens: TokenCounts | None = None,
    limit: int | None = None,
) -> Report:
    """Look at every row of every file, the one to train on first.

    Args:
        text: the column of the texts: a text, or the list of its words.
        label: that of the labels: one, or a list: several of a text, or one for each of its words.
        tokens: counts tokens, where lengths in tokens are wanted · limit: what a model reads of them at most.

    Raises: DataError: no file, a column that is not there, a value that is no text.
    """
    if not files:
        raise DataError("there is no file to look at; name one")
    odd = Odd()
    parts = tuple(_part(name, rows, text, label, tokens, limit, odd) for name, rows in files.items())
    found = [
        *odd.findings(list(files)),
        *of_labels({part.name: part.classes for part in parts}),
        *_beyond(parts),
    ]
    return Report(text, label, parts, tuple(found))


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────


def _part(
    name: str,
    rows: Rows,
    text: str,
    label: str | None,
    tokens: TokenCounts | None,
    limit: int | None,
    odd: Odd,
) -> Part:
    for column in (text, *([label] if label else [])):
        if column not in rows.columns:
            raise DataError(f"{name}: {missing(column, rows.columns)}")
    gaps: Counter[str] = Counter()
    lengths: dict[str, list[int]] = {"words": [], "characters": [], **({"tokens": []} if tokens else {})}
    counted: Counter[str] = Counter()
    single: list[str | None] = []
    waiting: list[str] = []
    for index, row in enumerate(rows):
        gaps.update(column for column in rows.columns if _is_gap(row.get(column)))
        words = row.get(text)
        written = _written(words, text, rows, index)
        labels = () if label is None else _labels(row.get(label))
        tags = isinstance(words, list) and label is not None and isinstance(row.get(label), list)
        counted.update(labels)
        single.append(labels[0] if len(labels) == 1 and not tags else None)
        lengths["words"].append(len(words) if isinstance(words, list) else len(written.split()))
        lengths["characters"].append(len(written))
        odd.look(name, rows, index, written, labels if label else None)
        waiting.append(written)
        if tokens and (len(waiting) == AT_ONCE or index == len(rows) - 1):
            lengths["tokens"].extend(tokens(waiting))
            waiting = []
        elif not tokens:
            waiting = []
    classes = dict(counted.most_common())
    number = {kind: i for i, kind in enumerate(classes)}
    return Part(
        name,
        len(rows),
        dict(rows.kinds),
        dict(gaps),
        classes,
        {
            unit: Lengths(unit, np.array(values, dtype=np.int64), limit if unit == "tokens" else None)
            for unit, values in lengths.items()
        },
        np.array([-1 if kind is None else number[kind] for kind in single], dtype=np.int64),
    )


def _written(value: Any, column: str, rows: Rows, index: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    raise DataError(
        f"{rows.where(index)}: {column!r} is {shown(value)}, {kind_of(value)}; "
        "it must be a text, or the list of its words"
    )


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value)


def _labels(value: Any) -> tuple[str, ...]:
    if _is_gap(value):
        return ()
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)


def _beyond(parts: Sequence[Part]) -> list[Finding]:
    """What the model would not read to the end."""
    return [
        Finding(
            "beyond",
            f"{lengths.beyond:,} texts of {part.name} ({lengths.beyond / part.rows:.1%}) beyond the "
            f"{lengths.limit:,} tokens that the model reads",
            lengths.beyond,
        )
        for part in parts
        if (lengths := part.lengths.get("tokens")) and lengths.beyond
    ]
