"""Load a checkpoint into a network, and export the network's weights again.

    load_weights     1. match   every parameter gets its rule and the names of its tensors in the checkpoint
                     2. check   missing, misshapen and surplus tensors, before anything is allocated
                     3. read    tensor by tensor, memory-mapped where nothing has to change
    export_weights   the same rules inverted: parameters → tensors under the checkpoint's names

In this module `ours` is the name of a parameter, `theirs` are the names of its tensors in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from glassformer.core.quantised import QUANTISED, StoredLevels
from glassformer.errors import WeightsError, nearest
from glassformer.weights.header import TensorInfo
from glassformer.weights.name_table import check_computed, table_mistakes
from glassformer.weights.names import (
    Fused,
    FusedNoKeyBias,
    RenamedCheckpoint,
    Rule,
    Slice,
    Tied,
    TiedUnlessStored,
    WeightNames,
)
from glassformer.weights.quantised import LevelReader, export_quantised, replace_layer
from glassformer.weights.quantised_layout import QuantisedFiles
from glassformer.weights.read import WeightFiles
from glassformer.weights.report import LoadReport, printable


def carried_tensors(checkpoint: WeightFiles, names: WeightNames) -> dict[str, Tensor]:
    """The tensors that are no parameters of the network, and that other readers of its files expect, mapped.

    They go from the file that was loaded to the one that is saved: the pooler of a tagger, which no head of ours reads,
    or a table of sinusoidal positions, which the network computes.
    Returns: name without the family's prefix → tensor.
    """
    tensors = RenamedCheckpoint(checkpoint, names)
    bare = {name: names.without_prefix(name) for name in tensors.tensors}
    return {own: tensors.read(name) for name, own in bare.items() if names.is_carried(own)}


__all__ = [
    "LoadReport",
    "export_weights",
    "load_weights",
    "name_list",
    "nan_parameters",
    "stored_spelling",
]

# Limit on parameters that are in no file: their size is just a number in an untrusted config.json.
MAX_NEW_BYTES = 1 << 30
MESSAGE_CHARACTERS = 1_500  # of all names in a message, which stays below 2,000 with what is around them
LEGACY_NORM_NAMES = {"weight": "gamma", "bias": "beta"}
"""How checkpoints named the parameters of norms before 2019."""

Parameters = dict[str, tuple[nn.Parameter, list[str]]]


class Rounding(Protocol):
    """What puts weights into the network as levels, as they are read."""

    def takes(self, names: Iterable[str]) -> bool:
        """Whether a parameter becomes levels, by its names in the network."""

    def put(self, network: nn.Module, names: Iterable[str], weight: Tensor) -> None:
        """Replace the layers that have this weight under these names."""


@dataclass(slots=True)
class _LoadPlan:
    """Where the value of every parameter comes from, and the mismatches found on the way.

    stored: parameter → its rule, and the names of its tensors in the checkpoint
    shared: parameter → the parameter whose tensor it shares
    new: to be initialised
    zeros: 0, since the checkpoint leaves them out
    missing: (tensor, parameter)
    misshapen, integers: messages
    used: names that some rule reads
    """

    stored: dict[str, tuple[Rule, list[str]]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    zeros: list[str] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    misshapen: list[str] = field(default_factory=list)
    integers: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


def load_weights(
    network: nn.Module,
    checkpoint: WeightFiles,
    names: WeightNames,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    strict: bool = False,
    may_be_new: Callable[[str], bool] = lambda name: False,
    reinitialised: Callable[[str], bool] = lambda name: False,
    initialise: Callable[[nn.Module], None] = lambda module: None,
    quantised: QuantisedFiles | None = None,
    rounding: Rounding | None = None,
) -> LoadReport:
    """Load every parameter of a network (on any device, also meta) from a checkpoint.

    Args:
        dtype: None = the checkpoint's own (its most frequent floating dtype).
        strict: a tensor of the file that nothing uses is an error.
        may_be_new: parameters that may be missing, or of another shape; `initialise(module)` makes them then.
        reinitialised: parameters that are initialised whatever the checkpoint holds.
        quantised: how the checkpoint stores levels in the place of weights; None = it has none
        rounding: what rounds weights to levels as they are read; None = they stay in floating point
    Raises: WeightsError: missing, misshapen or (strict) surplus tensors; the first ten of each, with the nearest names.
    """
    tensors = RenamedCheckpoint(checkpoint, names)
    in_levels: list[str] = []
    if quantised is not None:
        dtype, device = dtype or _stored_dtype(checkpoint), torch.device(device)
        known = distinct_parameters(network)
        levels = LevelReader(checkpoint, tensors, names, quantised, dtype, device)
        in_levels = levels.into(network, known, may_be_new=may_be_new, reinitialised=reinitialised)
    untied = _untie_stored(network, tensors, names)
    parameters = distinct_parameters(network)
    plan = _match(network, parameters, tensors.tensors, names, may_be_new, reinitialised)
    report = LoadReport(loaded=in_levels, new=plan.new, warnings=untied)
    report.unused = [name for name in tensors.tensors if name not in plan.used and not names.is_ignored(name)]
    report.shapes = {name: tuple(tensors.tensors[name].shape) for name in report.unused}
    report.shapes |= {ours: tuple(parameters[ours][0].shape) for ours in report.new}
    _raise_mismatches(plan, report.unused if strict else [], checkpoint.tensors)
    check_computed(network, names, tensors.tensors, tensors.read)
    dtype, device = dtype or _stored_dtype(checkpoint), torch.device(device)
    _check_new_size(plan, parameters, dtype)
    for ours, (rule, theirs) in plan.stored.items():
        parameter, aliases = parameters[ours]
        read = _read_parameter if device.type != "meta" else _shape_alone
        if rounding is not None and rounding.takes(aliases):
            # In the dtype of the file: rounding widens some rows at a time.
            kind = tensors.tensors[theirs[0]].dtype
            rounding.put(network, aliases, read(tensors, rule, theirs, parameter.shape, kind, device, transient=True))
        else:
            _assign(network, aliases, read(tensors, rule, theirs, parameter.shape, dtype, device))
        report.loaded.append(ours)
    for ours in (*plan.new, *plan.zeros):
        parameter, aliases = parameters[ours]
        _assign(network, aliases, torch.zeros(parameter.shape, dtype=dtype, device=device))
    _share(network, plan.shared)  # last: it takes the very parameter object that was assigned to the other name
    for stem in dict.fromkeys(ours.rpartition(".")[0] for ours in plan.new):
        initialise(network.get_submodule(stem))
    return report


def _share(network: nn.Module, shared: Mapping[str, str]) -> None:
    """Let parameters be those of other names, or layers share the levels of others."""
    for ours, other in shared.items():
        stem, _, leaf = ours.rpartition(".")
        owner = network.get_submodule(other.rpartition(".")[0])
        if leaf == "weight" and isinstance(owner, QUANTISED):
            replace_layer(network, stem, owner.stored)
        else:
            setattr(network.get_submodule(stem), leaf, network.get_parameter(other))


def _untie_stored(network: nn.Module, tensors: RenamedCheckpoint, names: WeightNames) -> list[str]:
    """Untie the parameters for which the file holds different tensors; returns a warning for each.

    As in the reference library: the file counts, whatever the config says. Old files hold the same tensor twice.
    """
    prefixed, warnings = names.has_prefix(tensors.tensors), []
    for parameter, aliases in distinct_parameters(network).values():
        stored: list[str] = []
        for ours in aliases if len(aliases) > 1 else ():
            rule, (name, *more) = names.find(ours, prefixed=prefixed)
            info = tensors.tensors.get(name)
            if more or info is None or [tuple(info.shape)] != rule.shapes(tuple(parameter.shape)):
                continue
            if stored and name not in stored and not _equal(tensors, stored[0], name):
                untie(network, ours)
                warnings.append(
                    f"{printable(name)} and {printable(stored[0])} are different tensors, which the config ties; both "
                    "are kept: set tie_word_embeddings to false in config.json"
                )
            stored.append(name)
    return warnings


def _equal(tensors: RenamedCheckpoint, one: str, other: str) -> bool:
    a, b = (tensors.read(name, transient=True) for name in (one, other))
    return torch.equal(a, b.to(a.dtype))


def untie(network: nn.Module, name: str) -> None:
    """Give a tied parameter a copy of its own under this one of its names."""
    stem, _, leaf = name.rpartition(".")
    parameter = network.get_parameter(name)
    copy = nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
    setattr(network.get_submodule(stem), leaf, copy)


def _shape_alone(*arguments: object, transient: bool = False) -> torch.Tensor:
    """A tensor without numbers, on the device "meta", of the shape and dtype of a parameter."""
    *_, shape, dtype, device = arguments
    return torch.empty(shape, dtype=dtype, device=device)  # type: ignore[call-overload, no-any-return]


def _match(
    network: nn.Module,
    parameters: Parameters,
    tensors: dict[str, TensorInfo],
    names: WeightNames,
    may_be_new: Callable[[str], bool],
    reinitialised: Callable[[str], bool],
) -> _LoadPlan:
    """Give every parameter its rule and tensors, and collect all mismatches instead of stopping at the first."""
    plan = _LoadPlan()
    prefixed = names.has_prefix(tensors)
    every = _check_table(network, names, tensors, prefixed)
    for ours, (parameter, aliases) in parameters.items():
        if reinitialised(ours):
            plan.new.append(ours)
            continue
        rule, theirs = _matching_rule(aliases, names, prefixed, tensors)
        plan.used.update(theirs)
        shapes = dict(zip(theirs, rule.shapes(tuple(parameter.shape)), strict=True))
        wrong = [name for name in theirs if name in tensors and tuple(tensors[name].shape) != shapes[name]]
        absent = [name for name in theirs if name not in tensors]
        if not absent and may_be_new(ours):  # a head for other labels than the file's
            absent = wrong
        if not absent:
            plan.misshapen += [
                f"{name} is {list(tensors[name].shape)}, the config asks for {list(shapes[name])}" for name in wrong
            ]
            plan.integers += [
                f"{name} is {str(tensors[name].dtype).removeprefix('torch.')}"
                for name in theirs
                if not tensors[name].dtype.is_floating_point
            ]
            plan.stored[ours] = (rule, theirs)
        elif len(absent) < len(theirs):  # half of a fused tensor is an error, whatever may be new
            plan.missing += [(name, ours) for name in absent]
        elif isinstance(rule, TiedUnlessStored):
            plan.shared[ours] = f"{rule.ours}.{ours.rpartition('.')[2]}"
        elif ours in names.zero_if_missing:
            plan.zeros.append(ours)
        elif may_be_new(ours):
            plan.new.append(ours)
        else:
            plan.missing += [(name, ours) for name in absent]
    for name in every:  # other names of tied parameters, whose tensors are equal
        if name not in parameters:
            rule, theirs = names.find(name, prefixed=prefixed)
            fitting = rule.shapes(tuple(network.get_parameter(name).shape))
            equal = [x for x, shape in zip(theirs, fitting, strict=True) if x in tensors and tensors[x].shape == shape]
            plan.used.update(equal if isinstance(rule, Tied) else [])
    return plan


def _check_table(network: nn.Module, names: WeightNames, tensors: Iterable[str], prefixed: bool) -> list[str]:
    """All names of parameters, after a look at the recipe's table. Raises: WeightsError: it lacks a line."""
    every = [name for name, _ in network.named_parameters(remove_duplicate=False)]
    if mistakes := table_mistakes(names, every, tensors, prefixed=prefixed):
        raise WeightsError(mistakes)
    return every


