"""HTML page of a transcription: sound, spectrogram, words and cross-attention on one axis of time.

    sound          the file as it is, where it is small, so that the page plays it
    spectrogram    log-mel, one byte a cell            alignment/N   attention of window N: words × frames, each head
    transcript     segments, words, windows, heads, model: JSON

The page is built from web/src/views/sound, as the explorer's standalone page, whose format this is.
"""

from __future__ import annotations

import base64
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.audio.features import LogMel
from glassformer.audio.read import audio_blocks
from glassformer.errors import DataError
from glassformer.explorer.binary_frames import encode
from glassformer.explorer.describe import model_facts, without_places
from glassformer.explorer.standalone_page import frame_block, json_block, page_around
from glassformer.files.atomic import atomic_file, disk_errors
from glassformer.pages import check_html_path
from glassformer.pretrained import PretrainedModel
from glassformer.speech.alignment import FRAMES_PER_SECOND, Alignment, token_starts
from glassformer.speech.alignment_heads import published_heads
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import TimedWord, Transcription
from glassformer.speech.sequential import Step
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.transcribe import Recording, open_recording

SOUND_BYTES = 4_000_000
"""Largest sound that a page carries; another one is played from its file, which the reader chooses."""
MEDIA_TYPES = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".mp4": "audio/mp4",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".webm": "audio/webm",
}
"""What browsers play."""
POOL = 2
"""Frames of attention that are one column of its picture."""
DECADES = 8.0
"""Range of the spectrogram below its peak: 80 dB."""
COLUMNS = 60_000
"""Most columns of the spectrogram: twenty minutes at 50 a second."""
HEADS_SECONDS = 300.0
"""Of recordings up to so long, the page holds the attention of each alignment head; of others, their mean."""
WEIGHTS_BYTES = 24_000_000
"""Attention that a page holds, before compression; later windows are without."""


