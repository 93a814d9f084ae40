"""Model summary: a tree of modules with shapes, parameters, bytes, FLOPs and taps.

Nothing is run and no weight is read, so a network on the meta device will do.

    bert ─ embed ─ tokens [30522, 384] …
         ├ blocks ─ 0-5 ×6 ─ attn ─ qkv [1152, 384], [1152] …
         └ head
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from glassformer.core.attention import Attention
from glassformer.core.classification_heads import SequenceClassifier
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.experts import Experts
from glassformer.core.flow import Node
from glassformer.core.heads import Pooler
from glassformer.core.language_heads import NextSentenceHead
from glassformer.core.masks import AttentionPattern
from glassformer.core.quantised import StoredLevels, count_weights
from glassformer.errors import ConfigError
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, byte_amount, flops_amount

ONCE_A_TEXT = (Pooler, NextSentenceHead, SequenceClassifier)
"""Heads that read one token of a text, so that their FLOPs do not depend on its length."""


@runtime_checkable
class Convolution(Protocol):
    kernel: Tensor  # a module of a family, with a kernel of its own making. [out, in / groups, *sizes]


CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, Convolution)


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """A parameter of a module: `leaf` is the end of its name ("weight"), `tied_to` the parameter that it is tied to."""

    leaf: str
    shape: tuple[int, ...]
    dtype: str
    parameters: int  # 0 where it is tied to one that is counted already
    bytes: int
    tied_to: str | None = None


NODE_KEYS = (
    "name", "kind", "repeats", "note", "mask", "parameters", "bytes", "flops", "own_flops", "formula", "weights",
    "taps", "children",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleNode(Record, keys=NODE_KEYS):
    """A module with its submodules. Equal siblings are folded into one node with `repeats` above 1.

    name: "attn"; of folded modules all names: "0-5"
    kind: the class
    parameters, bytes, flops: of *one* of the repeats, with submodules; FLOPs of a text of `ModelSummary.tokens`
    own_flops: FLOPs of the module itself, without submodules; `formula`: for one token
    note: what shapes do not show: "12 heads × 32", "32 heads × 128, 8 k/v" (key/value heads), "2 of 8 experts"
    mask: attention mask: "causal", "window 128", or nothing
    """

    name: str
    repeats: int = 1
    kind: str
    note: str
    mask: str
    weights: tuple[Weight, ...]
    taps: tuple[str, ...]
    children: tuple[ModuleNode, ...]
    own_flops: int
    formula: str

    @property
    def parameters(self) -> int:
        return sum(w.parameters for w in self.weights) + sum(p.parameters * p.repeats for p in self.children)

    @property
    def bytes(self) -> int:
        return sum(w.bytes for w in self.weights) + sum(p.bytes * p.repeats for p in self.children)

    @property
    def flops(self) -> int:
        return self.own_flops + sum(p.flops * p.repeats for p in self.children)

    def walk(self, path: str = "") -> Iterator[tuple[str, ModuleNode]]:
        """This node and all below it, each with its full path ("" for the network itself)."""
        yield path, self
        for child in self.children:
            yield from child.walk(f"{path}.{child.name}" if path else child.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRow:
    """A parameter: `name` is ours, `theirs` are its names in the checkpoint (several where fused into ours)."""

    name: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


SUMMARY_KEYS = (
    "parameters", "active", "bytes", "tokens", "flops", "flops_per_token", "uncounted", "root", "tensors", "taps",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ModelSummary(Report, kind="model-summary", keys=SUMMARY_KEYS):
    """Result of `summary`.

    root: the tree of modules, repeats folded
    tokens: length of the text that FLOPs are counted for
    active: parameters that run for a token, fewer than all in a mixture of experts
    tensors: every parameter
    taps: every tap
    uncounted: modules whose FLOPs are not known
    """

    root: ModuleNode
    tokens: int
    active: int
    tensors: tuple[TensorRow, ...]
    taps: tuple[str, ...]
    uncounted: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """Number of parameters; tied ones count once."""
        return self.root.parameters

    @property
    def bytes(self) -> int:
        return self.root.bytes

    @property
    def flops(self) -> int:
        """FLOPs of one forward pass over one text of `tokens` tokens."""
        return self.root.flops

    @property
    def flops_per_token(self) -> float:
        """Their mean over the tokens of the text."""
        return self.flops / self.tokens

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.dtype for row in self.tensors))

    def folded_taps(self) -> list[tuple[str, tuple[str, ...]]]:
        """(path, taps) of each module with taps, repeats folded: ("blocks.0-5.attn", ("q", "k", …))."""
        return [(path, node.taps) for path, node in self.root.walk() if node.taps]

    @property
    def heading(self) -> str:
        return (
            f"{self.root.kind}: {self.parameters:,} parameters, {byte_amount(self.bytes)} as {', '.join(self.dtypes)}, "
            f"{self.flops_per_token:,.0f} FLOPs per token in a text of {self.tokens}"
        )

    def tables(self) -> list[Table]:
        """The tree of modules, a line each; of equal ones the first, with its numbers."""
        rows = [
            [
                line.label,
                line.shape,
                f"{line.parameters:,}" if line.parameters else "",
                byte_amount(line.bytes) if line.bytes else "",
                flops_amount(line.flops / self.tokens),
                line.kind,
            ]
            for line in tree_lines(self.root)
        ]
        return [Table(["module", "shape", "parameters", "bytes", "FLOPs", "class"], rows, left=2)]

    def remarks(self) -> list[str]:
        words = (
            f"FLOPs: per token, of one forward pass over {self.tokens} tokens (--tokens), averaged over them; 2 per "
            "multiply-add. Counted: linear layers (2 · rows · columns) and attention (4 · heads · head width · keys "
            "that a query sees, on average). Embedding look-ups, norms, softmax, activations and sums count 0; a head "
            "that reads one token counts once per text. Shapes are outputs×inputs + bias."
        )
        if self.uncounted:
            words += f" Not counted, being of an unknown kind: {', '.join(self.uncounted)}."
        return [words]

    def tensor_table(self) -> Table:
        """The tensors with their names in the checkpoint; names that differ in the layer alone are folded."""
        rows = [[ours, _joined(theirs) if theirs else "(new)"] for ours, theirs in _folded_names(self)]
        return Table(["tensor", "in the checkpoint"], rows, left=2, longest=400)

    def tap_table(self, *, folded: bool = True) -> Table:
        """The taps.

        Args:
            folded: those of equal modules once
        """
        heading = f"{len(self.taps):,} taps: tensors that a Tape can listen to or replace"
        if not folded:
            return Table(["tap"], [[tap] for tap in self.taps], heading)
        rows = [[path and f"{path}.", "  ".join(taps)] for path, taps in self.folded_taps()]
        return Table(["module", "taps"], rows, f"{heading}  (--taps lists each)", left=2, longest=400)


def summary(
    network: Node, *, tokens: int = 128, source: int | None = None, theirs: Callable[[str], list[str]] | None = None
) -> ModelSummary:
    """Summarise a network: modules, parameters, and FLOPs of one forward pass over a text.

        a linear layer [out, in]     2 · in · out                      a token
        a convolution                2 · in · out · kernel             a step, of which a sound has several a token
        attention                    4 · heads · head width            a pair of a query and a key that is not masked
        one of X experts             k / X of its layers' FLOPs        a token, since k experts run for each token
        everything else              0                                 look-ups, norms, softmax, activations, sums

    An FLOP is one multiplication or one addition, so a multiply-add is 2. In a text of T tokens there are T · T pairs
    without a mask, T · (T + 1) / 2 if causal. Heads that read one token of a text count once a text; cross-attention
    of T tokens to a source of S has T · S pairs.

    Args:
        network: any tree of Nodes, on any device, meta included.
        tokens: T, the length of the text.
        source: S, of an encoder-decoder the length of what its encoder reads; None = T.
        theirs: our parameter's name → its names in the checkpoint.
    Raises: ConfigError: `tokens` is below 1.
    Source: the count of Kaplan et al. 2020, section 2.1 (2 a parameter and token), with attention and without look-ups.
    """
    if tokens < 1:
        raise ConfigError(f"tokens is {tokens}; a text has at least 1")
    sides = TextLengths(tokens, tokens if source is None else source)
    names: dict[int, str] = {}  # id of a parameter → the name that it is counted under
    tensors: list[TensorRow] = []
    for name, parameter in network.named_parameters():
        names[id(parameter)] = name
        stored = () if theirs is None else tuple(theirs(name))
        tensors.append(TensorRow(name=name, theirs=stored, shape=tuple(parameter.shape), dtype=_dtype(parameter)))
    for path, stored in network.named_modules():
        if isinstance(stored, StoredLevels):
            names[id(stored)] = path
            name = f"{path.removesuffix('.stored')}.weight"
            file_names = () if theirs is None else tuple(theirs(name))
            shape = stored.rows, stored.columns
            tensors.append(TensorRow(name=name, theirs=file_names, shape=shape, dtype=f"int{stored.bits}"))
    return ModelSummary(
        root=_module_node(type(network).__name__, "", network, names, sides, Fraction(tokens)),
        tokens=tokens,
        active=active_parameters(network),
        tensors=tuple(tensors),
        taps=tuple(network.taps()),
        uncounted=tuple(path for path, module in network.named_modules() if _is_uncounted(module)),
    )


def active_parameters(network: nn.Module) -> int:
    """Number of parameters that run for a token: without experts that the router does not choose for it."""
    idle = sum(
        count_weights(module.experts) * (1 - input_ratio(module, "experts"))
        for module in network.modules()
        if isinstance(module, Experts)
    )
    return round(count_weights(network) - idle)


class TextLengths(NamedTuple):
    """Tokens that a module reads, and of an encoder-decoder what its encoder reads."""

    tokens: int
    source: int

    def of(self, module: nn.Module, inner: str) -> TextLengths:
        """Those of a submodule: the encoder reads the source, and keys and values of cross-attention are made of it."""
        reads_source = inner == "kv" if isinstance(module, CrossAttention) else inner == "encoder"
        return self._replace(tokens=self.source) if reads_source else self


def _module_node(
    name: str, path: str, module: nn.Module, names: dict[int, str], sides: TextLengths, rows: Fraction
) -> ModuleNode:
    """The node of one module; `rows` is the number of vectors of a text that go through it, averaged over experts."""
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
    if isinstance(module, StoredLevels):
        weights.append(_levels_weight(module, path, names))
    children = []
    for inner, child in module.named_children():
        inner_path, inner_sides = f"{path}.{inner}" if path else inner, sides.of(module, inner)
        inner_rows = rows * input_ratio(module, inner) * Fraction(inner_sides.tokens, sides.tokens)
        children.append(_module_node(inner, inner_path, child, names, inner_sides, inner_rows))
    own_flops, formula = _own_flops(module, rows, sides)
    return ModuleNode(
        name=name,
        kind=type(module).__name__,
        note=_note(module),
        mask=str(module.pattern) if isinstance(module, (Attention, CrossAttention)) else "",
        weights=tuple(weights),
        taps=module.own_taps() if isinstance(module, Node) else (),
        children=_folded([child for child in children if child.weights or child.taps or child.children]),
        own_flops=own_flops,
        formula=formula,
    )


def _levels_weight(stored: StoredLevels, path: str, names: dict[int, str]) -> Weight:
    """The weight of a quantised layer; its scales count as bytes."""
    counted_as = names[id(stored)]
    tied = counted_as != path
    return Weight(
        leaf="levels",
        shape=(stored.rows, stored.columns),
        dtype=f"int{stored.bits}",
        parameters=0 if tied else stored.rows * stored.columns,
        bytes=0 if tied else stored.nbytes,
        tied_to=counted_as if tied else None,
    )


def input_ratio(module: nn.Module, inner: str) -> Fraction:
    """Ratio of the vectors that go through a submodule to those that go through the module.

    Below 1 for an expert, which gets a part of the tokens; above 1 for a convolution that others with strides follow,
    and for what follows transposed ones.
    """
    if isinstance(module, Experts) and inner == "experts":
        return Fraction(module.spec.experts_per_token, module.spec.experts)
    children = dict(module.named_children())
    at = list(children).index(inner)
    up = _strides(list(children.values())[:at], nn.ConvTranspose1d)
    reads = any(isinstance(layer, nn.Conv1d) for layer in children[inner].modules())
    return Fraction(up * (_strides(list(children.values())[at + 1 :], nn.Conv1d) if reads else 1))


def _strides(modules: list[nn.Module], kind: type[nn.Conv1d | nn.ConvTranspose1d]) -> int:
    """The product of the strides of all convolutions of a kind in modules."""
    return math.prod(layer.stride[0] for module in modules for layer in module.modules() if isinstance(layer, kind))


def _own_flops(module: nn.Module, rows: Fraction, sides: TextLengths) -> tuple[int, str]:
    """FLOPs of a module itself for one text, and the formula for one token."""
    if isinstance(module, nn.Linear):
        return round(
            2 * module.in_features * module.out_features * rows
        ), f"2 · {module.in_features} · {module.out_features}"
    if isinstance(module, CONVOLUTIONS):
        weight = module.kernel if isinstance(module, Convolution) else module.weight
        return round(2 * weight.numel() * rows), " · ".join(map(str, (2, *weight.shape)))
    if isinstance(module, (Attention, CrossAttention)):
        crosses = isinstance(module, CrossAttention)
        pairs = sides.tokens * sides.source if crosses else _pairs(module.pattern, sides.tokens)
        width = module.spec.heads * module.spec.E
        return 4 * width * pairs, f"4 · {width} · {pairs / sides.tokens:g} keys"
    return 0, ""


@lru_cache(maxsize=64)
def _pairs(pattern: AttentionPattern, tokens: int) -> int:
    """Number of (query, key) pairs of a text that are not masked; cached, because all layers ask for the same."""
    return pattern.attended_pairs(tokens)


def _note(module: nn.Module) -> str:
    if isinstance(module, Experts):
        return f"{module.spec.experts_per_token} of {module.spec.experts} experts"
    if not isinstance(module, (Attention, CrossAttention)):
        return ""
    spec = module.spec
    shared = "" if spec.heads == spec.K else f", {spec.K} k/v"
    return f"{spec.heads} heads × {spec.E}{shared}"


def _is_uncounted(module: nn.Module) -> bool:
    """Whether it has a matrix whose FLOPs are not counted here."""
    sizes = (parameter.shape for parameter in module.parameters(recurse=False))
    matrices = any(sum(size > 1 for size in shape) > 1 for shape in sizes)
    return matrices and not isinstance(module, (nn.Linear, nn.Embedding, *CONVOLUTIONS))


def _folded(children: list[ModuleNode]) -> tuple[ModuleNode, ...]:
    """Fold numbered nodes that are equal in everything but their number into the first of them."""
    names_of: dict[ModuleNode, list[str]] = {}  # in the order of the first of each
    for child in children:
        node = replace(child, name="") if child.name.isdigit() else child
        names_of.setdefault(node, []).append(child.name)
    return tuple(
        node if node.name else replace(node, name=_ranges(names), repeats=len(names))
        for node, names in names_of.items()
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


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────


class TreeLine(NamedTuple):
    """A line of the module tree; numbers are those of one of the repeated modules.

    guide: lines that lead to it from above
    name: of the module, with those that only wrap it; of repeated ones the path
    path: of the module, repeats folded: "blocks.0-5.attn"; of attention's own products, that of the attention
    depth: modules above it
    """

    guide: str
    name: str
    path: str
    depth: int
    shape: str
    parameters: int
    bytes: int
    flops: int
    kind: str = ""
    repeats: int = 1
    weights: tuple[Weight, ...] = ()

    @property
    def label(self) -> str:
        """Its guide and its name, as a terminal shows them."""
        return self.guide + self.name + (f"  ×{self.repeats}, each" if self.repeats > 1 else "")


def tree_lines(root: ModuleNode) -> Iterator[TreeLine]:
    """The lines of the module tree, from the root down."""
    yield _line("", root.kind, "", 0, root)
    yield from _lines_below(root, "", "", 1)


def _lines_below(part: ModuleNode, path: str, guide: str, depth: int) -> Iterator[TreeLine]:
    own = part.own_flops if part.children else 0  # of attention scores, besides the linear layers
    for i, child in enumerate(part.children):
        last = i == len(part.children) - 1 and not own
        full = f"{path}.{child.name}" if path else child.name
        name = full if child.repeats > 1 else child.name
        while _is_wrapper(child):
            child = child.children[0]
            name, full = f"{name}.{child.name}", f"{full}.{child.name}"
        yield _line(guide + ("└─ " if last else "├─ "), name, full, depth, child)
        if not _levels_of(child):
            yield from _lines_below(child, full, guide + ("   " if last else "│  "), depth + 1)
    if own:
        name = f"scores, z ({part.mask})" if part.mask else "scores, z"
        yield TreeLine(f"{guide}└─ ", name, path, depth, part.formula, 0, 0, own)


def _line(guide: str, name: str, path: str, depth: int, part: ModuleNode) -> TreeLine:
    weights = (*_levels_of(part), *part.weights)
    shape = " + ".join(filter(None, (part.note, *map(_weight_words, weights))))
    kind = part.kind if part.children and part.kind != name and not _levels_of(part) else ""
    return TreeLine(
        guide, name, path, depth, shape, part.parameters, part.bytes, part.flops, kind, part.repeats, weights
    )


def _levels_of(part: ModuleNode) -> tuple[Weight, ...]:
    """The weight of a quantised layer: its levels are a module of their own, and are written in the layer's line."""
    only = part.children[0] if len(part.children) == 1 else None
    return only.weights if only and only.kind == StoredLevels.__name__ else ()


