"""How much memory a model takes, to train it and to use it, from its shapes alone.

    training    weights + gradients + optimiser + activations
    inference   weights + activations of one block + keys and values of earlier tokens

Two ways to train with less, which are not the same: to recompute what blocks had kept (less memory, a third more work),
and to offload it to the host's memory until the backward pass asks for it (the same work, and its way there and back).

Nothing is run, so a network on the meta device will do.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from torch import nn

from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.block_sparse import BlockSparseAttention
from glassformer.core.blocks import Block, ParallelBlock
from glassformer.core.experts import Experts
from glassformer.core.feed_forward import FeedForward, GatedFeedForward, QuickGELU
from glassformer.core.flow import Node
from glassformer.core.heads import LanguageModel, MaskedLanguageModel
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.stack import Stack
from glassformer.core.waves import TimeConvolution, TimeNorm
from glassformer.errors import ConfigError
from glassformer.inspect.summary import ONCE_A_TEXT, share

WIDE = 4  # bytes of a float32
NARROW = 2  # bytes of a float16 or bfloat16


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """Bytes by purpose.

    weights · gradients: a number a weight · optimiser: what AdamW keeps of each weight
    activations: what the backward pass will need again · cache: keys and values of earlier tokens
    """

    weights: int
    gradients: int
    optimiser: int
    activations: int
    cache: int

    @property
    def peak(self) -> int:
        """What is held at the worst moment.

        Activations are dropped, block by block, where gradients appear: never are both there in full.
        """
        return self.weights + self.optimiser + self.cache + max(self.gradients, self.activations)


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What `memory` found, for `batch` texts of `tokens` tokens.

    training: all in float32 · mixed: 16-bit weights beside a float32 copy · inference: in the network's own dtype
    recomputed: training, where blocks keep only what enters them (`Flow.recompute`)
    offloaded: training, where the host's memory holds the activations; the device, those of one block
    """

    batch: int
    tokens: int
    training: Use
    mixed: Use
    inference: Use
    recomputed: Use
    offloaded: Use

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, for JSON."""
        uses = {
            name: getattr(self, name)
            for name in ("training", "mixed", "inference", "recomputed", "offloaded")
        }
        return {
            "batch": self.batch,
            "tokens": self.tokens,
            **{name: {**asdict(use), "peak": use.peak} for name, use in uses.items()},
        }


def memory(network: Node, *, batch: int = 1, tokens: int = 128) -> Memory:
    """The memory of one training step with AdamW, and of reading or continuing texts.

                     training in fp32   mixed (16-bit weights)        inference
        weights      4 a weight         2                             as stored
        gradients    4                  2                             0
        optimiser    8: two moments     12: and an fp32 copy          0
        activations  all blocks         all blocks                    the largest block
        cache        0                  0                             2 · heads of k and v · E a token and layer

    Activations are what autograd keeps for the backward pass, numbers a token:

        linear layer, convolution  its input; where two read the same, once
        norm                       its input; root-mean-square: the normed input too
        attention                  q, k, v, before and after rotary, and a number a head, since no matrix of T × T is
                                   formed; but where a learned bias is added to the scores, T a head
        attention to blocks        also the k and v of all blocks that the token's block meets, and a number for each
        feed-forward               what its activation reads; gated: also both factors
        experts                    what the k chosen ones have read, kept and answered
        head over a vocabulary     3 a word: logits, their log-softmax, its gradient
        everything else            0

    Not counted: the masks of dropout, with which attention is not fused on a CPU and forms its T × T after all; the
    optimiser's passing copies; what the libraries themselves need; in inference, logits of other than the last token.
    An encoder-decoder reads `tokens` tokens on each side.

    Args:
        network: any tree of Nodes, on any device, meta included.
        batch: B, how many texts at a time.
        tokens: T, the length of each.
    Raises: ConfigError: `batch` or `tokens` is below 1.
    Source: bytes a weight: Rajbhandari et al. 2020, section 3.1; activations: Korthikanti et al. 2022, section 4.1.
    """
    for name, value in (("batch", batch), ("tokens", tokens)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; give at least 1")
    parameters = list(network.parameters())
    count = sum(parameter.numel() for parameter in parameters)
    own = max((parameter.element_size() for parameter in parameters), default=WIDE)
    kept = _kept(network, tokens, Fraction(tokens))
    blocks = [
        _kept(block, tokens, Fraction(tokens))
        for stack in network.modules()
        if isinstance(stack, Stack)
        for block in stack
    ]
    entering = _kept(network, tokens, Fraction(tokens), forgets=True)
    one_block = max((block.bytes(WIDE) for block in blocks), default=0)
    training = Use(
        weights=WIDE * count,
        gradients=WIDE * count,
        optimiser=2 * WIDE * count,
        activations=batch * kept.bytes(WIDE),
        cache=0,
    )
    return Memory(
        batch=batch,
        tokens=tokens,
        training=training,
        recomputed=replace(training, activations=batch * (entering.bytes(WIDE) + one_block)),
        offloaded=replace(training, activations=batch * one_block),
        mixed=Use(
            weights=NARROW * count,
            gradients=NARROW * count,
            optimiser=3 * WIDE * count,
            activations=batch * kept.bytes(NARROW),
            cache=0,
        ),
        inference=Use(
            weights=sum(parameter.numel() * parameter.element_size() for parameter in parameters),
            gradients=0,
            optimiser=0,
            activations=batch * max((block.bytes(own) for block in blocks), default=0),
            cache=batch * tokens * own * sum(map(_cached, network.modules())),
        ),
    )


class Kept(NamedTuple):
    """How many numbers autograd keeps: in the dtype of the weights, and those that are float32 whatever it is."""

    plain: Fraction = Fraction(0)
    wide: Fraction = Fraction(0)

    def bytes(self, width: int) -> int:
        return round(self.plain * width + self.wide * WIDE)


def _kept(module: nn.Module, tokens: int, rows: Fraction, forgets: bool = False) -> Kept:
    """What a module and all below it keep of one text; `rows` vectors go through it.

    forgets: blocks keep what enters them, and nothing else
    """
    rows = Fraction(1) if isinstance(module, ONCE_A_TEXT) else rows
    if forgets and isinstance(module, (Block, ParallelBlock)):
        return Kept(rows * module.attn.spec.width)
    plain, wide = _own(module, tokens)
    found = [Kept(rows * plain, rows * wide)]
    found += [
        _kept(child, tokens, rows * share(module, inner), forgets)
        for inner, child in module.named_children()
        if not _reads_what_another_does(module, inner)
    ]
    return Kept(sum((k.plain for k in found), Fraction(0)), sum((k.wide for k in found), Fraction(0)))


def _reads_what_another_does(module: nn.Module, inner: str) -> bool:
    """`gate` reads what `up` reads, and the k and v of all layers read the one memory."""
    return (isinstance(module, GatedFeedForward) and inner == "gate") or (
        isinstance(module, CrossAttention) and inner == "kv"
    )


def _own(module: nn.Module, tokens: int) -> tuple[int, int]:
    """Numbers that a module keeps itself of each vector: in the dtype of the weights, and in float32."""
    match module:
        case nn.Linear():
            return module.in_features, 0
        case nn.Conv1d() | nn.Conv2d():
            return module.in_channels * math.prod(module.stride), 0
        case TimeConvolution():
            return module.conv.out_channels * _kept_by(module.activation), 0
        case LayerNorm():
            return module.weight.numel(), 2
        case TimeNorm():
            return module.weight.numel(), 0
        case RMSNorm():
            return module.weight.numel(), module.weight.numel() + 1
        case BlockSparseAttention() if not module.pattern.is_whole(tokens):
            sparse, met = module.spec, 5 + module.spec.random
            return (2 * met + 5) * sparse.heads * sparse.E + met * sparse.heads, sparse.heads
        case Attention() | CrossAttention():
            spec = module.spec
            return (spec.heads + 2 * spec.K) * spec.E, spec.heads
        case FeedForward():
            return module.up.out_features * _kept_by(module.activation), 0
        case GatedFeedForward():
            return module.up.out_features * (2 + _kept_by(module.activation)), 0
        case ParallelBlock():
            return -module.attn.spec.width, 0  # its sub-layers read the same, and each has counted it
        case Stack():
            specs = [block.attn.spec for block in module]
            turned = sum((spec.heads + spec.K) * spec.E for spec in specs) if module.rotary is not None else 0
            shares = sum(spec.heads * tokens for spec in specs) if module.bias is not None else 0
            return turned + shares, 0
        case Experts():
            return module.spec.chosen * module.spec.width, 0
        case LanguageModel() | MaskedLanguageModel():
            return module.decoder.out_features, 2 * module.decoder.out_features
        case _:
            return 0, 0


def _kept_by(activation: nn.Module) -> int:
    """Numbers a neuron that an activation keeps: none where its output will do, which the next layer keeps."""
    match activation:
        case nn.ReLU() | nn.Tanh():
            return 0
        case QuickGELU():
            return 2
        case _:
            return 1


def _cached(module: nn.Module) -> int:
    """Numbers a token in the key/value cache: causal attention's own keys and values, and those of a memory."""
    if not isinstance(module, (Attention, CrossAttention)):
        return 0
    caches = isinstance(module, CrossAttention) or module.pattern.causal
    return 2 * module.spec.K * module.spec.E if caches else 0
