"""The model over a guitar's codes that the package carries plays on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer import Model, load
from glassformer.data.rows import read_rows
from glassformer.tasks.audio_codes.generate import GenerateAudio

CODEC, PLAYER = "package:glassformer/checkpoints/guitar_codec", "package:glassformer_guitar/checkpoints/player"
CLIPS = {"kind": "guitar", "clips": 3, "part": "test", "seed": 7, "contents": ["riff"]}


@pytest.fixture(scope="module")
def player() -> Model:
    return load(PLAYER, offline=True, strict=True)


def test_it_knows_what_comes_next(player: Model) -> None:
    task = GenerateAudio(player, codec=CODEC)
    rows = read_rows("a guitar", **CLIPS, seconds=2.0, pedals=None)
    bits = np.array([one.details["bits"] for one in task.predict(rows)]).sum(0) / (3 * 125)
    assert bits.mean() < 9.6, "a code by chance takes 10 bits"
    ids = torch.randint(0, 1024, (125, 4), generator=torch.Generator().manual_seed(0)).numpy()
    assert sum(task._bits(ids)) / (4 * 125) > 10.8, "codes drawn by chance are no guitar"


def test_it_plays_on(player: Model) -> None:
    codec, rows = load(CODEC, offline=True), read_rows("a guitar", **CLIPS, seconds=2.0, pedals=None)
    encoded = codec.encode_audio(rows.clip(0).sound[0], sample_rate_hz=16_000)
    longer = player.continue_codes(encoded, 125, top_k=64, temperature=0.9, seed=1)
    assert longer.shape == (4, 250) and torch.equal(longer[:, :125], encoded.codes)
    assert float(codec.decode_audio(longer)[32_000:].abs().max()) > 0.01
