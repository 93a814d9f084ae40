"""The low-rank adapters (LoRA) of a network: a set of several by name, switched, combined, merged and saved.

    adapters = AdapterSet(network, base)
    adapters.load("adapters/french", "french")          the first are active at once
    adapters.load("adapters/polite", "polite")          others are not
    adapters.activate(["french", "polite"])             from now on, both added up
    adapters.combine(["french", "polite"], [1.0, 0.5], "both", "cat")
    adapters["both"].spec

`Model` has a method for each by PEFT's name, hence the names of their arguments. A set is a view of what the network
holds, and holds nothing itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from glassformer.compression.adapter_files import load_adapters, save_adapters
from glassformer.compression.adapter_names import BaseConfig
from glassformer.compression.adapters import (
    DEFAULT,
    Adapters,
    AdapterSpec,
    active_within,
    adapt,
    adapters_of,
    merge_and_remove,
    named_adapters,
    names_of,
    set_active,
)
from glassformer.compression.weighted_adapters import Combination, add_weighted
from glassformer.engine.prepare import prepared_precision, unprepare
from glassformer.errors import ConfigError
from glassformer.load_options import LoadOptions
from glassformer.models import Network


class AdapterSet(Mapping[str, Adapters]):
    """The adapters of a network by name, in the order in which they came.

    base: what the network was made from, which files of adapters are checked against
    """

    def __init__(self, network: Network, base: BaseConfig) -> None:
        self.network, self.base = network, base

    def __getitem__(self, name: str) -> Adapters:
        return adapters_of(self.network)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(adapters_of(self.network)))

    def __len__(self) -> int:
        return len(adapters_of(self.network))

    def __repr__(self) -> str:
        return f"AdapterSet({names_of(self)}; active: {names_of(self.active)})"

    @property
    def active(self) -> list[str]:
        """The names of the adapters that take part in what the network computes."""
        return [name for name, adapters in self.items() if adapters.active]

    def load(
        self, folder: str | Path, adapter_name: str = DEFAULT, *, allow_pickle: bool = False, offline: bool = False
    ) -> Adapters:
        """Load adapters from a folder that PEFT or `save` has written, or from the Hub by name.

        The first are active at once, as in PEFT; others after `activate`.
        Args:
            adapter_name: of these adapters here
            offline: never open a network connection
            allow_pickle: also read `adapter_model.bin`, in a sandboxed child process
        Raises: DataError: there is no such folder. ConfigError: the model has adapters of this name.
            WeightsError: they are damaged, or of another base model. UnsupportedError: another kind than LoRA.
        """
        options = LoadOptions.read({}, dtype=None, device=None, offline=offline, overrides=None)
        folder = options.locate(folder, None, allow_pickle=allow_pickle)
        self._unprepare()
        return load_adapters(self.network, self.base, folder, adapter_name, allow_pickle=allow_pickle)

    def add(self, adapter_name: str = DEFAULT, spec: AdapterSpec | None = None) -> Adapters:
        """Add new adapters, to be trained; at first they change nothing.

        Raises: ConfigError: the model has adapters of this name, or a pattern matches nothing.
        """
        self._unprepare()
        return adapt(self.network, spec, adapter_name)

    def save(self, folder: str | Path, adapter_name: str | None = None) -> None:
        """Save adapters alone to a folder, which PEFT loads.

        Args:
            adapter_name: None = those that the model has, if they are the only ones
        Raises: ConfigError: no such adapters, or several and no name.
        """
        if adapter_name is None and len(self) != 1:
            raise ConfigError(f"the model has the adapters {names_of(self)}; name those to save")
        adapters = named_adapters(self.network, next(iter(self)) if adapter_name is None else adapter_name)
        save_adapters(adapters, self.network, self.base, folder)

    def activate(self, adapter_name: str | Sequence[str]) -> None:
        """Activate the adapters of this name, or of these, whose updates add up; all others are inactive.

        Raises: ConfigError: an unknown name, or two that have trained the same module in full.
        """
        names = [adapter_name] if isinstance(adapter_name, str) else adapter_name
        if not isinstance(names, (list, tuple)):
            raise ConfigError(f"the adapter is {adapter_name!r}; give a name, or a list of names")
        self._switch_prepared()
        set_active(self.network, names)

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Context in which the network computes what its base model does."""
        self._switch_prepared()
        with active_within(self.network, []):
            try:
                yield
            finally:  # what was called within has prepared the network
                self._switch_prepared()

    def delete(self, adapter_name: str) -> None:
        """Remove adapters from the network; others stay as they are, active or not.

        Raises: ConfigError: an unknown name.
        """
        adapters = named_adapters(self.network, adapter_name)
        self._unprepare()
        was_active = adapters.active
        adapters.remove()
        if was_active and self and not self.active:
            warnings.warn(
                f"the adapters {adapter_name!r} were the active ones: the model computes what its base model does, "
                f"until set_adapter(…) chooses among {names_of(self)}",
                stacklevel=3,
            )

    def combine(
        self,
        adapters: Sequence[str],
        weights: Sequence[float],
        adapter_name: str,
        combination_type: str = "svd",
        svd_rank: int | None = None,
        density: float | None = None,
        majority_sign_method: str = "total",
    ) -> None:
        """Add the weighted combination of adapters as one of its own, inactive: see `weighted_adapters`.

        Args:
            adapters, weights: names, and what each is multiplied with; below 0 takes away what it has learnt
            combination_type: "cat" (exact), "svd" (of rank `svd_rank`, None = the largest), "linear" (rough), or one
                that prunes to a share `density` of the numbers, such as "ties" and "dare_linear_svd"
            majority_sign_method: of "ties": weigh signs by the numbers, "total", or each once, "frequency"
        Raises: ConfigError: unknown names, other weights, unequal ranks. UnsupportedError: another type.
        """
        self._unprepare()
        how = Combination(combination_type, svd_rank, density, majority_sign_method)
        add_weighted(self.network, adapters, weights, adapter_name, how)

    def merge_and_remove(self) -> None:
        """Merge the active adapters into the weights, for good, and remove the others."""
        self._unprepare()
        merge_and_remove(self.network)

    def remove(self) -> None:
        """Remove all adapters: the base model as it was."""
        self._unprepare()
        for adapters in list(self.values()):
            adapters.remove()

    def _unprepare(self) -> None:
        """Undo what `encode` and `generate` prepare by themselves, and will again; another precision was asked for."""
        if prepared_precision(self.network) == "fp32":
            unprepare(self.network)

    def _switch_prepared(self) -> None:
        """The same, where switching changes other weights than those of adapters."""
        if any(adapters.full_parameters for adapters in self.values()):
            self._unprepare()
