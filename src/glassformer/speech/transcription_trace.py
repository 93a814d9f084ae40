"""A transcription with all that a page draws of it: spectrogram, attention along which words got their times, numbers.

    spectrogram    log-mel, one byte a cell            alignments[N]   attention of window N: words × frames, each head
    description    segments, words, windows, heads, model: JSON
    session(N)     the pass in which the decoder reads window N and its text, to look inside

The frames are those that web/src/views/sound draws.
"""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.audio.features import LogMel
from glassformer.audio.read import audio_blocks
from glassformer.core.flow import Batch
from glassformer.errors import DataError
from glassformer.explorer.binary_frames import encode
from glassformer.explorer.describe import model_facts, without_places
from glassformer.explorer.sound import transcript_parts
from glassformer.files import as_path
from glassformer.inspect.inputs import SessionInput, media_input
from glassformer.inspect.interruption import before_each_block
from glassformer.inspect.outputs import OutputNames
from glassformer.inspect.session import Progress, Session
from glassformer.inspect.tokens import generated_tokens
from glassformer.loaded_model import LoadedModel
from glassformer.reports.page import write_page_parts
from glassformer.reports.report import InNotebook, LivePage
from glassformer.speech.alignment import FRAMES_PER_SECOND, Alignment, token_starts
from glassformer.speech.alignment_heads import published_heads
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import TimedWord, Transcription
from glassformer.speech.sequential import Step
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.transcribe import Recording, open_recording

POOL = 2
"""Frames of attention that are one column of its picture."""
DECADES = 8.0
"""Range of the spectrogram below its peak: 80 dB."""
COLUMNS = 60_000
"""Most columns of the spectrogram: twenty minutes at 50 a second."""
HEADS_SECONDS = 300.0
"""Of recordings up to so long, the attention of each alignment head is kept; of others, their mean."""
WEIGHTS_BYTES = 24_000_000
"""Attention that is kept; later windows are without."""


@dataclass(frozen=True)
class _WindowText:
    """What the decoder reads of a window: where it begins, in seconds; its frames, and its ids."""

    begin: float
    size: int
    ids: tuple[int, ...]


