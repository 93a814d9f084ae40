"""Log-mel spectrogram of a long recording, made block by block.

blocks of samples ─ windows of the Fourier transform that lie in them ─ log10 of power in mel bands ─> [M, frames]

The samples are not stored, so two hours take 230 MB. The spectrogram is clamped to 80 dB below the peak of the whole
recording, as in the released code of Whisper; windows are cut from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.features import LogMel
from glassformer.audio.processor import AudioProcessor
from glassformer.audio.read import AudioInput, Samples, audio_blocks

BLOCK_SECONDS = 30  # bounds the memory of a Fourier transform, however long the recording is
PAGE_FRAMES = 120_000
"""Frames that are stored together while a recording is read: 20 minutes of them."""
SILENCE = -10.0
"""log10 of the power of digital silence, as `LogMel` has it."""


class Spectrogram:
    """Log-mel spectrogram of one recording, of any length.

    logs: log10 of the power in each mel band, not scaled. [M, frames]
    frames: how many begin within the recording; the transform's windows around the last ones read zeros
    """

    def __init__(self, extractor: LogMel, blocks: Iterable[Samples]) -> None:
        """Read all blocks of samples, at the extractor's sample rate."""
        self.extractor = extractor
        hop, half = extractor.hop_samples, extractor.window_samples // 2
        step = BLOCK_SECONDS * extractor.sample_rate_hz // hop  # frames made at a time
        frames, buffer, samples = _Frames(), torch.zeros(0), 0
        for block in blocks:
            fresh = torch.from_numpy(np.ascontiguousarray(block))
            if samples == 0 and len(fresh):
                fresh = torch.cat([_mirrored(fresh, half), fresh])
                samples -= len(fresh) - len(block)
            samples += len(fresh)
            buffer = torch.cat([buffer, fresh])
            while len(buffer) >= step * hop + 2 * half:
                frames.append(extractor.log_power(buffer[None, : (step - 1) * hop + 2 * half])[0])
                buffer = buffer[step * hop :]
        self.samples = samples
        tail = torch.cat([buffer, torch.zeros(2 * half + hop)])  # zeros after the end, as in the released code
        frames.append(extractor.log_power(tail[None])[0])
        self.logs = frames.joined()
        self.frames = samples // hop
        self.peak = self.logs.amax()

    @classmethod
    def read(
        cls,
        processor: AudioProcessor,
        sound: AudioInput,
        sample_rate_hz: int | None = None,
        on_block: Callable[[Samples], None] | None = None,
    ) -> Spectrogram:
        """Of a file or samples; errors as `read_audio`.

        Args:
            on_block: also called with each block of samples.
        """
        assert isinstance(processor.extractor, LogMel)

        def blocks() -> Iterable[Samples]:
            for block in audio_blocks(sound, processor.sample_rate_hz, sample_rate_hz):
                if on_block is not None:
                    on_block(block)
                yield block

        return cls(processor.extractor, blocks())

    @property
    def frames_per_second(self) -> int:
        return self.extractor.sample_rate_hz // self.extractor.hop_samples

    @property
    def window_frames(self) -> int:
        """The frames of a whole window, 3000."""
        return self.extractor.samples // self.extractor.hop_samples

    @property
    def duration(self) -> float:
        """Length of the recording in seconds."""
        return self.samples / self.extractor.sample_rate_hz

    def silence_from(self, begin: int) -> int:
        """How many frames of digital silence begin at a frame."""
        for at in range(begin, self.frames, self.window_frames):
            sounds = (self.logs[:, at : min(at + self.window_frames, self.frames)].amax(0) > SILENCE).nonzero()
            if len(sounds):
                return at + int(sounds[0, 0]) - begin
        return self.frames - begin

    def window(self, begin: int, end: int, *, own_peak: bool = False, quiet: int = 0) -> Tensor:
        """The frames from begin to end, scaled, with zeros up to the length of a whole window. [M, window_frames]

        Args:
            own_peak: scale by the loudest frame of the window, in the place of the recording's
            quiet: this many frames of digital silence before the zeros
        """
        logs = self.logs[:, begin : min(end, self.frames)]
        peak = logs.amax() if own_peak else self.peak
        if quiet:
            # The transform's windows around the last frames reach into the silence.
            fading = self.logs[:, begin:] if end >= self.frames else logs
            silence = logs.shape[1] + quiet - fading.shape[1]
            logs = torch.nn.functional.pad(fading, (0, silence), value=SILENCE)[:, : self.window_frames]
        cut = self.extractor.scale(logs, peak)
        return torch.nn.functional.pad(cut, (0, self.window_frames - cut.shape[1]))


class _Frames:
    """Frames that are appended block by block, in pages of many blocks.

    A piece of memory for each block would lie between the larger ones that making a block takes and gives back: the C
    library then finds no room for those of the next block, and takes 4 MB more for each.
    """

    def __init__(self) -> None:
        self._pages: list[Tensor] = []
        self._filled: list[int] = []

    def append(self, part: Tensor) -> None:
        """Add the next frames, `part` [M, frames]."""
        count = part.shape[1]
        if not self._pages or self._filled[-1] + count > self._pages[-1].shape[1]:
            # What is not written yet takes no memory; most recordings have one block, and need no page.
            self._pages.append(part.new_empty(len(part), max(PAGE_FRAMES if self._pages else 0, count)))
            self._filled.append(0)
        begin = self._filled[-1]
        self._pages[-1][:, begin : begin + count] = part
        self._filled[-1] = begin + count

    def joined(self) -> Tensor:
        """All frames side by side; each page is given up once it is copied, so that they never exist twice."""
        joined, begin = self._pages[0].new_empty(len(self._pages[0]), sum(self._filled)), 0
        while self._pages:
            page, count = self._pages.pop(0), self._filled.pop(0)
            joined[:, begin : begin + count] = page[:, :count]
            begin += count
        return joined


def _mirrored(samples: Tensor, count: int) -> Tensor:
    """What the transform reads before the first sample: the recording backwards; zeros where it is too short."""
    before = samples[1 : count + 1].flip(0)
    return torch.cat([torch.zeros(count - len(before)), before])
