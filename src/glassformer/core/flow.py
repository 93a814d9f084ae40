"""Inputs, outputs and state of a forward pass, and the hooks on its activations.

All state of a call travels in the call: nothing is stored on modules or in globals, so a network can serve several
threads at once.

    Batch ──> network(batch, flow) ──> Output
    Flow      mask, positions, encoder output, cache, tape: passed from module to module
    Node      a module that knows its path in the network; `tap` gives its activations a name
    Tape      records named activations, or replaces them
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.masks import AttentionPattern, Mask, Packing
from glassformer.errors import ConfigError, nearest

if TYPE_CHECKING:
    from glassformer.core.cache import KeyValueCache
    from glassformer.core.rotary import RotarySpec

Edit = Tensor | Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Model inputs, by the names of the reference library; a family reads the fields it knows.

    text    input_ids [B, T], or vectors in the place of tokens [B, T, width] · token_type_ids [B, T], or [B, T,
            columns] for tables · bbox [B, T, 4], boxes of words on a page · decoder_input_ids [B, T] · decoder_keep
            [B, 1, T] bool
    sound   input_values [B, samples], a waveform · input_features [B, M, frames], a log-mel spectrogram
    images  pixel_values [B, channels, height, width] · visual_feats [B, R, width] and visual_pos [B, R, 4], of detected
            regions · visual_keep [B, 1, R] bool
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


@dataclass(frozen=True, slots=True)
class Output(Mapping[str, Any]):
    """Model outputs, by the names of the reference library; a field is None where the head does not fill it.

    A mapping with the reference's keys in its order: `output["logits"]`, `output[0]`, `output.to_tuple()`. Besides them
    there are fields of our own, such as the hidden states that a head has read: `output.present()` holds all.

    OWN: the fields of our own

    Args:
        pairs: fields by name, as a mapping or in pairs.
    """

    OWN: ClassVar[frozenset[str]] = frozenset({"frames"})

    pairs: InitVar[Mapping[str, Any] | Iterable[tuple[str, Any]]] = ()
    _: KW_ONLY
    loss: Tensor | None = None  # []
    audio_values: Tensor | None = None  # [B, samples], of a codec, and what it is made from
    quantized_representation: Tensor | None = None  # [B, D, T]
    audio_codes: Tensor | None = None  # [B, codebooks, T]
    projected_latents: Tensor | None = None  # [B, codebooks · code width, T]
    logits: Tensor | None = None  # [B, T, V], or [B, labels]
    start_logits: Tensor | None = None  # [B, T]
    end_logits: Tensor | None = None  # [B, T]
    relevance_logits: Tensor | None = None  # [B], how well a passage answers its question
    prediction_logits: Tensor | None = None  # [B, T, V]
    seq_relationship_logits: Tensor | None = None  # [B, 2]
    sop_logits: Tensor | None = None  # [B, 2], sentence order
    logits_aggregation: Tensor | None = None  # [B, operators], what to do with the cells of a table
    logits_per_image: Tensor | None = None  # [images, texts]
    logits_per_text: Tensor | None = None  # [texts, images]
    text_embeds: Tensor | None = None  # [texts, E]
    image_embeds: Tensor | None = None  # [images, E]
    language_output: Tensor | None = None  # [B, T, D]
    vision_output: Tensor | None = None  # [B, R, D]
    pooled_output: Tensor | None = None  # [B, D]
    cross_relationship_score: Tensor | None = None  # [B, 2]
    question_answering_score: Tensor | None = None  # [B, answers]
    last_hidden_state: Tensor | None = None  # [B, T, D]
    pooler_output: Tensor | None = None  # [B, D]
    extract_features: Tensor | None = None  # [B, frames, C], sound before its transformer
    cache: KeyValueCache | None = None
    hidden_states: tuple[Tensor, ...] | None = None  # [B, T, D] before each block, and at the end
    attentions: tuple[Tensor, ...] | None = None  # [B, H, T, S] of each block
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    encoder_last_hidden_state: Tensor | None = None  # [B, S, D]
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None
    frames: Tensor | None = None  # [B], how many frames of each row are sound, the others padding
    taps: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self, pairs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        for name, value in dict(pairs).items() if pairs else ():
            object.__setattr__(self, _FIELD_OF.get(name, name), value)

    def present(self) -> dict[str, Any]:
        """The fields that this call filled, by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None and (name != "taps" or value)}

    @property
    def past_key_values(self) -> KeyValueCache | None:
        """The cache, by the reference library's name."""
        return self.cache

    def to_tuple(self) -> tuple[Any, ...]:
        """The values of all keys, in their order."""
        return tuple(self[name] for name in self)

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return self.to_tuple()[key]
        name = _FIELD_OF.get(key, key)
        value = getattr(self, name) if name in self.__dataclass_fields__ else None
        if value is None:
            raise KeyError(f"{key!r} is not in this output, which has {', '.join(self)}")
        return value

    def __iter__(self) -> Iterator[str]:
        scored = any(getattr(self, name) is not None for name in _SCORES)
        own = {*self.OWN, "last_hidden_state", "extract_features"} if scored else self.OWN
        return (_KEY_OF.get(name, name) for name in self.present() if name not in own)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def keys(self) -> KeysView[str]:
        """The reference's keys, which print as its do."""
        return OrderedDict.fromkeys(self).keys()

    def __repr__(self) -> str:
        def show(value: Any) -> str:
            if isinstance(value, Tensor):
                return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
            return f"{len(value)} tensors" if isinstance(value, dict) else str(value)

        return "Output(\n" + "".join(f"  {name}: {show(value)}\n" for name, value in self.present().items()) + ")"


