"""Models as the reference library's classes: `BertForMaskedLM`, with its names of parameters.

    type(model).__name__            the class of the architecture: "BertForMaskedLM"
    type(model)(model.config)       another one, with random weights
    model.named_parameters()        names of the reference library's tensors, such as "bert.pooler.dense.weight"
    model.state_dict()              tensors by those names; load_state_dict takes them, too

A parameter of ours that is several tensors there has the names of all: "….self.(query|key|value).weight".
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import signature
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _IncompatibleKeys
from torch.utils import _pytree as pytree

from glassformer.call import decoder_inputs
from glassformer.core.flow import Output
from glassformer.core.heads import Pooler
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.files import read_json_object, safe_repr
from glassformer.hf.configs import GenerationConfig, check_floating, config_class, options_of
from glassformer.hf.paths.calls import PartCalls
from glassformer.hf.paths.modules import (
    Entry,
    Overlay,
    ReferenceModule,
    module_tree,
    reference_entries,
    reference_module,
)
from glassformer.hf.reference_tokenizer import plain_tokenizer
from glassformer.load_options import FINDING
from glassformer.model import Model, load
from glassformer.models import find_family, text_part
from glassformer.pretrained import ModelParts, is_bare, names_of
from glassformer.weights.load import export_parameters, listed_kinds
from glassformer.weights.names import Slice, Tied

pytree.register_pytree_node(  # so that exported programs give outputs
    Output,
    lambda output: ([*output.values()], tuple(output.keys())),
    lambda values, names: Output(dict(zip(names, values, strict=True))),
    serialized_type_name="glassformer.Output",
)

LOSS = re.compile(
    "For(CausalLM|MaskedLM|QuestionAnswering|SequenceClassification|ImageClassification|TokenClassification"
    "|ConditionalGeneration)"
)
"""Ends of class names that are names of losses there."""


INSTEAD = {
    "prepare_inputs_for_generation": "model.generate(…) and model(…, past_key_values=…) make their inputs themselves",
    "set_output_embeddings": "a tied layer follows model.set_input_embeddings(…); another head is load(…, head=…)",
    "get_position_embeddings": "their table is model.network.embed.positions",
    "resize_position_embeddings": "the length is max_position_embeddings of a new model's config",
    "loss_function": "model(…, labels=labels).loss",
    "set_attn_implementation": "it is chosen where a tape listens; leave it out",
    "dequantize": "model.unprepare() gives the weights back",
    "get_compiled_call": "torch.compile(model)",
    "add_model_tags": "model.push_to_hub(…) writes no tags",
}
"""Names of the reference library without a counterpart → what to write."""


OWN: dict[tuple[str, str], Any] = {}
"""Auto class and custom model type → the class of the model."""


NO_SUBCLASS = (
    "{} is derived from a whole model: derive it from PreTrainedModel, or BertPreTrainedModel, and give it the body as "
    "a part: self.bert = BertModel(config); or glassformer.load(head=…)"
)


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
        options = options_of(keywords)
        check_floating(options, f"{cls.__name__}.from_config")
        return model if options.dtype is None else model.to(options.dtype)

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


class ReferenceModel(LoadsModels, Model):  # type: ignore[misc] # from_config has fewer keywords
    """A model under the class name, and with the names of tensors, of the reference library.

    Its subclasses are the architectures, each of a family with the head of a task: `family_class` makes them.
    """

    GENERATION_CONFIG: ClassVar[Mapping[str, Any]] = {"top_k": 50}

    def __init__(self, config: Mapping[str, Any] | ModelParts | None = None, **named: Any) -> None:
        if isinstance(config, ModelParts):
            super().__init__(config)
            return
        if not isinstance(config, Mapping):
            given = "" if config is None else safe_repr(config)
            raise ConfigError(
                f"{type(self).__name__}({given}) makes no model; load one with "
                f"{type(self).__name__}.from_pretrained(folder), or give its config"
            )
        own = {"model_type": self.FAMILY}  # RobertaModel(XLMRobertaConfig()): the class says which family it is
        made = type(self).from_config({**config, **own})
        super().__init__(ModelParts(made.network, made.family, made.spec, made.config, made.task, report=made.report))
        as_reference(self, type(self))
        if named.get("add_pooling_layer") is False and isinstance(self.network.head, Pooler):
            self.network.head = None

    def __init_subclass__(cls, **_: Any) -> None:
        if not {"TASKS", "FAMILY"} <= vars(cls).keys():
            raise UnsupportedError(NO_SUBCLASS.format(cls.__name__))

    @property
    def loss_type(self) -> str | None:
        """The name of the loss in the reference library; None where it is in the class itself."""
        loss = LOSS.search(type(self).__name__)
        return loss.group() if loss else None

    def __getattr__(self, name: str) -> Any:
        """Also the modules of the reference library's model, by their paths.

        Raises: AttributeError: there is none; what to write instead, where that is known.
        """
        if name == "network":
            return super().__getattr__(name)
        network = self.__dict__.get("_modules", {}).get("network")  # none yet while a copy is being made
        known = network is None or isinstance(getattr(type(self), name, None), property)
        if not known and not name.startswith("_") and "own_head" in self.__dict__:
            at = reference_module(network, self._reference_entries(), name, PartCalls(self))
            ours = network._modules.get(name)
            if ours is not None:
                return Overlay(ours, at) if isinstance(at, ReferenceModule) else ours
            if at is not None:
                return at
        try:
            return super().__getattr__(name)
        except AttributeError as problem:
            if name.startswith("_"):
                raise
            instead = INSTEAD.get(
                name, "the modules are model.network's, and docs/integrations.md says which names there are"
            )
            raise AttributeError(f"a {type(self).__name__} has no {name!r}: {instead}") from problem

    def __setattr__(self, name: str, value: Any) -> None:
        """Also another last layer of a classifier, for other labels: `model.classifier = nn.Linear(width, 5)`."""
        if not (isinstance(value, nn.Linear) and self._takes(name, value)):
            super().__setattr__(name, value)

    def _takes(self, name: str, layer: nn.Linear) -> bool:
        """Put a layer in the place of the one of this name; False: it is no classifier's, or of another width."""
        head = self.network.head
        before = getattr(self, name, None)
        at = next((at for at, module in head.named_modules() if module is before), None) if head is not None else None
        labels = self.task.endswith("classification") and isinstance(before, nn.Linear)
        if not labels or not at or before.in_features != layer.in_features:  # type: ignore[union-attr] # as labels says
            return False
        stem, _, leaf = at.rpartition(".")
        setattr(head.get_submodule(stem), leaf, layer)  # type: ignore[union-attr] # there is one, as at says
        self.num_labels = layer.out_features
        return True

    @property
    def num_labels(self) -> int:
        """How many labels the head has. Set: how many the config says, with names of their own where it had others."""
        return int(self.config.num_labels)

    @num_labels.setter
    def num_labels(self, count: int) -> None:
        if count != len(self.config.id2label):
            for key in ("id2label", "label2id"):
                self.config.pop(key, None)
            self.config["num_labels"] = count

    def forward(self, *unnamed: Any, **inputs: Any) -> Any:
        """As of every model; None at the end of unnamed inputs is nothing, as exporters give it."""
        while unnamed and unnamed[-1] is None:
            unnamed = unnamed[:-1]
        return super().forward(*unnamed, **inputs)

    forward.__signature__ = signature(Model.forward)  # type: ignore[attr-defined] # exporters read it

    @property
    def base_model(self) -> ReferenceModule:
        """The body: everything but the head, such as to freeze it; where files keep a pooler in it, that too."""
        entries = self._reference_entries()
        prefix = f"{self.base_model_prefix}."
        body = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
        rest = {name: entry for name, entry in entries.items() if is_bare(self) or not entry[0].startswith("head.")}
        return ReferenceModule(self.network, body or rest, prefix[:-1] if body else "", PartCalls(self))

    def get_decoder(self) -> Any:
        """The decoder of an encoder-decoder, or the body of another model: a view, such as to freeze it."""
        body = self.base_model
        return body.decoder if "decoder_input_ids" in self.network.READS else body

    @property
    def base_model_prefix(self) -> str:
        """What the names of the body's tensors begin with in files of a model with a head."""
        return names_of(self).prefix

    @property
    def main_input_name(self) -> str:
        """The input that the network reads first."""
        return self.network.READS[0]

    def get_output_embeddings(self) -> nn.Module | None:
        """The layer of a language-model head that scores every token; None: another head, or none."""
        return getattr(self.network.head, "decoder", None)

    def get_memory_footprint(self, return_buffers: bool = True) -> int:
        """Bytes of all parameters, and of buffers."""
        tensors = {id(x): x for x in (*self.parameters(), *(self.buffers() if return_buffers else ()))}
        return sum(x.numel() * x.element_size() for x in tensors.values())

    def tie_weights(self) -> None:
        """Nothing to do: tied weights are one parameter from the start, and stay one."""

    @property
    def name_or_path(self) -> str:
        """The folder that the model was loaded from; "" = none."""
        folder = getattr(self, "folder", None)
        return "" if folder is None else str(folder)

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        """Any inputs of the right shape, of a model of text."""
        ids = torch.tensor([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]], device=self.device)
        return {"input_ids": ids % self.get_input_embeddings().num_embeddings}

    def init_weights(self) -> None:
        """Nothing to do: what no file has given is initialised when a model is made, and the rest stays."""

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels of an encoder-decoder shifted right: what its decoder reads in training. [B, T]"""
        if not self.is_encoder_decoder:
            raise UnsupportedError(f"a {self.family.model_type!r} model has no decoder that reads labels")
        return decoder_inputs(self.network, labels, self.config)

    def _shift_right(self, labels: Tensor) -> Tensor:
        shifted: Tensor = self.prepare_decoder_input_ids_from_labels(labels)
        return shifted

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether calls in training mode recompute activations."""
        return self.recompute

    def enable_input_require_grads(self) -> None:
        """Token embeddings require gradients, so that adapters behind frozen ones get theirs."""
        self.disable_input_require_grads()
        embed = self.get_input_embeddings()
        object.__setattr__(
            self, "_input_grads", embed.register_forward_hook(lambda *call: call[-1].requires_grad_(True))
        )

    def disable_input_require_grads(self) -> None:
        if (handle := self.__dict__.pop("_input_grads", None)) is not None:
            handle.remove()

    def _reference_entries(self) -> dict[str, Entry]:
        return reference_entries(self.network, names_of(self), prefixed=not is_bare(self))

    def freeze_base_model(self) -> None:
        """Freeze the body, so that the head alone is trained."""
        self.base_model.requires_grad_(False)

    def freeze_feature_encoder(self) -> None:
        """Freeze the convolutions that read a waveform."""
        self.base_model.feature_extractor.requires_grad_(False)

    def freeze_encoder(self) -> None:
        """Freeze the encoder of an encoder-decoder."""
        self.base_model.encoder.requires_grad_(False)

    def tensor_names(self) -> dict[str, tuple[Any, list[str]]]:
        """Our parameters → the rule and the names of their tensors there; tied ones by each of their names."""
        names = names_of(self)
        prefixed = not is_bare(self) and names.prefixed
        every = (name for name, _ in self.network.named_parameters(remove_duplicate=False))
        return {ours: names.find(ours, prefixed=prefixed) for ours in every}

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Our parameters, by the reference library's names of their tensors.

        With remove_duplicate=False by their paths: so exporters ask, who go to each parameter by its name.
        """
        if not remove_duplicate:
            yield from self.network.named_parameters(prefix, recurse, remove_duplicate=False)
            return
        tensors = self.tensor_names()
        for ours, parameter in self.network.named_parameters("", recurse, remove_duplicate):
            rule, theirs = tensors[ours]
            name = joined(theirs) + (f"[{rule.number}]" if isinstance(rule, Slice) else "")
            yield f"{prefix}.{name}" if prefix else name, parameter

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """The modules of the reference library's model by their paths; ours where this is part of a larger module."""
        if memo is not None or prefix:
            yield from super().named_modules(memo, prefix, remove_duplicate)
            return
        yield "", self
        yield from module_tree(self.network, self._reference_entries(), PartCalls(self))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Our buffers, by our names."""
        return self.network.named_buffers(prefix, recurse, remove_duplicate)

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """The modules of the reference library's model that are in no other; the network where a call is traced."""
        if torch.jit._trace._trace_module_map is not None:  # which has to find the modules that the call passes
            return super().named_children()
        return ((name, module) for name, module in self.named_modules() if name and "." not in name)

    def children(self) -> Iterator[nn.Module]:
        """The network: what a call passes, and what moving and training modes reach."""
        return iter((self.network,))

    def get_submodule(self, target: str) -> Any:
        """A module by its path, here or in the reference library: there also a view of several."""
        try:
            return super().get_submodule(target)
        except AttributeError:
            at: Any = self
            for name in target.split("."):
                at = at[int(name)] if name.isdigit() else getattr(at, name)
            return at

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override] # as torch calls it
        """The tensors by the reference library's names; ours where this is part of a larger module, or was changed."""
        own: dict[str, Any] = super().state_dict(*args, **options)
        parameters = dict(self.network.named_parameters(remove_duplicate=False))
        larger = args or options.get("prefix") or options.get("destination") is not None
        if larger or options.get("keep_vars") or own.keys() != parameters.keys():  # exporters want the parameters
            return own
        names = names_of(self)
        stored = {id(parameters[ours]) for ours, (rule, _) in self.tensor_names().items() if not isinstance(rule, Tied)}
        tied = {  # of those that are; a file may have untied them
            ours: theirs
            for ours, (rule, theirs) in self.tensor_names().items()
            if isinstance(rule, Tied) and id(parameters[ours]) in stored
        }
        state = export_parameters(
            {ours: x for ours, x in parameters.items() if ours not in tied}, names, prefixed=not is_bare(self)
        )
        same = {
            id(parameters[ours]): next(iter(self.tensor_names()[ours][1])) for ours in parameters if ours not in tied
        }
        state |= {name: state[same[id(parameters[ours])]] for ours, theirs in tied.items() for name in theirs}
        return OrderedDict(state)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy tensors into the parameters, by the reference library's names or by ours.

        Returns: missing_keys, unexpected_keys.
        Raises: WeightsError: a tensor of another shape; with `strict`, one that is missing or belongs nowhere.
        """
        tensors = self.tensor_names()
        known = {name for _, theirs in tensors.values() for name in theirs}
        own = {name for name, _ in self.network.named_parameters(remove_duplicate=False)}
        if known.isdisjoint(state_dict) and not own.isdisjoint(state_dict):
            return super().load_state_dict(state_dict, strict=strict, assign=assign)
        parameters = dict(self.network.named_parameters())
        missing = [name for ours in parameters for name in tensors[ours][1] if name not in state_dict]
        surplus = [name for name in state_dict if name not in known and not names_of(self).is_ignored(name)]
        if strict and (missing or surplus):
            listed = listed_kinds({"missing": missing, "surplus": surplus})
            raise WeightsError(f"the state dict does not fit the model: {listed}; strict=False takes what fits")
        for ours, parameter in parameters.items():
            rule, theirs = tensors[ours]
            if all(name in state_dict for name in theirs):
                _copy(parameter, rule, [state_dict[name] for name in theirs], theirs[0])
        return _IncompatibleKeys(missing, surplus)


@cache
def family_class(name: str, task: str, family: str) -> type[ReferenceModel]:
    """The class of an architecture."""
    about = {"__module__": "glassformer.hf", "__doc__": f"A {family!r} model for {task}."}
    return type(name, (ReferenceModel,), {"TASKS": (task,), "FAMILY": family, **about})


def as_reference(model: Model, loaded_as: type | None = None) -> Model:
    """The same model, as one of the class of its architecture, with a config of the family's class."""
    architecture = model.family.architecture(model.task)
    kind: Any = family_class(architecture, model.task, model.family.model_type)
    model.__class__ = loaded_as if loaded_as is not None and issubclass(loaded_as, ReferenceModel) else kind
    object.__setattr__(model.config, "__class__", config_class(model.family.model_type))
    for name, value in GenerationConfig.from_model_config(model.config).items():
        model.generation_config.setdefault(name, value)
    return model


