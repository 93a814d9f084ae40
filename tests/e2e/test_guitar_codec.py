"""The codec that the package carries encodes and decodes a guitar, in ours and in the reference library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from glassformer_guitar import GuitarOptions, GuitarRows

import glassformer
from glassformer import Model, load
from glassformer.tasks.codec.scores import chroma_correlation, mel_distance

NAME = "package:glassformer/checkpoints/guitar_codec"


@pytest.fixture(scope="module")
def codec() -> Model:
    return load(NAME, offline=True)


@pytest.fixture(scope="module")
def chords() -> torch.Tensor:
    rows = GuitarRows(GuitarOptions(clips=4, seconds=1.0, contents=["chord"], pedals=None, part="test", seed=5))
    return torch.stack([torch.from_numpy(rows.clip(index).sound[0]) for index in range(4)])


def test_chords_come_back_from_their_codes(codec: Model, chords: torch.Tensor) -> None:
    encoded = [codec.encode_audio(chord, sample_rate_hz=16_000) for chord in chords]
    assert all(one.codes.shape == (4, 63) and one.frame_rate_hz == 62.5 for one in encoded)
    decoded = torch.stack([codec.decode_audio(one) for one in encoded])
    assert bool((mel_distance(decoded, chords, 16_000) < 12).all()), "silence is some 40 dB away"
    assert bool((chroma_correlation(decoded, chords, 16_000) > 0.7).all())
    assert bool((chroma_correlation(decoded, chords.roll(1, 0), 16_000) < 0.6).all()), "they are other chords"


def test_the_reference_encodes_alike(codec: Model, chords: torch.Tensor) -> None:
    from transformers import DacModel

    reference = DacModel.from_pretrained(Path(glassformer.__file__).parent / "checkpoints" / "guitar_codec").eval()
    whole = chords[:1, : 62 * 256]
    with torch.no_grad():
        theirs = reference.encode(whole[:, None]).audio_codes
    assert codec.encode_audio(whole[0], sample_rate_hz=16_000).codes.equal(theirs[0])
