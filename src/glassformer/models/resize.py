"""Other sizes for a trained network: the network of another config with tensors of this one, such as its vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files.schema import at_least, check
from glassformer.models._config import MAX_ROWS, ConfigReader, Keys
from glassformer.models._family import Family
from glassformer.models._network import Network


def config_key(family: Family, config: Mapping[str, Any], *fields: str) -> str:
    """The key of a config that holds a size, by the names of its field in `Keys`: the first that the family has.

    Raises: UnsupportedError: the family has none of them.
    """
    keys = getattr(family.spec, "keys", None)
    entry = next((keys.keys[x] for x in fields if x in keys.keys), None) if isinstance(keys, Keys) else None
    if entry is None or not entry.spellings:
        what = {"layers": "number of layers", "hidden": "number of neurons"}.get(fields[-1], fields[-1])
        raise UnsupportedError(f"a {family.model_type!r} model has no one {what} that could be resized")
    return next((key for key in entry.spellings if key in config), entry.spellings[0])


def vocabulary_key(family: Family, config: Mapping[str, Any]) -> str:
    """The key of a config that holds the vocabulary size.

    Raises: UnsupportedError: the family has no such key, or several vocabularies.
    """
    if config.get("decoder_vocab_size", None) is not None:
        raise UnsupportedError(f"a {family.model_type!r} model has no one vocabulary that could be resized")
    return config_key(family, config, "vocabulary")


def layer_key(family: Family, config: Mapping[str, Any], stack: str) -> str:
    """The key of a config that holds the number of layers of a stack, by its path.

    Raises: UnsupportedError: the family has no such key.
    """
    return config_key(family, config, f"{stack.partition('.')[0]}_layers", "layers")


def resize_vocabulary(
    network: Network, family: Family, config: Mapping[str, Any], task: str, size: int
) -> tuple[Network, Any]:
    """A network with `size` rows in its vocabulary, and its spec; all other tensors are those of `network` itself.

    A new row is the mean of the old ones, so that what the model computes for old tokens barely changes.
    Source: Hewitt 2021, "Initializing new word embeddings for pretrained language models".

    Raises: ConfigError: a size that is no count of rows. UnsupportedError: as `vocabulary_key`.
    """
    check(Annotated[int, at_least(1, MAX_ROWS)], size, "the vocabulary size")
    return rebuilt(network, family, {**config, vocabulary_key(family, config): size}, task, _rows)


Fit = Callable[[str, nn.Parameter, torch.Size], nn.Parameter]
"""(name, parameter, shape) → the parameter itself, or what of it, or with it, has this shape"""


def rebuilt(
    network: Network,
    family: Family,
    config: Mapping[str, Any],
    task: str,
    fit: Fit,
    source: Callable[[str], str] = lambda path: path,
) -> tuple[Network, Any]:
    """The network of another config with the tensors of this one, and its spec; what is tied stays tied.

    Args:
        fit: gives the parameters of the new network; `name` is that of the old one
        source: path of a module of the new network → that in the old one
    Raises: ConfigError: `fit` gives another shape than the config asks for.
    """
    spec = family.spec(ConfigReader(config))
    resized = family.build_on_meta(spec, task)
    if type(network.head) is not type(resized.head):
        resized.head = network.head  # a custom one, on the final states
    tensors: dict[int, nn.Parameter] = {}
    for path, module in list(resized.named_modules()):
        old = network.get_submodule(source(path))
        for name, parameter in module._parameters.items():
            before = old._parameters[name]
            if parameter is None or before is None:
                continue
            if id(before) not in tensors:
                tensors[id(before)] = fit(f"{source(path)}.{name}", before, parameter.shape)
            if tensors[id(before)].shape != parameter.shape:
                shapes = list(parameter.shape), list(tensors[id(before)].shape)
                raise ConfigError(f"{path}.{name} is {shapes[1]}; the new config asks for {shapes[0]}")
            module._parameters[name] = tensors[id(before)]
        if isinstance(module, nn.Embedding) and isinstance(old, nn.Embedding):  # as it was made, whatever was set since
            row = old.padding_idx
            module.padding_idx = row if row is not None and row < module.num_embeddings else None
        module._buffers.update(old._buffers)
        module.train(old.training)
    resized.name_nodes()
    return resized, spec


def _rows(name: str, before: nn.Parameter, shape: torch.Size) -> nn.Parameter:
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
