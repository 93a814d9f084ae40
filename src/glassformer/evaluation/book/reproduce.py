"""A book's figures beside ours: chapters of "Natural Language Processing with Transformers".

    what               book   notebook   ours     difference
    F1, fine-tuned     0.91   0.9226     …        …              the same data, another model: why stands below

Ours are never written down here: they are computed when asked for, from data, or read from the runs that were trained.
Where a run or data are missing, the row says what to do. The target is the book's figure; what its public notebook
prints, where that differs, is the centre of what counts as the same.

Source: Tunstall, von Werra and Wolf, Natural Language Processing with Transformers (2022), and its public notebooks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError
from glassformer.evaluation.compare.seeds import Mean
from glassformer.pages.tables import html_table


@dataclass(frozen=True)
class Places:
    """Where things are. data: a folder of data sets · runs: a folder of runs"""

    data: Path
    runs: Path


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of the book.

    id: of the row of the list of features that it stands in · what: it is of
    book: as the text says · notebook: as the chapter's public notebook prints; at least one of them
    tolerance: so far from the notebook's (else the book's) figure counts as the same
    ours: how ours is had; it raises what is missing · why: ours may differ · digits: to show
    """

    id: str
    what: str
    ours: Callable[[Places], float | Mean]
    book: float | None = None
    notebook: float | None = None
    tolerance: float = 0.0
    why: str = ""
    digits: int = 3

    def row(self, places: Places) -> Row:
        """This figure beside ours."""
        target = self.book if self.book is not None else self.notebook
        centre = self.notebook if self.notebook is not None else self.book
        assert target is not None and centre is not None
        known: dict[str, Any] = {
            "id": self.id,
            "what": self.what,
            "book": self.book,
            "notebook": self.notebook,
            "tolerance": self.tolerance,
            "digits": self.digits,
        }
        try:
            found = self.ours(places)
        except GlassformerError as error:
            return Row(**known, missing=str(error))
        mean = found if isinstance(found, Mean) else Mean(found)
        return Row(
            **known,
            ours=mean.value,
            half=mean.half,
            difference=mean.value - target,
            within=abs(mean.value - centre) <= self.tolerance + 1e-12,
            why=self.why,
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure beside ours, as in `Figure`.

    half: half the width of the 95 % interval over seeds · within: the tolerance
    missing: what ours needs, where it cannot be had yet
    """

    id: str
    what: str
    book: float | None
    notebook: float | None
    tolerance: float
    digits: int
    ours: float | None = None
    half: float | None = None
    difference: float | None = None
    within: bool | None = None
    why: str = ""
    missing: str | None = None

    def cells(self) -> list[str]:
        """What the table shows."""
        differs = "" if self.within is not False else " !"
        return [
            self.what,
            self._said(self.book),
            self._said(self.notebook),
            "" if self.ours is None else Mean(self.ours, self.half).written(self.digits),
            "–" if self.difference is None else f"{self.difference:+.{self.digits}f}{differs}",
        ]

    def _said(self, x: float | None) -> str:
        return "" if x is None else f"{x:.{self.digits}f}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Reproduction:
    """A chapter's figures beside ours."""

    chapter: str
    title: str
    rows: list[Row]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows."""
        return ["", "book", "notebook", "ours", "difference"], [row.cells() for row in self.rows]

    @property
    def headed(self) -> str:
        return (
            f"Chapter {self.chapter}, {self.title}: differences are to the book's figure, where it names one; "
            "! is beyond what counts as the same"
        )

    @property
    def notes(self) -> list[str]:
        """Why figures differ that do, and what is needed for those that are missing: each once, with its rows."""
        said: dict[str, list[str]] = {}
        for row in self.rows:
            note = row.missing if row.ours is None else row.why if row.within is False else None
            if note:
                said.setdefault(note, []).append(row.what)
        return [f"{'; '.join(rows)}: {note}" for note, rows in said.items()]

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
        return "\n".join([self.headed, *lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.headed)


def reproduce(
    chapter: str, *, data: str | Path, runs: str | Path, progress: Callable[[str], None] | None = None
) -> Reproduction:
    """A chapter's figures beside ours.

    Args:
        data: the folder of data sets · runs: the folder of runs · progress: called with what is computed next
    Raises: ConfigError: a chapter without figures here.
    """
    from glassformer.evaluation.book.chapters import CHAPTERS

    if chapter not in CHAPTERS:
        raise ConfigError(f"no figures of chapter {chapter!r}; there are those of {', '.join(CHAPTERS)}")
    title, figures = CHAPTERS[chapter]
    places, rows = Places(Path(data), Path(runs)), []
    for figure in figures:
        if progress is not None:
            progress(figure.what)
        rows.append(figure.row(places))
    return Reproduction(chapter=chapter, title=title, rows=rows)
