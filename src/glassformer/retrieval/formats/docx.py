"""DOCX: paragraphs, headings and tables in the order of the document, its footnotes last."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from glassformer.errors import DataError, import_optional
from glassformer.files import FREELY_UNPACKED_BYTES, MAX_UNPACKING
from glassformer.retrieval.document import Document
from glassformer.retrieval.formats.blocks import TextBlocks

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_NOTES = ("/word/footnotes.xml", "/word/endnotes.xml")


def docx_document(data: bytes) -> Document:
    """The document of a DOCX. Raises: DataError: it is damaged, encrypted or a bomb, or has no text."""
    package = import_optional("docx", "python-docx", "documents", "reading DOCX")
    check_unpacked_size(data)
    try:
        file = package.Document(io.BytesIO(data))
        blocks, title = TextBlocks(), ""
        for block in file.iter_inner_content():
            if hasattr(block, "rows"):
                _write_table(block, blocks)
            else:
                title = _write_paragraph(block, blocks) or title
        _write_notes(file, blocks)
        facts = file.core_properties
    except MemoryError:
        raise
    except Exception as problem:  # of zipfile, lxml or python-docx, wherever the file is damaged
        raise DataError(f"it is no DOCX, or a damaged one: {' '.join(str(problem).split())[:200]}") from None
    known = {"author": facts.author, "subject": facts.subject, "keywords": facts.keywords}
    metadata = {name: value.strip() for name, value in known.items() if value and value.strip() != "python-docx"}
    return blocks.document(title=(facts.title or "").strip() or title, metadata=metadata)


def check_unpacked_size(data: bytes) -> None:
    """Raises: DataError: no ZIP archive, or a decompression bomb: one that unpacks to far more than text does."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        if data.startswith(b"\xd0\xcf\x11\xe0"):  # a compound file: what Word encrypts is packed into one
            raise DataError("it is encrypted, or of Word before 2007; save it as DOCX without a password") from None
        raise DataError("it is no DOCX, or a damaged one: not a ZIP archive") from None
    limit = max(FREELY_UNPACKED_BYTES, MAX_UNPACKING * len(data))
    if size > limit:
        raise DataError(f"it unpacks to {size:,} bytes, far more than a document of {len(data):,} bytes does")


def _write_paragraph(paragraph: Any, blocks: TextBlocks) -> str:
    """Write a paragraph; its text, if it is the title of the document."""
    style = (paragraph.style.name if paragraph.style is not None else "") or ""
    text = paragraph.text
    if (heading := _HEADING.match(style)) and text.strip():
        blocks.begin_heading()
        blocks.write(text)
        blocks.end_heading(int(heading[1]))
        return ""
    is_item = style.lower().startswith("list")
    for line in text.split("\n"):
        blocks.write(f"- {line}" if is_item and line.strip() else line)
        blocks.end_line()
    if not is_item:
        blocks.end_block()
    return " ".join(text.split()) if style.lower() == "title" else ""


def _write_table(table: Any, blocks: TextBlocks) -> None:
    """Write a table, a row a line; a cell that is merged over several columns once."""
    blocks.end_block()
    for row in table.rows:
        blocks.begin_row()
        for cell in row._tr.tc_lst:  # row.cells takes time that is quadratic in the rows
            blocks.next_cell()
            blocks.write(" ".join(paragraph.text for paragraph in cell.iter(cell.p_lst[0].tag)))
        blocks.end_row()
    blocks.end_block()


def _write_notes(file: Any, blocks: TextBlocks) -> None:
    """Write footnotes and endnotes, which python-docx keeps as they are."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    for part in file.part.package.iter_parts():
        if str(part.partname) in _NOTES:
            for note in etree.fromstring(part.blob, parser):
                blocks.write("".join(note.itertext()))
                blocks.end_block()
