"""Options of transcription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.ngram.model import NgramModel

CONTEXTS = ("window", "sound")
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def _number(low: float, high: float) -> Any:
    return lambda x: isinstance(x, (int, float)) and not isinstance(x, bool) and low <= x <= high


def _whole(low: int) -> Any:
    return lambda x: isinstance(x, int) and not isinstance(x, bool) and x >= low


def _optional(test: Any) -> Any:
    return lambda x: x is None or test(x)


def _temperatures(x: Any) -> bool:
    values = x if isinstance(x, (list, tuple)) else [x]
    return bool(values) and all(_number(0.0, 10.0)(value) for value in values)


def _option(default: Any, allowed: str, test: Any) -> Any:
    return field(default=default, metadata={"allowed": allowed, "test": test})


_TEXT = _optional(lambda x: isinstance(x, str))
_FLAG = (True, False).__contains__
_MODEL = _optional(lambda x: hasattr(x, "log_probs"))


@dataclass(frozen=True, kw_only=True)
class TranscriptionOptions:
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

    language: str | None = _option(None, "a language code, such as 'en', or an English name", _TEXT)
    task: str = _option("transcribe", "'transcribe' or 'translate'", ("transcribe", "translate").__contains__)
    num_beams: int = _option(5, "a whole number from 1 up", _whole(1))
    patience: float = _option(1.0, "a number from 0.1 to 10", _number(0.1, 10.0))
    best_of: int = _option(5, "a whole number from 1 up", _whole(1))
    temperature: float | Sequence[float] = _option(TEMPERATURES, "a number from 0 to 10, or several", _temperatures)
    compression_ratio_threshold: float | None = _option(2.4, "a number above 0, or None", _optional(_number(0.0, 1e9)))
    logprob_threshold: float | None = _option(-1.0, "a number, or None", _optional(_number(-1e9, 0.0)))
    no_speech_threshold: float | None = _option(0.6, "a number from 0 to 1, or None", _optional(_number(0.0, 1.0)))
    condition_on_previous_text: bool = _option(True, "True or False", _FLAG)
    initial_prompt: str | None = _option(None, "a text", _TEXT)
    timestamps: bool = _option(True, "True or False", _FLAG)
    word_timestamps: bool = _option(False, "True or False", _FLAG)
    audio_context: str = _option("window", "'window' or 'sound'", CONTEXTS.__contains__)
    batch_size: int | None = _option(None, "a whole number from 1 up, or None", _optional(_whole(1)))
    voice_filter: bool | None = _option(None, "True, False or None", _optional(_FLAG))
    like_openai: bool = _option(False, "True or False", _FLAG)
    seed: int = _option(0, "a whole number from 0 up", _whole(0))
    language_model: NgramModel | None = _option(None, "an n-gram model, as load_ngram reads it", _MODEL)  # noqa: RUF009 # a field
    alpha: float = _option(0.5, "a number from 0 to 100", _number(0.0, 100.0))
    beta: float = _option(0.0, "a number from -100 to 100", _number(-100.0, 100.0))
    rescore: bool = _option(False, "True or False", _FLAG)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            try:
                valid = each.metadata["test"](value)
            except TypeError:  # an unhashable value
                valid = False
            if not valid:
                raise ConfigError(f"{each.name} is {safe_repr(value)}; it must be {each.metadata['allowed']}")
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
