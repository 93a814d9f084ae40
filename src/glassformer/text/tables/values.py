"""Numbers and dates in text, as TAPAS compares and ranks them.

    "1,896 metres"        1896.0
    "the twelfth"         12.0
    "july 1904"           (1904, 7, None)       a date may lack parts; a year alone is a date, and a number too
    "3rd of may 2004"     3.0, (None, 5, None), (2004, None, None), 2004.0

A longer span counts, not those within it.

Source: Herzig et al. 2020, "TaPas: Weakly Supervised Table Parsing via Pre-training", appendix "Numeric values"; which
spellings count is in the released code.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

Date: TypeAlias = "tuple[int | None, int | None, int | None]"
Value: TypeAlias = "float | Date"
"""A number, or a date: year, month, day."""

NUMBER = re.compile(r"((^|\s)[+-])?((\.\d+)|(\d+(,\d\d\d)*(\.\d*)?))")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
ORDINAL_ENDS = ("st", "nd", "rd", "th")
YEARS = range(1700, 2017)
LONGEST_DATE = 5  # words

# Spelling → which of year, month and day it says; "%Ys" are the nineties.
DATES: dict[str, str] = {
    "%B": "m", "%Y": "y", "%Ys": "y", "%b %Y": "ym", "%B %Y": "ym", "%B %d": "md", "%b %d": "md", "%d %b": "md",
    "%d %B": "md", "%B %d, %Y": "ymd", "%d %B %Y": "ymd", "%m-%d-%Y": "ymd", "%Y-%m-%d": "ymd", "%Y-%m": "ym",
    "%d %b %Y": "ymd", "%b %d, %Y": "ymd", "%d.%m.%Y": "ymd", "%A, %b %d": "md", "%A, %B %d": "md",
}  # fmt: skip
FIELDS = {"%A": r"\w+", "%B": r"\w+", "%Y": r"\d{4}", "%b": r"\w{3}", "%d": r"\d{1,2}", "%m": r"\d{1,2}"}


def _pattern(spelling: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"%[A-Za-z]", lambda match: FIELDS[match[0]], re.escape(spelling)))


DATE_PATTERNS = [(spelling, _pattern(spelling), parts) for spelling, parts in DATES.items()]


def values_in(text: str) -> list[Value]:
    """All numbers and dates in a text, those of longer spans first; of equal spans in their order."""
    text = " ".join(text.lower().split())
    spans: dict[tuple[int, int], list[Value]] = {}
    for match in NUMBER.finditer(text):
        if (number := _number(match[0])) is not None:
            spans.setdefault(match.span(), []).append(number)
    for begin, end in _word_spans(text, 1):
        word = text[begin:end]
        if (begin, end) not in spans and (word in WORDS or word in ORDINALS):
            spans[begin, end] = [float((WORDS if word in WORDS else ORDINALS).index(word))]
    for begin, end in _word_spans(text, LONGEST_DATE):
        if (date := _date(text[begin:end])) is not None:
            spans.setdefault((begin, end), []).append(date)
    outer: list[tuple[int, int]] = []
    for begin, end in sorted(spans, key=lambda span: (span[1] - span[0], span), reverse=True):
        if not any(first <= begin and end <= last for first, last in outer):
            outer.append((begin, end))
    return [value for span in sorted(outer) for value in spans[span]]


def _number(text: str) -> float | None:
    for end in ORDINAL_ENDS:
        text = text.removesuffix(end)
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str) -> Date | None:
    for spelling, pattern, parts in DATE_PATTERNS:
        if not pattern.fullmatch(text):
            continue
        try:
            date = datetime.strptime(text, spelling)
        except ValueError:
            continue
        if "y" in parts and date.year not in YEARS:
            continue
        named = {"y": date.year, "m": date.month, "d": date.day}
        year, month, day = (named[part] if part in parts else None for part in "ymd")
        return year, month, day
    return None


def _word_spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Spans of up to `longest` words: runs of letters and digits."""
    starts: list[int] = []
    for at, character in enumerate(text):
        if not character.isalnum():
            continue
        if at == 0 or not text[at - 1].isalnum():
            starts.append(at)
        if at + 1 == len(text) or not text[at + 1].isalnum():
            yield from ((start, at + 1) for start in starts[-longest:])


COMMON_SHARE = 0.7
"""A column is one of numbers, or of dates, if this many of its cells are."""


def column_values(cells: Sequence[str]) -> dict[int, Value]:
    """Row → the value of its cell, of a column whose cells are mostly numbers, or mostly dates; else nothing."""
    by_row = {row: values_in(cell) for row, cell in enumerate(cells)}
    counts = Counter(kind for values in by_row.values() for kind in {type(value) for value in values})
    if not counts or max(counts.values()) < len(cells) * COMMON_SHARE:
        return {}
    # Years are both: then they are dates.
    common = tuple if counts[tuple] == max(counts.values()) else float
    chosen = {row: [value for value in values if type(value) is common] for row, values in by_row.items()}
    return {row: values[0] for row, values in chosen.items() if values}


def sort_key(values: Sequence[Value]) -> Callable[[Value], tuple[float, ...]] | None:
    """How values are compared: numbers by size, dates by the parts that all have; None where they cannot be."""
    if all(isinstance(value, float) for value in values):
        return lambda value: (value,) if isinstance(value, float) else ()
    dates = [value for value in values if isinstance(value, tuple)]
    common = [part for part in range(3) if all(date[part] is not None for date in dates)]
    if len(dates) < len(values) or not common:
        return None
    return lambda value: tuple(value[part] or 0 for part in common) if isinstance(value, tuple) else ()
