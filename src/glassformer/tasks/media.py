"""Pipelines of pictures and sounds: image and audio classification, zero-shot image classification, transcripts.

    picture or sound ──processor──> pixels, samples or a spectrogram ──head──> logits ──softmax──> labels, best first

Sources: Dosovitskiy et al. 2021 (ViT), section 3.1; Baevski et al. 2020 (wav2vec 2.0), section 3; Radford et al. 2021
(CLIP), section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.engine.scores import ACTIVATIONS
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.files.schema import Share, check
from glassformer.model import Model
from glassformer.models import eval_mode
from glassformer.tasks.classify.frames import OUTSIDE
from glassformer.tasks.classify.task import label_names
from glassformer.tasks.label_options import candidate_labels, check_activation, check_candidates, ranked
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Label, Results, SoundSegment, TimedText, TimedTranscript, Transcript

TOP_K = 5
"""Labels of an image or sound, as in the reference library; ImageNet alone has 1,000."""
WINDOW_SECONDS = 30
"""Longer sounds are transcribed window by window."""


class MediaPipeline(Pipeline):
    """A task of pictures, or of sounds: files or arrays; several are a list of these."""

    INPUT = "picture"

    def is_one(self, given: Any) -> bool:
        return not isinstance(given, (list, tuple, Iterator))

    def check_input(self, given: Any) -> None:
        """The processor says what it cannot read."""

    def read(self, given: Sequence[Any]) -> dict[str, Any]:
        """The network's inputs for some files or arrays, on its device."""
        return {name: x.to(self.model.device) for name, x in self.process(list(given)).items()}

    def process(self, given: list[Any]) -> dict[str, Tensor]:
        """The tensors that the processor makes of some pictures."""
        tensors: dict[str, Tensor] = self.model.processor(given)
        return tensors


class SoundInputs(MediaPipeline):
    """Sounds: files, samples at the model's sample rate, or {"array": samples, "sampling_rate": 44100}."""

    INPUT = "sound"

    def process(self, given: list[Any]) -> dict[str, Tensor]:
        processor: Any = self.model.processor
        rate = processor.sample_rate_hz
        waves = [processor.read(*sound_samples(each, rate)) for each in given]
        return dict(processor(waves, rate))


class MediaClassification(MediaPipeline):
    """The labels of a picture or a sound, best first.

    top_k: how many (default 5); None = all
    function_to_apply: "softmax" (labels exclude one another), "sigmoid" (each for itself), "none" (logits); not given =
        as config.json says by its `problem_type`
    """

    OWN = ("top_k", "function_to_apply")

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_activation(options)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        with torch.inference_mode():
            logits = self.model(**self.read(batch)).logits
        assert logits is not None  # its head is a classifier
        return [self._results(row, options) for row in logits.float().cpu()]

    def _results(self, logits: Tensor, options: Mapping[str, Any]) -> Results[Label]:
        several = self.model.config.get("problem_type") == "multi_label_classification" or len(logits) == 1
        scores = ACTIVATIONS[options.get("function_to_apply") or ("sigmoid" if several else "softmax")](logits)
        names = label_names(self.model.config)
        return Results(Label(*pair) for pair in ranked(names, scores, options.get("top_k", TOP_K)))


class ImageClassification(MediaClassification):
    """image-classification pipeline."""

    HEAD = "image-classification"
    WHY = "it has no head that gives labels to a picture; a ViT has one, once it is trained for that"


