"""Batched transcription: windows are cut at silences, and several are decoded at once.

    recording    ▂▆▇▅▁▁▇▆▇▅▇▆▁▁▁▁▁▆▇▅▁▁▃▇▆
    windows      [          ]     [        ]      at most 30 s each; no window sees the text of another
                  └─ batch ─────────────┘
    heard        [      ]         [        ]      where a text ends before its window does,
    rest                [    ]                    the rest is a window of the next batch

It is faster than one window after another, silence is not decoded, and a quiet speaker is not lost after a
loud one, since each window is scaled by itself; but a window does not know the text before it, so names may be spelled
in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from glassformer.speech.alignment import WordAligner
from glassformer.speech.results import Segment, Window
from glassformer.speech.sequential import Step, split_segments
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.voice import Span, cut_windows, loudness, speech_by_energy
from glassformer.speech.window import WindowDecoder

MIN_HEARD, MIN_REST = 0.5, 1.0
"""Seconds to the last timestamp of a window, and from there to its end, from which on the rest is decoded again."""


def speech_windows(spectrogram: Spectrogram, speech: Sequence[Span] | None = None) -> list[Span]:
    """The windows of a recording.

    Args:
        speech: as a detector has found it; None = by energy
    """
    levels = loudness(spectrogram)
    rate = spectrogram.frames_per_second

    def quietest(start: float, end: float) -> float:
        begin = round(start * rate)
        return (begin + int(levels[begin : round(end * rate)].argmin())) / rate

    spans = speech_by_energy(spectrogram) if speech is None else speech
    return cut_windows(spans, spectrogram.window_frames / rate, quietest)


def batched_steps(
    decoder: WindowDecoder,
    spectrogram: Spectrogram,
    windows: Sequence[Span],
    language: str,
    aligner: Callable[[], WordAligner] | None = None,
    previous: Sequence[int] = (),
) -> Iterator[Step]:
    """Decode windows, and the rests of those whose text ends early, in batches of the options' size.

    Returns: a `Step` for each, in order.
    Args:
        aligner: makes one for each window, whose words do not depend on other windows
        previous: tokens before each
    """
    size, rate = decoder.options.batch_size or 1, spectrogram.frames_per_second
    waiting = [(round(span.start * rate), round(span.end * rate)) for span in windows]
    done = dict[int, Step]()  # by where they begin
    while waiting:
        frames, waiting = waiting[:size], waiting[size:]
        quiet = decoder.quiet_frames
        features = [spectrogram.window(begin, end, own_peak=True, quiet=quiet) for begin, end in frames]
        memory = decoder.encode(torch.stack(features), [end - begin for begin, end in frames])
        decoded = decoder.decode(memory, language, previous)
        rests = list[tuple[int, int]]()
        for row, ((begin, end), each) in enumerate(zip(frames, decoded, strict=True)):
            silent, segments, stop = decoder.is_silent(each), list[Segment](), end
            if not silent:
                segments, advance, complete = split_segments(decoder, each, begin / rate, end - begin)
                heard = round(segments[-1].end * rate) if complete else begin + advance
                if begin + MIN_HEARD * rate <= heard <= end - MIN_REST * rate:
                    rests.append((heard + spectrogram.silence_from(heard), end))
                    stop = heard
            window = Window(begin / rate, stop / rate, each.no_speech_prob, each.attempts, silent)
            if aligner is not None and segments:
                one = memory.rows([row])
                segments = aligner().align(one, segments, end - begin, begin / rate, language)
            done[begin] = Step(window, tuple(_within(segments, window)))
        waiting = rests + waiting
        for begin in sorted(begin for begin in done if not waiting or begin < waiting[0][0]):
            yield done.pop(begin)


def _within(segments: Sequence[Segment], window: Window) -> Iterator[Segment]:
    """Segments that have a text, and end with their window at the latest."""
    for segment in segments:
        start, end = min(segment.start, window.end), min(segment.end, window.end)
        if segment.text.strip() and start < end:
            yield replace(segment, start=start, end=end)
