"""Class names of the reference library → what is behind them here: families' classes, Auto classes, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tokenizers

from glassformer.core.cache import KeyValueCache
from glassformer.errors import MissingNameError, UnsupportedError, nearest
from glassformer.hf import utils
from glassformer.hf.auto import AUTO_TASKS, AutoModel
from glassformer.hf.configs import AutoConfig, config_class
from glassformer.hf.custom_models import AnyModel, CustomModel
from glassformer.hf.pipelines import named_class
from glassformer.hf.processors import AutoFeatureExtractor, AutoImageProcessor, AutoProcessor
from glassformer.hf.reference_model import family_class
from glassformer.hf.reference_tokenizer import ReferenceTokenizer
from glassformer.hf.rules import READY, OwnLogitsProcessor, OwnStoppingCriterion, RuleList
from glassformer.hf.tokenizers import AutoTokenizer, new_tokenizer
from glassformer.models import FAMILIES
from glassformer.text.encoding import Encoding

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

REFUSED = {
    **dict.fromkeys(
        ("DPRReaderTokenizer", "DPRReaderTokenizerFast"),
        "{} is not there: glassformer.pipeline('passage-reading', model) takes question= and passages=, each with its "
        "title and text, and gives the spans that decode_best_spans gives",
    ),
    **dict.fromkeys(
        ("EncoderDecoderModel", "VisionEncoderDecoderModel", "SpeechEncoderDecoderModel"),
        "{} is not there: an encoder-decoder is one network with a checkpoint of its own: AutoModelForSeq2SeqLM of a "
        "BART or T5 (Whisper for speech); two models of which one reads the states of the other are a network of your "
        "own (docs/adding-a-family.md)",
    ),
    "BitsAndBytesConfig": "{} is not there: call model.prepare('int8') on the loaded model",
    "enable_full_determinism": "{} is not there: call set_seed(…) and torch.use_deterministic_algorithms(True)",
    "AdamW": "{} is not there: use torch.optim.AdamW",
    "Adafactor": "{} is not there: use torch.optim.Adafactor",
    "DataCollatorForWholeWordMask": "{} is not there: DataCollatorForLanguageModeling masks tokens, and "
    "glassformer.tasks.masked.Masked(model, whole_words=True) whole words",
    "DataCollatorForPermutationLanguageModeling": "{} is not there: it is for XLNet, which is no family here; "
    "DataCollatorForLanguageModeling masks tokens",
    **dict.fromkeys(
        ("QuantoConfig", "TorchAoConfig", "GPTQConfig", "AwqConfig", "HqqConfig", "QuantizationConfig"),
        "{} is not there: call model.prepare('int8') on the loaded model; GGUF files are loaded as they are",
    ),
    "WatermarkingConfig": "{} is not there: a custom logits_processor changes the logits",
    "no_init_weights": "{} is not there: write `with torch.device('meta')` around what makes the model",
    "PIPELINE_REGISTRY": "{} is not there: write a class that derives from Pipeline, and make one",
    "convert": "{} is not there: `glassformer export MODEL --format onnx -o folder` writes ONNX files (docs/export.md)",
    "cached_file": "{} is not there: glassformer.hub.resolve(name) gives the folder of a model",
    "AutoBackbone": "{} is not there: model(…, output_hidden_states=True) gives the features of each block",
}
PLACE = {"__module__": "glassformer.hf"}
"""Where classes that are made by their names are found again when they are unpickled."""

AUTO_NAMES = tuple(f"AutoModel{ending}" for ending in AUTO_TASKS)
RULES = {
    "LogitsProcessor": OwnLogitsProcessor,
    "LogitsWarper": OwnLogitsProcessor,
    "StoppingCriteria": OwnStoppingCriterion,
    **dict.fromkeys(("LogitsProcessorList", "StoppingCriteriaList"), RuleList),
}
RULE = re.compile(r"(LogitsProcessor|LogitsWarper|Criteria)$")
OTHER_FRAMEWORK = re.compile(r"(TF|Flax)([A-Z]\w+)$")
OPTION_INSTEAD = (
    "{} is not there: generate has an option for it (temperature, top_k, max_length, …), or a custom function"
)


@cache
def class_of(name: str) -> Any:
    """The class that is behind a name, always the same one.

    Raises: MissingNameError: there is none; the nearest names. When it is called: there is something else to write.
    """
    if name in REFUSED:
        return _refusal(name, REFUSED[name])
    if name in RULES:
        return RULES[name]
    if name in ("DynamicCache", "Cache"):
        return _Kind(name, (), {**PLACE, "OF": KeyValueCache, "__new__": lambda cls, *_, **__: KeyValueCache()})
    if name in READY:
        return READY[name]
    if RULE.search(name):
        return _refusal(name, OPTION_INSTEAD)
    if name in ("PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizerBase", "PreTrainedTokenizer"):
        return _tokenizer_class(name)
    if name.endswith("PreTrainedModel") and name.removesuffix("PreTrainedModel") in ("", *_prefixes()):
        return _custom_base(name)
    if name == "AddedToken":
        return tokenizers.AddedToken
    if name == "ModelOutput":
        return utils.ModelOutput
    if name == "BatchEncoding":
        make = {"__new__": lambda cls, data=None, **_: Encoding(dict(data or {}), [], [])}
        return _Kind(name, (), {**PLACE, "OF": Encoding, **make})
    if name == "EvalPrediction":
        return EvalPrediction
    if name.endswith("Pipeline"):
        return _pipeline_class(name)
    if name.startswith("is_"):
        return getattr(utils, name)
    if name.endswith("ForMultipleChoice") and "Collator" not in name:
        return _multiple_choice(name)
    if name.startswith("AutoModel") and (tasks := AUTO_TASKS.get(name.removeprefix("AutoModel"))):
        return _model_class(name, tasks)
    for family in FAMILIES.values():
        if (task := family.architectures.get(name)) is not None:
            return family_class(name, task, family.model_type)
    for ending, kind in KINDS.items():
        prefix = name.removesuffix(ending)
        if name.endswith(ending) and prefix in _prefixes():
            if kind is AutoTokenizer:
                return _tokenizer_class(name)
            return config_class(_prefixes()[prefix]) if kind is AutoConfig else kind
    if (other := OTHER_FRAMEWORK.match(name)) is not None:
        raise MissingNameError(f"{name} is not there: models are PyTorch modules; write {other.group(2)}")
    if name.endswith(("TokenizerFast", "Tokenizer")):
        raise MissingNameError(
            f"{name} is not there: that family is not; a tokenizer of your own is PreTrainedTokenizerFast"
            f"(tokenizer_object=…, cls_token=…), one of a folder AutoTokenizer{nearest(name, _kin(name))}"
        )
    raise MissingNameError(f"glassformer.hf has no {name!r}{nearest(name, _kin(name))}")


def _kin(name: str) -> Iterator[str]:
    """Names that are here and have the words of a name in common: another family's, or another spelling."""
    from glassformer.hf import __all__ as exported

    def words(of: str) -> set[str]:
        return {word.lower() for word in re.findall(r"[A-Z]+[a-z0-9]*|[a-z0-9]+", of)}

    families = (x for family in FAMILIES.values() for x in family.architectures)
    for known in dict.fromkeys((*exported, *AUTO_NAMES, *RULES, *READY, *families)):
        shared, whole = words(known) & words(name), words(known) | words(name)
        if 2 * len(shared) >= len(whole) or nearest(name, [known], cutoff=0.85):
            yield known


