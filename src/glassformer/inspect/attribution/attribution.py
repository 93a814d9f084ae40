"""Attribution: which words, and which parts of the network, made an output.

    direct logit attribution   logit = embedding + Σ heads + Σ feed-forward layers + biases     what each part wrote
    gradient × input           Σ over a token's vector: input · ∂logit/∂input                   at this input
    integrated gradients       the mean of the gradient from a baseline to the input, ×         adds up to the
                               (input - baseline)                                               logit's change

Direct logit attribution follows the residual stream alone: what a part wrote there, and what the norms and the head
make of that. What it made later layers do is theirs. Scales of norms and gates of the head are fixed at their values in
this pass (`core/linearised.py`), so the parts add up to the logit.

Source: direct logit attribution: Elhage et al. 2021, "A mathematical framework for transformer circuits"; integrated
gradients: Sundararajan, Taly and Yan 2017, "Axiomatic attribution for deep networks".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from glassformer.inspect.attribution.target import Target
from glassformer.inspect.tokens import Token
from glassformer.reports.report import Report
from glassformer.reports.table import Table

PartKind = Literal["embedding", "head", "cross head", "attention bias", "feed-forward", "convolution", "biases"]

FIXED = "the scale of every norm is fixed at its value in this pass"
FIXED_HEAD = "and so are the gates of the head's activation functions"
POST_NORM = (
    "norms stand on the residual stream itself (post-norm): each part is scaled by all norms behind it, which in the "
    "network depend on the other parts"
)


@dataclass(frozen=True, slots=True)
class Part:
    """What one part of the network added to the logit; layer and head are None where it has none."""

    kind: PartKind
    value: float
    layer: int | None = None
    head: int | None = None

    @property
    def name(self) -> str:
        """`layer 4 head 9`, `layer 2 feed-forward`, `embedding`."""
        where = "" if self.layer is None else f"layer {self.layer} "
        return where + (self.kind if self.head is None else f"{self.kind} {self.head}")


@dataclass(frozen=True, repr=False)
class Attribution(Report):
    """What made an output: shares of its logit by input token, by part of the network, and by layer.

        attribution.words()                     integrated gradients of each word
        attribution.parts                       what each head and each feed-forward layer added to the logit
        attribution.gap                         how far integrated gradients are from adding up, as a share

    target: the output, where it stands, and its logit
    tokens: of each stream that the network reads
    gradient_input, integrated: of each token of each stream. [T]
    baseline: what the text was replaced by · baseline_score: the logit there · steps: gradients on the way
    parts: direct logit attribution; they add up to the logit, but for `remainder`
    by_token: of each head, by the token that it read; its sum is the head's part. Attention map → [layers, heads, S]
    norms: of the residual stream of the head. [L + 1, T]
    approximations: what was fixed or left out, in sentences
    """

    target: Target
    tokens: dict[str, list[Token]]
    gradient_input: dict[str, Tensor]
    integrated: dict[str, Tensor]
    baseline: str
    baseline_score: float
    steps: int
    parts: tuple[Part, ...]
    by_token: dict[str, Tensor]
    norms: Tensor
    seconds: float
    approximations: tuple[str, ...] = field(default=())

    @property
    def remainder(self) -> float:
        """The logit less the sum of the parts."""
        return self.target.score - sum(part.value for part in self.parts)

    @property
    def gap(self) -> float:
        """Completeness gap of integrated gradients: |sum - change of the logit|, as a share of that change."""
        change = self.target.score - self.baseline_score
        total = float(sum(x.double().sum() for x in self.integrated.values()))
        return abs(total - change) / max(abs(change), 1e-12)

    def strongest(self, count: int = 10) -> list[Part]:
        """The parts with the largest contributions, of either sign."""
        return sorted(self.parts, key=lambda part: -abs(part.value))[:count]

    def by_layer(self) -> dict[str, dict[int, float]]:
        """Contributions summed over the heads of each layer: kind → layer → logit."""
        sums: dict[str, dict[int, float]] = {}
        for part in self.parts:
            if part.layer is not None:
                of_kind = sums.setdefault(part.kind, {})
                of_kind[part.layer] = of_kind.get(part.layer, 0.0) + part.value
        return sums

    def words(self, values: dict[str, Tensor] | None = None) -> dict[str, list[tuple[str, float]]]:
        """Sums over the tokens of each word: stream → word and value; of integrated gradients by default."""
        values = self.integrated if values is None else values
        return {stream: _words(self.tokens[stream], x.tolist()) for stream, x in values.items()}

    @property
    def notes(self) -> list[str]:
        """What to know before one believes the numbers."""
        change = self.target.score - self.baseline_score
        return [
            f"integrated gradients: {self.steps} steps from {self.baseline}; completeness gap {self.gap:.2%} of the "
            f"change {change:+.3f}" + (": more than 1 %, so read them with care" if self.gap > 0.01 else ""),
            f"direct logit attribution: {'; '.join(self.approximations)}; what is left over: {self.remainder:+.1e}",
        ]

    def tables(self) -> list[Table]:
        """What each word has of the output, by integrated gradients; the parts that added most; what to know."""
        target = f"{self.target.title}: logit {self.target.score:.3f}, probability {self.target.probability:.1%}"
        shown = []
        for stream, words in self.words().items():
            largest = max((abs(value) for _, value in words), default=1.0) or 1.0
            shown.append(
                Table(
                    headings=[stream, "integrated gradients"],
                    rows=[[word, f"{value:+.3f}"] for word, value in words],
                    caption=target,
                    shades=[[value / largest] for _, value in words],
                )
            )
        parts = [[part.name, f"{part.value:+.3f}"] for part in self.strongest()]
        caption = f"direct logit attribution, the largest of {len(self.parts)} parts"
        return [*shown, Table(["part", "added to the logit"], parts, caption)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "target": self.target.to_dict(),
            "tokens": {stream: [token.text for token in tokens] for stream, tokens in self.tokens.items()},
            "integrated_gradients": {stream: x.tolist() for stream, x in self.integrated.items()},
            "gradient_input": {stream: x.tolist() for stream, x in self.gradient_input.items()},
            "words": {stream: [list(word) for word in words] for stream, words in self.words().items()},
            "baseline": self.baseline,
            "baseline_score": self.baseline_score,
            "steps": self.steps,
            "completeness_gap": self.gap,
            "parts": [
                {"kind": part.kind, "layer": part.layer, "head": part.head, "value": part.value} for part in self.parts
            ],
            "remainder": self.remainder,
            "norms": self.norms.tolist(),
            "approximations": list(self.approximations),
            "seconds": self.seconds,
        }


def _words(tokens: Sequence[Token], values: Sequence[float]) -> list[tuple[str, float]]:
    words: list[tuple[str, float]] = []
    for token, value in zip(tokens, values, strict=True):
        if token.continues and words:
            text, so_far = words[-1]
            words[-1] = (text + token.text, so_far + value)
        else:
            words.append((token.text, value))
    return words


def token_shares(probs: Tensor, values: Tensor, gradient: Tensor) -> Tensor:
    """What a head added to the logit, by the token that it read.

        share_s = Σ_t prob_ts · v_s · gradient_t

    Args: probs [T, S] and values [S, E] of a head · gradient: of the score with respect to its z. [T, E]
    """
    return (probs * (gradient @ values.mT)).sum(0)
