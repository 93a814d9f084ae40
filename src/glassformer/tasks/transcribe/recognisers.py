"""What differs between speech recognisers: with a decoder (Whisper), and of a letter a frame (CTC).

    DecoderRecogniser   spectrogram ─ encoder ─ decoder     labels: prompt, tokens of the transcript, end
    LetterRecogniser    waveform ─ encoder                  labels: letters of the transcript, not aligned to frames

Sources: Radford et al. 2022, section 2.3 (what the decoder is taught); Graves et al. 2006, section 4 (CTC).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.features import LogMel, Waveform
from glassformer.audio.processor import AudioProcessor
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output
from glassformer.core.heads import not_none
from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models._seq2seq import shift_right
from glassformer.models.whisper.foreign_names import preprocessor_config
from glassformer.speech.ctc import LetterDecoder
from glassformer.speech.options import CONTEXTS, TranscriptionOptions
from glassformer.speech.results import Segment
from glassformer.speech.vocabulary import SpeechVocabulary, text_ids
from glassformer.speech.window import WindowDecoder, context_positions, short_context
from glassformer.tasks.metrics.normalisers import plain_apostrophes
from glassformer.tasks.microbatch import padded, padding_keep


class Recogniser(ABC):
    """A speech model, its labels and its transcripts.

    language: of the recordings, where the model knows several
    masks: whether it reads spectrograms, which SpecAugment masks
    writes_times: whether transcripts may have timestamps
    batches_exactly: whether a sound has the same output alone and with others
    """

    language: str | None = None
    masks = False
    writes_times = False
    batches_exactly = True

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        processor: Any = model.processor
        self.rate_hz: int = processor.sample_rate_hz

    @abstractmethod
    def labels(self, text: str, segments: Sequence[Segment] = ()) -> list[int]:
        """The ids that a transcript is learnt as; with the times of its segments, where the model writes them."""

    def stretched(self, labels: np.ndarray, factor: float) -> np.ndarray:
        """Labels of a sound that takes this many times as long: their times do, too. [T] → [T]"""
        return labels

    @abstractmethod
    def problem(self, samples: int, labels: Sequence[int] | np.ndarray) -> str | None:
        """Why a recording and its labels cannot be learnt from; None = they can."""

    @abstractmethod
    def positions(self, samples: int) -> int:
        """How many positions the encoder has for a sound: what it takes of a micro-batch."""

    @property
    def longest_seconds(self) -> float:
        """The longest sound of several segments."""
        return 0.0

    def spectrogram(self, samples: int) -> tuple[int, float, int]:
        """Frames of a sound, frames a second, and mel bins."""
        raise NotImplementedError(f"{type(self).__name__} reads no spectrogram")

    @abstractmethod
    def inputs(self, sounds: Sequence[Tensor], spans: Sequence[np.ndarray]) -> tuple[Batch, Flow]:
        """Sounds as one call of the network reads them; `spans` of each are masked, see `Augmentation.spans`."""

    @abstractmethod
    def batch_labels(self, batch: Batch, labels: Sequence[np.ndarray]) -> tuple[Batch, Tensor]:
        """The labels of a batch, -100 where nothing counts, and the batch with what the decoder reads of them."""

    @abstractmethod
    def transcripts(self, output: Output, flow: Flow, options: TranscriptionOptions) -> list[str]:
        """The transcripts of a batch, from the network's output for it."""

    @abstractmethod
    def rescored(
        self, output: Output, flow: Flow, options: TranscriptionOptions, weights: Sequence[tuple[float, float]]
    ) -> list[list[str]]:
        """The transcripts of a batch by each pair of weights (alpha, beta) of n-best rescoring: of one search."""

    def notes(self) -> list[str]:
        """What should be known of the labels."""
        return []


