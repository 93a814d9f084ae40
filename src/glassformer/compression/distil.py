"""Knowledge distillation: the losses by which a small student learns what a large teacher predicts.

    teacher's logits z_t ─ softmax(z_t / T) ─┐
                                             ├─ T² · KL ──────> (1 - alpha) ┐
    student's logits z_s ─ softmax(z_s / T) ─┘                              ├─ loss of a label
                     └──── cross-entropy with the label ──────> alpha       ┘
    hidden states, attention      squared distance, cosine, KL of attention, each with a weight of its own

At T > 1 the probabilities of wrong classes show which of them the teacher confuses. Their gradient is 1/T² as large,
hence the factor T²: alpha means the same at every temperature. All losses are sums over labels or tokens, so that a
step can be cut into micro-batches.

Sources: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network"; hidden states and attention:
Jiao et al. 2020, "TinyBERT"; cosine loss, and a student made of every other layer: Sanh et al. 2019, "DistilBERT".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError
from glassformer.files.schema import BelowOne, Count, Doc, NonNegative, NonNegativeInt, Positive, Schema, Share

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True)
class TeacherLosses(Schema):
    """What a student learns of a teacher: which losses, with which weights."""

    alpha: Annotated[Share, Doc("Weight of the labels' own loss; 1 is training without a teacher.")] = 0.5
    temperature: Annotated[Positive, Doc("Temperature T of both distributions.")] = 2.0
    divergence: Annotated[
        Literal["forward", "reverse", "jsd"],
        Doc("Divergence: forward, KL(teacher ‖ student), reverse, KL(student ‖ teacher), or jsd, between both."),
    ] = "forward"
    beta: Annotated[BelowOne, Doc("Of jsd: the teacher's share of the mean distribution, above 0.")] = 0.5
    on_policy: Annotated[
        Share,
        Doc("Share of the examples whose continuation or answer the student writes itself, and the teacher scores."),
    ] = 0.0
    max_new_tokens: Annotated[Count, Doc("Tokens that the student writes of an example at most.")] = 64
    hidden: Annotated[NonNegative, Doc("Weight of the squared distance of hidden states, layer by layer.")] = 0.0
    attention: Annotated[NonNegative, Doc("Weight of the divergence of attention, layer by layer.")] = 0.0
    cosine: Annotated[NonNegative, Doc("Weight of 1 - cosine of the final hidden states.")] = 0.0
    top_k: Annotated[
        Count | None, Doc("Number of the teacher's logits that are used of a position, the largest. None = all.")
    ] = None

    def validate(self) -> None:
        if self.alpha == 1 and not (self.hidden or self.attention or self.cosine):
            return  # plain training, to compare with
        if self.top_k is not None and self.divergence != "forward":
            raise ConfigError(
                f"divergence is {self.divergence}, which needs all logits of the teacher; leave top_k out"
            )
        if self.divergence == "jsd" and not self.beta:
            raise ConfigError("beta is 0, where the divergence of jsd is 0 too; take a number between 0 and 1")
        if self.on_policy and self.alpha:
            raise ConfigError(
                f"alpha is {self.alpha:g}, and on_policy {self.on_policy:g}: what the student writes has no labels but "
                "its own words; set alpha to 0"
            )
        if self.top_k == 1 and self.alpha < 1:
            raise ConfigError("top_k is 1; one logit alone has the probability 1 at every temperature: take more")

    @property
    def matches_states(self) -> bool:
        """Does the student match activations, besides logits?"""
        return bool(self.hidden or self.attention or self.cosine)


@dataclass(frozen=True, kw_only=True)
class Distillation(TeacherLosses):
    """The section `distillation` of a run's configuration."""

    teacher: Annotated[str, Doc("Teacher: a run folder, or a model with a head for the same task and labels.")]
    layers: Annotated[
        Count | list[NonNegativeInt] | None,
        Doc("Student made of the model's layers: how many, evenly spaced, or which, from 0. None = all."),
    ] = None
    store: Annotated[
        str | None, Doc("Folder of the teacher's logits, which many students share. Default: that of the run.")
    ] = None


def even_layers(count: int, of: int) -> list[int]:
    """Layers that are evenly spaced, the first and the last among them: 3 of 6 are 0, 2 and 5; one is the first.

    Raises: ConfigError: more than there are.
    """
    if count > of:
        raise ConfigError(f"layers is {count}, and the model has {of}; take at most as many")
    return [0] if count == 1 else [int(x) for x in np.linspace(0, of - 1, count).round()]


