"""What commands share when they write for people: amounts, bars, and text that cannot steer the terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

EIGHTHS = " ▏▎▍▌▋▊▉"


def amount(number: float) -> str:
    """A count in three or four digits: `9,216`, `22.7M`."""
    return (
        f"{number:,.0f}"
        if number < 9_999.5
        else _scaled(number, ("", "k", "M", "G", "T", "P")).replace(" ", "")
    )


def byte_amount(number: float) -> str:
    """Bytes in three digits, in powers of 1000: `90.9 MB`."""
    return _scaled(number, ("B", "kB", "MB", "GB", "TB", "PB"))


def _scaled(number: float, units: tuple[str, ...]) -> str:
    unit = 0
    while number >= 999.5 and unit < len(units) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if units[unit] in ("", "B") else max(0, 3 - len(f"{number:.0f}"))
    return f"{number:.{digits}f} {units[unit]}".rstrip()


def bar(share: float, width: int) -> str:
    """A bar of `width` characters, filled from the left by a share in [0, 1]."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def visible(text: str) -> str:
    """The text with control characters written out, so that no text can steer the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def notes() -> Iterator[None]:
    """Warnings, such as that texts were cut, each in one line on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
        yield
