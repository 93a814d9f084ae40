"""What tasks over codes share: recordings become codes by a codec, once; a window of them becomes delayed ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.code_patterns import CodePattern
from glassformer.audio.listening import Sound
from glassformer.core.flow import Batch, Flow
from glassformer.core.losses import IGNORE_INDEX
from glassformer.engine.codec import decoded_sound, encode_audio, require_codec
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import is_number, safe_repr
from glassformer.generation.audio_codes import code_pattern, longest_window
from glassformer.loaded_model import LoadedModel
from glassformer.model import load
from glassformer.models._codec import AudioCodec
from glassformer.models._seq2seq import shift_right
from glassformer.tasks.columns import RowTask
from glassformer.tasks.metrics.metric import Metric, PerplexityMetric
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.transcribe.sounds import RowSounds
from glassformer.tasks.types import Dataset, Example, MicroBatch


class CodesTask(RowTask):
    """Recordings as the codes of an audio codec, of which another window is drawn each time.

    Args:
        codec: a folder or Hub name, the codec that makes the codes
        seconds: of a window; None = as many as the model reads
        folder: of the audio files; None = that of the table
        columns: role → column, where it has another name
    Raises: ConfigError: no codec, one of other codebooks than the model's, or no such window.
    """

    HEAD = "text-to-audio"
    READS_TEXT = False
    REQUIRES = "a recording is needed"
    SOUNDS: ClassVar[tuple[str, ...]]
    """The roles whose columns are recordings; the model has the codebooks of each, one after the other."""

    def __init__(
        self,
        model: LoadedModel,
        *,
        codec: str,
        seconds: float | None = None,
        folder: str | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, columns)
        self.codec_model = load(codec)
        self.codec = _require_plain(self.codec_model, codec)
        self.pattern, self.folder = code_pattern(model.network), folder
        if self.pattern != code_layout(self.codec, len(self.SOUNDS)):
            times = f"{len(self.SOUNDS)} times " if len(self.SOUNDS) > 1 else ""
            raise ConfigError(
                f"the model reads {self.pattern.books} codebooks of {self.pattern.entries} codes, and {codec} makes "
                f"{times}{self.codec.spec.quantizer.books} of {self.codec.spec.quantizer.entries}"
            )
        self.rate_hz, self.frame_rate_hz = self.codec.spec.sample_rate_hz, self.codec.spec.frame_rate_hz
        longest = longest_window(model.network)
        frames = longest if seconds is None else round(_number(seconds) * self.frame_rate_hz)
        if not 1 <= frames <= longest:
            raise ConfigError(
                f"seconds is {seconds}; the model reads windows of 1 to {longest} frames, which are "
                f"{longest / self.frame_rate_hz:.2f} seconds at most"
            )
        self.window = frames
        self.how = {"codec": self.codec.fingerprint(), "rate": self.rate_hz}

    @classmethod
    def head_config(
        cls, rows: Dataset, config: Mapping[str, Any], *, own: bool, columns: Mapping[str, str] | None, options: Any
    ) -> dict[str, Any]:
        if not isinstance(name := dict(options or {}).get("codec"), str):
            raise ConfigError(
                f"codec is {safe_repr(name)}; name the audio codec that makes the codes: "
                "task_options: {codec: FOLDER}, such as package:glassformer/checkpoints/guitar_codec"
            )
        codec = _require_plain(load(name), name)
        pattern, rate = code_layout(codec, len(cls.SOUNDS)), codec.spec.frame_rate_hz
        special = {"pad_token_id": pattern.padding, "bos_token_id": pattern.padding}
        sizes = {"num_codebooks": pattern.books, "vocab_size": pattern.entries, "frame_rate_hz": rate}
        return {**config, **sizes, **special}

    def files(self, rows: Dataset) -> list[RowFiles]:
        return [self.sounds(rows, role).files for role in self.SOUNDS]

    def sounds(self, rows: Dataset, role: str) -> RowSounds:
        """The recordings of a role, at the codec's sample rate."""
        return RowSounds(rows, self.columns[role], self.folder, self.rate_hz)

    def codes_of(self, samples: np.ndarray) -> np.ndarray:
        """The codes of a recording. [samples] → [T, K] int32"""
        codes: np.ndarray = encode_audio(self.codec, torch.from_numpy(samples), self.rate_hz).codes.T.cpu().numpy()
        return codes.astype(np.int32)

    def length(self, example: Example) -> int:
        return min(len(example["labels"]), self.window) + self.pattern.books

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        """A window, wherever it begins; the same of all recordings of the example."""
        frames = len(example["labels"])
        start = int(draw.integers(max(frames - self.window, 0) + 1))
        return {name: codes[start : start + self.window] for name, codes in example.items()}

    def delayed(self, examples: Sequence[Example]) -> Tensor:
        """Windows of codes as delayed ids, padded. [B, T + K - 1, K]"""
        codes = [torch.from_numpy(self.all_codes(example)).T for example in examples]
        ids = [self.pattern.tokens(each) for each in codes]
        even = torch.full((len(ids), max(map(len, ids)), self.pattern.books), self.pattern.padding)
        for row, own in zip(even, ids, strict=True):
            row[: len(own)] = own
        return even

    def delayed_inputs(self, examples: Sequence[Example]) -> Tensor:
        """The ids that a decoder reads, before they are shifted. [B, T + K - 1, K]"""
        return self.delayed(examples)

    def all_codes(self, example: Example) -> np.ndarray:
        """The codes of an example that a position stands for. [T, K]"""
        return np.asarray(example["labels"])

    def labels(self, examples: Sequence[Example], flow: Flow) -> Tensor:
        """Windows of codes as labels: delayed ids, -100 where no code is. [B, T + K - 1, K]"""
        ids = self.delayed(examples)
        return ids.masked_fill(ids == self.pattern.padding, IGNORE_INDEX)

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        """What a decoder reads to predict codes: the padding id, then every step but the last. [B, T, K]"""
        ids = self.delayed_inputs(examples)
        return Batch(input_ids=shift_right(ids, self.pattern.padding, self.pattern.padding)), Flow()

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        batch, flow = self.collate_inputs(examples)
        tokens = sum(len(example["labels"]) for example in examples)
        return MicroBatch(batch, flow, self.labels(examples, flow), tuple(indices), tokens)

    def decoded(self, name: str, codes: Tensor, **more: Any) -> Sound:
        """The sound of codes [K, T], to be listened to."""
        return decoded_sound(self.codec, name, codes, **more)

    def metric(self) -> Metric:
        # A validation scores one window of each recording; the report of a language model scores whole ones.
        return PerplexityMetric(self.head, prefix="window_")


def _require_plain(model: LoadedModel, name: str) -> AudioCodec:
    """The codec whose codes are all that a sound is made of. Raises: UnsupportedError: it is none, or another one."""
    codec = require_codec(model.network)
    if codec.spec.normalises:
        raise UnsupportedError(
            f"{name} normalises loudness, which its codes do not hold, so no model of its codes can make sound; take a "
            "codec without: a 'dac' model, or an 'encodec' one with normalize: false, as those of 24 and 32 kHz"
        )
    return codec


def code_layout(codec: AudioCodec, recordings: int = 1) -> CodePattern:
    """How a decoder reads the codes of a codec, of this many recordings side by side."""
    quantizer = codec.spec.quantizer
    return CodePattern(kind="delayed", books=recordings * quantizer.books, entries=quantizer.entries)


def _number(seconds: object) -> float:
    if not is_number(seconds):
        raise ConfigError(f"seconds is {safe_repr(seconds)}; it must be a number")
    return float(seconds)
