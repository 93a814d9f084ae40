"""Results of speech recognition: a transcription, its segments and words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent


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

    start, end: in seconds
    tokens: ids, with timestamps
    temperature: that it was decoded at
    avg_logprob: mean log-probability of a token of its window
    compression_ratio: of the window's text; high where it repeats itself
    no_speech_prob: probability of no speech
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


@dataclass(frozen=True, repr=False)
class Transcription(Report, kind="transcription"):
    """The transcript of a recording; printed, it is its text.

    language: code; None for models that do not know it
    language_probability: where it was detected
    duration: of the recording, in seconds
    windows: how each window was decoded
    """

    text: str
    segments: tuple[Segment, ...]
    duration: float
    language: str | None = None
    language_probability: float | None = None
    windows: tuple[Window, ...] = ()

    @property
    def words(self) -> Iterator[TimedWord]:
        """All words, where they were asked for."""
        return (word for segment in self.segments for word in segment.words or ())

    @property
    def heading(self) -> str:
        """How long the recording is, and its language."""
        share = "" if self.language_probability is None else f" ({percent(self.language_probability)})"
        return f"{self.duration:,.2f} s" + (f", language {self.language}{share}" if self.language else "")

    def tables(self) -> list[Table]:
        """The segments, with their times in seconds."""
        rows = [[f"{each.start:.2f}", f"{each.end:.2f}", each.text.strip()] for each in self.segments]
        return [Table(["start, s", "end, s", "text"], rows, longest=1_000)]

    def __str__(self) -> str:
        return self.text
