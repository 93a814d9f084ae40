"""Reproduction of published scores: chapters of "Natural Language Processing with Transformers" beside ours.

    what               book   notebook   ours     difference
    F1, fine-tuned     0.91   0.9226     …        …              the same data, another model: the reason is below

Ours are never stored here: they are computed from data, or read from trained runs. Where a run or data are missing, the
row says what to do. The target is the score of the book; that of its public notebook, where it differs, is the centre
of the tolerance.

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
class DataFolders:
    """The folders to read from. data: of data sets · runs: of runs"""

    data: Path
    runs: Path


@dataclass(frozen=True, kw_only=True)
class PublishedScore:
    """A published score.

    id: in the list of features · what: it measures
    book: as in the text · notebook: as the chapter's public notebook prints; at least one of them
    tolerance: so far from the notebook's (else the book's) score counts as reproduced
    ours: computes ours, or raises what is missing · why: ours may differ · digits: to show
    """

    id: str
    what: str
    ours: Callable[[DataFolders], float | Mean]
    book: float | None = None
    notebook: float | None = None
    tolerance: float = 0.0
    why: str = ""
    digits: int = 3

    def reproduce(self, folders: DataFolders) -> ReproducedScore:
        """This score beside ours."""
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
            result = self.ours(folders)
        except GlassformerError as error:
            return ReproducedScore(**known, missing=str(error))
        mean = result if isinstance(result, Mean) else Mean(result)
        return ReproducedScore(
            **known,
            ours=mean.value,
            half=mean.half,
            difference=mean.value - target,
            within=abs(mean.value - centre) <= self.tolerance + 1e-12,
            why=self.why,
        )


@dataclass(frozen=True, kw_only=True)
class ReproducedScore:
    """A published score beside ours; fields as in `PublishedScore`.

    half: half the width of the 95 % interval over seeds · within: the tolerance
    missing: what ours needs, where it cannot be computed yet
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
        """The cells of the table."""
        marker = "" if self.within is not False else " !"
        return [
            self.what,
            self._formatted(self.book),
            self._formatted(self.notebook),
            "" if self.ours is None else Mean(self.ours, self.half).written(self.digits),
            "–" if self.difference is None else f"{self.difference:+.{self.digits}f}{marker}",
        ]

    def _formatted(self, x: float | None) -> str:
        return "" if x is None else f"{x:.{self.digits}f}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Reproduction:
    """The published scores of a chapter beside ours."""

    chapter: str
    title: str
    rows: list[ReproducedScore]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows."""
        return ["", "book", "notebook", "ours", "difference"], [row.cells() for row in self.rows]

    @property
    def caption(self) -> str:
        return (
            f"Chapter {self.chapter}, {self.title}: differences are to the book's score, where it names one; "
            "! is beyond the tolerance"
        )

    @property
    def notes(self) -> list[str]:
        """Why scores differ, and what missing ones need: each reason once, with its rows."""
        rows_of: dict[str, list[str]] = {}
        for row in self.rows:
            note = row.missing if row.ours is None else row.why if row.within is False else None
            if note:
                rows_of.setdefault(note, []).append(row.what)
        return [f"{'; '.join(rows)}: {note}" for note, rows in rows_of.items()]

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
        return "\n".join([self.caption, *lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.caption)


def reproduce(
    chapter: str, *, data: str | Path, runs: str | Path, progress: Callable[[str], None] | None = None
) -> Reproduction:
    """Reproduce the published scores of a chapter.

    Args:
        data: the folder of data sets · runs: the folder of runs · progress: called with the name of each score
    Raises: ConfigError: a chapter without scores.
    """
    from glassformer.evaluation.book.chapters import CHAPTERS

    if chapter not in CHAPTERS:
        raise ConfigError(f"no scores of chapter {chapter!r}; there are those of {', '.join(CHAPTERS)}")
    title, scores = CHAPTERS[chapter]
    folders, rows = DataFolders(Path(data), Path(runs)), []
    for score in scores:
        if progress is not None:
            progress(score.what)
        rows.append(score.reproduce(folders))
    return Reproduction(chapter=chapter, title=title, rows=rows)
