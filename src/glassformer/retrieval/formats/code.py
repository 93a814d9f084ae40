"""Source code: a part for each function, class and method, with the comments above it.

    import os                       part ()
    class Tower:                    part ("Tower",)
        def grow(self): …           part ("Tower", "grow")
    # The whole program.
    def main(): …                   part ("main",)

Python is read by its own parser. Of other languages the lines that declare something are known by their key words, and
what is within what by their indentation, as programs are usually laid out.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from glassformer.retrieval.document import Document, DocumentPart

MAX_PARSED = 2_000_000
"""Characters of Python that are parsed: a syntax tree takes a hundred times as much memory."""
DEEPEST = 8
"""Columns of indentation up to which a declaration begins a part: methods do, functions within them do not."""

_DECLARATION = re.compile(
    r"""^(?P<indent>[ \t]{0,8})
    (?:(?:export|default|public|private|protected|internal|static|async|abstract|final|inline|unsafe|extern|virtual
      |override|open|data|sealed|partial|readonly|declare|pub(?:\([^)\n]*\))?)[ ]+)*
    (?:def|class|function\*?|func|fun|fn|sub|struct|enum|union|interface|trait|impl|module|namespace|protocol|extension
      |object|record|defmodule|package)[ ]+
    (?:\([^)\n]{0,80}\)[ ]*)?          # the receiver of a method of Go
    (?P<name>[A-Za-z_$][\w.$:]*)""",
    re.VERBOSE | re.MULTILINE,
)
_ABOVE = re.compile(r"[ \t]*(?://|/\*|\*|#|--|@|\[)")
"""A line above a declaration that belongs to it: a comment, a decorator, an attribute."""


def code_document(text: str, *, python: bool = False) -> Document:
    """A document with a part for each declaration. Raises: DataError: there is no text."""
    lines = text.split("\n")
    parsed = _of_python(text) if python else None
    begins = list(_declared(text)) if parsed is None else parsed
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    parts = [DocumentPart(0, line=1)]
    for number, path in begins:
        first = _with_comments(lines, number, parts[-1].line - 1)
        if not text[parts[-1].start : starts[first]].strip():
            parts.pop()
        start = 0 if not parts else starts[first]
        parts.append(DocumentPart(start, path, first + 1 if parts else 1))
    return Document(text, tuple(parts), verbatim=True)


def _of_python(text: str) -> list[tuple[int, tuple[str, ...]]] | None:
    """The line, from 0, where each class and function begins, and the code around resumes; None = no Python."""
    if len(text) > MAX_PARSED or re.search(r"\r(?!\n)", text):  # whose lines the parser counts in another way
        return None
    try:
        with warnings.catch_warnings():  # of invalid escapes
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return list(_python_parts(tree, ()))


def _python_parts(node: ast.Module | ast.ClassDef, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    resumes = False
    for child in node.body:
        begin = min([child.lineno, *(x.lineno for x in getattr(child, "decorator_list", ()))]) - 1
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = (*path, child.name)
            yield begin, inner
            if isinstance(child, ast.ClassDef):
                yield from _python_parts(child, inner)
            resumes = True
        elif resumes:
            yield begin, path
            resumes = False


def _declared(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The lines that declare something by their key words, and the names around each by indentation."""
    path: list[tuple[int, str]] = []
    number, at = 0, 0
    for match in _DECLARATION.finditer(text):
        indent = len(match["indent"].expandtabs(4))
        if indent > DEEPEST:
            continue
        number += text.count("\n", at, match.start())
        at = match.start()
        path = [(column, name) for column, name in path if column < indent] + [(indent, match["name"])]
        yield number, tuple(name for _, name in path)


def _with_comments(lines: list[str], number: int, first: int) -> int:
    """The first line of a declaration, with the comments and attributes above it."""
    while number > first and _ABOVE.match(lines[number - 1]):
        number -= 1
    return number
