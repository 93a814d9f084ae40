"""Plain text: one part, as the file has it."""

from __future__ import annotations

from glassformer.errors import DataError
from glassformer.retrieval.document import Document, DocumentPart


def plain_text(text: str) -> Document:
    """A document of one part. Raises: DataError: there is no text."""
    if not text.strip():
        raise DataError("it holds no text")
    return Document(text, (DocumentPart(0, line=1),), verbatim=True)
