"""Model families: how a config becomes a spec, a spec a network, a checkpoint weights; and the family of a config.

config.json ──find_family, resolve_task──> Family, task
            ──ConfigReader──> spec ──build──> network ──WeightNames──> weights
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from glassformer.core import Head, init
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.models._config import ConfigReader
from glassformer.models._network import Network
from glassformer.plugins import Registry
from glassformer.task_names import HEADS, TASK_ALIASES
from glassformer.weights.names import WeightNames

SUFFIXES: Mapping[str, str] = {
    "Model": "feature-extraction",
    "ModelWithProjection": "projection",
    "ForPreTraining": "pre-training",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "ForConditionalGeneration": "translation",
    "MTModel": "translation",
    "ForNextSentencePrediction": "next-sentence-prediction",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForImageClassification": "image-classification",
    "ForAudioClassification": "audio-classification",
    "ForAudioFrameClassification": "audio-frame-classification",
    "ForCTC": "automatic-speech-recognition",
}
"""The end of a class name in the reference library → task."""
CLASSIFIERS = "ForSequenceClassification ForTokenClassification ForQuestionAnswering"
"""The classifiers that most families of text have."""


def architectures(name: str, suffixes: str, **tasks: str) -> dict[str, str]:
    """Class names of a family → tasks: `architectures("Bert", "Model ForMaskedLM")`.

    Args:
        tasks: suffix → task, where a family's differs from `SUFFIXES`.
    """
    return {name + suffix: {**SUFFIXES, **tasks}[suffix] for suffix in suffixes.split()}


class _SkipInitialisation(TorchFunctionMode):
    """Skip the initialisation that torch's modules do in their constructors.

    On the meta device it has no effect, but its random numbers would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model family: how to read its config, build its network, and name its weights.

    architectures: the class names in `config.json` → task (the Hugging Face pipeline names)
    spec: config → spec
    build: spec, task → network
    names: spec, task → weight names
    tiny: a config small enough for tests
    initialise: how a network, or a new head, is initialised
    modality: which files it reads besides text: "picture" or "sound"
    distinction: what distinguishes it from other families, in a few words for the table of families
    old_architectures: class names in configs of the library's first years → those of today
    text_of: model types of multimodal models whose `text_config` is one of this family; their text part is loaded
    requires: task → the config keys without which its head means nothing, such as causal attention to generate
    """

    model_type: str
    architectures: Mapping[str, str]
    spec: Callable[[ConfigReader], Any]
    build: Callable[[Any, str], Network]
    names: Callable[[Any, str], WeightNames]
    tiny: Mapping[str, Any] = field(default_factory=dict)
    modality: Literal["picture", "sound"] | None = None
    distinction: str = ""
    old_architectures: Mapping[str, str] = field(default_factory=dict)
    text_of: tuple[str, ...] = ()
    requires: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    initialise: Callable[[nn.Module, Any], None] = lambda network, spec: init.normal(network, spec.init_std)

    def build_on_meta(self, spec: Any, task: str) -> Network:
        """The network on the meta device: nothing is allocated or initialised."""
        with torch.device("meta"), _SkipInitialisation():
            return self.build(spec, task)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that this family has heads for, by Hugging Face pipeline name."""
        return tuple(dict.fromkeys(self.architectures.values()))

    @property
    def generates(self) -> bool:
        """Whether its decoder generates step by step, so that a call's keys and values serve the next one."""
        generating = {"text-generation", "translation", "automatic-speech-recognition", "text-to-audio"}
        return not generating.isdisjoint(self.tasks)

    def task(self, name: str) -> str:
        """The full name of a task, given that or an alias.

        Raises: UnsupportedError: the family has no head for it.
        """
        task = TASK_ALIASES.get(name, name) if isinstance(name, str) else None
        task = None if task is None else HEADS.get(task, task)
        if task is None or task not in self.tasks:
            about = " (an encoder-decoder that answers a text: it summarises too)" if task == "translation" else ""
            raise UnsupportedError(
                f"a {self.model_type!r} model has no head for {safe_repr(name)}{about}; it has: {', '.join(self.tasks)}"
            )
        return task

    def check_requirements(self, task: str, config: Mapping[str, Any]) -> None:
        """Check that a config has the keys that a task needs.

        Raises: UnsupportedError: it has not.
        """
        for key, value in self.requires.get(task, {}).items():
            if config.get(key) != value:
                raise UnsupportedError(
                    f"config.json: {key} = {safe_repr(config.get(key))} is not supported for {task!r} with a "
                    f"{self.model_type!r} model; it must be {value!r}: load it with overrides={{{key!r}: {value!r}}}"
                )

    def architecture(self, task: str) -> str:
        """The class name in the reference library of this family with the head of a task."""
        return next(name for name, its_task in self.architectures.items() if its_task == task)


RECIPES = """albert bart bert big_bird camembert clip clip_text_model clip_vision_model dac deberta
    deberta-v2 distilbert dpr electra encodec gemma gemma2 gemma3_text gpt2 gpt_neox granite hubert
    imagegpt layoutlm llama lxmert marian mbart mistral mixtral modernbert mpnet musicgen_decoder
    nomic_bert olmo2 openai-gpt pegasus phi phi3 qwen2 qwen3 roberta stablelm starcoder2 t5 tapas
    transformer vit wav2vec2 whisper xlm xlm-roberta""".split()