def _matching_rule(
    aliases: list[str], names: WeightNames, prefixed: bool, stored: Container[str]
) -> tuple[Rule, list[str]]:
    """The rule of a parameter and the names of its tensors; of a tied parameter the first rule that the file fits."""
    rules = []
    for ours in aliases:
        rule, theirs = names.find(ours, prefixed=prefixed)
        rules.append((rule, [stored_spelling(name, stored) for name in theirs]))
    return next((entry for entry in rules if all(name in stored for name in entry[1])), rules[0])


def _raise_mismatches(plan: _LoadPlan, surplus: list[str], stored: Iterable[str]) -> None:
    """Raises: WeightsError: with every mismatch of the plan, the first of each kind by name."""
    missing = [
        # The nearest names are looked up for those that are shown alone, since it takes time.
        f"{name} (for {ours}{nearest(name, stored, 1) if i < 10 else ''})"
        for i, (name, ours) in enumerate(plan.missing)
    ]
    kinds = {
        "missing": missing, "misshapen": plan.misshapen, "not floating-point": plan.integers, "surplus": surplus
    }  # fmt: skip
    if any(kinds.values()):
        raise WeightsError(f"the checkpoint does not fit its config.json: {listed_kinds(kinds)}")


def _check_new_size(plan: _LoadPlan, parameters: Parameters, dtype: torch.dtype) -> None:
    """Refuse to allocate a head of absurd size.

    Raises: WeightsError: it needs more than `MAX_NEW_BYTES`.
    """
    new = [*plan.new, *plan.zeros]
    size = sum(parameters[ours][0].numel() for ours in new) * dtype.itemsize
    if size > MAX_NEW_BYTES:
        raise WeightsError(
            f"the new head needs {size / 1e9:.1f} GB for {name_list(new)}, at most "
            f"{MAX_NEW_BYTES / 1e9:.1f} GB are allocated; check num_labels and id2label in config.json"
        )


