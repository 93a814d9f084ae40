"""The sizes of modules and functions that are over their budget; `python -m tests.project.budgets` records them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "glassformer"
RECORD = Path(__file__).with_name("budgets.json")
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


def recorded() -> dict[str, dict[str, int]]:
    """The offenders that are allowed, with the length that each may have at most."""
    found: dict[str, dict[str, int]] = json.loads(RECORD.read_text())
    return found


def main() -> None:
    before = recorded() if RECORD.exists() else {"modules": {}, "functions": {}}
    now = offenders()
    for kind, sizes in now.items():
        worse = [
            name for name, lines in sizes.items() if RECORD.exists() and lines > before[kind].get(name, 0)
        ]
        if worse:
            raise SystemExit(
                f"{kind} beyond their budget, or longer than before: {', '.join(worse)}; shorten them first"
            )
    RECORD.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
