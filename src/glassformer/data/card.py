"""A data card: where rows come from, who may use them, what is known to be one-sided, and what was measured.

Source: Gebru et al. 2021, "Datasheets for datasets".
"""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.data.report import Part, Report

NOT_STATED = "Not stated."


def card(
    report: Report, *, title: str, source: str = "", licence: str = "", biases: Sequence[str] = ()
) -> str:
    """The card in Markdown; what nobody stated stands there as not stated."""
    known = "\n".join(f"- {_line(bias)}" for bias in biases) or NOT_STATED
    odd = "\n".join(f"- {_line(found.said)}" for found in report.findings) or "Nothing odd was found."
    return (
        "\n\n".join(
            [
                f"# {_line(title)}",
                f"## Source\n\n{source.strip() or NOT_STATED}",
                f"## Licence\n\n{licence.strip() or NOT_STATED}",
                f"## Known biases\n\n{known}",
                "## Rows\n\n" + _table(["file", "rows", "columns"], [_rows(part) for part in report.parts]),
                *([_classes(report)] if report.classes else []),
                _lengths(report),
                f"## What was found\n\n{odd}",
            ]
        )
        + "\n"
    )


def _rows(part: Part) -> list[str]:
    return [part.name, f"{part.rows:,}", ", ".join(f"{name} ({kind})" for name, kind in part.columns.items())]


def _classes(report: Report) -> str:
    rows = [
        [name, *(_share(part.classes.get(name, 0), part.rows) for part in report.parts)]
        for name in report.classes
    ]
    return "## Rows a class\n\n" + _table(["class", *(part.name for part in report.parts)], rows)


def _share(count: int, rows: int) -> str:
    return f"{count:,} ({count / rows:.1%})"


def _lengths(report: Report) -> str:
    rows = [
        [
            part.name,
            unit,
            *(f"{value:,.1f}" if name == "mean" else f"{value:,.0f}" for name, value in found.items()),
        ]
        for part in report.parts
        for unit, lengths in part.lengths.items()
        if (found := lengths.quantiles())
    ]
    names = list(report.parts[0].lengths["words"].quantiles())
    return "## Lengths\n\n" + _table(["file", "unit", *names], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(_line(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def _line(text: str) -> str:
    """A text on one line, without what Markdown or HTML would take for its own."""
    return " ".join(text.split()).replace("<", "&lt;")
