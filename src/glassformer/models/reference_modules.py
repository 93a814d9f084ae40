"""Module paths of Hugging Face transformers on a network of ours: `model.bert.encoder.layer[0]`, `model.classifier`.

    model.classifier                                   our module, where theirs is one of ours
    model.bert.embeddings.word_embeddings.weight       our parameter
    model.bert.encoder.layer[0].attention.self.query   a ReferenceModule: its weight is rows of our fused parameter
    model.bert                                         a ReferenceModule with the parameters below it

The family's table of weight names is read backwards, so that each family has its paths without a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from glassformer.errors import UnsupportedError
from glassformer.weights.names import Rule, Same, Tied, TiedUnlessStored, WeightNames

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


def reference_module(network: nn.Module, entries: Mapping[str, Entry], path: str) -> Any:
    """What stands at a path of the reference library's model: a module, a tensor, or None."""
    if path in entries:
        ours, rule, number = entries[path]
        parameter = network.get_parameter(ours)
        return parameter if type(rule) in AS_IT_IS else rule.write(parameter)[number]
    below = {name: entry for name, entry in entries.items() if name.startswith(f"{path}.")}
    if not below:
        return None
    stems = {ours.rpartition(".")[0] for ours, _, _ in below.values()}
    alike = all(
        type(rule) in AS_IT_IS and name == f"{path}.{ours.rpartition('.')[2]}"
        for name, (ours, rule, _) in below.items()
    )
    if alike and len(stems) == 1:
        return network.get_submodule(stems.pop())
    return ReferenceModule(network, below, path)


class ReferenceModule:
    """A part of the reference library's model, by its path: its modules, tensors and parameters; it is not called.

    Args: network: ours · entries: of the tensors below the path · path: "" = all of them
    """

    def __init__(self, network: nn.Module, entries: Mapping[str, Entry], path: str) -> None:
        self._network, self._entries, self._path = network, entries, path

    def __getattr__(self, name: str) -> Any:
        at = None
        if not name.startswith("_"):
            at = reference_module(self._network, self._entries, f"{self._path}.{name}" if self._path else name)
        if at is None:
            raise AttributeError(f"{self._path} has no {name!r}; it has: {', '.join(self._children())}")
        return at

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

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Each of our parameters that holds tensors of this part, by its own name."""
        for ours in dict.fromkeys(ours for ours, _, _ in self._entries.values()):
            yield ours, self._network.get_parameter(ours)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Our parameters that hold its tensors, such as to freeze them: those of fused modules whole."""
        return (parameter for _, parameter in self.named_parameters())

    def requires_grad_(self, requires_grad: bool = True) -> ReferenceModule:
        """Freeze or unfreeze this part."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Its tensors, by the reference library's names below the path."""
        start = len(self._path) + 1 if self._path else 0
        return {name[start:]: reference_module(self._network, self._entries, name).detach() for name in self._entries}

    def __call__(self, *args: Any, **options: Any) -> None:
        """Refused: parts do not compute by themselves. Raises: UnsupportedError: always."""
        raise UnsupportedError(
            f"{self._path or 'the body'} is a view of its parameters; call the model: model(…, "
            "output_hidden_states=True), load(…, task='feature-extraction') for the body alone, or "
            "model(…, tape=Tape('blocks.*.out')) for any activation"
        )

    def __repr__(self) -> str:
        return f"ReferenceModule({self._path!r}: {', '.join(self._children())})"
