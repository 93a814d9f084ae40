"""Module paths of Hugging Face transformers on a network of ours: `model.bert.encoder.layer[0]`, `model.classifier`.

    model.classifier                                   our module, where theirs is one of ours
    model.bert.embeddings.word_embeddings.weight       our parameter
    model.bert.encoder.layer[0].attention.self.query   a ReferenceModule: its weight is rows of our fused parameter
    model.bert                                         a ReferenceModule with the parameters below it
    model.encoder.block[0], model.encoder.blocks[0]    theirs and ours, where both call a part so: an `Overlay`

The family's table of weight names is read backwards, so that each family has its paths without a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _IncompatibleKeys

from glassformer.errors import UnsupportedError, WeightsError
from glassformer.hf.paths import hooks
from glassformer.hf.paths.calls import PartCalls
from glassformer.weights.load import name_list
from glassformer.weights.names import Fused, Rule, Same, Slice, Tied, TiedUnlessStored, WeightNames

AS_IT_IS = (Same, Tied, TiedUnlessStored)
"""Rules of parameters that files hold as they are."""
Entry = tuple[str, Rule, int]
"""Our parameter, its rule, and the number of a tensor among those that the rule makes of it."""


def reference_entries(network: nn.Module, names: WeightNames, *, prefixed: bool) -> dict[str, Entry]:
    """The tensors of the reference library's model by name → our parameter."""
    entries: dict[str, Entry] = {}
    for ours, _ in network.named_parameters(remove_duplicate=False):
        rule, theirs = names.find(ours, prefixed=prefixed and names.prefixed)
        entries |= {name: (ours, rule, i) for i, name in enumerate(theirs)}
    return entries


def reference_module(network: nn.Module, entries: Mapping[str, Entry], path: str, parts: PartCalls) -> Any:
    """What is at a path of the reference library's model: a module, a tensor, or None.

    Args:
        parts: the model's
    """
    if path in entries:
        ours, rule, number = entries[path]
        parameter = network.get_parameter(ours)
        return parameter if type(rule) in AS_IT_IS else rule.write(parameter)[number]
    below = {name: entry for name, entry in entries.items() if name.startswith(f"{path}.")}
    if not below:
        return None
    stems = {ours.rpartition(".")[0] for ours, _, _ in below.values()}
    same_names = all(
        type(rule) in AS_IT_IS and name == f"{path}.{ours.rpartition('.')[2]}"
        for name, (ours, rule, _) in below.items()
    )
    if same_names and len(stems) == 1:
        return network.get_submodule(stems.pop())
    kind = ReferenceLinear if _is_linear(network, below, path) else ReferenceModule
    return kind(network, below, path, parts)


def _is_linear(network: nn.Module, below: Mapping[str, Entry], path: str) -> bool:
    """Whether a part is rows of a linear layer of ours."""
    weight = below.get(f"{path}.weight")
    alone = {*below} <= {f"{path}.weight", f"{path}.bias"}
    return weight is not None and alone and type(weight[1]) is Fused and _holds_linear(network, weight[0])


def _holds_linear(network: nn.Module, parameter: str) -> bool:
    return isinstance(network.get_submodule(parameter.rpartition(".")[0]), nn.Linear)


HOOKS: Mapping[str, Callable[..., Any]] = {
    "register_forward_hook": hooks.add_forward_hook,
    "register_forward_pre_hook": hooks.add_forward_pre_hook,
    "register_full_backward_hook": hooks.add_full_backward_hook,
}