class ImageFeatureExtraction(MediaPipeline):
    """image-feature-extraction pipeline: the vectors of a picture's patches, an array [patches, D] a picture.

    pool: one vector of them, [D], as the model's pooler makes it
    """

    HEAD = "feature-extraction"
    WHY = "it has no stack for pictures alone; a ViT has one"
    BODY = True
    OWN = ("pool",)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if model.network.READS != ("pixel_values",):
            raise UnsupportedError(f"a {model.family.model_type!r} model cannot do {task!r}: {self.WHY}")
        super().__init__(model, task, **options)

    def in_words(self, answer: Any) -> str:
        return " × ".join(map(str, answer.shape)) + " numbers"

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        with torch.inference_mode():
            output = self.model(**self.read(batch))
        states = output.pooler_output if options.get("pool") else output.last_hidden_state
        if states is None:
            raise ConfigError(
                "pool=True asks for a vector of a pooler, and this model was loaded without; leave it out"
            )
        return [vectors.float().cpu().numpy() for vectors in states]


class AudioClassification(SoundInputs, MediaClassification):
    """audio-classification pipeline."""

    HEAD = "audio-classification"
    WHY = "it has no head that gives labels to a sound; a wav2vec 2.0 has one, once it is trained for that"


class AudioFrameClassification(SoundInputs):
    """audio-frame-classification pipeline: from when to when a sound has which label, such as speech or a speaker.

    Where labels exclude one another, a frame has the most probable one, and frames of the class "none" (outside of all
    segments, as `glassformer train --task tag-audio` names it) are left out; of several labels a frame (config.json:
    `problem_type`), each holds from a probability of `threshold` on.

    threshold: 0.5 by default
    """

    HEAD = "audio-frame-classification"
    WHY = (
        "it has no head that gives labels to the frames of a sound; a wav2vec 2.0 has one, once it is trained for that"
    )
    OWN = ("threshold",)
    EMPTY = "no segment"

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check(Share, options.get("threshold", 0.5), "threshold")

    def in_words(self, answer: Any) -> str:
        return ", ".join(segment.text for segment in answer)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        # One by one: padding would change the frames of models that normalise over the whole sound.
        with eval_mode(self.model.network), torch.inference_mode():
            return [self._segments(self.model(**self.read([given])), options) for given in batch]

    def _segments(self, output: Any, options: Mapping[str, Any]) -> Results[SoundSegment]:
        logits, names = output.logits[0].float().cpu(), label_names(self.model.config)
        if self.model.config.get("problem_type") == "multi_label_classification":
            shares = logits.sigmoid()
            holds = shares >= options.get("threshold", 0.5)
        else:
            shares = logits.softmax(-1)
            holds = torch.nn.functional.one_hot(logits.argmax(-1), len(names)).bool()
        processor: Any = self.model.processor
        features: Any = self.model.network
        seconds = features.features.spec.hop / processor.sample_rate_hz
        segments = []
        for number, name in enumerate(names):
            if name == OUTSIDE:
                continue
            edges = torch.nn.functional.pad(holds[:, number].int(), (1, 1)).diff()
            ends = zip((edges > 0).nonzero()[:, 0].tolist(), (edges < 0).nonzero()[:, 0].tolist(), strict=True)
            segments += [
                SoundSegment(name, round(a * seconds, 3), round(b * seconds, 3), float(shares[a:b, number].mean()))
                for a, b in ends
            ]
        return Results(sorted(segments, key=lambda segment: (segment.start, segment.end)))


class ZeroShotImageClassification(MediaPipeline):
    """zero-shot-image-classification pipeline: which of some texts fits a picture best, without training.

    candidate_labels: the labels, or texts, to choose from
    hypothesis_template: a text with {} in the place of a label (default "This is a photo of {}.")
    """

    HEAD = "zero-shot-image-classification"
    WHY = "it does not compare pictures with texts; CLIP does"
    OWN = ("candidate_labels", "hypothesis_template")
    TEMPLATE = "This is a photo of {}."

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_candidates(options)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        labels = candidate_labels(options)
        texts = [options.get("hypothesis_template", self.TEMPLATE).format(label) for label in labels]
        words = self.model.tokenizer(texts, padding=True, return_tensors="pt")
        ids: dict[str, Any] = {name: x.to(self.model.device) for name, x in words.items() if name != "token_type_ids"}
        with torch.inference_mode():
            logits = self.model(**ids, **self.read(batch)).logits_per_image
        assert logits is not None  # of two towers
        shares = logits.float().softmax(-1).cpu()
        return [Results(Label(*pair) for pair in ranked(labels, row)) for row in shares]


