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

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from glassformer.files import counted
from glassformer.inspect.attribution.target import Target
from glassformer.inspect.tokens import Token, readable
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent

ROUGH = 0.1
"""Completeness gap from which on no word is named: what is missing may be another word's."""
PartKind = Literal["embedding", "head", "cross head", "attention bias", "feed-forward", "convolution", "biases"]

INTEGRATED, SHAPLEY = "integrated gradients", "Shapley values"
"""How the words were computed."""
FIXED = "the scale of every norm is fixed at its value in this pass"
FIXED_HEAD = "and so are the gates of the head's activation functions"
POST_NORM = (
    "norms are on the residual stream itself (post-norm): each part is scaled by all norms behind it, which in the "
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


ATTRIBUTION_KEYS = (
    "target", "tokens", "shares", "gradient_input", "words", "method", "baseline", "baseline_score", "steps", "subsets",
    "gap", "parts", "remainder", "norms", "approximations", "seconds",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Attribution(Report, kind="attribution", keys=ATTRIBUTION_KEYS):
    """What made an output: shares of its logit by input token, by part of the network, and by layer.

        attribution.words                       what each word added to the logit, by `attribution.method`
        attribution.parts                       what each head and each feed-forward layer added to the logit
        attribution.gap                         how far the words are from adding up, as a share

    target: the output, where it is, and its logit
    tokens: of each stream that the network reads
    gradient_input: of each token of each stream. [T]
    shares: of each token of each stream, by `method`; empty where no gradients were asked for. [T]
    method: "integrated gradients"; of a short text of which they miss too much, "Shapley values", which are exact
    baseline: what the text was replaced by
    baseline_score: the logit there
    steps: gradients on the way
    subsets: texts that Shapley values take, with each token there or replaced; 0 = too many, or no text
    parts: direct logit attribution; they add up to the logit, but for `remainder`
    by_token: of each head, by the token that it read; its sum is the head's part. Attention map → [layers, heads, S]
    norms: of the residual stream of the head. [L + 1, T]
    approximations: what was fixed or left out, in sentences
    """

    target: Target
    tokens: dict[str, list[Token]]
    gradient_input: dict[str, Tensor]
    shares: dict[str, Tensor]
    method: str
    baseline: str
    baseline_score: float
    steps: int
    subsets: int
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
        """Completeness gap of the shares: |sum - change of the logit|, as a share of that change."""
        return completeness_gap(self.shares, self.target.score - self.baseline_score)

    @property
    def rough(self) -> bool:
        """Whether the shares miss so much that no word is named or coloured by them."""
        return not self.shares or self.gap > ROUGH

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

    @property
    def words(self) -> dict[str, list[tuple[str, float]]]:
        """Shares, summed over the tokens of each word: stream → word and value."""
        return {stream: _words(self.tokens[stream], x.tolist()) for stream, x in self.shares.items()}

    @property
    def finding(self) -> str:
        """The word that speaks most for the output, where the words are known well enough, and the strongest part."""
        [part], [stream, *_] = self.strongest(1), self.tokens
        strongest = f"{part.name} ({_signed(part.value)})"
        if not self.shares:
            return f"All {len(self.parts)} parts add up to the logit; the strongest is {strongest}."
        if self.rough:
            return (
                f"All {len(self.parts)} parts add up to the logit; the strongest is {strongest}. The words are still "
                f"rough: they miss {percent(self.gap)} of the change, so none is named here; compute them from more "
                f"than {self.steps} gradients."
            )
        own = [
            (token, value)
            for token, value in zip(self.tokens[stream], self.shares[stream].tolist(), strict=True)
            if not token.special
        ]
        if not own:
            return f"The strongest part is {strongest}."
        word, value = max(_words(*zip(*own, strict=True)), key=lambda each: each[1])
        return (
            f"The word that speaks most for it is “{readable(word)}” ({_signed(value)}); "
            f"the strongest part is {strongest}."
        )

    @property
    def notes(self) -> list[str]:
        """What to know before one believes the numbers."""
        change = f"{self.target.score - self.baseline_score:+.3f}"
        if self.method == SHAPLEY:
            words = (
                f"Shapley values: {self.subsets} texts, with each token there or {self.baseline}; they add up to the "
                f"change {change}, of which {counted(self.steps, 'gradient')} missed more than 1%"
            )
        else:
            words = (
                f"integrated gradients: {self.steps} steps from {self.baseline}; completeness gap {self.gap:.2%} of "
                f"the change {change}" + (": more than 1%, so read them with care" if self.gap > 0.01 else "")
            )
        return [
            words if self.shares else "integrated gradients: not computed; they say what each word added",
            f"direct logit attribution: {'; '.join(self.approximations)}; what is left over: {self.remainder:+.1e}",
        ]

    @property
    def heading(self) -> str:
        aim = self.target
        text = f"{aim.title}: logit {aim.score:z.3f}, probability {percent(aim.probability, 1)}"
        return f"{text}. {aim.doubt}" if aim.doubt else text

    def tables(self) -> list[Table]:
        """What each word added; the parts that added most; sums by layer."""
        shown = [
            _shaded([stream, self.method], [(word, [value]) for word, value in words], plain=self.rough)
            for stream, words in self.words.items()
        ]
        caption = f"direct logit attribution, the largest of {len(self.parts)} parts"
        parts = _shaded(["part", "added to the logit"], [(part.name, [part.value]) for part in self.strongest()])
        return [*shown, replace(parts, caption=caption), self._layer_table()]

    def _layer_table(self) -> Table:
        """What attention and feed-forward layers added, layer by layer, and the parts that have no layer."""
        sums = self.by_layer()
        kinds = [kind for kind in ("head", "cross head", "feed-forward", "convolution") if kind in sums]
        for layer, value in sums.get("attention bias", {}).items():
            sums["head"][layer] += value
        layers = sorted({layer for kind in kinds for layer in sums[kind]})
        names = [{"head": "attention", "cross head": "cross-attention"}.get(kind, kind) for kind in kinds]
        rows = [(str(layer), [sums[kind].get(layer, 0.0) for kind in kinds]) for layer in layers]
        whole = [(part.kind, [part.value, *[math.nan] * (len(kinds) - 1)]) for part in self.parts if part.layer is None]
        return _shaded(["layer", *(names or ["sum"])], [*rows, *whole])


def _shaded(headings: list[str], rows: Sequence[tuple[str, list[float]]], *, plain: bool = False) -> Table:
    """A table of signed numbers on their colours; NaN = an empty cell.

    Args:
        plain: no colours, since the numbers are rough
    """
    largest = max((abs(value) for _, values in rows for value in values if value == value), default=0.0) or 1.0
    cells = [[name, *(f"{value:+z.3f}" if value == value else "" for value in values)] for name, values in rows]
    return Table(
        headings, cells, shades=None if plain else [[value / largest for value in values] for _, values in rows]
    )


def _signed(value: float) -> str:
    return f"{value:+z.3g}".replace("-", "−")


def _words(tokens: Sequence[Token], values: Sequence[float]) -> list[tuple[str, float]]:
    words: list[tuple[str, float]] = []
    for token, value in zip(tokens, values, strict=True):
        if token.continues and words:
            text, so_far = words[-1]
            words[-1] = (text + token.text, so_far + value)
        else:
            words.append((token.text, value))
    return words


def completeness_gap(shares: dict[str, Tensor], change: float) -> float:
    """By how much the shares of all tokens miss a change of the score, as a share of that change."""
    total = float(sum(x.double().sum() for x in shares.values()))
    return abs(total - change) / max(abs(change), 1e-12)


def token_shares(probs: Tensor, values: Tensor, gradient: Tensor) -> Tensor:
    """What a head added to the logit, by the token that it read.

        share_s = Σ_t prob_ts · v_s · gradient_t

    Args:
        probs: attention probabilities of a head [T, S]
        values: its values [S, E]
        gradient: of the score with respect to its z. [T, E]
    """
    return (probs * (gradient @ values.mT)).sum(0)
