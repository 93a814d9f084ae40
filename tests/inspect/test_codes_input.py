"""Sessions of models over codes: a recording becomes codes, tokens are times, and a decoder reads them a step late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from glassformer.errors import ConfigError, DataError
from glassformer.generation.audio_codes import code_pattern
from glassformer.model import Model
from glassformer.models import FAMILIES

CODEC = {**FAMILIES["dac"].tiny, "downsampling_ratios": [4, 4, 5]}
PLAYER = {**FAMILIES["musicgen_decoder"].tiny, "max_position_embeddings": 60, "frame_rate_hz": 200.0}
CONVERTER = {**FAMILIES["transformer"].tiny, "codebooks": 3, "vocab_size": 17, "max_positions": 60}


def made(config: dict[str, Any], task: str | None = None) -> Model:
    torch.manual_seed(3)
    return Model.from_config(config, task=task).eval()


@pytest.fixture(scope="module")
def codec() -> Model:
    return made(CODEC)


def riff(folder: Path, seconds: float) -> Path:
    samples = np.sin(np.arange(round(16_000 * seconds)) * 0.2) * 0.5
    soundfile.write(folder / "riff.wav", samples, 16_000)
    return folder / "riff.wav"


def test_a_decoder_reads_the_codes_a_step_late(codec: Model, tmp_path: Path) -> None:
    player, file = made(PLAYER, "text-to-audio"), riff(tmp_path, 0.1)
    session = player.inspect(str(file), codec=codec)
    codes = codec.encode_audio(file).codes
    ids = session.batch.input_ids[0]
    assert ids.shape == (20 + 2, 3) and ids[0].tolist() == [16, 16, 16]
    assert torch.equal(ids[1:], code_pattern(player.network).tokens(codes)[:-1])
    assert [token.text for token in session.streams["sound"]][:3] == ["0.00 s", "0.01 s", "0.01 s"]
    assert session.streams["sound"][20].text == "0.10 s"
    probs = session.head(0, 0).probs()
    assert probs.shape == (22, 22) and float(probs.triu(1).sum()) == 0, "it looks back alone"


def test_an_encoder_decoder_is_inspected_on_its_own_conversion(codec: Model, tmp_path: Path) -> None:
    converter, file = made(CONVERTER), riff(tmp_path, 0.1)
    session = converter.inspect(str(file), codec=codec)
    codes = codec.encode_audio(file).codes
    assert torch.equal(session.batch.input_ids[0], codes.T)
    converted = converter.convert_codes(codes)
    assert torch.equal(session.batch.decoder_input_ids[0, 1:], code_pattern(converter.network).tokens(converted)[:-1])
    assert set(session.maps) == {"encoder", "decoder", "cross"}
    assert {name: len(tokens) for name, tokens in session.streams.items()} == {"source": 20, "target": 22}


def test_what_is_longer_is_cut_and_what_does_not_fit_is_refused(codec: Model, tmp_path: Path) -> None:
    player, file = made(PLAYER, "text-to-audio"), riff(tmp_path, 0.5)
    with pytest.warns(UserWarning, match=r"0\.5 s long, of which the model reads the first 0\.3 s"):
        session = player.inspect(str(file), codec=codec)
    assert len(session.streams["sound"]) == 57 + 2
    other = made({**CODEC, "codebook_size": 8})
    with pytest.raises(ConfigError, match="3 codebooks of 16 codes, and the codec makes 3 of 8"):
        player.inspect(str(file), codec=other)
    with pytest.raises(DataError, match="the file of one recording"):
        player.inspect(str(file), str(file), codec=codec)
