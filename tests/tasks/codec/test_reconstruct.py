"""A codec is trained by the configuration of a run, its report has scores and a baseline, and it loads again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.evaluate import evaluate
from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.runs.config import parse_config
from glassformer.tasks.codec import Reconstruct
from glassformer.tasks.codec.task import coarse
from glassformer.training.run import make_trainer

SMALL = {
    "model_type": "dac",
    "encoder_hidden_size": 4,
    "decoder_hidden_size": 32,
    "downsampling_ratios": [4, 4, 5],
    "n_codebooks": 2,
    "codebook_size": 32,
    "codebook_dim": 4,
    "dead_code_loss_weight": 1.0,
}
CLIPS = {"kind": "guitar", "seconds": 0.5, "contents": ["note"], "pedals": None}


def config(folder: Path, **changes: Any) -> Any:
    return parse_config(
        {
            "task": "reconstruct",
            "output": str(folder),
            "scratch": SMALL,
            "data": {
                "train": "a guitar",
                "format": {**CLIPS, "clips": 6, "part": "train"},
                "validation": "another guitar",
                "validation_format": {"clips": 2, "part": "test"},
                "ignore": ["notes", "pedals"],
            },
            "task_options": {"seconds": 0.15},
            "training": {
                "steps": 12,
                "batch_size": 4,
                "learning_rate": 3e-3,
                "validate_every": 6,
                "schedule": "constant",
            },
            **changes,
        }
    )


def test_from_a_configuration_to_a_codec_and_its_report(tmp_path: Path) -> None:
    trainer = make_trainer(config(tmp_path / "run"))
    result = trainer.train()
    expected = {"loss", "waveform_loss", "spectral_loss", "codes_loss", "si_snr_db", "code_perplexity", "dead_codes"}
    assert expected <= set(result.metrics)
    model = glassformer.load(tmp_path / "run", strict=True, offline=True)
    rows = read_rows("more", **CLIPS, clips=2, part="test", seed=2)
    task = Reconstruct(model).for_evaluation()
    found = evaluate("reconstruct", task, rows, train=rows, resamples=20)
    assert {"si_snr_db", "mel_distance", "chroma", "code_perplexity", "dead_codes"} == set(found.report.metrics)
    assert found.report.metric == "mel_distance" and not found.report.higher
    assert list(found.report.baselines) == ["samples"]
    assert "2,000 bits a second as samples of 8 bits, 250 a second" in found.report.baselines["samples"].about
    sound = rows.clip(0).sound[0]
    wave = torch.from_numpy(sound)[None]
    untrained = Model.from_config(SMALL).eval()
    assert model(input_values=wave, labels=wave).loss < 0.9 * untrained(input_values=wave, labels=wave).loss
    made = model.decode_audio(model.encode_audio(sound, sample_rate_hz=16_000))
    assert made.shape == (7_984,) and float(made.abs().max()) > 0


def test_another_family_of_codecs_is_trained_too(tmp_path: Path) -> None:
    tiny = {**FAMILIES["encodec"].tiny, "num_filters": 8}
    trainer = make_trainer(config(tmp_path / "run", scratch=tiny))
    assert trainer.train().metrics["code_perplexity"] >= 1.0
    model = glassformer.load(tmp_path / "run", strict=True, offline=True)
    assert model.decode_audio(model.encode_audio(torch.zeros(800), sample_rate_hz=16_000)).shape == (800,)
    with pytest.raises(UnsupportedError, match="this codec has 2 channels"):
        Reconstruct(Model.from_config({**tiny, "audio_channels": 2}))


def test_segments_are_drawn_anew_and_short_recordings_padded() -> None:
    model = Model.from_config(SMALL)
    task = Reconstruct(model, seconds=0.1)
    draw = np.random.default_rng(0)
    ramp = {"input_values": np.arange(8_000, dtype=np.int16)}
    starts = {float(task.augment(ramp, draw)["input_values"][0]) for _ in range(5)}
    assert len(starts) == 5 and task.segment == 1_600 and task.length(ramp) == 20
    short = task.augment({"input_values": np.full(10, 5, dtype=np.int16)}, draw)["input_values"]
    assert short.shape == (1_600,) and short[9] > 0 and not short[10:].any()


def test_dead_codes_are_drawn_to_latents_in_training_alone() -> None:
    torch.manual_seed(0)
    model = Model.from_config(SMALL)
    wave = torch.randn(2, 1_600) * 0.3
    loss = model.train()(input_values=wave).loss
    loss.backward()
    book = model.network.quantizer.books[0].codebook.weight
    assert bool((book.grad.abs().sum(1) > 0).all()), "each code has a gradient, used or not"
    model.zero_grad()
    model.eval()(input_values=wave).loss.backward()
    assert 0 < int((book.grad.abs().sum(1) > 0).sum()) < 32


def test_the_baseline_spends_as_many_bits() -> None:
    time = torch.arange(16_000) / 16_000
    sound = torch.sin(2 * torch.pi * 50 * time) + torch.sin(2 * torch.pi * 900 * time)
    kept = coarse(sound, 400, 16_000)
    torch.testing.assert_close(kept, torch.sin(2 * torch.pi * 50 * time), atol=0.02, rtol=0)
    assert len(kept.unique()) <= 255


def test_weights_of_the_losses() -> None:
    model = Model.from_config(SMALL)
    Reconstruct(model, waveform=3.0, spectral=0.0)
    torch.manual_seed(0)
    wave = torch.randn(2, 1_600) * 0.3
    sums = model.network.head.output_loss_sums(model.eval()(input_values=wave), wave)
    Reconstruct(model, waveform=1.0, spectral=1.0)
    plain = model.network.head.output_loss_sums(model(input_values=wave), wave)
    assert sums["spectral"].item() == 0 and sums["waveform"].item() == pytest.approx(3 * plain["waveform"].item())
    with pytest.raises(ConfigError, match="waveform is -1; it must be a weight from 0 up"):
        Reconstruct(model, waveform=-1)


@pytest.mark.parametrize("seconds", [0, 100, "1", True])
def test_lengths_that_there_are_not(seconds: Any) -> None:
    with pytest.raises(ConfigError, match=r"seconds is .*; it must be a number from 0\.02 to 60"):
        Reconstruct(Model.from_config(SMALL), seconds=seconds)


def test_models_and_rows_that_it_does_not_take(tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, ConfigError)):
        Reconstruct(Model.from_config(FAMILIES["bert"].tiny))
    task = Reconstruct(Model.from_config(SMALL))
    with pytest.raises(DataError, match=r"row 1: 'file' is .*; it must be the path of an audio file"):
        task.encode(read_rows([{"file": {"array": [0.1] * 99, "sampling_rate": 16_000}}, {"file": {"array": None}}]))
    with pytest.raises(ConfigError, match="a model from scratch needs a tokenizer"):
        config(tmp_path / "run", task="generate")


def test_it_gives_original_and_decoded_to_listen_to() -> None:
    model = Model.from_config(SMALL).eval()
    rows = read_rows("some", **CLIPS, clips=2)
    first, second = Reconstruct(model).listen(rows)
    original, decoded = first.sounds
    assert [one.title for one in (first, second)] == ["some: clip 0", "some: clip 1"]
    assert (
        np.array_equal(original.samples, rows.clip(0).sound[0])
        and original.marks[0].pitch == rows[0]["notes"][0]["midi"]
    )
    encoded = model.encode_audio(rows.clip(0).sound[0], sample_rate_hz=16_000)
    assert np.array_equal(decoded.codes, encoded.codes) and decoded.frame_rate_hz == encoded.frame_rate_hz
    assert np.array_equal(decoded.samples, model.decode_audio(encoded))
    assert first.facts["bit rate"] == "2 kbit/s, of 256 as 16-bit samples"
