"""Reports: results that write themselves as JSON and show themselves in a shell, in a notebook and on the terminal.

    @dataclass(frozen=True, repr=False)
    class WordCount(Report, kind="word-count", keys=("words", "mean")):
        words: dict[str, int]

        @property
        def mean(self) -> float: ...

        def tables(self) -> list[Table]:
            return [Table(["word", "count"], [[word, str(n)] for word, n in self.words.items()])]

    report.to_dict()        {"kind": "word-count", "version": 1, "words": {…}, "mean": 2.5}
    print(report)           caption, tables and notes as text; at the end of a notebook's cell as HTML
    report.save("words.json"); WordCount.load("words.json")

A part of a report with keys of its own is a `Record`; any other dataclass is written with all its fields. What is no
report and shows itself in a notebook nevertheless is a `Display`, or any other `InNotebook`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from glassformer.errors import ConfigError, DataError
from glassformer.files import as_path, is_int, nan_from_null, null_for_nan, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.lazy import imported
from glassformer.reports.charts import Chart, Passages, RowBrowser
from glassformer.reports.table import Table, shown_text


class Record:
    """Base class of dataclasses that choose what of them is JSON.

    keys: names of the fields and properties that are written, in their order; by default all fields
    """

    __slots__ = ()
    KEYS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, keys: tuple[str, ...] | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if keys is not None:  # a dataclass with slots is made twice, the second time without arguments
            cls.KEYS = keys

    def to_dict(self) -> dict[str, Any]:
        """Names and values that strict JSON can hold: NaN and infinities are None, arrays are lists."""
        return {name: plain(getattr(self, name)) for name in self.KEYS or _fields(self)}


@dataclass(frozen=True, kw_only=True)
class LivePage:
    """A page in a cell, which asks the kernel (`integrations/anywidget.py`).

    html: the page
    still: what is saved with the notebook, as HTML, for where there is no kernel
    app: the ASGI application that answers the requests of the page; None = it has none
    released: called where no cell shows the page any more
    """

    html: Callable[[], str]
    still: Callable[[], str]
    app: Any = None
    released: Callable[[], None] = lambda: None


class InNotebook(ABC):
    """Base class of what shows itself at the end of a notebook's cell."""

    __slots__ = ()

    @abstractmethod
    def notebook_html(self) -> str:
        """What a notebook shows of it, as HTML."""

    def live_page(self) -> LivePage | None:
        """Its page for the cell of a notebook whose kernel answers; None = it has none."""
        return None

    def _repr_html_(self) -> str:
        return self.notebook_html()

    def _ipython_display_(self) -> None:
        """IPython calls it first. Raises: NotImplementedError: there is no widget, and IPython is to show the HTML."""
        if (page := self._live_page()) is None:
            raise NotImplementedError
        imported("glassformer.integrations.anywidget:show")(page, repr(self))

    def _display_(self) -> Any:
        """marimo calls it first."""
        if (page := self._live_page()) is None:
            return imported("marimo:Html")(self.notebook_html())
        return imported("glassformer.integrations.anywidget:CellWidget")(page)

    def _live_page(self) -> LivePage | None:
        return self.live_page() if find_spec("anywidget") else None


class Display(InNotebook):
    """Base class of what a notebook shows as tables, with a line above and sentences below."""

    __slots__ = ()

    @abstractmethod
    def tables(self) -> Iterable[Table]:
        """The tables that show the result."""

    @property
    def heading(self) -> str:
        """A line above the tables: what was computed, on what."""
        return str(getattr(self, "caption", ""))

    def remarks(self) -> Iterable[str]:
        """Sentences below the tables."""
        return list(getattr(self, "notes", ()))

    @property
    def above(self) -> list[str]:
        """The lines above the tables that there are: the heading, and `finding`, what was found, in a sentence."""
        return [line for line in (self.heading, str(getattr(self, "finding", ""))) if line]

    @property
    def below(self) -> list[str]:
        """The remarks, without one that is above as the finding."""
        return [remark for remark in self.remarks() if remark != getattr(self, "finding", None)]

    def charts(self) -> Iterable[Chart]:
        """The charts of its page (`reports/page.py`)."""
        return ()

    def page_tables(self) -> Iterable[Table]:
        """The tables of its page, where there is room for more than on a terminal."""
        return self.tables()

    def page_remarks(self) -> Iterable[str]:
        """The remarks of its page, which may have some of them as tables."""
        return self.below

    def passages(self) -> Iterable[Passages]:
        """Texts side by side on its page, uncut."""
        return ()

    def browser(self) -> RowBrowser | None:
        """Rows of its page, to be filtered by its matrix and its tables."""
        return None

    def live_page(self) -> LivePage | None:
        """Its page, where that has more than tables."""
        if not any((*self.charts(), *self.passages(), self.browser())):
            return None
        return _page_of(lambda: [self], self.notebook_html)

    def notebook_html(self) -> str:
        """The tables, with what is above and below them."""
        above = "".join(f"<p>{escape(shown_text(line))}</p>" for line in self.above)
        below = "".join(f"<p>{escape(shown_text(remark))}</p>" for remark in self.below)
        return above + "".join(table.html() for table in self.tables()) + below


