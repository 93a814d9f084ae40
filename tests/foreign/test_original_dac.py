"""DAC's original `.pth` files give the numbers of the model that they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer.errors import WeightsError
from glassformer.models.dac.names import original_names
from tests.models.test_dac import reference, waves

RATIOS = [2, 4, 5]


def original(theirs: Any) -> dict[str, Tensor]:
    """A reference codec as the original library writes it: layers numbered, weights normalised.

    The longer a direction, the less it means: gain and direction together are the weight.
    """
    old = {}
    for line in original_names(len(RATIOS)).splitlines():
        was, now = line.split()
        for leaf in ("", ".weight", ".bias"):
            if (tensor := theirs.state_dict().get(now + leaf)) is not None:
                old[was + leaf] = tensor
    old |= {name: x for name, x in theirs.state_dict().items() if name.startswith("quantizer")}
    assert len(old) == len(theirs.state_dict())
    for name in [name for name in old if name.endswith(".weight") and "codebook" not in name]:
        weight = old.pop(name)
        old[name + "_g"] = weight.flatten(1).norm(dim=1).reshape(-1, 1, 1)
        old[name + "_v"] = weight * torch.linspace(0.5, 3, weight.shape[0]).reshape(-1, 1, 1)
    return old


def write(path: Path, tensors: dict[str, Tensor], **kwargs: Any) -> Path:
    torch.save({"state_dict": tensors, "metadata": {"kwargs": {"encoder_rates": RATIOS, **kwargs}}}, path)
    return path


@torch.no_grad()
def test_an_original_file_is_the_model(tmp_path: Path) -> None:
    theirs = reference(downsampling_ratios=RATIOS)
    ours = glassformer.load(write(tmp_path / "weights.pth", original(theirs), sample_rate=24_000), strict=True)
    assert (ours.spec.sample_rate_hz, ours.spec.hop, ours.spec.quantizer.books) == (24_000, 40, 3)
    wave = waves(2, 800)
    got, wanted = ours(input_values=wave), theirs(wave[:, None])
    torch.testing.assert_close(got.audio_values, wanted.audio_values, atol=1e-5, rtol=1e-5)
    assert torch.equal(got.audio_codes, wanted.audio_codes)
    ours.save_pretrained(tmp_path / "saved")
    again = glassformer.load(tmp_path / "saved", strict=True, offline=True)
    assert torch.equal(again(input_values=wave).audio_values, got.audio_values)
    assert ours.processor(wave[0, :790], sample_rate_hz=24_000)["input_values"].shape == (1, 800)


@pytest.mark.usefixtures("without_child")
def test_without_metadata_it_is_of_44_100_hz(tmp_path: Path) -> None:
    torch.save(original(reference()), tmp_path / "weights.pth")
    assert glassformer.load(tmp_path / "weights.pth").spec.sample_rate_hz == 44_100


@pytest.mark.usefixtures("without_child")
def test_damaged_files_say_what_is_wrong(tmp_path: Path) -> None:
    tensors = original(reference())
    path = tmp_path / "weights.pth"
    for missing in (
        "encoder.block.5.weight_g",
        "decoder.model.2.block.1.weight_v",
        "quantizer.quantizers.1.codebook.weight",
    ):
        write(path, {name: x for name, x in tensors.items() if name != missing})
        with pytest.raises(WeightsError):
            glassformer.load(path)
    write(path, {**tensors, "encoder.block.0.weight_g": torch.ones(3, 1, 1)})
    with pytest.raises(WeightsError, match=r"weight_g' is \[3, 1, 1\]; it must hold a length for each of the 4 rows"):
        glassformer.load(path)
    write(path, tensors, sample_rate="fast")
    with pytest.raises(WeightsError, match="its sample_rate is 'fast'"):
        glassformer.load(path)
    write(path, tensors, sample_rate=-1)
    with pytest.raises(WeightsError, match="its sample_rate is -1; it must be a whole number of Hz above 0"):
        glassformer.load(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeightsError, match=r"weights\.pth"):
        glassformer.load(path)