_KEY_OF = {"cache": "past_key_values"}
_FIELD_OF = {key: name for name, key in _KEY_OF.items()}
_SCORES = ("logits", "start_logits", "prediction_logits", "question_answering_score", "language_output")
"""Where a head fills one of these, the reference's output does not show what the head has read."""


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """Encoder output (the memory) for cross-attention: `states` [B, S, D], `keep` [B, 1, S] bool, True = may attend."""

    states: Tensor
    keep: Tensor | None = None

    def rows(self, indices: Sequence[int] | Tensor) -> EncoderOutput:
        """The encoder output of some rows."""
        return EncoderOutput(self.states[indices], None if self.keep is None else self.keep[indices])


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """State of one forward pass. The caller sets the first part; the network fills in the second.

    keep: attention mask: which keys each query may attend to. [B, T, S] or [B, 1, S] bool; None = all
    positions: position ids. [B or 1, T] int; None = counted by `token_positions`
    packing: several texts in one row, each attends to itself only (then keep is None and B is 1)
    memory: encoder output, for cross-attention
    cache: keys and values of earlier tokens
    tape: records activations
    last: logits for the last N positions only
    largest: for the N largest only, -inf for others; 0 = all
    recompute: activation checkpointing: store each block's input only, and compute the rest once more in the backward
        pass. Gradients are the same, dropout included. Not done under a tape or with a cache, which must see each
        tensor once
    """

    keep: Tensor | None = None
    positions: Tensor | None = None
    packing: Packing | None = None
    memory: EncoderOutput | None = None
    cache: KeyValueCache | None = None
    tape: Tape | None = None
    last: int = 0
    largest: int = 0
    recompute: bool = False

    # computed once a call by the stack, for all its blocks
    masks: Mapping[AttentionPattern, Mask] | None = None
    rotations: Mapping[RotarySpec, tuple[Tensor, Tensor]] | None = None  # cos, sin: [B or 1, 1, T, rotated width]
    # What the stack's position bias gives to all its layers: mostly [1, H, T, S], added to their scores.
    bias: Tensor | None = None

    @property
    def past(self) -> int:
        """Number of tokens in the cache."""
        return 0 if self.cache is None else self.cache.length

    def of_new_tokens(self, x: Tensor, T: int) -> Tensor:
        """What belongs to the T tokens that are not in the cache, of all. [B, past + T] → [B, T]"""
        if torch.compiler.is_exporting():  # a view would fix in the program that there is a past
            return x.index_select(1, torch.arange(self.past, self.past + T, device=x.device))
        return x[:, -T:]

    def token_positions(self, tokens: Tensor) -> Tensor:
        """Position ids of `tokens` [B, T, …]: those of the caller, or counted. [B or 1, T]

        Counting starts at 0, continues where the cache ends, and restarts in each packed text; padding is not counted,
        so padding on the left shifts nothing.
        Differs: the reference library counts padding too, unless it is given position ids or is generating.
        Raises: ConfigError: the packing has another number of tokens.
        """
        T, device = tokens.shape[1], tokens.device
        if self.positions is not None:
            return self.positions
        if self.packing is not None:
            if self.packing.tokens != T:
                raise ConfigError(f"packing holds {self.packing.tokens} tokens, the row {T}; they must be equal")
            return self.packing.positions(device)
        if self.keep is not None and self.keep.shape[1] == 1:
            keep = self.keep[:, 0]
            counted = keep.long().cumsum(-1) - 1  # [B, S]
            # Padding is masked; it gets the position that the reference library gives it.
            own = torch.arange(keep.shape[1], device=device).clamp(max=counted.max().clamp(min=0))
            return self.of_new_tokens(torch.where(keep, counted, own), T)
        return torch.arange(self.past, self.past + T, device=device)[None]


