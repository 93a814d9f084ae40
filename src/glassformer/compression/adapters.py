"""Low-rank adapters (LoRA): a few trainable weights beside a frozen matrix.

              ┌── W x + b ───────────────────────────────────────┐
        x ────┤                                                  ├─ add ── y        W [out, in] is frozen
              └── dropout ── A [r, in] ── B [out, r] ── · α/r ───┘                  B starts as 0: y does not change

    adapters = adapt(model.network, AdapterSpec(rank=8, modules_to_save=("head",)))      adapters and the head train
    adapters.merge()        plain linear layers with W + α/r · B A, to prepare or save as any model
    adapters.unmerge()      exactly W again, as it was only set aside
    adapters.remove()       the network as it was

q, k and v are one matrix here. Each that is adapted has an A and a B of its own, which act on its rows alone:

    blocks.0.attn.qkv   [H·E + 2·K·E, D]      target modules  blocks.0.attn.q · blocks.0.attn.k · blocks.0.attn.v

Files: `adapter_files.py`.
Source: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", sections 4.1 and 4.2; q and v: table 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.attention import Attention
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.flow import pattern_matches
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.stack import Stack
from glassformer.deprecation import former_keywords
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError, nearest

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterSpec:
    """Hyperparameters of low-rank adapters.

    rank: r, of each adapter · alpha: α; the update is scaled by α/r
    dropout: dropout probability of the adapter input in training
    target_modules: patterns of the linear layers to adapt, as of taps (`q`, `attn.out`, `blocks.[0-3].ffn.up`); see
        the function `target_modules`
    modules_to_save: patterns of modules that are trained in full and saved, such as a new `head`
    rank_pattern, alpha_pattern: pattern → the rank or alpha of the target modules that match it
    Raises: ConfigError: a value out of range.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    target_modules: tuple[str, ...] = ("q", "v")
    modules_to_save: tuple[str, ...] = ()
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)

    FORMER_NAMES: ClassVar[Mapping[str, str]] = {"places": "target_modules", "whole": "modules_to_save"}

    def __post_init__(self) -> None:
        for rank in (self.rank, *self.rank_pattern.values()):
            if rank < 1:
                raise ConfigError(f"rank is {rank}; it must be at least 1")
        for alpha in (self.alpha, *self.alpha_pattern.values()):
            if not 0 < alpha < float("inf"):
                raise ConfigError(f"alpha is {alpha}; it must be a number above 0")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it must be from 0 up to, but not including, 1")

    def of_target(self, name: str) -> tuple[int, float]:
        """Rank and alpha of a target module."""
        rank = next((r for pattern, r in self.rank_pattern.items() if pattern_matches(pattern, name)), self.rank)
        alpha = next((a for pattern, a in self.alpha_pattern.items() if pattern_matches(pattern, name)), self.alpha)
        return rank, alpha


