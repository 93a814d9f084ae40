"""Voice activity detection: which parts of a recording are speech, and where long ones may be cut.

    energy    ▁▁▂▇▇▆▇▁▁▁▇▇▇▆▇▇▂▁▁      speech is louder than the background by some decibels,
    speech       └──┘   └────┘          silences that are shorter than half a second belong to it

The package `silero-vad` brings a trained detector, whose weights run in onnxruntime; without it the energy rule is
used, which takes loud noise or music for speech.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.audio.read import Samples
from glassformer.speech.spectrogram import Spectrogram

LOUDER_DB = 12.0
"""Speech is at least so much louder than the background: the quietest tenth of a second's frames."""
RANGE_DB = 35.0
"""Below the loudest frames by more than this, nothing is speech."""
AROUND_SECONDS = 5
"""Background and loudest frames are those of this many seconds before and after."""
MIN_LEVEL_DB = -60.0
"""Digital silence is below this."""
MIN_SILENCE, MIN_SPEECH, MARGIN = 0.5, 0.25, 0.2
"""Seconds: shorter silences and sounds are not counted, and this much before and after speech is included."""
SILERO_RATE_HZ, SILERO_SAMPLES, SILERO_CONTEXT = 16_000, 512, 64
SILERO_SPEECH = 0.5  # probability from which a piece is speech; Silero's own default


@dataclass(frozen=True)
class Span:
    """Part of a recording. In seconds"""

    start: float
    end: float


class SileroDetector:
    """Probability of speech for each 32 ms, by the detector of `silero-vad`; call it with blocks of samples, in order.

    shares: of the blocks so far
    """

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = options.intra_op_num_threads = 1
        self._network = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._state = np.zeros((2, 1, 128), np.float32)
        self._context = np.zeros(SILERO_CONTEXT, np.float32)
        self._buffer = np.zeros(0, np.float32)
        self.shares: list[float] = []

    @classmethod
    def find(cls) -> SileroDetector | None:
        """With the weights of the installed package; None where it, or onnxruntime, is not installed."""
        package = importlib.util.find_spec("silero_vad")
        if package is None or not package.submodule_search_locations or importlib.util.find_spec("onnxruntime") is None:
            return None
        path = Path(next(iter(package.submodule_search_locations))) / "data" / "silero_vad.onnx"
        return cls(path) if path.is_file() else None

    def __call__(self, block: Samples) -> None:
        self._buffer = np.concatenate([self._buffer, block])
        count = len(self._buffer) // SILERO_SAMPLES
        for piece in self._buffer[: count * SILERO_SAMPLES].reshape(count, SILERO_SAMPLES):
            given = np.concatenate([self._context, piece])[None]
            feed: dict[str, Any] = {"input": given, "state": self._state, "sr": np.array(SILERO_RATE_HZ, np.int64)}
            share, self._state = self._network.run(None, feed)
            self.shares.append(float(share[0, 0]))
            self._context = piece[-SILERO_CONTEXT:]
        self._buffer = self._buffer[count * SILERO_SAMPLES :]

    def speech(self, duration: float) -> list[Span]:
        """The parts that are speech."""
        seconds = SILERO_SAMPLES / SILERO_RATE_HZ
        return merged([share >= SILERO_SPEECH for share in self.shares], seconds, duration)


def loudness(spectrogram: Spectrogram) -> torch.Tensor:
    """Of each frame, in dB. [frames]"""
    parts = spectrogram.logs[:, : spectrogram.frames].split(100_000, dim=1)  # of two hours, without copies of all
    return torch.cat([(part * math.log(10)).logsumexp(0) for part in parts]) * (10 / math.log(10))


def speech_by_energy(spectrogram: Spectrogram) -> list[Span]:
    """The parts that are louder than the background around them: quiet speakers next to loud ones are included."""
    levels, rate = loudness(spectrogram), spectrogram.frames_per_second
    if not len(levels):
        return []
    seconds = torch.nn.functional.pad(levels, (0, -len(levels) % rate), value=float(levels[-1])).view(-1, rate)
    reach = 2 * AROUND_SECONDS + 1
    pooled = torch.nn.functional.max_pool1d(
        torch.stack([seconds.amax(1), -seconds.quantile(0.1, dim=1)])[:, None], reach, stride=1, padding=AROUND_SECONDS
    )
    loudest, background = pooled[0, 0], -pooled[1, 0]
    threshold = torch.maximum(background + LOUDER_DB, loudest - RANGE_DB)
    active = (seconds > threshold[:, None]) & (loudest > MIN_LEVEL_DB)[:, None]
    return merged(active.flatten()[: len(levels)].tolist(), 1 / rate, spectrogram.duration)


def merged(active: Sequence[bool], seconds: float, duration: float) -> list[Span]:
    """Spans of speech from steps of this many seconds; short silences are joined, short sounds left out."""
    edges = np.flatnonzero(np.diff(np.array([0, *active, 0], np.int8)))
    spans = list[Span]()
    for start, end in zip(edges[::2] * seconds, edges[1::2] * seconds, strict=True):
        if spans and start - spans[-1].end < MIN_SILENCE:
            spans[-1] = Span(spans[-1].start, float(end))
        else:
            spans.append(Span(float(start), float(end)))
    long = [span for span in spans if span.end - span.start >= MIN_SPEECH]
    return [Span(max(0.0, span.start - MARGIN), min(duration, span.end + MARGIN)) for span in long]


def cut_windows(spans: Sequence[Span], seconds: float, quietest: Callable[[float, float], float]) -> list[Span]:
    """Windows of at most this many seconds, from speech to speech: neighbours share one, long spans are cut.

    Args:
        quietest: gives the quietest moment between two times, where a span without silence is cut.
    """
    windows = list[Span]()
    for span in spans:
        while span.end - span.start > seconds:
            cut = quietest(span.start + seconds / 2, span.start + seconds)
            windows.append(Span(span.start, cut))
            span = Span(cut, span.end)
        if windows and span.end - windows[-1].start <= seconds:
            windows[-1] = Span(windows[-1].start, span.end)
        else:
            windows.append(span)
    return windows
