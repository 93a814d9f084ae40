"""The names of Hugging Face transformers, for code that was written for it.

    from glassformer.hf import AutoModelForSequenceClassification, AutoTokenizer, pipeline

Auto classes, the classes of single families (`BertModel`, `GPT2LMHeadModel`, `BertTokenizerFast`, …), pipelines, data
collators and schedules. Each gives what `glassformer.load` gives, a `Model`, a `Tokenizer` or a processor, under the
name and with the arguments that such code uses; where nothing is behind a name, the error says what to write.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glassformer import Package
from glassformer.errors import MissingImportError, MissingNameError

if TYPE_CHECKING:
    from glassformer.generation.streamers import TextIteratorStreamer, TextStreamer
    from glassformer.hf.auto import AutoModel
    from glassformer.hf.collators import (
        DataCollatorForLanguageModeling,
        DataCollatorForMultipleChoice,
        DataCollatorForSeq2Seq,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        default_data_collator,
    )
    from glassformer.hf.configs import AutoConfig, GenerationConfig
    from glassformer.hf.custom_models import PretrainedConfig
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
    from glassformer.hf.tokenizers import AutoTokenizer

__all__ = [
    "AutoConfig",
    "AutoFeatureExtractor",
    "AutoImageProcessor",
    "AutoModel",
    "AutoProcessor",
    "AutoTokenizer",
    "DataCollatorForLanguageModeling",
    "DataCollatorForMultipleChoice",
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
    **{"AutoModel": "hf.auto", "AutoTokenizer": "hf.tokenizers"},
    **dict.fromkeys(("AutoFeatureExtractor", "AutoImageProcessor", "AutoProcessor"), "hf.processors"),
    **dict.fromkeys((name for name in __all__ if "ollator" in name), "hf.collators"),
    **dict.fromkeys((name for name in __all__ if name.startswith(("get_", "set_"))), "hf.optimization"),
    **dict.fromkeys(("TextStreamer", "TextIteratorStreamer"), "generation.streamers"),
    **dict.fromkeys(("Trainer", "Seq2SeqTrainer", "TrainOutput"), "hf.trainer.trainer"),
    **dict.fromkeys(("TrainingArguments", "Seq2SeqTrainingArguments", "IntervalStrategy"), "hf.trainer.arguments"),
    **dict.fromkeys(
        ("TrainerCallback", "EarlyStoppingCallback", "PrinterCallback", "TrainerState", "TrainerControl"),
        "hf.trainer.callbacks",
    ),
    **dict.fromkeys(("PretrainedConfig", "PreTrainedConfig"), "hf.custom_models"),
    "HfArgumentParser": "hf.argument_parser",
    **dict.fromkeys(("PaddingStrategy", "TruncationStrategy", "TensorType"), "hf.tokenizers"),
    "OptimizerNames": "hf.trainer.arguments",
    "get_activation": "hf.activations",
    "Pipeline": "hf.pipelines.custom",
    "get_parameter_names": "hf.optimization",
    "ACT2FN": "hf.activations",
    "Conv1D": "hf.activations",
    "PredictionOutput": "hf.trainer.evaluation",
    **dict.fromkeys(("DefaultDataCollator", "DataCollatorWithFlattening"), "hf.collators"),
    "get_last_checkpoint": "hf.trainer.checkpoints",
    "SchedulerType": "hf.optimization",
    "pipeline": "hf.pipelines",
}
# Where the reference library keeps these names; here they are in one place.
for _name in (
    *("configuration_utils", "data", "data.data_collator", "generation", "generation.utils", "modeling_utils"),
    *("tokenization_utils", "tokenization_utils_base", "tokenization_utils_fast", "tokenization_python"),
    "tokenization_utils_tokenizers",
    *("trainer_callback", "trainer_seq2seq", "trainer_utils", "trainer_pt_utils", "training_args_seq2seq"),
    *("training_args", "file_utils", "utils.hub", "pytorch_utils", "cache_utils", "processing_utils", "image_utils"),
    *("feature_extraction_utils", "image_processing_utils", "utils.quantization_config"),
    *("generation.configuration_utils", "generation.logits_process", "generation.stopping_criteria"),
    *("generation.streamers", "convert_graph_to_onnx"),
):
    sys.modules.setdefault(f"{__name__}.{_name}", sys.modules[__name__])


_SOURCES = re.compile(
    r"models(\.[a-z]\w*(\.(modeling|modular|configuration|tokenization|processing|feature_extraction|image_processing)_\w+)?)?"
)
"""The modules of families in the reference library."""


class _Sources(MetaPathFinder, Loader):
    """`glassformer.hf.models.bert.modeling_bert`: the classes of a family, by the module that has them there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Raises: MissingImportError: a name that is not here; what to write instead, as its attribute's error says.

        `from package import name` looks for a module where the package has no such attribute, and would then say only
        that the name cannot be imported.
        """
        if not name.startswith(f"{__name__}."):
            return None
        if _SOURCES.fullmatch(name.removeprefix(f"{__name__}.")):
            return ModuleSpec(name, self, is_package=True)
        package, _, attribute = name.rpartition(".")
        try:
            getattr(sys.modules[package], attribute)
        except MissingNameError as problem:
            raise MissingImportError(str(problem)) from None
        except AttributeError:  # a private name
            pass
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = partial(_of_sources, module.__name__)


def _of_sources(module: str, name: str) -> Any:
    """Raises: MissingNameError: a part of a model, which is no class here."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return getattr(sys.modules[__name__], name)
    except MissingNameError as problem:
        raise MissingNameError(
            f"{module} has no {name!r}: families are recipes (docs/families.md), and parts of a model are views, such "
            "as model.bert.encoder.layer[0]; a model of your own derives from BertPreTrainedModel or PreTrainedModel "
            "and holds a BertModel(config)"
        ) from problem


sys.meta_path.append(_Sources())  # appended last, so that regular finders take precedence

sys.modules[__name__].__class__ = Package

REFERENCE_VERSION = "5.23.0"
"""`__version__`: the release whose names these are, for code that compares it."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
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
