"""Low-rank adapters (LoRA): a few trainable weights next to a frozen matrix.

              ┌── W x + b ───────────────────────────────────────┐
        x ────┤                                                  ├─ add ── y        W [out, in] is frozen
              └── dropout ── A [r, in] ── B [out, r] ── · α/r ───┘                  B starts as 0: y does not change

    adapters = adapt(model.network, AdapterSpec(rank=8, modules_to_save=("head",)))      adapters and the head train
    adapters.merge()        plain linear layers with W + α/r · B A, to prepare or save as any model
    adapters.unmerge()      exactly W again, as it was only set aside
    adapters.remove()       the network as it was

Each target module (`target_modules.py`) has an A and a B of its own. A network can have adapters of several names; the
updates of the active ones add up (`set_active`). Files: `adapter_files.py`; a set of several: `adapter_set.py`.

Source: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", sections 4.1 and 4.2; q and v: table 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

from torch import Tensor, nn

from glassformer.compression.low_rank import AdaptedLinear, LowRank, install
from glassformer.compression.target_modules import INSIDE, TargetModule, repeated_modules, target_modules
from glassformer.core.flow import pattern_matches
from glassformer.core.quantised import check_not_quantised
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError, nearest
from glassformer.files.schema import BelowOne, Positive, Schema, at_least

DEFAULT = "default"
"""PEFT's name of adapters that were given none."""


Rank = Annotated[int, at_least(1, 10**6)]


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterSpec(Schema):
    """Hyperparameters of low-rank adapters.

    rank: r, of each adapter
    alpha: α; the update is scaled by α/r
    dropout: dropout probability of the adapter input in training
    target_modules: patterns of the linear layers to adapt, as of taps (`q`, `attn.out`, `blocks.[0-3].ffn.up`); see
        the function `target_modules`
    modules_to_save: patterns of modules that are trained in full and saved, such as a new `head`
    rank_pattern, alpha_pattern: pattern → the rank or alpha of the target modules that match it
    Raises: ConfigError: a value out of range.
    """

    rank: Rank = 8
    alpha: Positive = 16.0
    dropout: BelowOne = 0.0
    target_modules: tuple[str, ...] = ("q", "v")
    modules_to_save: tuple[str, ...] = ()
    rank_pattern: dict[str, Rank] = field(default_factory=dict)
    alpha_pattern: dict[str, Positive] = field(default_factory=dict)

    def of_target(self, name: str) -> tuple[int, float]:
        """Rank and alpha of a target module."""
        rank = next((r for pattern, r in self.rank_pattern.items() if pattern_matches(pattern, name)), self.rank)
        alpha = next((a for pattern, a in self.alpha_pattern.items() if pattern_matches(pattern, name)), self.alpha)
        return rank, alpha


