"""Budgets: a module has at most 350 lines, a function at most 50."""

from __future__ import annotations

import pytest

from tests.project.budgets import FUNCTION, MODULE, offenders


@pytest.mark.parametrize(("kind", "budget"), [("modules", MODULE), ("functions", FUNCTION)])
def test_nothing_grows_beyond_its_budget(kind: str, budget: int) -> None:
    longer = offenders()[kind]
    assert not longer, f"longer than {budget} lines: {longer}; split by one idea each, or call what is there already"
