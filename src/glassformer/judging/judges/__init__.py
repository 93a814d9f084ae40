"""How each task is judged: one module a task."""
