"""Auto classes: `AutoModelFor….from_pretrained(name)` loads a model with the head of a task, as `glassformer.load`.

The classes of single families (`BertForMaskedLM`) are the same with the head of that class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError
from glassformer.hf.reference_model import LoadsModels
from glassformer.model import Model

AUTO_TASKS: Mapping[str, tuple[str, ...]] = {
    "ForPreTraining": ("pre-training", "sentence-order-pre-training", "replaced-token-detection"),
    "ForCausalLM": ("text-generation",),
    "WithLMHead": ("translation", "text-generation", "fill-mask"),
    "ForMaskedLM": ("fill-mask",),
    "ForSeq2SeqLM": ("translation",),
    "ForSequenceClassification": ("text-classification", "audio-classification"),
    "ForTokenClassification": ("token-classification",),
    "ForQuestionAnswering": ("question-answering",),
    "ForDocumentQuestionAnswering": ("question-answering",),
    "ForTableQuestionAnswering": ("table-question-answering",),
    "ForNextSentencePrediction": ("next-sentence-prediction",),
    "ForImageClassification": ("image-classification",),
    "ForZeroShotImageClassification": ("zero-shot-image-classification",),
    "ForAudioClassification": ("audio-classification",),
    "ForAudioFrameClassification": ("audio-frame-classification",),
    "ForCTC": ("automatic-speech-recognition",),
    "ForSpeechSeq2Seq": ("automatic-speech-recognition",),
    "ForTextEncoding": ("feature-extraction",),
}
"""What follows `AutoModel` in a class name → tasks of which a family has the first that it can."""


class AutoModel(LoadsModels):
    """A model without a head, of any family; subclasses load it with the head of their task."""

    def __new__(cls, config: Mapping[str, Any] | None = None) -> Model:  # type: ignore[misc] # as in the reference
        if config is None:
            raise ConfigError(
                f"{cls.__name__}() makes no model; load one with {cls.__name__}.from_pretrained(folder), or give its "
                "config"
            )
        return cls.from_config(config)
