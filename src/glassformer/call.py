"""Options of a model's call by the names of Hugging Face transformers: cache, hidden states, attention weights, labels.

    past_key_values, use_cache                    a key-value cache, in and out
    output_hidden_states, output_attentions       tensors of each layer, in tuples: a tape of the layers
    labels of an encoder-decoder                  its decoder's inputs are the labels, shifted right
    return_dict=False                             a tuple

A tape records any activation by its name (`core.flow.Tape`); these are the ones that users of the reference library ask
for by flags. Either a tape is given or a flag, not both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.core.cache import FunctionalCache, KeyValueCache
from glassformer.core.flow import Output, Tape
from glassformer.edge import read_call
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models import Family, Network
from glassformer.models._seq2seq import EncoderDecoder

NAMED_LABELS = ("start_positions", "end_positions", "next_sentence_label", "sentence_order_label")


def take_labels(given: dict[str, Any], labels: Any) -> Any:
    """The labels of a call; those that are given by names of their own are taken out of the inputs."""
    named = {name: x for name in NAMED_LABELS if (x := given.pop(name, None)) is not None}
    return labels if not named else named if labels is None else {"labels": labels, **named}


PREFIXES = {"source": "encoder_", "target": "decoder_", "encoder": "encoder_", "decoder": "decoder_", "cross": "cross_"}
"""Stream, or group of attention layers → what the names of its fields begin with; where there is one, with nothing."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What one call is asked for besides its inputs.

    layers: fields of the output → the taps that fill them
    own_tape: whether `tape` is the caller's
    """

    cache: KeyValueCache | None
    tape: Tape | None
    own_tape: bool
    as_tuple: bool
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def take(
        cls,
        network: Network,
        config: Mapping[str, Any],
        inputs: dict[str, Any],
        cache: KeyValueCache | None,
        tape: Tape | None,
        *,
        cached: bool = False,
    ) -> CallOptions:
        """Take the options out of the inputs.

        Args:
            cached: whether a call begins a cache where neither it nor the config says; never under a tape of the
                caller's, nor in a program, whose results are tensors
        Raises: ConfigError: options that exclude each other, or a cache of another library.
            UnsupportedError: a network whose layers these fields do not name.
        """
        as_tuple = inputs.pop("return_dict", None) is False or config.get("return_dict") is False
        as_tuple = as_tuple or config.get("torchscript") is True
        past, use_cache = inputs.pop("past_key_values", None), inputs.pop("use_cache", None)
        if past is not None and cache is not None:
            raise ConfigError("cache and past_key_values are two names of one thing; give one of them")
        cache = past if cache is None else cache
        if cache is not None and not isinstance(cache, KeyValueCache):
            raise ConfigError(
                f"past_key_values is {type(cache).__name__}; it must be a glassformer.core.KeyValueCache, as an output "
                "with use_cache=True holds it"
            )
        if use_cache is None:
            use_cache = cached and tape is None and config.get("use_cache") is not False and not _is_recorded()
        if cache is None and use_cache and _is_causal(network):
            cache = FunctionalCache() if torch.is_grad_enabled() else KeyValueCache(lazy=True)
        asked = {}
        for name in ("output_hidden_states", "output_attentions"):
            flag = inputs.pop(name, None)
            asked[name.removeprefix("output_")] = bool(config.get(name) and tape is None if flag is None else flag)
        layers = layer_taps(network, **asked)
        if layers and tape is not None:
            raise ConfigError(
                "output_hidden_states and output_attentions record with a tape of their own; leave them out, and name "
                "their tensors in yours: Tape('embed.out', 'blocks.*.out', 'attn.probs')"
            )
        taps = dict.fromkeys(tap for names in layers.values() for tap in names)
        return cls(cache, Tape(*taps) if layers else tape, tape is not None, as_tuple, layers)

    def finish(self, output: Output) -> Output:
        """The output with what was recorded; a tuple of it, where that was asked for."""
        if self.tape is not None:
            taps = self.tape.taps
            output = (
                replace(output, taps=taps)
                if self.own_tape
                else replace(output, pairs={name: tuple(taps[tap] for tap in its) for name, its in self.layers.items()})
            )
        traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if traced and not self.as_tuple:  # a traced program gives tensors, in a dict or a tuple
            return {name: x for name, x in output.items() if isinstance(x, Tensor)}  # type: ignore[return-value]
        return output.to_tuple() if self.as_tuple else output  # type: ignore[return-value] # as asked for


def layer_taps(network: Network, *, hidden_states: bool, attentions: bool) -> dict[str, tuple[str, ...]]:
    """Fields of an `Output` → the taps that fill them, in the order of the layers.

    Raises: UnsupportedError: a network of other streams than one, or an encoder's and a decoder's.
    """
    if not (hidden_states or attentions):
        return {}
    streams, groups = network.stream_taps(), network.attention_layout()
    if len(streams) != 1 and set(streams) != {"source", "target"}:
        raise UnsupportedError(
            "output_hidden_states and output_attentions give the layers of one stack, or of an encoder and a decoder; "
            f"this model has {' and '.join(streams) or 'no stack'}: record what you want with a tape, such as "
            "tape=Tape('attn.probs')"
        )
    taps: dict[str, tuple[str, ...]] = {}
    if hidden_states:
        for stream, its in streams.items():
            last = its[-1] if not network.NORMED_LAST else "memory" if stream == "source" else "final"
            taps[f"{PREFIXES.get(stream, '')}hidden_states"] = (*its[:-1], last)
    if attentions:
        for name, group in groups.items():
            probs = tuple(f"{layer.attention.path}.probs" for layer in group.layers)
            taps[f"{PREFIXES.get(name, '')}attentions"] = probs
    return taps


def _is_recorded() -> bool:
    """Whether this call is recorded as a program."""
    traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return traced or torch.compiler.is_exporting()


def _is_causal(network: Network) -> bool:
    """Whether the network answers token by token, so that a cache helps it."""
    return any(block.attn.pattern.causal for stack in network.stacks().values() for block in stack)


def complete_inputs(
    given: dict[str, Any], network: Network, labels: Any, cache: KeyValueCache | None, config: Mapping[str, Any]
) -> None:
    """Add the inputs that follow from others: a decoder's from its labels, and the mask of ids that hold padding.

    Args:
        labels: of an encoder-decoder, else None
    Raises: as `decoder_inputs`.
    """
    if labels is None and isinstance(network, EncoderDecoder) and network.source_as_labels:
        labels = given.get("input_ids")
    if labels is not None and given.get("decoder_input_ids") is None:
        given["decoder_input_ids"] = decoder_inputs(network, labels, config)
    if given.get("attention_mask") is None and (cache is None or not cache.length):
        given["attention_mask"] = padding_mask(network, given.get("input_ids"), config.get("pad_token_id"))


def padding_mask(network: Network, ids: Any, pad_id: int | None) -> Tensor | None:
    """The attention mask of ids padded at their ends, where none is given and the head reads each row's last token.

    A head of another kind reads padding as tokens, as the reference does. [B, T]
    """
    head = network.head
    if head is None or not head.reads_last_token or "decoder_input_ids" in network.READS or pad_id is None:
        return None
    if not isinstance(ids, Tensor) or ids.dim() != 2 or not ids.shape[1]:
        return None  # who checks the ids says why not
    tokens = (ids != pad_id).long()
    tokens[:, 0] = 1  # a row of padding alone: its first
    return tokens.flip(1).cummax(1).values.flip(1)


def decoder_inputs(network: Network, labels: Tensor, config: Mapping[str, Any]) -> Tensor:
    """The inputs of an encoder-decoder's decoder that are made of its labels: teacher forcing. [B, T]

    Raises: ConfigError: the config names no start token. DataError: labels of another shape.
    """
    if not isinstance(network, EncoderDecoder):
        raise UnsupportedError("labels alone make no decoder_input_ids of a program; give decoder_input_ids with them")
    if not isinstance(labels, Tensor) or labels.dim() != 2 or labels.dtype not in (torch.int64, torch.int32):
        raise DataError(f"labels is {safe_repr(labels)}; it must be int64 of shape [B, T]: the ids of the answers")
    pad = config.get("pad_token_id")
    return network.decoder_inputs(labels, config.get("decoder_start_token_id"), 0 if pad is None else pad)


def encoder_of(network: Network, family: str) -> Callable[..., Output]:
    """The encoder of an encoder-decoder, called by itself: `input_ids` [B, T], or features → `last_hidden_state`.

    Raises: UnsupportedError: the network has no encoder of its own.
    """
    if not isinstance(network, EncoderDecoder):
        raise UnsupportedError(f"a {family!r} model has no encoder besides a decoder; call the model itself")

    def encode(input_ids: Any = None, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
        first = network.READS[0]
        given = {first: input_ids, "attention_mask": attention_mask, **inputs}
        call = CallOptions.take(network, {}, given, None, None)
        source = next((x for x in (given[first], given.get("inputs_embeds")) if isinstance(x, Tensor)), None)
        # The decoder's ids are not read; the check of a call asks for them.
        target = torch.zeros(1 if source is None else len(source), 1).long()
        taps = {name: its for name, its in call.layers.items() if name.startswith("encoder_")}
        tape = Tape(*dict.fromkeys(tap for its in taps.values() for tap in its)) if taps else None
        batch, flow = read_call(network, family, {**given, "decoder_input_ids": target}, cache=None, tape=tape)
        states = network.memory(batch, flow).states
        recorded = {} if tape is None else {name: tuple(tape.taps[tap] for tap in its) for name, its in taps.items()}
        output = Output({name.removeprefix("encoder_"): x for name, x in recorded.items()}, last_hidden_state=states)
        return output.to_tuple() if call.as_tuple else output

    return encode


def shared_features(network: Any, family: str, task: str, side: int, inputs: dict[str, Any]) -> Tensor:
    """Embeddings in the space that texts and images share (CLIP), of the network's first or second input. [rows, E]

    Raises: UnsupportedError: the model has no such space. DataError: other inputs than this side reads.
    """
    if task != "zero-shot-image-classification":
        raise UnsupportedError(f"a {family!r} model has no space that texts and images share")
    batch, flow = read_call(network, family, inputs, cache=None, tape=None)
    features: Tensor | None = network.head.project(*network.pooled(batch, flow))[side]
    if features is None:
        raise DataError(f"give {network.READS[side]}=…; got {', '.join(inputs) or 'nothing'}")
    features.pooler_output = features  # type: ignore[attr-defined] # newer releases of the reference return an object
    return features


def head_loss(
    network: Network, family: Family, task: str, output: Output, labels: Tensor | dict[str, Tensor]
) -> Tensor:
    """The loss of the head. Raises: ConfigError: there is none."""
    if network.head is None:
        raise ConfigError(
            "labels need a head, and this model was loaded without one; load it with "
            f"task={' or '.join(repr(other) for other in family.tasks if other != task)}"
        )
    return network.head.loss(output, labels)