def _is_wrapper(part: ModuleNode) -> bool:
    """Whether a module only wraps another one, so that one line shows both."""
    bare = not part.weights and not part.taps and not part.own_flops and part.repeats == 1
    return bare and len(part.children) == 1 and part.children[0].repeats == 1 and not _levels_of(part)


def _weight_words(weight: Weight) -> str:
    if weight.tied_to:
        return f"= {weight.tied_to}"
    shape = "×".join(map(str, weight.shape)) or "1"
    return shape if weight.leaf in ("weight", "bias", "levels") else f"{weight.leaf} {shape}"


def _folded_names(result: ModelSummary) -> Iterator[tuple[str, list[str]]]:
    """Each tensor with its names in the checkpoint; names that differ in the layer number alone are folded."""
    rows: dict[str, TensorRow] = {row.name: row for row in result.tensors}
    for path, _ in result.root.walk():
        for row in [row for name, row in rows.items() if name.rpartition(".")[0] == nth_of(path, 0)]:
            other = rows.get(f"{nth_of(path, -1)}.{row.name.rpartition('.')[2]}", row)
            ours = ".".join(filter(None, (path, row.name.rpartition(".")[2])))
            ranges = [part for part in path.split(".") if part[:1].isdigit()]
            yield ours, [_merged(a, b, ranges) for a, b in zip(row.theirs, other.theirs, strict=True)]


def nth_of(path: str, which: int) -> str:
    """`blocks.0-5.attn` → `blocks.0.attn` (which = 0) or `blocks.5.attn` (which = -1)."""
    parts = path.split(".")
    return ".".join(part.replace(",", "-").split("-")[which] if part[:1].isdigit() else part for part in parts)


def _merged(first: str, last: str, ranges: list[str]) -> str:
    """Two names in the checkpoint as one, with our range of layers where their numbers differ."""
    left = iter(ranges)
    pairs = zip(first.split("."), last.split("."), strict=True)
    return ".".join(a if a == b else next(left, f"{a}…{b}") for a, b in pairs)


def _joined(names: list[str]) -> str:
    """["self.query.weight", "self.key.weight"] → "self.{query,key}.weight"."""
    columns = [list(dict.fromkeys(parts)) for parts in zip(*(name.split(".") for name in names), strict=True)]
    return ".".join(column[0] if len(column) == 1 else "{" + ",".join(column) + "}" for column in columns)
