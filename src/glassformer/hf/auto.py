"""Auto classes: `AutoModelFor….from_pretrained(name)` loads a model with the head of a task, as `glassformer.load`.

The classes of single families (`BertForMaskedLM`) are the same with the head of that class.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import normalizers

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import read_json_object, safe_repr
from glassformer.hf.configs import GenerationConfig, config_class, options_of
from glassformer.hf.reference_model import ReferenceModel
from glassformer.model import Model, load
from glassformer.models import FAMILIES, find_family, text_part
from glassformer.text.tables.encode import TableTokenizer
from glassformer.text.tokenizer import Tokenizer

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


class LoadsModels:
    """`from_pretrained` and `from_config` of a class of the reference library.

    TASKS: the first of these that the family has; () = the body alone
    FAMILY: the only family that is taken; None = any
    """

    TASKS: ClassVar[tuple[str, ...]] = ()
    FAMILY: ClassVar[str | None] = None

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, *unnamed: Any, **keywords: Any) -> Any:
        """Load a model folder, or a model of the Hub by name; keywords as those of `glassformer.load`.

        Returns: the model; with output_loading_info=True, and which of its tensors are new, and which of the files are
        unused.
        Raises: UnsupportedError: the family has no head for this class. Else as `glassformer.load`.
        """
        if unnamed:
            raise ConfigError(f"{cls.__name__}.from_pretrained takes one argument without a name, the model")
        finding = {name: keywords[name] for name in _FINDING if name in keywords}
        allow_pickle = bool(keywords.get("allow_pickle"))
        folder = options_of(finding).find_folder(
            name_or_folder, keywords.pop("revision", None), allow_pickle=allow_pickle
        )
        config = text_part(read_json_object(folder / "config.json", ConfigError))
        for name in finding:
            keywords.pop(name)
        informed = keywords.pop("output_loading_info", False)
        model = as_reference(load(folder, task=cls._task(config, folder), **keywords), cls)
        own = {"_name_or_path": str(name_or_folder)}  # beside the keys: no file has them
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
        own = {name: keywords.pop(name) for name in ("tokenizer", "device") if name in keywords}
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
        self.__dict__.update(type(self).from_config(config).__dict__)

    def __init_subclass__(cls, **_: Any) -> None:
        if not {"TASKS", "FAMILY"} <= vars(cls).keys():
            raise UnsupportedError(NO_SUBCLASS.format(cls.__name__))


NO_SUBCLASS = (
    "{} is derived from a model, and models are no classes to derive from; for a head of your own: "
    "glassformer.load(head=…), or an nn.Module that holds AutoModel.from_pretrained(name)"
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
    names = model._weight_names()
    new = {name for ours in model.report.new for name in names.find(ours, prefixed=names.prefixed)[1]}
    return {"missing_keys": new, "unexpected_keys": {*model.report.unused}, "mismatched_keys": set(), "error_msgs": []}


_FINDING = ("local_files_only", "cache_dir", "subfolder", "token", "use_auth_token", "force_download", "offline")


READS_TABLES = frozenset({"tapas"})
"""Families whose tokenizer is called with a table."""


class AutoTokenizer:
    """The tokenizer of a model folder, or of a model of the Hub."""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **keywords: Any) -> Any:
        """Read a tokenizer; keywords that a `Tokenizer` has as attributes, such as `padding_side`, are set.

        Raises: DataError, ConfigError: no such folder, no tokenizer in it, or no such attribute.
        """
        for name in ("use_fast", "tokenizer_type", "legacy", "from_slow", "clean_up_tokenization_spaces", "config"):
            keywords.pop(name, None)
        finding = {name: keywords.pop(name) for name in (*_FINDING, "trust_remote_code") if name in keywords}
        folder = _tokenizer_folder(name_or_folder, keywords.pop("revision", None), finding)
        config = folder / "config.json"
        kind = read_json_object(config, ConfigError).get("model_type") if config.is_file() else None
        tokenizer = Tokenizer.from_folder(folder, model_type=kind if kind in FAMILIES else None)
        set_attributes(tokenizer, {"name_or_path": str(name_or_folder), **keywords})
        return TableTokenizer(tokenizer) if kind in READS_TABLES else tokenizer


def set_attributes(tokenizer: Tokenizer, values: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer with these attributes, such as `padding_side`. Raises: ConfigError: it has no such attribute."""
    for name, value in values.items():
        if name == "do_lower_case":
            _set_lower_case(tokenizer, bool(value))
            continue
        if not hasattr(tokenizer, name):
            raise ConfigError(f"a tokenizer takes no {safe_repr(name)}, and has no such attribute")
        setattr(tokenizer, name, value)
    return tokenizer


def _set_lower_case(tokenizer: Tokenizer, value: bool) -> None:
    """Lower case or not, of a normaliser that has this option, as BERT's; others stay as the files say, with a note."""
    normalizer = tokenizer.engine.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        normalizer.lowercase = value
        tokenizer.engine.normalizer = normalizer
    else:
        warnings.warn("do_lower_case changes nothing: this tokenizer's normaliser has no such option", stacklevel=4)


def _tokenizer_folder(name_or_folder: str | Path, revision: str | None, finding: Mapping[str, Any]) -> Path:
    """A folder with a tokenizer, which needs no config.json."""
    if isinstance(name_or_folder, (str, Path)) and not finding.get("subfolder"):
        folder = Path(name_or_folder)
        if folder.is_dir():
            return folder
    return options_of(dict(finding)).find_folder(name_or_folder, revision, allow_pickle=False)