def _loading_info(model: Model) -> dict[str, Any]:
    """What became of the tensors, by their names in files: `output_loading_info=True`."""
    names = names_of(model)
    new = {name for ours in model.report.new for name in names.find(ours, prefixed=names.prefixed)[1]}
    return {"missing_keys": new, "unexpected_keys": {*model.report.unused}, "mismatched_keys": set(), "error_msgs": []}


def joined(names: list[str]) -> str:
    """Several names in one: `a.query.weight`, `a.key.weight` → `a.(query|key).weight`."""
    paths = [name.split(".") for name in names]
    levels = zip(*paths, strict=False)
    before = len(list(takewhile(lambda level: len(set(level)) == 1, levels)))
    if len(names) == 1:
        return names[0]
    after = min(len(path) for path in paths) - before - 1
    end = next(i for i in range(after, -1, -1) if len({tuple(path[len(path) - i :]) for path in paths}) == 1)
    middle = "|".join(".".join(path[before : len(path) - end]) for path in paths)
    return ".".join([*paths[0][:before], f"({middle})", *paths[0][len(paths[0]) - end :]])


@torch.no_grad()
def _copy(parameter: nn.Parameter, rule: Any, tensors: list[Tensor], name: str) -> None:
    """Raises: WeightsError: tensors of another shape."""
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if shapes != rule.shapes(tuple(parameter.shape)):
        raise WeightsError(f"{name} is {list(shapes[0])}; it must be {list(rule.shapes(tuple(parameter.shape))[0])}")
    parameter.copy_(rule.read(tensors))
