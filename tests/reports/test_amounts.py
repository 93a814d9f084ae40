"""Amounts and bars: three or four digits, and as many characters as asked for."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.reports.table import amount, bar, byte_amount, percent

ROOT = Path(__file__).parents[2]
NORMALISERS = ("english_numbers.py", "normalisers.py")
"""What they read has any form."""


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (9_999, "9,999"),
        (10_000, "10.0k"),
        (148_608, "149k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (174_600_000_000, "175B"),
    ],
)
def test_amount(number: int, text: str) -> None:
    assert amount(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (256, "256 B"), (999.6, "1.00 kB"), (90_852_864, "90.9 MB"), (16.1e9, "16.1 GB")],
)
def test_byte_amount(number: float, text: str) -> None:
    assert byte_amount(number) == text


@given(st.floats(0, 1e17))
def test_amounts_stay_short(number: float) -> None:
    assert len(amount(number)) <= 5
    assert len(byte_amount(number)) <= 7


@given(st.floats(-2, 2), st.integers(0, 40))
def test_a_bar_has_its_width(share: float, width: int) -> None:
    assert len(bar(share, width)) == width


def test_bars_grow() -> None:
    assert bar(0, 4) == "    "
    assert bar(0.5, 4) == "██  "
    assert bar(0.53, 4) == "██▏ "
    assert bar(1, 4) == "████"


def test_a_share_in_percent() -> None:
    shares = [(0, 0), (0.004, 0), (0.006, 0), (0.41, 0), (1, 0), (0.0412, 1), (0.0004, 1), (0.0, 1)]
    assert [percent(*each) for each in shares] == ["0%", "<1%", "1%", "41%", "100%", "4.1%", "<0.1%", "0.0%"]
    shares = [(0.9949, 0), (0.996, 0), (0.99996, 0), (0.9996, 1), (1 - 1e-7, 0), (1, 1)]
    assert [percent(*each) for each in shares] == ["99%", "99.6%", ">99.9%", ">99.9%", "100%", "100.0%"]


def test_percent_has_one_form_on_pages_on_the_terminal_and_in_the_docs() -> None:
    """41%, without a space: so Python formats it (`f"{share:.0%}"`), and `percent` of the pages."""
    spaced = re.compile(r"[0-9}][ \u00a0\u202f]%(?![\w=(%])")
    python = (path for path in (ROOT / "src").rglob("*.py") if path.name not in NORMALISERS)
    texts = [
        (path, token.string)
        for path in python
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        if token.type in (tokenize.STRING, tokenize.COMMENT)
    ]
    others = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    others += [*(ROOT / "web/src").rglob("*.ts*"), *(ROOT / "src/glassformer/evaluation").rglob("*.js")]
    texts += [(path, path.read_text("utf-8")) for path in others]
    assert len(texts) > 10_000 and len(others) > 100
    wrong = [(path.relative_to(ROOT).as_posix(), found[0]) for path, text in texts if (found := spaced.search(text))]
    assert not wrong