def _read_fused(
    tensors: RenamedCheckpoint,
    rule: Fused,
    theirs: list[str],
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Read what is several tensors in the file and one parameter here, such as q, k and v: mapped, or else copied."""
    has_gap = isinstance(rule, FusedNoKeyBias)
    if device.type == "cpu" and not has_gap:
        mapped = tensors.read_together(theirs, dtype)
        if mapped is not None:
            return mapped.view(shape)
    # Zeros only where some rows are in no file: filling memory takes as long as reading it.
    fused = (torch.zeros if has_gap else torch.empty)(shape, dtype=dtype)
    for name, rows in zip(theirs, rule.write(fused), strict=True):
        tensors.read_into(name, rows)
    return fused.to(device)


def _read_parameter(
    tensors: RenamedCheckpoint,
    rule: Rule,
    theirs: list[str],
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    *,
    transient: bool = False,
) -> Tensor:
    """Read the tensors of one parameter and put them together, in this dtype and on this device.

    Args:
        transient: it is dropped soon
    """
    if isinstance(rule, Fused):
        return _read_fused(tensors, rule, theirs, shape, dtype, device)
    # What is copied anyway is read through a mapping of its own, so that the pages of the file can be let go.
    copied = transient or device.type != "cpu" or any(tensors.tensors[name].dtype != dtype for name in theirs)
    tensor = rule.read([tensors.read(name, transient=copied) for name in theirs])
    return tensor.to(device=device, dtype=dtype) if tensor.is_floating_point() else tensor.to(device)


def export_weights(
    network: nn.Module, names: WeightNames, *, prefixed: bool, carried: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The inverse of `load_weights`: every parameter as tensors under the checkpoint's names and in its layout.

    Args:
        prefixed: names begin with the family's prefix, as those of models with a head do.
        carried: what is saved in addition to the parameters, by its name without a prefix: see `carried_tensors`.
    """
    parameters = {ours: parameter for ours, (parameter, _) in distinct_parameters(network).items()}
    prefixed = prefixed and names.prefixed
    prefix = f"{names.prefix}." if prefixed and names.prefix else ""
    extra = {f"{prefix}{name}": x.to(next(network.parameters()).dtype) for name, x in (carried or {}).items()}
    has_levels = any(isinstance(module, StoredLevels) for module in network.modules())
    levels = export_quantised(network, names, export_parameters, prefixed=prefixed) if has_levels else {}
    return {**extra, **export_parameters(parameters, names, prefixed=prefixed), **levels}


def export_parameters(parameters: Mapping[str, Tensor], names: WeightNames, *, prefixed: bool) -> dict[str, Tensor]:
    """The tensors of a checkpoint that these parameters make; all slices of a fused tensor have to be among them."""
    slices: dict[str, dict[int, Tensor]] = {}
    for ours, parameter in parameters.items():
        rule, theirs = names.find(ours, prefixed=prefixed)
        number = rule.number if isinstance(rule, Slice) else 0
        for name, tensor in zip(theirs, rule.write(parameter.detach()), strict=True):
            slices.setdefault(name, {})[number] = tensor
    return {
        name: torch.cat([parts[number] for number in sorted(parts)]) if len(parts) > 1 else parts[0]
        for name, parts in slices.items()
    }


def distinct_parameters(network: nn.Module) -> Parameters:
    """Each distinct parameter under its first name, with all its names: tied parameters have several."""
    by_identity: dict[int, tuple[nn.Parameter, list[str]]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        by_identity.setdefault(id(parameter), (parameter, []))[1].append(name)
    return {aliases[0]: (parameter, aliases) for parameter, aliases in by_identity.values()}


def _assign(network: nn.Module, aliases: list[str], tensor: Tensor) -> None:
    """Make a tensor the parameter under all these names."""
    parameter = nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
    for alias in aliases:
        stem, _, leaf = alias.rpartition(".")
        setattr(network.get_submodule(stem), leaf, parameter)


def _stored_dtype(checkpoint: WeightFiles) -> torch.dtype:
    """The most frequent floating dtype of a checkpoint.

    Raises: WeightsError: it is an 8-bit one, which no kernel computes in.
    """
    floating = [info.dtype for info in checkpoint.tensors.values() if info.dtype.is_floating_point]
    # Sorted, so that the same of several equally frequent ones is taken each time.
    dtype = max(sorted(set(floating), key=str), key=floating.count) if floating else torch.float32
    if dtype.itemsize == 1:
        raise WeightsError(
            f"the checkpoint is stored as {str(dtype).removeprefix('torch.')}, which nothing computes in; "
            "load it with dtype='bfloat16' or 'float32'"
        )
    return dtype


def stored_spelling(name: str, stored: Container[str]) -> str:
    """A tensor's name, or its legacy spelling (`gamma`, `beta`) where the file has that alone."""
    stem, _, leaf = name.rpartition(".")
    legacy = f"{stem}.{LEGACY_NORM_NAMES[leaf]}" if leaf in LEGACY_NORM_NAMES else name
    return legacy if name not in stored and legacy in stored else name


def nan_parameters(network: nn.Module) -> list[str]:
    """The names of parameters that hold NaN.

    Looked for only where an answer is NaN: it reads every page of files that are memory-mapped.
    """
    held = ((name, x) for name, x in network.named_parameters() if x.numel() and not x.is_meta)
    return [name for name, x in held if bool(x.max().isnan())]


def listed_kinds(kinds: Mapping[str, list[str]]) -> str:
    """The names of each kind of mismatch for a message, counted; kinds without any are left out."""
    problems = {kind: values for kind, values in kinds.items() if values}
    room = MESSAGE_CHARACTERS // max(len(problems), 1)
    return "; ".join(f"{len(values)} {kind}: {name_list(values, room)}" for kind, values in problems.items())


def name_list(values: list[str], characters: int = MESSAGE_CHARACTERS) -> str:
    """The first names for a message, at most ten and as many as fit; the rest of them counted."""
    shown = [printable(value) for value in values[:10]]
    while len(shown) > 1 and sum(map(len, shown)) > characters:
        shown.pop()
    more = f", and {len(values) - len(shown)} more" if len(values) > len(shown) else ""
    return ", ".join(shown) + more
