"""The list of modules in the docs is that of the package, and each module has a first sentence to be listed by."""

from __future__ import annotations

from tests.project.module_list import (
    ARCHITECTURE,
    MODULES,
    SOURCE,
    architecture_page,
    first_sentence,
    modules_page,
)

RENEW = "run: python -m tests.project.module_list"


def test_the_docs_list_every_module() -> None:
    assert MODULES.read_text("utf-8") == modules_page(), RENEW
    text = ARCHITECTURE.read_text("utf-8")
    assert architecture_page(text) == text, RENEW


def test_every_module_begins_with_a_sentence() -> None:
    without = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if not first_sentence(path)]
    assert not without, f"modules without a docstring: {without}"
    long = [path.name for path in SOURCE.rglob("*.py") if len(first_sentence(path)) > 120]
    assert not long, f"the first sentence is a line: {long}"
