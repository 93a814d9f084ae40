"""Names of adapters in PEFT's files: our target modules, and the layers of the model's own checkpoint that hold them.

Mostly one is the other. Where a checkpoint's layer holds several of ours, they share one adapter there:

    GPT-2's c_attn [3 D, D]   =   q, k and v of ours, below one another

        A [3 r, D] = A_q          B [3 D, 3 r] = B_q  0   0          each r columns of B and rows of A belong to one
                     A_k                         0   B_k  0          of ours; a pair of them that another
                     A_v                         0   0   B_v         trained is no such blocks, and all of ours read A
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.compression.low_rank import LowRank
from glassformer.compression.target_modules import target_modules
from glassformer.models import Family, Network, weight_names
from glassformer.weights.load import export_parameters
from glassformer.weights.names import Rule, Transposed


@dataclass(frozen=True)
class BaseConfig:
    """What a network was made from, as files of adapters refer to it.

    own_head: whether its head is a custom one
    folder: where the base model is; None = in no folder
    """

    family: Family
    spec: Any
    task: str
    own_head: bool = False
    folder: Path | None = None


@dataclass(frozen=True)
class LayerRows:
    """Where a target module is: which outputs of a layer of the checkpoint are its own.

    layer: the layer's name
    rows: the numbers of these outputs, in our order [rows]
    outputs: of the whole layer
    """

    layer: str
    rows: Tensor
    outputs: int


class CheckpointLayers:
    """The layers and tensors of a checkpoint that hold a model's target modules and parameters.

    by_target: name of a target module → where it is
    """

    def __init__(self, network: Network, base: BaseConfig) -> None:
        self.network, self.model_type = network, base.family.model_type
        self._table = weight_names(base.family, base.spec, base.task, network, own_head=base.own_head)
        self._prefixed = self._table.prefixed and (base.task != "feature-extraction" or base.own_head)
        self._targets = target_modules(network)
        self.by_target = {name: self._place(name) for name in self._targets}

    def _place(self, name: str) -> LayerRows:
        target = self._targets[name]
        rule, theirs = self._find(f"{target.layer}.weight")
        counts = [shape[0] for shape in rule.shapes((self.weight(name).shape[0],))]
        starts = list(accumulate(counts, initial=0))
        # The rule puts their rows into our order; put to row numbers, it says where each of ours comes from.
        origin = rule.read([torch.arange(start, start + n) for start, n in zip(starts, counts, strict=False)])
        rows = origin[target.rows]
        number = max(i for i in range(len(counts)) if starts[i] <= int(rows[0]))
        return LayerRows(theirs[number].removesuffix(".weight"), rows - starts[number], counts[number])

    def weight(self, name: str) -> Tensor:
        """The weight of the layer that a target module is in, or is."""
        return self.network.get_parameter(f"{self._targets[name].layer}.weight")

    def layer_weight(self, layer: str) -> Tensor:
        """The weight of a layer of the checkpoint, in fp32. [out, in]"""
        members = self.members(layer)
        first = self.weight(members[0])
        whole = first.new_empty(self.by_target[members[0]].outputs, first.shape[1], dtype=torch.float32)
        for name in members:
            whole[self.by_target[name].rows] = self.weight(name).detach()[self._targets[name].rows].float()
        return whole

    def members(self, layer: str) -> list[str]:
        """The target modules that a layer of the checkpoint holds."""
        return [name for name, place in self.by_target.items() if place.layer == layer]

    def is_transposed(self, name: str) -> bool:
        """Whether the checkpoint stores the matrix transposed, with inputs as rows."""
        return isinstance(self._find(f"{self._targets[name].layer}.weight")[0], Transposed)

    def keys(self, parameter: str) -> list[str]:
        """The names of the tensors that hold a parameter."""
        return self._find(parameter)[1]

    def tensors(self, parameters: Iterable[str]) -> dict[str, Tensor]:
        """The whole tensors of a file that hold these parameters; of a fused one, also what was not trained."""
        wanted = {key for name in parameters for key in self.keys(name)}
        held = {
            name: parameter
            for name, parameter in self.network.named_parameters()
            if ".adapters." not in name and not wanted.isdisjoint(self.keys(name))
        }
        return export_parameters(held, self._table, prefixed=self._prefixed)

    def read(self, parameter: str, tensors: list[Tensor]) -> Tensor:
        """Convert tensors of the file to a parameter."""
        return self._find(parameter)[0].read(tensors)

    def _find(self, parameter: str) -> tuple[Rule, list[str]]:
        return self._table.find(parameter, prefixed=self._prefixed)


@dataclass(frozen=True)
class LayerAdapter:
    """The adapter of a checkpoint's layer: its weight W becomes W + scale · up @ down.

    down: A [R, in]
    up: B [out, R]
    columns: target module → its columns of B and rows of A
    """

    down: Tensor
    up: Tensor
    scale: float
    columns: dict[str, slice]

    @classmethod
    def of_targets(cls, adapters: dict[str, LowRank], layers: CheckpointLayers) -> LayerAdapter:
        """The adapters of all target modules in one layer as one."""
        places = {name: layers.by_target[name] for name in adapters}
        first = next(iter(adapters.values()))
        downs = [adapter.down.weight.detach() for adapter in adapters.values()]
        same = all(torch.equal(down, downs[0]) for down in downs[1:])
        ends = list(accumulate((down.shape[0] for down in downs), initial=0))
        columns = {
            name: slice(0, ends[1]) if same else slice(start, end)
            for name, start, end in zip(adapters, ends[:-1], ends[1:], strict=True)
        }
        down = downs[0] if same else torch.cat(downs)
        up = first.up.weight.new_zeros(next(iter(places.values())).outputs, down.shape[0])
        for name, adapter in adapters.items():
            part = adapter.up.weight.detach()
            part = part if adapter.scale == first.scale else part * (adapter.scale / first.scale)
            up[places[name].rows, columns[name]] = part
        return cls(down, up, first.scale, columns)

    def minus(self, down: Tensor, up: Tensor) -> LayerAdapter:
        """This adapter less another of the same scale: twice the rank."""
        wide = self.down.shape[0] + down.shape[0]
        columns = dict.fromkeys(self.columns, slice(0, wide))
        return LayerAdapter(torch.cat([self.down, down]), torch.cat([self.up, -up], 1), self.scale, columns)
