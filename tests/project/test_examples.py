"""Every example is a configuration that a command takes, and stands in the list of results."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from glassformer.runs.config import parse_config
from glassformer.runs.folder import read_config
from glassformer.studies.study import parse_study

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read(path: Path) -> None:
    found = read_config(path)
    config = parse_study(found, None).base if "study" in found else parse_config(found)
    assert Path(config.output).name.removesuffix("-model") == path.stem
    command = "study" if "study" in found else "train"
    assert f"glassformer {command} examples/{path.name}" in path.read_text()
    assert f"| `{path.name}` |" in (ROOT / "docs" / "results.md").read_text()


def test_functions_to_learn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = runpy.run_path(str(ROOT / "examples" / "python_functions.py"))
    (tmp_path / "two.py").write_text(
        'def larger(a, b):\n    """Return the larger.\n\n    Of two."""\n    return max(a, b)\n'
    )
    (tmp_path / "wrong.py").write_text("def larger(\n")
    (text,) = script["functions"](tmp_path)
    assert text == "# Return the larger.\ndef larger(a, b):\n    return max(a, b)\n"
    assert script["head_of"](text) == "# Return the larger.\ndef larger(a, b):" and script["is_python"](text)
    assert not script["is_python"]("# Return the larger.\ndef larger(a, b):\n    return max(a,\n")
