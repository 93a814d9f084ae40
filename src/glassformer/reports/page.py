"""HTML pages: standalone files with a content security policy without network; the page of reports.

write_page("page.html", report_page(report))     charts, tables, texts and rows of a report, drawn by web/src/report
served_page(), part_data(report)                 the same, as a local server answers it
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any

from glassformer.errors import DataError
from glassformer.files import as_path, readable_path
from glassformer.files.atomic import atomic_file, check_output, disk_errors
from glassformer.reports.charts import (
    Axis,
    BrowserRow,
    Chart,
    Marks,
    PairCounts,
    Passages,
    RowBrowser,
    SavedModel,
    Series,
    SeriesLine,
    TextMark,
    TradeOff,
)
from glassformer.reports.report import Display
from glassformer.reports.table import IntervalCell, Table, shown_text

STATIC = Path(__file__).parent / "static"
MAX_LABEL_CHARACTERS = 300
"""Longest title, heading or name of a report that its page shows; of longer ones the beginning."""
MAX_ARGUMENT_CHARACTERS = 300
"""Longest text shown in a command line; a longer one is shown as read from a file."""
FOOT = """
footer.made-by { margin-top: 2.5rem; font-size: 12px; overflow-wrap: anywhere; }
footer.made-by code { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
"""


SCROLLING = """
@property --before { syntax: "<length>"; inherits: false; initial-value: 0px; }
@property --behind { syntax: "<length>"; inherits: false; initial-value: 0px; }
@keyframes scrolling { from { --behind: 36px; } to { --before: 36px; } }
@media screen { :is(.scroll, .sheet, .picture) { outline-offset: -2px; animation: scrolling linear;
  animation-timeline: scroll(self inline); mask: linear-gradient(to right, transparent, #000 var(--before),
  #000 calc(100% - var(--behind)), transparent); } }
"""
"""What is wider than its part of the page fades at the edges behind which there is more."""


PLAIN = """
html { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
noscript table { border-collapse: collapse; }
noscript :is(th, td) { padding: 4px 12px; border-top: 1px solid; overflow-wrap: anywhere; }
"""
"""Style of a page whose own comes with its program: the tables that are shown where scripts are switched off."""
LOADER = """
(async () => {
  for (const packed of document.querySelectorAll("script[data-packed]")) {
    const bytes = Uint8Array.from(atob(packed.textContent), (each) => each.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    const made = document.createElement(packed.dataset.packed);
    made.textContent = text;
    packed.replaceWith(made);
  }
})();
"""
"""Unpacks style and program of a page, in this order; the policy holds the hash of each as it is unpacked."""


def page(title: str, body: str, *, style: str, script: str = "", packed_style: str = "") -> str:
    """A complete HTML document.

    Args:
        title: plain text
        body: HTML, in which every text is escaped
        style: inlined
        script: compressed, as half of the file it is; the content security policy allows no others
        packed_style: of what the script draws: compressed with it

    At its foot is the command that makes it, where a command does.
    """
    shared = SCROLLING
    if command := command_line():
        body += f'\n<footer class="made-by">Made by <code>{escape(command)}</code></footer>'
        shared += FOOT
    if packed_style:
        packed_style += shared
    else:
        style += shared
    policy = content_security_policy([style, packed_style], [LOADER, script] if script else [])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{policy}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{style}</style>"
        + (packed(packed_style, data_packed="style") if packed_style else "")
        + f"</head>\n<body>{body}"
        + (packed_program(script) if script else "")
        + "</body></html>\n"
    )


def element(tag: str, content: str = "", **attributes: str) -> str:
    """An element of a page as HTML: element("script", code, class_="frame", data_key="0/1").

    Args:
        content: HTML, or what the element of a program or of data holds
        attributes: plain text; in their names `_` stands for `-`, and one at the end for nothing
    """
    named = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"' for name, text in attributes.items())
    return f"<{tag}{named}>{content}</{tag}>"


def packed_program(script: str) -> str:
    """A program that is compressed in the page, with what unpacks it."""
    return packed(script, data_packed="script") + "\n" + element("script", LOADER)


def packed(text: str, **attributes: str) -> str:
    """A script element of data: zlib in base64, which makes half of a program or of numbers."""
    content = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()
    return element("script", content, type="application/octet-stream", **attributes)


def write_page(path: str | Path, html: str) -> Path:
    """Write a page atomically. Returns: its path. Raises: DataError: it cannot be written."""
    with disk_errors(path, DataError, "the page"), atomic_file(as_path(path)) as stream:
        stream.write(html.encode("utf-8", "replace"))
    return as_path(path)


def write_page_parts(path: str | Path, parts: Iterable[str]) -> int:
    """Write a page that comes in pieces, atomically. Returns: its size in bytes. Raises: DataError: as `write_page`."""
    path = check_html_path(path)
    with disk_errors(path, DataError):
        with atomic_file(path.resolve()) as stream:
            stream.writelines(part.encode("utf-8", "replace") for part in parts)
        return path.stat().st_size


def shown_path(value: object) -> str:
    """A path as a page shows it, without folders of this machine: `data/x.csv` below the working one, else `…/x.csv`.

    Any other text stays as it is.
    """
    text = str(value)
    path = next((path for kind in (Path, PureWindowsPath) if (path := kind(text)).is_absolute() and path.name), None)
    if path is None:
        return text
    if isinstance(path, Path) and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return f"…/{path.name}"


def shown_label(name: str) -> str:
    """A label as a table shows it: in quotes where its white space would not be seen, as in `'spam '` or `spam`."""
    return name if name and name == " ".join(name.split()) else repr(name)


def shown_place(where: str) -> str:
    """`/folder/x.csv: line 2` as a page shows it: `…/x.csv: line 2`."""
    path, separator, line = where.partition(": ")
    return shown_path(path) + separator + line


# ── reports ───────────────────────────────────────────────────────────────────────────────────────────


def report_page(*reports: Display, title: str | None = None, wording: Callable[[str], str] = str) -> str:
    """The page of a report, or of several: one HTML file with its program, its data, and no network.

    Where scripts are switched off it shows the tables.

    Args:
        title: None = those of the reports
        wording: of remarks, such as one with options as a command has them
    """
    title = page_title(reports) if title is None else title
    data = part_data(*reports, title=title, wording=wording)
    without = "".join(_without_script(report) for report in reports)
    holder = f'<div id="report"></div><noscript>{without}</noscript>\n'
    body = holder + packed(_json(data), id="report-data", data_report="report")
    style, script = report_files(reports)
    return page(data["title"], body, style=PLAIN, script=script, packed_style=_static("page.css") + style)


def page_title(reports: Sequence[Display]) -> str:
    """The title of a page of reports: what the first calls the page, the titles of all, or the kind of the first."""
    named, kind = (str(getattr(reports[0], name, "")) if reports else "" for name in ("page_title", "KIND"))
    return _label(named) or " · ".join(filter(None, map(_title, reports))) or kind.replace("-", " ").capitalize()


def served_page() -> str:
    """The page of reports as a server sends it, for any path: its program fetches what is at its path, with a key."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        '<title>Glassformer</title><link rel="stylesheet" href="/page.css"></head>\n'
        '<body><div id="report"></div><noscript><p>This page is drawn by a script, and scripts are switched off; '
        "--html writes a file that shows its tables without.</p></noscript>"
        '<script type="application/json" data-report="report" data-from="/api/report"></script>'
        '<script src="/page.js"></script></body></html>\n'
    )


def served_files(*, live: bool = False) -> tuple[str, str]:
    """Style and script of `served_page`.

    Args:
        live: it looks for newer reports
    """
    style, script = report_files(None)
    style = _static("page.css") + style + SCROLLING + _static("served.css")
    return style, script + _static("live.js") * live + _static("served.js")


def part_data(*reports: Display, title: str | None = None, wording: Callable[[str], str] = str) -> dict[str, Any]:
    """Reports as the JSON of a page, or of a part of one, where there is no title."""
    written = _with_shared_axes(report_data(report, wording) for report in reports)
    return {"title": (title or "")[:MAX_LABEL_CHARACTERS], "page": title is not None, **written}


def report_files(reports: Iterable[Display] | None) -> tuple[str, str]:
    """Style and script of the parts that these reports use; None = of all parts."""
    programs = {"series": Series, "trade-off": TradeOff, "matrix": PairCounts, "rows": RowBrowser, "browse": Table}
    parts = [part for report in reports or () for part in _own_parts(report)]
    used = [name for name, kind in programs.items() if reports is None or any(isinstance(x, kind) for x in parts)]
    if reports is None or any(isinstance(x, RowBrowser) and x.review for x in parts):
        used.append("review")
    if reports is None or any(isinstance(x, Series) and x.saved for x in parts):
        used.append("steps")
    names = [*used, "save", "report"]  # the last calls the others
    return tuple("".join(_static(f"{name}.{kind}") for name in names) for kind in ("css", "js"))  # type: ignore[return-value] # two


def kernel_file() -> str:
    """The script of a page in the cell of a notebook, before its program: with it `fetch` asks the kernel."""
    return _static("kernel.js")


def _own_parts(report: Display) -> list[object]:
    """Charts, the browser of rows, and tables to search in: what has programs of its own."""
    return [*report.charts(), report.browser(), *(x for x in report.page_tables() if x.measure is not None)]


@cache
def _static(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def report_data(report: Display, wording: Callable[[str], str] = str) -> dict[str, Any]:
    """A report as the JSON of its page, which web/src/report/types.ts describes: each text is harmless to show."""
    return {
        "kind": getattr(report, "KIND", ""),
        "title": _title(report),
        "heading": shown_text(report.heading),
        "finding": shown_text(str(getattr(report, "finding", ""))),
        "charts": [_chart_data(chart) for chart in report.charts()],
        "tables": [_table_data(table) for table in report.page_tables()],
        "passages": list(map(_passages_data, report.passages())),
        "browser": None if (browser := report.browser()) is None else _browser_data(browser),
        "remarks": [shown_text(wording(remark)) for remark in report.page_remarks()],
    }


def _with_shared_axes(reports: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Reports whose lines name their x values by number: most lines of a page have the same."""
    axes: dict[str, int] = {}
    written = list(reports)
    for line in (line for report in written for chart in report["charts"] for line in chart.get("lines", ())):
        line["x"] = axes.setdefault(_json(_steps(line["x"])), len(axes))
    return {"axes": [json.loads(axis) for axis in axes], "reports": written}


def _steps(x: list[float]) -> Any:
    """Whole numbers at one distance as [first, distance, how many] in a list of their own; others as they are."""
    distance = x[1] - x[0] if len(x) > 3 else 0
    even = distance and all(isinstance(each, int) and each == x[0] + i * distance for i, each in enumerate(x))
    return [[x[0], distance, len(x)]] if even else x


def _title(report: Display) -> str:
    return _label(str(getattr(report, "title", "")))


def _label(text: str) -> str:
    """The beginning of a title, a heading or a name."""
    return shown_text(text if len(text) <= MAX_LABEL_CHARACTERS else f"{text[: MAX_LABEL_CHARACTERS - 1]}…")


def _without_script(report: Display) -> str:
    above = "".join(f"<p>{escape(text)}</p>" for text in (_title(report), *map(shown_text, report.above)) if text)
    shown = report.page_tables() if report.browser() is None else report.tables()
    tables = (Table(x.headings, _with_commands(x), x.caption, longest=x.longest) for x in shown)
    return above + "".join(table.html() for table in tables)  # without shades: the policy allows no style attribute


def _with_commands(table: Table) -> Sequence[Sequence[str]]:
    """The rows of a table, each with its command below the last cell."""
    if not table.commands:
        return table.rows
    return [
        [*row[:-1], f"{row[-1]}\n\n{command}".strip()] for row, command in zip(table.rows, table.commands, strict=True)
    ]


def _number(x: float | None) -> float | str | None:
    """A number in five digits; one that JSON does not know, as text."""
    if x is None or math.isfinite(x):
        return None if x is None else float(f"{x:.5g}")
    return "NaN" if math.isnan(x) else "∞" if x > 0 else "−∞"


def _charted(x: float | None) -> float | str | None:
    """A number of a line as its chart writes it: in four digits, large ones in whole numbers."""
    if x is None or not math.isfinite(x):
        return _number(x)
    return round(x) if abs(x) >= 1000 else float(f"{x:.4g}")


def _numbers(values: Sequence[float] | None) -> list[float | str | None] | None:
    return None if values is None else [_number(float(x)) for x in values]


def _line_numbers(values: Sequence[float] | None) -> list[float | str | None] | None:
    return None if values is None else [_charted(float(x)) for x in values]


def _cell_data(cell: str) -> Any:
    if not isinstance(cell, IntervalCell):
        return shown_text(cell)
    ends = {name: _number(getattr(cell, name)) for name in ("value", "low", "high")}
    shape = {"box": cell.box and _numbers(cell.box), "from_zero": cell.from_zero}
    return {"text": shown_text(cell), **ends, "signed": cell.signed, **{key: x for key, x in shape.items() if x}}


def _table_data(table: Table) -> dict[str, Any]:
    return {
        "caption": _label(table.caption),
        "headings": list(map(_label, table.headings)),
        "rows": [list(map(_cell_data, row)) for row in table.rows],
        "words": table.words(),
        "shades": None if table.shades is None else [_numbers(row) for row in table.shades],
        "reference": table.reference,
        "baselines": list(table.baselines),
        "folded": table.folded,
        **({"under": _label(table.under)} if table.under else {}),
        "note": shown_text(table.note),
        **({"commands": list(map(shown_text, table.commands))} if table.commands else {}),
        **({"chooses": table.chooses} if table.chooses else {}),
        **({} if table.measure is None else {"browse": {"measure": table.measure, "address": table.address}}),
    }


def _passages_data(passages: Passages) -> dict[str, Any]:
    marks = dict(enumerate(passages.marks, len(passages.references)))
    both = [(pair, True) for pair in passages.references] + [(pair, False) for pair in passages.texts]
    return {
        "title": _label(passages.title),
        "source": _running_text(passages.source),
        "texts": [
            {"name": _label(x), "text": _running_text(y), "parts": _parts_data(y, marks.get(i, ())), "reference": first}
            for i, ((x, y), first) in enumerate(both)
        ],
    }


def _parts_data(text: str, marks: Sequence[TextMark]) -> list[list[Any]]:
    """A text in parts, each within the same marks: [text], or [text, note, whether it is strong]; [] = it has no mark.

    Cut here, because a page counts characters in another way than Python does.
    """
    if not marks:
        return []
    ends = sorted({0, len(text), *(min(end, len(text)) for x in marks for end in (x.start, x.stop))})
    parts: list[list[Any]] = []
    for start, stop in pairwise(ends):
        own = [x for x in marks if x.start <= start and stop <= x.stop]
        part: list[Any] = [_running_text(text[start:stop])]
        if own:
            part += [_label("; ".join(dict.fromkeys(x.note for x in own))), any(x.strong for x in own)]
        parts.append(part)
    return parts


def _running_text(text: str) -> str:
    """A text in any script, as it is: the page isolates its direction. Half of a character is written as its code."""
    return text.encode("utf-8", "backslashreplace").decode()


def _chart_data(chart: Chart) -> dict[str, Any]:
    if isinstance(chart, TradeOff):
        return {
            "type": "trade-off",
            "title": _label(chart.title),
            **{name: _axis_data(axis) for name, axis in (("x", chart.x), ("y", chart.y))},
            "points": [
                {
                    "name": _label(point.name),
                    "x": _cell_data(point.x),
                    "y": _cell_data(point.y),
                    "size": None if point.size is None else _number(point.size),
                    "baseline": point.baseline,
                    "group": list(chart.groups).index(point.group) if point.group else None,
                    "mark": _label(point.mark or point.name),
                }
                for point in chart.points
            ],
            "groups": list(map(_label, chart.groups)),
        }
    if isinstance(chart, PairCounts):
        counts = [list(map(int, row)) for row in chart.counts]
        names = list(map(_label, chart.names))
        return {"type": "matrix", "title": _label(chart.title), "names": names, "counts": counts, "unit": chart.unit}
    return {
        "type": "series",
        **{name: _label(getattr(chart, name)) for name in ("title", "x_label", "y_label", "note")},
        **{name: getattr(chart, name) for name in ("log_x", "log_y", "wide", "folded")},
        "lines": list(map(_line_data, chart.lines)),
        "marks": list(map(_marks_data, chart.marks)),
        **({"saved": list(map(_saved_data, chart.saved))} if chart.saved else {}),
    }


def _saved_data(model: SavedModel) -> dict[str, Any]:
    states, removed = (list(map(_axis_number, steps)) for steps in (model.states, model.removed))
    at, group = _axis_number(model.at), _label(model.group)
    return {"at": at, "rows": model.rows, "states": states, "removed": removed, "group": group}


def _browser_data(browser: RowBrowser) -> dict[str, Any]:
    return {
        "kind": browser.kind,
        "names": list(map(_label, browser.names)),
        "grouped_by": _label(browser.grouped_by),
        "command": browser.command,
        "explorer": browser.explorer,
        "first": browser.first,
        "review": browser.review,
        "doubt": _label(browser.doubt),
        "rows": [_browser_row_data(row, _running_text if browser.kind == "texts" else _label) for row in browser.rows],
    }


def _browser_row_data(row: BrowserRow, written: Callable[[str], str]) -> dict[str, Any]:
    """A row without what it has not."""
    data = {
        "index": row.index,
        "where": shown_text(shown_place(row.where)),
        "texts": [[_label(name), _running_text(text)] for name, text in row.texts.items()],
        "words": list(map(_running_text, row.words)),
        "true": list(map(written, row.true)),
        "predicted": list(map(written, row.predicted)),
        "correct": row.correct,
        "loss": _number(row.loss),
        "scores": [[_label(name), _number(share)] for name, share in row.scores.items()],
        "losses": list(map(_number, row.losses)),
        "values": [[_label(name), _number(value)] for name, value in row.values.items()],
        "groups": list(map(_label, row.groups)),
        "whole": row.whole,
        "look": list(map(_running_text, row.look)),
        "page": row.page,
        "fingerprint": row.fingerprint,
    }
    return {name: value for name, value in data.items() if value not in (None, [], "")}


def _axis_data(axis: Axis) -> dict[str, Any]:
    ticks = {"ticks": _numbers(axis.ticks)} if axis.ticks else {}
    return {"label": _label(axis.label), "unit": _label(axis.unit), "log": axis.log, "more": axis.more, **ticks}


def _line_data(line: SeriesLine) -> dict[str, Any]:
    return {
        "name": _label(line.name),
        "group": _label(line.group),
        "x": [_axis_number(x) for x in line.x],
        **{name: _line_numbers(getattr(line, name)) for name in ("y", "low", "high")},
        **{name: getattr(line, name) for name in ("faint", "dashed", "markers", "bars")},
        "best": None if line.best is None else _axis_number(line.best),
    }


def _axis_number(x: float) -> float:
    """A place on the x axis, where steps are whole numbers of any length. Raises: ValueError: not finite."""
    return int(x) if float(x).is_integer() else float(x)


def _marks_data(marks: Marks) -> dict[str, Any]:
    at = [_axis_number(x) for x in marks.at]
    return {"name": _label(marks.name), "group": _label(marks.group), "at": at, "alert": marks.alert}


# ── the command that makes a page ─────────────────────────────────────────────────────────────────────

_WORDS: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


@contextmanager
def made_by(words: Sequence[str]) -> Iterator[None]:
    """Within the block, these are the words of the command that makes pages."""
    token = _WORDS.set(tuple(map(readable_path, words)))
    try:
        yield
    finally:
        _WORDS.reset(token)


def command_line() -> str:
    """The command that runs now, for a shell, as a page shows it; empty where Python makes the page."""
    return shown_command(_WORDS.get())


def exact_command() -> str:
    """The command that runs now, as it was given, with folders of this machine; empty where Python makes the page."""
    return shlex.join(_WORDS.get())


def shown_command(words: Iterable[str]) -> str:
    """Words as a command line for a shell, without folders of this machine, a long text as read from a file."""
    return " ".join(map(_shown_word, words))


def _shown_word(word: str) -> str:
    if len(word) > MAX_ARGUMENT_CHARACTERS:
        return '"$(cat text.txt)"'
    if any(character.isspace() for character in word):  # a text, or one path
        return shlex.quote(shown_path(word))
    # --data=/folder/x.csv, data.files=[/folder/x.csv,/folder/y.csv]
    return shlex.quote(re.sub(r"[^=,\[\]]+", lambda part: shown_path(part[0]), word))


def check_html_path(path: str | Path) -> Path:
    """Validate the output path of a page, with ~ expanded. Raises: DataError: as `check_output`."""
    return check_output(path, "the page", ".html", ".htm")


def page_path(html: Path, name: str) -> Path:
    """The HTML file of a page: `html` itself, or the name in that folder, which is created. Raises: DataError."""
    if html.suffix.lower() in (".html", ".htm"):
        return check_html_path(html)
    with disk_errors(html, DataError):
        html.mkdir(parents=True, exist_ok=True)
    return html / name


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def content_security_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Content security policy: these scripts and styles by hash, and no network."""
    scripts_, styles_ = (" ".join(f"'{_hash(each)}'" for each in texts if each) for texts in (scripts, styles))
    none = "'none'"
    rules = (
        f"default-src 'none'; script-src {scripts_ or none}; style-src {styles_ or none}; img-src data: blob:; "
        "media-src blob:; connect-src 'none'; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8', 'replace')).digest()).decode()}"
