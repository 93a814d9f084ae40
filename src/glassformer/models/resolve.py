"""Resolve a config and a caller's options to a family, a task with its head, and the names of the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.core import Head
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.models import FAMILIES
from glassformer.models._family import Family
from glassformer.models._network import Network
from glassformer.weights.names import WeightNames


def find_family(config: Mapping[str, Any], folder: Path | None) -> Family:
    """The family of a config, by its `model_type`.

    Args: folder: where the config was read, for messages.
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
    "bos_token_id dtype eos_token_id pad_token_id tie_word_embeddings torch_dtype transformers_version".split()
)
"""Keys that a multimodal model's config holds beside `text_config`, for its text part too."""


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


def resolve_task(family: Family, config: Mapping[str, Any], requested: str | None) -> tuple[str, str | None]:
    """The task to load, requested or named by the config; and the task of the checkpoint's own head.

    A config without architectures describes the body alone; the second is None where the architecture is not known.

    Raises: UnsupportedError: the family has no head for the task.
    """
    architectures = config.get("architectures") or [next(iter(family.architectures))]
    first = architectures[0] if isinstance(architectures, list) and isinstance(architectures[0], str) else None
    own = None if first is None else family.architectures.get(family.former_architectures.get(first, first))
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

    Args: make: width of the final hidden states → head.
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
