"""Sequential transcription: windows one after another; the last timestamp of each says where the next one begins.

Digital silence there is skipped: a window begins with a sound.

    0 s                        30 s
    [ segment | segment | cut off ]
                        [ segment | segment | … ]         the cut segment is decoded again, as a whole
                        24.6 s

Source: Radford et al. 2022, section 3.8 and 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from glassformer.core.flow import EncoderOutput
from glassformer.speech.alignment import WordAligner
from glassformer.speech.results import Segment, Window
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.vocabulary import SECONDS_PER_TIMESTAMP, text_ids
from glassformer.speech.voice import MARGIN
from glassformer.speech.window import Decoded, WindowDecoder

FRAMES_PER_TIMESTAMP = 2  # a frame of the spectrogram is 10 ms, a timestamp 20 ms
MIN_PAUSE = 1.0
"""Seconds of digital silence at the beginning of a window that are skipped."""
RESET_TEMPERATURE = 0.5
"""Above this temperature a text is so uncertain that the next window does not see it."""


@dataclass
class WindowProgress:
    """How far a transcription is.

    frame: where the next window begins
    tokens: of all text so far
    seen_from: the next window sees those from here
    """

    frame: int = 0
    tokens: list[int] = field(default_factory=list)
    seen_from: int = 0


@dataclass(frozen=True)
class Step:
    """What one window gave."""

    window: Window
    segments: tuple[Segment, ...]


class SequentialTranscription:
    """Iterate over the windows of a recording: a `Step` for each. `progress` is where it stands."""

    def __init__(
        self,
        decoder: WindowDecoder,
        spectrogram: Spectrogram,
        language: str,
        aligner: WordAligner | None = None,
        progress: WindowProgress | None = None,
    ) -> None:
        self.decoder = decoder
        self.spectrogram = spectrogram
        self.language = language
        self.aligner = aligner
        self.progress = progress or WindowProgress(tokens=prompt_tokens(decoder))

    def __iter__(self) -> Iterator[Step]:
        while self.progress.frame < self.spectrogram.frames:
            yield self._step()

    def _step(self) -> Step:
        spectrogram, progress = self.spectrogram, self.progress
        begin = progress.frame
        size = min(spectrogram.window_frames, spectrogram.frames - begin)
        rate = spectrogram.frames_per_second
        if pause := pause_at(spectrogram, begin, like_openai=self.decoder.options.like_openai):
            progress.frame += pause
            return Step(Window(begin / rate, (begin + pause) / rate, 1.0, (), skipped=True), ())
        features = spectrogram.window(begin, begin + size, quiet=self.decoder.quiet_frames)
        memory = self.decoder.encode(features[None], [size])
        decoded = self.decoder.decode(memory, self.language, progress.tokens[progress.seen_from :])[0]
        silent = self.decoder.is_silent(decoded)
        window = Window(begin / rate, (begin + size) / rate, decoded.no_speech_prob, decoded.attempts, silent)
        if silent:
            progress.frame += size
            return Step(window, ())
        segments, advance, complete = split_segments(self.decoder, decoded, begin / rate, size)
        if self.aligner is not None:
            segments = self._aligned(memory, segments, size, begin / rate)
            # The window goes on after the last word, rather than after the last timestamp.
            ends = [word.end for segment in segments for word in segment.words or ()]
            if not complete and ends and ends[-1] > begin / rate:
                advance = round(ends[-1] * rate) - begin
        segments = [segment for segment in segments if segment.text.strip() and segment.start < segment.end]
        progress.frame += max(advance, 1)
        progress.tokens += [token for segment in segments for token in segment.tokens]
        if not self.decoder.options.condition_on_previous_text or decoded.attempt.temperature > RESET_TEMPERATURE:
            progress.seen_from = len(progress.tokens)
        return Step(window, tuple(segments))

    def _aligned(self, memory: EncoderOutput, segments: list[Segment], size: int, begin: float) -> list[Segment]:
        assert self.aligner is not None
        return self.aligner.align(memory, segments, size, begin, self.language)


def pause_at(spectrogram: Spectrogram, begin: int, *, like_openai: bool) -> int:
    """Frames of digital silence that are skipped, so that a window begins at its first sound.

    In silence a small model hears a word, and from a window that begins with it a text may come at the wrong time, or
    again and again. openai-whisper cuts its windows through silence: `like_openai` skips whole windows alone.
    """
    silence, size = spectrogram.silence_from(begin), min(spectrogram.window_frames, spectrogram.frames - begin)
    if silence >= size:
        return size
    rate = spectrogram.frames_per_second
    return 0 if like_openai or silence < MIN_PAUSE * rate else silence - round(MARGIN * rate)


def prompt_tokens(decoder: WindowDecoder) -> list[int]:
    """The tokens of the text before the first window."""
    text = decoder.options.initial_prompt
    if text is None:
        return []
    return text_ids(decoder.model.tokenizer, " " + text.strip())


def split_segments(
    decoder: WindowDecoder, decoded: Decoded, begin: float, size: int
) -> tuple[list[Segment], int, bool]:
    """Cut the tokens of a window at its timestamps.

    Args:
        begin: of the window, in seconds
        size: of the recording in it, in frames
    Returns: segments, how many frames further the next window begins, and whether the last segment has its end.
    """
    vocabulary, tokens = decoder.vocabulary, decoded.tokens
    stamps = torch.tensor([token >= vocabulary.first_timestamp for token in tokens], dtype=torch.bool)
    cuts = ((stamps[:-1] & stamps[1:]).nonzero()[:, 0] + 1).tolist()  # between the two timestamps of a pair
    complete = len(tokens) > 1 and stamps[-2:].tolist() == [False, True]  # the last one ends at its own timestamp

    def segment(part: Sequence[int], start: float, end: float) -> Segment:
        attempt = decoded.attempt
        return Segment(
            start=begin + start,
            end=begin + end,
            text=decoder.text(part),
            tokens=tuple(part),
            temperature=attempt.temperature,
            avg_logprob=attempt.avg_logprob,
            compression_ratio=attempt.compression_ratio,
            no_speech_prob=decoded.no_speech_prob,
        )

    if cuts:
        edges = [0, *cuts, len(tokens)] if complete else [0, *cuts]
        parts = [tokens[left:right] for left, right in pairwise(edges)]
        segments = [segment(part, vocabulary.seconds(part[0]), vocabulary.seconds(part[-1])) for part in parts]
        last = tokens[edges[-1] - 1] - vocabulary.first_timestamp
        return segments, size if complete else last * FRAMES_PER_TIMESTAMP, complete
    end = size / FRAMES_PER_TIMESTAMP * SECONDS_PER_TIMESTAMP
    named = [token for token in tokens if token > vocabulary.first_timestamp]
    return [segment(tokens, 0.0, vocabulary.seconds(named[-1]) if named else end)], size, complete