class TranscriptionPage:
    """A recording that is transcribed with word times, window by window, and the page that shows how.

    page = TranscriptionPage(model, "lecture.mp3", options)
    for step in page:
        print(step.segments)
    page.save("lecture.html")
    """

    def __init__(self, model: PretrainedModel, sound: str | Path, options: TranscriptionOptions) -> None:
        """Args: options: with word times. Raises: as `open_recording`; PageMissingError: the page's files."""
        self._around = page_around()
        self.model, self.sound, self.options = model, Path(sound), options
        self.recording = open_recording(model, self.sound, options)
        if isinstance(self.recording, Recording):
            self.recording.on_alignment = self._keep
        self._alignments: list[bytes] = []
        self._heads: tuple[tuple[int, int], ...] = ()
        self._left = WEIGHTS_BYTES

    def __iter__(self) -> Iterator[Step]:
        """Transcribe: a step for each window."""
        yield from self.recording

    @property
    def transcription(self) -> Transcription:
        """All steps so far."""
        return self.recording.transcription

    def _keep(self, alignment: Alignment) -> None:
        """Pack the attention of a window, while the page stays small."""
        self._heads = alignment.heads
        weights = alignment.weights
        mean = weights.mean(0, keepdim=True)
        shown = torch.cat([mean, weights]) if self.recording.duration <= HEADS_SECONDS else mean
        rows = _rows(alignment)
        lengths = [count for _, count in rows]
        frame = encode(
            "alignment",
            {
                "weights": _bytes(_pooled(_by_word(shown, lengths), POOL)),
                "paths": torch.tensor([_word_starts(each, lengths) for each in shown]).numpy().astype("u4"),
            },
            {
                "begin": alignment.begin,
                "rate": FRAMES_PER_SECOND,
                "pool": POOL,
                "words": [[word.word, word.start] for word, _ in rows],
            },
        )
        self._left -= len(frame)
        if self._left >= 0:
            self._alignments.append(frame)

    def parts(self) -> Iterator[str]:
        """The HTML in pieces."""
        before, after = self._around
        yield before
        yield frame_block("spectrogram", self._spectrogram())
        for number, frame in enumerate(self._alignments):
            yield frame_block(f"alignment/{number}", frame)
        kind = MEDIA_TYPES.get(self.sound.suffix.lower())
        embedded = kind is not None and self.sound.stat().st_size <= SOUND_BYTES
        if embedded:
            data = base64.b64encode(self.sound.read_bytes()).decode()
            yield f'<script type="application/octet-stream" id="sound" data-media="{kind}">{data}</script>\n'
        yield json_block("transcript", self._description(embedded))
        yield after

    def save(self, path: str | Path) -> int:
        """Write the page atomically. Returns: its size in bytes. Raises: DataError: it cannot be written."""
        path = check_html_path(path)
        with disk_errors(path, DataError):
            with atomic_file(path.resolve()) as stream:
                stream.writelines(part.encode("utf-8", "replace") for part in self.parts())
            return path.stat().st_size

    def _spectrogram(self) -> bytes:
        """Log-mel spectrogram, high bands first, as bytes from 80 dB below the peak up. [M, columns]"""
        if isinstance(self.recording, Recording):
            source = self.recording.spectrogram
        else:  # the model hears samples; the eye sees more in a spectrogram
            extractor = LogMel()
            source = Spectrogram(extractor, audio_blocks(self.sound, extractor.sample_rate_hz))
        pool = 2 * -(-source.frames // (2 * COLUMNS))
        levels = (_pooled(source.logs[:, : max(1, source.frames)], pool) - source.peak) / DECADES + 1
        values = (levels.clamp(0, 1) * 255).round().to(torch.uint8).flip(0)
        return encode("spectrogram", {"values": values}, {"rate": source.frames_per_second / pool})

    def _description(self, embedded: bool) -> dict[str, Any]:
        done, facts = self.transcription.to_dict(), without_places(model_facts(self.model))
        for segment in done["segments"]:
            del segment["tokens"]
        options, network = self.options, self.model.network
        document: dict[str, Any] = {
            **done,
            "name": self.sound.name,
            "embedded": embedded,
            "windowed": isinstance(self.recording, Recording),
            "bytes": self.sound.stat().st_size,
            "model": {key: value for key, value in asdict(facts).items() if key != "cli_arguments"},
            "command": shlex.join(
                ["glassformer", "transcribe", *facts.cli_arguments, self.sound.name, "--html", "page.html"]
            ),
            "options": self._changed_options(),
            "thresholds": {
                name: getattr(options, f"{name}_threshold") for name in ("compression_ratio", "logprob", "no_speech")
            },
            "alignments": len(self._alignments),
            "heads": None,
        }
        if self._heads:
            crosses = [block.cross for block in network.stacks()["target"]]
            document["heads"] = {
                "pairs": [list(pair) for pair in self._heads],
                "layers": len(crosses),
                "heads": max(cross.spec.heads for cross in crosses if cross is not None),
                "published": published_heads(self.model) is not None,
            }
        return document

    def _changed_options(self) -> dict[str, str]:
        """The options that are not as they come, for the page's foot."""
        default = TranscriptionOptions(word_timestamps=True)
        given = {each.name: getattr(self.options, each.name) for each in fields(default)}
        changed = {name: value for name, value in given.items() if value != getattr(default, name)}
        return {name: "given" if name == "language_model" else str(value) for name, value in changed.items()}


def _by_word(weights: Tensor, lengths: Sequence[int]) -> Tensor:
    """The largest weight of each word's tokens. [heads, T + 1, frames] → [heads, words, frames]"""
    return torch.stack([part.amax(1) for part in weights[:, :-1].split(list(lengths), 1)], 1)


def _word_starts(weights: Tensor, lengths: Sequence[int]) -> list[int]:
    """The frame at which each word, and then the end, begins on the path through the weights. [T + 1, frames]"""
    starts = token_starts(-weights.double().numpy())
    edges = [0]
    for length in lengths:
        edges.append(edges[-1] + length)
    return [starts[edge] for edge in edges]


def _pooled(values: Tensor, width: int) -> Tensor:
    """The largest of so many neighbours along the last axis."""
    short = -values.shape[-1] % width
    padded = torch.nn.functional.pad(values, (0, short), value=-torch.inf)
    columns: Tensor = padded.unflatten(-1, (-1, width))
    return columns.amax(-1)


def _bytes(weights: Tensor) -> Tensor:
    """Positive weights as bytes; each head's largest is 255."""
    positive = weights.clamp(min=0)
    return (positive / positive.amax((1, 2), keepdim=True).clamp(min=1e-9) * 255).round().to(torch.uint8)


def _rows(alignment: Alignment) -> list[tuple[TimedWord, int]]:
    """The words of a window, each with its number of tokens: punctuation belongs to a word."""
    words = [word for segment in alignment.segments for word in segment.words or ()]
    ends = list(accumulate(len(word.word) for word in words))
    counts, at = [0] * len(words), 0
    for text, count in alignment.pieces:
        counts[min(bisect_right(ends, at), len(words) - 1)] += count
        at += len(text)
    return [(word, count) for word, count in zip(words, counts, strict=True) if count]
