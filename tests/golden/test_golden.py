"""The reference library's numbers, written down: parity keeps its teeth where that library is not installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.core.flow import Tape
from tests.golden.closed_form import FOLDER, inputs, write_folder

FILES = sorted(FOLDER.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("explicit", [True, False], ids=["explicit", "fused"])
@torch.no_grad()
def test_golden_numbers(path: Path, explicit: bool, tmp_path: Path) -> None:
    golden = read(path)
    config = write_folder(golden["family"], golden["task"], tmp_path)
    wide = "within" in golden  # made in fp64; the others were made in fp32
    within, dtype = (golden["within"], torch.float64) if wide else (1e-5, torch.float32)
    model = glassformer.load(tmp_path, strict=True, dtype=dtype)
    asked = [tap for tap in golden["taps"] if explicit or not tap.endswith("probs")]
    taps = model(**inputs(config), tape=Tape(*asked)).taps
    for tap in asked:
        row = taps[tap][0].reshape(-1, taps[tap].shape[-1])[-1]
        if tap.endswith("probs"):
            row = taps[tap][0, 1, -1]
        expected = torch.tensor(golden["taps"][tap], dtype=dtype)
        torch.testing.assert_close(
            row[: len(expected)], expected, atol=within, rtol=within, msg=lambda m, t=tap: f"{t}: {m}"
        )


def test_every_family_with_a_reference_has_a_golden_file() -> None:
    from glassformer.models import FAMILIES

    assert {path.stem for path in FILES} == set(FAMILIES) - {"transformer"}


def test_golden_numbers_are_not_all_alike() -> None:
    for path in FILES:
        golden = read(path)
        for tap, values in golden["taps"].items():
            assert torch.tensor(values).std() > 5e-4, (path.name, tap)