class SpeechRecognition(SoundInputs):
    """automatic-speech-recognition pipeline: the transcript of a sound, however long.

    generate_kwargs: options of `Model.generate`, of a model with a decoder; they may be by themselves too
    return_timestamps: True: segments with their times; "word": words with theirs

    A sound of more than one window, or with times, goes the way of `Model.transcribe`, with greedy search unless
    `num_beams` says otherwise; it takes the options of `TranscriptionOptions`, such as `language` and `batch_size`.
    """

    HEAD = "automatic-speech-recognition"
    WHY = "it does not transcribe speech; Whisper and wav2vec 2.0 do"
    OWN = ("generate_kwargs", "return_timestamps")

    def check(self, options: Mapping[str, Any]) -> None:
        generates = self.model.is_encoder_decoder
        super().check({} if generates else options)
        if not isinstance(options.get("generate_kwargs", {}), Mapping):
            raise ConfigError(
                f"generate_kwargs is {safe_repr(options['generate_kwargs'])}; it must map options of generate to values"
            )
        if not generates and options.get("generate_kwargs"):
            raise ConfigError("this model predicts a letter a frame and generates nothing; leave generate_kwargs out")
        if (times := options.get("return_timestamps", False)) not in (True, False, "word"):
            raise ConfigError(f"return_timestamps is {safe_repr(times)}; it must be True, False or 'word'")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        given = {name: value for name, value in options.items() if name not in self.OWN}
        given |= options.get("generate_kwargs", {})
        processor: Any = self.model.processor
        waves = [processor.read(*sound_samples(each, processor.sample_rate_hz)) for each in batch]
        times = options.get("return_timestamps", False)
        if times or any(len(wave) > WINDOW_SECONDS * processor.sample_rate_hz for wave in waves):
            return [self._transcribed(wave, processor.sample_rate_hz, times, given) for wave in waves]
        inputs = {name: x.to(self.model.device) for name, x in processor(waves, processor.sample_rate_hz).items()}
        decode = self.model.tokenizer.decode
        if self.model.is_encoder_decoder:
            ids = self.model.generate(inputs["input_features"], **given)
            return [Transcript(decode(row, skip_special_tokens=True).strip()) for row in ids.tolist()]
        with torch.inference_mode():
            output = self.model(**inputs)
        assert output.logits is not None  # its head is a CTC head
        lengths = [output.logits.shape[1]] * len(batch) if output.frames is None else output.frames.tolist()
        rows = zip(output.logits.argmax(-1).tolist(), lengths, strict=True)
        return [Transcript(decode(row[:length])) for row, length in rows]

    def _transcribed(self, wave: Tensor, rate: int, times: bool | str, given: Mapping[str, Any]) -> Transcript:
        words = times == "word"
        options = {"num_beams": 1, "word_timestamps": words, **given}
        done = self.model.transcribe(wave, sample_rate_hz=rate, **options)
        if not times:
            return Transcript(done.text)
        parts = [(word.word, word) for word in done.words] if words else [(each.text, each) for each in done.segments]
        return TimedTranscript(done.text, [TimedText((part.start, part.end), text) for text, part in parts])


def sound_samples(given: Any, rate: int) -> tuple[Any, int | None]:
    """What the processor reads, and the sample rate of samples.

    Raises: DataError: a mapping that is no sound.
    """
    if not isinstance(given, Mapping):
        return given, None if isinstance(given, (str, Path)) else rate
    samples, own_rate = given.get("raw", given.get("array")), given.get("sampling_rate")
    if samples is None or not isinstance(own_rate, int):
        raise DataError(f"the input is {safe_repr(given)}; of a sound it has 'array' (or 'raw') and 'sampling_rate'")
    return np.asarray(samples), own_rate
