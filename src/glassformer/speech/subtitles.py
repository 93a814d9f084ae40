"""Writers of transcripts: SRT, WebVTT, TSV, plain text, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from glassformer.speech.results import Segment, Transcription


def clock(seconds: float, decimal: str) -> str:
    """00:01:02.345, with another decimal mark."""
    milliseconds = round(max(0.0, seconds) * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{decimal}{rest % 1000:03}"


def _line(segment: Segment) -> str:
    """The text of a segment, on one line, without what subtitles read as an arrow."""
    return " ".join(segment.text.split()).replace("-->", "->")


def _cues(segments: Iterable[Segment], decimal: str) -> Iterable[str]:
    for segment in segments:
        yield f"{clock(segment.start, decimal)} --> {clock(segment.end, decimal)}\n{_line(segment)}\n"


def srt(transcription: Transcription) -> str:
    """SubRip: numbered cues, decimal commas."""
    cues = _cues(transcription.segments, ",")
    return "".join(f"{number}\n{cue}\n" for number, cue in enumerate(cues, 1))


def vtt(transcription: Transcription) -> str:
    """WebVTT, for the <track> of a video on a web page."""
    escaped = (cue.replace("&", "&amp;").replace("<", "&lt;") for cue in _cues(transcription.segments, "."))
    return "WEBVTT\n\n" + "".join(f"{cue}\n" for cue in escaped)


def tsv(transcription: Transcription) -> str:
    """Tab-separated: start and end in milliseconds, text."""
    rows = (
        f"{round(segment.start * 1000)}\t{round(segment.end * 1000)}\t{_line(segment)}\n"
        for segment in transcription.segments
    )
    return "start\tend\ttext\n" + "".join(rows)


def txt(transcription: Transcription) -> str:
    """A line for each segment."""
    return "".join(_line(segment) + "\n" for segment in transcription.segments)


def as_json(transcription: Transcription) -> str:
    """One JSON object."""
    return json.dumps(transcription.to_dict(), ensure_ascii=False) + "\n"


WRITERS: dict[str, Callable[[Transcription], str]] = {"txt": txt, "srt": srt, "vtt": vtt, "tsv": tsv, "json": as_json}
"""Format → writer; the format is the file's suffix too."""