class ReferenceModule(nn.Module):
    """A part of the reference library's model, by its path: its modules, tensors and parameters.

    Args:
        network: ours
        entries: of the tensors below the path
        path: "" = all of them
        parts: the model's
    """

    def __init__(self, network: nn.Module, entries: Mapping[str, Entry], path: str, parts: PartCalls) -> None:
        nn.Module.__init__(self)  # a linear layer has a weight of its own
        # Besides the attributes of a module, which would take the network for its child.
        self.__dict__.update(_network=network, _entries=entries, _path=path, _parts=parts)

    def __getattribute__(self, name: str) -> Any:
        return partial(self._register, name) if name in HOOKS else super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        at = None
        if not name.startswith("_"):
            path = f"{self._path}.{name}" if self._path else name
            at = reference_module(self._network, self._entries, path, self._parts)
        if name.startswith("("):  # several tensors of one of our modules: (query|key|value)
            path = path.replace(name, name.strip("()").partition("|")[0])
            ours = next((ours for theirs, (ours, *_) in self._entries.items() if theirs.startswith(f"{path}.")), None)
            at = None if ours is None else self._network.get_submodule(ours.rpartition(".")[0])
        if at is None:
            raise AttributeError(f"{self._path} has no {name!r}; it has: {', '.join(self._children())}")
        return at

    def _register(self, name: str, hook: Callable[..., Any], **options: Any) -> hooks.Handles:
        """Raises: UnsupportedError: a part that no modules of ours compute whole."""
        passed = hooks.passed_modules(self._network, self._entries, self._path, self._parts)
        self._parts.unprepare()
        handles: hooks.Handles | None = None
        if passed is not None:
            handles = HOOKS[name](self, passed, hook, **options)
        if handles is None:
            raise UnsupportedError(
                f"{name} of {self._path!r}, which no module of ours computes whole: any tensor can be read or replaced "
                'by model(…, tape=glassformer.Tape("blocks.*.out")); model.taps() names them, and model.network holds '
                "the modules"
            )
        return handles

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep some layers of a list. Raises: UnsupportedError: another module, which no call would reach."""
        if isinstance(value, nn.ModuleList | list) and self._keep(name, list(value)):
            return
        if not name.startswith("_") and isinstance(value, nn.Module | nn.Parameter | list):
            raise UnsupportedError(
                f"{self._path}.{name} = … would change nothing that the model computes: fewer layers are "
                "from_pretrained(…, num_hidden_layers=…), other embeddings model.set_input_embeddings(…), low-rank "
                "adapters model.add_adapter(…), another part is model.network.… = …"
            )
        super().__setattr__(name, value)

    def __delitem__(self, index: int | slice) -> None:
        """Remove layers of a list. Raises: UnsupportedError: these are no layers of a stack."""
        left = list(range(len(self)))
        del left[index]
        if not left or not self._parts.keep_layers({ours for ours, *_ in self._entries.values()}, left):
            raise UnsupportedError(
                f"del {self._path}[…] is not there; fewer layers are from_pretrained(…, num_hidden_layers=…)"
            )

    def _keep(self, name: str, layers: list[Any]) -> bool:
        """Keep these layers of a list of the model's; False: it is none, or they are others."""
        path = f"{self._path}.{name}" if self._path else name
        numbers = [x._path.removeprefix(f"{path}.") if isinstance(x, ReferenceModule) else "" for x in layers]
        if not numbers or not all(number.isdigit() for number in numbers):
            return False
        names = {ours for theirs, (ours, *_) in self._entries.items() if theirs.startswith(f"{path}.")}
        return bool(self._parts.keep_layers(names, [int(number) for number in numbers]))

    def _children(self) -> list[str]:
        start = len(self._path) + 1 if self._path else 0
        return list(dict.fromkeys(name[start:].partition(".")[0] for name in self._entries))

    def __getitem__(self, index: int | slice) -> Any:
        """A layer of a list, or several."""
        layers = [name for name in self._children() if name.isdigit()]
        return (
            [getattr(self, name) for name in layers[index]]
            if isinstance(index, slice)
            else getattr(self, layers[index])
        )

    def __len__(self) -> int:
        return sum(name.isdigit() for name in self._children())

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    @property
    def in_features(self) -> int:
        """Width of the inputs of a linear layer."""
        return int(self.weight.shape[1])

    @property
    def out_features(self) -> int:
        """Width of the outputs of a linear layer."""
        return int(self.weight.shape[0])

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The parts in it, by their names."""
        below = ((name, getattr(self, name)) for name in self._children())
        return ((name, part) for name, part in below if isinstance(part, nn.Module))

    def children(self) -> Iterator[Any]:
        return (part for _, part in self.named_children())

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Each of our parameters that holds tensors of this part, by its own name."""
        for ours in dict.fromkeys(ours for ours, _, _ in self._entries.values()):
            yield ours, self._network.get_parameter(ours)

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Our parameters that hold its tensors, such as to freeze them: those of fused modules whole."""
        return (parameter for _, parameter in self.named_parameters())

    def named_modules(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Module]]:
        """Our modules whose parameters are all this part's, and what is inside them, by their own names."""
        tensors, outer = self._parts.tensors(), None
        for name, module in self._network.named_modules():
            inside = outer is not None and name.startswith(f"{outer}.")
            names = [f"{name}.{each}" for each, _ in module.named_parameters(remove_duplicate=False)]
            if inside or (name and names and all(t in self._entries for ours in names for t in tensors[ours])):
                outer = outer if inside else name
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[nn.Module]:
        """Our modules in it, such as to initialise them again."""
        return (module for _, module in self.named_modules())

    def apply(self, fn: Callable[[nn.Module], Any]) -> ReferenceModule:
        """Call a function with each of our modules in it."""
        for module in self.modules():
            fn(module)
        return self

    def to(self, *args: Any, **options: Any) -> ReferenceModule:
        """Its parameters in another place or precision, those of fused modules whole."""
        for parameter in self.parameters():
            parameter.data = parameter.data.to(*args, **options)
        return self

    def train(self, mode: bool = True) -> ReferenceModule:
        """Training mode of this part, whose dropout is on; `train()` of the model sets all of it again."""
        return self.apply(lambda module: module.train(mode))

    def eval(self) -> ReferenceModule:
        """Evaluation mode of this part, whose dropout is off."""
        return self.train(False)

    @property
    def training(self) -> bool:
        """Whether this part is in training mode."""
        return next((module.training for module in self.modules()), self._network.training)

    @training.setter
    def training(self, mode: bool) -> None:
        if "_network" in self.__dict__:  # not there yet while the part is made
            self.train(mode)

    def requires_grad_(self, requires_grad: bool = True) -> ReferenceModule:
        """Freeze or unfreeze this part."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def state_dict(self, *_: Any, **__: Any) -> dict[str, Tensor]:  # type: ignore[override] # of its own alone
        """Its tensors, by the reference library's names below the path."""
        start = len(self._path) + 1 if self._path else 0
        at = {name: reference_module(self._network, self._entries, name, self._parts) for name in self._entries}
        return {name[start:]: tensor.detach() for name, tensor in at.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy tensors by the reference library's names below the path into the parameters.

        Returns: missing_keys, unexpected_keys.
        Raises: WeightsError: with `strict`, a tensor missing or surplus.
        """
        start = f"{self._path}." if self._path else ""
        given = {start + name: x for name, x in state_dict.items()}
        missing, surplus = [x for x in self._entries if x not in given], [x for x in given if x not in self._entries]
        if strict and (missing or surplus):
            listed = f"missing: {name_list(missing)}; surplus: {name_list(surplus)}"
            raise WeightsError(f"the state dict does not fit {self._path!r}: {listed}; strict=False takes what fits")
        for name in self._entries.keys() & given.keys():
            self._copy(name, given[name])
        return _IncompatibleKeys(missing, surplus)

    @torch.no_grad()
    def _copy(self, name: str, tensor: Tensor) -> None:
        """Raises: WeightsError: another shape. UnsupportedError: a tensor that several of our parameters hold."""
        ours, rule, number = self._entries[name]
        if isinstance(rule, Slice):
            raise UnsupportedError(f"{name} is several parameters here; load the state dict of the whole model")
        parameter = self._network.get_parameter(ours)
        rows = list(rule.write(parameter))
        if rows[number].shape != tensor.shape:
            raise WeightsError(f"{name} is {list(tensor.shape)}; it must be {list(rows[number].shape)}")
        rows[number] = tensor.to(parameter)
        parameter.copy_(rule.read(rows))

    def forward(self, *args: Any, **inputs: Any) -> Any:
        return self(*args, **inputs)

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """The output of a part that is called by itself. Raises: UnsupportedError: it is a view."""
        return self._parts(self._path, {ours for ours, _, _ in self._entries.values()}, *args, **inputs)

    def __repr__(self) -> str:
        return f"ReferenceModule({self._path!r}: {', '.join(self._children())})"


class ReferenceLinear(ReferenceModule, nn.Linear):  # type: ignore[override] # its widths are those of the rows
    """A linear layer there, whose weight is rows of one of ours."""


class Overlay(nn.Module):
    """One of our modules whose name the reference library has too: with the children of both, called as theirs.

    It shares our module's attributes, so that parameters, hooks and paths of the one are those of the other.
    """

    __slots__ = ("_theirs",)

    def __init__(self, ours: nn.Module, theirs: ReferenceModule) -> None:
        object.__setattr__(self, "__dict__", ours.__dict__)
        object.__setattr__(self, "_theirs", theirs)

    def __getattribute__(self, name: str) -> Any:
        return getattr(self._theirs, name) if name in HOOKS else super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        return self._modules[name] if name in self._modules else getattr(self._theirs, name)

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        return self._theirs(*args, **inputs)


def module_tree(network: nn.Module, entries: Mapping[str, Entry], parts: PartCalls) -> Iterator[tuple[str, nn.Module]]:
    """The modules of the reference library's model by their paths, in its order; then ours that hold no tensor."""
    paths = (path for name in entries for path in _parents(name))
    seen: set[int] = set()
    for path in dict.fromkeys(paths):
        part = reference_module(network, entries, path, parts)
        if isinstance(part, nn.Module):
            seen.add(id(part))
            yield path, part
    fused = {id(network.get_submodule(ours.rpartition(".")[0])) for ours, rule, _ in entries.values()
             if isinstance(rule, Fused)}  # fmt: skip
    for path, module in network.named_modules():
        leaf = not any(True for _ in module.children()) and not isinstance(module, nn.Identity)
        if leaf and path and id(module) not in seen | fused:
            yield path.removeprefix("head."), module


def _parents(name: str) -> list[str]:
    """`a.b.weight` → `a`, `a.b`"""
    steps = name.split(".")
    return [".".join(steps[:i]) for i in range(1, len(steps))]
