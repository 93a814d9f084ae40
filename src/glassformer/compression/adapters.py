"""Low-rank adapters: a few new weights beside a large matrix learn what a task asks for; the matrix stays as it is.

              ┌── W x + b ───────────────────────────────────────┐
        x ────┤                                                  ├─ add ── y        W [out, in] is frozen
              └── dropout ── A [r, in] ── B [out, r] ── · α/r ───┘                  B starts as 0: y does not change

    adapters = adapt(model.network, AdapterSpec(rank=8, whole=("head",)))      what asks for gradients now learns
    adapters.merge()        plain linear layers with W + α/r · B A, to prepare, or to save as any model
    adapters.unmerge()      the very W again, since it was only set aside
    adapters.remove()       the network as it was

q, k and v are one matrix here. Each that is adapted has an A and a B of its own, which speak to its rows alone:

    blocks.0.attn.qkv   [H·E + 2·K·E, D]      places  blocks.0.attn.q · blocks.0.attn.k · blocks.0.attn.v

Files: `adapter_files.py`.
Source: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", sections 4.1 and 4.2; q and v: table 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.flow import fits
from glassformer.core.heads import Vocabulary
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError, nearest

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterSpec:
    """What is adapted, and how.

    rank: r, how many directions each adapter has · alpha: α; its answer is multiplied by α/r
    dropout: how often a number that it reads is dropped in training
    places: patterns of places, as of taps (`q`, `attn.out`, `blocks.[0-3].ffn.up`); see `places`
    whole: patterns of modules that are trained as they are, such as a new `head`
    Raises: ConfigError: numbers that make no sense.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    places: tuple[str, ...] = ("q", "v")
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"rank is {self.rank}; an adapter has at least 1 direction")
        if not 0 < self.alpha < float("inf"):
            raise ConfigError(f"alpha is {self.alpha}; it must be a number above 0")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it must be from 0 up to, but not including, 1")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an adapter can stand: a linear layer, or some of its rows.

    layer: the path of the linear layer · rows: which of its outputs · number, of: which part of a matrix of several
    """

    layer: str
    rows: slice
    number: int = 0
    of: int = 1


def places(network: nn.Module) -> dict[str, Place]:
    """Every place for an adapter, by its name: linear layers, with q, k and v each apart.

    Not those over a vocabulary, nor those that share their matrix with another layer, which would change with them. A
    layer that stands in several places goes by the first.
    """
    found: dict[str, Place] = {}
    seen: set[int] = set()
    owners = Counter(id(p) for module in network.modules() for p in module.parameters(recurse=False))
    for owner, module in network.named_modules():
        layers = () if isinstance(module, (Vocabulary, AdaptedLinear)) else module.named_children()
        for name, layer in layers:
            if (
                type(layer) not in (nn.Linear, AdaptedLinear)
                or owners[id(layer.weight)] > 1
                or id(layer) in seen
            ):
                continue
            seen.add(id(layer))
            prefix = f"{owner}." if owner else ""
            parts = _parts(module, name) or {name: layer.out_features}
            ends = list(accumulate(parts.values(), initial=0))
            for number, part in enumerate(parts):
                rows = slice(ends[number], ends[number + 1])
                found[prefix + part] = Place(prefix + name, rows, number, len(parts))
    return found


def _parts(owner: nn.Module, name: str) -> dict[str, int]:
    """The matrices that stand below each other in one, and their rows."""
    if isinstance(owner, Attention) and name == "qkv":
        spec = owner.spec
        return {"q": spec.heads * spec.E, "k": spec.K * spec.E, "v": spec.K * spec.E}
    if isinstance(owner, CrossAttention) and name == "kv":
        return dict.fromkeys(("k", "v"), owner.spec.K * owner.spec.E)
    return {}


class LowRank(nn.Module):
    """delta = α/r · B A dropout(x)

    Differs: the paper draws A from a normal distribution and does not say how wide; here 1/√in, so that A x is about as
    long in each direction as x is in each of its own.
    """

    def __init__(self, base: nn.Linear, rows: slice, rank: int, scale: float, dropout: float) -> None:
        super().__init__()
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.rows, self.scale = rows, scale
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(base.in_features, rank, bias=False, **like)
        self.up = nn.Linear(rank, rows.stop - rows.start, bias=False, **like)
        nn.init.normal_(self.down.weight, std=base.in_features**-0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... rows"]:
        delta: Tensor = self.up(self.down(self.dropout(x))) * self.scale
        return delta

    def matrix(self) -> Float[Tensor, "rows D"]:
        """α/r · B A, in at least fp32."""
        wide = torch.promote_types(self.up.weight.dtype, torch.float32)
        return self.up.weight.to(wide) @ self.down.weight.to(wide) * self.scale


class AdaptedLinear(nn.Linear):
    """y = W x + b, and to some rows of it the answers of adapters.

    `weight` and `bias` are those of the layer that it stands for.
    """

    def __init__(self, base: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.adapters = nn.ModuleDict()
        self.train(base.training)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... out"]:
        y = F.linear(x, self.weight, self.bias)
        for adapter in self.low_ranks():
            y[..., adapter.rows].add_(adapter(x))
        return y

    def low_ranks(self) -> Iterator[LowRank]:
        """Its adapters."""
        return (adapter for adapter in self.adapters.values() if isinstance(adapter, LowRank))

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain layer that gives the same numbers, but for rounding; this one stays as it is."""
        plain = self.plain()
        wide = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32), copy=True)
        for adapter in self.low_ranks():
            wide[adapter.rows] += adapter.matrix()
        plain.weight = nn.Parameter(wide.to(self.weight.dtype), requires_grad=False)
        return plain

    def plain(self) -> nn.Linear:
        """The layer that this one stands for, with its very tensors."""
        with torch.device("meta"):
            plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain.weight, plain.bias = self.weight, self.bias
        return plain.train(self.training)


