"""The sizes of modules and functions that are over their budget."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "glassformer"
SOURCES = (SOURCE, *sorted((ROOT / "plugins").glob("*/src/*")))
"""The package, and the plug-ins that are made here."""
MODULE, FUNCTION = 500, 60


def trees(*folders: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Each module below some folders, and its tree; one at a time: all together they would take a minute of garbage
    collection."""
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        yield file, ast.parse(file.read_text(encoding="utf-8"))


def docstring_lines(tree: ast.Module) -> set[int]:
    """Numbers of the lines that docstrings of the module, its classes and its functions take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def lines_of_code(text: str, tree: ast.Module | None = None) -> int:
    """Lines that are neither blank, nor a comment, nor part of a docstring; `tree` is that of the text."""
    documentation = docstring_lines(tree or ast.parse(text))
    return sum(
        number not in documentation and line.strip() != "" and not line.strip().startswith("#")
        for number, line in enumerate(text.split("\n"), 1)
    )


@cache
def offenders() -> dict[str, dict[str, int]]:
    """Modules over their budget → lines of code; functions over theirs → lines.

    A function's key is `path: name`, that of a nested one `path: outer.name`.
    """
    modules: dict[str, int] = {}
    functions: dict[str, int] = {}

    def visit(node: ast.AST, path: str, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = inside
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{inside}.{child.name}" if inside else child.name
                lines = (child.end_lineno or 0) - child.lineno + 1
                if not isinstance(child, ast.ClassDef) and lines > FUNCTION:
                    functions[f"{path}: {name}"] = lines
            visit(child, path, name)

    for file, tree in trees(*SOURCES):
        path = file.relative_to(SOURCE if file.is_relative_to(SOURCE) else ROOT).as_posix()
        if (code := lines_of_code(file.read_text(encoding="utf-8"), tree)) > MODULE:
            modules[path] = code
        visit(tree, path, "")
    return {"modules": modules, "functions": functions}
