"""The comparison of notebook cells in benchmarks/notebooks.py tells equal from different, and whose error it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.project.test_benchmarks import ROOT


@pytest.fixture
def notebooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import notebooks

    return notebooks


def test_cells_are_read_from_notebooks_and_from_markdown(notebooks: ModuleType, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": ["a = 1\n", "a"]}, {"cell_type": "markdown", "source": ["text"]}]
    (tmp_path / "one.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "two.md").write_text("Text.\n```py\n>>> a = [\n...     1]\n```\n```bash\nls\n```\n")
    assert notebooks.cells_of(tmp_path / "one.ipynb") == ["a = 1\na"]
    assert notebooks.cells_of(tmp_path / "two.md") == ["a = [\n    1]\n"]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import transformers", "import glassformer.hf as transformers"),
        ("from transformers.trainer_utils import x", "from glassformer.hf.trainer_utils import x"),
        ("import transformers as t", "import glassformer.hf as t"),
        ("from sentence_transformers import x", "from sentence_transformers import x"),
    ],
)
def test_the_import_names_glassformer(notebooks: ModuleType, code: str, wanted: str) -> None:
    assert notebooks.adapted(code, "glassformer.hf") == wanted
    assert notebooks.adapted(code, "transformers") == code


def judged(notebooks: ModuleType, ours: str, theirs: str, failed: bool = False, **scope: Any) -> str:
    results = [json.loads(json.dumps(notebooks.run_cell(code, dict(scope), 60))) for code in (ours, theirs)]
    kind, wrong = notebooks.judge(*results, failed)
    assert bool(wrong) is (kind != "equal")
    return str(kind)


def test_values_variables_and_texts_are_compared_at_1e_4(notebooks: ModuleType) -> None:
    one = torch.ones(2)
    assert judged(notebooks, "a = {'x': one}", "a = {'x': one + 5e-5}", one=one) == "equal"
    assert judged(notebooks, "a = {'x': one}", "a = {'x': one + 1e-3}", one=one) == "different"
    assert judged(notebooks, "one[:, None]", "one", one=one) == "different"
    assert judged(notebooks, "print(0.50001, 7)", "print(0.50002, 7)") == "equal"
    assert judged(notebooks, "print(10000)", "print(10001)") == "different"
    assert judged(notebooks, "'a'", "'b'") == "different"
    assert judged(notebooks, "None", "[]") == "different"
    assert judged(notebooks, "object", "list") == "different"


def test_an_error_is_refused_bare_or_follows_another(notebooks: ModuleType) -> None:
    refused = "from glassformer.errors import DataError\nraise DataError('no')"
    assert judged(notebooks, refused, "1") == "refused"
    assert judged(notebooks, "1 / 0", "1") == "bare"
    assert judged(notebooks, "missing", "1") == "bare"
    assert judged(notebooks, "missing", "1", failed=True) == "follows"
