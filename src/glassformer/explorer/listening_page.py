"""HTML page of sounds: several to an example, heard in turn on one axis of time, with what they look like.

The page is built from web/src/views/listen, as the explorer's standalone page, whose format this is:

    script data-key="wav/0/1"          the second sound of the first example, a wav file in base64
    script data-key="mel/0/1"          its log-mel spectrogram, a frame · codes/0/1, attention/0/1: where it has them
    script id="listening"              all else
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.features import MAX_HZ, LogMel
from glassformer.audio.listening import AttentionOverTime, Sound, SoundExample
from glassformer.errors import DataError
from glassformer.explorer import binary_frames
from glassformer.explorer.standalone_page import (
    CAP_BYTES,
    data_element,
    frame_block,
    json_block,
    notebook_frame,
    page_around,
)
from glassformer.reports.page import write_page_parts
from glassformer.reports.report import InNotebook, LivePage
from glassformer.reports.table import Table
from glassformer.version import __version__

RANGE = 8.0
"""log10 of the range of a spectrogram: 80 dB below the loudest cell of an example."""
BINS = 80
"""Mel bins of a spectrogram, as Whisper reads 80: the height of the picture in pixels."""


class ListeningPage(InNotebook):
    """A page of sounds, streamed, so that its examples need not be in RAM at once.

        ListeningPage(examples, "Dry and wet").save("page.html")

    Args:
        about: a sentence or two
        command: that made it
        cap_bytes: of sounds at most; an example that would exceed it is left out, and `left_out` has its title
    Raises: PageMissingError: this installation lacks the page's files.
    """

    def __init__(
        self,
        examples: Iterable[SoundExample],
        title: str,
        *,
        about: str = "",
        command: str = "",
        cap_bytes: int = CAP_BYTES,
    ) -> None:
        self.examples, self.title, self.about, self.command = examples, title, about, command
        self.cap_bytes = cap_bytes
        self.left_out: list[str] = []
        self._around = page_around("listen")

    def __repr__(self) -> str:
        """What a notebook stores instead of the page, whose sounds it has no room for."""
        return f"{self.title}: run the cell to hear and see it"

    def parts(self) -> Iterator[str]:
        """The HTML in pieces. Raises: DataError: no example, or none for which there is room."""
        before, after = self._around
        yield before
        entries: list[dict[str, Any]] = []
        self.left_out, size = [], 0
        for example in self.examples:
            needed = sum(2 * len(sound.samples) * 4 // 3 for sound in example.sounds)
            if size + needed > self.cap_bytes:
                self.left_out.append(example.title)
                continue
            size += needed
            yield from _blocks(example, len(entries))
            entries.append(_entry(example))
        if not entries:
            raise DataError(
                f"the sounds are larger than the {self.cap_bytes / 1e6:g} MB that a page holds; cut them, or write "
                "wav files (--output FOLDER)"
                if self.left_out
                else "there are no sounds to listen to"
            )
        yield json_block(
            "listening",
            {
                "title": self.title,
                "about": self.about,
                "command": self.command,
                "version": __version__,
                "examples": entries,
                "left_out": self.left_out,
            },
        )
        yield after

    def save(self, path: str | Path) -> int:
        """Write the page atomically. Returns: its size in bytes. Raises: DataError: as `parts`, or no such path."""
        return write_page_parts(path, self.parts())

    def notebook_html(self) -> str:
        """The page in a frame."""
        return notebook_frame(self._html())

    def live_page(self) -> LivePage:
        """The page in a cell; a notebook is saved with the names of its sounds."""
        return LivePage(html=self._html, still=lambda: self._table().html())

    def _html(self) -> str:
        if isinstance(self.examples, Iterator):
            self.examples = list(self.examples)  # the page may be shown again, or saved
        return "".join(self.parts())

    def _table(self) -> Table:
        rows = [[x.title, ", ".join(sound.name for sound in x.sounds)] for x in self.examples]
        return Table(["example", "sounds"], rows, f"{self.title}: run the cell to hear them", left=2)


def _entry(example: SoundExample) -> dict[str, Any]:
    """What the page says of an example."""
    return {
        "title": example.title,
        "about": example.about,
        "facts": [list(fact) for fact in example.facts.items()],
        "sounds": [
            {
                "name": sound.name,
                "about": sound.about,
                "rate": sound.sample_rate_hz,
                "coded": sound.codes is not None,
                "heads": None if sound.attention is None else list(sound.attention.heads),
                "marks": [
                    {"label": mark.label, "start": mark.start_s, "end": mark.end_s, "pitch": mark.pitch}
                    for mark in sound.marks
                ],
            }
            for sound in example.sounds
        ],
    }


def _blocks(example: SoundExample, number: int) -> Iterator[str]:
    """The sounds of an example, their spectrograms on one scale of loudness, and their codes."""
    extractors = [_extractor(sound.sample_rate_hz) for sound in example.sounds]
    logs = [log_mel(sound, extractor) for sound, extractor in zip(example.sounds, extractors, strict=True)]
    peak = max(float(each.max()) for each in logs)
    for at, (sound, each, extractor) in enumerate(zip(example.sounds, logs, extractors, strict=True)):
        key = f"{number}/{at}"
        data = base64.b64encode(sound.wav()).decode()
        yield data_element(data, data_key=f"wav/{key}")
        values = ((each - peak) / RANGE + 1.0).clamp(0.0, 1.0).mul(255).round().to(torch.uint8)
        rate = sound.sample_rate_hz / extractor.hop_samples
        fields = {"rate": rate, "top": min(MAX_HZ, sound.sample_rate_hz / 2)}
        yield frame_block(f"mel/{key}", binary_frames.encode("spectrogram", {"values": values}, fields))
        if sound.codes is not None:
            yield frame_block(f"codes/{key}", codes_frame(sound))
        if sound.attention is not None:
            yield frame_block(f"attention/{key}", attention_frame(sound.attention))


def codes_frame(sound: Sound) -> bytes:
    """Codes, and their shades as bytes where they have some."""
    arrays = {"codes": np.asarray(sound.codes).astype(np.uint32)}
    if sound.shades is not None:
        arrays["shades"] = (np.asarray(sound.shades) * 255).round().clip(0, 255).astype(np.uint8)
    return binary_frames.encode("codes", arrays, {"rate": sound.frame_rate_hz})


def attention_frame(attention: AttentionOverTime) -> bytes:
    """Attention as bytes, 255 · √(p / largest p of the head): roots, so that what is faint is seen too."""
    probs = torch.from_numpy(np.asarray(attention.probs))
    most = probs.amax((1, 2)).clamp(min=1e-12)
    values = (probs / most[:, None, None]).sqrt().mul(255).round().to(torch.uint8)
    fields = {"rate": attention.frame_rate_hz, "opening": attention.opening, "sentence": attention.sentence}
    return binary_frames.encode("attention", {"values": values, "most": most}, fields)


def _extractor(rate_hz: int) -> LogMel:
    """Windows of 25 ms, one every 10 ms."""
    return LogMel(
        sample_rate_hz=rate_hz, bins=BINS, window_samples=2 * round(0.0125 * rate_hz), hop_samples=rate_hz // 100
    )


def log_mel(sound: Sound, extractor: LogMel) -> Tensor:
    """log10 of the power in mel bands, with silence around the sound. [M, frames]"""
    half, hop = extractor.window_samples // 2, extractor.hop_samples
    samples = torch.from_numpy(np.asarray(sound.samples))
    frames = math.ceil(len(samples) / hop)
    after = (frames - 1) * hop + half - len(samples)
    return extractor.log_power(torch.nn.functional.pad(samples, (half, max(after, 0)))[None])[0][:, :frames]
