"""What a network is made of and what it costs: a tree of parts with shapes, parameters, bytes, FLOPs and taps.

Nothing is run and no number of a weight is read, so a network on the meta device (sizes without weights) will do.

    bert ─ embed ─ tokens [30522, 384] …
         ├ blocks ─ 0-5 ×6 ─ attn ─ qkv [1152, 384], [1152] …
         └ head
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.experts import Experts
from glassformer.core.flow import Node
from glassformer.core.heads import Classifier, NextSentence, Pooler
from glassformer.core.masks import Pattern
from glassformer.core.positions import ConvolvedPositions
from glassformer.core.waves import WaveEncoder
from glassformer.errors import ConfigError

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, ConvolvedPositions)
ONCE_A_TEXT = (Pooler, NextSentence, Classifier)
"""Heads that read one token of a text, so that they run once however long it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """A parameter of a part: `leaf` is its last name ("weight"); `tied_to` another name of the same numbers."""

    leaf: str
    shape: tuple[int, ...]
    dtype: str
    parameters: int  # 0 where it is tied to one that is counted already
    bytes: int
    tied_to: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A module with all that is below it. Equal neighbours are folded into one Part with `repeats` above 1.

    name: "attn"; where folded, all its names: "0-5" · kind: the class
    parameters, bytes, flops: of *one* of the repeats, with everything below it; flops of a text of `Summary.tokens`
    own_flops: what the part computes itself, beside its parts; `formula` says how, for one token
    note: what the shapes do not say: "12 heads × 32", "32 heads × 128, 8 k/v" (key/value heads), "2 of 8 experts"
    mask: what attention leaves out: "causal", "window 128", or nothing
    """

    name: str
    repeats: int = 1
    kind: str
    note: str
    mask: str
    weights: tuple[Weight, ...]
    taps: tuple[str, ...]
    parts: tuple[Part, ...]
    own_flops: int
    formula: str

    @property
    def parameters(self) -> int:
        return sum(w.parameters for w in self.weights) + sum(p.parameters * p.repeats for p in self.parts)

    @property
    def bytes(self) -> int:
        return sum(w.bytes for w in self.weights) + sum(p.bytes * p.repeats for p in self.parts)

    @property
    def flops(self) -> int:
        return self.own_flops + sum(p.flops * p.repeats for p in self.parts)

    def walk(self, path: str = "") -> Iterator[tuple[str, Part]]:
        """This part and all below it, each with its full path ("" for the network itself)."""
        yield path, self
        for part in self.parts:
            yield from part.walk(f"{path}.{part.name}" if path else part.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRow:
    """One parameter: `name` is ours, `theirs` are its names in the checkpoint (several where ours is made of them)."""

    name: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Summary:
    """What `summary` found.

    root: the tree, repeats folded · tokens: the length that the FLOPs are counted for
    active: parameters that run for a token, fewer than all where there are experts
    tensors: every parameter, one line each · taps: every tap · uncounted: parts whose FLOPs are not known
    """

    root: Part
    tokens: int
    active: int
    tensors: tuple[TensorRow, ...]
    taps: tuple[str, ...]
    uncounted: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """How many numbers the network has learned; tied ones count once."""
        return self.root.parameters

    @property
    def bytes(self) -> int:
        return self.root.bytes

    @property
    def flops(self) -> int:
        """Of one pass forward over one text of `tokens` tokens."""
        return self.root.flops

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.dtype for row in self.tensors))

    def folded_taps(self) -> list[tuple[str, tuple[str, ...]]]:
        """(path, taps) of each part that has any, with repeats folded: ("blocks.0-5.attn", ("q", "k", …))."""
        return [(path, part.taps) for path, part in self.root.walk() if part.taps]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        return {
            "parameters": self.parameters,
            "active": self.active,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "flops": self.flops,
            "flops_per_token": self.flops / self.tokens,
            "uncounted": list(self.uncounted),
            "tree": _to_dict(self.root, ""),
            "tensors": [asdict(row) for row in self.tensors],
            "taps": list(self.taps),
        }

    def __repr__(self) -> str:
        return (
            f"Summary({self.root.kind}, {self.parameters:,} parameters, {self.bytes:,} bytes, "
            f"{self.flops / self.tokens:,.0f} FLOPs a token in a text of {self.tokens})"
        )


def summary(network: Node, *, tokens: int = 128, theirs: Callable[[str], list[str]] | None = None) -> Summary:
    """What a network is made of, and what one pass forward over a text costs.

        a linear layer [out, in]     2 · in · out                      a token
        a convolution                2 · in · out · kernel             a step, of which a sound has several a token
        attention                    4 · heads · head width            a pair of a query and a key it may see
        one of X experts             k / X of its layers' FLOPs        a token, since k experts run for each token
        everything else              0                                 look-ups, norms, softmax, activations, sums

    An FLOP is one multiplication or one addition, so a multiply-add is 2. In a text of T tokens there are T · T pairs
    without a mask, T · (T + 1) / 2 if causal. Heads that read one token of a text count once a text; cross-attention
    sees a memory of T tokens too.

    Args:
        network: any tree of Nodes, on any device, meta included.
        tokens: T, the length of the text.
        theirs: our parameter's name → its names in the checkpoint.
    Raises: ConfigError: `tokens` is below 1.
    Source: the count of Kaplan et al. 2020, section 2.1 (2 a parameter and token), with attention and without look-ups.
    """
    if tokens < 1:
        raise ConfigError(f"tokens is {tokens}; a text has at least 1")
    names: dict[int, str] = {}  # id of a parameter → the name that it is counted under
    tensors: list[TensorRow] = []
    for name, parameter in network.named_parameters():
        names[id(parameter)] = name
        found = () if theirs is None else tuple(theirs(name))
        tensors.append(
            TensorRow(name=name, theirs=found, shape=tuple(parameter.shape), dtype=_dtype(parameter))
        )
    return Summary(
        root=_part(type(network).__name__, "", network, names, tokens, Fraction(tokens)),
        tokens=tokens,
        active=active_parameters(network),
        tensors=tuple(tensors),
        taps=tuple(network.taps()),
        uncounted=tuple(path for path, module in network.named_modules() if _is_unknown(module)),
    )


def active_parameters(network: nn.Module) -> int:
    """The parameters that run for a token: all but those of the experts that it is not sent to."""
    idle = sum(
        sum(parameter.numel() for parameter in module.experts.parameters()) * (1 - share(module, "experts"))
        for module in network.modules()
        if isinstance(module, Experts)
    )
    return round(sum(parameter.numel() for parameter in network.parameters()) - idle)


def _part(
    name: str, path: str, module: nn.Module, names: dict[int, str], tokens: int, rows: Fraction
) -> Part:
    """The part of one module; `rows` is how many vectors of a text go through it, on average over experts."""
    rows = Fraction(1) if isinstance(module, ONCE_A_TEXT) else rows
    weights = []
    for leaf, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
        counted_as = names[id(parameter)]
        tied = counted_as != (f"{path}.{leaf}" if path else leaf)
        weights.append(
            Weight(
                leaf=leaf,
                shape=tuple(parameter.shape),
                dtype=_dtype(parameter),
                parameters=0 if tied else parameter.numel(),
                bytes=0 if tied else parameter.numel() * parameter.element_size(),
                tied_to=counted_as if tied else None,
            )
        )
    parts = [
        _part(inner, f"{path}.{inner}" if path else inner, child, names, tokens, rows * share(module, inner))
        for inner, child in module.named_children()
    ]
    own_flops, formula = _own_flops(module, rows, tokens)
    return Part(
        name=name,
        kind=type(module).__name__,
        note=_note(module),
        mask=_mask(module),
        weights=tuple(weights),
        taps=module.own_taps() if isinstance(module, Node) else (),
        parts=_folded([part for part in parts if part.weights or part.taps or part.parts]),
        own_flops=own_flops,
        formula=formula,
    )


def share(module: nn.Module, inner: str) -> Fraction:
    """How much of what goes through a module goes through one inside it.

    Through an expert, its share of the tokens; through a convolution over time, as many steps as a frame is made of.
    """
    if isinstance(module, Experts) and inner == "experts":
        return Fraction(module.spec.chosen, module.spec.experts)
    if isinstance(module, WaveEncoder) and inner.isdigit():
        return Fraction(math.prod(layer.stride for layer in module.spec.layers[int(inner) + 1 :]))
    children = dict(module.named_children())
    if isinstance(children[inner], nn.Conv1d):
        after = list(children.values())[list(children).index(inner) + 1 :]
        return Fraction(math.prod(child.stride[0] for child in after if isinstance(child, nn.Conv1d)))
    return Fraction(1)


def _own_flops(module: nn.Module, rows: Fraction, tokens: int) -> tuple[int, str]:
    """What a module computes itself in a text, and the count for one token in words."""
    if isinstance(module, nn.Linear):
        return (
            round(2 * module.in_features * module.out_features * rows),
            f"2 · {module.in_features} · {module.out_features}",
        )
    if isinstance(module, CONVOLUTIONS):
        weight = module.direction if isinstance(module, ConvolvedPositions) else module.weight
        return round(2 * weight.numel() * rows), " · ".join(map(str, (2, *weight.shape)))
    if isinstance(module, (Attention, CrossAttention)):
        width, pairs = module.spec.heads * module.spec.E, _pairs(module.pattern, tokens)
        return 4 * width * pairs, f"4 · {width} · {pairs / tokens:g} keys"
    return 0, ""


@lru_cache(maxsize=64)
def _pairs(pattern: Pattern, tokens: int) -> int:
    """How many (query, key) pairs of a text a pattern lets through; every layer asks for the same."""
    return pattern.pairs(tokens)


def _note(module: nn.Module) -> str:
    if isinstance(module, Experts):
        return f"{module.spec.chosen} of {module.spec.experts} experts"
    if not isinstance(module, (Attention, CrossAttention)):
        return ""
    spec = module.spec
    shared = "" if spec.heads == spec.K else f", {spec.K} k/v"
    return f"{spec.heads} heads × {spec.E}{shared}"


def _mask(module: nn.Module) -> str:
    if not isinstance(module, (Attention, CrossAttention)):
        return ""
    return str(module.pattern)


def _is_unknown(module: nn.Module) -> bool:
    """Does it multiply by a matrix in a way that is not counted here?"""
    matrices = any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))
    return matrices and not isinstance(module, (nn.Linear, nn.Embedding, *CONVOLUTIONS))


def _folded(parts: list[Part]) -> tuple[Part, ...]:
    """Numbered parts that are equal in everything but their number, as one, at the place of the first."""
    numbers: dict[Part, list[str]] = {}  # in the order of the first of each
    for part in parts:
        alike = replace(part, name="") if part.name.isdigit() else part
        numbers.setdefault(alike, []).append(part.name)
    return tuple(
        part if part.name else replace(part, name=_ranges(names), repeats=len(names))
        for part, names in numbers.items()
    )


def _ranges(names: list[str]) -> str:
    """["0", "1", "2", "5"] → "0-2,5"."""
    runs: list[list[int]] = []
    for number in map(int, names):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _to_dict(part: Part, path: str) -> dict[str, Any]:
    return {
        "path": path,
        "kind": part.kind,
        "repeats": part.repeats,
        "note": part.note,
        "mask": part.mask,
        "parameters": part.parameters,
        "bytes": part.bytes,
        "flops": part.flops,
        "own_flops": part.own_flops,
        "formula": part.formula,
        "weights": [asdict(weight) for weight in part.weights],
        "taps": list(part.taps),
        "parts": [_to_dict(child, f"{path}.{child.name}" if path else child.name) for child in part.parts],
    }


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
