"""The files of examples/clients run unchanged."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clients

FOLDER = Path(__file__).parents[2] / "examples" / "clients"
OTHER_ARGUMENTS = {"peft_adapters"}
"""It takes a folder of adapters: tests/compression has its lines."""


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in OTHER_ARGUMENTS))
def test_runs(name: str, minilm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sys, "argv", [name, str(minilm)])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()
