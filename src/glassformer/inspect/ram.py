"""RAM estimate of training and inference, from the shapes of a network alone.

    training    weights + gradients + optimiser + activations
    inference   weights + activations of one block + keys and values of earlier tokens

Two ways to train with less: activation recomputation (gradient checkpointing: less memory, a third more compute), and
activation offloading to host memory until the backward pass (the same compute, and two transfers).

Nothing is run, so a network on the meta device will do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, Protocol, runtime_checkable

from torch import nn

from glassformer.core.attention import Attention, AttentionSpec
from glassformer.core.blocks import Block, ParallelBlock
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.experts import Experts
from glassformer.core.feed_forward import FeedForward, GatedFeedForward, saved_by_activation
from glassformer.core.flow import Node
from glassformer.core.language_heads import CausalLMHead, MaskedLMHead
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.quantised import bytes_of_levels, count_weights
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.inspect.summary import ONCE_A_TEXT, TextLengths, input_ratio
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, byte_amount

WIDE = 4  # bytes of a float32
NARROW = 2  # bytes of a float16 or bfloat16


@dataclass(frozen=True, slots=True)
class RamUsage(Record, keys=("weights", "gradients", "optimiser", "activations", "cache", "peak")):
    """RAM in bytes, by purpose.

    weights, gradients: one of each parameter
    optimiser: AdamW state
    activations: saved for the backward pass
    cache: key/value cache
    """

    weights: int
    gradients: int
    optimiser: int
    activations: int
    cache: int = 0

    @property
    def peak(self) -> int:
        """Largest RAM at any moment, in bytes."""
        # The backward pass frees activations, block by block, as gradients appear: never are both there in full.
        return self.weights + self.optimiser + self.cache + max(self.gradients, self.activations)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RamEstimate(Report, kind="memory"):
    """RAM estimate for a batch of `batch` texts of `tokens` tokens.

    training: in float32
    mixed: mixed precision, with 16-bit weights and a float32 copy
    inference: in the network's own dtype
    recomputed: training with activation recomputation: blocks save only their input (`Flow.recompute`)
    offloaded: training with activations in host memory; the device holds those of one block
    """

    batch: int
    tokens: int
    training: RamUsage
    mixed: RamUsage
    inference: RamUsage
    recomputed: RamUsage
    offloaded: RamUsage

    def tables(self) -> list[Table]:
        """Bytes by purpose, of training and of inference."""
        columns = {"training, fp32": self.training, "training, mixed": self.mixed, "inference": self.inference}
        purposes = ("weights", "gradients", "optimiser", "activations", "cache", "peak")
        rows = [[name, *(byte_amount(getattr(use, name)) for use in columns.values())] for name in purposes]
        return [Table([f"memory, {self.batch:,} × {self.tokens:,} tokens", *columns], rows)]

    def remarks(self) -> list[str]:
        return [
            f"Peak of training in fp32 with gradient checkpointing: {byte_amount(self.recomputed.peak)}; "
            f"with activations offloaded to the CPU: {byte_amount(self.offloaded.peak)}.",
            "Optimiser: AdamW's two moments in fp32, and for 16-bit weights an fp32 master copy. "
            "Activations: what autograd saves in the forward pass, without dropout; in inference those of one block. "
            "Cache: keys and values of every token. Peak: activations are freed as gradients are computed, so the "
            "larger of the two counts.",
        ]


def ram(network: Node, *, batch: int = 1, tokens: int = 128) -> RamEstimate:
    """Estimate the RAM of one training step with AdamW, and of inference.

                     training in fp32   mixed (16-bit weights)        inference
        weights      4 a weight         2                             as stored
        gradients    4                  2                             0
        optimiser    8: two moments     12: and an fp32 copy          0
        activations  all blocks         all blocks                    the largest block
        cache        0                  0                             2 · heads of k and v · E a token and layer

    Activations are what autograd saves for the backward pass (`_own_activations`). Not counted: dropout masks (with
    dropout, attention on a CPU is not fused and forms T × T matrices); temporary copies of the optimiser; RAM of the
    libraries; in inference, logits of tokens other than the last. Encoder and decoder of an encoder-decoder read
    `tokens` tokens each.

    Args:
        network: any tree of Nodes, on any device, meta included.
        batch: B, batch size.
        tokens: T, length of each text.
    Raises: ConfigError: `batch` or `tokens` is below 1.
    Source: bytes a weight: Rajbhandari et al. 2020, section 3.1; activations: Korthikanti et al. 2022, section 4.1.
    """
    for name, value in (("batch", batch), ("tokens", tokens)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; give at least 1")
    parameters = list(network.parameters())
    count = count_weights(network)
    width = max((parameter.element_size() for parameter in parameters), default=WIDE)
    sides = TextLengths(tokens, tokens)
    saved = _activations(network, sides, Fraction(tokens))
    block_inputs = _activations(network, sides, Fraction(tokens), recompute=True).bytes(WIDE)
    stacks = [module for module in network.modules() if isinstance(module, Stack)]
    blocks = [_activations(block, sides, Fraction(tokens)) for stack in stacks for block in stack]
    one_block = max((block.bytes(WIDE) for block in blocks), default=0)
    training = RamUsage(WIDE * count, WIDE * count, 2 * WIDE * count, batch * saved.bytes(WIDE))
    stored = sum(parameter.nbytes for parameter in parameters) + bytes_of_levels(network)
    inference = batch * max((block.bytes(width) for block in blocks), default=0)
    cache = batch * tokens * width * sum(map(_cache_numbers, network.modules()))
    return RamEstimate(
        batch=batch,
        tokens=tokens,
        training=training,
        recomputed=replace(training, activations=batch * (block_inputs + one_block)),
        offloaded=replace(training, activations=batch * one_block),
        mixed=RamUsage(NARROW * count, NARROW * count, 3 * WIDE * count, batch * saved.bytes(NARROW)),
        inference=RamUsage(stored, gradients=0, optimiser=0, activations=inference, cache=cache),
    )


class ActivationCount(NamedTuple):
    """Numbers saved by autograd: `plain` in the dtype of the weights, `wide` always in float32."""

    plain: Fraction = Fraction(0)
    wide: Fraction = Fraction(0)

    def bytes(self, width: int) -> int:
        return round(self.plain * width + self.wide * WIDE)


def _activations(module: nn.Module, sides: TextLengths, rows: Fraction, recompute: bool = False) -> ActivationCount:
    """Numbers that a module and its submodules save for one text.

    Args:
        rows: number of vectors that go through it
        recompute: blocks save only their input
    """
    rows = Fraction(1) if isinstance(module, ONCE_A_TEXT) else rows
    if recompute and isinstance(module, (Block, ParallelBlock)):
        return ActivationCount(rows * module.attn.spec.width)
    plain, wide = _own_activations(module, sides)
    if isinstance(module, SavesMore):
        more_plain, more_wide = module.saves_more(sides.tokens)
        plain, wide = plain + more_plain, wide + more_wide
    counts = [ActivationCount(rows * plain, rows * wide)]
    counts += [
        _activations(child, sides.of(module, inner), _rows(module, inner, sides, rows), recompute)
        for inner, child in module.named_children()
        if not _shares_input(module, inner)
    ]
    return ActivationCount(sum((k.plain for k in counts), Fraction(0)), sum((k.wide for k in counts), Fraction(0)))


def _rows(module: nn.Module, inner: str, sides: TextLengths, rows: Fraction) -> Fraction:
    """Vectors that go through a submodule."""
    return rows * input_ratio(module, inner) * Fraction(sides.of(module, inner).tokens, sides.tokens)


def activations(network: Node, *, tokens: int, source: int | None = None) -> dict[str, int]:
    """Bytes that each module, with its submodules, saves of one text for the backward pass, as `ram` counts them.

    Args:
        tokens: T, length of the text
        source: of an encoder-decoder, the length of what its encoder reads; None = T
    Returns: path → bytes in the dtype of the weights; modules that share the input of another are left out.
    """
    width = max((parameter.element_size() for parameter in network.parameters()), default=WIDE)
    sizes: dict[str, int] = {}

    def look(path: str, module: nn.Module, sides: TextLengths, rows: Fraction) -> None:
        sizes[path] = _activations(module, sides, rows).bytes(width)
        for inner, child in module.named_children():
            if not _shares_input(module, inner):
                inner_path = f"{path}.{inner}" if path else inner
                look(inner_path, child, sides.of(module, inner), _rows(module, inner, sides, rows))

    look("", network, TextLengths(tokens, tokens if source is None else source), Fraction(tokens))
    return sizes


@runtime_checkable
class SavesMore(Protocol):
    """A module of a family that saves more for the backward pass than its class in the core."""

    def saves_more(self, tokens: int) -> tuple[int, int]:
        """Numbers per vector, in texts of this many tokens: in the dtype of the weights, and in float32."""


def _shares_input(module: nn.Module, inner: str) -> bool:
    """Whether a submodule shares its input with another: `gate` with `up`, cross-attention with other layers."""
    return (isinstance(module, GatedFeedForward) and inner == "gate") or (
        isinstance(module, CrossAttention) and inner == "kv"
    )


def _own_activations(module: nn.Module, sides: TextLengths) -> tuple[Fraction | int, int]:
    """Numbers per vector that a module itself saves: in the dtype of the weights, and in float32.

    linear layer, convolution  its input; where two read the same, once
    norm                       its input; root-mean-square: the normed input too
    attention                  q, k, v, before and after rotary; a number a head, or with a learned bias T a head
    feed-forward               what its activation reads; gated: also both factors
    experts                    input, saved activations and output of the k chosen ones
    head over a vocabulary     3 a word: logits, their log-softmax, its gradient; with a soft cap, its tanh
    """
    match module:
        case nn.Linear():
            return module.in_features, 0
        case nn.Conv1d() | nn.Conv2d():
            return module.in_channels * math.prod(module.stride), 0
        case LayerNorm():
            return module.weight.numel(), 2
        case RMSNorm():
            return module.weight.numel(), module.weight.numel() + 1
        case CrossAttention():
            plain, wide = _attention_activations(module.spec)
            return plain + 2 * module.spec.K * module.spec.E * (Fraction(sides.source, sides.tokens) - 1), wide
        case Attention():
            return _attention_activations(module.spec)
        case FeedForward():
            return module.up.out_features * saved_by_activation(module.activation), 0
        case GatedFeedForward():
            return module.up.out_features * (2 + saved_by_activation(module.activation)), 0
        case ParallelBlock():
            # Where its sub-layers share one input, each of them has counted it.
            return -module.attn.spec.width * (module.ffn_norm is None), 0
        case Stack():
            specs = [block.attn.spec for block in module]
            return sum(spec.heads * sides.tokens for spec in specs) if module.bias is not None else 0, 0
        case Experts():
            return module.spec.experts_per_token * module.spec.width, 0
        case CausalLMHead() | MaskedLMHead():
            capped = module.logit_cap is not None
            return module.decoder.out_features * (1 + capped), 2 * module.decoder.out_features
    return 0, 0


def _attention_activations(spec: AttentionSpec) -> tuple[int, int]:
    """Numbers per vector that attention saves by itself: in the dtype of the weights, and in float32."""
    # Norms of each head's q and k: as modules they count one vector, but they norm heads + K of them.
    by_head = spec.qk_norm is not None and spec.qk_norm.width == spec.E
    normed = (spec.heads + spec.K - 2) * by_head
    rotated = (spec.heads + spec.K) * (spec.rotary is not None)
    # A soft cap is computed step by step, and once more in the backward pass: no sum of each row is kept.
    sums = spec.heads * (spec.score_cap is None)
    return (spec.heads + 2 * spec.K + normed + rotated) * spec.E, sums + normed * (spec.E + 1)


def _cache_numbers(module: nn.Module) -> int:
    """Numbers per token in the key/value cache, of causal self-attention and of cross-attention."""
    if not isinstance(module, (Attention, CrossAttention)):
        return 0
    caches = isinstance(module, CrossAttention) or module.pattern.causal
    return 2 * module.spec.K * module.spec.E if caches else 0
