"""The sizes of modules and functions that are over their budget."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "glassformer"
MODULE, FUNCTION = 350, 50


def offenders() -> dict[str, dict[str, int]]:
    """Modules and functions over their budget → lines; a function's key is `path: name`, nested ones by both names."""
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

    for file in sorted(SOURCE.rglob("*.py")):
        path, text = file.relative_to(SOURCE).as_posix(), file.read_text(encoding="utf-8")
        if text.count("\n") > MODULE:
            modules[path] = text.count("\n")
        visit(ast.parse(text), path, "")
    return {"modules": modules, "functions": functions}
