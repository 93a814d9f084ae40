"""The names that benchmarks import from the package exist: they are run rarely, and names move."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_imported_names_exist(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassformer"):
            module = importlib.import_module(str(node.module))
            missing = [each.name for each in node.names if not hasattr(module, each.name)]
            for name in missing:  # a module of a package is an attribute once it is imported
                importlib.import_module(f"{node.module}.{name}")
