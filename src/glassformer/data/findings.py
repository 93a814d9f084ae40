"""What is odd about rows: texts that are empty, damaged, there twice, in two files, under two labels; rare classes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from glassformer.data.sequence import Rows
from glassformer.data.splits import digest

PLACES = 1_000  # of a finding are named; all are counted
SHORT = 80  # characters of a text in a message
DAMAGED = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffd]")  # what is left of broken bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at. kind: its name for programs · said: for people · places: the first of them, with lines"""

    kind: str
    said: str
    count: int
    places: tuple[str, ...] = ()


@dataclass
class _Places:
    count: int = 0
    named: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        self.count += 1
        if len(self.named) < PLACES:
            self.named.append(place)


class Odd:
    """Collects what is odd while rows go by."""

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[Rows, int, tuple[str, ...] | None]] = {}
        self._files: dict[bytes, tuple[str, ...]] = {}  # which have a text
        self._found: dict[str, _Places] = defaultdict(_Places)

    def look(self, name: str, rows: Rows, index: int, text: str, labels: tuple[str, ...] | None) -> None:
        if labels is not None and not labels:
            self._found["no label"].add(f"{rows.where(index)}: {_short(text)}")
        if not text.strip():
            self._found["empty"].add(rows.where(index))
            return
        if DAMAGED.search(text):
            self._found["damaged"].add(f"{rows.where(index)}: {_short(text)}")
        if text.isupper() and len(text.split()) > 2:
            self._found["capitals"].add(f"{rows.where(index)}: {_short(text)}")
        key = digest(text)
        if key not in self._first:
            self._first[key] = rows, index, labels
            self._files[key] = (name,)
            return
        before, number, said = self._first[key]
        if labels and said and sorted(labels) != sorted(said):
            self._found["conflict"].add(
                f"{before.where(number)}: {_joined(said)} · {rows.where(index)}: {_joined(labels)} · {_short(text)}"
            )
        for file in self._files[key]:
            kind = "repeat" if file == name else f"leak\n{file}\n{name}"
            self._found[kind].add(f"{before.where(number)} · {rows.where(index)} · {_short(text)}")
        if name not in self._files[key]:
            self._files[key] += (name,)

    def findings(self, files: Sequence[str]) -> list[Finding]:
        """What was found, what matters most first."""
        found = []
        for first, second in combinations(files, 2):
            said = f"of {second} also in {first}: a score on them says what was learned by heart"
            found += self._one(f"leak\n{first}\n{second}", "leak", said)
        found += self._one("conflict", "conflict", "there before with another label")
        found += self._one("no label", "no label", "without a label")
        found += self._one("empty", "empty", "without a word")
        found += self._one("repeat", "repeat", "there before in the same file")
        found += self._one("damaged", "damaged", "with control characters or �, what is left of broken bytes")
        found += self._one("capitals", "capitals", "all in capitals")
        return found

    def _one(self, key: str, kind: str, said: str) -> list[Finding]:
        if key not in self._found:
            return []
        places = self._found[key]
        texts = f"{places.count:,} text{'s' * (places.count != 1)}"
        return [Finding(kind, f"{texts} {said}", places.count, tuple(places.named))]


def of_labels(classes: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """Classes of one row, and classes that only one file knows. classes: file → label → rows"""
    total = sum(map(Counter, classes.values()), Counter())
    found = []
    if alone := sorted(name for name, count in total.items() if count == 1):
        said = f"{_classes(alone)} one row alone, which can train or judge, not both: {_named(alone)}"
        found.append(Finding("single", said, len(alone), tuple(alone[:PLACES])))
    for file, mine in classes.items() if len(classes) > 1 else ():
        others = [theirs for other, theirs in classes.items() if other != file]
        if only := sorted(name for name in mine if not any(name in theirs for theirs in others)):
            said = f"{_classes(only)} rows in {file} alone: {_named(only)}"
            found.append(Finding("only", said, len(only), tuple(only[:PLACES])))
    return found


def _classes(names: Sequence[str]) -> str:
    return f"{len(names):,} classes have" if len(names) > 1 else "1 class has"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _joined(labels: Sequence[str]) -> str:
    return _cut(" ".join(labels))


def _short(text: str) -> str:
    return f"“{_cut(' '.join(text.split()))}”"


def _cut(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"
