"""Another vocabulary size for a trained network: rows of the embedding table, and of what is tied to it, come or go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from glassformer.errors import DataError, UnsupportedError
from glassformer.files.schema import at_least, check
from glassformer.models._config import MAX_ROWS, ConfigReader, Keys
from glassformer.models._family import Family
from glassformer.models._network import Network


def vocabulary_key(family: Family, config: Mapping[str, Any]) -> str:
    """The key of a config that holds the vocabulary size.

    Raises: UnsupportedError: the family has no such key, or several vocabularies.
    """
    keys = getattr(family.spec, "keys", None)
    entry = keys.keys.get("vocabulary") if isinstance(keys, Keys) else None
    if entry is None or not entry.spellings or config.get("decoder_vocab_size", None) is not None:
        raise UnsupportedError(f"a {family.model_type!r} model has no one vocabulary that could be resized")
    return next((key for key in entry.spellings if key in config), entry.spellings[0])


def layer_key(family: Family, config: Mapping[str, Any], stack: str) -> str:
    """The key of a config that holds the number of layers of a stack, by its path.

    Raises: UnsupportedError: the family has no such key.
    """
    keys = getattr(family.spec, "keys", None)
    fields = [f"{stack.partition('.')[0]}_layers", "layers"]
    entry = next((keys.keys[x] for x in fields if x in keys.keys), None) if isinstance(keys, Keys) else None
    if entry is None or not entry.spellings:
        raise UnsupportedError(f"a {family.model_type!r} model has no one number of layers")
    return next((key for key in entry.spellings if key in config), entry.spellings[0])


def resize_vocabulary(
    network: Network, family: Family, config: Mapping[str, Any], task: str, size: int
) -> tuple[Network, Any]:
    """A network with `size` rows in its vocabulary, and its spec; all other tensors are those of `network` itself.

    A new row is the mean of the old ones, so that what the model computes for old tokens barely changes.
    Source: Hewitt 2021, "Initializing new word embeddings for pretrained language models".

    Raises: ConfigError: a size that is no count of rows. UnsupportedError: as `vocabulary_key`.
    """
    check(Annotated[int, at_least(1, MAX_ROWS)], size, "the vocabulary size")
    spec = family.spec(ConfigReader({**config, vocabulary_key(family, config): size}))
    resized = family.build_on_meta(spec, task)
    if type(network.head) is not type(resized.head):
        resized.head = network.head  # a custom one, on the final states
    tensors: dict[int, Tensor] = {}
    for path, module in list(resized.named_modules()):
        old = network.get_submodule(path)
        for name, parameter in module._parameters.items():
            before = old._parameters[name]
            if parameter is not None and before is not None:
                module._parameters[name] = tensors.setdefault(id(before), _rows(before, parameter.shape))
        if isinstance(module, nn.Embedding) and isinstance(old, nn.Embedding):  # as it was made, whatever was set since
            row = old.padding_idx
            module.padding_idx = row if row is not None and row < module.num_embeddings else None
        module._buffers.update(old._buffers)
        module.train(old.training)
    resized.name_nodes()
    return resized, spec


def _rows(before: nn.Parameter, shape: torch.Size) -> nn.Parameter:
    """The parameter itself, or one with other rows. [rows, …]"""
    if before.shape == shape:
        return before
    with torch.no_grad():
        more = shape[0] - before.shape[0]
        rows = (
            torch.cat([before, before.mean(0, keepdim=True).expand(more, *shape[1:])])
            if more > 0
            else before[: shape[0]]
        )
        return nn.Parameter(rows.clone(), requires_grad=before.requires_grad)


def replace_embeddings(network: Network, table: nn.Embedding) -> None:
    """Put other token embeddings in the place of a network's; a layer that is tied to them follows.

    Raises: DataError: another shape.
    """
    before = network.embedding.tokens.weight
    weight = getattr(table, "weight", None)
    if not isinstance(weight, nn.Parameter) or weight.shape != before.shape:
        got = list(weight.shape) if isinstance(weight, Tensor) else type(table).__name__
        raise DataError(
            f"the table of embeddings is {got}; it must be nn.Embedding{tuple(before.shape)}; "
            "resize_token_embeddings(rows) gives the model another number of rows"
        )
    for module in network.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is before:
                setattr(module, name, weight)
