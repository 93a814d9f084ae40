"""pipeline("pedals", model): sounds of any format, rate and length; and sounds that say nothing."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from glassformer_guitar import PEDALS
from glassformer_guitar.naming.pipeline import PedalNames
from guitar_tests.test_name_pedals import made
from typer.testing import CliRunner

import glassformer
from glassformer.cli.app import app
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.model import Model
from glassformer.models import FAMILIES

RATE = 16_000


@pytest.fixture(scope="module")
def model() -> Model:
    """One that names pedals at random, other ones for other sounds."""
    model = made().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter += torch.randn(parameter.shape, generator=generator) * 0.3
    return model


@pytest.fixture(scope="module")
def name(model: Model) -> Any:
    return glassformer.pipeline("pedals", model)


def riff(seconds: float, rate: int = RATE) -> np.ndarray:
    """Partials whose loudness and pitch change. [samples]"""
    times = np.arange(round(seconds * rate)) / rate
    waves = [np.sin(2 * np.pi * hz * times * (1 + 0.05 * times)) for hz in (110, 331, 1250)]
    return (0.2 * sum(waves) * (0.6 + 0.4 * np.sin(9 * times))).astype(np.float32)


def sound(samples: np.ndarray, rate: int = RATE) -> dict[str, Any]:
    return {"array": samples, "sampling_rate": rate}


def write_wav(path: Path, samples: np.ndarray, rate: int, width: int = 2, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", "not compressed"))
        whole = np.round(samples * 127 + 128).astype("u1") if width == 1 else np.round(samples * 32_767).astype("<i2")
        file.writeframes(np.repeat(whole, channels).tobytes())
    return path


def labels(answer: Any) -> list[str]:
    return [pedal.label for pedal in answer]


def test_names_with_their_probabilities(name: Any) -> None:
    answers = name([sound(riff(0.5)), sound(riff(0.9)[::-1].copy())])
    assert labels(answers[0]) == labels(alone := name(sound(riff(0.5)))) and answers != [[], []]
    assert [pedal.score for pedal in answers[0]] == pytest.approx([pedal.score for pedal in alone])
    for pedal in (pedal for answer in answers for pedal in answer):
        assert pedal.label in PEDALS and 0 < pedal.score <= 1
    assert name.texts([sound(riff(0.5))]) == [" → ".join(labels(answers[0])) or "no pedals"]
    assert name.in_words([]) == "no pedals"


def test_files_of_any_format_and_rate(name: Any, tmp_path: Path) -> None:
    expected = labels(name(sound(riff(0.5))))
    files = [
        write_wav(tmp_path / "stereo.wav", riff(0.5), RATE, channels=2),
        write_wav(tmp_path / "8-bit.wav", riff(0.5), RATE, width=1),
        write_wav(tmp_path / "fast.wav", riff(0.5, 44_100), 44_100),
    ]
    assert labels(name(files[0])) == expected and labels(name(str(files[0]))) == expected
    answers = name(files)
    assert len(answers) == 3 and all(set(labels(answer)) <= set(PEDALS) for answer in answers)
    assert name(sound(riff(0.5) * np.float32(0.01))) == [
        {"label": pedal.label, "score": pytest.approx(pedal.score, abs=1e-3)} for pedal in name(sound(riff(0.5)))
    ], "loudness says nothing"


def test_a_long_sound_is_the_mean_of_its_windows_and_silence_says_nothing(name: PedalNames) -> None:
    """Windows of half a second: two and a part, of which the last ends with the sound; then a silent one between."""
    wave = torch.from_numpy(riff(1.25))
    features = name.windows.all_features(wave)
    assert features.shape == (3, 16, 50)
    assert torch.equal(features[1], name.windows.features(wave[8_000:]))
    assert torch.equal(features[2], name.windows.features(wave[-8_000:]))
    half = riff(0.5)
    gap = np.concatenate([half, np.zeros(8_000, np.float32), half])
    once, with_gap = name(sound(half)), name(sound(gap))
    assert labels(once) == labels(with_gap)
    assert [pedal.score for pedal in once] == pytest.approx([pedal.score for pedal in with_gap], abs=1e-4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (sound(np.full(3, 0.5, np.float32)), r"has 3 samples at 16,000 Hz; pedals need 0.1 s and more"),
        (sound(np.zeros(RATE, np.float32)), "is silent: its peak is below -80 dB"),
        (sound(np.zeros(0, np.float32)), "holds no audio: not a single sample"),
        (sound(np.full(RATE, np.nan, np.float32)), "NaN or infinite sample"),
        (sound(np.zeros((2, RATE), np.float32)), r"it must be \[samples\]"),
        ({"sound": 1}, "of a sound it has 'array'"),
        ("nowhere.wav", "nowhere.wav"),
    ],
)
def test_sounds_that_say_nothing(name: Any, given: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        name(given)


def test_a_broken_file_is_named(name: Any, tmp_path: Path) -> None:
    path = tmp_path / "broken.wav"
    path.write_bytes(b"RIFF no sound at all")
    with pytest.raises(DataError, match=r"broken\.wav"):
        name([path])


def test_models_and_options_that_it_does_not_take(model: Model) -> None:
    text_model = Model.from_config(FAMILIES["whisper"].tiny, task=PedalNames.HEAD)
    with pytest.raises(
        UnsupportedError, match="'whisper' model cannot do 'pedals': it does not name pedals; an encoder"
    ):
        glassformer.pipeline("pedals", text_model)
    with pytest.raises(ConfigError, match="the task 'pedals' takes no 'top_k'"):
        glassformer.pipeline("pedals", model, top_k=3)


def test_from_the_command_line(model: Model, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    files = [str(write_wav(tmp_path / f"{i}.wav", riff(0.4 + i), RATE)) for i in range(2)]
    answers = glassformer.pipeline("pedals", tmp_path / "model", offline=True)(files)
    done = CliRunner().invoke(app, ["predict", "pedals", str(tmp_path / "model"), *files])
    assert done.exit_code == 0, done.output
    lines = [line.split("  ", 1) for line in done.stdout.splitlines()]
    assert [chain for chain, _ in lines] == [" → ".join(labels(answer)) or "no pedals" for answer in answers]
    assert all(file.strip().startswith(str(tmp_path)[:20]) for _, file in lines)
    done = CliRunner().invoke(app, ["predict", "pedals", str(tmp_path / "model"), *files, "--json"])
    results = [json.loads(line)["results"] for line in done.stdout.splitlines()]
    assert [[pedal["label"] for pedal in result] for result in results] == [labels(answer) for answer in answers]


def test_no_pedals_is_an_answer(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model.save_pretrained(tmp_path / "model")
    path = write_wav(tmp_path / "dry.wav", riff(0.5), RATE)
    monkeypatch.setattr(PedalNames, "answer", lambda self, batch, options, first: [[] for _ in batch])
    done = CliRunner().invoke(app, ["predict", "pedals", str(tmp_path / "model"), str(path)])
    assert (done.exit_code, done.stdout) == (0, "no pedals\n")
