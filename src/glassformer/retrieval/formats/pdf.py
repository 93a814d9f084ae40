"""PDF: the text of its pages, by pdfium, with lines joined to paragraphs again, rows of tables, and its outline.

    Apples are the fruit of an or-         Apples are the fruit of an orchard that is old.
    chard that is old.
    Sort      Weeks                   →    | Sort | Weeks |
    Gala      12                           | Gala | 12 |

Lines come in the order in which the file draws them, which is that of reading in files of word processors, with
columns one after the other. A line continues the one above it where it is near, of the same size, and no item of a
list.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from glassformer.errors import DataError, import_optional
from glassformer.files import counted, error_reason
from glassformer.retrieval.document import Document, DocumentPart, Heading, sections

MAX_OUTLINE = 10_000
"""Entries of an outline that are used."""
_SHARE = 0.8  # of the time, after which no further page is begun
_NEAR_LINE, _SAME_HEIGHT, _SAME_FONT, _CELL_GAP, _SHORT = 0.9, 1.5, 1.1, 1.5, 0.7

_ITEM = re.compile(r"[-–•*▪‣◦·]\s|\(?\w{1,3}[.)]\s")
_SENTENCE_END = re.compile(r"[.!?:;。！？…][\"'”’)\]]*$")
_HYPHENS = "\x02\ufffe\xad"
"""What pdfium writes for a hyphen at the end of a line."""
_DIVIDED = re.compile(rf"[{_HYPHENS}](?=\S)")


class _Line(NamedTuple):
    """A line of text, and the rectangle that its characters take on their page, in points from the lower left.

    height: of its tallest run of characters; pdfium makes one line of lines that a hyphen joins
    font: size of the font of its first character, in the units of the file
    is_row: it has cells, or no place, and is not continued
    """

    text: str
    left: float
    bottom: float
    right: float
    top: float
    height: float = 0.1
    font: float = 1.0
    is_row: bool = False


def pdf_document(data: bytes, seconds: float) -> Document:
    """The document of a PDF; of one that takes too long, its first pages, with a note.

    Args:
        seconds: of processor time in which pages are read
    Raises: DataError: it is encrypted or damaged, or has no text.
    """
    begin = time.process_time()
    pdfium = import_optional("pypdfium2", "pypdfium2", "documents", "reading PDF")
    try:
        file = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as problem:
        raise DataError(_reason(str(problem))) from None
    pages: list[str] = []
    notes: list[str] = []
    for number in range(len(file)):
        if time.process_time() - begin > _SHARE * seconds:
            notes.append(f"pages {number + 1:,} to {len(file):,} were not read: the limit of {seconds:g} s had passed")
            break
        try:
            pages.append("\n".join(_paragraphs(_lines(file[number]))))
        except pdfium.PdfiumError as problem:
            pages.append("")
            notes.append(f"page {number + 1} could not be read: {error_reason(problem)}")
    if not any(pages):
        raise DataError(
            f"it has {counted(len(file), 'page')} without text: scanned, perhaps, and to be read by OCR first"
        )
    if empty := [str(number) for number, page in enumerate(pages, 1) if not page]:
        more = f", and {len(empty) - 20:,} more" if len(empty) > 20 else ""
        notes.append(f"{'pages' if len(empty) > 1 else 'page'} {', '.join(empty[:20])}{more} of it without text")
    text, starts = _joined(pages)
    facts = {name.lower(): value.strip() for name, value in file.get_metadata_dict(skip_empty=True).items()}
    known = {name: facts[name] for name in ("author", "subject", "keywords") if facts.get(name)}
    return Document(text, _parts(file, text, starts), starts, facts.get("title", ""), known, tuple(notes))


def _reason(problem: str) -> str:
    if "password" in problem.lower():
        return "it is encrypted, and opens only with a password"
    return "it is no PDF, or a damaged one"


def _lines(page: Any) -> Iterator[_Line]:
    """The lines of a page, in the order of the file."""
    try:
        source = page.get_textpage()
        text = source.get_text_range()
        if len(text) != source.count_chars():  # characters have no places then
            yield from (_Line(line, 0, 0, 0, 0, is_row=True) for line in text.split("\r\n") if line.strip())
            return
        start = 0
        for line in text.split("\r\n"):
            if line.strip():
                yield _placed(source, line, start)
            start += len(line) + 2
        source.close()
    finally:
        page.close()


def _placed(source: Any, text: str, start: int) -> _Line:
    """A line with its rectangle; where it has wide gaps, as a row of cells."""
    boxes = [source.get_rect(index) for index in range(source.count_rects(start, len(text)))]
    if not boxes:
        return _Line(" ".join(text.split()), 0, 0, 0, 0, is_row=True)
    left, bottom = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, top = max(box[2] for box in boxes), max(box[3] for box in boxes)
    height = max(0.1, *(box[3] - box[1] for box in boxes))
    cuts = []
    for before, after in pairwise(boxes):
        if after[0] - before[2] > _CELL_GAP * height:
            index = source.get_index(after[0] + 0.5, (after[1] + after[3]) / 2, 2, height)
            if index is not None and start < index < start + len(text):
                cuts.append(index - start)
    cells = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    cells = [" ".join(_DIVIDED.sub("", cell).split()) for cell in cells]
    if len(cells) > 1:
        return _Line(f"| {' | '.join(cells)} |", left, bottom, right, top, is_row=True)
    raw = import_optional("pypdfium2.raw", "pypdfium2", "documents", "reading PDF")
    font = raw.FPDFText_GetFontSize(source.raw, start + len(text) - len(text.lstrip()))
    return _Line(cells[0], left, bottom, right, top, height, max(font, 0.1))


def _paragraphs(lines: Iterator[_Line]) -> Iterator[str]:
    """Lines that continue each other, as one."""
    text, before = "", None
    for line in lines:
        if before is not None and _continues(before, line):
            text = _continued(text, line.text)
        else:
            if text:
                yield text
            text = line.text
        before = line
    if text:
        yield text


def _continues(before: _Line, line: _Line) -> bool:
    """Whether a line is of the same paragraph as the one before it."""
    if before.is_row or line.is_row or _ITEM.match(line.text):
        return False
    for share, most in ((before.height / line.height, _SAME_HEIGHT), (before.font / line.font, _SAME_FONT)):
        if not 1 / most < share < most:
            return False
    if line.top > before.bottom + before.height / 2:  # the top of the next column
        return _runs_on(before.text, line.text)
    if before.bottom - line.top > _NEAR_LINE * before.height:
        return False
    is_short = before.right - before.left < _SHORT * (line.right - line.left)
    return not (is_short and _SENTENCE_END.search(before.text))


def _runs_on(before: str, after: str) -> bool:
    """Whether a sentence runs on from one column or page to the next."""
    return before[-1:] in _HYPHENS or (after[:1].islower() and not _SENTENCE_END.search(before))


def _continued(text: str, line: str) -> str:
    """Two lines as one; a word that a hyphen divides is whole again."""
    return text[:-1] + line if _is_divided(text, line) else f"{text} {line}"


def _is_divided(before: str, after: str) -> bool:
    """Whether the last hyphen before divides a word."""
    return before[-1:] in _HYPHENS or (before[-1:] == "-" and before[-2:-1].isalpha() and after[:1].islower())


def _joined(pages: list[str]) -> tuple[str, tuple[int, ...]]:
    """The text of all pages, and where each begins; a sentence that runs on to the next page is not cut."""
    text, starts, size = [""], [], 0
    for page in pages:
        gap = "\n\n" if page and size else ""
        if gap and _runs_on(text[-1], page):
            gap = " "
            if _is_divided(text[-1], page):
                text[-1], size, gap = text[-1][:-1], size - 1, ""
        starts.append(size + len(gap))
        if page:
            text += [gap, page]
            size += len(gap) + len(page)
    return "".join(text), tuple(starts)


def _parts(file: Any, text: str, pages: tuple[int, ...]) -> tuple[DocumentPart, ...]:
    """A part for each entry of the outline: where its title is on its page, else where the page begins."""
    headings: list[Heading] = []
    for number, entry in enumerate(file.get_toc()):
        target, title = entry.get_dest(), " ".join(entry.get_title().split())
        page = None if target is None else target.get_index()
        if number == MAX_OUTLINE or page is None or not 0 <= page < len(pages) or not title:
            continue
        end = pages[page + 1] if page + 1 < len(pages) else len(text)
        begin = max(headings[-1].start if headings else 0, pages[page])
        place = text.find(title, begin, end)
        headings.append(Heading(begin if place < 0 else place, entry.level + 1, title))
    return sections(text, headings)
