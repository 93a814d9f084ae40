"""Budgets: a module has at most 350 lines, a function at most 50; today's offenders are listed, and may only shrink.

The lists are in `budgets.json`. After shortening one of them: `python -m tests.project.budgets`, which writes no number
that is larger than before.
"""

from __future__ import annotations

import pytest

from tests.project.budgets import FUNCTION, MODULE, offenders, recorded


@pytest.mark.parametrize(("kind", "budget"), [("modules", MODULE), ("functions", FUNCTION)])
def test_nothing_grows_beyond_its_budget(kind: str, budget: int) -> None:
    now, allowed = offenders()[kind], recorded()[kind]
    new = {name: lines for name, lines in now.items() if name not in allowed}
    assert not new, (
        f"longer than {budget} lines: {new}; split by one idea each, or call what is there already"
    )
    grown = {name: (allowed[name], lines) for name, lines in now.items() if lines > allowed[name]}
    assert not grown, f"over the budget of {budget} lines, and longer than before (before, now): {grown}"


@pytest.mark.parametrize("kind", ["modules", "functions"])
def test_the_list_of_offenders_shrinks(kind: str) -> None:
    """Who is shortened leaves the list, or stands in it with the new length: nobody grows back."""
    now, allowed = offenders()[kind], recorded()[kind]
    better = {name: (lines, now.get(name)) for name, lines in allowed.items() if now.get(name, 0) < lines}
    assert not better, (
        f"shorter than recorded (recorded, now): {better}; run: python -m tests.project.budgets"
    )
