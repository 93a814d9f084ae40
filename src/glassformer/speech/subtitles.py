"""Writers of transcripts: SRT, WebVTT, TSV, plain text, JSON.

A segment becomes one cue, or, with `LineLimits`, cues of lines that fit a screen: broken after punctuation where there
is some, at the times of words.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from glassformer.errors import ConfigError
from glassformer.speech.results import Segment, TimedWord, Transcription

ENDS = tuple(",.;:?!…，。；：？！、")
"""A cue ends after one of these, if that leaves it at least half full."""
_ARROW = re.compile(r"--+>")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""White space among them has become spaces before."""


@dataclass(frozen=True)
class LineLimits:
    """Subtitle lines: at most `width` characters in a line, and `count` lines in a cue.

    Raises: ConfigError: a width below 4, no line.
    """

    width: int = 42
    count: int = 2

    def __post_init__(self) -> None:
        if self.width < 4 or self.count < 1:
            raise ConfigError(
                f"subtitles of {self.count} lines of {self.width} characters; allowed: 1 line or more, of 4 or more"
            )

    def cues(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Segments as cues whose texts have a line break after each line, and no words."""
        for segment in segments:
            words = list(self._words(segment))
            start = segment.start
            while words:
                taken = self._taken(words)
                rest = words[taken:]
                end = words[taken - 1].end if rest else segment.end
                yield replace(
                    segment, start=start, end=max(start, end), text="\n".join(self._lines(words[:taken])), words=None
                )
                words, start = rest, rest[0].start if rest else end

    def _taken(self, words: Sequence[TimedWord]) -> int:
        """How many words the next cue takes."""
        fitting = 1
        while fitting < len(words) and len(self._lines(words[: fitting + 1])) <= self.count:
            fitting += 1
        if fitting == len(words):
            return fitting
        for taken in range(fitting, fitting // 2, -1):
            if words[taken - 1].word.rstrip().endswith(ENDS):
                return taken
        return fitting

    def _lines(self, words: Iterable[TimedWord]) -> list[str]:
        text = " ".join("".join(word.word for word in words).split())
        return textwrap.wrap(text, self.width, break_on_hyphens=False)

    def _words(self, segment: Segment) -> Iterator[TimedWord]:
        """The words of a segment, none wider than a line; without word times, each as long as its letters say."""
        whole = TimedWord(segment.text, segment.start, segment.end, 1.0)
        words = segment.words or _shared(whole, [f" {word}" for word in segment.text.split()])
        for word in words:
            space = word.word[: len(word.word) - len(word.word.lstrip())]
            parts = textwrap.wrap(word.word.strip(), self.width, break_on_hyphens=False)
            yield from _shared(word, [space * (i == 0) + part for i, part in enumerate(parts)])


def _shared(whole: TimedWord, parts: Sequence[str]) -> Iterator[TimedWord]:
    """Parts of a text, which share its time by their letters."""
    letters = max(1, sum(map(len, parts)))
    times = [whole.start + (whole.end - whole.start) * n / letters for n in accumulate(map(len, parts), initial=0)]
    for part, (start, end) in zip(parts, pairwise(times), strict=True):
        yield replace(whole, word=part, start=start, end=end)


def clock(seconds: float, decimal: str) -> str:
    """00:01:02.345, with another decimal mark."""
    milliseconds = round(max(0.0, seconds) * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{decimal}{rest % 1000:03}"


def _line(text: str) -> str:
    """A text on one line, without control characters, nor what subtitles read as an arrow: "-->", "--->"."""
    return _ARROW.sub("->", _CONTROLS.sub("", " ".join(text.split())))


def _cues(segments: Iterable[Segment], limits: LineLimits | None, decimal: str) -> Iterable[str]:
    for cue in segments if limits is None else limits.cues(segments):
        lines = [_line(cue.text)] if limits is None else map(_line, cue.text.splitlines())
        yield f"{clock(cue.start, decimal)} --> {clock(cue.end, decimal)}\n" + "\n".join(lines) + "\n"


def srt(transcription: Transcription, limits: LineLimits | None = None) -> str:
    """SubRip: numbered cues, decimal commas."""
    cues = _cues(transcription.segments, limits, ",")
    return "".join(f"{number}\n{cue}\n" for number, cue in enumerate(cues, 1))


def vtt(transcription: Transcription, limits: LineLimits | None = None) -> str:
    """WebVTT, for the <track> of a video on a web page."""
    escaped = (cue.replace("&", "&amp;").replace("<", "&lt;") for cue in _cues(transcription.segments, limits, "."))
    return "WEBVTT\n\n" + "".join(f"{cue}\n" for cue in escaped)


def tsv(transcription: Transcription) -> str:
    """Tab-separated: start and end in milliseconds, text."""
    rows = (
        f"{round(segment.start * 1000)}\t{round(segment.end * 1000)}\t{_line(segment.text)}\n"
        for segment in transcription.segments
    )
    return "start\tend\ttext\n" + "".join(rows)


def txt(transcription: Transcription) -> str:
    """A line for each segment."""
    return "".join(_line(segment.text) + "\n" for segment in transcription.segments)


def as_json(transcription: Transcription) -> str:
    """One JSON object."""
    return json.dumps(transcription.to_dict(), ensure_ascii=False) + "\n"


def write(kind: str, transcription: Transcription, limits: LineLimits | None = None) -> str:
    """A transcript in a format of `WRITERS`.

    Args:
        limits: of the lines of subtitles; None = a segment is a line
    """
    if limits is not None and kind in ("srt", "vtt"):
        return (srt if kind == "srt" else vtt)(transcription, limits)
    return WRITERS[kind](transcription)


WRITERS: dict[str, Callable[[Transcription], str]] = {"txt": txt, "srt": srt, "vtt": vtt, "tsv": tsv, "json": as_json}
"""Format → writer; the format is the file's suffix too."""
