"""The notebooks of examples/: each cell runs, shows what it ends with, and no output is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project.forked import run_forked

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
RUN = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.kernel = object()  # as in a notebook
for number, cell in enumerate({cells!r}, 1):
    done = shell.run_cell(cell)
    assert done.success, f"cell {{number}} failed"
"""


def code_of(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def test_there_are_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["attention", "embeddings", "encoder", "guitar"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_run(path: Path, minilm: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    link = tmp_path / "sentence-transformers" / "all-MiniLM-L6-v2"
    link.parent.mkdir()
    link.symlink_to(minilm)
    log = tmp_path_factory.mktemp("notebook") / "log"
    status = run_forked(RUN.format(cells=code_of(path)), tmp_path, log)
    printed = log.read_text(errors="replace")
    assert status == 0, printed[-3000:]
    assert "Traceback" not in printed and "token=" not in printed, printed[-3000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_stored(path: Path) -> None:
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    assert cells and not [cell for cell in cells if cell["outputs"] or cell["execution_count"] is not None]
    assert path.stat().st_size < 10_000
