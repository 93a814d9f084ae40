"""Transcribe one recording: choose the method by the model and the options, and collect its segments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from glassformer.audio.features import LogMel
from glassformer.audio.processor import AudioProcessor
from glassformer.audio.read import AudioInput
from glassformer.engine.malloc import keep_freed_memory
from glassformer.engine.prepare import prepare_plain
from glassformer.errors import UnsupportedError
from glassformer.loaded_model import LoadedModel
from glassformer.models import eval_mode
from glassformer.speech.alignment import Alignment, WordAligner
from glassformer.speech.alignment_heads import SCORING, best_heads, published_heads, window_scores
from glassformer.speech.batched import batched_steps, speech_windows
from glassformer.speech.ctc import CTCTranscription
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Transcription
from glassformer.speech.sequential import SequentialTranscription, Step, WindowProgress, pause_at, prompt_tokens
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.voice import SileroDetector, Span
from glassformer.speech.window import WindowDecoder

ENERGY_RULE = (
    "voice_filter goes by loudness, which takes music and loud noise for speech; for a trained detector: "
    "pip install silero-vad onnxruntime"
)


class Recording:
    """A recording that is being transcribed by one model: iterate over its steps, then take `transcription`.

    for step in Recording(model, "lecture.mp3", options):
        print(step.segments)

    duration: in seconds
    language, language_probability: given, or detected; known after the first step
    on_alignment: called with the attention of each window from which its word times come
    """

    on_alignment: Callable[[Alignment], None] | None = None

    def __init__(
        self,
        model: LoadedModel,
        sound: AudioInput,
        options: TranscriptionOptions,
        sample_rate_hz: int | None = None,
    ) -> None:
        """Read the recording. Raises: DataError: see `read_audio`. UnsupportedError: the model transcribes nothing."""
        processor: Any = check_speech(model).processor
        self.model = model
        self.options = options
        self.language: str | None = None
        self.language_probability: float | None = None
        prepare_plain(model.network)  # here, not in the decoder, by which networks that train are validated too
        self._decoder = WindowDecoder(model, options)
        self.language = None if options.language is None else self._decoder.vocabulary.code(options.language)
        if not self._decoder.vocabulary.languages:
            self.language = "en"
        if options.task != "transcribe":
            self._decoder.vocabulary.sequence(self.language or "en", options.task)  # an early error
        silero = SileroDetector.find() if self._filters_voice else None
        if options.voice_filter and silero is None:
            warnings.warn(ENERGY_RULE, stacklevel=2)
        self.spectrogram = Spectrogram.read(processor, sound, sample_rate_hz, silero)
        self._speech = None if silero is None else silero.speech(self.spectrogram.duration)
        self._steps: list[Step] = []
        self.progress = WindowProgress(tokens=prompt_tokens(self._decoder))

    @property
    def duration(self) -> float:
        return self.spectrogram.duration

    @property
    def _filters_voice(self) -> bool:
        wanted = self.options.voice_filter
        return self.options.batch_size is not None if wanted is None else wanted

    def __iter__(self) -> Iterator[Step]:
        """Transcribe what is left, window by window."""
        if self.model.device.type == "cpu":
            keep_freed_memory()  # not before: reading leaves as much free memory as the spectrogram takes
        with eval_mode(self.model.network):
            language = self.language or self._detect()
            for step in self._windows(language):
                self._steps.append(step)
                yield step

    def _detect(self) -> str:
        """The language of the first window of speech, or of any sound."""
        spectrogram = self.spectrogram
        start = 0
        if self._filters_voice and (windows := self._speech_windows):
            start = round(windows[0].start * spectrogram.frames_per_second)
        size = spectrogram.window_frames
        while start < spectrogram.frames and (
            pause := pause_at(spectrogram, start, like_openai=self.options.like_openai)
        ):
            start += pause
        start = start if start < spectrogram.frames else 0
        features = spectrogram.window(start, start + size)
        shares = self._decoder.languages(self._decoder.encode(features[None]))[0]
        self.language, self.language_probability = next(iter(shares.items()))
        return self.language

    def _windows(self, language: str) -> Iterator[Step]:
        if self.options.batch_size is None and not self._filters_voice:
            aligner = None
            if self.options.word_timestamps:
                aligner = WordAligner(self._decoder, self._heads(language), self.on_alignment)
            yield from SequentialTranscription(self._decoder, self.spectrogram, language, aligner, self.progress)
            return
        rate, done = self.spectrogram.frames_per_second, self.progress.frame
        windows = [
            Span(max(span.start, done / rate), span.end)
            for span in self._speech_windows
            if round(span.end * rate) > done
        ]
        aligners = None
        if self.options.word_timestamps and windows:
            heads = self._heads(language)
            aligners = lambda: WordAligner(self._decoder, heads, self.on_alignment)  # noqa: E731
        before = prompt_tokens(self._decoder)
        for step in batched_steps(self._decoder, self.spectrogram, windows, language, aligners, before):
            self.progress.frame = round(step.window.end * self.spectrogram.frames_per_second)
            yield step

    @cached_property
    def _speech_windows(self) -> list[Span]:
        return speech_windows(self.spectrogram, self._speech)

    def _heads(self, language: str) -> list[tuple[int, int]]:
        """The alignment heads: published, or found on the first windows."""
        if (heads := published_heads(self.model)) is not None:
            return heads
        return best_heads(window_scores(WindowDecoder(self.model, SCORING), self.spectrogram, language))

    # ------------------------------------------------------------------------------------------------- continuing

    def state(self) -> dict[str, Any]:
        """What `resume` needs besides the steps, as JSON."""
        return {
            "language": self.language,
            "language_probability": self.language_probability,
            "frame": self.progress.frame,
            "seen_from": self.progress.seen_from,
        }

    def resume(self, steps: list[Step], state: dict[str, Any]) -> None:
        """Go on where another transcription of the same recording was stopped."""
        self.language, self.language_probability = state["language"], state["language_probability"]
        tokens = [token for step in steps for segment in step.segments for token in segment.tokens]
        self.progress = WindowProgress(state["frame"], prompt_tokens(self._decoder) + tokens, state["seen_from"])
        self._steps = list(steps)

    @property
    def transcription(self) -> Transcription:
        """Transcription of all windows that were decoded so far."""
        segments = tuple(segment for step in self._steps for segment in step.segments)
        return Transcription(
            text="".join(segment.text for segment in segments).strip(),
            segments=segments,
            duration=self.duration,
            language=self.language,
            language_probability=self.language_probability,
            windows=tuple(step.window for step in self._steps),
        )


def check_speech(model: LoadedModel) -> LoadedModel:
    """Raises: UnsupportedError: the model does not transcribe speech."""
    if model.task != "automatic-speech-recognition":
        able = "automatic-speech-recognition" in model.family.tasks
        raise UnsupportedError(
            f"a {model.family.model_type!r} model loaded for {model.task!r} does not transcribe speech; "
            + ("load it with task='automatic-speech-recognition'" if able else "Whisper and wav2vec 2.0 do")
        )
    return model


def open_recording(
    model: LoadedModel, sound: AudioInput, options: TranscriptionOptions, sample_rate_hz: int | None = None
) -> Recording | CTCTranscription:
    """The way of a model: windows and a decoder, or a letter a frame."""
    processor = check_speech(model).processor
    if isinstance(processor, AudioProcessor) and isinstance(processor.extractor, LogMel):
        return Recording(model, sound, options, sample_rate_hz)
    return CTCTranscription(model, sound, options, sample_rate_hz)


def transcribe(
    model: LoadedModel,
    sound: AudioInput,
    options: TranscriptionOptions,
    sample_rate_hz: int | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Transcription:
    """Transcribe one recording of any length.

    Args:
        on_step: called after each window.
    """
    recording = open_recording(model, sound, options, sample_rate_hz)
    for step in recording:
        if on_step is not None:
            on_step(step)
    return recording.transcription
