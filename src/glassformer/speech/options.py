"""Options of transcription: how speech becomes text, and the files that transcripts become."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, Count, Doc, NonNegative, NonNegativeInt, Schema, Share, at_least
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.speech.subtitles import LineLimits

DECODING, BEAM_SEARCH, OUTPUT = "Decoding", "Beam search", "Output"
CONTEXTS = ("window", "sound")
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # tried in turn; Radford et al. 2022, section 4.5
Temperature = Annotated[float, at_least(0.0, 10.0)]
Temperatures = Annotated[
    Temperature | Sequence[Temperature], Allowed("a number from 0 to 10, or several", lambda x: x != [])
]
LogProbability = Annotated[float, Allowed("a number from 0 down", lambda x: -math.inf < x <= 0, {"maximum": 0})]
LanguageModel = Annotated[Any, Allowed("an n-gram model, as load_ngram reads it", lambda x: hasattr(x, "log_probs"))]


@dataclass(frozen=True, kw_only=True)
class TranscriptionOptions(Schema):
    """How a recording is transcribed.

    Source: Radford et al. 2022, section 4.5; the defaults are those of its released command.
    """

    language: Annotated[
        Annotated[str | None, Allowed("a language code, such as 'en', or an English name", bool)],
        Doc("Language of the speech: a code or an English name. Default: detected in the first window."),
    ] = None
    task: Annotated[
        Literal["transcribe", "translate"],
        Doc("Task: transcribe, or translate to English."),
    ] = "transcribe"
    num_beams: Annotated[Count, Doc("Beam width at temperature 0; 1 is greedy decoding.", BEAM_SEARCH)] = 5
    patience: Annotated[
        Annotated[float, at_least(0.1, 10.0)],
        Doc("Patience of the beam search: times as many finished texts as beams.", BEAM_SEARCH),
    ] = 1.0
    best_of: Annotated[
        Count,
        Doc("Number of samples above temperature 0, of which the likeliest is taken.", DECODING),
    ] = 5
    temperature: Annotated[
        Temperatures,
        Doc(
            "Sampling temperature; repeatable: the next one is tried if a text is repetitive or unlikely (temperature "
            "fallback). Default: 0, 0.2, … 1.",
            DECODING,
        ),
    ] = TEMPERATURES
    compression_ratio_threshold: Annotated[
        NonNegative | None,
        Doc("Compression ratio threshold: a text that compresses better repeats itself, and is tried again.", DECODING),
    ] = 2.4
    logprob_threshold: Annotated[
        LogProbability | None,
        Doc("Log-probability threshold: a text whose mean is below is tried again, or skipped.", DECODING),
    ] = -1.0
    no_speech_threshold: Annotated[
        Share | None,
        Doc("No-speech threshold: from this probability on, an unlikely text is skipped.", DECODING),
    ] = 0.6
    condition_on_previous_text: Annotated[
        bool,
        Doc("Condition each window on the text before it, or not.", DECODING),
    ] = True
    initial_prompt: Annotated[str | None, Doc("Text before the first window: names, style.", DECODING)] = None
    timestamps: Annotated[bool, Doc("Segments within windows, with their times.", DECODING)] = True
    word_timestamps: Annotated[bool, Doc("Word timestamps: in JSON, and for the line breaks of subtitles.")] = False
    audio_context: Annotated[
        Literal["window", "sound"],
        Doc(
            "Encoder context: window, or as long as the sound in it, which is faster for short recordings, "
            "and for models that were fine-tuned so.",
            DECODING,
        ),
    ] = "window"
    batch_size: Annotated[
        Count | None,
        Doc(
            "Batch size: decode this many windows at once, cut at silences; faster. Default: one after "
            "another, cut where timestamps end.",
            DECODING,
        ),
    ] = None
    voice_filter: Annotated[
        bool | None,
        Doc(
            "Leave out what is not speech; music too, if silero-vad is installed. Default: where windows are batched.",
            DECODING,
        ),
    ] = None
    like_openai: Annotated[
        bool,
        Doc(
            "Cut windows as openai-whisper does, also where a pause is digital silence; texts and times may "
            "be wrong there.",
            DECODING,
        ),
    ] = False
    seed: Annotated[NonNegativeInt, Doc("Random seed of sampling.", DECODING)] = 0
    language_model: Annotated[
        LanguageModel | None,
        Doc(
            "N-gram language model (.arpa, .ngram) for shallow fusion, or rescoring: of words or, for a "
            "model with a decoder, of its tokens.",
            BEAM_SEARCH,
        ),
    ] = None
    alpha: Annotated[Annotated[float, at_least(0.0, 100.0)], Doc("Weight of the language model.", BEAM_SEARCH)] = 0.5
    beta: Annotated[
        Annotated[float, at_least(-100.0, 100.0)],
        Doc("Bonus for each word, with a language model of words.", BEAM_SEARCH),
    ] = 0.0
    rescore: Annotated[
        bool,
        Doc("Let the language model order the texts of the beam search, instead of fusion.", BEAM_SEARCH),
    ] = False

    def validate(self) -> None:
        if self.language_model is None and (self.alpha != 0.5 or self.beta):
            raise ConfigError("alpha and beta belong to a language model; add language_model")
        if self.rescore and (self.language_model is None or self.num_beams == 1):
            raise ConfigError(
                "rescore lets a language model choose among the texts of a beam search: give language_model, and "
                "num_beams from 2 up"
            )

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> TranscriptionOptions:
        """From keywords. Raises: ConfigError: unknown, or out of range."""
        known = [each.name for each in fields(cls)]
        renamed = {OTHER_NAMES.get(name, name): value for name, value in options.items()}
        if unknown := [name for name in renamed if name not in known]:
            raise ConfigError(
                f"transcribe has no option {safe_repr(unknown[0])}; allowed: {', '.join(known)}"
                + nearest(unknown[0], known)
            )
        return cls(**renamed)

    @property
    def temperatures(self) -> tuple[float, ...]:
        """In the order in which they are tried."""
        given = self.temperature
        return tuple(given) if isinstance(given, (list, tuple)) else (float(given),)  # type: ignore[arg-type]


OTHER_NAMES = {"beam_size": "num_beams", "log_prob_threshold": "logprob_threshold", "vad_filter": "voice_filter"}
"""Names that other speech software uses → ours."""


@dataclass(frozen=True, kw_only=True)
class TranscriptOptions(Schema):
    """Where transcripts go, and in which formats."""

    output: Annotated[Path | None, Doc("Output folder: one file per recording and format.", OUTPUT)] = None
    formats: Annotated[
        Sequence[Literal["txt", "srt", "vtt", "tsv", "json"]],
        Doc("Format: txt, srt, vtt, tsv, json; repeatable. Default: lines with their times.", OUTPUT),
    ] = ()
    json: Annotated[bool, Doc("Print one JSON object per recording.", OUTPUT)] = False
    line_width: Annotated[
        Annotated[int, at_least(4)] | None,
        Doc("Characters in a line of SRT and VTT. Default: a segment a line.", OUTPUT),
    ] = None
    line_count: Annotated[Count | None, Doc("Lines of a subtitle. Default: 2 with --max-line-width.", OUTPUT)] = None
    html: Annotated[
        Path | None,
        Doc("HTML page of one recording: its words over the spectrogram, with sound and attention.", OUTPUT),
    ] = None
    overwrite: Annotated[bool, Doc("Transcribe again what is finished in the output folder.", OUTPUT)] = False

    def validate(self) -> None:
        if self.line_width is None and self.line_count is not None:
            raise ConfigError("line_count= limits lines of a width; add line_width= 42")
        if self.html is not None and (self.output is not None or self.formats or self.json):
            raise ConfigError("html= writes one page; leave out output=, formats= and json=")
        if self.json and set(self.formats) - {"json"}:
            raise ConfigError("json= is formats= json; leave one of them out")
        if self.output is None and len(self.kinds) > 1:
            raise ConfigError(f"{len(self.kinds)} formats go to files; add output= FOLDER")

    def check_recordings(self, count: int) -> None:
        """Raises: ConfigError: these options do not suit this number of recordings. DataError: no place for a page."""
        kind = next(iter(self.kinds), "")
        if self.output is None and count > 1 and kind in ("srt", "vtt", "tsv"):
            raise ConfigError(f"{kind} of {count} recordings is a file for each; add output= FOLDER")
        if self.html is not None:
            if count != 1:
                raise ConfigError(f"html= is the page of one recording, and there are {count}; give one file")
            check_html_path(self.html)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The formats, each once; of files text, where none is named."""
        default = ("json",) if self.json else () if self.output is None else ("txt",)
        return tuple(dict.fromkeys(self.formats)) or default

    @property
    def limits(self) -> LineLimits | None:
        """The limits of the lines of subtitles."""
        from glassformer.speech.subtitles import LineLimits

        return None if self.line_width is None else LineLimits(self.line_width, self.line_count or 2)
