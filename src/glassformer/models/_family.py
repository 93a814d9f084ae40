"""A model family: how its config becomes a spec, a spec a network, and a checkpoint weights.

config.json ──ConfigReader──> spec ──build──> network ──WeightNames──> weights
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from glassformer.core import init
from glassformer.deprecation import former_keywords
from glassformer.errors import UnsupportedError
from glassformer.files import safe_repr
from glassformer.models._config import ConfigReader
from glassformer.models._network import Network
from glassformer.weights.names import WeightNames

TASK_ALIASES = {
    "answer": "question-answering",
    "classify": "text-classification",
    "embed": "feature-extraction",
    "features": "feature-extraction",
    "fill": "fill-mask",
    "generate": "text-generation",
    "ner": "token-classification",
    "sentiment-analysis": "text-classification",
    "summarise": "summarization",
    "tag": "token-classification",
    "translate": "translation",
}
"""Short names of tasks → Hugging Face pipeline names."""


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

    Args: tasks: suffix → task, where a family's differs from `SUFFIXES`.
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
    spec: config → spec · build: spec, task → network · names: spec, task → weight names
    tiny: a config small enough for tests · initialise: how a network, or a new head, is initialised
    modality: which files it reads beside text: "picture" or "sound"
    distinction: what distinguishes it from other families, in a few words for the table of families
    former_architectures: class names of old configs that were given up → those of today
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
    former_architectures: Mapping[str, str] = field(default_factory=dict)
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

    def task(self, name: str) -> str:
        """The full name of a task, given that or an alias.

        Raises: UnsupportedError: the family has no head for it.
        """
        task = TASK_ALIASES.get(name, name) if isinstance(name, str) else None
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


# `dataclasses.replace` calls it too, as docs/families.md has shown.
Family.__init__ = former_keywords(oddity="distinction")(Family.__init__)  # type: ignore[method-assign]
