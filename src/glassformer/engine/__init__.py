"""Running a network fast without changing what it is: packed rows, token budgets, prepared weights."""
