"""Live transcription: text appears during the speech, and settles once two decodings agree on it.

    second 3     And so my fell                 tentative
    second 4     And so my fellow Am            "And so my" was the same twice: it is settled, and never changes
    second 5     And so my fellow Americans …

Source: Macháček et al. 2023 ("Turning Whisper into real-time transcription system"), section 3: LocalAgreement-2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from glassformer.audio.features import LogMel
from glassformer.audio.read import Samples
from glassformer.engine.prepare import prepare_plain
from glassformer.loaded_model import LoadedModel
from glassformer.models import eval_mode
from glassformer.speech.alignment import WordAligner
from glassformer.speech.alignment_heads import all_heads, published_heads
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import TimedWord
from glassformer.speech.sequential import prompt_tokens, split_segments
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.vocabulary import text_ids
from glassformer.speech.voice import MARGIN, speech_by_energy
from glassformer.speech.window import WindowDecoder

INTERVAL_SECONDS = 1.0
"""New sound between two decodings."""
LONGEST_SECONDS = 20.0
"""Seconds of sound after which the settled part is dropped, or all of it where nothing settles."""
MIN_SECONDS = 0.5
"""Of less sound, a model of 30-second windows mostly invents words."""


@dataclass(frozen=True)
class Update:
    """What one decoding changed.

    settled: new words that will not change
    tentative: words that may
    """

    settled: tuple[TimedWord, ...]
    tentative: tuple[TimedWord, ...]


class LiveTranscription:
    """Transcribe a stream of samples: `feed` blocks as they come, and `finish`.

    language: given, or detected in the first seconds of speech
    """

    def __init__(self, model: LoadedModel, options: TranscriptionOptions) -> None:
        """Raises: UnsupportedError: the model has no decoder with Whisper's vocabulary."""
        processor = model.processor
        extractor = getattr(processor, "extractor", None)
        prepare_plain(model.network)
        self._decoder = WindowDecoder(model, replace(options, word_timestamps=True, temperature=0.0))
        assert isinstance(extractor, LogMel)  # models with such a vocabulary read spectrograms
        self._extractor = extractor
        self._aligner = WordAligner(self._decoder, published_heads(model) or all_heads(model))
        vocabulary = self._decoder.vocabulary
        self.language = None if options.language is None else vocabulary.code(options.language)
        if not vocabulary.languages:
            self.language = "en"
        self._buffer = torch.zeros(0)
        self._begin = 0.0  # of the buffer, in seconds
        self._unread = 0  # samples since the last decoding
        self._settled_to = 0.0
        self._previous: list[TimedWord] = []
        self._tokens: list[int] = prompt_tokens(self._decoder)  # of the text that has left the buffer
        self._words: list[TimedWord] = []  # settled, in the buffer

    def feed(self, block: Samples) -> Iterator[Update]:
        """Hear a block of samples at the model's sample rate; an update for each decoding that it leads to."""
        step = round(INTERVAL_SECONDS * self._extractor.sample_rate_hz)
        for part in torch.from_numpy(block).split(step):
            self._buffer = torch.cat([self._buffer, part])
            self._unread += len(part)
            if self._unread >= step:
                yield self._decode(last=False)

    def finish(self) -> Update:
        """The stream has ended: everything settles."""
        return self._decode(last=True)

    def _decode(self, *, last: bool) -> Update:
        rate = self._extractor.sample_rate_hz
        step = round(INTERVAL_SECONDS * rate)
        if not self._previous and not self._buffer[-self._unread - step :].any():
            # Digital silence, and no word waits: what is kept begins with the next sound, in which its times are right.
            self._unread = 0
            self._forget(self._begin + max(0.0, len(self._buffer) / rate - MARGIN))
            return Update((), ())
        self._unread = 0
        words: list[TimedWord] = []
        if len(self._buffer) >= MIN_SECONDS * rate:
            spectrogram = Spectrogram(self._extractor, [self._buffer.numpy()])
            if speech_by_energy(spectrogram):
                with eval_mode(self._decoder.model.network):
                    words = self._hear(spectrogram)
        known = [word for word in words if (word.start + word.end) / 2 <= self._settled_to]
        fresh = [word for word in words if (word.start + word.end) / 2 > self._settled_to]
        if again := _repeated(self._words, known, fresh):
            self._settled_to = max(self._settled_to, fresh[again - 1].end)
            fresh = fresh[again:]
        agreed = len(fresh) if last else _agreement(self._previous, fresh)
        settled, tentative = fresh[:agreed], fresh[agreed:]
        if settled:
            self._settled_to = settled[-1].end
            self._words += settled
        self._previous = tentative
        if len(self._buffer) > LONGEST_SECONDS * rate:
            self._forget(self._settled_to if self._settled_to > self._begin else self._begin + LONGEST_SECONDS / 2)
        return Update(tuple(settled), tuple(tentative))

    def _hear(self, spectrogram: Spectrogram) -> list[TimedWord]:
        """The words of all that is in the buffer."""
        decoder, frames = self._decoder, min(spectrogram.frames, spectrogram.window_frames)
        memory = decoder.encode(spectrogram.window(0, frames)[None])
        if self.language is None:
            self.language = next(iter(decoder.languages(memory)[0]))
        decoded = decoder.decode(memory, self.language, self._tokens)[0]
        if decoder.is_silent(decoded):
            return []
        segments, _, _ = split_segments(decoder, decoded, self._begin, frames)
        timed = self._aligner.align(memory, segments, frames, self._begin, self.language)
        return [word for segment in timed for word in segment.words or ()]

    def _forget(self, edge: float) -> None:
        """Throw away the sound before a time; its settled words become the text before."""
        rate = self._extractor.sample_rate_hz
        text = "".join(word.word for word in self._words)
        ids = text_ids(self._decoder.model.tokenizer, text) if text else []
        self._tokens, self._words, self._previous = self._tokens + ids, [], []
        self._buffer = self._buffer[round((edge - self._begin) * rate) :]
        self._begin, self._settled_to = edge, max(edge, self._settled_to)


def _repeated(settled: list[TimedWord], known: list[TimedWord], fresh: list[TimedWord]) -> int:
    """How many fresh words are the last settled ones, which this decoding hears a little later.

    Args:
        known: its words up to the last settled one; where they end like those, a new word is repeated
    """
    if not settled or not fresh or fresh[0].start - settled[-1].end > INTERVAL_SECONDS:
        return 0
    last, new = [_plain(word.word) for word in settled], [_plain(word.word) for word in fresh]
    if known and _plain(known[-1].word) == last[-1]:
        return 0
    return max((n for n in range(1, min(len(last), len(new)) + 1) if last[-n:] == new[:n]), default=0)


def _agreement(before: list[TimedWord], now: list[TimedWord]) -> int:
    """How many words at the beginning two decodings share."""
    for count, (old, new) in enumerate(zip(before, now, strict=False)):
        if _plain(old.word) != _plain(new.word):
            return count
    return min(len(before), len(now))


def _plain(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())
