"""Amounts as text: counts, FLOPs and bytes in three or four digits, with decimal prefixes; shares in percent."""

from __future__ import annotations


def amount(number: float) -> str:
    """Format a count of parameters or tokens in three or four digits: `9,216`, `22.7M`, `175B`."""
    return f"{number:,.0f}" if number < 9_999.5 else _scaled(number, ("", "k", "M", "B", "T", "P")).replace(" ", "")


def flops_amount(number: float) -> str:
    """Format a number of FLOPs, with decimal prefixes: `349G`."""
    return amount(number).replace("B", "G")


def byte_amount(number: float) -> str:
    """Format a number of bytes in three digits, with decimal units: `90.9 MB`."""
    return _scaled(number, ("B", "kB", "MB", "GB", "TB", "PB"))


def percent(share: float, digits: int = 0) -> str:
    """Format a share in percent: `41%`, `4.1%`; one that is less than half of the last digit: `<1%`, `<0.1%`."""
    smallest = 10.0**-digits
    return f"<{smallest:.{digits}f}%" if 0 < 100 * share < smallest / 2 else f"{share:.{digits}%}"


def _scaled(number: float, units: tuple[str, ...]) -> str:
    unit = 0
    while number >= 999.5 and unit < len(units) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if unit == 0 else max(0, 3 - len(f"{number:.0f}"))
    return f"{number:.{digits}f} {units[unit]}".rstrip()
