"""Load a network: config → spec → network on the meta device → weights of the checkpoint. Or build a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.core.heads import Head
from glassformer.models import ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network
from glassformer.models.resolve import (
    LABEL_TASKS,
    attach_head,
    body_task,
    find_family,
    resolve_task,
    weight_names,
)
from glassformer.weights.load import LoadReport, load_weights
from glassformer.weights.read import open_checkpoint

LABEL_KEYS = frozenset({"num_labels", "id2label"})
"""Config keys that, when overridden, ask for a head with other labels than the checkpoint's."""


@dataclass(frozen=True)
class LoadedNetwork:
    """A network with its family, spec and task; `report` says what became of each tensor of the checkpoint."""

    network: Network
    family: Family
    spec: Any
    task: str
    report: LoadReport


def load_network(
    folder: Path,
    config: Mapping[str, Any],
    *,
    task: str | None,
    head: Callable[[int], Head] | None,
    overrides: Mapping[str, Any],
    dtype: torch.dtype | None,
    device: torch.device,
    allow_pickle: bool,
    strict: bool,
) -> LoadedNetwork:
    """Load the network of a model folder, in eval mode.

    Args:
        config: config.json with `overrides` applied.
        task, head: as in `glassformer.load`.
        dtype: None = the checkpoint's own.
        strict: a tensor of the checkpoint that the network does not use is an error.
    Raises: ConfigError, WeightsError, UnsupportedError: the config or the checkpoint does not fit.
    """
    family = find_family(config, folder)
    target, stored = resolve_task(family, config, task if head is None else body_task(task))
    reader = ConfigReader(config)
    spec = family.spec(reader)
    network = family.build_on_meta(spec, target)
    if head is not None:
        with torch.device("meta"):
            attach_head(network, head)
    other_task = target != stored
    # The names and shapes of one label head often fit another, but its weights mean nothing there.
    other_labels = other_task and {target, stored} <= LABEL_TASKS
    # A body may have been saved without its pooler.
    new_head = other_task or target == "feature-extraction" or not LABEL_KEYS.isdisjoint(overrides)
    with open_checkpoint(folder, allow_pickle=allow_pickle) as checkpoint:
        report = load_weights(
            network,
            checkpoint,
            weight_names(family, spec, target, network, own_head=head is not None),
            dtype=dtype,
            device=device,
            strict=strict,
            may_be_new=lambda name: name.startswith("head.") and new_head,
            reinitialised=lambda name: name.startswith("head.") and other_labels,
            initialise=lambda module: family.initialise(module, spec),
        )
    report.warnings += reader.unused_key_warnings()
    return LoadedNetwork(network.eval(), family, spec, target, report)


def new_network(
    config: Mapping[str, Any], *, task: str | None, head: Callable[[int], Head] | None, device: torch.device
) -> LoadedNetwork:
    """Build a network with new weights, in training mode; on the device "meta" it has shapes and no weights."""
    family = find_family(config, None)
    target, _ = resolve_task(family, config, task if head is None else body_task(task))
    reader = ConfigReader(config)
    spec = family.spec(reader)
    meta = device.type == "meta"
    network = family.build_on_meta(spec, target) if meta else family.build(spec, target).to(device)
    if head is not None:
        with device:
            attach_head(network, head)
    if not meta:
        family.initialise(network, spec)
    return LoadedNetwork(network, family, spec, target, LoadReport(warnings=reader.unused_key_warnings()))