@cache
def _model_class(name: str, tasks: tuple[str, ...]) -> type[AutoModel]:
    return type(name, (AutoModel,), {**PLACE, "TASKS": tasks, "__doc__": f"A model for {tasks[0]}."})


@cache
def _tokenizer_class(name: str) -> type:
    """The tokenizers of a family, or of any; also made of a file, or of an engine of the tokenizers library."""
    about = {**PLACE, "OF": ReferenceTokenizer, "__new__": new_tokenizer, "__doc__": "A tokenizer of a file."}
    return _Kind(name, (AutoTokenizer,), about)


def _multiple_choice(name: str) -> Any:
    """Raises: MissingNameError: another family."""
    from glassformer.hf.multiple_choice import FAMILIES_OF, MultipleChoice, multiple_choice_class

    prefix = name.removesuffix("ForMultipleChoice")
    if prefix != "AutoModel" and _prefixes().get(prefix) not in FAMILIES_OF:
        raise MissingNameError(
            f"{name} is not there: {', '.join(sorted(FAMILIES_OF))} have such a head; score each choice as a pair of "
            "texts: AutoModelForSequenceClassification with num_labels=1"
        )
    return MultipleChoice if prefix == "AutoModel" else multiple_choice_class(_prefixes()[prefix])


def _pipeline_class(name: str) -> type:
    """`TextClassificationPipeline(model=…)` for `pipeline("text-classification", …)`."""
    return named_class(
        re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("Pipeline").replace("2Text", "2text")).lower()
    )


@cache
def _prefixes() -> dict[str, str]:
    """What families' class names begin with, Bert, GPT2, … → their model types."""
    end = re.compile(r"(Model|LMHeadModel|MTModel|WithLMHeadModel|For\w+|TextModel|VisionModel|\w+Encoder)$")
    prefixes: dict[str, str] = {}
    for family in FAMILIES.values():
        prefixes |= {end.sub("", name): family.model_type for name in family.architectures}
    return prefixes | {"DPRQuestionEncoder": "dpr", "DPRContextEncoder": "dpr", "DPRReader": "dpr"}


@cache
def _refusal(name: str, why: str) -> type:
    def refuse(self: Any, *args: Any, **options: Any) -> None:
        raise UnsupportedError(why.format(name))

    return _Refused(name, (), {**PLACE, "__init__": refuse, "from_pretrained": classmethod(refuse), "__doc__": why})


class _Refused(type):
    """A class that says what to write instead, whatever is asked of it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(str(cls.__doc__).format(cls.__name__))

    def __getitem__(cls, name: Any) -> Any:
        raise UnsupportedError(str(cls.__doc__).format(cls.__name__))


class _Kind(type):
    """A class of which everything is an instance that is one of `OF`."""

    OF: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.OF)


@cache
def _custom_base(name: str) -> type[CustomModel]:
    """What custom models derive from: `BertPreTrainedModel`."""
    kind = _prefixes().get(name.removesuffix("PreTrainedModel"))
    about = {"config_class": config_class(kind)} if kind else {}
    return AnyModel(name, (CustomModel,), {**PLACE, "__doc__": "Any model.", **about}, own=False)


@dataclass(frozen=True)
class EvalPrediction:
    """What a function that computes metrics is given; `predictions, label_ids = it`, and inputs where there are any."""

    predictions: Any
    label_ids: Any
    inputs: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.predictions, self.label_ids, *(() if self.inputs is None else (self.inputs,))))

    def __getitem__(self, index: int) -> Any:
        return tuple(self)[index]