class DecoderRecogniser(Recogniser):
    """An encoder-decoder with Whisper's vocabulary, taught by teacher forcing.

    Args:
        language: of the recordings; None = English, of a model that knows nothing else
        task: "transcribe" or "translate"
        context: the encoder context, "window" or "sound"
    Raises: ConfigError: a language or a task that the model does not know; a multilingual model and no language.
    """

    masks = True
    writes_times = True

    def __init__(self, model: LoadedModel, language: str | None, task: str, context: str) -> None:
        super().__init__(model)
        if context not in CONTEXTS:
            raise ConfigError(f"audio_context is {safe_repr(context)}; it must be one of: {', '.join(CONTEXTS)}")
        self.vocabulary = SpeechVocabulary.of(model)
        if language is None and self.vocabulary.languages:
            raise ConfigError(
                "this model is multilingual; say which language the recordings are in: language=uk, or at the command "
                "line --set task_options.language=uk"
            )
        self.language: str = self.vocabulary.code(language or "en")
        self.task, self.context = task, context
        self.prompt = self.vocabulary.prompt(self.language, task, timestamps=False)
        processor: Any = model.processor
        self.extractor: LogMel = processor.extractor
        self._decoder: WindowDecoder | None = None

    def labels(self, text: str, segments: Sequence[Segment] = ()) -> list[int]:
        if not segments:
            return [*self.prompt[1:], *self._ids(text), self.vocabulary.end]
        labels = self.vocabulary.sequence(self.language, self.task)[1:]
        for each in segments:
            start, end = map(self.vocabulary.timestamp, (each.start, each.end))
            labels += [start, *self._ids(each.text), end]
        return [*labels, self.vocabulary.end]

    def stretched(self, labels: np.ndarray, factor: float) -> np.ndarray:
        times = labels - self.vocabulary.first_timestamp
        moved = self.vocabulary.first_timestamp + np.round(times * factor).astype(labels.dtype)
        return np.where(times >= 0, moved, labels)

    def _ids(self, text: str) -> list[int]:
        return text_ids(self.model.tokenizer, " " + " ".join(text.split()))

    def problem(self, samples: int, labels: Sequence[int] | np.ndarray) -> str | None:
        room = min(self.vocabulary.context // 2, self.vocabulary.context - len(self.prompt))  # as in decoding
        if samples > self.extractor.samples:
            return f"longer than the window of {self.extractor.seconds} s"
        if max(labels) >= self.model.network.target_vocabulary:
            return "later than the last timestamp of the model"
        return f"more than {room} tokens" if len(labels) - len(self.prompt) + 1 > room else None

    def positions(self, samples: int) -> int:
        hop = self.extractor.hop_samples
        whole = self.extractor.samples // (2 * hop)
        return whole if self.context == "window" else min(context_positions(samples // hop), whole)

    @property
    def longest_seconds(self) -> float:
        last = self.vocabulary.seconds(self.model.network.target_vocabulary - 1)
        return min(self.extractor.samples / self.rate_hz, last)

    def spectrogram(self, samples: int) -> tuple[int, float, int]:
        hop = self.extractor.hop_samples
        return samples // hop, self.rate_hz / hop, self.extractor.bins

    def inputs(self, sounds: Sequence[Tensor], spans: Sequence[np.ndarray]) -> tuple[Batch, Flow]:
        positions = [self.positions(len(sound)) for sound in sounds]
        samples = 2 * max(positions) * self.extractor.hop_samples
        rows = torch.full((len(sounds), samples), self.extractor.padding_value)
        for row, sound in zip(rows, sounds, strict=True):
            row[: len(sound)] = sound
        features = self.extractor.features(rows)
        for matrix, of_row in zip(features, spans, strict=True):
            for axis, begin, end in of_row.tolist():
                matrix.narrow(axis, begin, end - begin).zero_()
        if self.context == "window":
            return Batch(input_features=features), Flow()
        features, flow = short_context(features, positions)
        return Batch(input_features=features), flow

    def batch_labels(self, batch: Batch, labels: Sequence[np.ndarray]) -> tuple[Batch, Tensor]:
        rows = padded(labels, IGNORE_INDEX)
        ids = shift_right(rows, self.vocabulary.start, self.vocabulary.end)
        return Batch(input_features=batch.input_features, decoder_input_ids=ids), rows

    def transcripts(self, output: Output, flow: Flow, options: TranscriptionOptions) -> list[str]:
        decoder, memory = self._decoding(output, flow, options)
        return [decoded.text for decoded in decoder.decode(memory, self.language)]

    def rescored(
        self, output: Output, flow: Flow, options: TranscriptionOptions, weights: Sequence[tuple[float, float]]
    ) -> list[list[str]]:
        decoder, memory = self._decoding(output, flow, options)
        return decoder.rescored(memory, self.language, weights)

    def _decoding(
        self, output: Output, flow: Flow, options: TranscriptionOptions
    ) -> tuple[WindowDecoder, EncoderOutput]:
        """What decodes with these options, and the encoder states that it decodes."""
        if self._decoder is None or self._decoder.options is not options:
            self._decoder = WindowDecoder(self.model, options)
        return self._decoder, EncoderOutput(not_none(output.encoder_last_hidden_state), flow.keep)


class LetterRecogniser(Recogniser):
    """A model of a letter a frame (CTC): wav2vec 2.0, HuBERT and the like.

    Letters that the vocabulary has in one case alone are written so; others that it lacks are left out, and counted.
    """

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        network: Any = model.network
        processor: Any = model.processor
        self.encoder = network.features
        self.extractor: Waveform = processor.extractor
        self.batches_exactly = model.config.get("feat_extract_norm") == "layer"
        self.letters = LetterDecoder(model, TranscriptionOptions(num_beams=1))
        self._known = {spelled for spelled in self.letters.spelled if len(spelled) == 1}
        self._missing = Counter[str]()

    def labels(self, text: str, segments: Sequence[Segment] = ()) -> list[int]:
        letters = []
        for letter in plain_apostrophes(" ".join(text.split())):
            form = next((x for x in (letter, letter.upper(), letter.lower()) if x in self._known), None)
            if form is None and letter != " ":
                self._missing[letter] += 1
            letters.append(form or " " * (letter == " "))
        spelled = " ".join("".join(letters).split())
        ids: list[int] = self.model.tokenizer(spelled, add_special_tokens=False, special_tokens_as_text=True)[
            "input_ids"
        ]
        return ids

    def problem(self, samples: int, labels: Sequence[int] | np.ndarray) -> str | None:
        if samples < self.encoder.spec.samples:
            return "shorter than the first frame"
        doubled = sum(before == after for before, after in pairwise(labels))
        # Two equal letters need a blank between them.
        fits = len(labels) + doubled <= self.encoder.frames(samples)
        if not len(labels):
            return "no letter of the vocabulary"
        return None if fits else "more letters than frames"

    def positions(self, samples: int) -> int:
        return int(max(1, self.encoder.frames(samples)))

    def inputs(self, sounds: Sequence[Tensor], spans: Sequence[np.ndarray]) -> tuple[Batch, Flow]:
        values = self.extractor(sounds)["input_values"]
        even = len(set(map(len, sounds))) == 1
        return Batch(input_values=values), Flow(keep=None if even else padding_keep(sounds))

    def batch_labels(self, batch: Batch, labels: Sequence[np.ndarray]) -> tuple[Batch, Tensor]:
        return batch, padded(labels, IGNORE_INDEX)

    def transcripts(self, output: Output, flow: Flow, options: TranscriptionOptions) -> list[str]:
        plain = options.num_beams == 1 and options.language_model is None
        decoder = self.letters if plain else LetterDecoder(self.model, options)
        return [decoder.text(decoder.search(row)[0]) for row in _log_probs(output)]

    def rescored(
        self, output: Output, flow: Flow, options: TranscriptionOptions, weights: Sequence[tuple[float, float]]
    ) -> list[list[str]]:
        decoder = LetterDecoder(self.model, options)
        return [decoder.rescored(row, weights) for row in _log_probs(output)]

    def notes(self) -> list[str]:
        if not self._missing:
            return []
        listed = ", ".join(f"{safe_repr(letter)} {count:,} times" for letter, count in self._missing.most_common(5))
        more = ", …" if len(self._missing) > 5 else ""
        return [f"letters that the vocabulary lacks are left out of transcripts: {listed}{more}"]


def _log_probs(output: Output) -> list[np.ndarray]:
    """Log-probabilities of the letters in each frame of each row. [frames, V]"""
    log_probs = not_none(output.logits).double().log_softmax(-1).cpu().numpy()
    return [row[:count] for row, count in zip(log_probs, not_none(output.frames).tolist(), strict=True)]


def recogniser_of(model: LoadedModel, language: str | None, task: str, context: str) -> Recogniser:
    """The recogniser that a model is.

    Raises: ConfigError: options of the other kind. DataError: it has no tokenizer.
    """
    ensure_processor(model)
    processor: Any = model.processor
    if isinstance(processor.extractor, LogMel):
        return DecoderRecogniser(model, language, task, context)
    if task != "transcribe" or context != "window":
        raise ConfigError(
            "a model of a letter a frame only transcribes, and reads sounds as long as they are: leave "
            "translate and audio_context out"
        )
    if not model.has_tokenizer:
        raise DataError(
            "this model has no tokenizer, and so no letters to write; have them made of the training transcripts: "
            "tokenizer: {kind: characters}"
        )
    return LetterRecogniser(model)


def ensure_processor(model: LoadedModel) -> None:
    """Give a new model the usual processor of its family, as its folder then has one."""
    if not model.has_processor and model.family.modality == "sound":
        model.processor = AudioProcessor.from_config(_usual_processor(model.config))


def _usual_processor(config: Any) -> dict[str, Any]:
    if "num_mel_bins" in config:
        return preprocessor_config(config["num_mel_bins"], config.get("max_source_positions", 1500))
    return {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "feature_size": 1,
        "sampling_rate": 16_000,
        "do_normalize": True,
        # Models that norm each channel over time were made without a mask.
        "return_attention_mask": config.get("feat_extract_norm") == "layer",
        "padding_value": 0.0,
        "padding_side": "right",
    }
