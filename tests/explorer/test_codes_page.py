"""The sound view of a codec and of models over codes: their sounds, their codes, their attention over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.explorer import codes_page
from glassformer.explorer.codes_page import attention_example, codec_example
from glassformer.model import Model
from tests.core.small import perturbed
from tests.inspect.test_codes_input import CODEC, CONVERTER, PLAYER, made, riff


@pytest.fixture(scope="module")
def codec() -> Model:
    return made(CODEC)


def test_a_codec_shows_what_it_decodes(codec: Model, tmp_path: Path) -> None:
    file = riff(tmp_path, 0.1)
    example = codec_example(codec.network, file)
    recording, decoded = example.sounds
    encoded = codec.encode_audio(file)
    assert np.array_equal(decoded.codes, encoded.codes) and recording.codes is None
    assert np.array_equal(decoded.samples, codec.decode_audio(encoded)) and len(recording.samples) == 1_600
    assert example.facts["codes"] == "3 codebooks × 20 frames, 200 a second"


def test_attention_over_time_is_that_of_the_session(codec: Model, tmp_path: Path) -> None:
    player, file = made(PLAYER, "text-to-audio"), riff(tmp_path, 0.1)
    perturbed(player.network)
    session = player.inspect(str(file), codec=codec)
    example = attention_example(session, codec.network)
    attention = example.sounds[1].attention
    assert attention is not None and example.sounds[0].attention is None and example.facts == {}
    assert attention.frame_rate_hz == 200.0 and attention.probs.shape == (len(attention.heads), 22, 22)
    best = next(iter(session.findings), None)
    assert best is not None and attention.heads[attention.opening] == f"layer {best.layer} · head {best.head}"
    assert np.allclose(attention.probs[0], session.head(0, 0).probs())
    assert attention.sentence == best.sentence


def test_long_sounds_are_pooled_and_heads_beyond_the_limit_counted(
    codec: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes_page, "MAX_FRAMES", 11)
    monkeypatch.setattr(codes_page, "MAX_HEADS", 1)
    player = made({**PLAYER, "num_hidden_layers": 2}, "text-to-audio")
    session = player.inspect(str(riff(tmp_path, 0.1)), codec=codec)
    example = attention_example(session, codec.network)
    attention = example.sounds[1].attention
    assert attention is not None and attention.probs.shape == (1, 11, 11) and attention.frame_rate_hz == 100.0
    probs = session.head(0, 0).probs()
    assert attention.probs[0][5, 2] == pytest.approx(float(probs[10:12, 4:6].max()))
    assert list(example.facts) == ["heads"] and example.facts["heads"].startswith("1 of ")


def test_an_encoder_decoder_shows_what_it_makes(codec: Model, tmp_path: Path) -> None:
    converter, file = made(CONVERTER), riff(tmp_path, 0.1)
    session = converter.inspect(str(file), codec=codec)
    _, converted = attention_example(session, codec.network).sounds
    expected = converter.convert_codes(codec.encode_audio(file).codes)
    assert torch.equal(torch.from_numpy(np.asarray(converted.codes)), expected[:, :-1])
    assert converted.attention is not None
    assert {head.split(" · ")[0] for head in converted.attention.heads} == {"encoder", "decoder", "cross"}
    assert converted.attention.probs.shape[1:] == (22, 22), "on one axis, whatever the stream"
