"""Fitting a checkpoint into a network, and taking it out again.

plan     every parameter of ours gets its rule; every tensor of theirs is consumed, tied, ignored or surplus
check    names and shapes, before anything is allocated
fill     tensor by tensor, memory-mapped where nothing has to change
gather   the same rules inverted: our parameters under their names
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from glassformer.errors import WeightsError, nearest
from glassformer.weights.names import Names, Part, Rule, Tied
from glassformer.weights.read import Checkpoint
from glassformer.weights.spelling import Spelled

MOST_NEW_BYTES = (
    1 << 30
)  # of parameters that no file holds: their size is nothing but a number in config.json
OLD_LEAVES = {"weight": "gamma", "bias": "beta"}  # how norms spelled them before 2019


@dataclass
class LoadReport:
    """What became of every tensor, in the file and in the network.

    loaded: ours, filled from the file · new: ours, initialised, since only the asked-for task has them
    unused: theirs, of no use to this network · warnings: config keys that nobody reads, and the like
    """

    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = [f"loaded   {len(self.loaded):>5} tensors"]
        for name, values, meaning in (
            ("new", self.new, "initialised, not in the checkpoint: train them before use"),
            ("unused", self.unused, "in the checkpoint, not in this model"),
        ):
            if values:
                rows.append(f"{name:<8} {len(values):>5} tensors  {meaning}: {_first_ten(values)}")
        return "\n".join(rows + [f"warning  {warning}" for warning in self.warnings])


def fill(
    network: nn.Module,
    checkpoint: Checkpoint,
    names: Names,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    strict: bool = False,
    may_be_new: Callable[[str], bool] = lambda name: False,
    initialise: Callable[[nn.Module], None] = lambda module: None,
) -> LoadReport:
    """Give every parameter of a network (on any device, also meta) its tensor from a checkpoint.

    Args:
        dtype: None = the checkpoint's own (its most frequent floating dtype).
        strict: a tensor of the file that nothing uses is an error.
        may_be_new: parameters that may be missing, and are then initialised by `initialise(module)`.
    Raises: WeightsError: missing, misshapen or (strict) surplus tensors; the first ten of each, with the nearest names.
    """
    report, spelled = LoadReport(), Spelled(checkpoint, names)
    owners = _owners(network)
    prefixed = names.are_prefixed(spelled.tensors)
    accounted: set[str] = set()
    plan: dict[str, tuple[Rule, list[str]]] = {}
    missing: list[tuple[str, str]] = []
    misshapen: list[str] = []
    integers: list[str] = []

    for ours, (parameter, _) in owners.items():
        rule, theirs = names.find(ours, prefixed=prefixed)
        theirs = [as_spelled(name, spelled.tensors) for name in theirs]
        absent = [name for name in theirs if name not in spelled.tensors]
        if absent:
            if may_be_new(ours) and len(absent) == len(theirs):
                report.new.append(ours)
            else:
                missing += [(name, ours) for name in absent]
            continue
        for name, shape in zip(theirs, rule.shapes(tuple(parameter.shape)), strict=True):
            if tuple(spelled.tensors[name].shape) != shape:
                misshapen.append(
                    f"{name} is {list(spelled.tensors[name].shape)}, the config asks for {list(shape)}"
                )
        for name in theirs:
            if not spelled.tensors[name].dtype.is_floating_point:
                integers.append(f"{name} is {str(spelled.tensors[name].dtype).removeprefix('torch.')}")
        plan[ours] = (rule, theirs)
        accounted.update(theirs)

    for name, _ in network.named_parameters(remove_duplicate=False):  # other names of tied parameters
        if name not in owners:
            rule, theirs = names.find(name, prefixed=prefixed)
            accounted.update(theirs if isinstance(rule, Tied) else [])
    report.unused = [name for name in spelled.tensors if name not in accounted and not names.is_ignored(name)]

    problems = [
        f"{len(values)} {kind}: {_first_ten(values)}"
        for kind, values in (
            ("missing", [_absent(name, ours, checkpoint, i < 10) for i, (name, ours) in enumerate(missing)]),
            ("misshapen", misshapen),
            ("not floating-point", integers),
            ("surplus", report.unused if strict else []),
        )
        if values
    ]
    if problems:
        raise WeightsError("the checkpoint does not fit its config.json: " + "; ".join(problems))

    dtype = dtype or _main_dtype(checkpoint)
    fresh = sum(owners[ours][0].numel() for ours in report.new) * dtype.itemsize
    if fresh > MOST_NEW_BYTES:
        raise WeightsError(
            f"the new head needs {fresh / 1e9:.1f} GB for {_first_ten(report.new)}, at most "
            f"{MOST_NEW_BYTES / 1e9:.1f} GB are allocated; check num_labels and id2label in config.json"
        )
    for ours, (rule, theirs) in plan.items():
        tensor = rule.read([spelled.read(name) for name in theirs])
        if tensor.is_floating_point():
            tensor = tensor.to(device=device, dtype=dtype)
        _assign(network, owners[ours][1], tensor.to(device))
        report.loaded.append(ours)
    for ours in report.new:
        parameter, aliases = owners[ours]
        _assign(network, aliases, torch.zeros(parameter.shape, dtype=dtype, device=device))
    for stem in dict.fromkeys(ours.rpartition(".")[0] for ours in report.new):
        initialise(network.get_submodule(stem))
    return report


def gather(network: nn.Module, names: Names, *, prefixed: bool) -> dict[str, Tensor]:
    """Our parameters under their names and in their layout: what `fill` reads, `gather` gives back."""
    pieces: dict[str, dict[int, Tensor]] = {}
    for ours, (parameter, _) in _owners(network).items():
        rule, theirs = names.find(ours, prefixed=prefixed)
        number = rule.number if isinstance(rule, Part) else 0
        for name, tensor in zip(theirs, rule.write(parameter.detach()), strict=True):
            pieces.setdefault(name, {})[number] = tensor
    return {
        name: torch.cat([parts[number] for number in sorted(parts)]) if len(parts) > 1 else parts[0]
        for name, parts in pieces.items()
    }


def _owners(network: nn.Module) -> dict[str, tuple[nn.Parameter, list[str]]]:
    """Each distinct parameter under its first name, with all its names."""
    by_identity: dict[int, tuple[nn.Parameter, list[str]]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        by_identity.setdefault(id(parameter), (parameter, []))[1].append(name)
    return {aliases[0]: (parameter, aliases) for parameter, aliases in by_identity.values()}


def _assign(network: nn.Module, aliases: list[str], tensor: Tensor) -> None:
    parameter = nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
    for alias in aliases:
        stem, _, leaf = alias.rpartition(".")
        setattr(network.get_submodule(stem), leaf, parameter)


def _absent(theirs: str, ours: str, checkpoint: Checkpoint, hint: bool) -> str:
    """A missing tensor; the nearest names are looked up for those that are shown alone, since it takes time."""
    return f"{theirs} (for {ours}{nearest(theirs, checkpoint.tensors, 1) if hint else ''})"


def as_spelled(name: str, stored: Container[str]) -> str:
    """The name itself, or its spelling in old files where only that is there."""
    stem, _, leaf = name.rpartition(".")
    old = f"{stem}.{OLD_LEAVES[leaf]}" if leaf in OLD_LEAVES else name
    return old if name not in stored and old in stored else name


def _main_dtype(checkpoint: Checkpoint) -> torch.dtype:
    floating = [info.dtype for info in checkpoint.tensors.values() if info.dtype.is_floating_point]
    dtype = max(sorted(set(floating), key=str), key=floating.count) if floating else torch.float32
    if dtype.itemsize == 1:
        raise WeightsError(
            f"the checkpoint is stored as {str(dtype).removeprefix('torch.')}, which nothing computes in; "
            "load it with dtype='bfloat16' or 'float32'"
        )
    return dtype


def _first_ten(values: list[str]) -> str:
    more = f", and {len(values) - 10} more" if len(values) > 10 else ""
    return ", ".join(map(_clear, values[:10])) + more


def _clear(text: str) -> str:
    """Text with names from a file in it, safe to print and not endless."""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= 200 else f"{text[:180]}…"
