"""Auto classes: `AutoModelFor….from_pretrained(name)` loads a model with the head of a task, as `glassformer.load`.

The classes of single families (`BertForMaskedLM`) are the same with the head of that class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from glassformer.core.heads import Pooler
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import read_json_object, safe_repr
from glassformer.hf.configs import GenerationConfig, config_class, options_of
from glassformer.hf.reference_model import ReferenceModel
from glassformer.hf.reference_tokenizer import plain_tokenizer
from glassformer.load_options import FINDING
from glassformer.model import Model, load
from glassformer.models import find_family, text_part
from glassformer.pretrained import names_of

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


OWN: dict[tuple[str, str], Any] = {}
"""Auto class and custom model type → the class of the model."""


class LoadsModels:
    """`from_pretrained` and `from_config` of a class of the reference library.

    TASKS: the first of these that the family has; () = the body alone
    FAMILY: the only family that is taken; None = any
    """

    TASKS: ClassVar[tuple[str, ...]] = ()
    FAMILY: ClassVar[str | None] = None

    @classmethod
    def register(cls, config_class: Any, model_class: Any, exist_ok: bool = False) -> None:
        """Load models whose config is of this custom class with that class."""
        OWN[cls.__name__, config_class.model_type] = model_class

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, *unnamed: Any, **keywords: Any) -> Any:
        """Load a model folder, or a model of the Hub by name; keywords as those of `glassformer.load`.

        Returns: the model; with output_loading_info=True, and which of its tensors are new, and which of the files are
        unused.
        Raises: UnsupportedError: the family has no head for this class. Else as `glassformer.load`.
        """
        if unnamed:
            raise ConfigError(f"{cls.__name__}.from_pretrained takes one argument without a name, the model")
        finding = {name: keywords[name] for name in FINDING if name in keywords}
        allow_pickle = bool(keywords.get("allow_pickle"))
        folder = options_of(finding).find_folder(
            name_or_folder, keywords.pop("revision", None), allow_pickle=allow_pickle
        )
        config = text_part(read_json_object(folder / "config.json", ConfigError))
        if (own_class := OWN.get((cls.__name__, str(config.get("model_type"))))) is not None:
            return own_class.from_pretrained(folder, **keywords)
        for name in finding:
            keywords.pop(name)
        informed = keywords.pop("output_loading_info", False)
        model = as_reference(load(folder, task=cls._task(config, folder), **keywords), cls)
        own = {"_name_or_path": str(name_or_folder)}  # besides the keys: no file has them
        if (attention := keywords.get("attn_implementation")) is not None:
            own["_attn_implementation"] = attention
        for key, value in own.items():
            object.__setattr__(model.config, key, value)
        return (model, _loading_info(model)) if informed else model

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **keywords: Any) -> Model:
        """A new model with random weights, in training mode."""
        if not isinstance(config, Mapping):
            raise ConfigError(f"the config is {safe_repr(config)}; give a dict, or AutoConfig.from_pretrained(folder)")
        if (own_class := OWN.get((cls.__name__, getattr(config, "model_type", "")))) is not None:
            return own_class(config)  # type: ignore[no-any-return] # of a caller's
        own = {name: plain_tokenizer(keywords.pop(name)) for name in ("tokenizer", "device") if name in keywords}
        task = keywords.pop("task", None) or cls._task(config, None)
        model = as_reference(Model.from_config(config, task=task, **own), cls)
        dtype = options_of(keywords).dtype
        return model if dtype is None else model.to(dtype)

    @classmethod
    def _task(cls, config: Mapping[str, Any], folder: Path | None) -> str:
        """The task of this class in the family of a config."""
        family = find_family(config, folder)
        if cls.FAMILY is not None and family.model_type != cls.FAMILY:
            raise UnsupportedError(
                f"{cls.__name__} loads {cls.FAMILY!r} models, and this is a {family.model_type!r} model: use "
                f"{family.architecture(family.tasks[0])} or an Auto class"
            )
        if not cls.TASKS:
            return family.tasks[0]
        for task in cls.TASKS:
            if task in family.tasks:
                return task
        raise UnsupportedError(
            f"{cls.__name__}: a {family.model_type!r} model has no head for {' or '.join(map(repr, cls.TASKS))}; it "
            f"has: {', '.join(family.tasks)}"
        )


class AutoModel(LoadsModels):
    """A model without a head, of any family; subclasses load it with the head of their task."""

    def __new__(cls, config: Mapping[str, Any] | None = None) -> Model:  # type: ignore[misc] # as in the reference
        if config is None:
            raise ConfigError(
                f"{cls.__name__}() makes no model; load one with {cls.__name__}.from_pretrained(folder), or give its "
                "config"
            )
        return cls.from_config(config)


class FamilyModel(LoadsModels, ReferenceModel):  # type: ignore[misc] # from_config has fewer keywords
    """A model of one family with the head of one task: what an Auto class gives, and what is made of a config."""

    def __init__(self, config: Any = None, *parts: Any, **named: Any) -> None:
        if not isinstance(config, Mapping | None):  # a network, and what belongs to it
            super().__init__(config, *parts, **named)
            return
        if config is None:
            raise ConfigError(
                f"{type(self).__name__}() makes no model; load one with {type(self).__name__}.from_pretrained(folder), "
                "or give its config"
            )
        own = {"model_type": self.FAMILY}  # RobertaModel(XLMRobertaConfig()): the class says which family it is
        made = type(self).from_config({**config, **own})
        super().__init__(made.network, made.family, made.spec, made.config, made.task, report=made.report)
        as_reference(self, type(self))
        if named.get("add_pooling_layer") is False and isinstance(self.network.head, Pooler):
            self.network.head = None

    def __init_subclass__(cls, **_: Any) -> None:
        if not {"TASKS", "FAMILY"} <= vars(cls).keys():
            raise UnsupportedError(NO_SUBCLASS.format(cls.__name__))


NO_SUBCLASS = (
    "{} is derived from a whole model: derive it from PreTrainedModel, or BertPreTrainedModel, and give it the body as "
    "a part: self.bert = BertModel(config); or glassformer.load(head=…)"
)


@cache
def family_class(name: str, task: str, family: str) -> type[FamilyModel]:
    """The class of an architecture."""
    about = {"__module__": "glassformer.hf", "__doc__": f"A {family!r} model for {task}."}
    return type(name, (FamilyModel,), {"TASKS": (task,), "FAMILY": family, **about})


def as_reference(model: Model, loaded_as: type | None = None) -> Model:
    """The same model, as one of the class of its architecture, with a config of the family's class."""
    architecture = model.family.architecture(model.task)
    kind: Any = family_class(architecture, model.task, model.family.model_type)
    model.__class__ = loaded_as if loaded_as is not None and issubclass(loaded_as, FamilyModel) else kind
    object.__setattr__(model.config, "__class__", config_class(model.family.model_type))
    for name, value in GenerationConfig.from_model_config(model.config).items():
        model.generation_config.setdefault(name, value)
    return model


def _loading_info(model: Model) -> dict[str, Any]:
    """What became of the tensors, by their names in files: `output_loading_info=True`."""
    names = names_of(model)
    new = {name for ours in model.report.new for name in names.find(ours, prefixed=names.prefixed)[1]}
    return {"missing_keys": new, "unexpected_keys": {*model.report.unused}, "mismatched_keys": set(), "error_msgs": []}
