"""Documents that are read in a child process: HTML, PDF and DOCX, whose parsers are large programs for untrusted files.

A file may crash such a parser, keep it busy for ever or swell in memory; the child then ends, with an error for that
file alone. It may take `seconds` of processor time and `MEMORY_BYTES`, write nothing and reach no network.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from glassformer.errors import DataError, import_optional
from glassformer.files import child
from glassformer.retrieval.document import Document, DocumentPart

MEMORY_BYTES = 2 << 30
"""Memory of the child, beyond that of an idle one."""
WAIT_SECONDS = 30.0
"""How much longer a file may take by the clock, where other programs keep the processors busy."""

Kind = Literal["html", "pdf", "docx"]
_PACKAGES: dict[Kind, tuple[str, str]] = {
    "html": ("selectolax", "selectolax"),
    "pdf": ("pypdfium2", "pypdfium2"),
    "docx": ("docx", "python-docx"),
}
"""Kind → the module that reads it, and its package."""


def read_isolated(kind: Kind, data: bytes, seconds: float) -> Document:
    """The document of a file's bytes, read in a child process.

    Args:
        seconds: of processor time
    Raises: DataError: it cannot be read, or not within the limits. MissingExtraError: its package is not installed.
    """
    import_optional(*_PACKAGES[kind], "documents", f"reading {kind.upper()}")
    try:
        answer = _worker(seconds).ask({"kind": kind, "data": base64.b64encode(data).decode("ascii")})
    except child.ChildFailure as problem:
        limits = f"the limit is {seconds:g} s and {MEMORY_BYTES >> 30} GB of memory"
        raise DataError(f"it could not be read: {problem}; {limits}") from None
    if "error" in answer:
        raise DataError(answer["error"])
    parts = tuple(DocumentPart(start, tuple(headings)) for start, headings in answer["parts"])
    pages, notes = tuple(answer["pages"]), tuple(answer["notes"])
    return Document(answer["text"], parts, pages, answer["title"], answer["metadata"], notes)


@cache
def _worker(seconds: float) -> child.Worker:
    program = "from glassformer.retrieval.formats.isolated import main; main(*sys.argv[1:])"
    return child.Worker(program, str(seconds), timeout_s=seconds + WAIT_SECONDS)


# ── in the child ──────────────────────────────────────────────────────────────────────────────────────────


def main(seconds: str) -> None:
    """Entry point of the child: answer {"kind", "data"} with the fields of a document, or {"error"}."""
    child.enter_sandbox(memory_bytes=MEMORY_BYTES, allowed_events=("ctypes.",))  # by which pypdfium2 works
    child.serve(lambda request: _answer(request, float(seconds)), cpu_s=float(seconds))


def _answer(request: Mapping[str, str], seconds: float) -> dict[str, Any]:
    try:
        document = _read(request["kind"], base64.b64decode(request["data"]), seconds)
    except DataError as problem:
        return {"error": str(problem)}
    except MemoryError:
        return {"error": f"reading it takes more than {MEMORY_BYTES >> 30} GB of memory"}
    return {
        "text": _valid(document.text),
        "parts": [(part.start, list(map(_valid, part.headings))) for part in document.parts],
        "pages": document.pages,
        "title": _valid(document.title),
        "metadata": {_valid(name): _valid(str(value)) for name, value in document.metadata.items()},
        "notes": document.notes,
    }


def _valid(text: str) -> str:
    """A text without halves of surrogate pairs, which are no characters, and as long."""
    return text.encode("utf-8", "replace").decode()


def _read(kind: str, data: bytes, seconds: float) -> Document:
    """The document of a file; the package that reads it is imported here, in the child."""
    if kind == "html":
        from glassformer.retrieval.formats.html import html_document

        return html_document(data)
    if kind == "docx":
        from glassformer.retrieval.formats.docx import docx_document

        return docx_document(data)
    from glassformer.retrieval.formats.pdf import pdf_document

    return pdf_document(data, seconds)
