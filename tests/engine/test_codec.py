"""Encoding and decoding with a codec: in chunks as at once, any sound, and what is refused."""

from __future__ import annotations

import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer import Model
from glassformer.engine import codec
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.models import FAMILIES
from glassformer.models._codec import AudioCodec
from tests.peak import held_bytes, measured

TINY = dict(FAMILIES["dac"].tiny)


def made(**changes: Any) -> Model:
    torch.manual_seed(5)
    model = Model.from_config({**TINY, **changes}).eval()
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            if parameter.dim() == 3 and "alpha" not in name:  # as large as activations that stay near 1 allow
                parameter.copy_(torch.randn_like(parameter) * 0.6 * parameter[0].numel() ** -0.5)
            else:
                parameter += torch.randn_like(parameter) * 0.1
    return model


@pytest.fixture(scope="module")
def model() -> Model:
    return made()


def noise(samples: int) -> Tensor:
    return torch.randn(samples, generator=torch.Generator().manual_seed(2)) * 0.4


def wav(path: Path, samples: np.ndarray, rate: int, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, samples.dtype.itemsize, rate, 0, "NONE", "not compressed"))
        file.writeframes(samples.tobytes())
    return path


@pytest.mark.parametrize("ratios", [[2, 4, 5], [4, 8], [3]], ids=str)
@pytest.mark.parametrize("frames", [1, 2, 29, 61, 150])
@pytest.mark.parametrize("more", [0, 1])
def test_chunks_give_what_the_whole_gives(
    ratios: list[int], frames: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(downsampling_ratios=ratios)
    sound = noise(frames * model.spec.hop + more)
    monkeypatch.setattr(AudioCodec, "CHUNK_SAMPLES", 1 << 30)
    whole = model.encode_audio(sound, sample_rate_hz=16_000)
    decoded = model.decode_audio(whole.codes)
    monkeypatch.setattr(AudioCodec, "CHUNK_SAMPLES", 1)
    monkeypatch.setattr("glassformer.audio.read.BLOCK_SAMPLES", 777)
    chunked = model.encode_audio(sound, sample_rate_hz=16_000)
    assert torch.equal(chunked.codes, whole.codes) and chunked.codes.shape == (3, frames + more)
    torch.testing.assert_close(chunked.latents, whole.latents, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.decode_audio(chunked.codes), decoded, atol=1e-5, rtol=1e-5)
    assert chunked.samples == len(sound) and len(model.decode_audio(chunked)) <= len(sound)


def test_what_is_known_of_encoded_audio(model: Model) -> None:
    encoded = model.encode_audio(noise(16_000), sample_rate_hz=16_000)
    assert encoded.codes.dtype == torch.int64 and encoded.codes.shape == (3, 400)
    assert encoded.latents.shape == (12, 400)
    assert (encoded.frame_rate_hz, encoded.sample_rate_hz, encoded.seconds) == (400.0, 16_000, 1.0)
    assert repr(encoded) == "EncodedAudio(3 codebooks × 400 frames, 400 Hz, 1.00 s)"
    one = model.encode_audio(noise(40), sample_rate_hz=16_000, codebooks=1)
    assert repr(one) == "EncodedAudio(1 codebook × 1 frame, 400 Hz, 0.00 s)"
    sound = model.decode_audio(encoded)
    assert sound.dtype == torch.float32 and sound.shape == (15_992,)  # an odd stride leaves out the last samples


def test_codes_and_sounds_can_be_trained_on(model: Model) -> None:
    encoded = model.encode_audio(np.zeros(4_000, np.float32), sample_rate_hz=16_000)
    for x in (encoded.latents, encoded.codes, model.decode_audio(encoded)):
        assert not x.is_inference()
    weight = torch.ones(1, requires_grad=True)
    (model.decode_audio(encoded) * weight).square().sum().backward()
    assert weight.grad is not None


def test_fewer_codebooks_are_the_first_ones(model: Model) -> None:
    sound = noise(4_000)
    every = model.encode_audio(sound, sample_rate_hz=16_000).codes
    assert torch.equal(model.encode_audio(sound, sample_rate_hz=16_000, codebooks=2).codes, every[:2])
    assert model.decode_audio(every[:2]).shape == model.decode_audio(every).shape


def test_odd_sounds(model: Model, tmp_path: Path) -> None:
    """Stereo, 8-bit, silent, clipped, three samples, and of another rate than the codec's."""
    mono = (noise(8_000).numpy() * 20_000).astype(np.int16)
    stereo = wav(tmp_path / "stereo.wav", np.stack([mono, mono], 1), 16_000, 2)
    single = wav(tmp_path / "mono.wav", mono, 16_000)
    assert torch.equal(model.encode_audio(stereo).codes, model.encode_audio(single).codes)
    eight = wav(tmp_path / "eight.wav", (mono / 256 + 128).astype(np.uint8), 16_000)
    assert model.encode_audio(eight).codes.shape == (3, 200)
    other = wav(tmp_path / "other.wav", mono, 8_000)
    assert model.encode_audio(other).seconds == 1.0 and model.encode_audio(other).sample_rate_hz == 16_000
    for sound in (torch.zeros(900), torch.ones(900), torch.full((3,), -1.0)):
        encoded = model.encode_audio(sound, sample_rate_hz=16_000)
        assert encoded.codes.shape[1] == -(-len(sound) // 40)
        assert bool(model.decode_audio(encoded).isfinite().all()) and len(model.decode_audio(encoded)) <= len(sound)


def encode_hours(family: str) -> int:
    """Encode one minute of sound, and then nine. Returns: by how many bytes the peak is above that of the first."""
    if family == "dac":
        model = made(downsampling_ratios=[8, 8], encoder_hidden_size=2, decoder_hidden_size=8, hidden_size=8)
    else:
        sizes = {"upsampling_ratios": [8, 8], "num_filters": 2, "hidden_size": 8}
        model = Model.from_config({**FAMILIES["encodec"].tiny, **sizes}).eval()
    network = codec.require_codec(model.network)
    block = noise(AudioCodec.CHUNK_SAMPLES)

    def sound(seconds: int) -> Iterator[Tensor]:
        for _ in range(seconds * 16_000 // len(block)):
            yield block[None, None]

    def peak(seconds: int) -> int:
        frames = sum(x.shape[2] for x, _ in network.encode_blocks(sound(seconds)))
        assert frames == seconds * 16_000 // len(block) * len(block) // 64
        return held_bytes()

    with torch.inference_mode():
        before = peak(60)
        return peak(540) - before


@pytest.mark.parametrize("family", ["dac", "encodec"])
def test_an_hour_takes_no_more_memory_than_minutes(family: str) -> None:
    """Samples come and go in blocks, and so do codes but for the result: 8 minutes more, a few megabytes more."""
    grown, _ = measured(encode_hours, family)
    assert grown < 30_000_000  # the samples alone would be 31 MB


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (torch.zeros(3, 4), r"codes are torch\.float32 of shape \[3, 4\]"),
        (torch.zeros(1, 3, 4, dtype=torch.long), r"codes are torch\.int64 of shape \[1, 3, 4\]"),
        ([[1, 2]], r"codes are \[\[1, 2\]\]; they must be a tensor of whole numbers"),
        (torch.zeros(4, 5, dtype=torch.long), r"codes have the shape \[4, 5\].* at most 3 codebooks"),
        (torch.zeros(3, 0, dtype=torch.long), r"one frame at least"),
        (torch.tensor([[1, 2], [3, 16]]), r"codes hold 16 in codebook 1, frame 1; allowed: 0 to 15"),
        (torch.tensor([[-1, 2]]), r"codes hold -1 in codebook 0, frame 0"),
    ],
)
def test_codes_that_are_none(model: Model, codes: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.decode_audio(codes)
    if isinstance(codes, Tensor):
        encoded = model.encode_audio(noise(100), sample_rate_hz=16_000)
        with pytest.raises(DataError, match=message):
            model.decode_audio(replace(encoded, codes=codes))


def test_codes_and_scales_of_another_codec(model: Model) -> None:
    encoded = made(downsampling_ratios=[4, 4, 4]).encode_audio(noise(400), sample_rate_hz=16_000)
    with pytest.raises(DataError, match="another codec: 250 frames a second, and this one has 400; decode them by"):
        model.decode_audio(encoded)
    with pytest.raises(DataError, match="does not normalise loudness: leave them out"):
        model.decode_audio(encoded.codes, scales=0.1)


def test_what_is_no_sound(model: Model, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an array does not state its sample rate"):
        model.encode_audio(noise(100))
    with pytest.raises(DataError, match="NaN or infinite sample"):
        model.encode_audio(torch.full((9,), torch.nan), sample_rate_hz=16_000)
    with pytest.raises(DataError, match="not a single sample"):
        model.encode_audio(torch.zeros(0), sample_rate_hz=16_000)
    (tmp_path / "text.wav").write_text("no sound at all")
    with pytest.raises(DataError, match="not readable audio"):
        model.encode_audio(tmp_path / "text.wav")
    with pytest.raises(ConfigError, match="codebooks is 4; this codec has 3"):
        model.encode_audio(noise(100), sample_rate_hz=16_000, codebooks=4)
    with pytest.raises(UnsupportedError, match="makes no codes of sound; load an audio codec"):
        Model.from_config(FAMILIES["bert"].tiny).decode_audio(torch.zeros(1, 1, dtype=torch.long))


def test_like_codes_have_like_shades(model: Model) -> None:
    network = codec.require_codec(made(codebook_size=32).network)
    with torch.no_grad():
        angles = torch.linspace(0.0, 1.5, 32)
        order = torch.randperm(32, generator=torch.Generator().manual_seed(0))
        vectors = torch.stack([angles.cos(), angles.sin(), 0 * angles, 0 * angles], 1) * 3.0
        network.quantizer.books[1].codebook.weight[order] = vectors  # type: ignore[union-attr, index, operator]
    shades = codec.code_shades(network)
    assert shades.shape == (3, 32) and float(shades.min()) == 0.0 and float(shades.max()) == 1.0
    along = shades[1][order]
    assert torch.allclose(along if along[0] < 0.5 else 1 - along, torch.linspace(0, 1, 32))
    assert torch.equal(shades, codec.code_shades(network))


def test_decoded_sounds_carry_their_codes(model: Model) -> None:
    encoded = model.encode_audio(noise(1_000), sample_rate_hz=16_000)
    sound = codec.decoded_sound(codec.require_codec(model.network), "decoded", encoded, about="all of it")
    assert np.array_equal(sound.samples, model.decode_audio(encoded))
    assert np.array_equal(sound.codes, encoded.codes) and sound.about == "all of it"
    assert sound.frame_rate_hz == 400 and np.shape(sound.shades) == (3, 16)
