"""The spectrogram of a long recording is that of all of it at once, however it is cut into blocks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.audio.features import LogMel
from glassformer.speech.spectrogram import Spectrogram
from tests.audio.sounds import speech_like
from tests.audio.test_read import silence
from tests.peak import PEAK_KB


@pytest.mark.parametrize("block", [1_600, 7_919, 480_000, 10**9])
def test_blocks_change_nothing(block: int) -> None:
    samples = speech_like(65.3)
    extractor = LogMel()
    blocks = [samples[at : at + block] for at in range(0, len(samples), block)]
    ours = Spectrogram(extractor, blocks)
    padded = torch.nn.functional.pad(torch.from_numpy(samples), (0, 480_000))
    around = torch.nn.functional.pad(padded[None, None], (200, 200), mode="reflect")[0]
    expected = extractor.log_power(around)[0]
    assert (ours.frames, ours.duration) == (6_530, pytest.approx(65.3))
    torch.testing.assert_close(ours.logs[:, : ours.frames], expected[:, : ours.frames], atol=1e-4, rtol=1e-4)
    assert float(ours.peak) == pytest.approx(float(expected.amax()), abs=1e-4)


def test_a_window_is_padded_with_zeros() -> None:
    spectrogram = Spectrogram(LogMel(), [speech_like(31.0)])
    last = spectrogram.window(3_000, 6_000)
    assert last.shape == (80, 3_000)
    assert last[:, :100].abs().sum() > 0
    assert not last[:, 100:].any()


def test_digital_silence() -> None:
    spectrogram = Spectrogram(LogMel(), [np.concatenate([np.zeros(16_000, np.float32), speech_like(1.0)])])
    assert 90 <= spectrogram.silence_from(0) < 110
    assert spectrogram.silence_from(50) == spectrogram.silence_from(0) - 50
    assert spectrogram.silence_from(150) == 0
    long = Spectrogram(LogMel(), [np.concatenate([np.ones(160, np.float32), np.zeros(65 * 16_000, np.float32)])])
    assert long.silence_from(10) == long.frames - 10 and long.silence_from(long.frames) == 0


@pytest.mark.parametrize("samples", [1, 150, 400])
def test_less_than_a_frame(samples: int) -> None:
    spectrogram = Spectrogram(LogMel(), [np.ones(samples, np.float32)])
    assert spectrogram.frames == samples // 160
    assert spectrogram.window(0, spectrogram.frames).isfinite().all() if spectrogram.frames else True


READ = (
    PEAK_KB
    + """
import sys
from glassformer.audio.features import LogMel
from glassformer.audio.read import audio_blocks
from glassformer.speech.spectrogram import Spectrogram
extractor = LogMel(bins=16)
Spectrogram(extractor, audio_blocks(sys.argv[1], 16_000))
before = peak_kb()
made = Spectrogram(extractor, audio_blocks(sys.argv[2], 16_000))
print(made.logs.nbytes // 1024, peak_kb() - before)
"""
)


def test_an_hour_takes_the_memory_of_its_spectrogram(tmp_path: Path) -> None:
    """Blocks of frames that lay between larger pieces of memory took 4 MB each, twenty times their size."""
    silence(tmp_path / "minute.au", 60, 16_000, 1, encoding=3, width=2)
    silence(tmp_path / "hour.au", 3_600, 16_000, 1, encoding=3, width=2)
    files = [str(tmp_path / f"{name}.au") for name in ("minute", "hour")]
    done = subprocess.run([sys.executable, "-c", READ, *files], capture_output=True, text=True, check=True)
    size_kb, grown_kb = map(int, done.stdout.split())
    assert size_kb == pytest.approx(16 * 4 * 360_000 / 1024, rel=0.01)
    assert grown_kb < 3 * size_kb + 60_000
