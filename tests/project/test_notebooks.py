"""The notebooks of examples/: each cell runs, and shows what is stored."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.project.forked import run_forked
from tests.project.notebook_outputs import link_minilm

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
RUN = """
import json, sys
sys.path.insert(0, {root!r})
from tests.project.notebook_outputs import run_cells
outputs = run_cells({cells!r})
with open({made!r}, "w") as file:
    json.dump(outputs, file)
"""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def code_of(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def test_there_are_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["attention", "embeddings", "encoder", "guitar"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_run_and_show_what_is_stored(
    path: Path, minilm: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link_minilm(tmp_path, minilm)
    folder = tmp_path_factory.mktemp("notebook")
    log, made = folder / "log", folder / "outputs.json"
    source = RUN.format(root=str(ROOT), cells=code_of(path), made=str(made))
    status = run_forked(source, tmp_path, log)
    printed = log.read_text(errors="replace")
    assert status == 0, printed[-3000:]
    assert "Traceback" not in printed and "token=" not in printed, printed[-3000:]
    cells = [cell["outputs"] for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    again = "make notebooks stores what cells show now"
    for now, stored in zip(json.loads(made.read_text()), cells, strict=True):
        assert [contents(x).keys() for x in now] == [contents(x).keys() for x in stored], again
        for one, other in zip(map(contents, now), map(contents, stored), strict=True):
            for kind in one:
                assert alike(one[kind], other[kind], drawing="svg" in kind), f"{one[kind]}\n{again}"


def contents(output: dict[str, Any]) -> dict[str, str]:
    """MIME type, or stdout, → content of an output."""
    contents: dict[str, str] = output.get("data") or {output["name"]: output["text"]}
    return contents


def alike(one: str, other: str, *, drawing: bool) -> bool:
    """The same words, and numbers that differ by no more than processors do; of drawings the same words alone."""
    if drawing:
        words = [[x for x in re.findall(r">([^<]*)</text>", text) if not NUMBER.fullmatch(x)] for text in (one, other)]
        return words[0] == words[1]
    if NUMBER.split(one) != NUMBER.split(other):
        return False
    numbers = [[*map(float, NUMBER.findall(text))] for text in (one, other)]
    return numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.02)


def test_outputs_that_differ_are_told_from_those_that_do_not() -> None:
    assert alike("flies 0.901, 3e-9", "flies 0.9, 1e-10", drawing=False)
    assert not alike("flies 0.9", "flies 0.8", drawing=False) and not alike("flies 0.9", "time 0.9", drawing=False)
    drawn = '<rect x="{}"/><text>{}</text><text>0.{}</text>'
    assert alike(drawn.format(1, "flies", 90), drawn.format(2, "flies", 91), drawing=True)
    assert not alike(drawn.format(1, "flies", 90), drawn.format(1, "time", 90), drawing=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored_is_small_and_of_no_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    assert sum(bool(cell["outputs"]) for cell in cells) > len(cells) / 2
    assert len(text.encode()) < 100_000
    kinds = {kind for cell in cells for x in cell["outputs"] for kind in contents(x)}
    assert kinds <= {"stdout", "text/plain", "text/html", "image/svg+xml"} and "image/svg+xml" in kinds
    assert not re.search(r"token=|<script|data:|/(home|root|tmp|work)/| at 0x", text)