class Adapters:
    """The adapters of a network: in place, merged, or taken out. `adapt` makes them.

    layers: path of a linear layer → its adapted form · by_place: name of a place → its adapter
    whole: name → parameter of a module that is trained as it is
    merged: do plain layers with W + α/r · B A stand there now?
    """

    def __init__(
        self,
        network: nn.Module,
        spec: AdapterSpec,
        layers: dict[str, AdaptedLinear],
        by_place: dict[str, LowRank],
        whole: dict[str, nn.Parameter],
    ) -> None:
        self.network, self.spec, self.layers, self.by_place = network, spec, layers, by_place
        self.whole = whole
        self.merged = False
        self._trained = {id(parameter) for parameter in network.parameters() if parameter.requires_grad}

    def merge(self) -> None:
        """Put plain layers in their place, which give the same numbers at no cost; adapters wait beside the network.

        Raises: ConfigError: they are merged already.
        """
        self._expect(merged=False)
        self._put({path: layer.merged() for path, layer in self.layers.items()})
        self.merged = True

    def unmerge(self) -> None:
        """Put the adapted layers back: W is the same to the bit.

        Raises: ConfigError: they are not merged, or the network is prepared.
        """
        self._expect(merged=True)
        for path, layer in self.layers.items():  # to where the network has gone since
            here = self.network.get_parameter(f"{path}.weight")
            layer.to(here.device, here.dtype)
        self._put(dict(self.layers))
        self.merged = False

    def remove(self) -> None:
        """Put the original layers back, and let train what was trained before."""
        _not_prepared(self.network)
        self._put({path: layer.plain() for path, layer in self.layers.items()})
        self.merged = False
        for parameter in self.network.parameters():
            parameter.requires_grad_(id(parameter) in self._trained)

    def _put(self, layers: dict[str, nn.Linear] | dict[str, AdaptedLinear]) -> None:
        for path, layer in layers.items():
            _replace(self.network, self.network.get_submodule(path), layer.train(self.network.training))

    def _expect(self, *, merged: bool) -> None:
        _not_prepared(self.network)
        if self.merged != merged:
            raise ConfigError(f"the adapters are {'' if self.merged else 'not '}merged")


def adapt(network: nn.Module, spec: AdapterSpec | None = None) -> Adapters:
    """Put adapters on a network, and let nothing else train but the modules that are to be trained whole.

    Raises: ConfigError: a pattern that matches nothing; a network that is prepared, or has adapters already.
    """
    spec = spec or AdapterSpec()
    _not_prepared(network)
    not_adapted(network)
    known, modules = places(network), dict(network.named_modules())
    chosen = [name for name in known if any(fits(pattern, name) for pattern in spec.places)]
    for patterns, names, what in ((spec.places, known, "place"), (spec.whole, modules, "module")):
        for pattern in patterns:
            if not any(fits(pattern, name) for name in names):
                raise ConfigError(f"no {what} matches {pattern!r}{nearest(pattern, names)}")
    layers: dict[str, AdaptedLinear] = {}
    by_place: dict[str, LowRank] = {}
    for name in chosen:
        place = known[name]
        base = network.get_submodule(place.layer)
        assert isinstance(base, nn.Linear)  # `places` names no others
        by_place[name] = LowRank(base, place.rows, spec.rank, spec.alpha / spec.rank, spec.dropout)
        layer = layers.setdefault(place.layer, AdaptedLinear(base))
        layer.adapters[name.rpartition(".")[2]] = by_place[name]
    inside = tuple(f"{path}." for path in modules if any(fits(pattern, path) for pattern in spec.whole))
    whole = {name: p for name, p in network.named_parameters() if name.startswith(inside)}
    adapters = Adapters(network, spec, layers, by_place, whole)
    adapters._put(layers)
    network.requires_grad_(False)
    for parameter in (
        *whole.values(),
        *(p for layer in layers.values() for p in layer.adapters.parameters()),
    ):
        parameter.requires_grad_(True)
    return adapters


def _replace(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Wherever it stands: a layer that stands in two places stays one layer."""
    for parent in list(network.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                setattr(parent, name, new)


def not_adapted(network: nn.Module) -> None:
    """Refuse a network whose layers are not all its own.

    Raises: ConfigError: it has adapters.
    """
    if any(isinstance(module, AdaptedLinear) for module in network.modules()):
        raise ConfigError(
            "the model has adapters; merge() or remove() them first (save_adapters writes them alone)"
        )


def _not_prepared(network: nn.Module) -> None:
    if precision := prepared_precision(network):
        raise ConfigError(
            f"the network is prepared for inference in {precision}; unprepare() it before adapters come or go"
        )
