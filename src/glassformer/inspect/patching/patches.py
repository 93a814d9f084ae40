"""Activation patching and ablation: replace parts of a forward pass, and see what the prediction becomes.

    zero      part = 0                                    what the model does without it
    mean      part = its mean over positions, or texts    … without what it says about this text
    swap      part = its value in the pass of another text (the source)

Many patched copies of a text are rows of one pass. They are one row up to the first part that is replaced, since before
it they are equal.
Source: Vig et al. 2020, "Causal mediation analysis"; Geiger et al. 2021, "Causal abstractions"; Meng et al. 2022,
"Locating and editing factual associations", section 2; Wang et al. 2023, "Interpretability in the wild", section 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output, Tape, match
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.inspect.tokens import numbered
from glassformer.inspect.trace import AXES
from glassformer.models import Network, eval_mode

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

ALIGNMENTS = ("strict", "start", "end")
TOKENS_AT_ONCE = 2048
"""Tokens of all rows of a pass: measured on two cores, more is no faster and takes memory."""
LOGITS_AT_ONCE = 2**26
"""Logits of all rows of a pass: 256 MB in fp32."""

Progress = Callable[[int, int], None]
"""Called with the number of patched passes done and of all; what it raises ends the work."""

_COMPONENT = re.compile(r"(?P<tap>[^@]*[\w*?])(?:\[(?P<index>[^\[\]]*)\])?(?:@(?P<positions>[^@]*))?", re.ASCII)
_RANGE = re.compile(r"\s*(-?\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Component:
    """Part of a forward pass: a tap, or some heads, neurons or dimensions of it, at all positions or some.

        blocks.3.attn.z[5]       head 5 of layer 3           blocks.3.ffn.neurons[17]   a neuron
        blocks.3.attn.z          all heads of a layer        blocks.3.ffn.out           the feed-forward output
        blocks.*.attn.z          all heads of all layers     blocks.3.attn.out@4        attention output at position 4
        blocks.3.out             the output of a block       blocks.3.before@2-5        the residual stream before it

    tap: a pattern, as for a `Tape`
    index: heads, neurons or dimensions; None = all
    positions: also counted from the end; None = all
    """

    tap: str
    index: tuple[int, ...] | None = None
    positions: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str | Component) -> Component:
        """A component as it is written. Raises: DataError: it cannot be read."""
        if isinstance(text, Component):
            return text
        parts = _COMPONENT.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise DataError(
                f"the component is {safe_repr(text)}; give the name of a tap, heads or neurons in brackets, and "
                "positions after @: 'blocks.3.attn.z[5]', 'blocks.3.ffn.out@4'"
            )
        return cls(parts["tap"], _numbers(parts["index"], text), _numbers(parts["positions"], text))

    def __str__(self) -> str:
        index = "" if self.index is None else f"[{','.join(map(str, self.index))}]"
        return self.tap + index + ("" if self.positions is None else f"@{','.join(map(str, self.positions))}")


def _numbers(text: str | None, whole: str) -> tuple[int, ...] | None:
    """The numbers of `3,5-7`."""
    if text is None:
        return None
    numbers: list[int] = []
    for part in text.split(","):
        ends = _RANGE.fullmatch(part)
        if ends is None or (ends[2] is not None and not 0 <= int(ends[1]) <= int(ends[2])):
            raise DataError(f"{safe_repr(whole)}: {safe_repr(part)} is no number or range such as 4 or 4-6")
        numbers += range(int(ends[1]), int(ends[2]) + 1) if ends[2] else [int(ends[1])]
    return tuple(dict.fromkeys(numbers))


@dataclass(frozen=True, slots=True)
class Write:
    """One replacement in one row: `x[key] = value`, of the activation of a tap.

    key: index tensors, or slices.
    """

    tap: str
    key: tuple[Tensor | slice, ...]
    value: Tensor | float


Patch = Sequence[Write]
"""All replacements in one row."""


class PatchTape(Tape):
    """A tape that gives each row of a pass its own replacements.

    Rows are equal until the first of them, and are one row as long.

    Args:
        patches: the replacements of each row
        patterns: taps to record, as for a `Tape`
    """

    def __init__(self, patches: Sequence[Patch], *patterns: str) -> None:
        super().__init__(*patterns)
        self.rows = len(patches)
        self._writes: dict[str, list[tuple[int, Write]]] = {}
        for row, patch in enumerate(patches):
            for write in patch:
                self._writes.setdefault(write.tap, []).append((row, write))

    def __contains__(self, name: str) -> bool:
        return name in self._writes or super().__contains__(name)

    def record(self, name: str, x: Tensor) -> Tensor:
        if name in self._writes:
            x = (x.expand(self.rows, *x.shape[1:]) if x.shape[0] == 1 else x).clone()
            for row, write in self._writes[name]:
                x[row][write.key] = write.value.to(x) if isinstance(write.value, Tensor) else write.value
        return super().record(name, x)


def record_taps(session: Session, names: Iterable[str]) -> dict[str, Tensor]:
    """The activations of a session's pass at some taps, without the batch axis."""
    tape = Tape(*names).attach(session.network)
    with torch.no_grad(), eval_mode(session.network):
        session.network(session.batch, Flow(tape=tape))
    return {name: x[0] for name, x in tape.taps.items()}


