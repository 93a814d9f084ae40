"""Document formats: from a file to its text in reading order, with its parts, pages and metadata.

| format | read by | what it keeps |
| --- | --- | --- |
| text | the standard library; encodings: byte order mark, UTF-8, Windows-1252, charset-normalizer | lines |
| Markdown | markdown-it-py (CommonMark), its blocks; front matter: PyYAML, bounded | sections, lines, front matter |
| source code | `ast` for Python; of other languages the lines that declare something | functions and classes, lines |
| CSV, TSV, JSONL, JSON | the row readers of `glassformer.data` | rows, lines, columns as metadata |
| HTML | selectolax (lexbor), in a child process | headings, rows of tables, title, description |
| PDF | pypdfium2 (pdfium), in a child process | pages, paragraphs, rows of tables, outline, title, author |
| DOCX | python-docx, in a child process | headings, rows of tables, footnotes, title, author |

The name of a file says its format; where its content says otherwise, the content is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from glassformer.errors import DataError
from glassformer.files import error_reason, open_regular_file
from glassformer.retrieval.document import Document, plain_text
from glassformer.retrieval.formats.code import code_document
from glassformer.retrieval.formats.encoding import decode
from glassformer.retrieval.formats.isolated import read_isolated
from glassformer.retrieval.formats.markdown import markdown_document
from glassformer.retrieval.formats.tables import csv_table, json_lines, json_list, tsv_table
from glassformer.retrieval.options import DocumentOptions

_CODE = (
    ".asm .bash .c .cc .clj .cljs .cpp .cs .css .cxx .d .dart .erl .ex .exs .f90 .fs .go .groovy .h .hh .hpp .hs .java "
    ".jl .js .jsx .kt .kts .lua .m .mjs .ml .mm .nim .php .pl .pm .proto .ps1 .r .rb .rs .scala .scss .sh .sql .swift "
    ".tf .ts .tsx .v .vb .vhd .vue .zig .zsh"
).split()
FORMATS: dict[str, Callable[[bytes, DocumentOptions], Document]] = {
    **dict.fromkeys(
        (".md", ".markdown", ".mdown", ".qmd", ".rmd"), lambda data, options: markdown_document(decode(data))
    ),
    **dict.fromkeys((".py", ".pyi", ".pyw"), lambda data, options: code_document(decode(data), python=True)),
    **dict.fromkeys(_CODE, lambda data, options: code_document(decode(data))),
    ".csv": lambda data, options: csv_table(decode(data)),
    ".tsv": lambda data, options: tsv_table(decode(data)),
    **dict.fromkeys((".jsonl", ".ndjson"), lambda data, options: json_lines(decode(data))),
    ".json": lambda data, options: json_list(decode(data)),
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda data, options: read_isolated("html", data, options.seconds)),
    ".pdf": lambda data, options: read_isolated("pdf", data, options.seconds),
    ".docx": lambda data, options: read_isolated("docx", data, options.seconds),
}
"""File extension → how it is read; any other file is text, if its bytes are."""

_BEGINNINGS = {
    b"%PDF-": ".pdf",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"RIFF": "a sound, video or image in a RIFF file",
    b"ID3": "a sound",
    b"fLaC": "a sound",
    b"OggS": "a sound or video",
    b"\x1f\x8b": "a gzip archive; unpack it",
    b"BZh": "a bzip2 archive; unpack it",
    b"\xfd7zXZ": "an xz archive; unpack it",
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"Rar!": "a RAR archive; unpack it",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program or library",
}
_MARKUP = (b"<!doctype html", b"<html")


def read_document(path: Path, options: DocumentOptions | None = None) -> Document:
    """The document in a file.

    Raises:
        DataError: why it cannot be read, as a sentence that begins with "it", without its name
        MissingExtraError: the package that reads it is not installed
    """
    options = options or DocumentOptions()
    data = _bytes(path, options.max_bytes)
    read = FORMATS.get(_format(path, data))
    return plain_text(decode(data)) if read is None else read(data, options)


def _bytes(path: Path, limit: int) -> bytes:
    try:
        stream, _ = open_regular_file(path, DataError)
    except DataError as problem:
        raise DataError(f"it {str(problem).removeprefix(f'{path}: ')}") from problem
    with stream:
        try:
            data = stream.read(limit + 1)
        except OSError as problem:
            raise DataError(f"it cannot be read: {error_reason(problem)}") from problem
    if len(data) > limit:
        raise DataError(f"it has more than {limit:,} bytes, which is the limit")
    return data


def _format(path: Path, data: bytes) -> str:
    """The extension of a file, or that which its content should have. Raises: DataError: nothing that has text."""
    extension = path.suffix.lower()
    for beginning, kind in _BEGINNINGS.items():
        if data.startswith(beginning):
            if kind.startswith("."):
                return kind
            raise DataError(f"it is {kind}")
    if data.startswith(b"PK\x03\x04"):
        # The first entries of an archive name what it is; an archive of anything else has no text.
        if extension == ".docx" or b"word/document.xml" in data:
            return ".docx"
        raise DataError("it is a ZIP archive, or of an application that writes such; unpack or export it")
    begin = data[:1_000].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if extension not in (".html", ".htm", ".xhtml") and begin.startswith(_MARKUP) and extension in ("", ".txt", ".asp"):
        return ".html"
    if extension in (".pdf", ".docx") and not data.startswith((b"%PDF-", b"PK", b"\xd0\xcf\x11\xe0")):
        return extension if b"\0" in data[:1_000] or b"%PDF-" in data[:1_024] else ".txt"
    return extension
