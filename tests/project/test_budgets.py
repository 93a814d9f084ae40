"""Budgets: a module has at most 500 lines of code, a function at most 60 lines."""

from __future__ import annotations

import pytest

from tests.project.budgets import FUNCTION, MODULE, lines_of_code, offenders


@pytest.mark.parametrize(("kind", "budget"), [("modules", MODULE), ("functions", FUNCTION)])
def test_nothing_grows_beyond_its_budget(kind: str, budget: int) -> None:
    longer = offenders()[kind]
    assert not longer, f"longer than {budget} lines: {longer}; split by one idea each, or call what is there already"


def test_documentation_is_no_code() -> None:
    """A module is never cut because it explains itself."""
    assert lines_of_code('"""One.\n\nTwo."""\n\n# why\nx = 1\ndef f():\n    """What."""\n    return 2\n') == 3
