"""Shape annotations are true: small networks run with every annotation of the core checked, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_right_shapes_pass_and_wrong_ones_are_caught() -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.shapes_program"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert {"embedding", "cross-attention", "stack: bucketed", "head: span"} <= set(results)
    wrong = "\n\n".join(f"{name}: {what}" for name, what in results.items() if what)
    assert not wrong, wrong
