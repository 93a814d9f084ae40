"""Data problems: empty, damaged and duplicate texts, leaks between files, label conflicts, rare classes."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from glassformer.data.sequence import RowSequence, shorten
from glassformer.data.splits import text_digest
from glassformer.files import counted, safe_repr
from glassformer.reports.page import shown_label

MAX_LOCATIONS = 1_000  # locations listed for a finding; all are counted
MAX_CHARACTERS = 81  # of a text in a message
MAX_OPTION = 1_000  # of an option to paste
ENTITY_PREFIXES = ("B-", "I-", "E-", "S-")
MISSING, MISSING_AS_WRITTEN = {"", "nan", "nat", "null", "n/a", "#n/a", "<na>"}, {"None", "NA"}
"""Labels that programs write where there is none: in any case, and as they are, since none and na may be classes."""
DAMAGED = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffd]")  # left by broken encodings


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in the data.

    kind: a stable name
    message: for people
    locations: the first ones, with lines
    """

    kind: str
    message: str
    count: int
    locations: tuple[str, ...] = ()


class FindingCollector:
    """Collects findings row by row.

    Rows are repeats, conflicts or leaks where all that a model reads is equal: of pairs, both texts. A paragraph with
    several questions is no repeat.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[RowSequence, int, tuple[str, ...] | None]] = {}
        self._files: dict[bytes, tuple[str, ...]] = {}  # text digest → files that have it
        # kind → how often, and its first locations; a leak also has its two files
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._locations: dict[tuple[str, ...], list[str]] = defaultdict(list)

    def update(
        self, name: str, rows: RowSequence, index: int, texts: Sequence[str], labels: tuple[str, ...] | None
    ) -> None:
        """Look at a row of the file `name`.

        Args:
            texts: one, or two of a pair
            labels: None = the file has none
        """
        here, text = rows.where(index), texts[0]
        quoted = " and ".join(map(_short, texts))
        described = f"{here}: {_short(text)}"
        if labels is not None and not labels:
            self._add(described, "no label")
        if not text.strip():
            self._add(here, "empty")
            return
        if DAMAGED.search(text):
            self._add(described, "damaged")
        if text.isupper() and len(text.split()) > 2:
            self._add(described, "capitals")
        key = b"".join(map(text_digest, texts))
        if key not in self._first:
            self._first[key] = rows, index, labels
            self._files[key] = (name,)
            return
        first_rows, first_index, first_labels = self._first[key]
        first = first_rows.where(first_index)
        if labels and first_labels and sorted(labels) != sorted(first_labels):
            same = sorted(map(_folded, labels)) == sorted(map(_folded, first_labels))
            conflict = f"{first}: {_joined(first_labels)} · {here}: {_joined(labels)} · {quoted}"
            self._add(conflict, "spelled differently" if same else "conflict")
        for file in self._files[key]:
            self._add(f"{first} · {here} · {quoted}", *(["repeat"] if file == name else ["leak", file, name]))
        if name not in self._files[key]:
            self._files[key] += (name,)

    def _add(self, location: str, *kind: str) -> None:
        self._counts[kind] += 1
        if len(self._locations[kind]) < MAX_LOCATIONS:
            self._locations[kind].append(location)

    def findings(self, files: Sequence[str]) -> list[Finding]:
        """All findings, the most severe first."""
        messages = {
            (
                "leak",
                first,
                second,
            ): f"of {second} also in {first}: a score on them measures memorisation"
            for first, second in combinations(files, 2)
        } | {
            ("conflict",): "repeated with another label",
            ("spelled differently",): "repeated with another spelling of the label: case, white space or characters",
            ("no label",): "without a label: training refuses such rows, or with --skip-bad-rows leaves them out",
            ("empty",): "without a word; training with --skip-bad-rows leaves such rows out",
            ("repeat",): "repeated in the same file",
            ("damaged",): "with control characters or �, what is left of broken bytes",
            ("capitals",): "all in capitals",
        }
        return [
            Finding(kind[0], f"{counted(n, 'text')} {message}", n, tuple(self._locations[kind]))
            for kind, message in messages.items()
            if (n := self._counts[kind])
        ]


def spelling_variants(counts: Mapping[str, int]) -> dict[str, str]:
    """Labels that differ from another in spelling alone → the one without white space that is most frequent.

        {"joy": 9, "Joy": 2, "joy ": 1, "sad": 4} → {"Joy": "joy", "joy ": "joy"}
        {"B-PER ": 3, "I-PER": 4}                 → {"B-PER ": "B-PER"}, since their types differ so

    Args:
        counts: label → how often it occurs
    """
    kinds: Counter[str] = Counter()  # of entities: what follows B- or I-
    for name, count in counts.items():
        if name[:2] in ENTITY_PREFIXES:
            kinds[name[2:]] += count
    usual = _usual_spellings(kinds)
    entities = [name for name in counts if name[:2] in ENTITY_PREFIXES and name[2:] in usual]
    return _usual_spellings(counts) | {name: name[:2] + usual[name[2:]] for name in entities}


def _usual_spellings(counts: Mapping[str, int]) -> dict[str, str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in counts:
        groups[_folded(name)].append(name)
    renamed: dict[str, str] = {}
    for names in groups.values():
        if len(names) > 1:
            usual, *others = sorted(names, key=lambda name: (name != _plain(name), -counts[name], name))
            renamed |= dict.fromkeys(others, usual)
    return renamed


def _plain(name: str) -> str:
    """A name with single spaces and composed, ordinary characters: é as one, no full-width letters (NFKC)."""
    return " ".join(unicodedata.normalize("NFKC", name).split())


def _folded(name: str) -> str:
    """What labels that differ in spelling alone have in common."""
    return _plain(name).casefold()


def spelling_message(renamed: Mapping[str, str]) -> str:
    """What to say of labels that differ in spelling alone: see `spelling_variants`."""
    listed = "; ".join(f"{safe_repr(other)} and {safe_repr(usual)}" for other, usual in list(renamed.items())[:5])
    more = f" and {len(renamed) - 5:,} more" if len(renamed) > 5 else ""
    option = shlex.quote(f"data.rename={json.dumps(renamed, ensure_ascii=False)}")
    option = option if len(option) < MAX_OPTION else "data.rename={…}"
    return (
        f"labels that differ only in case, white space or the form of characters are separate classes: {listed}{more}; "
        f"to join them, train with --set {option} (in a configuration: data.rename)"
    )


def label_findings(classes: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """Classes that are named as a missing value, have a single row or one file, or differ in spelling alone.

    Args:
        classes: file → label → rows
    """
    total = sum(map(Counter, classes.values()), Counter())
    findings = []
    if renamed := spelling_variants(total):
        findings.append(Finding("spelling", spelling_message(renamed), len(renamed), tuple(map(repr, renamed))))
    if missing := sorted(name for name in total if _folded(name) in MISSING or name in MISSING_AS_WRITTEN):
        rows = ", ".join(f"{shown_label(name)} ({counted(total[name], 'row')})" for name in missing[:5])
        message = (
            f"{_classes(missing, 'is', 'are')} named as programs write a missing value, and would be learned as any "
            f"other: {rows}; label these rows, or leave them out"
        )
        findings.append(Finding("missing", message, len(missing), tuple(map(repr, missing))))
    if alone := sorted(name for name, count in total.items() if count == 1):
        message = f"{_classes(alone)} one row alone, for training or evaluation, not both: {_list_names(alone)}"
        findings.append(Finding("single", message, len(alone), tuple(map(shown_label, alone[:MAX_LOCATIONS]))))
    for file, own in classes.items() if len(classes) > 1 else ():
        others = [counts for other, counts in classes.items() if other != file]
        if only := sorted(name for name in own if not any(name in counts for counts in others)):
            message = f"{_classes(only)} rows in {file} alone: {_list_names(only)}"
            findings.append(Finding("only", message, len(only), tuple(map(shown_label, only[:MAX_LOCATIONS]))))
    return findings


def _classes(names: Sequence[str], one: str = "has", several: str = "have") -> str:
    return f"{len(names):,} classes {several}" if len(names) > 1 else f"1 class {one}"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(map(shown_label, names[:5])) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _joined(labels: Sequence[str]) -> str:
    return shorten(" ".join(map(shown_label, labels)), MAX_CHARACTERS)


def _short(text: str) -> str:
    return f"“{shorten(' '.join(text.split()), MAX_CHARACTERS)}”"
