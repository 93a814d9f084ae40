"""Docstring and code pairs extracted from Python source.

    def area(r):                          docstring   The area of a circle.
        \"\"\"The area of a circle.\"\"\"
        return pi * r * r                 code        def area(r):
                                                          return pi * r * r

For code generation, docstring → code: as source and target of an encoder-decoder, or as prompt and continuation of a
decoder. The source is parsed, never run; its comments and layout stay.
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

MAX_REPORTED = 5  # files that are left out, each with a warning of its own

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def docstring_pairs(source: str, name: str = "the source") -> Iterator[dict[str, str]]:
    """Extract (docstring, code) from every function and method that has a docstring and a body.

    Args:
        source: the text of a Python file
        name: what to call it in messages and in `where`.
    Returns: rows, in the order of the file: `docstring`, without its indentation · `code`, the whole definition without
        its docstring · `name`, `Class.method` · `where`, "file: line 3".
    Raises: DataError: a syntax error, with the line.
    """
    try:
        with warnings.catch_warnings():  # invalid escapes such as "\\d" are not our concern here
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        where = name if error.lineno is None else f"{name}: line {error.lineno}"
        raise DataError(f"{where}: is not valid Python: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # null bytes, surrogates, brackets nested without end
        raise DataError(f"{name}: is not valid Python: {error}") from error
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


def docstring_rows(files: Iterable[str | Path] | str | Path) -> Iterator[dict[str, str]]:
    """The pairs of a file, or of many; a folder stands for all Python files below it, in the order of their names.

    Files that are not valid Python are left out with a warning, and counted at the end.

    Raises: DataError: a file of `files` that cannot be opened.
    """
    total = left_out = 0
    for entry in map(Path, [files] if isinstance(files, (str, Path)) else files):
        for path in sorted(entry.rglob("*.py")) if entry.is_dir() else [entry]:
            total += 1
            try:
                with tokenize.open(path) as file:  # in the encoding that it declares
                    source = file.read()
                pairs = list(docstring_pairs(source, str(path)))
            except (OSError, SyntaxError, UnicodeDecodeError, DataError) as error:
                problem = str(error) if isinstance(error, DataError) else f"{path}: cannot be read as Python: {error}"
                if isinstance(error, OSError) and path is entry:
                    raise DataError(problem) from error
                left_out += 1
                if left_out <= MAX_REPORTED:
                    warnings.warn(f"left out: {problem}", stacklevel=2)
            else:
                yield from pairs
    if left_out:
        warnings.warn(f"{left_out:,} of {total:,} files are not valid Python and were left out", stacklevel=2)


def _definitions(tree: ast.AST, parents: tuple[str, ...] = ()) -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        path = (*parents, node.name) if isinstance(node, (Definition, ast.ClassDef)) else parents
        if isinstance(node, Definition):
            yield ".".join(path), node
        if not isinstance(node, ast.expr):
            yield from _definitions(node, path)


def _without_docstring(lines: list[bytes], node: Definition) -> str:
    """The text of a definition, from its first decorator to its end; `ast` columns count UTF-8 bytes."""
    docstring, statement = node.body[0], node.body[1]
    assert docstring.end_lineno is not None and docstring.end_col_offset is not None and node.end_lineno is not None
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    text = {number: lines[number - 1] for number in range(first, node.end_lineno + 1)}
    head, tail = (
        text[docstring.lineno][: docstring.col_offset],
        text[docstring.end_lineno][docstring.end_col_offset :],
    )
    for number in range(docstring.lineno, docstring.end_lineno + 1):
        del text[number]
    if tail.lstrip().startswith(b";"):  # """Docstring."""; return 1
        text[statement.lineno] = head + lines[statement.lineno - 1][statement.col_offset :]
    margin, strings = lines[node.lineno - 1][: node.col_offset], _string_lines(node)
    return b"".join(
        line if number in strings else line.removeprefix(margin) for number, line in sorted(text.items())
    ).decode()


def _string_lines(node: Definition) -> set[int]:
    """The lines that begin within a string, whose indentation is part of it."""
    return {
        number
        for part in ast.walk(node)
        if isinstance(part, (ast.Constant, ast.JoinedStr)) and part.end_lineno is not None
        for number in range(part.lineno + 1, part.end_lineno + 1)
    }
