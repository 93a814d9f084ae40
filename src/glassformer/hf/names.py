"""Class names of the reference library → what stands behind them here: families' classes, Auto classes, refusals."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from glassformer.errors import UnsupportedError
from glassformer.hf.auto import AUTO_TASKS, AutoModel, AutoTokenizer
from glassformer.hf.configs import AutoConfig
from glassformer.hf.processors import AutoFeatureExtractor, AutoImageProcessor, AutoProcessor
from glassformer.models import FAMILIES

KINDS: dict[str, Any] = {
    "TokenizerFast": AutoTokenizer,
    "Tokenizer": AutoTokenizer,
    "Config": AutoConfig,
    "ImageProcessorFast": AutoImageProcessor,
    "ImageProcessor": AutoImageProcessor,
    "FeatureExtractor": AutoFeatureExtractor,
    "Processor": AutoProcessor,
}
"""The end of a family's class name → the Auto class that reads such a thing."""

TRAINING = (
    "{} is not there: training is glassformer.training, or the command `glassformer train -t classify -m MODEL -d "
    "train.csv` (docs/training.md); a loop of your own over model(**batch, labels=…).loss works as it is"
)
REFUSED = {
    **dict.fromkeys(
        ("Trainer", "TrainingArguments", "Seq2SeqTrainer", "Seq2SeqTrainingArguments", "EarlyStoppingCallback"),
        TRAINING,
    ),
    "BitsAndBytesConfig": "{} is not there: call model.prepare('int8') on the loaded model",
    "AdamW": "{} is not there: use torch.optim.AdamW",
    "AutoModelForMultipleChoice": "{} is not there: no family has such a head; score each choice as a pair of texts",
}


def class_of(name: str) -> Any:
    """The class that stands behind a name.

    Raises: AttributeError: there is none. UnsupportedError, when it is called: there is something else to write.
    """
    if name in REFUSED:
        return _refusal(name)
    if name.startswith("AutoModel") and (tasks := AUTO_TASKS.get(name.removeprefix("AutoModel"))):
        return _model_class(name, tasks, None)
    for family in FAMILIES.values():
        if (task := family.architectures.get(name)) is not None:
            return _model_class(name, (task,), family.model_type)
    for ending, kind in KINDS.items():
        prefix = name.removesuffix(ending)
        if name.endswith(ending) and prefix in _prefixes():
            return _config_class(name, _prefixes()[prefix]) if kind is AutoConfig else kind
    raise AttributeError(f"glassformer.hf has no {name!r}")


@cache
def _model_class(name: str, tasks: tuple[str, ...], family: str | None) -> type[AutoModel]:
    return type(name, (AutoModel,), {"TASKS": tasks, "FAMILY": family, "__doc__": f"A model for {tasks[0]}."})


@cache
def _config_class(name: str, model_type: str) -> type[AutoConfig]:
    def make(cls: type, **keys: Any) -> Any:
        return AutoConfig.for_model(model_type, **keys)

    return type(name, (AutoConfig,), {"__new__": make, "__doc__": f"The config of a {model_type!r} model."})


@cache
def _prefixes() -> dict[str, str]:
    """What families' class names begin with, Bert, GPT2, … → their model types."""
    end = re.compile(r"(Model|LMHeadModel|MTModel|WithLMHeadModel|For\w+|TextModel|VisionModel|\w+Encoder)$")
    prefixes: dict[str, str] = {}
    for family in FAMILIES.values():
        prefixes |= {end.sub("", name): family.model_type for name in family.architectures}
    return prefixes | {"DPRQuestionEncoder": "dpr", "DPRContextEncoder": "dpr", "DPRReader": "dpr"}


@cache
def _refusal(name: str) -> type:
    def refuse(self: Any, *args: Any, **options: Any) -> None:
        raise UnsupportedError(REFUSED[name].format(name))

    return type(name, (), {"__init__": refuse, "from_pretrained": classmethod(refuse), "__doc__": REFUSED[name]})
