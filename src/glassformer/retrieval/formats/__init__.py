"""Document formats: from a file to its text, parts and pages."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import DataError
from glassformer.files import read_bytes
from glassformer.retrieval.document import Document
from glassformer.retrieval.formats.encoding import decode
from glassformer.retrieval.formats.text import plain_text
from glassformer.retrieval.options import DocumentOptions


def read_document(path: Path, options: DocumentOptions | None = None) -> Document:
    """The text of a file. Raises: DataError: why it cannot be read, in a sentence."""
    options = options or DocumentOptions()
    data = read_bytes(path, DataError, options.max_bytes)
    return plain_text(decode(data))