"""The `model_type` of each family; its module has the same name, with underscores."""


FAMILIES: Registry[Family] = Registry(
    "families",
    {name: f"glassformer.models.{name.replace('-', '_')}:FAMILY" for name in RECIPES},
    fits=lambda name, part: isinstance(part, Family) and part.model_type == name,
    must="a glassformer.models.Family whose model_type is this name",
)
"""`model_type` of `config.json` → family, whose recipe is imported when it is first asked for; of plug-ins too."""


def _reduce(family: Family) -> Any:
    """Pickle and copy a family by its name: a recipe's functions are not data."""
    if family.model_type in FAMILIES and FAMILIES[family.model_type] is family:
        return _find, (family.model_type,)
    return object.__reduce_ex__(family, 4)


def _find(model_type: str) -> Family:
    return FAMILIES[model_type]


copyreg.pickle(Family, _reduce)


def find_family(config: Mapping[str, Any], folder: Path | None) -> Family:
    """The family of a config, by its `model_type`.

    Args:
        folder: where the config was read, for messages.
    Raises: UnsupportedError: no `model_type`, or one that is not known. ConfigError: not a mapping.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"the config is {safe_repr(config)}; give a dict, such as the content of a config.json")
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        where = f"{folder / 'config.json'}: " if folder else ""
        raise UnsupportedError(
            f"{where}model_type {safe_repr(kind)} is not supported; supported: {', '.join(FAMILIES)}"
            f"{nearest(kind, FAMILIES) if isinstance(kind, str) and len(kind) < 100 else ''}"
        )
    return FAMILIES[kind]


SHARED_KEYS = frozenset(
    "bos_token_id dtype eos_token_id pad_token_id quantization_config tie_word_embeddings torch_dtype "
    "transformers_version".split()
)
"""Keys that a multimodal model's config holds besides `text_config`, for its text part too."""


def text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the text part of a multimodal model, where a family reads that; any other config as it is."""
    text = config.get("text_config")
    kind = text.get("model_type") if isinstance(text, Mapping) else None
    if not isinstance(text, Mapping) or not isinstance(kind, str) or kind not in FAMILIES:
        return dict(config)
    family = FAMILIES[kind]
    if config.get("model_type") not in family.text_of:
        return dict(config)
    shared = {key: value for key, value in config.items() if key in SHARED_KEYS}
    return {**text, **shared, "architectures": [family.architecture("text-generation")]}


LABEL_TASKS = {
    "text-classification",
    "token-classification",
    "audio-classification",
    "audio-frame-classification",
}
"""Tasks whose heads have the same tensor names: the weights of one would fit another, and mean nothing there."""
LABEL_KEYS = frozenset({"num_labels", "id2label", "num_aggregation_labels", "num_qa_labels"})
"""Config keys that, when overridden, ask for a head with other labels than the checkpoint's."""


def resolve_task(family: Family, config: Mapping[str, Any], requested: str | None) -> tuple[str, str | None]:
    """The task to load, requested or named by the config; and the task of the checkpoint's own head.

    A config without architectures describes the body alone; the second is None where the architecture is not known.

    Raises: UnsupportedError: the family has no head for the task.
    """
    architectures = config.get("architectures") or [next(iter(family.architectures))]
    first = architectures[0] if isinstance(architectures, list) and isinstance(architectures[0], str) else None
    own = None if first is None else family.architectures.get(family.old_architectures.get(first, first))
    if requested is not None:
        return family.task(requested), own
    if own is None:
        raise UnsupportedError(
            f"config.json: architectures = {safe_repr(architectures)} is not supported; a "
            f"{family.model_type!r} model can "
            f"be: {', '.join(family.architectures)}; to load its body with one of their heads, give "
            f"task={' or '.join(map(repr, family.tasks))}"
        )
    return own, own


def body_task(task: str | None) -> str:
    """The task of a body that gets a custom head.

    Raises: ConfigError: a task was given as well.
    """
    if task is not None:
        raise ConfigError(f"task={task!r} and head=… were both given; a head of your own says what it does itself")
    return "feature-extraction"


def attach_head(network: Network, make: Callable[[int], Head]) -> None:
    """Attach a custom head to a body.

    Args:
        make: width of the final hidden states → head.
    Raises: ConfigError: it makes something else.
    """
    head = make(network.width)
    if not isinstance(head, Head):
        raise ConfigError(
            f"head made a {type(head).__name__}; it must make a glassformer.core.Head, given the width {network.width}"
        )
    network.head = head
    network.name_nodes()


def weight_names(family: Family, spec: Any, task: str, network: Network, *, own_head: bool) -> WeightNames:
    """The weight names of a model; those of a custom head are the names of its parameters."""
    table = family.names(spec, task)
    if not own_head or network.head is None:
        return table
    return table.with_head(f"head.{name}" for name, _ in network.head.named_parameters())
