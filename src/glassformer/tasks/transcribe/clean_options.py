"""Options of cleaning a table of recordings: what is left out, and where the others go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from glassformer.files.schema import Doc, NonNegative, Schema, Share, at_least, one_of


@dataclass(frozen=True, kw_only=True)
class CleanOptions(Schema):
    """What is left out of speech data."""

    output: Annotated[Path | None, Doc("Write the rows that are kept to this table.")] = None
    dropped: Annotated[
        Path | None, Doc("Write the rows that are dropped to this JSON Lines file, with the reasons.")
    ] = None
    columns: Annotated[
        Mapping[Annotated[str, one_of("audio", "text", "start", "end")], str],
        Doc("Column mapping, role=column: audio=path, text=transcript, start, end; repeatable."),
    ] = field(default_factory=dict)
    folder: Annotated[str | None, Doc("Folder of the recordings. Default: that of the table.")] = None
    language: Annotated[str | None, Doc("Language of the transcripts, such as uk; others are dropped.")] = None
    language_model: Annotated[
        str | None, Doc("Multilingual Whisper: also drop recordings that it hears as another.")
    ] = None
    min_seconds: Annotated[NonNegative, Doc("Minimum duration.")] = 0.1
    max_seconds: Annotated[NonNegative, Doc("Maximum duration.")] = 30.0
    max_rate: Annotated[NonNegative, Doc("Maximum characters of the transcript a second.")] = 40.0
    one_case: Annotated[bool, Doc("Keep transcripts in capitals or small letters alone.")] = False
    speechless: Annotated[Share, Doc("Share of the recordings without a transcript to keep.")] = 0.1
    outliers: Annotated[
        Annotated[float, at_least(0.1)], Doc("Robust standard deviations from the median that are too far.")
    ] = 6.0
