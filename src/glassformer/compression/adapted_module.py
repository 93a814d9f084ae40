"""Adapters of a model, by PEFT's names: several at once, switched, combined, merged, each saved in its folder.

model.load_adapter("adapters/french", "french")          the first are active at once
model.load_adapter("adapters/polite", "polite")          others are not
model.set_adapter("polite")                              from now on; ["french", "polite"] adds both
with model.disable_adapter(): ...                        the base model alone
model.add_weighted_adapter(["french", "polite"], [1.0, 0.5], "both", "cat")
model.save_adapter("adapters/both", "both")
model.merge_and_unload()                                 a plain model with the active ones in its weights
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from torch import nn

from glassformer.compression.adapter_files import load_adapters, save_adapters
from glassformer.compression.adapters import (
    DEFAULT,
    Adapters,
    AdapterSpec,
    active_within,
    adapt,
    adapters_of,
    check_not_adapted,
    merge_and_remove,
    named_adapters,
    names_of,
    set_active,
)
from glassformer.compression.weighted_adapters import Combination, add_weighted
from glassformer.engine.prepare import prepared_precision, unprepare
from glassformer.errors import ConfigError
from glassformer.load_options import LoadOptions
from glassformer.module import NetworkModule

if TYPE_CHECKING:
    from glassformer.pretrained import PretrainedModel


class AdaptedModule(NetworkModule):
    """A module whose network may have low-rank adapters (LoRA) of several names."""

    @property
    def adapters(self) -> dict[str, Adapters]:
        """The adapters by name, in the order in which they came."""
        return dict(adapters_of(self.network))

    @property
    def active_adapters(self) -> list[str]:
        """The names of the adapters that take part in what the model computes."""
        return [name for name, adapters in adapters_of(self.network).items() if adapters.active]

    def load_adapter(
        self, folder: str | Path, adapter_name: str = DEFAULT, *, allow_pickle: bool = False, offline: bool = False
    ) -> Adapters:
        """Load adapters from a folder that PEFT or `save_adapter` has written, or from the Hub by name.

        The first are active at once, as in PEFT; others after `set_adapter`.
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
        return load_adapters(self._model, folder, adapter_name, allow_pickle=allow_pickle)

    def add_adapter(self, adapter_name: str = DEFAULT, spec: AdapterSpec | None = None) -> Adapters:
        """Add new adapters, to be trained; at first they change nothing.

        Raises: ConfigError: the model has adapters of this name, or a pattern matches nothing.
        """
        self._unprepare()
        return adapt(self.network, spec, adapter_name)

    def save_adapter(self, folder: str | Path, adapter_name: str | None = None) -> None:
        """Save adapters alone to a folder, which PEFT loads.

        Args:
            adapter_name: None = those that the model has, if they are the only ones
        Raises: ConfigError: no such adapters, or several and no name.
        """
        sets = self.adapters
        if adapter_name is None and len(sets) != 1:
            raise ConfigError(f"the model has the adapters {names_of(sets)}; name those to save")
        adapters = named_adapters(self.network, next(iter(sets)) if adapter_name is None else adapter_name)
        save_adapters(adapters, self._model, folder)

    def set_adapter(self, adapter_name: str | Sequence[str]) -> None:
        """Activate the adapters of this name, or of these, whose updates add up; all others are inactive.

        Raises: ConfigError: an unknown name, or two that have trained the same module in full.
        """
        names = [adapter_name] if isinstance(adapter_name, str) else adapter_name
        if not isinstance(names, (list, tuple)):
            raise ConfigError(f"the adapter is {adapter_name!r}; give a name, or a list of names")
        self._switch_prepared()
        set_active(self.network, names)

    @contextmanager
    def disable_adapter(self) -> Iterator[None]:
        """Context in which the model computes what its base model does."""
        self._switch_prepared()
        with active_within(self.network, []):
            try:
                yield
            finally:  # what was called within has prepared the network
                self._switch_prepared()

    def delete_adapter(self, adapter_name: str) -> None:
        """Remove adapters from the model; others stay as they are, active or not.

        Raises: ConfigError: an unknown name.
        """
        adapters = named_adapters(self.network, adapter_name)
        self._unprepare()
        was_active = adapters.active
        adapters.remove()
        if was_active and self.adapters and not self.active_adapters:
            warnings.warn(
                f"the adapters {adapter_name!r} were the active ones: the model computes what its base model does, "
                f"until set_adapter(…) chooses among {names_of(self.adapters)}",
                stacklevel=2,
            )

    def add_weighted_adapter(
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

    def merge_and_unload(self) -> Self:
        """Merge the active adapters into the weights, for good, and remove the others. Returns: the model itself."""
        self._unprepare()
        merge_and_remove(self.network)
        return self

    def unload(self) -> Self:
        """Remove all adapters: the base model as it was. Returns: the model itself."""
        self._unprepare()
        for adapters in self.adapters.values():
            adapters.remove()
        return self

    def resize_token_embeddings(
        self, size: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the vocabulary; see `NetworkModule`. Raises: ConfigError: the model has adapters."""
        check_not_adapted(self.network)
        return super().resize_token_embeddings(size, pad_to_multiple_of, mean_resizing)

    @property
    def _model(self) -> PretrainedModel:
        return cast("PretrainedModel", self)  # the one class that derives from this one

    def _unprepare(self) -> None:
        """Undo what `encode` and `generate` prepare by themselves, and will again; another precision was asked for."""
        if prepared_precision(self.network) == "fp32":
            unprepare(self.network)

    def _switch_prepared(self) -> None:
        """The same, where switching changes other weights than those of adapters."""
        if any(adapters.full_parameters for adapters in self.adapters.values()):
            self._unprepare()
