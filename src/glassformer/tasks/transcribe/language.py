"""The language of recordings, as a multilingual Whisper identifies it: those in another one are left out of training.

    samples ─ the first 30 s ─ encoder ─ decoder after <|startoftranscript|> ─> P(language)     uk 0.93  ru 0.05  …

    transcript ─ counts of short byte sequences ─ naive Bayes (py3langid) ─> P(language)

Source: Radford et al. 2022, section 2.1 (transcripts in another language than the speech are left out) and 2.3 (the
first token that is predicted is the language); Lui and Baldwin 2012, "langid.py".
"""

from __future__ import annotations

from typing import Any

from glassformer.audio.languages import CODES
from glassformer.audio.read import Samples
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.model import load
from glassformer.models import eval_mode
from glassformer.reports.table import percent
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.transcribe import check_speech
from glassformer.speech.vocabulary import SpeechVocabulary
from glassformer.speech.window import WindowDecoder
from glassformer.tasks.transcribe.quality import QualityFilters
from glassformer.text.language import is_long_enough, language_identifier


class LanguageFilter:
    """Recordings in another language than these are meant to be in.

    Args:
        model: a multilingual Whisper
        language: that it is to hear, a code or an English name
        least: probability of the language
    Raises: ConfigError: the model tells no languages apart, or does not know this one.
    """

    def __init__(self, model: LoadedModel, language: str, least: float) -> None:
        check_speech(model)
        if not SpeechVocabulary.of(model).languages:
            raise ConfigError(
                "filters.min_language_probability: this model knows one language; name a multilingual Whisper that "
                "tells them apart: filters: {language_model: openai/whisper-base}"
            )
        self._decoder, self._least = WindowDecoder(model, TranscriptionOptions()), least
        self.language = self._decoder.vocabulary.code(language)

    def problem(self, samples: Samples, rate_hz: int) -> tuple[str, str] | None:
        """Why a recording is left out: a reason, and its figures; None = it is kept."""
        shares = self.probabilities(samples, rate_hz)
        if shares[self.language] >= self._least:
            return None
        return f"not in {self.language!r}", _figures(shares, self.language)

    def probabilities(self, samples: Samples, rate_hz: int) -> dict[str, float]:
        """The probability of each language, by code, the likeliest first."""
        processor: Any = self._decoder.model.processor
        spectrogram = Spectrogram.read(processor, samples, rate_hz)
        features = spectrogram.window(0, spectrogram.window_frames)[None]
        with eval_mode(self._decoder.model.network):
            return self._decoder.languages(self._decoder.encode(features))[0]


class TextLanguageFilter:
    """Transcripts that are written in another language than this.

    Args:
        language: a code or an English name
        least: probability of the language
    Raises: MissingExtraError: no identifier is installed. ConfigError: it does not know the language.
    """

    def __init__(self, language: str, least: float) -> None:
        self._identifier = language_identifier("the language of transcripts")
        self._least, known = least, self._identifier.labels
        name = language.lower()
        self.language = name if name in known else CODES.get(name, name)
        if self.language not in known:
            raise ConfigError(
                f"the languages of transcripts are {', '.join(sorted(known))}; got {safe_repr(language)}"
                f"{nearest(name, known)}"
            )

    def problem(self, text: str) -> tuple[str, str] | None:
        """Why a transcript is left out: a reason, and its figures; None = it is kept, as one that is too short is."""
        if not is_long_enough(text):
            return None
        shares = dict(self._identifier.rank(text))
        if shares[self.language] >= self._least:
            return None
        return f"not written in {self.language!r}", _figures(shares, self.language)


def _figures(shares: dict[str, float], language: str) -> str:
    """The likeliest language and the wanted one, each with its share."""
    return ", ".join(f"{name} {percent(shares[name])}" for name in (next(iter(shares)), language))


def language_filter(filters: QualityFilters, model: LoadedModel, language: str) -> LanguageFilter | None:
    """The filter that is asked for, if any.

    Args:
        model: the one that learns.
    Raises: as `LanguageFilter`, `load`.
    """
    if filters.min_language_probability is None:
        return None
    name = filters.language_model
    hears = model if name is None else load(name, task=model.task, device=str(model.device))
    return LanguageFilter(hears, language, filters.min_language_probability)