def mean_activations(sessions: Iterable[Session], names: Sequence[str]) -> dict[str, Tensor]:
    """The mean activation at some taps over all positions of these passes: of each head, of each neuron.

    Raises: DataError: there are no passes.
    """
    sums: dict[str, Tensor] = {}
    count: dict[str, int] = {}
    for session in sessions:
        for name, x in record_taps(session, names).items():
            axis = _position_axis(name)
            sums[name] = sums.get(name, 0.0) + x.double().sum(axis, keepdim=True)
            count[name] = count.get(name, 0) + x.shape[axis]
    if not sums:
        raise DataError("a mean over reference texts needs at least one text; got none")
    return {name: total / count[name] for name, total in sums.items()}


def patch_of(
    session: Session,
    component: Component,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, Tensor] | None = None,
    align: str = "strict",
) -> Patch:
    """The replacements that a component means, in one row.

    Args:
        shapes: of the activations, by tap, without the batch axis
        values: activations that are put in their place, by tap: of another pass, or a mean, which has one position for
            all; None = 0
        align: where a position of this pass is in the other: "strict", the same; counted from "start" or "end"
    Raises: ConfigError: no such tap. DataError: no such head, neuron or position.
        UnsupportedError: a tap whose rows are not tokens of the text.
    """
    writes = []
    for name in match(component.tap, session.network.taps()):
        axis, shape = _position_axis(name), shapes[name]
        size = shape[axis]
        index = component.index and [_within(at, shape[_index_axis(name)], name, "index") for at in component.index]
        ours: Sequence[int] | None = component.positions
        ours = ours and [_within(at, size, name, "position") for at in ours]
        if values is None:
            writes.append(Write(name, _key(name, index, ours), 0.0))
            continue
        source = values[name]
        if source.shape[axis] == 1 < size:
            theirs: Sequence[int] = [0]
        else:
            if align != "strict" and {"T", "S"} <= set(_axes(name)):
                raise UnsupportedError(f"{name} has a row and a column for each token; swap it between texts as long")
            offset = source.shape[axis] - size if align == "end" else 0
            ours = [at for at in (ours or range(size)) if 0 <= at + offset < source.shape[axis]]
            theirs = [at + offset for at in ours]
        writes.append(Write(name, _key(name, index, ours), source[_key(name, index, theirs)]))
    return writes