class Adapters:
    """The adapters of one name in a network: active or not, merged, or removed. `adapt` makes them.

    layers: path of a linear layer → its adapted form
    by_target: name of a target module → its adapter
    full_parameters: name → parameter of the modules that are trained in full; it holds these adapters' values while
        they are active, else the network's own
    merged: whether plain layers with W + α/r · B A are in the network now
    """

    def __init__(
        self,
        network: nn.Module,
        spec: AdapterSpec,
        layers: dict[str, AdaptedLinear],
        by_target: dict[str, LowRank],
        full_parameters: dict[str, nn.Parameter],
        name: str = DEFAULT,
    ) -> None:
        self.network, self.spec, self.layers, self.by_target = network, spec, layers, by_target
        self.full_parameters, self.name = full_parameters, name
        self.active, self.merged = True, False
        self._aside = {key: parameter.detach().clone() for key, parameter in full_parameters.items()}
        trained = {key for key, parameter in network.named_parameters() if parameter.requires_grad}
        self._trained: set[str] = next((other._trained for other in adapters_of(network).values()), trained)

    def full_values(self) -> dict[str, Tensor]:
        """The values of the modules that are trained in full, whether they are in the network now or aside."""
        return {key: x.detach() for key, x in self.full_parameters.items()} if self.active else self._aside

    def merge(self) -> None:
        """Replace adapted layers by plain ones with merged weights, which cost nothing extra; adapters are kept aside.

        Raises: ConfigError: they are merged already, or the network has other adapters too.
        """
        self._expect(merged=False)
        if others := [name for name in adapters_of(self.network) if name != self.name]:
            raise ConfigError(
                f"the network also has the adapters {names_of(others)}; model.merge_and_unload() merges those that are "
                "active, and removes all"
            )
        install(self.network, {path: layer.merged() for path, layer in self.layers.items()})
        self.merged = True

    def unmerge(self) -> None:
        """Restore the adapted layers: W is bit-identical.

        Raises: ConfigError: they are not merged, or the network is prepared.
        """
        self._expect(merged=True)
        for path, layer in self.layers.items():  # the network may have moved since
            current = self.network.get_parameter(f"{path}.weight")
            layer.to(current.device, current.dtype)
        install(self.network, self.layers)
        self.merged = False

    def remove(self) -> None:
        """Restore the network as it was without these adapters: layers, modules trained in full, `requires_grad`."""
        _check_not_prepared(self.network)
        if self.merged:
            self.unmerge()
        self.switch(active=False)
        sets = adapters_of(self.network)
        sets.pop(self.name, None)
        for layer in self.layers.values():
            layer.adapters.pop(self.name) if self.name in layer.adapters else None
        install(self.network, {path: layer.plain() for path, layer in self.layers.items() if not layer.adapters})
        if sets:
            _train_active(self.network)
        else:
            self.restore_training()

    def restore_training(self) -> None:
        """Restore the `requires_grad` flags from before the network had adapters."""
        for key, parameter in self.network.named_parameters():
            parameter.requires_grad_(key in self._trained)

    def switch(self, *, active: bool) -> None:
        """Take part in what the network computes, or not. Modules that are trained in full change places."""
        if active == self.active:
            return
        for key, parameter in self.full_parameters.items():
            # The tensor, not the parameter: tied ones stay tied, and an optimizer keeps its parameters.
            aside, self._aside[key] = self._aside[key], parameter.data
            parameter.data = aside.to(parameter.device, parameter.dtype)
        for adapter in self.by_target.values():
            adapter.active = active
        self.active = active

    def _expect(self, *, merged: bool) -> None:
        _check_not_prepared(self.network)
        if self.merged != merged:
            raise ConfigError(f"the adapters are {'' if self.merged else 'not '}merged")


def adapters_of(network: nn.Module) -> dict[str, Adapters]:
    """The adapters of a network by name, in the order in which they came."""
    sets: dict[str, Adapters] = network.__dict__.setdefault("_adapters", {})
    return sets


def adapt(network: nn.Module, spec: AdapterSpec | None = None, name: str = DEFAULT) -> Adapters:
    """Add adapters to a network and freeze everything else but `modules_to_save`.

    The first ones are active at once; those that join others are not, until `set_active`.

    Raises: ConfigError: a pattern without a match; a network that is prepared, or has adapters of this name already.
    """
    spec, sets = spec or AdapterSpec(), adapters_of(network)
    if not isinstance(spec, AdapterSpec):
        raise ConfigError(f"the spec is {spec!r}; give AdapterSpec(rank=8, target_modules=('q', 'v'))")
    _check_not_prepared(network)
    check_not_quantised(network, "adapted")
    _check_name(name, sets)
    known = target_modules(network)
    chosen, full_parameters = _chosen(network, spec, known)
    layers: dict[str, AdaptedLinear] = {}
    by_target: dict[str, LowRank] = {}
    for target in chosen:
        path = known[target].layer
        base = network.get_submodule(path)
        assert isinstance(base, nn.Linear)  # `target_modules` has no others
        rank, alpha = spec.of_target(target)
        by_target[target] = LowRank(base, known[target].rows, rank, alpha / rank, spec.dropout)
        layers[path] = layer = layers.get(path) or (base if isinstance(base, AdaptedLinear) else AdaptedLinear(base))
        layer.add(name, target.rpartition(".")[2], by_target[target])
    adapters = Adapters(network, spec, layers, by_target, full_parameters, name)
    install(network, {path: layer for path, layer in layers.items() if network.get_submodule(path) is not layer})
    adapters.switch(active=not sets)
    sets[name] = adapters
    _train_active(network)
    return adapters


def _chosen(
    network: nn.Module, spec: AdapterSpec, known: Mapping[str, TargetModule]
) -> tuple[list[str], dict[str, nn.Parameter]]:
    """The target modules that match a spec, and the parameters that are trained in full.

    Raises: ConfigError: a pattern that matches nothing.
    """
    repeated = repeated_modules(network)
    modules = [
        path for path, module in network.named_modules() if id(module) not in repeated and not INSIDE.search(path)
    ]
    chosen = [name for name in known if any(pattern_matches(pattern, name) for pattern in spec.target_modules)]
    for patterns, names, what in (
        (spec.target_modules, known, "target module"),
        ((*spec.rank_pattern, *spec.alpha_pattern), chosen, "adapted target module"),
        (spec.modules_to_save, modules, "module"),
    ):
        for pattern in patterns:
            if not any(pattern_matches(pattern, name) for name in names):
                raise ConfigError(f"no {what} matches {pattern!r}{nearest(pattern, names)}")
    prefixes = tuple(
        f"{path}." for path in modules if any(pattern_matches(pattern, path) for pattern in spec.modules_to_save)
    )
    own = {name: p for name, p in network.named_parameters() if name.startswith(prefixes) and not INSIDE.search(name)}
    return chosen, own


