"""The names of Hugging Face transformers, for code that was written for it.

    from glassformer.hf import AutoModelForSequenceClassification, AutoTokenizer, pipeline

Auto classes, the classes of single families (`BertModel`, `GPT2LMHeadModel`, `BertTokenizerFast`, …), pipelines, data
collators and schedules. Each gives what `glassformer.load` gives, a `Model`, a `Tokenizer` or a processor, under the
name and with the arguments that such code uses; where nothing stands behind a name, the error says what to write.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.generation.streamers import TextIteratorStreamer, TextStreamer
    from glassformer.hf.auto import AutoModel, AutoTokenizer
    from glassformer.hf.collators import (
        DataCollatorForLanguageModeling,
        DataCollatorForSeq2Seq,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        default_data_collator,
    )
    from glassformer.hf.configs import AutoConfig, GenerationConfig
    from glassformer.hf.pipelines import pipeline
    from glassformer.hf.processors import AutoFeatureExtractor, AutoImageProcessor, AutoProcessor
    from glassformer.hf.schedules import (
        get_constant_schedule,
        get_constant_schedule_with_warmup,
        get_cosine_schedule_with_warmup,
        get_linear_schedule_with_warmup,
        get_scheduler,
        set_seed,
    )
    from glassformer.models.model_config import ModelConfig as PretrainedConfig

__all__ = [
    "AutoConfig",
    "AutoFeatureExtractor",
    "AutoImageProcessor",
    "AutoModel",
    "AutoProcessor",
    "AutoTokenizer",
    "DataCollatorForLanguageModeling",
    "DataCollatorForSeq2Seq",
    "DataCollatorForTokenClassification",
    "DataCollatorWithPadding",
    "GenerationConfig",
    "PretrainedConfig",
    "TextIteratorStreamer",
    "TextStreamer",
    "default_data_collator",
    "get_constant_schedule",
    "get_constant_schedule_with_warmup",
    "get_cosine_schedule_with_warmup",
    "get_linear_schedule_with_warmup",
    "get_scheduler",
    "pipeline",
    "set_seed",
]

_LAZY = {
    **dict.fromkeys(("AutoConfig", "GenerationConfig"), "hf.configs"),
    **dict.fromkeys(("AutoModel", "AutoTokenizer"), "hf.auto"),
    **dict.fromkeys(("AutoFeatureExtractor", "AutoImageProcessor", "AutoProcessor"), "hf.processors"),
    **dict.fromkeys((name for name in __all__ if "ollator" in name), "hf.collators"),
    **dict.fromkeys((name for name in __all__ if name.startswith(("get_", "set_"))), "hf.schedules"),
    **dict.fromkeys(("TextStreamer", "TextIteratorStreamer"), "generation.streamers"),
    "pipeline": "hf.pipelines",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "PretrainedConfig":
            from glassformer.models.model_config import ModelConfig

            return ModelConfig
        if name in _LAZY:
            return getattr(import_module(f"glassformer.{_LAZY[name]}"), name)
        if name.startswith("_"):
            raise AttributeError(name)
        from glassformer.hf.names import class_of

        return class_of(name)
