"""Data problems: empty, damaged and duplicate texts, leaks between files, label conflicts, rare classes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from glassformer.data.sequence import RowSequence
from glassformer.data.splits import text_digest

MAX_LOCATIONS = 1_000  # locations listed for a finding; all are counted
SHORT = 80  # characters of a text in a message
DAMAGED = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffd]")  # left by broken encodings


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in the data. kind: a stable name · message: for people · locations: the first ones, with lines"""

    kind: str
    message: str
    count: int
    locations: tuple[str, ...] = ()


@dataclass
class _Locations:
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, location: str) -> None:
        self.count += 1
        if len(self.first) < MAX_LOCATIONS:
            self.first.append(location)


class FindingCollector:
    """Collects findings row by row."""

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[RowSequence, int, tuple[str, ...] | None]] = {}
        self._files: dict[bytes, tuple[str, ...]] = {}  # text digest → files that have it
        self._locations: dict[str, _Locations] = defaultdict(_Locations)

    def update(
        self, name: str, rows: RowSequence, index: int, text: str, labels: tuple[str, ...] | None
    ) -> None:
        if labels is not None and not labels:
            self._locations["no label"].add(f"{rows.where(index)}: {_short(text)}")
        if not text.strip():
            self._locations["empty"].add(rows.where(index))
            return
        if DAMAGED.search(text):
            self._locations["damaged"].add(f"{rows.where(index)}: {_short(text)}")
        if text.isupper() and len(text.split()) > 2:
            self._locations["capitals"].add(f"{rows.where(index)}: {_short(text)}")
        key = text_digest(text)
        if key not in self._first:
            self._first[key] = rows, index, labels
            self._files[key] = (name,)
            return
        first_rows, first_index, first_labels = self._first[key]
        first_where = first_rows.where(first_index)
        if labels and first_labels and sorted(labels) != sorted(first_labels):
            self._locations["conflict"].add(
                f"{first_where}: {_joined(first_labels)} · {rows.where(index)}: {_joined(labels)} · {_short(text)}"
            )
        for file in self._files[key]:
            kind = "repeat" if file == name else f"leak\n{file}\n{name}"
            self._locations[kind].add(f"{first_where} · {rows.where(index)} · {_short(text)}")
        if name not in self._files[key]:
            self._files[key] += (name,)

    def findings(self, files: Sequence[str]) -> list[Finding]:
        """All findings, the most severe first."""
        findings = []
        for first, second in combinations(files, 2):
            message = f"of {second} also in {first}: a score on them says what was learned by heart"
            findings += self._finding(f"leak\n{first}\n{second}", "leak", message)
        findings += self._finding("conflict", "conflict", "there before with another label")
        findings += self._finding("no label", "no label", "without a label")
        findings += self._finding("empty", "empty", "without a word")
        findings += self._finding("repeat", "repeat", "there before in the same file")
        findings += self._finding(
            "damaged", "damaged", "with control characters or �, what is left of broken bytes"
        )
        findings += self._finding("capitals", "capitals", "all in capitals")
        return findings

    def _finding(self, key: str, kind: str, message: str) -> list[Finding]:
        if key not in self._locations:
            return []
        locations = self._locations[key]
        texts = f"{locations.count:,} text{'s' * (locations.count != 1)}"
        return [Finding(kind, f"{texts} {message}", locations.count, tuple(locations.first))]


def label_findings(classes: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """Classes with a single row, and classes that only one file has. classes: file → label → rows"""
    total = sum(map(Counter, classes.values()), Counter())
    findings = []
    if alone := sorted(name for name, count in total.items() if count == 1):
        message = f"{_classes(alone)} one row alone, which can train or judge, not both: {_list_names(alone)}"
        findings.append(Finding("single", message, len(alone), tuple(alone[:MAX_LOCATIONS])))
    for file, own in classes.items() if len(classes) > 1 else ():
        others = [counts for other, counts in classes.items() if other != file]
        if only := sorted(name for name in own if not any(name in counts for counts in others)):
            message = f"{_classes(only)} rows in {file} alone: {_list_names(only)}"
            findings.append(Finding("only", message, len(only), tuple(only[:MAX_LOCATIONS])))
    return findings


def _classes(names: Sequence[str]) -> str:
    return f"{len(names):,} classes have" if len(names) > 1 else "1 class has"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _joined(labels: Sequence[str]) -> str:
    return _truncate(" ".join(labels))


def _short(text: str) -> str:
    return f"“{_truncate(' '.join(text.split()))}”"


def _truncate(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"