def set_active(network: nn.Module, names: Sequence[str]) -> None:
    """Activate the adapters of these names, whose updates add up, and no others; the active ones can be trained.

    Raises: ConfigError: an unknown name, merged adapters, or two that were trained in full on the same parameter.
    """
    sets = adapters_of(network)
    for name in names:
        named_adapters(network, name)
    if any(adapters.merged for adapters in sets.values()):
        raise ConfigError("the adapters are merged; unmerge() them before others become active")
    if any(adapters.full_parameters for adapters in sets.values()):
        _check_not_prepared(network)
    check_full_parameters(network, names)
    for adapters in sets.values():  # two of them may have the same parameter: first out, then in
        adapters.switch(active=adapters.active and adapters.name in names)
    for name in names:
        sets[name].switch(active=True)
    _train_active(network)


def check_full_parameters(network: nn.Module, names: Sequence[str]) -> None:
    """Check that no two of these adapters have trained the same parameter in full. Raises: ConfigError."""
    owners: dict[str, str] = {}
    for name in dict.fromkeys(names):
        for key in adapters_of(network)[name].full_parameters:
            if owners.setdefault(key, name) != name:
                raise ConfigError(
                    f"the adapters {owners[key]!r} and {name!r} have both trained {key!r} in full (modules_to_save); "
                    "only one of them can be used at a time"
                )


@contextmanager
def active_within(network: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Context in which the adapters of these names are active, and no others."""
    before = [adapters.name for adapters in adapters_of(network).values() if adapters.active]
    if before == list(names):  # also where they are merged
        yield
        return
    set_active(network, names)
    try:
        yield
    finally:
        set_active(network, before)


def merge_and_remove(network: nn.Module) -> None:
    """Merge the active adapters into plain layers, for good, and remove the others.

    Raises: ConfigError: the network is prepared.
    """
    _check_not_prepared(network)
    sets = adapters_of(network)
    layers = {path: layer for a in sets.values() if not a.merged for path, layer in a.layers.items()}
    install(network, {path: layer.merged() for path, layer in layers.items()})
    for adapters in sets.values():
        adapters.restore_training()
    sets.clear()


def _train_active(network: nn.Module) -> None:
    """Freeze everything but the active adapters."""
    network.requires_grad_(False)
    for adapters in adapters_of(network).values():
        adapted = [parameter for adapter in adapters.by_target.values() for parameter in adapter.parameters()]
        for parameter in (*adapted, *adapters.full_parameters.values()) if adapters.active else adapted:
            parameter.requires_grad_(adapters.active)


def named_adapters(network: nn.Module, name: str) -> Adapters:
    """The adapters of a name. Raises: ConfigError: there are none."""
    sets = adapters_of(network)
    if not isinstance(name, str) or name not in sets:
        raise ConfigError(f"no adapter is named {name!r}{nearest(str(name), sets)}; there are: {names_of(sets)}")
    return sets[name]


def names_of(names: Iterable[str]) -> str:
    """Names as an error lists them."""
    return ", ".join(map(repr, names)) or "none"


def check_not_adapted(network: nn.Module) -> None:
    """Check that a network has no adapters.

    Raises: ConfigError: it has.
    """
    if any(isinstance(module, AdaptedLinear) for module in network.modules()):
        raise ConfigError(
            "the model has adapters; merge() or unload() them first (model.save_adapter writes them alone)"
        )


def _check_name(name: str, sets: Mapping[str, Adapters]) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or hasattr(nn.ModuleDict(), name):
        raise ConfigError(f"{name!r} cannot be the name of an adapter; give one of letters, digits, _ and -")
    if name in sets:
        raise ConfigError(f"the model has adapters named {name!r} already; give another name, or remove those")
    if merged := [other for other, adapters in sets.items() if adapters.merged]:
        raise ConfigError(
            f"the adapters {names_of(merged)} are merged; unmerge() them, or call model.merge_and_unload() to keep the "
            "sum, before others come"
        )


def _check_not_prepared(network: nn.Module) -> None:
    if precision := prepared_precision(network):
        raise ConfigError(
            f"the network is prepared for inference in {precision}; unprepare() it before adapters come or go"
        )
