"""SQuAD files: extractive question answering, a row for each question.

    {"data": [{"paragraphs": [{"context": "…", "qas": [{"id": "56be", "question": "…", "answers": […]}]}]}]}

    row        {"id": "56be", "question": "…", "context": "…", "answers": [{"text": "6000 hours", "answer_start": 9}]}

Source: Rajpurkar et al. 2016; unanswerable questions, of version 2: Rajpurkar et al. 2018.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glassformer.data.json_rows import parse_json
from glassformer.data.lines import READ_ERRORS, open_decompressed
from glassformer.data.sequence import ColumnNames, Row, RowSequence, RowSource
from glassformer.data.views import ColumnSubset
from glassformer.errors import DataError
from glassformer.files import error_reason, safe_repr

_BEGINNING = re.compile(rb'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[\s*\{\s*"(title|paragraphs)"\s*:')


def is_squad(path: Path) -> bool:
    """Whether a JSON file begins as SQuAD files do: {"data": [{"title": …, or {"data": [{"paragraphs": …"""
    try:
        with open_decompressed(path) as stream:
            return _BEGINNING.match(stream.read(1000).removeprefix(codecs.BOM_UTF8)) is not None
    except READ_ERRORS:
        return False  # reading it says what is wrong


class SquadFile(RowSource):
    """A SQuAD file as a source of rows."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        rows = read_squad(self._path)
        return rows if columns is None else ColumnSubset(rows, columns)


class SquadRows(RowSequence):
    """The questions of a SQuAD file, in its order; see `read_squad`."""

    columns = ("id", "question", "context", "answers")

    def __init__(self, name: str, rows: list[Row], fingerprint: str) -> None:
        self.name, self._rows, self.fingerprint = name, rows, fingerprint
        self.kinds = {column: "a list" if column == "answers" else "a text" for column in self.columns}

    def row(self, index: int) -> Row:
        return dict(self._rows[index])

    def where(self, index: int) -> str:
        return f"{self.name}: question {self._rows[index]['id']}"

    def __len__(self) -> int:
        return len(self._rows)


def read_squad(path: str | Path) -> SquadRows:
    """Read a SQuAD file, version 1 or 2, also compressed (.gz).

    Raises: DataError: the file cannot be read, is not a SQuAD file, or holds no question.
    """
    path = Path(path)
    try:
        with open_decompressed(path) as stream:
            data = stream.read()
    except READ_ERRORS as problem:
        raise DataError(f"{path}: cannot be read: {error_reason(problem)}") from problem
    try:
        document = parse_json(data.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise DataError(f"{path}: line {line} is not UTF-8 text; save the file as UTF-8") from problem
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{path}: is not valid JSON: {problem}") from problem
    rows = list(_questions(path, document))
    if not rows:
        raise DataError(f"{path}: holds no question")
    return SquadRows(str(path), rows, hashlib.sha256(data).hexdigest())


def _questions(path: Path, document: Any) -> Iterator[Row]:
    for article in _field(path, document, "data", "the file"):
        for paragraph in _field(path, article, "paragraphs", "an article"):
            for question in _field(path, paragraph, "qas", "a paragraph"):
                question_id = _field(path, question, "id", "a question", str)
                label = f"the question {safe_repr(question_id)}"
                yield {
                    "id": question_id,
                    "question": _field(path, question, "question", label, str),
                    "context": _field(path, paragraph, "context", "a paragraph", str),
                    "answers": _field(path, question, "answers", label),
                }


def _field(path: Path, holder: Any, key: str, what: str, type_: type = list) -> Any:
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, type_):
        raise DataError(
            f"{path}: {what} has no {'text' if type_ is str else 'list'} {key!r}; got {safe_repr(value)}; "
            "a SQuAD file is data > paragraphs > qas > answers"
        )
    return value
