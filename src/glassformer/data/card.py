"""Data cards (data sheets) in Markdown: source, licence, known biases, and statistics.

Source: Gebru et al. 2021, "Datasheets for datasets".
"""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.data.report import DataReport, FileReport

NOT_STATED = "Not stated."


def data_card(
    report: DataReport, *, title: str, source: str = "", licence: str = "", biases: Sequence[str] = ()
) -> str:
    """Write a data card in Markdown; missing statements appear as "Not stated."."""
    known = "\n".join(f"- {_line(bias)}" for bias in biases) or NOT_STATED
    findings = (
        "\n".join(f"- {_line(finding.message)}" for finding in report.findings) or "Nothing odd was found."
    )
    return (
        "\n\n".join(
            [
                f"# {_line(title)}",
                f"## Source\n\n{source.strip() or NOT_STATED}",
                f"## Licence\n\n{licence.strip() or NOT_STATED}",
                f"## Known biases\n\n{known}",
                "## Rows\n\n"
                + _table(["file", "rows", "columns"], [_file_cells(file) for file in report.files]),
                *([_classes(report)] if report.classes else []),
                _lengths(report),
                f"## What was found\n\n{findings}",
            ]
        )
        + "\n"
    )


def _file_cells(file: FileReport) -> list[str]:
    return [file.name, f"{file.rows:,}", ", ".join(f"{name} ({kind})" for name, kind in file.columns.items())]


def _classes(report: DataReport) -> str:
    rows = [
        [name, *(_share(file.classes.get(name, 0), file.rows) for file in report.files)]
        for name in report.classes
    ]
    return "## Rows a class\n\n" + _table(["class", *(file.name for file in report.files)], rows)


def _share(count: int, rows: int) -> str:
    return f"{count:,} ({count / rows:.1%})"


def _lengths(report: DataReport) -> str:
    rows = [
        [
            file.name,
            unit,
            *(f"{value:,.1f}" if name == "mean" else f"{value:,.0f}" for name, value in quantiles.items()),
        ]
        for file in report.files
        for unit, lengths in file.lengths.items()
        if (quantiles := lengths.quantiles())
    ]
    names = list(report.files[0].lengths["words"].quantiles())
    return "## Lengths\n\n" + _table(["file", "unit", *names], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(_line(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def _line(text: str) -> str:
    """A text on one line, with `<` escaped for Markdown and HTML."""
    return " ".join(text.split()).replace("<", "&lt;")
