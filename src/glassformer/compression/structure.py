"""Structured pruning: whole heads, neurons and layers go, and the tensors shrink, so that a model becomes faster.

    importance    UnitImportance     heads and neurons: what the loss would change without each, to first order
                  LayerChange        layers: how far each turns the residual stream
    choice        least_important    the lowest over all layers, of which none loses everything
    removal       remove_heads       fewer rows of W_q, W_k, W_v and columns of W_out     config: pruned_heads
                  keep_neurons       fewer rows of W_up and columns of W_down             config: intermediate_size
                  keep_layers        fewer blocks                                         config: num_hidden_layers

    with UnitImportance(network) as importance:
        loss(network).backward()
    smaller = remove_heads(Parts.of(model), least_important(importance.heads, count=36))

What remains computes what the network computes with the removed parts at zero. A removal gives new parts, and leaves
the network and the config that it was given as they are; they share the tensors that do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from glassformer.compression.adapters import check_not_adapted
from glassformer.core.blocks import Block, ParallelBlock
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.flow import Flow
from glassformer.core.masks import Packing
from glassformer.core.quantised import check_not_quantised
from glassformer.core.stack import Stack
from glassformer.engine.prepare import unprepare
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import counted, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models import Family, Network
from glassformer.models.pruned_heads import KEY, pruned_heads
from glassformer.models.resize import config_key, layer_key, rebuilt

AnyBlock = Block | ParallelBlock
LEAVES = ("weight", "bias")


@dataclass(frozen=True)
class Parts:
    """A network, what it was made from, and what a removal makes of both."""

    network: Network
    family: Family
    config: Mapping[str, Any]
    task: str
    spec: Any

    @classmethod
    def of(cls, model: LoadedModel) -> Self:
        """Those of a model. Raises: ConfigError: it has adapters, or is quantised."""
        check_not_adapted(model.network)
        check_not_quantised(model.network, "pruned")
        unprepare(model.network)
        return cls(model.network, model.family, dict(model.config), model.task, model.spec)

    def put_into(self, model: LoadedModel) -> None:
        """Make the model consist of these."""
        model.network, model.spec = self.network, self.spec
        model.config.clear()
        model.config.update(self.config)

    def with_config(
        self, changes: Mapping[str, Any], cut: Mapping[str, Callable[[Tensor], Tensor]], layers: Sequence[int]
    ) -> Self:
        """The parts of another config: these blocks, and of some parameters a part."""
        stack = only_stack(self.network)

        def source(path: str) -> str:
            inside = path.removeprefix(f"{stack.path}.")
            number, dot, rest = inside.partition(".")
            return (
                path if inside == path or not number.isdecimal() else f"{stack.path}.{layers[int(number)]}{dot}{rest}"
            )

        def fit(name: str, parameter: nn.Parameter, shape: torch.Size) -> nn.Parameter:
            if name not in cut:
                return parameter
            with torch.no_grad():
                return nn.Parameter(cut[name](parameter).clone(), requires_grad=parameter.requires_grad)

        config = {**self.config, **changes}
        network, spec = rebuilt(self.network, self.family, config, self.task, fit, source)
        return replace(self, network=network, spec=spec, config=config)


def only_stack(network: Network) -> Stack:
    """The blocks of a network with one stack. Raises: UnsupportedError: it has none, or several."""
    stacks = network.stacks()
    if len(stacks) != 1:
        raise UnsupportedError(
            f"structured pruning is of networks with one stack of blocks; this one has {len(stacks) or 'none'}"
            f"{': ' if stacks else ''}{', '.join(stacks)}"
        )
    return next(iter(stacks.values()))


# ------------------------------------------------------------------------------------------------ importance


class Recorder:
    """Base class of what reads a network while it runs within a `with`: hooks, and how its texts share rows."""

    def __init__(self, network: Network) -> None:
        self.stack = only_stack(network)
        self.flow = Flow()
        self.examples = 0
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        self._hooks.callback(self.stack.register_forward_pre_hook(self._note_flow).remove)
        for layer, block in enumerate(self.stack):
            self.watch(layer, block)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.close()

    def _note_flow(self, stack: nn.Module, arguments: tuple[Any, ...]) -> None:
        self.flow = next(x for x in arguments if isinstance(x, Flow))
        packing = self.flow.packing
        self.examples += len(arguments[0]) if packing is None else len(packing.lengths)

    def watch(self, layer: int, block: AnyBlock) -> None:
        """Put hooks on a block."""
        raise NotImplementedError(f"{type(self).__name__} does not implement watch(layer, block)")

    def hook(self, handle: Any) -> None:
        """Remove this hook at the end."""
        self._hooks.callback(handle.remove)


class UnitImportance(Recorder):
    """Importance of heads and neurons: |∂L/∂ξ| of a mask ξ = 1 on each, the mean over texts; after backward passes.

        ∂L/∂ξ = Σ over a text's tokens of z · ∂L/∂z          z: what the unit gives to its output projection

    Without a unit the loss changes by about that much. Within a layer the values are divided by their norm.
    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 4.1; neurons: Molchanov et al.
    2017, "Pruning Convolutional Neural Networks for Resource Efficient Inference", section 2.2.
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._sums: dict[tuple[int, str], Tensor] = {}

    @property
    def heads(self) -> list[Tensor]:
        """Of each layer: [K], a value for the heads that share keys, which are one head where none do."""
        return [self._value(layer, "heads") for layer in range(len(self.stack))]

    @property
    def neurons(self) -> list[Tensor]:
        """Of each layer. [F]"""
        return [self._value(layer, "neurons") for layer in range(len(self.stack))]

    def _value(self, layer: int, units: str) -> Tensor:
        if (layer, units) not in self._sums:
            raise ConfigError("importance needs rows with labels: no loss was differentiated through the blocks")
        mean = self._sums[layer, units] / self.examples
        norm: Tensor = mean.norm().clamp(min=torch.finfo(mean.dtype).tiny)
        return mean / norm

    def watch(self, layer: int, block: AnyBlock) -> None:
        keys = block.attn.spec.K
        self.hook(block.attn.out.register_forward_pre_hook(partial(self._listen, layer, "heads", keys)))
        ffn = block.ffn
        if isinstance(ffn, FeedForward | GatedFeedForward):
            units = ffn.down.in_features
            self.hook(ffn.down.register_forward_pre_hook(partial(self._listen, layer, "neurons", units)))

    def _listen(self, layer: int, units: str, count: int, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        z, packing = arguments[0], self.flow.packing
        if z.requires_grad:
            z.register_hook(partial(self._add, (layer, units), count, packing, z.detach()))

    def _add(self, key: tuple[int, str], count: int, packing: Packing | None, z: Tensor, gradient: Tensor) -> None:
        by_token = (z * gradient).unflatten(-1, (count, -1)).sum(-1, dtype=torch.float32)  # [B, T, count]
        texts = by_token if packing is None else by_token[0].split(list(packing.lengths))
        added = sum(text.sum(0).abs() for text in texts)
        assert isinstance(added, Tensor)  # a batch has a text
        self._sums[key] = self._sums[key] + added if key in self._sums else added


class LayerChange(Recorder):
    """How far each layer turns the residual stream: 1 − cos(before, after), the mean over tokens; no labels are needed.

    Source: Men et al. 2024, "ShortGPT: Layers in Large Language Models are More Redundant Than You Expect", section 2.
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._sums = torch.zeros(len(self.stack), dtype=torch.float64)
        self._tokens = torch.zeros(len(self.stack), dtype=torch.float64)

    @property
    def values(self) -> list[float]:
        """A value for each layer. Raises: ConfigError: nothing has run."""
        if not self._tokens.all():
            raise ConfigError("no text has gone through the network; the choice of layers needs calibration rows")
        return [float(x) for x in self._sums / self._tokens]

    def watch(self, layer: int, block: AnyBlock) -> None:
        self.hook(block.register_forward_hook(partial(self._compare, layer)))

    def _compare(self, layer: int, block: nn.Module, arguments: tuple[Any, ...], after: Tensor) -> None:
        change = 1 - torch.cosine_similarity(arguments[0].detach().float(), after.detach().float(), dim=-1)  # [B, T]
        keep = self.flow.keep
        if keep is not None:
            change = change[keep.any(dim=1).expand_as(change)]
        self._sums[layer] += change.sum(dtype=torch.float64)
        self._tokens[layer] += change.numel()


def least_important(importance: Sequence[Tensor], count: int, *, leave: int = 1) -> dict[int, list[int]]:
    """The `count` least important units of all layers, by layer; of each layer at least `leave` stay.

    Raises: ConfigError: more than there are to choose from.
    """
    spare = sum(max(0, len(values) - leave) for values in importance)
    if not 0 <= count <= spare:
        total = sum(map(len, importance))
        raise ConfigError(
            f"{count} of {counted(total, 'unit')} are to go; at most {spare} can, as {leave} must stay in each of "
            f"{counted(len(importance), 'layer')}"
        )
    order = sorted((float(x), layer, i) for layer, values in enumerate(importance) for i, x in enumerate(values))
    chosen: dict[int, list[int]] = {}
    left = count
    for _, layer, unit in order:
        if left and len(chosen.get(layer, ())) < len(importance[layer]) - leave:
            chosen.setdefault(layer, []).append(unit)
            left -= 1
    return {layer: sorted(units) for layer, units in sorted(chosen.items())}


# ------------------------------------------------------------------------------------------------ removal


def remove_heads(parts: Parts, units: Mapping[int, Sequence[int]]) -> Parts:
    """The parts without some heads, by layer; where heads share keys, a unit is all that share them.

    The config names them as `pruned_heads`, by the numbers that they had when no head was gone.

    Raises: ConfigError: a layer or head that there is not, or all heads of a layer. UnsupportedError: a family whose
        layers must have equal numbers of heads.
    """
    stack = only_stack(parts.network)
    gone = pruned_heads(parts.config)
    cut: dict[str, Callable[[Tensor], Tensor]] = {}
    for layer, numbers in units.items():
        spec = _block(stack, layer).attn.spec
        share, E = spec.heads // spec.K, spec.E
        heads = sorted({unit * share + i for unit in numbers for i in range(share)})
        before = gone.get(layer, [])
        original = [head for head in range(spec.heads + len(before)) if head not in before]
        if wrong := [unit for unit in numbers if not 0 <= unit < spec.K]:
            raise ConfigError(
                f"head {safe_repr(wrong[0])} of layer {layer} is to go, which has heads 0 to {spec.K - 1}"
            )
        gone[layer] = sorted([*before, *(original[head] for head in heads)])
        q = _rows_of((head for head in range(spec.heads) if head not in heads), E)
        kv = _rows_of((unit for unit in range(spec.K) if unit not in numbers), E)
        rows = torch.cat([q, kv + spec.heads * E, kv + (spec.heads + spec.K) * E])
        at = f"{stack.path}.{layer}.attn"
        cut |= {f"{at}.qkv.{leaf}": partial(_select, rows, 0) for leaf in LEAVES}
        cut[f"{at}.out.weight"] = partial(_select, q, 1)
    listed = {str(layer): heads for layer, heads in sorted(gone.items()) if heads}
    return parts.with_config({KEY: listed} if listed else {}, cut, range(len(stack)))


def keep_neurons(parts: Parts, neurons: Sequence[Sequence[int]]) -> Parts:
    """The parts with some neurons of each layer, as many in each: a config has one number of them.

    Raises: ConfigError: other numbers in other layers, none, or one that there is not. UnsupportedError: experts.
    """
    stack = only_stack(parts.network)
    counts = {len(set(numbers)) for numbers in neurons}
    if len(neurons) != len(stack) or len(counts) != 1 or 0 in counts:
        raise ConfigError(
            f"the same number of neurons, at least one, must stay in each of {len(stack)} layers; got "
            f"{safe_repr([len(numbers) for numbers in neurons])}"
        )
    cut: dict[str, Callable[[Tensor], Tensor]] = {}
    for layer, numbers in enumerate(neurons):
        ffn = _block(stack, layer).ffn
        if not isinstance(ffn, FeedForward | GatedFeedForward):
            raise UnsupportedError(f"the neurons of {type(ffn).__name__}, in layer {layer}, cannot be pruned")
        rows = torch.tensor(sorted(set(numbers)))
        if not 0 <= int(rows[0]) <= int(rows[-1]) < ffn.down.in_features:
            raise ConfigError(f"layer {layer} has neurons 0 to {ffn.down.in_features - 1}; got {safe_repr(numbers)}")
        at = f"{stack.path}.{layer}.ffn"
        cut |= {f"{at}.{name}.{leaf}": partial(_select, rows, 0) for name in ("up", "gate") for leaf in LEAVES}
        cut[f"{at}.down.weight"] = partial(_select, rows, 1)
    key = config_key(parts.family, parts.config, "hidden")
    return parts.with_config({key: counts.pop()}, cut, range(len(stack)))


def keep_layers(parts: Parts, layers: Sequence[int]) -> Parts:
    """The parts with some of the layers, in their order.

    Raises: ConfigError: none, a layer that there is not, or twice the same. UnsupportedError: a config that cannot say
        it, as where every third layer attends in another way.
    """
    stack = only_stack(parts.network)
    for layer in layers:
        _block(stack, layer)
    if not layers or list(layers) != sorted(set(layers)):
        raise ConfigError(
            f"the layers that stay are {safe_repr(list(layers))}; give at least one, ascending, each once"
        )
    changes: dict[str, Any] = {layer_key(parts.family, parts.config, stack.path): len(layers)}
    if gone := pruned_heads(parts.config):
        changes[KEY] = {str(new): gone[old] for new, old in enumerate(layers) if old in gone}
    if isinstance(kinds := parts.config.get("layer_types"), list):
        changes["layer_types"] = [kinds[layer] for layer in layers]
    fewer = parts.with_config(changes, {}, layers)
    for new, old in enumerate(layers):
        if only_stack(fewer.network).spec.blocks[new] != stack.spec.blocks[old]:
            raise UnsupportedError(
                f"layer {old} of this {parts.family.model_type!r} model would be layer {new}, whose kind its config "
                "derives from the number: it would compute something else; choose layers of the same period"
            )
    return fewer


def _block(stack: Stack, layer: int) -> AnyBlock:
    """A block by its number. Raises: ConfigError: there is none."""
    if not isinstance(layer, int) or not 0 <= layer < len(stack):
        raise ConfigError(f"layer {safe_repr(layer)} is not there; the model has layers 0 to {len(stack) - 1}")
    return stack[layer]


def _rows_of(heads: Any, width: int) -> Tensor:
    """The rows of heads that are this wide."""
    numbers = torch.tensor(list(heads), dtype=torch.long)
    return (numbers[:, None] * width + torch.arange(width)).flatten()


def _select(rows: Tensor, dimension: int, x: Tensor) -> Tensor:
    return x.index_select(dimension, rows.to(x.device))
