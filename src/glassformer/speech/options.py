"""Options of transcription."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, Count, NonNegative, NonNegativeInt, Schema, Share, at_least

CONTEXTS = ("window", "sound")
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
Temperature = Annotated[float, at_least(0.0, 10.0)]
Temperatures = Annotated[
    Temperature | Sequence[Temperature], Allowed("a number from 0 to 10, or several", lambda x: x != [])
]
LogProbability = Annotated[float, Allowed("a number from 0 down", lambda x: -math.inf < x <= 0, {"maximum": 0})]
LanguageModel = Annotated[Any, Allowed("an n-gram model, as load_ngram reads it", lambda x: hasattr(x, "log_probs"))]


@dataclass(frozen=True, kw_only=True)
class TranscriptionOptions(Schema):
    """How a recording is transcribed.

    language: of the speech, a code or an English name; None = detected in the first window · task: "transcribe", or
        "translate" to English
    num_beams, patience: of beam search, at temperature 0; 1 beam is greedy search
    best_of: samples above temperature 0, of which the likeliest is taken
    temperature: or several: the next is tried where the thresholds are not met (temperature fallback)
    compression_ratio_threshold, logprob_threshold: a text that compresses better repeats itself; one whose mean
        log-probability is lower is wrong
    no_speech_threshold: a window is skipped where silence is likelier, and its text unlikely
    condition_on_previous_text: each window sees the text before · initial_prompt: a text before the first window, for
        names and style
    timestamps: segments within windows · word_timestamps: times of words
    audio_context: the encoder context: the whole "window", or as long as the "sound" in it, which is faster for short
        recordings, and for models that were fine-tuned so
    batch_size: windows decoded at once, cut at silences; None = one after another, where timestamps end
    voice_filter: leave out what is not speech; None = where windows are batched
    like_openai: cut windows as openai-whisper does, through long pauses of digital silence too; its texts and times may
        be wrong there
    seed: of sampling
    language_model, alpha, beta: shallow fusion with an n-gram model, its weight, and a bonus for each word. It is one
        of words, or, for a model with a decoder, of its tokenizer's tokens (without bonus)
    rescore: the language model takes no part in the search, and orders the n best texts that it finds
    Source: Radford et al. 2022, section 4.5; the defaults are those of its released command.
    """

    language: Annotated[str | None, Allowed("a language code, such as 'en', or an English name", bool)] = None
    task: Literal["transcribe", "translate"] = "transcribe"
    num_beams: Count = 5
    patience: Annotated[float, at_least(0.1, 10.0)] = 1.0
    best_of: Count = 5
    temperature: Temperatures = TEMPERATURES
    compression_ratio_threshold: NonNegative | None = 2.4
    logprob_threshold: LogProbability | None = -1.0
    no_speech_threshold: Share | None = 0.6
    condition_on_previous_text: bool = True
    initial_prompt: str | None = None
    timestamps: bool = True
    word_timestamps: bool = False
    audio_context: Literal["window", "sound"] = "window"
    batch_size: Count | None = None
    voice_filter: bool | None = None
    like_openai: bool = False
    seed: NonNegativeInt = 0
    language_model: LanguageModel | None = None
    alpha: Annotated[float, at_least(0.0, 100.0)] = 0.5
    beta: Annotated[float, at_least(-100.0, 100.0)] = 0.0
    rescore: bool = False

    def validate(self) -> None:
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