def matching_states(student: int, teacher: int) -> list[int]:
    """Of each of the student's hidden states, the teacher's at the same depth: 3 of 6 layers: 0, 2, 4, 6."""
    return [round(i * teacher / student) for i in range(student + 1)]


def soft_targets(student: Float[Tensor, "N C"], teacher: Float[Tensor, "N C"], temperature: float) -> Float[Tensor, ""]:
    """T² · Σ KL(softmax(z_t / T) ‖ softmax(z_s / T)), in at least fp32."""
    predicted, target = (F.log_softmax(_wide(x) / temperature, dim=-1) for x in (student, teacher))
    return temperature**2 * F.kl_div(predicted, target, reduction="sum", log_target=True)


def top_soft_targets(
    student: Float[Tensor, "N C"], ids: Int[Tensor, "N k"], logits: Float[Tensor, "N k"], temperature: float
) -> Float[Tensor, ""]:
    """The same where the teacher's k largest logits are all that is known: its distribution over these alone.

    T² · Σ_k p_k (log p_k - log q_k),      p = softmax over the k, q = softmax over all C
    """
    predicted = F.log_softmax(_wide(student) / temperature, dim=-1).gather(-1, ids)
    target = F.log_softmax(_wide(logits) / temperature, dim=-1)
    return temperature**2 * (target.exp() * (target - predicted)).sum()


def soft_yes_or_no(
    student: Float[Tensor, "N C"], teacher: Float[Tensor, "N C"], temperature: float
) -> Float[Tensor, ""]:
    """T² · Σ KL of Bernoulli distributions: of several labels each is a yes or no of its own."""
    z, target = _wide(student) / temperature, _wide(teacher) / temperature
    p = target.sigmoid()
    terms = p * (F.logsigmoid(target) - F.logsigmoid(z)) + (1 - p) * (F.logsigmoid(-target) - F.logsigmoid(-z))
    return temperature**2 * terms.sum()


def reverse_soft_targets(
    student: Float[Tensor, "N C"], teacher: Float[Tensor, "N C"], temperature: float
) -> Float[Tensor, ""]:
    """T² · Σ KL(softmax(z_s / T) ‖ softmax(z_t / T)): a student that is too small for all keeps to what it can say.

    Source: Gu et al. 2024, "MiniLLM"; Agarwal et al. 2024, "On-Policy Distillation of Language Models".
    """
    return soft_targets(teacher, student, temperature)


def between_soft_targets(
    student: Float[Tensor, "N C"], teacher: Float[Tensor, "N C"], temperature: float, beta: float
) -> Float[Tensor, ""]:
    """T² · Σ JSD_β(p ‖ q): the generalised Jensen-Shannon divergence of teacher p and student q, which is bounded.

        β KL(p ‖ m) + (1 - β) KL(q ‖ m),      m = β p + (1 - β) q

    Near β = 0 it is β times the forward divergence, near 1 it is 1 - β times the reverse one.
    Source: Agarwal et al. 2024, "On-Policy Distillation of Language Models", section 2.
    """
    q, p = (F.log_softmax(_wide(x) / temperature, dim=-1) for x in (student, teacher))
    m = torch.logaddexp(p + math.log(beta), q + math.log1p(-beta))
    terms = beta * p.exp() * (p - m) + (1 - beta) * q.exp() * (q - m)
    return temperature**2 * terms.sum()


def state_distance(student: Float[Tensor, "N D"], teacher: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    """Σ over tokens of the mean squared difference of their states."""
    return (_wide(student) - _wide(teacher)).square().mean(-1).sum()


def cosine_distance(student: Float[Tensor, "N D"], teacher: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    """Σ over tokens of 1 - cosine of their states."""
    return (1 - F.cosine_similarity(_wide(student), _wide(teacher), dim=-1)).sum()


def attention_divergence(
    student: Float[Tensor, "B H T S"], teacher: Float[Tensor, "B G T S"], real: Tensor
) -> Float[Tensor, ""]:
    """Σ over tokens of KL(teacher's attention ‖ student's), the mean over heads; of another number of heads, of means.

    Args:
        real: which tokens are no padding. [B, T] bool
    """
    if student.shape[1] != teacher.shape[1]:
        student, teacher = student.mean(1, keepdim=True), teacher.mean(1, keepdim=True)
    p, q = _wide(teacher), _wide(student)
    terms = torch.xlogy(p, p) - p * q.clamp(min=torch.finfo(q.dtype).tiny).log()
    return terms.sum(-1).mean(1)[real].sum()


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
