"""Sounds to read: written by the packages that read them, or by hand where a file should be odd."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

RATE_HZ = 16_000


def speech_like(seconds: float, rate_hz: int = RATE_HZ) -> NDArray[np.float32]:
    """A few tones below 3 kHz that come and go: what survives any codec and any rate."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    tones = sum(np.sin(2 * np.pi * hz * t + hz) / (1 + i) for i, hz in enumerate((220, 440, 1_100, 2_600)))
    return (0.2 * tones * (1 + np.sin(2 * np.pi * 3 * t))).astype(np.float32)


def wav_bytes(samples: NDArray[np.int16], *, rate_hz: int = RATE_HZ, claimed_bytes: int | None = None) -> bytes:
    """A wav file of one channel; its header may claim to hold more than it does."""
    data = samples.tobytes()
    claimed = len(data) if claimed_bytes is None else claimed_bytes
    form = struct.pack("<HHIIHH", 1, 1, rate_hz, 2 * rate_hz, 2, 16)
    head = b"RIFF" + struct.pack("<I", min(claimed + 36, 2**32 - 1)) + b"WAVEfmt " + struct.pack("<I", 16) + form
    return head + b"data" + struct.pack("<I", claimed) + data


def encoded(path: Path, samples: NDArray[np.float32], rate_hz: int, codec: str, *, channels: int = 1) -> Path:
    """A file as phones and browsers make them."""
    av = pytest.importorskip("av", reason="needs av to write m4a and webm: pip install 'glassformer[audio]'")
    layout = "stereo" if channels == 2 else "mono"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate_hz)
        stream.layout = layout
        stream.format = {"libopus": "flt", "flac": "s16"}.get(codec, "fltp")
        step = stream.codec_context.frame_size or 1024
        for at in range(0, len(samples) - step, step):
            planes = np.stack([samples[at : at + step]] * channels)
            frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=layout)
            frame.sample_rate, frame.pts = rate_hz, at
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
