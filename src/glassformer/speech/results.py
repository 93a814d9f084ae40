"""Results of speech recognition: a transcription, its segments and words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class TimedWord:
    """A word with its times, in seconds, and its probability; it begins with the space before it, where there is one.

    Probability: mean over its tokens, or frames.
    """

    word: str
    start: float
    end: float
    probability: float


@dataclass(frozen=True)
class Segment:
    """A part of a transcript: about a phrase.

    start, end: in seconds · tokens: ids, with timestamps
    temperature: that it was decoded at · avg_logprob: mean log-probability of a token of its window
    compression_ratio: of the window's text; high where it repeats itself · no_speech_prob: probability of no speech
    words: with their times, where they were asked for
    """

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 1.0
    no_speech_prob: float = 0.0
    words: tuple[TimedWord, ...] | None = None


@dataclass(frozen=True)
class Attempt:
    """One decoding of a window: fallback tries higher temperatures where the text repeats itself or is unlikely."""

    temperature: float
    avg_logprob: float
    compression_ratio: float


@dataclass(frozen=True)
class Window:
    """A window of a long transcription: what was tried, and whether it was skipped as silence. Times in seconds."""

    start: float
    end: float
    no_speech_prob: float
    attempts: tuple[Attempt, ...]
    skipped: bool = False


@dataclass(frozen=True)
class Transcription:
    """The transcript of a recording.

    language: code; None for models that do not know it · language_probability: where it was detected
    duration: of the recording, in seconds · windows: how each window was decoded
    """

    text: str
    segments: tuple[Segment, ...]
    duration: float
    language: str | None = None
    language_probability: float | None = None
    windows: tuple[Window, ...] = field(default=(), repr=False)

    @property
    def words(self) -> Iterator[TimedWord]:
        """All words, where they were asked for."""
        return (word for segment in self.segments for word in segment.words or ())

    def to_dict(self) -> dict[str, Any]:
        """As JSON objects and lists, without what is not known."""
        document = asdict(self)
        for segment in document["segments"]:
            if segment["words"] is None:
                del segment["words"]
        return {key: value for key, value in document.items() if value is not None}

    def __str__(self) -> str:
        return self.text