class Node(nn.Module):
    """A module with named activations (taps), which a `Tape` can record or replace.

    Module path = weight name = tap prefix: the tensor `probs` of `blocks.4.attn` is the tap `blocks.4.attn.probs`.
    `TAPS` lists a class's own taps, in the order in which they are computed.
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
        """Set each node's path, counted from this node; a network's constructor ends with it."""
        for path, node in self.named_nodes():
            node.path = path

    def tap(self, flow: Flow, name: str, x: Tensor) -> Tensor:
        """Name an activation: returns `x`, or what a tape's edit makes of it."""
        return x if flow.tape is None else flow.tape.record(_join(self.path, name), x)

    def wants(self, flow: Flow, *names: str) -> bool:
        """Whether a tape listens to one of these taps, which then must be computed, however slow."""
        return flow.tape is not None and any(_join(self.path, name) in flow.tape for name in names)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class Tape:
    """Records named activations of a forward pass, and may replace them (activation patching).

        tape = Tape("blocks.*.attn.probs", edit={"blocks.3.ffn.neurons": lambda x: x * 0})
        model(**inputs, tape=tape)
        tape.taps["blocks.0.attn.probs"]                                    # [B, H, T, S]

    A pattern names the last parts of a path, with `*` for any one part: see `match`. Patterns are resolved once, by
    `attach`, against `model.taps()`; one that matches nothing is an error that names the nearest taps. An edit is a
    tensor, or a function from the tensor to its replacement of the same shape; the tape stores the edited tensor. Only
    the taps that match are computed and stored.

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
        """Resolve the patterns against a network's taps and clear the recording; `Model` does it at each call."""
        network.name_nodes()
        names = network.taps()
        self._listened = frozenset(name for pattern in self.patterns for name in match(pattern, names))
        self._edits = {name: edit for pattern, edit in self.edit.items() for name in match(pattern, names)}
        self.taps = {}
        return self

    def __contains__(self, name: str) -> bool:
        return name in self._listened or name in self._edits

    def record(self, name: str, x: Tensor) -> Tensor:
        """Edit and store one activation, if a pattern matches its name.

        Raises: ConfigError: the edit changes the shape.
        """
        if name in self._edits:
            edit = self._edits[name]
            edited = edit.to(x) if isinstance(edit, Tensor) else edit(x)
            if isinstance(edit, Tensor):
                with suppress(RuntimeError):  # a shape that does not broadcast raises just below, with the tap's name
                    edited = edited.expand_as(x)
            if edited.shape != x.shape:
                raise ConfigError(f"the edit of {name} changed its shape from {list(x.shape)} to {list(edited.shape)}")
            x = edited
        if name in self._listened:
            self.taps[name] = x
        return x

    def __repr__(self) -> str:
        return f"Tape({', '.join(map(repr, self.patterns))}, edit={list(self.edit)}, holds {len(self.taps)} tensors)"


def pattern_matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches the last parts of a name; see `match`."""
    globs, parts = pattern.split("."), name.split(".")
    return len(parts) >= len(globs) and all(map(fnmatchcase, parts[-len(globs) :], globs))


def match(pattern: str, names: Iterable[str]) -> list[str]:
    """The tap names that a glob pattern matches, part by part from the end.

        blocks.*.out       the stream after each block; not blocks.0.attn.out, which has a part more
        attn.probs         the attention of every block
        decoder.blocks.[0-3].cross.probs

    Within a part, `*`, `?` and `[0-3]` mean what they do in a shell.
    Raises: ConfigError: no name matches.
    """
    if not isinstance(pattern, str):
        raise ConfigError(f"a pattern is {pattern!r:.60}; it must be text, such as 'blocks.*.out'")
    names = list(names)
    matches = [name for name in names if pattern_matches(pattern, name)]
    if not matches:
        raise ConfigError(f"no tap matches {pattern!r}{nearest(pattern, names)}; model.taps() lists all {len(names)}")
    return matches
