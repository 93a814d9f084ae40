"""The model as a PyTorch module: `nn.Module` around one network, with the network's own parameter names.

Whatever takes an `nn.Module` takes a model: optimizers, hooks, `copy.deepcopy`, `pickle`, `torch.save`, workers of a
`DataLoader`, `DistributedDataParallel`, accelerate. A parameter is called what it is called in the network:

    model.network.blocks[0].attn.out.weight      ──>      "blocks.0.attn.out.weight"

in `named_parameters`, `named_modules`, `state_dict`, `get_parameter` and `torch.func.functional_call`, here and where
the model is part of a larger module. Paths of the reference library, `model.bert.encoder`, are those of models that
`glassformer.hf` makes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.flow import Output
from glassformer.edge import read_call
from glassformer.engine.prepare import unprepare
from glassformer.errors import DataError, UnsupportedError
from glassformer.models import Family, Network
from glassformer.models.model_config import ModelConfig
from glassformer.models.resize import resize_vocabulary, vocabulary_key
from glassformer.weights.load import name_list, nan_parameters
from glassformer.weights.names import WeightNames

INNER = "network."

if hasattr(os, "register_at_fork"):
    # The threads of torch's pool are not in a forked child, which would wait for them forever: there it computes alone,
    # as the workers of a DataLoader do.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class NetworkModule(nn.Module):
    """A module whose only child is a network, and whose parameters have the names that they have there.

    family, spec, config, task: what the network was made from
    """

    network: Network
    family: Family
    spec: Any
    config: ModelConfig
    task: str
    recompute = False
    _nan_seen = False

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.register_state_dict_post_hook(_drop_prefix)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_add_prefix)  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> Any:
        """Also the network's children, so that names of parameters are paths of attributes."""
        if isinstance(own := getattr(type(self), name, None), property):  # it has raised an AttributeError: say why
            return own.fget(self)  # type: ignore[misc] # each has one
        modules = self.__dict__.get("_modules", {})  # not there yet while a copy is being made
        network = modules.get("network")
        if network is None or name == "network" or name.startswith("_"):
            return super().__getattr__(name)
        ours = network._modules.get(name)
        return super().__getattr__(name) if ours is None else ours

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses modules that no call would reach. Raises: UnsupportedError: another module than the network."""
        if isinstance(value, (nn.Module, nn.Parameter)) and name != "network":
            raise UnsupportedError(
                f"model.{name} = … would change nothing that the model computes; another head is load(…, head=…) or "
                "num_labels=…, with a model of glassformer.hf also nn.Linear(width, labels) as its last layer; another "
                "part is model.network.… = …"
            )
        super().__setattr__(name, value)

    @property
    def _bare(self) -> bool:
        """Whether files of this model are those of a body without a head."""
        return self.task == "feature-extraction"

    def _weight_names(self) -> WeightNames:
        return self.family.names(self.spec, self.task)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """This module, and those of the network with the names that they have there; parameters are named after them.

        Two modules are called "": this one and the network.
        """
        memo = set() if memo is None else memo
        if self not in memo:
            memo.update({self} if remove_duplicate else ())
            yield prefix, self
            yield from self.network.named_modules(memo, prefix, remove_duplicate)

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """The number of parameters; one that is used twice counts once."""
        embedded = {id(self.network.embedding.tokens.weight)} if exclude_embeddings else set()
        return sum(
            x.numel() for x in self.parameters() if id(x) not in embedded and (x.requires_grad or not only_trainable)
        )

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

    def _shift_right(self, labels: Tensor) -> Tensor:
        shifted: Tensor = self.prepare_decoder_input_ids_from_labels(labels)
        return shifted

    def set_input_embeddings(self, table: nn.Embedding) -> None:
        """Put other token embeddings in the place of the model's; a layer that is tied to them follows.

        Raises: DataError: another shape.
        """
        before = self.get_input_embeddings().weight
        weight = getattr(table, "weight", None)
        if not isinstance(weight, nn.Parameter) or weight.shape != before.shape:
            got = list(weight.shape) if isinstance(weight, Tensor) else type(table).__name__
            raise DataError(
                f"the table of embeddings is {got}; it must be nn.Embedding{tuple(before.shape)}; "
                "resize_token_embeddings(rows) gives the model another number of rows"
            )
        for module in self.network.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter is before:
                    setattr(module, name, weight)

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of token embeddings.

        Raises: UnsupportedError: the model reads no text.
        """
        return self.network.embedding.tokens

    def resize_token_embeddings(
        self, size: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the vocabulary, such as to a tokenizer with added tokens; other parameters stay the same objects.

        Args:
            size: the number of rows; None = as it is
            pad_to_multiple_of: rows are added until it divides them ·
            mean_resizing: no effect: new rows are the mean of the others
        Returns: the table of token embeddings.
        Raises: ConfigError: no count of rows. UnsupportedError: the family has no one vocabulary.
        """
        unprepare(self.network)
        before = self.network.vocabulary
        rows = before if size is None else size
        rows = -(-rows // pad_to_multiple_of) * pad_to_multiple_of if pad_to_multiple_of else rows
        if rows != before:
            key = vocabulary_key(self.family, self.config)
            self.network, self.spec = resize_vocabulary(self.network, self.family, self.config, self.task, rows)
            self.config[key] = rows
        return self.get_input_embeddings()

    def get_text_features(self, **inputs: Any) -> Tensor:
        """Embeddings of texts in the space that they share with images, of any length (CLIP). [texts, E]"""
        return self._shared_features(0, inputs)

    def get_image_features(self, **inputs: Any) -> Tensor:
        """Embeddings of images in the space that they share with texts, of any length (CLIP). [images, E]"""
        return self._shared_features(1, inputs)

    def _shared_features(self, side: int, inputs: dict[str, Any]) -> Tensor:
        """Raises: UnsupportedError: the model has no such space. DataError: other inputs than this side reads."""
        if self.task != "zero-shot-image-classification":
            raise UnsupportedError(f"a {self.family.model_type!r} model has no space that texts and images share")
        network: Any = self.network
        batch, flow = read_call(network, self.family.model_type, inputs, cache=None, tape=None)
        features: Tensor | None = network.head.project(*network.pooled(batch, flow))[side]
        if features is None:
            raise DataError(f"give {network.READS[side]}=…; got {', '.join(inputs) or 'nothing'}")
        features.pooler_output = features  # type: ignore[attr-defined] # newer releases of the reference return an object
        return features

    def check_nan(self, output: Output | Tensor) -> None:
        """Warn of NaN, once; names the parameters with NaN, if there are any."""
        fields = {"": output} if isinstance(output, Tensor) else output.present()
        first = next((x for name, x in fields.items() if name != "loss" and isinstance(x, Tensor)), None)
        if self._nan_seen or first is None or first.is_meta or not first.numel():
            return
        recorded = torch.compiler.is_exporting() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if recorded:  # the number would become a constant
            return
        self._nan_seen = bool(first.max().isnan())
        if self._nan_seen and (broken := nan_parameters(self.network)):
            warnings.warn(
                f"the output holds NaN, because {len(broken)} parameters of the model do: {name_list(broken)}; "
                "the checkpoint is damaged, or its training diverged",
                stacklevel=3,
            )

    def gradient_checkpointing_enable(self, *_: Any, **__: Any) -> None:
        """Activation checkpointing in training mode: calls store each block's input, and compute the rest again."""
        self.recompute = True

    def gradient_checkpointing_disable(self) -> None:
        """Store all activations, as calls do by default."""
        self.recompute = False

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

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether calls in training mode recompute activations."""
        return self.recompute

    @property
    def base_model_prefix(self) -> str:
        """What the names of the body's tensors begin with in files of a model with a head."""
        return self._weight_names().prefix

    @property
    def main_input_name(self) -> str:
        """The input that the network reads first."""
        return self.network.READS[0]

    @property
    def num_labels(self) -> int:
        """How many labels the head has."""
        return int(self.config.num_labels)

    def get_output_embeddings(self) -> nn.Module | None:
        """The layer of a language-model head that scores every token; None: another head, or none."""
        return getattr(self.network.head, "decoder", None)

    def get_memory_footprint(self, return_buffers: bool = True) -> int:
        """Bytes of all parameters, and of buffers."""
        tensors = {id(x): x for x in (*self.parameters(), *(self.buffers() if return_buffers else ()))}
        return sum(x.numel() * x.element_size() for x in tensors.values())

    def tie_weights(self) -> None:
        """Nothing to do: tied weights are one parameter from the start, and stay one."""

    def can_generate(self) -> bool:
        """Whether `generate` is there for this model's head."""
        return self.task in ("text-generation", "translation", "automatic-speech-recognition")

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return next(self.network.parameters()).dtype


def _drop_prefix(module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    """After `state_dict`: the network's names."""
    inner = prefix + INNER
    for name in [name for name in state if name.startswith(inner)]:
        state[prefix + name.removeprefix(inner)] = state.pop(name)


def _add_prefix(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Before `load_state_dict`: where they are below this module."""
    inner = prefix + INNER
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(inner)]:
        state[inner + name.removeprefix(prefix)] = state.pop(name)
