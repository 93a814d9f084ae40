"""The names of Hugging Face transformers, for code that was written for it.

    from glassformer.hf import AutoModelForSequenceClassification, AutoTokenizer, pipeline

Auto classes, the classes of single families (`BertModel`, `GPT2LMHeadModel`, `BertTokenizerFast`, …), pipelines, data
collators and schedules. Each gives what `glassformer.load` gives, a `Model`, a `Tokenizer` or a processor, under the
name and with the arguments that such code uses; where nothing stands behind a name, the error says what to write.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

from glassformer.errors import UnsupportedError

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
    from glassformer.hf.optimization import (
        SchedulerType,
        get_constant_schedule,
        get_constant_schedule_with_warmup,
        get_cosine_schedule_with_warmup,
        get_cosine_with_hard_restarts_schedule_with_warmup,
        get_inverse_sqrt_schedule,
        get_linear_schedule_with_warmup,
        get_polynomial_decay_schedule_with_warmup,
        get_scheduler,
        set_seed,
    )
    from glassformer.hf.pipelines import pipeline
    from glassformer.hf.processors import AutoFeatureExtractor, AutoImageProcessor, AutoProcessor
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
    "SchedulerType",
    "TextIteratorStreamer",
    "TextStreamer",
    "default_data_collator",
    "get_constant_schedule",
    "get_constant_schedule_with_warmup",
    "get_cosine_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
    "get_inverse_sqrt_schedule",
    "get_linear_schedule_with_warmup",
    "get_polynomial_decay_schedule_with_warmup",
    "get_scheduler",
    "pipeline",
    "set_seed",
]

_LAZY = {
    **dict.fromkeys(("AutoConfig", "GenerationConfig"), "hf.configs"),
    **dict.fromkeys(("AutoModel", "AutoTokenizer"), "hf.auto"),
    **dict.fromkeys(("AutoFeatureExtractor", "AutoImageProcessor", "AutoProcessor"), "hf.processors"),
    **dict.fromkeys((name for name in __all__ if "ollator" in name), "hf.collators"),
    **dict.fromkeys((name for name in __all__ if name.startswith(("get_", "set_"))), "hf.optimization"),
    **dict.fromkeys(("TextStreamer", "TextIteratorStreamer"), "generation.streamers"),
    **dict.fromkeys(("Trainer", "TrainOutput"), "hf.trainer.trainer"),
    "Seq2SeqTrainer": "hf.trainer.seq2seq",
    **dict.fromkeys(("TrainingArguments", "Seq2SeqTrainingArguments", "IntervalStrategy"), "hf.trainer.arguments"),
    **dict.fromkeys(
        ("TrainerCallback", "EarlyStoppingCallback", "PrinterCallback", "TrainerState", "TrainerControl"),
        "hf.trainer.callbacks",
    ),
    "PredictionOutput": "hf.trainer.evaluation",
    "DefaultDataCollator": "hf.collators",
    "get_last_checkpoint": "hf.trainer.checkpoints",
    "SchedulerType": "hf.optimization",
    "pipeline": "hf.pipelines",
}
# Where the reference library keeps these names; here they are in one place.
for _name in (
    *("configuration_utils", "data", "data.data_collator", "generation", "generation.utils", "modeling_utils"),
    *("tokenization_utils", "tokenization_utils_base", "tokenization_utils_fast"),
    *("trainer_callback", "trainer_seq2seq", "trainer_utils", "trainer_pt_utils", "training_args_seq2seq"),
    *("training_args", "file_utils", "utils.hub", "pytorch_utils", "cache_utils", "processing_utils", "image_utils"),
    *("feature_extraction_utils", "image_processing_utils", "utils.quantization_config", "activations"),
    *("generation.configuration_utils", "generation.logits_process", "generation.stopping_criteria"),
    *("generation.streamers", "convert_graph_to_onnx"),
):
    sys.modules.setdefault(f"{__name__}.{_name}", sys.modules[__name__])


class _NoSources(MetaPathFinder):
    """Says what to write instead of an import from the sources of the reference library's models."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith(f"{__name__}.models"):
            raise UnsupportedError(
                f"{name} is not there: families are recipes (docs/families.md). For a head of your own on a body: "
                "glassformer.load(name, head=…), or an nn.Module that holds AutoModel.from_pretrained(name); the parts "
                "of a model are views, such as model.bert.encoder.layer[0]"
            )


sys.meta_path.append(_NoSources())  # the last one: asked for what nobody else finds

REFERENCE_VERSION = "5.0.0"
"""`__version__`: the release whose names these are, for code that compares it."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "PretrainedConfig":
            from glassformer.models.model_config import ModelConfig

            return ModelConfig
        if name in _LAZY:
            return getattr(import_module(f"glassformer.{_LAZY[name]}"), name)
        if name in ("logging", "utils", "modeling_outputs"):
            return import_module(f"glassformer.hf.{name}")
        if name == "__version__":
            return REFERENCE_VERSION
        if name.startswith("_"):
            raise AttributeError(name)
        from glassformer.hf.names import class_of

        return class_of(name)
