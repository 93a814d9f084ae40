"""What one call carries through the network, and how anyone listens in on it.

All state of a call travels in the call: nothing is kept on modules or in globals, so a network can serve several
threads at once.

    Batch ──> network(batch, flow) ──> Output
    Flow      masks, positions, memory, cache, tape: handed from part to part
    Node      a module that knows its path in the network; `tap` gives its tensors a name
    Tape      listens to named tensors, or replaces them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.masks import Mask, Pattern, Segments
from glassformer.errors import ConfigError, nearest

if TYPE_CHECKING:
    from glassformer.core.cache import KeyValueCache

Edit = Tensor | Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What goes in, by the names of the public edge; a family reads the fields it knows.

    text    input_ids [B, T] · token_type_ids [B, T], or [B, T, columns] for tables · bbox [B, T, 4], where words stand
            on a page · decoder_input_ids [B, T] · decoder_keep [B, 1, T] bool
    sound   input_values [B, samples], a wave · input_features [B, M, frames], a log-mel spectrogram
    images  pixel_values [B, channels, height, width] · visual_feats [B, R, width] and visual_pos [B, R, 4], of regions
            found in one · visual_keep [B, 1, R] bool
    """

    input_ids: Tensor | None = None
    token_type_ids: Tensor | None = None
    bbox: Tensor | None = None
    decoder_input_ids: Tensor | None = None
    decoder_keep: Tensor | None = None
    input_values: Tensor | None = None
    input_features: Tensor | None = None
    pixel_values: Tensor | None = None
    visual_feats: Tensor | None = None
    visual_pos: Tensor | None = None
    visual_keep: Tensor | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What comes out, by the names of the reference library; a field is None where the head does not make it."""

    loss: Tensor | None = None  # []
    logits: Tensor | None = None  # [B, T, V], or [B, labels]
    start_logits: Tensor | None = None  # [B, T]
    end_logits: Tensor | None = None  # [B, T]
    prediction_logits: Tensor | None = None  # [B, T, V]
    seq_relationship_logits: Tensor | None = None  # [B, 2]
    pooler_output: Tensor | None = None  # [B, D]
    last_hidden_state: Tensor | None = None  # [B, T, D]
    encoder_last_hidden_state: Tensor | None = None  # [B, S, D]
    extract_features: Tensor | None = None  # [B, frames, C], sound before its transformer
    frames: Tensor | None = None  # [B], how many frames of each row are sound, the others padding
    logits_aggregation: Tensor | None = None  # [B, operators], what to do with the cells of a table
    image_embeds: Tensor | None = None  # [images, E]
    text_embeds: Tensor | None = None  # [texts, E]
    logits_per_image: Tensor | None = None  # [images, texts]
    logits_per_text: Tensor | None = None  # [texts, images]
    language_output: Tensor | None = None  # [B, T, D]
    vision_output: Tensor | None = None  # [B, R, D]
    pooled_output: Tensor | None = None  # [B, D]
    cross_relationship_score: Tensor | None = None  # [B, 2]
    question_answering_score: Tensor | None = None  # [B, answers]
    cache: KeyValueCache | None = None
    taps: dict[str, Tensor] = field(default_factory=dict)

    def given(self) -> dict[str, Any]:
        """The fields that this call filled."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None and value != {}}

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __repr__(self) -> str:
        def show(value: Any) -> str:
            if isinstance(value, Tensor):
                return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
            return f"{len(value)} tensors" if isinstance(value, dict) else str(value)

        return (
            "Output(\n" + "".join(f"  {name}: {show(value)}\n" for name, value in self.given().items()) + ")"
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """An encoder's output as a decoder sees it: `states` [B, S, D] and `keep` [B, 1, S] bool, True = may attend."""

    states: Tensor
    keep: Tensor | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """What one call carries. The caller sets the first part; the network fills in the second.

    keep: which keys each query may see. [B, T, S] or [B, 1, S] bool; None = all
    positions: where each token stands. [B or 1, T] int; None = counted by `where`
    segments: several texts in one row; each sees itself only (then keep is None and B is 1)
    memory: for cross-attention · cache: keys and values of earlier tokens · tape: who listens
    last: logits for the last so many positions only; 0 = all
    recompute: keep of each block only what enters it, and compute the rest once more in the backward pass. Gradients
        are the same, dropout included. Not done under a tape or with a cache, which must see each tensor once
    """

    keep: Tensor | None = None
    positions: Tensor | None = None
    segments: Segments | None = None
    memory: Memory | None = None
    cache: KeyValueCache | None = None
    tape: Tape | None = None
    last: int = 0
    recompute: bool = False

    # made once a call by the stack, for all its blocks
    masks: Mapping[Pattern, Mask] | None = None
    rotation: tuple[Tensor, Tensor] | None = None  # cos, sin, each [B or 1, 1, T, rotated width]
    bias: Tensor | None = None  # [1, H, T, S], added to the scores of self-attention

    @property
    def past(self) -> int:
        """How many tokens the cache already holds."""
        return 0 if self.cache is None else self.cache.length

    def where(self, tokens: Tensor) -> Tensor:
        """The position of each of `tokens` [B, T, …]: as the caller said, or counted. [B or 1, T]

        Tokens are counted from 0, from where the cache ends, anew in each segment; hidden tokens are not counted, so
        padding on the left shifts nothing.
        Differs: the reference library counts padding too, unless it is told the positions or is generating.
        """
        T, device = tokens.shape[1], tokens.device
        if self.positions is not None:
            return self.positions
        if self.segments is not None:
            if self.segments.tokens != T:
                raise ConfigError(
                    f"segments hold {self.segments.tokens} tokens, the row {T}; they must be equal"
                )
            return self.segments.positions(device)
        if self.keep is not None and self.keep.shape[1] == 1:
            counted = self.keep[:, 0].long().cumsum(-1) - 1  # [B, S]
            return counted.clamp(min=0)[:, -T:]
        return torch.arange(self.past, self.past + T, device=device)[None]


class Node(nn.Module):
    """A module that knows where it stands in its network, and names the tensors that anyone may look at.

    Module path = weight name = tap prefix: the tensor `probs` of `blocks.4.attn` is the tap `blocks.4.attn.probs`.
    `TAPS` lists a class's own taps, in the order in which they fire.
    """

    TAPS: ClassVar[tuple[str, ...]] = ()
    path: str = ""

    def own_taps(self) -> tuple[str, ...]:
        """The taps of this node itself."""
        return self.TAPS

    def taps(self) -> list[str]:
        """The full names of all taps below this node, in the order of its modules."""
        return [_join(path, tap) for path, node in self.named_nodes() for tap in node.own_taps()]

    def named_nodes(self) -> Iterator[tuple[str, Node]]:
        """The nodes below this one, itself first, each with its path from here."""
        return ((path, node) for path, node in self.named_modules() if isinstance(node, Node))

    def name_nodes(self) -> None:
        """Tell each node its path, counted from this node; a network's constructor ends with it."""
        for path, node in self.named_nodes():
            node.path = path

    def tap(self, flow: Flow, name: str, x: Tensor) -> Tensor:
        """`x` itself when nobody listens; else what the tape makes of it."""
        return x if flow.tape is None else flow.tape.pass_on(_join(self.path, name), x)

    def wants(self, flow: Flow, *names: str) -> bool:
        """Does anyone listen to one of these taps? Then they must be computed, however slow."""
        return flow.tape is not None and any(_join(self.path, name) in flow.tape for name in names)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class Tape:
    """Listens to named tensors of one pass, and may replace them on the way.

        tape = Tape("blocks.*.attn.probs", edit={"blocks.3.ffn.neurons": lambda x: x * 0})
        model(**inputs, tape=tape)
        tape.taps["blocks.0.attn.probs"]                                    # [B, H, T, S]

    A pattern names the last parts of a path, with `*` for any one part: see `match`. Patterns are resolved once, by
    `attach`, against `model.taps()`; one that matches nothing is an error that names the nearest taps. An edit is a
    tensor, or a function from the tensor to its replacement of the same shape; the tape keeps what flows on after the
    edit. Only what is asked for is computed and kept.

    Args:
        patterns: taps to listen to.
        edit: pattern → replacement.
    Raises: ConfigError: a pattern matches no tap, or an edit changes a shape.
    """

    def __init__(self, *patterns: str, edit: Mapping[str, Edit] | None = None) -> None:
        self.patterns = patterns
        self.edit = dict(edit or {})
        self.taps: dict[str, Tensor] = {}
        self._listened: frozenset[str] = frozenset()
        self._edits: dict[str, Edit] = {}

    def attach(self, network: Node) -> Tape:
        """Resolve the patterns against a network's taps and start empty; `Model` does it at each call."""
        network.name_nodes()
        names = network.taps()
        self._listened = frozenset(name for pattern in self.patterns for name in match(pattern, names))
        self._edits = {name: edit for pattern, edit in self.edit.items() for name in match(pattern, names)}
        self.taps = {}
        return self

    def __contains__(self, name: str) -> bool:
        return name in self._listened or name in self._edits

    def pass_on(self, name: str, x: Tensor) -> Tensor:
        """Edit and keep one tensor if its name was asked for."""
        if name in self._edits:
            edit = self._edits[name]
            edited = edit.to(x) if isinstance(edit, Tensor) else edit(x)
            if isinstance(edit, Tensor):
                with suppress(RuntimeError):  # one that does not broadcast is refused just below, by name
                    edited = edited.expand_as(x)
            if edited.shape != x.shape:
                raise ConfigError(
                    f"the edit of {name} changed its shape from {list(x.shape)} to {list(edited.shape)}"
                )
            x = edited
        if name in self._listened:
            self.taps[name] = x
        return x

    def __repr__(self) -> str:
        return f"Tape({', '.join(map(repr, self.patterns))}, edit={list(self.edit)}, holds {len(self.taps)} tensors)"


def fits(pattern: str, name: str) -> bool:
    """Does a pattern match the last parts of a name? See `match`."""
    wanted = pattern.split(".")
    parts = name.split(".")[-len(wanted) :]
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def match(pattern: str, names: Iterable[str]) -> list[str]:
    """The names whose last parts a pattern matches, part by part.

        blocks.*.out       the stream after each block; not blocks.0.attn.out, which has a part more
        attn.probs         the attention of every block
        decoder.blocks.[0-3].cross.probs

    Within a part, `*`, `?` and `[0-3]` mean what they do in a shell.
    """
    names = list(names)
    found = [name for name in names if fits(pattern, name)]
    if not found:
        raise ConfigError(
            f"no tap matches {pattern!r}{nearest(pattern, names)}; model.taps() lists all {len(names)}"
        )
    return found
