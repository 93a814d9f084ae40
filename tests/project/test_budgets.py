"""Budgets: a module has at most 500 lines of code, that of a command 120, a function at most 60 lines."""

from __future__ import annotations

import ast
import re

import pytest

from tests.project.budgets import FUNCTION, MODULE, SOURCE, SOURCES, lines_of_code, offenders, trees

COMMAND = 120
SHARED = frozenset("app options screen".split())
"""What commands have in common."""


@pytest.mark.parametrize(("kind", "budget"), [("modules", MODULE), ("functions", FUNCTION)])
def test_nothing_grows_beyond_its_budget(kind: str, budget: int) -> None:
    longer = offenders()[kind]
    assert not longer, f"longer than {budget} lines: {longer}; split by one idea each, or call what is there already"


def test_a_command_loads_calls_one_function_and_shows() -> None:
    modules = {file.stem: lines_of_code(file.read_text(encoding="utf-8")) for file in (SOURCE / "cli").glob("*.py")}
    assert modules.keys() >= SHARED | {"train", "evaluate"}
    longer = {name: lines for name, lines in modules.items() if lines > COMMAND and name not in SHARED}
    assert not longer, f"longer than {COMMAND} lines: {longer}; what Python users need too belongs to the library"


def test_html_is_written_in_reports_alone() -> None:
    """Elsewhere a page is a report, or made of `page.element` and `picture.image`."""
    files = [
        file
        for file in SOURCE.rglob("*.py")
        if re.search(r"<(svg|style|table|script|details)\b|polyline", file.read_text("utf-8"))
    ]
    others = [str(file.relative_to(SOURCE)) for file in files if file.parent.name != "reports"]
    assert files and not others


def test_one_helper_tells_numbers_from_booleans() -> None:
    """`files.is_int` and `is_number`, or a schema; what is left are paths of each token, and flags."""
    guards = [
        file
        for file, tree in trees(*SOURCES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if ast.unparse(node.args[1]) == "bool"
    ]
    assert any("glassformer_guitar" in file.parts for source in SOURCES for file in source.rglob("*.py"))
    assert 0 < len(guards) < 20


@pytest.mark.parametrize(
    ("name", "package", "most"), [("to_dict", "", 12), ("_repr_html_", "", 2), ("_show", "cli", 15)]
)
def test_what_a_report_derives_is_not_written_again(name: str, package: str, most: int) -> None:
    """JSON, notebooks and the terminal show a `Report` by its fields and tables."""
    defined = [
        node.name
        for _, tree in trees(SOURCE / package)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert 0 < sum(each == name or (package == "cli" and each.startswith(name)) for each in defined) <= most


def test_nothing_has_a_former_name() -> None:
    """Nothing was released under another."""
    files = [file for source in SOURCES for file in source.rglob("*.py")]
    named = [file.name for file in files if re.search(r"\bformer|deprecat", file.read_text("utf-8"), re.I)]
    assert files and not named


def test_documentation_is_no_code() -> None:
    """A module is never cut because it explains itself."""
    assert lines_of_code('"""One.\n\nTwo."""\n\n# why\nx = 1\ndef f():\n    """What."""\n    return 2\n') == 3