def _page_of(reports: Callable[[], Sequence[Display]], still: Callable[[], str]) -> LivePage:
    """The page of these reports in a cell, made where it is shown."""
    return LivePage(html=lambda: str(imported("glassformer.reports.page:report_page")(*reports())), still=still)


class SeveralReports(InNotebook):
    """Base class of what a notebook shows as a page of several reports, such as a run."""

    __slots__ = ()

    @abstractmethod
    def reports(self) -> Sequence[Display]:
        """The reports of its page, in their order."""

    def live_page(self) -> LivePage:
        """Their page."""
        return _page_of(self.reports, self.notebook_html)

    def notebook_html(self) -> str:
        """The tables of all of them."""
        return "".join(each.notebook_html() for each in self.reports())


class Report(Record, Display):
    """A result: JSON, and tables with a caption above and notes below. Declare its dataclass with `repr=False`.

    kind: what it is, in its JSON
    version: of its JSON; to be raised where a key gets another name or meaning
    """

    __slots__ = ()
    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1

    def __init_subclass__(cls, *, kind: str = "", version: int | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if kind:
            cls.KIND = kind
        if version is not None:
            cls.VERSION = version

    def to_dict(self) -> dict[str, Any]:
        """Kind, version, names and values that strict JSON can hold."""
        return {"kind": self.KIND, "version": self.VERSION, **super().to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the JSON of a report of this kind; what follows from other values is computed again.

        Raises: ConfigError: of another kind, of a later version, cut, or with values that are not allowed.
        """
        from glassformer.files.schema import parse

        check_kind(values, cls)
        written = {name: value for name, value in values.items() if name not in ("kind", "version")}
        report = parse(cls, nan_from_null(written))
        report.validate()
        return report

    def validate(self) -> None:
        """Check what depends on several fields of a report that was read. Raises: ConfigError."""

    def save(self, path: str | Path) -> None:
        """Write the report as JSON, atomically. Raises: DataError: the disk refuses."""
        write_json(as_path(path), self.to_dict(), DataError)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a saved report. Raises: DataError: no such file, or not the JSON of such a report."""
        try:
            return cls.from_dict(read_json_object(as_path(path), DataError))
        except ConfigError as error:
            raise DataError(f"{path}: {error}") from error

    def __str__(self) -> str:
        below = "\n".join(map(shown_text, self.below))
        return "\n\n".join(filter(None, [*map(shown_text, self.above), *(x.text() for x in self.tables()), below]))

    def __repr__(self) -> str:
        return str(self)


def check_kind(values: Mapping[str, Any], cls: type[Report]) -> None:
    """Check that JSON is a report of a class. Raises: ConfigError: of another kind, or of another version."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"expected a report of kind '{cls.KIND}', got {safe_repr(values)}")
    kind, version = values.get("kind"), values.get("version")
    if kind != cls.KIND:
        got = "which has no kind" if kind is None else f"whose kind is {safe_repr(kind)}"
        raise ConfigError(f"expected a report of kind '{cls.KIND}', got JSON {got}")
    if not is_int(version) or version != cls.VERSION:
        later = is_int(version, cls.VERSION + 1)
        remedy = "it was written by a later Glassformer; update this one" if later else "make the report again"
        raise ConfigError(f"this {kind} report has version {safe_repr(version)}; supported: {cls.VERSION}; {remedy}")


def plain(value: Any) -> Any:
    """A value as strict JSON can hold it: records and dataclasses become objects, arrays and sets lists."""
    if isinstance(value, Record):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return null_for_nan(value)
    tolist: Callable[[], Any] | None = getattr(value, "tolist", None)  # an array or a scalar of numpy or torch
    return str(value) if tolist is None else plain(tolist())


def _fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
