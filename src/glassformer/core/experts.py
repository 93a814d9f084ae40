"""Mixture of experts: many feed-forward layers side by side, of which each token goes through a few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, Spec
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec, make_feed_forward
from glassformer.core.flow import Flow, Node
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertsSpec(Spec):
    """Mixture of experts: `experts` feed-forward layers (X), a token goes through `experts_per_token` (k) of them."""

    expert: FeedForwardSpec | GatedFeedForwardSpec
    experts: Count
    experts_per_token: Count

    def validate(self) -> None:
        if self.experts_per_token > self.experts:
            raise ConfigError(
                f"ExpertsSpec.experts_per_token is {self.experts_per_token}, of {self.experts} experts; "
                "a token cannot go through more than there are (config.json: num_experts_per_tok, num_local_experts)"
            )

    @property
    def width(self) -> int:
        return self.expert.width


class RouterScores(nn.Linear):
    """Router logits, x Wᵀ. A class of its own so that quantization leaves it out: a rounded logit misroutes a token."""


class Router(Node):
    """Top-k router: chooses the experts of each token, and their weights.

        probs = softmax(x Wᵀ, over the experts);   chosen = the k largest;   weights = probs[chosen] / their sum

    Args:
        x: the residual stream after the norm. [B, T, D]
    Returns: chosen [B, T, k], the most probable first, and weights [B, T, k], which sum to 1 for each token.
    Taps: probs [B T X] · chosen [B T k]
    Source: Shazeer et al. 2017, section 2.1; Jiang et al. 2024, section 2.1.
    Differs: the first paper adds noise while training, to balance the load; the second softmaxes the k largest scores,
    which is the same as dividing k of all probabilities by their sum.
    """

    TAPS = ("probs", "chosen")

    def __init__(self, spec: ExpertsSpec) -> None:
        super().__init__()
        self.experts_per_token = spec.experts_per_token
        self.scores = RouterScores(spec.width, spec.experts, bias=False)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> tuple[Int[Tensor, "B T k"], Float[Tensor, "B T k"]]:
        wide = torch.promote_types(x.dtype, torch.float32)
        probs = self.tap(flow, "probs", torch.softmax(self.scores(x), dim=-1, dtype=wide))  # [B, T, X]
        chosen = self.tap(flow, "chosen", probs.topk(self.experts_per_token).indices)  # [B, T, k]
        weights = probs.gather(-1, chosen)
        return chosen, weights / weights.sum(dim=-1, keepdim=True)


class Experts(Node):
    """Sparse mixture of experts in place of a feed-forward layer: k of X experts run for each token.

                   ┌ expert 0 ─┐
        x ─ router ┤    …      ├ weigh, add ─ out        out = Σ over the k chosen: weight · expert(x)
                   └ expert X-1┘

    Tokens are sorted by expert, so that each expert runs once, on all tokens that chose it.

    Args:
        x: the residual stream after the norm. [B, T, D]
    Returns: what is added to the residual stream. [B, T, D]
    Taps: out [B T D] · of the router: probs, chosen · of each expert: neurons [1 n F], out [1 n D], where n tokens,
        first to last, chose it
    Source: Shazeer et al. 2017, section 2; Jiang et al. 2024, section 2.1 (gated experts in place of every
        feed-forward layer).
    Differs: experts have no capacity limit, so no token is dropped.
    """

    TAPS = ("out",)

    def __init__(self, spec: ExpertsSpec) -> None:
        super().__init__()
        self.spec = spec
        self.router = Router(spec)
        self.experts = nn.ModuleList(make_feed_forward(spec.expert) for _ in range(spec.experts))

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        chosen, weights = self.router(x, flow)  # [B, T, k] each
        choices = chosen.flatten()
        places = torch.arange(choices.shape[0], device=choices.device)
        order = (choices * choices.shape[0] + places).argsort()  # choices by expert, in the order of the tokens
        sizes = (choices[:, None] == torch.arange(self.spec.experts, device=choices.device)).sum(0).tolist()
        for size in sizes:  # what `torch.export`, which sees no numbers, has to know about them to split by them
            torch._check(size >= 0)
        torch._check(sum(sizes) == choices.shape[0])
        routed = x.flatten(0, 1)[order // self.spec.experts_per_token].split(sizes)  # [n, D] for each expert
        # An expert that no token chose runs on an empty tensor: its taps exist, and its gradients are 0, not None.
        outputs = [expert(tokens[None], flow)[0] for expert, tokens in zip(self.experts, routed, strict=True)]
        by_token = torch.cat(outputs)[order.argsort()].unflatten(0, chosen.shape)  # [B, T, k, D]
        mixed = (weights[..., None] * by_token).sum(dim=-2).to(x.dtype)
        return self.tap(flow, "out", mixed)
