"""Fitting a checkpoint into a network, and taking it out again.

plan     every parameter of ours gets its rule; every tensor of theirs is consumed, tied, ignored or surplus
check    names and shapes, before anything is allocated
fill     tensor by tensor, memory-mapped where nothing has to change
gather   the same rules inverted: our parameters under their names
"""

from __future__ import annotations

from collections.abc import Callable, Container

import torch
from torch import Tensor, nn

from glassformer.errors import WeightsError, nearest
from glassformer.weights.header import TensorInfo
from glassformer.weights.names import Fused, Names, Part, Rule, Tied, TiedUnlessStored
from glassformer.weights.read import Checkpoint
from glassformer.weights.report import LoadReport, clear
from glassformer.weights.spelling import Spelled

__all__ = ["LoadReport", "as_spelled", "fill", "first_ten", "gather", "holding_nan"]

MOST_NEW_BYTES = (
    1 << 30
)  # of parameters that no file holds: their size is nothing but a number in config.json
OLD_LEAVES = {"weight": "gamma", "bias": "beta"}  # how norms spelled them before 2019


def fill(
    network: nn.Module,
    checkpoint: Checkpoint,
    names: Names,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    strict: bool = False,
    may_be_new: Callable[[str], bool] = lambda name: False,
    starts_anew: Callable[[str], bool] = lambda name: False,
    initialise: Callable[[nn.Module], None] = lambda module: None,
) -> LoadReport:
    """Give every parameter of a network (on any device, also meta) its tensor from a checkpoint.

    Args:
        dtype: None = the checkpoint's own (its most frequent floating dtype).
        strict: a tensor of the file that nothing uses is an error.
        may_be_new: parameters that may be missing, or of another shape, and are then initialised by
            `initialise(module)`.
        starts_anew: parameters that are initialised whatever the checkpoint holds.
    Raises: WeightsError: missing, misshapen or (strict) surplus tensors; the first ten of each, with the nearest names.
    """
    report, spelled = LoadReport(), Spelled(checkpoint, names)
    owners = _owners(network)
    prefixed = names.are_prefixed(spelled.tensors)
    accounted: set[str] = set()
    plan: dict[str, tuple[Rule, list[str]]] = {}
    shared: dict[str, str] = {}
    zeros: list[str] = []
    missing: list[tuple[str, str]] = []
    misshapen: list[str] = []
    integers: list[str] = []

    for ours, (parameter, aliases) in owners.items():
        if starts_anew(ours):
            report.new.append(ours)
            continue
        rule, theirs = _found(aliases, names, prefixed, spelled.tensors)
        absent = [name for name in theirs if name not in spelled.tensors]
        accounted.update(theirs)
        shapes = list(zip(theirs, rule.shapes(tuple(parameter.shape)), strict=True))
        if not absent and may_be_new(ours):  # a head for other labels than the file's
            absent = [name for name, shape in shapes if tuple(spelled.tensors[name].shape) != shape]
        if absent:
            if len(absent) < len(theirs):
                missing += [(name, ours) for name in absent]
            elif isinstance(rule, TiedUnlessStored):
                shared[ours] = f"{rule.ours}.{ours.rpartition('.')[2]}"
            elif ours in names.zeros:
                zeros.append(ours)
            elif may_be_new(ours):
                report.new.append(ours)
            else:
                missing += [(name, ours) for name in absent]
            continue
        for name, shape in shapes:
            if tuple(spelled.tensors[name].shape) != shape:
                misshapen.append(
                    f"{name} is {list(spelled.tensors[name].shape)}, the config asks for {list(shape)}"
                )
        for name in theirs:
            if not spelled.tensors[name].dtype.is_floating_point:
                integers.append(f"{name} is {str(spelled.tensors[name].dtype).removeprefix('torch.')}")
        plan[ours] = (rule, theirs)

    for name, _ in network.named_parameters(remove_duplicate=False):  # other names of tied parameters
        if name not in owners:
            rule, theirs = names.find(name, prefixed=prefixed)
            accounted.update(theirs if isinstance(rule, Tied) else [])
    report.unused = [name for name in spelled.tensors if name not in accounted and not names.is_ignored(name)]
    report.shapes = {name: tuple(spelled.tensors[name].shape) for name in report.unused}
    report.shapes |= {ours: tuple(owners[ours][0].shape) for ours in report.new}

    problems = [
        f"{len(values)} {kind}: {first_ten(values)}"
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
    fresh = sum(owners[ours][0].numel() for ours in (*report.new, *zeros)) * dtype.itemsize
    if fresh > MOST_NEW_BYTES:
        raise WeightsError(
            f"the new head needs {fresh / 1e9:.1f} GB for {first_ten([*report.new, *zeros])}, at most "
            f"{MOST_NEW_BYTES / 1e9:.1f} GB are allocated; check num_labels and id2label in config.json"
        )
    place = torch.device(device)
    for ours, (rule, theirs) in plan.items():
        if place.type == "meta":  # shapes are all that is wanted
            _assign(network, owners[ours][1], torch.empty(owners[ours][0].shape, dtype=dtype, device=place))
            report.loaded.append(ours)
            continue
        passing = place.type != "cpu" or any(
            _is_copied(rule, spelled.tensors[name], dtype) for name in theirs
        )
        tensor = rule.read([spelled.read(name, passing=passing) for name in theirs])
        if tensor.is_floating_point():
            tensor = tensor.to(device=device, dtype=dtype)
        _assign(network, owners[ours][1], tensor.to(device))
        report.loaded.append(ours)
    for ours in (*report.new, *zeros):
        parameter, aliases = owners[ours]
        _assign(network, aliases, torch.zeros(parameter.shape, dtype=dtype, device=device))
    for ours, other in shared.items():
        stem, _, leaf = ours.rpartition(".")
        setattr(network.get_submodule(stem), leaf, network.get_parameter(other))
    for stem in dict.fromkeys(ours.rpartition(".")[0] for ours in report.new):
        initialise(network.get_submodule(stem))
    return report


def _is_copied(rule: Rule, stored: TensorInfo, dtype: torch.dtype) -> bool:
    """Does ours get memory of its own, so that the file's pages need not stay?"""
    return isinstance(rule, Fused) or stored.dtype != dtype


def holding_nan(network: nn.Module) -> list[str]:
    """The parameters that hold NaN. Looked for where answers do: it reads every page of files that are only mapped."""
    return [name for name, x in network.named_parameters() if x.numel() and bool(x.max().isnan())]


def gather(network: nn.Module, names: Names, *, prefixed: bool) -> dict[str, Tensor]:
    """Our parameters under their names and in their layout: what `fill` reads, `gather` gives back."""
    pieces: dict[str, dict[int, Tensor]] = {}
    for ours, (parameter, _) in _owners(network).items():
        rule, theirs = names.find(ours, prefixed=prefixed and names.prefixed)
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


def _found(
    aliases: list[str], names: Names, prefixed: bool, stored: Container[str]
) -> tuple[Rule, list[str]]:
    """The rule of a parameter, and their names for it: of a tied one the first that the file has."""
    found = [names.find(ours, prefixed=prefixed) for ours in aliases]
    rules = [(rule, [as_spelled(name, stored) for name in theirs]) for rule, theirs in found]
    return next((entry for entry in rules if all(name in stored for name in entry[1])), rules[0])


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


def first_ten(values: list[str]) -> str:
    """Names for a message, the rest of them counted."""
    more = f", and {len(values) - 10} more" if len(values) > 10 else ""
    return ", ".join(map(clear, values[:10])) + more
