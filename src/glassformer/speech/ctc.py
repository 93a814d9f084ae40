"""Transcription by recognisers that predict a letter a frame (CTC): wav2vec 2.0, HuBERT and the like.

    sound ─ windows that overlap ─ network ─ the middle of each ─ log-probabilities of letters [frames, V]
          ─ cut at silences ─ greedy or prefix beam search ─ letters ─ forced alignment ─> words with times

Sources: Graves et al. 2006 (CTC, forced alignment); Hannun et al. 2014, algorithm 1 (prefix beam search with a
language model).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.audio.read import AudioInput, audio_blocks
from glassformer.core.flow import Batch, Flow
from glassformer.errors import ConfigError
from glassformer.loaded_model import LoadedModel
from glassformer.models import eval_mode
from glassformer.speech.ctc_search import force_align, greedy_letters, prefix_beam_search
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Attempt, Segment, TimedWord, Transcription, Window
from glassformer.speech.sequential import Step
from glassformer.speech.word_fusion import FusedWords, TextScore

WINDOW_SECONDS, OVERLAP_SECONDS = 20, 3
"""Of a long recording: each window is read with so much before and after it, which is thrown away."""
SILENCE_SECONDS = 0.4
"""A segment ends where nothing is predicted for so long."""
LONGEST_SECONDS = 30.0
"""A segment without a silence is cut at its longest pause."""

OF_DECODERS = ("language", "task", "initial_prompt", "batch_size", "voice_filter", "like_openai")

LogProbs = NDArray[np.float64]


class LetterDecoder:
    """CTC decoding with a model's vocabulary: greedy, or prefix beam search with a language model in it, or after it.

    blank, delimiter: ids of the blank and of the letter between words
    spelled: the text of each id
    """

    def __init__(self, model: LoadedModel, options: TranscriptionOptions) -> None:
        tokenizer = model.tokenizer
        self._beams = options.num_beams
        self._pieces: list[str] = tokenizer.convert_ids_to_tokens(list(range(model.vocabulary)))
        # Each letter by itself: the tokenizer's decoder would take a double letter for a repeated one.
        self.spelled = [tokenizer.decode([i], skip_special_tokens=True) for i in range(model.vocabulary)]
        self.blank: int = int(model.config.get("pad_token_id") or 0)
        self.delimiter: int = tokenizer("A A", add_special_tokens=False)["input_ids"][1]  # between two words
        if options.language_model is not None and self._beams == 1:
            raise ConfigError("a language model takes part in a beam search, and num_beams is 1; it must be 2 or more")
        self._words = FusedWords(options.language_model, options.alpha, options.beta)
        self._fused = FusedWords(None, 0.0, 0.0) if options.rescore else self._words

    def search(self, log_probs: LogProbs) -> tuple[list[int], float]:
        """Letters, and their log-probability. [frames, V]"""
        if self._beams == 1:
            return greedy_letters(log_probs, self.blank)
        return _best(self._candidates(log_probs), self._words.alpha, self._words.beta)

    def rescored(self, log_probs: LogProbs, weights: Sequence[tuple[float, float]]) -> list[str]:
        """The text by each pair of weights (alpha, beta), all of one search. [frames, V]"""
        candidates = self._candidates(log_probs)
        return [self.text(_best(candidates, *pair)[0]) for pair in weights]

    def _candidates(self, log_probs: LogProbs) -> list[tuple[list[int], float, TextScore]]:
        """Letters of the n best texts, their score in the search, and what a model says of them that took no part."""
        texts = prefix_beam_search(
            log_probs,
            beams=self._beams,
            blank=self.blank,
            delimiter=self.delimiter,
            pieces=self._pieces,
            words=self._fused,
        )
        if self._fused is self._words:
            return [(letters, score, TextScore()) for letters, score in texts]
        kinds = self._words.apart
        spelled = [self._words_of(letters) for letters, _ in texts]
        language = [TextScore(*(kind.of_text(words) for kind in kinds)) for words in spelled]
        return [(*text, score) for text, score in zip(texts, language, strict=True)]

    def _words_of(self, letters: Sequence[int]) -> list[str]:
        """Words as the search spells them."""
        spelled = "".join(" " if letter == self.delimiter else self._pieces[letter] for letter in letters)
        return spelled.split(" ")

    def text(self, letters: Sequence[int]) -> str:
        """Words of letters, with a space between them."""
        parts = (" " if letter == self.delimiter else self.spelled[letter] for letter in letters)
        return " ".join("".join(parts).split())


def _best(
    candidates: Sequence[tuple[list[int], float, TextScore]], alpha: float, beta: float
) -> tuple[list[int], float]:
    """The letters with the highest score, and that score, with what the language model adds."""
    weighed = [(letters, score + language.weighed(alpha, beta)) for letters, score, language in candidates]
    return max(weighed, key=lambda each: each[1])


class CTCTranscription:
    """A recording that is being transcribed by a CTC model: iterate over its steps, then take `transcription`."""

    language = None

    def __init__(
        self,
        model: LoadedModel,
        sound: AudioInput,
        options: TranscriptionOptions,
        sample_rate_hz: int | None = None,
    ) -> None:
        self.model = model
        self.options = options
        self._sound, self._own_rate = sound, sample_rate_hz
        default = TranscriptionOptions()
        if given := [name for name in OF_DECODERS if getattr(options, name) != getattr(default, name)]:
            raise ConfigError(f"{given[0]} is an option of models with a decoder; this one spells what it hears")
        processor: Any = model.processor
        network: Any = model.network
        self._processor = processor
        self._rate: int = processor.sample_rate_hz
        self._hop: int = network.features.spec.hop
        self._seconds = self._hop / self._rate  # of a frame
        self._letters = LetterDecoder(model, options)
        self._samples: int = 0
        self._steps: list[Step] = []

    @property
    def duration(self) -> float:
        """In seconds, of what was read so far."""
        return self._samples / self._rate

    def __iter__(self) -> Iterator[Step]:
        """A step for each stretch between two silences."""
        with eval_mode(self.model.network):
            begin, rest = 0, np.zeros((0, self.model.vocabulary))  # frames that wait for their silence
            for log_probs in self._log_probs():
                rest = np.concatenate([rest, log_probs])
                while (cut := self._cut(rest)) is not None:
                    yield from self._decoded(begin, rest[:cut])
                    begin, rest = begin + cut, rest[cut:]
            yield from self._decoded(begin, rest)

    # ------------------------------------------------------------------------------------------------ network

    def _log_probs(self) -> Iterator[LogProbs]:
        """Log-probabilities of letters, window by window. [frames, V]"""
        step, overlap = (seconds * self._rate // self._hop * self._hop for seconds in (WINDOW_SECONDS, OVERLAP_SECONDS))
        buffer, before = np.zeros(0, np.float32), 0  # samples, of which this many were thrown away before
        for block in audio_blocks(self._sound, self._rate, self._own_rate):
            self._samples += len(block)
            buffer = np.concatenate([buffer, block])
            while len(buffer) > before + step + 2 * overlap:
                frames = self._run(buffer[: before + step + overlap])
                yield frames[before // self._hop : (before + step) // self._hop]
                buffer, before = buffer[before + step - overlap :], overlap
        if len(buffer):
            yield self._run(buffer)[before // self._hop :]

    @torch.inference_mode()
    def _run(self, samples: NDArray[np.float32]) -> LogProbs:
        """The network on one window; nothing where it is shorter than a frame."""
        network: Any = self.model.network
        if network.features.frames(len(samples)) < 1:
            return np.zeros((0, self.model.vocabulary))
        inputs = self._processor([samples], self._rate)
        batch = Batch(input_values=inputs["input_values"].to(self.model.device))
        logits = self.model.network(batch, Flow()).logits
        result: LogProbs = logits[0].double().log_softmax(-1).cpu().numpy()
        return result

    # ---------------------------------------------------------------------------------------------- segments

    def _cut(self, log_probs: LogProbs) -> int | None:
        """Where the first segment ends: after its silence; None while it may go on."""
        quiet = np.isin(log_probs.argmax(-1), [self._letters.blank, self._letters.delimiter])
        edges = np.flatnonzero(np.diff(np.array([0, *quiet, 0], np.int8)))
        runs = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        enough = round(SILENCE_SECONDS / self._seconds)
        for start, end in runs:
            if end - start >= enough and end < len(quiet) and not quiet[:start].all():
                return (start + end) // 2
        if len(quiet) * self._seconds > LONGEST_SECONDS:
            start, end = max(runs, key=lambda run: run[1] - run[0], default=(len(quiet) - 1, len(quiet) - 1))
            return max(1, (start + end) // 2)
        return None

    def _decoded(self, begin: int, log_probs: LogProbs) -> Iterator[Step]:
        """The segment of a stretch of frames, where there is speech in it."""
        if not len(log_probs):
            return
        letters, score = self._letters.search(log_probs)
        words = self._word_times(letters, log_probs, begin * self._seconds)
        if not words:
            return
        start, end = words[0].start, words[-1].end
        mean = score / len(log_probs)
        text = "".join(word.word for word in words)
        timed = tuple(words) if self.options.word_timestamps else None
        step = Step(
            Window(start, end, 0.0, (Attempt(0.0, mean, 1.0),)),
            (Segment(start, end, text, tuple(letters), avg_logprob=mean, words=timed),),
        )
        self._steps.append(step)
        yield step

    def _word_times(self, letters: list[int], log_probs: LogProbs, begin: float) -> list[TimedWord]:
        """Words, from the first frame of their first letter to the last frame of their last one."""
        spans = force_align(log_probs, letters, self._letters.blank)
        words, current = list[TimedWord](), list[int]()
        for index, letter in enumerate([*letters, self._letters.delimiter]):
            if letter != self._letters.delimiter and index < len(letters):
                current.append(index)
            elif current:
                text = "".join(self._letters.spelled[letters[i]] for i in current).strip()
                frames = [frame for i in current for frame in range(*spans[i])]
                shares = [float(np.exp(log_probs[frame, letters[i]])) for i in current for frame in range(*spans[i])]
                if text:
                    start, end = begin + frames[0] * self._seconds, begin + (frames[-1] + 1) * self._seconds
                    words.append(TimedWord(" " + text, start, end, sum(shares) / len(shares)))
                current = []
        return words

    @property
    def transcription(self) -> Transcription:
        """Transcription of all that was decoded so far."""
        segments = tuple(segment for step in self._steps for segment in step.segments)
        return Transcription(
            text="".join(segment.text for segment in segments).strip(),
            segments=segments,
            duration=self.duration,
            windows=tuple(step.window for step in self._steps),
        )
