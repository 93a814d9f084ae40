"""Which family, which head, which names: what a config and a caller ask for, made out together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.core.heads import Head
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import shown
from glassformer.models import FAMILIES
from glassformer.models._family import Family, Network
from glassformer.weights.names import Names


def family_of(config: Mapping[str, Any], folder: Path | None) -> Family:
    """The family that a config names; `folder` is where it lies, for messages.

    Raises: UnsupportedError: none, or one that is not known.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        where = f"{folder / 'config.json'}: " if folder else ""
        raise UnsupportedError(
            f"{where}model_type {shown(kind)} is not supported; supported: {', '.join(FAMILIES)}"
            f"{nearest(kind, FAMILIES) if isinstance(kind, str) and len(kind) < 100 else ''}"
        )
    return FAMILIES[kind]


LABELLED = {
    "text-classification",
    "token-classification",
    "audio-classification",
    "audio-frame-classification",
}
"""Tasks whose heads name their tensors alike, so that those of one would fit another, and mean nothing there."""


def task_of(family: Family, config: Mapping[str, Any], asked: str | None) -> tuple[str, str | None]:
    """The task of the head, asked for or named by the config; and that of the head that the checkpoint has.

    A config that names no architecture describes the family's bare body; None = one that is not known.
    """
    named = config.get("architectures") or [next(iter(family.architectures))]
    first = named[0] if isinstance(named, list) and isinstance(named[0], str) else None
    own = None if first is None else family.architectures.get(family.former.get(first, first))
    if asked is not None:
        return family.task(asked), own
    if own is None:
        raise UnsupportedError(
            f"config.json: architectures = {shown(named)} is not supported; a {family.model_type!r} model can be: "
            f"{', '.join(family.architectures)}; to load its body with one of their heads, give "
            f"task={' or '.join(map(repr, family.tasks))}"
        )
    return own, own


def bare_task(task: str | None) -> str:
    """The task of a body on which a caller puts a head."""
    if task is not None:
        raise ConfigError(
            f"task={task!r} and head=… were both given; a head of your own says what it does itself"
        )
    return "feature-extraction"


def put_on(network: Network, make: Callable[[int], Head]) -> None:
    """Put a head of the caller's own on a body."""
    head = make(network.width)
    if not isinstance(head, Head):
        raise ConfigError(
            f"head made a {type(head).__name__}; it must make a glassformer.core.Head, given the width {network.width}"
        )
    network.head = head
    network.name_nodes()


def names_of(family: Family, spec: Any, task: str, network: Network, *, own_head: bool) -> Names:
    """The table of a family; a head of the caller's own has the names that it gives to its parts."""
    table = family.names(spec, task)
    if not own_head or network.head is None:
        return table
    return table.with_head(f"head.{name}" for name, _ in network.head.named_parameters())
