"""EnCodec's original `.th` files give the numbers of the model that they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer.errors import WeightsError
from tests.models.test_encodec import as_read, reference, side_by_side, waves

SIZES: dict[str, dict[str, Any]] = {
    "24 kHz": {"sampling_rate": 24_000, "target_bandwidths": [3.0, 6.0, 7.2]},
    "48 kHz": {
        **{"sampling_rate": 48_000, "target_bandwidths": [6.0, 12.0, 14.4], "chunk_length_s": 1.0, "overlap": 0.01},
        **{"upsampling_ratios": [8, 5], "num_residual_layers": 2, "num_lstm_layers": 3, "compress": 4},
    },
}


def original(theirs: Any) -> dict[str, Tensor]:
    """A reference codec as the original library names it, with directions of other lengths than the weights."""
    old = {}
    for name, x in theirs.state_dict().items():
        side, _, rest = name.partition(".layers.")
        if side == "quantizer":
            old["quantizer.vq.layers." + rest.replace("codebook", "_codebook")] = x
            continue
        path, _, leaf = rest.rpartition(".conv.") if ".conv." in rest else rest.rpartition(".norm.")
        if not path:
            old[f"{side}.model.{rest}"] = x  # of the LSTM
            continue
        stem, place = name.partition(".conv.")[0].partition(".norm.")[0], dict(theirs.named_modules())
        inner = "convtr" if isinstance(getattr(place[stem], "conv", None), torch.nn.ConvTranspose1d) else "conv"
        part = inner if ".conv." in rest else "norm"
        leaf = leaf.replace("parametrizations.weight.original0", "weight_g")
        if leaf == "parametrizations.weight.original1":
            leaf, x = "weight_v", x * torch.linspace(0.5, 3, x.shape[0]).reshape(-1, 1, 1)
        old[f"{side}.model.{path}.{inner}.{part}.{leaf}"] = x
    assert len(old) == len(theirs.state_dict())
    return old


def test_names_are_those_of_the_original_release() -> None:
    names = original(reference("24 kHz"))
    for name in (
        "encoder.model.0.conv.conv.weight_g",
        "encoder.model.1.block.1.conv.conv.weight_v",
        "encoder.model.1.shortcut.conv.conv.bias",
        "encoder.model.10.lstm.weight_ih_l0",
        "decoder.model.3.convtr.convtr.weight_g",
        "quantizer.vq.layers.0._codebook.embed_avg",
    ):
        assert name in names
    assert "encoder.model.0.conv.norm.weight" in original(reference("48 kHz"))


@torch.no_grad()
@pytest.mark.parametrize("kind", SIZES)
def test_an_original_file_is_the_model(kind: str, tmp_path: Path) -> None:
    theirs = reference(kind, **SIZES[kind])
    torch.save(original(theirs), tmp_path / "codec.th")
    ours = glassformer.load(tmp_path / "codec.th", strict=True)
    config = theirs.config.to_dict()
    for name, value in SIZES[kind].items():
        assert ours.config[name] == config[name] == value, name
    wave = waves(ours, 2, 4_011)
    got, encoded = ours(input_values=as_read(wave)), theirs.encode(wave, bandwidth=SIZES[kind]["target_bandwidths"][-1])
    pad = encoded.last_frame_pad_length
    wanted = theirs.decode(encoded.audio_codes, encoded.audio_scales, last_frame_pad_length=pad)
    assert got.audio_codes is not None and got.audio_values is not None
    assert torch.equal(got.audio_codes, side_by_side(encoded.audio_codes, pad))
    sound = as_read(wanted.audio_values[..., :4_011])
    torch.testing.assert_close(got.audio_values, sound, atol=1e-5, rtol=1e-5)
    ours.save_pretrained(tmp_path / "saved")
    again = glassformer.load(tmp_path / "saved", strict=True, offline=True)
    torch.testing.assert_close(again(input_values=as_read(wave)).audio_values, got.audio_values, atol=0, rtol=0)


@pytest.mark.usefixtures("without_child")
def test_damaged_files_say_what_is_wrong(tmp_path: Path) -> None:
    tensors, path = original(reference("24 kHz")), tmp_path / "codec.th"
    for missing in ("encoder.model.0.conv.conv.weight_v", "decoder.model.3.convtr.convtr.weight_g"):
        torch.save({name: x for name, x in tensors.items() if name != missing}, path)
        with pytest.raises(WeightsError, match=r"has no tensor|missing"):
            glassformer.load(path)
    torch.save({name: x for name, x in tensors.items() if "convtr" not in name}, path)
    with pytest.raises(WeightsError, match="no transposed convolution"):
        glassformer.load(path)
    torch.save({**tensors, "encoder.model.0.conv.conv.weight_v": torch.ones(4)}, path)
    with pytest.raises(WeightsError, match=r"is \[4\]; it must have 3 sizes"):
        glassformer.load(path)
