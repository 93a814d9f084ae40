"""docs/modules.md and the packages in docs/architecture.md, from the first sentences of modules.

`python -m tests.project.module_list` writes both again.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "glassformer"
MODULES, ARCHITECTURE = ROOT / "docs" / "modules.md", ROOT / "docs" / "architecture.md"
TOP = "glassformer"
BEGIN, END = "<!-- packages -->\n", "<!-- end of packages -->"
INTRODUCTION = """# Every module

What is in which file, package by package, in alphabetical order: the first sentence of each module. Which package may
import which, and why, is in [How it is built](architecture.md). The first lines of a package's `__init__.py` say where
to begin to read. `python -m tests.project.module_list` writes this page.

"""


def first_sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).rstrip(":").replace("|", "\\|").replace("](", "] (")


def packages() -> list[Path]:
    """The folders with an `__init__.py`, the top one first."""
    return sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def package_name(folder: Path) -> str:
    return folder.relative_to(SOURCE).as_posix() if folder != SOURCE else TOP


def modules_page() -> str:
    parts = [INTRODUCTION]
    for folder in packages():
        parts.append(f"## {package_name(folder)}\n\n{first_sentence(folder / '__init__.py')}\n\n")
        rows = [
            f"| [{path.name}]({'../' + path.relative_to(ROOT).as_posix()}) | {first_sentence(path)} |\n"
            for path in sorted(folder.glob("*.py"))
            if path.name != "__init__.py"
        ]
        parts += ["| module | |\n| --- | --- |\n", *rows, "\n"] if rows else []
    return "".join(parts).rstrip("\n") + "\n"


def packages_table() -> str:
    """A row for each package of the first level; further ones are named with it."""
    rows = ["| package | what it holds |\n| --- | --- |\n"]
    for folder in packages()[1:]:
        if folder.parent == SOURCE:
            inner = [path.name for path in packages() if path.parent == folder]
            more = f" Within it: {', '.join(f'`{name}`' for name in inner)}." if inner else ""
            name = package_name(folder)
            rows.append(f"| [`{name}`](modules.md#{name}) | {first_sentence(folder / '__init__.py')}{more} |\n")
    return "".join(rows)


def architecture_page(text: str) -> str:
    """The page with the table in the place of its own."""
    start = text.index(BEGIN) + len(BEGIN)
    return text[:start] + "\n" + packages_table() + "\n" + text[text.index(END, start) :]


if __name__ == "__main__":
    MODULES.write_text(modules_page(), "utf-8")
    ARCHITECTURE.write_text(architecture_page(ARCHITECTURE.read_text("utf-8")), "utf-8")
