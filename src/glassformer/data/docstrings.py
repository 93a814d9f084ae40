"""Python source → (docstring, code): what a function says it does, and how it does it.

    def area(r):                          docstring   The area of a circle.
        \"\"\"The area of a circle.\"\"\"
        return pi * r * r                 code        def area(r):
                                                          return pi * r * r

To learn code from words, docstring → code: as source and target of an encoder-decoder, or as prompt and answer of a
decoder. The source is read, never run. Its comments and layout stay.
"""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.errors import DataError

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?")

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def docstring_pairs(source: str, name: str = "the source") -> Iterator[dict[str, str]]:
    """Every function and method of a source that has a docstring and does something.

    Args:
        source: the text of a Python file · name: what to call it in messages and in `where`.
    Returns: rows, in the order of the file: `docstring`, without its indentation · `code`, the whole definition without
        its docstring · `name`, `Class.method` · `where`, "file: line 3".
    Raises: DataError: this is no Python, with the line.
    """
    try:
        with warnings.catch_warnings():  # of escapes such as "\\d", which are the source's own affair
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        raise DataError(f"{name}: line {error.lineno}: is not Python: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # null bytes, surrogates, brackets nested without end
        raise DataError(f"{name}: is not Python: {error}") from error
    lines = _LINE.findall(source.encode())
    for path, node in _definitions(tree):
        docstring = ast.get_docstring(node)
        if docstring and len(node.body) > 1:
            yield {
                "docstring": docstring,
                "code": _without_docstring(lines, node),
                "name": path,
                "where": f"{name}: line {node.lineno}",
            }


def docstring_rows(files: Iterable[str | Path]) -> Iterator[dict[str, str]]:
    """The pairs of many files, of which folders stand for all Python files below them, in order of their names.

    Raises: DataError: a file that cannot be read or is no Python, by name.
    """
    for given in map(Path, files):
        for path in sorted(given.rglob("*.py")) if given.is_dir() else [given]:
            try:
                with tokenize.open(path) as file:  # in the encoding that it declares
                    source = file.read()
            except (OSError, SyntaxError, UnicodeDecodeError) as error:
                raise DataError(f"{path}: cannot be read as Python: {error}") from error
            yield from docstring_pairs(source, str(path))


def _definitions(tree: ast.AST, above: tuple[str, ...] = ()) -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        path = (*above, node.name) if isinstance(node, (Definition, ast.ClassDef)) else above
        if isinstance(node, Definition):
            yield ".".join(path), node
        if not isinstance(node, ast.expr):
            yield from _definitions(node, path)


def _without_docstring(lines: list[bytes], node: Definition) -> str:
    """The text of a definition, from its first decorator to its end; columns of the tree count bytes of UTF-8."""
    said, then = node.body[0], node.body[1]
    assert said.end_lineno is not None and said.end_col_offset is not None and node.end_lineno is not None
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    text = {number: lines[number - 1] for number in range(first, node.end_lineno + 1)}
    head, tail = text[said.lineno][: said.col_offset], text[said.end_lineno][said.end_col_offset :]
    for number in range(said.lineno, said.end_lineno + 1):
        del text[number]
    if tail.lstrip().startswith(b";"):  # """It says."""; return 1
        text[then.lineno] = head + lines[then.lineno - 1][then.col_offset :]
    margin, strings = lines[node.lineno - 1][: node.col_offset], _string_lines(node)
    return b"".join(
        line if number in strings else line.removeprefix(margin) for number, line in sorted(text.items())
    ).decode()


def _string_lines(node: Definition) -> set[int]:
    """The lines that begin within a string: what looks like a margin there belongs to it."""
    return {
        number
        for part in ast.walk(node)
        if isinstance(part, (ast.Constant, ast.JoinedStr)) and part.end_lineno is not None
        for number in range(part.lineno + 1, part.end_lineno + 1)
    }
