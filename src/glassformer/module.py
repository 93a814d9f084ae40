"""The model as a PyTorch module: `nn.Module` around one network, with the network's own parameter names.

Whatever takes an `nn.Module` takes a model: optimizers, hooks, `copy.deepcopy`, `pickle`, `torch.save`, workers of a
`DataLoader`, `DistributedDataParallel`, accelerate. A parameter is called what it is called in the network:

    model.network.blocks[0].attn.out.weight      ──>      "blocks.0.attn.out.weight"

in `named_parameters`, `named_modules`, `state_dict`, `get_parameter` and `torch.func.functional_call`, here and where
the model is part of a larger module. Beside them, `model.bert`, `model.classifier` and the like lead to the same
parameters by the paths of the reference library (`models.reference_modules`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from glassformer.engine.prepare import unprepare
from glassformer.errors import UnsupportedError
from glassformer.models import Family, Network
from glassformer.models.model_config import ModelConfig
from glassformer.models.reference_modules import Entry, ReferenceModule, reference_entries, reference_module
from glassformer.models.resize import resize_vocabulary, vocabulary_key
from glassformer.weights.names import WeightNames

INNER = "network."


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

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.register_state_dict_post_hook(_drop_prefix)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_add_prefix)  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> Any:
        """Also the network's children, so that names of parameters are paths of attributes."""
        modules = self.__dict__.get("_modules", {})  # not there yet while a copy is being made
        network = modules.get("network")
        if network is None or name == "network" or name.startswith("_"):
            return super().__getattr__(name)
        if name in network._modules:
            return network._modules[name]
        at = reference_module(network, self._reference_entries(), name) if "own_head" in self.__dict__ else None
        return super().__getattr__(name) if at is None else at

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses modules that no call would reach. Raises: UnsupportedError: another module than the network."""
        if isinstance(value, (nn.Module, nn.Parameter)) and name != "network":
            raise UnsupportedError(
                f"model.{name} = … would change nothing that the model computes; another head is "
                "load(…, head=…) or num_labels=…, another part model.network.… = …"
            )
        super().__setattr__(name, value)

    @property
    def _bare(self) -> bool:
        """Whether files of this model are those of a body without a head."""
        return self.task == "feature-extraction"

    def _weight_names(self) -> WeightNames:
        return self.family.names(self.spec, self.task)

    def _reference_entries(self) -> dict[str, Entry]:
        return reference_entries(self.network, self._weight_names(), prefixed=not self._bare)

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

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of token embeddings.

        Raises: UnsupportedError: the model reads no text.
        """
        return self.network.embedding.tokens

    def resize_token_embeddings(self, size: int | None = None, pad_to_multiple_of: int | None = None) -> nn.Embedding:
        """Resize the vocabulary, such as to a tokenizer with added tokens; other parameters stay the same objects.

        Args: size: the number of rows; None = as it is · pad_to_multiple_of: rows are added until it divides them
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

    def gradient_checkpointing_enable(self, *_: Any, **__: Any) -> None:
        """Activation checkpointing in training mode: calls store each block's input, and compute the rest again."""
        self.recompute = True

    def gradient_checkpointing_disable(self) -> None:
        """Store all activations, as calls do by default."""
        self.recompute = False

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether calls in training mode recompute activations."""
        return self.recompute

    @property
    def base_model(self) -> ReferenceModule:
        """The body: everything but the head, such as to freeze it."""
        entries = self._reference_entries()
        return ReferenceModule(self.network, {n: e for n, e in entries.items() if not e[0].startswith("head.")}, "")

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
        """Where the weights are."""
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
    """Before `load_state_dict`: where they stand below this module."""
    inner = prefix + INNER
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(inner)]:
        state[inner + name.removeprefix(prefix)] = state.pop(name)