def check_alignable(session: Session, source: Session, align: str) -> None:
    """Raises: DataError: another model, or texts of other lengths that are not aligned, which are then shown."""
    if align not in ALIGNMENTS:
        raise DataError(f"align is {safe_repr(align)}; allowed: {', '.join(ALIGNMENTS)}")
    if source.network is not session.network:
        raise DataError("the source session is of another model; activations are swapped between texts of one model")
    lengths = [
        (name, session.streams[name], source.streams.get(name, []))
        for name in session.streams
        if len(session.streams[name]) != len(source.streams.get(name, []))
    ]
    if lengths and align == "strict":
        name, ours, theirs = lengths[0]
        raise DataError(
            f"the two texts have {len(theirs)} and {len(ours)} {name} tokens, so no position of one is that of the "
            f"other: {numbered(theirs)} ‖ {numbered(ours)}; reword one of them, or align them by position with "
            "align='start' or 'end' (--align)"
        )


def run_patches(
    network: Network,
    batch: Batch,
    patches: Sequence[Patch],
    read: Callable[[Output], Tensor],
    *,
    tokens: int,
    last: int = 0,
    progress: Progress | None = None,
) -> Iterator[Tensor]:
    """Patched passes of one row: what `read` makes of each output, in order. [C] each

    Args:
        tokens: of the longest stream
        last: logits for this many positions only, 0 = all
        progress: called after each pass over several rows
    """
    logits = (last or tokens) * network.target_vocabulary
    at_once = max(1, min(TOKENS_AT_ONCE // max(1, tokens), LOGITS_AT_ONCE // max(1, logits)))
    joined = len(network.stacks()) == 1  # two streams meet, and must have as many rows
    for start in range(0, len(patches), at_once):
        rows = patches[start : start + at_once]
        tape = PatchTape(rows).attach(network)
        with torch.no_grad(), eval_mode(network):
            x = read(network(batch if joined else _repeated(batch, len(rows)), Flow(tape=tape, last=last)))
        yield from x.expand(len(rows), *x.shape[1:])
        if progress is not None:
            progress(start + len(rows), len(patches))


def _repeated(batch: Batch, rows: int) -> Batch:
    tensors = {field.name: x for field in fields(batch) if (x := getattr(batch, field.name)) is not None}
    return replace(batch, **{name: x.expand(rows, *x.shape[1:]) for name, x in tensors.items()})


# ------------------------------------------------------------------------------------------------- axes of a tap


def _axes(name: str) -> str:
    """The axes of a tap after that of the batch, a letter each; D is added to the residual stream.

    Raises: UnsupportedError: its rows are not tokens.
    """
    parts = name.split(".")
    axes = AXES.get(".".join(parts[-2:])) or AXES.get(parts[-1], "BTD")
    if "experts" in parts or "router" in parts or not set(axes) & {"T", "S"} or name == "logits":
        raise UnsupportedError(
            f"{name} holds no numbers of each token that could be replaced; patch the heads (attn.z), the neurons, the "
            "output of attention or feed-forward layer (attn.out, ffn.out), or the residual stream (blocks.*.out)"
        )
    return axes[1:]


def _position_axis(name: str) -> int:
    axes = _axes(name)
    return axes.index("T") if "T" in axes else axes.index("S")


def _index_axis(name: str) -> int:
    """Heads where there are some, else the last axis: neurons, or dimensions of the stream."""
    axes = _axes(name)
    return 0 if axes[0] in "HK" else len(axes) - 1


def _key(name: str, index: Sequence[int] | None, positions: Sequence[int] | None) -> tuple[Tensor | slice, ...]:
    """An index of these heads or neurons at these positions."""
    key: list[Tensor | slice] = [slice(None)] * len(_axes(name))
    chosen = {_index_axis(name): index, _position_axis(name): positions}
    both = index is not None and positions is not None
    for order, axis in enumerate(sorted(chosen)):
        numbers = chosen[axis]
        if numbers is not None:
            at = torch.tensor(list(numbers), dtype=torch.long)
            key[axis] = at[:, None] if both and order == 0 else at
    return tuple(key)


def _within(at: int, size: int, name: str, what: str) -> int:
    if not -size <= at < size:
        noun = what if what == "position" else ("head" if _axes(name)[0] in "HK" else "dimension or neuron")
        raise DataError(f"there is no {noun} {at} at {name}; there are 0 to {size - 1}")
    return at % size