AdapterSpec.__init__ = former_keywords(**AdapterSpec.FORMER_NAMES)(AdapterSpec.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class TargetModule:
    """A linear layer that can be adapted, or one of several matrices that it fuses.

    layer: path of the linear layer · rows: its outputs · number, of: index among the fused matrices, and their count
    """

    layer: str
    rows: slice
    number: int = 0
    of: int = 1


def target_modules(network: nn.Module) -> dict[str, TargetModule]:
    """All modules that can be adapted, by name: linear layers, with q, k and v each apart.

    Not those over a vocabulary, nor those that share their matrix with another layer, which would change too. A layer
    with several paths has the name of the first; so has one of blocks that share their parameters, and all of them
    share its adapter.
    """
    modules: dict[str, TargetModule] = {}
    visited: set[int] = set()
    repeated = _repeated(network)
    owners = Counter(id(p) for m in network.modules() if id(m) not in repeated for p in m.parameters(recurse=False))
    for owner, module in network.named_modules():
        layers = () if isinstance(module, (TokenPrediction, AdaptedLinear, LowRank)) else module.named_children()
        for name, layer in layers:
            if (
                type(layer) not in (nn.Linear, AdaptedLinear)
                or owners[id(layer.weight)] > 1
                or id(layer.weight) in visited
            ):
                continue
            visited.add(id(layer.weight))
            prefix = f"{owner}." if owner else ""
            parts = _fused_parts(module, name) or {name: layer.out_features}
            ends = list(accumulate(parts.values(), initial=0))
            for number, part in enumerate(parts):
                rows = slice(ends[number], ends[number + 1])
                modules[prefix + part] = TargetModule(prefix + name, rows, number, len(parts))
    return modules


def _repeated(network: nn.Module) -> set[int]:
    """The ids of the modules that are only in blocks with the parameters of an earlier block."""
    first: set[int] = set()
    later: set[int] = set()
    for stack in (module for module in network.modules() if isinstance(module, Stack)):
        for i, j in enumerate(stack.spec.shared):
            (first if i == j else later).update(map(id, stack[i].modules()))
    return later - first


def _fused_parts(owner: nn.Module, name: str) -> dict[str, int]:
    """The matrices that a layer fuses, and their numbers of rows."""
    if isinstance(owner, Attention) and name == "qkv":
        spec = owner.spec
        return {"q": spec.heads * spec.E, "k": spec.K * spec.E, "v": spec.K * spec.E}
    if isinstance(owner, CrossAttention) and name == "kv":
        return dict.fromkeys(("k", "v"), owner.spec.K * owner.spec.E)
    return {}


class LowRank(nn.Module):
    """A low-rank update: delta = α/r · B A dropout(x).

    Differs: the paper initialises A from a normal distribution without its width; here the standard deviation is
    1/√in, so that the components of A x are about as large as those of x.
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
    """A linear layer with adapters: y = W x + b, plus their updates on some rows.

    `weight` and `bias` are those of the original layer.
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
            # In place: y is new, and a sum would copy all of q, k and v.
            y[..., adapter.rows].add_(adapter(x))
        return y

    def low_ranks(self) -> Iterator[LowRank]:
        """Its adapters."""
        return (adapter for adapter in self.adapters.values() if isinstance(adapter, LowRank))

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain layer with the updates added to its weight; this layer does not change."""
        plain = self.plain()
        # summed in fp32 and rounded once: in bf16 most of a small update would be lost
        wide = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32), copy=True)
        for adapter in self.low_ranks():
            wide[adapter.rows] += adapter.matrix()
        plain.weight = nn.Parameter(wide.to(self.weight.dtype), requires_grad=False)
        return plain

    def plain(self) -> nn.Linear:
        """The original layer, with the same tensors."""
        with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
            plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain.weight, plain.bias = self.weight, self.bias
        return plain.train(self.training)


class Adapters:
    """The adapters of a network: active, merged, or removed. `adapt` makes them.

    layers: path of a linear layer → its adapted form · by_target: name of a target module → its adapter
    full_parameters: name → parameter of the modules that are trained in full
    merged: whether plain layers with W + α/r · B A are in the network now
    """

    def __init__(
        self,
        network: nn.Module,
        spec: AdapterSpec,
        layers: dict[str, AdaptedLinear],
        by_target: dict[str, LowRank],
        full_parameters: dict[str, nn.Parameter],
    ) -> None:
        self.network, self.spec, self.layers, self.by_target = network, spec, layers, by_target
        self.full_parameters = full_parameters
        self.merged = False
        self._trained = {id(parameter) for parameter in network.parameters() if parameter.requires_grad}

    def merge(self) -> None:
        """Replace adapted layers by plain ones with merged weights, which cost nothing extra; adapters are kept aside.

        Raises: ConfigError: they are merged already.
        """
        self._expect(merged=False)
        self._install({path: layer.merged() for path, layer in self.layers.items()})
        self.merged = True

    def unmerge(self) -> None:
        """Restore the adapted layers: W is bit-identical.

        Raises: ConfigError: they are not merged, or the network is prepared.
        """
        self._expect(merged=True)
        for path, layer in self.layers.items():  # the network may have moved since
            current = self.network.get_parameter(f"{path}.weight")
            layer.to(current.device, current.dtype)
        self._install(dict(self.layers))
        self.merged = False

    def remove(self) -> None:
        """Restore the original layers and the `requires_grad` flags of before."""
        _check_not_prepared(self.network)
        self._install({path: layer.plain() for path, layer in self.layers.items()})
        self.merged = False
        for parameter in self.network.parameters():
            parameter.requires_grad_(id(parameter) in self._trained)

    def _install(self, layers: dict[str, nn.Linear] | dict[str, AdaptedLinear]) -> None:
        for path, layer in layers.items():
            former = self.network.get_submodule(path)
            assert isinstance(former, nn.Linear)
            _replace(self.network, former, layer.train(self.network.training))

    def _expect(self, *, merged: bool) -> None:
        _check_not_prepared(self.network)
        if self.merged != merged:
            raise ConfigError(f"the adapters are {'' if self.merged else 'not '}merged")


def adapt(network: nn.Module, spec: AdapterSpec | None = None) -> Adapters:
    """Add adapters to a network and freeze everything else but `modules_to_save`.

    Raises: ConfigError: a pattern without a match; a network that is prepared, or has adapters already.
    """
    spec = spec or AdapterSpec()
    _check_not_prepared(network)
    check_not_adapted(network)
    known, repeated = target_modules(network), _repeated(network)
    modules = [path for path, module in network.named_modules() if id(module) not in repeated]
    chosen = [name for name in known if any(pattern_matches(pattern, name) for pattern in spec.target_modules)]
    for patterns, names, what in (
        (spec.target_modules, known, "target module"),
        ((*spec.rank_pattern, *spec.alpha_pattern), chosen, "adapted target module"),
        (spec.modules_to_save, modules, "module"),
    ):
        for pattern in patterns:
            if not any(pattern_matches(pattern, name) for name in names):
                raise ConfigError(f"no {what} matches {pattern!r}{nearest(pattern, names)}")
    layers: dict[str, AdaptedLinear] = {}
    by_target: dict[str, LowRank] = {}
    for name in chosen:
        target = known[name]
        base = network.get_submodule(target.layer)
        assert isinstance(base, nn.Linear)  # `target_modules` has no others
        rank, alpha = spec.of_target(name)
        by_target[name] = LowRank(base, target.rows, rank, alpha / rank, spec.dropout)
        layer = layers.setdefault(target.layer, AdaptedLinear(base))
        layer.adapters[name.rpartition(".")[2]] = by_target[name]
    prefixes = tuple(
        f"{path}." for path in modules if any(pattern_matches(pattern, path) for pattern in spec.modules_to_save)
    )
    full_parameters = {name: p for name, p in network.named_parameters() if name.startswith(prefixes)}
    adapters = Adapters(network, spec, layers, by_target, full_parameters)
    adapters._install(layers)
    network.requires_grad_(False)
    for parameter in (
        *full_parameters.values(),
        *(p for layer in layers.values() for p in layer.adapters.parameters()),
    ):
        parameter.requires_grad_(True)
    return adapters


def _replace(network: nn.Module, old: nn.Linear, new: nn.Linear) -> None:
    """Replace a layer under all its paths, and all layers that share its matrix: a shared layer stays shared."""
    for parent in list(network.modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(child, nn.Linear) and child.weight is old.weight:
                setattr(parent, name, new)


def check_not_adapted(network: nn.Module) -> None:
    """Check that a network has no adapters.

    Raises: ConfigError: it has.
    """
    if any(isinstance(module, AdaptedLinear) for module in network.modules()):
        raise ConfigError("the model has adapters; merge() or remove() them first (save_adapters writes them alone)")


def _check_not_prepared(network: nn.Module) -> None:
    if precision := prepared_precision(network):
        raise ConfigError(
            f"the network is prepared for inference in {precision}; unprepare() it before adapters come or go"
        )
