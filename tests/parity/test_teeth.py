"""The comparison has teeth: any tensor that is swapped, lost or slightly changed makes it fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.parity.families import DISTINCT, Row
from tests.parity.inputs import draw_inputs
from tests.parity.sides import Folders, load_ours, load_theirs, perturb


def tampered(folder: Path, copy: Path, change: dict[str, Tensor]) -> Path:
    shutil.copytree(folder, copy)
    save_file({**load_file(folder / "model.safetensors"), **change}, copy / "model.safetensors", {"format": "pt"})
    return copy


@pytest.mark.parametrize("row", DISTINCT, ids=lambda row: row.family)
@torch.no_grad()
def test_every_tensor_counts(folders: Folders, row: Row) -> None:
    """Change one number of one tensor of the file by a hundredth: the logits move by more than the tolerance.

    Where they are read off one token of many, by a tenth.
    """
    folder = folders(row, row.main)
    ours = load_ours(folder, torch.float64)
    inputs = draw_inputs(ours.config, "none", tokens=30)
    before = ours(**inputs.ours)[row.logits]
    step = 0.01 if before.dim() == 3 else 0.1
    ids = [inputs.ours[name] for name in ("input_ids", "decoder_input_ids") if name in inputs.ours]
    read = ids[0].flatten().tolist() if ids else [0]
    for name, parameter in ours.named_parameters():
        if name in row.untrained - {"head.constant.values"}:
            continue  # this head, or another, does not read it
        place = (min(read), 0) if name.endswith("embed.tokens.weight") else (0,) * parameter.dim()
        if name.endswith("embed.positions.weight"):
            place = (parameter.shape[0] // 2, 0)  # the first rows are nobody's where positions have an offset
        if name.endswith(("qkv.bias", "kv.bias")):
            place = (parameter.shape[0] - 1,)  # of v; a shift of all keys alike changes no softmax
        parameter[place] += step
        assert (ours(**inputs.ours)[row.logits] - before).abs().max() > 1e-5, f"{name} does not count"
        parameter[place] -= step


@pytest.mark.parametrize("row", DISTINCT, ids=lambda row: row.family)
@torch.no_grad()
def test_two_norms_swapped(folders: Folders, row: Row, tmp_path: Path) -> None:
    folder = folders(row, row.main)
    tensors = load_file(folder / "model.safetensors")
    names = [name for name in tensors if any(part in name.lower() for part in ("norm", "ln_"))]
    gains = [name for name in names if name.endswith("weight")]
    assert len(gains) >= 4
    one = gains[0]
    other = next(name for name in gains[1:] if tensors[name].shape == tensors[one].shape)
    swapped = tampered(folder, tmp_path / "swapped", {one: tensors[other].clone(), other: tensors[one].clone()})
    inputs = draw_inputs(load_ours(folder).config, "none")
    expected = load_theirs(folder, row)(**inputs.theirs)[row.logits]
    assert torch.allclose(load_ours(folder)(**inputs.ours)[row.logits], expected, atol=1e-5, rtol=1e-5)
    assert (load_ours(swapped)(**inputs.ours)[row.logits] - expected).abs().max() > 1e-2


def test_perturbation_moves_every_number() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    before = [parameter.clone() for parameter in model.parameters()]
    perturb(model)
    assert all((new != old).all() for new, old in zip(model.parameters(), before, strict=True))