class TranscriptionTrace(InNotebook):
    """A recording that is transcribed with word times, window by window, and what a page draws of it.

    At the end of a notebook's cell, its page.

    trace = TranscriptionTrace(model, "lecture.mp3", options)
    for step in trace:
        print(step.segments)
    trace.session(0).head(2, 3, "cross")
    trace.save("lecture.html")

    alignments: a frame for each window whose attention is kept, in their order
    """

    def __init__(self, model: LoadedModel, sound: str | Path, options: TranscriptionOptions) -> None:
        """Args:
            options: with word times.
        Raises: as `open_recording`.
        """
        self.model, self.sound, self.options = model, as_path(sound, "sound"), options
        self.recording = open_recording(model, self.sound, options)
        if isinstance(self.recording, Recording):
            self.recording.on_alignment = self._keep
        self.alignments: list[bytes] = []
        self._texts: list[_WindowText] = []
        self._heads: tuple[tuple[int, int], ...] = ()
        self._left = WEIGHTS_BYTES

    def __iter__(self) -> Iterator[Step]:
        """Transcribe: a step for each window."""
        yield from self.recording

    def run(self, progress: Callable[[float], None], check: Callable[[], None]) -> None:
        """Transcribe to the end.

        Args:
            progress: called after each window with the seconds that are done
            check: called before each block of the network; what it raises ends the transcription
        """
        with before_each_block(self.model.network, check):
            for step in self:
                progress(step.window.end)

    @property
    def duration(self) -> float:
        """Of the recording, in seconds."""
        return self.recording.duration

    @property
    def transcription(self) -> Transcription:
        return self.recording.transcription

    def _keep(self, alignment: Alignment) -> None:
        """Pack the attention of a window, while all of it together stays small."""
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
                # Where the first token of each word is predicted: the query that looks for its sound.
                "queries": [alignment.prompt_length - 1 + before for before in accumulate([0, *lengths[:-1]])],
            },
        )
        self._left -= len(frame)
        if self._left >= 0:
            self.alignments.append(frame)
            self._texts.append(_WindowText(alignment.begin, alignment.size, alignment.ids))

    # ------------------------------------------------------------------------------------------------ for the page

    def spectrogram(self) -> bytes:
        """Log-mel spectrogram, high bands first, as bytes from 80 dB below the peak up. [M, columns]"""
        if isinstance(self.recording, Recording):
            source = self.recording.spectrogram
        else:  # the model hears samples; the eye sees more in a spectrogram
            extractor = LogMel()
            source = Spectrogram(extractor, audio_blocks(self.sound, extractor.sample_rate_hz))
        pool = 2 * max(1, -(-source.frames // (2 * COLUMNS)))
        levels = (_pooled(source.logs[:, : max(1, source.frames)], pool) - source.peak) / DECADES + 1
        values = (levels.clamp(0, 1) * 255).round().to(torch.uint8).flip(0)
        return encode("spectrogram", {"values": values}, {"rate": source.frames_per_second / pool})

    def description(self, *, playable: bool) -> dict[str, Any]:
        """What the page says of the transcription.

        Args:
            playable: whether it has the sound too
        """
        done, facts = self.transcription.to_dict(), without_places(model_facts(self.model))
        for segment in done["segments"]:
            del segment["tokens"]
        options, network = self.options, self.model.network
        document: dict[str, Any] = {
            **done,
            "name": self.sound.name,
            "playable": playable,
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
            "alignments": len(self.alignments),
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

    def notebook_html(self) -> str:
        """The segments as a table."""
        return self.transcription.notebook_html()

    def live_page(self) -> LivePage:
        """The page of the transcription in a cell, once what is left of the recording is transcribed."""

        def html() -> str:
            for _ in self:
                pass
            return "".join(transcript_parts(self))

        return LivePage(html=html, still=self.notebook_html)

    def save(self, path: str | Path) -> int:
        """Write the page of the transcription: sound, spectrogram, words and cross-attention on one axis of time.

        Returns: its size in bytes.
        Raises: DataError: it cannot be written. PageMissingError: the page's files.
        """
        return write_page_parts(path, transcript_parts(self))

    # --------------------------------------------------------------------------------------------- to look inside

    def session(self, window: int, *, progress: Progress | None = None) -> Session:
        """Inspect the pass from which the word times of a window come: its whole sound, and its text at once.

        Args:
            window: number of its alignment
        Raises: DataError: there is no such window.
        """
        if not isinstance(self.recording, Recording) or not 0 <= window < len(self._texts):
            raise DataError(
                f"window {window} cannot be looked into; {len(self._texts)} of this recording have attention"
            )
        text, spectrogram, network = self._texts[window], self.recording.spectrogram, self.model.network
        begin = round(text.begin * spectrogram.frames_per_second)
        features = spectrogram.window(begin, begin + text.size)[None].to(self.model.device)
        batch = Batch(input_features=features, decoder_input_ids=torch.tensor([text.ids], device=self.model.device))
        times = {
            stream: [f"{text.begin + i / FRAMES_PER_SECOND:.2f} s" for i in range(len(labels))]
            for stream, labels in network.token_labels(batch).items()
        }
        sound = media_input(str(self.sound), batch, times)
        tokens = generated_tokens(self.model.tokenizer, list(text.ids))
        streams = {**sound.streams, "target": tokens}
        inputs = SessionInput(sound.texts, batch, streams, partial(OutputNames.of, self.model))
        return Session(network, inputs, progress=progress)


def transcriber(model: LoadedModel) -> Callable[[str], TranscriptionTrace] | None:
    """What makes the trace of a file, with the usual options; None for a model that does not transcribe."""
    if model.task != "automatic-speech-recognition":
        return None
    return lambda sound: TranscriptionTrace(model, sound, TranscriptionOptions(word_timestamps=True))


def _by_word(weights: Tensor, lengths: Sequence[int]) -> Tensor:
    """The largest weight of each word's tokens. [heads, T + 1, frames] → [heads, words, frames]"""
    return torch.stack([part.amax(1) for part in weights[:, :-1].split(list(lengths), 1)], 1)


def _word_starts(weights: Tensor, lengths: Sequence[int]) -> list[int]:
    """The frame at which each word, and then the end, begins on the path through the weights. [T + 1, frames]"""
    starts = token_starts(-weights.double().numpy())
    return [starts[edge] for edge in accumulate([0, *lengths])]


def _pooled(values: Tensor, width: int) -> Tensor:
    """The largest of this many neighbours along the last axis."""
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
