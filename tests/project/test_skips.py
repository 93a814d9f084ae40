"""A skip says why, and the run lists the reasons: a skipped test must not look like a passed one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_pytest(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)


def test_a_skip_without_a_reason_fails(tmp_path: Path) -> None:
    source = "import pytest\n\ndef test_one():\n    pytest.skip()\n\n@pytest.mark.skip\ndef test_two():\n    pass\n"
    done = run_pytest(tmp_path, source)
    assert done.returncode == 1
    assert done.stdout.count("is skipped without a reason") >= 2
    assert "1 failed, 1 error" in done.stdout.splitlines()[-1]  # in the test itself, and before it


def test_reasons_are_listed_and_counted(tmp_path: Path) -> None:
    source = (
        "import pytest\n\n"
        "@pytest.mark.parametrize('i', range(3))\ndef test_one(i):\n    pytest.skip('no accelerator')\n"
    )
    done = run_pytest(tmp_path, source)
    assert done.returncode == 0
    assert "   3  no accelerator" in done.stdout
    assert "3 skipped" in done.stdout.splitlines()[-1]
