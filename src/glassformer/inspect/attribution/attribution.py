"""Attribution: which words, and which parts of the network, made an output.

    direct logit attribution   logit = embedding + Σ heads + Σ feed-forward layers + biases     what each part wrote
    gradient × input           Σ over a token's vector: input · ∂logit/∂input                   at this input
    integrated gradients       the mean of the gradient from a baseline to the input, ×         adds up to the
                               (input - baseline)                                               logit's change
    Shapley values             what a token adds, averaged over all orders of adding the tokens (replaced_tokens.py)
    leave one out              by how much the logit is lower without a word                    adds up to nothing

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
from typing import Literal, NamedTuple

from torch import Tensor

from glassformer.files import counted
from glassformer.inspect.attribution.target import Target
from glassformer.inspect.tokens import Token, readable
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent

MAX_GAP = 0.01
"""Of the change of the logit, by which attributions that are summed may miss it."""
MAX_STEPS = 512
"""Gradients, as many as it takes for a gap of at most `MAX_GAP`."""
ROUGH = 0.1
"""Completeness gap from which on no word is named: what is missing may be another word's."""
PartKind = Literal["embedding", "head", "cross head", "attention bias", "feed-forward", "convolution", "biases"]

INTEGRATED, SHAPLEY, LEAVE_ONE_OUT = "integrated gradients", "Shapley values", "leave one out"
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
    "target", "tokens", "shares", "gradient_input", "words", "method", "baseline", "baseline_score", "steps", "texts",
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
    method: "integrated gradients"; where they miss too much, "Shapley values" or, of a long text, "leave one out"
    baseline: what the text was replaced by
    baseline_score: the logit there
    steps: gradients on the way
    texts: with replaced tokens, that `method` took, or that a more exact one takes; 0 = none, or more gradients do
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
    texts: int
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
    def gap(self) -> float | None:
        """Completeness gap of the shares: |sum - change of the logit|, as a share of that change; None = no sum."""
        if self.method == LEAVE_ONE_OUT:
            return None
        return completeness_gap(self.shares, self.target.score - self.baseline_score)

    @property
    def rough(self) -> bool:
        """Whether the shares miss so much that no word is named or coloured by them."""
        return not self.shares or (self.gap is not None and self.gap > ROUGH)

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
        return {
            stream: [word[:2] for word in word_shares(self.tokens[stream], x.tolist())]
            for stream, x in self.shares.items()
        }

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
                f"rough: {counted(self.steps, 'gradient')} miss {percent(self.gap or 0.0)} of the change, so none is "
                f"named here; {self.more} are more exact."
            )
        return f"{self._strongest_words(stream)}The strongest part is {strongest}."

    def _strongest_words(self, stream: str) -> str:
        """The word with the largest share; where that is the word before the answer, another one too."""
        tokens, aim = self.tokens[stream], self.target
        words = [word for word in word_shares(tokens, self.shares[stream].tolist()) if not tokens[word.at].special]
        if not words:
            return ""
        first, *others = sorted(words, key=lambda word: -word.value)
        sentence = f"The word that speaks most for it is “{readable(first.text)}” ({_signed(first.value)})"
        before = aim.follows and stream == aim.stream and aim.position in range(first.at, first.at + first.tokens)
        if before and aim.against is None and others and others[0].value > 0:
            return (
                f"{sentence}, which comes right before it and speaks for many words; of the others it is "
                f"“{readable(others[0].text)}” ({_signed(others[0].value)}). "
            )
        return f"{sentence}. "

    @property
    def more(self) -> str:
        """What a more exact answer is computed from, where this is of a few gradients."""
        return f"{self.texts:,} texts with replaced words" if self.texts else f"up to {MAX_STEPS} gradients"

    @property
    def how(self) -> str:
        """How the words were computed, and whether their numbers add up."""
        change = f"{self.target.score - self.baseline_score:+.3f}".replace("-", "−")
        ends = f"from {self.baseline_score:z.3f} without the words to {self.target.score:z.3f}"
        whole = f"the change of the logit, {change}, {ends}"
        if not self.shares:
            return "The words are not computed yet; heads and layers are exact."
        if self.method == LEAVE_ONE_OUT:
            return "Each number is by how much the logit is lower without that word; they do not add up."
        if self.method == SHAPLEY:
            return f"Shapley values of {self.texts:,} texts, which add up to {whole}."
        care = "; read them with care" if (self.gap or 0.0) > MAX_GAP else ""
        return f"Integrated gradients, {counted(self.steps, 'step')}, which miss {self.gap:.2%} of {whole}{care}."

    @property
    def notes(self) -> list[str]:
        """What to know before one believes the numbers."""
        few = f"{counted(self.steps, 'gradient')} missed more than"
        detail = f"on a straight line from {self.baseline}"
        if self.method == SHAPLEY:
            detail = f"each token is there, or {self.baseline}; {few} 1% of the change"
        elif self.method == LEAVE_ONE_OUT:
            blank = self.baseline.replace("each", "one")
            detail = (
                f"{counted(self.texts, 'text')}, each with {blank}; of two words that say the same, neither is missed; "
                f"{few} a tenth of the change"
            )
        aim = self.target
        exact = f"direct logit attribution: {'; '.join(self.approximations)}; what is left over: {self.remainder:+.1e}"
        if not self.shares:
            return [self.how, exact]
        others = [name for name, _ in aim.likely if f"“{name}”" != aim.name] if aim.against is None else []
        apart = [
            f"a word may speak for many outputs; rather than “{each}” shows what tells the two apart"
            for each in others[:1]
        ]
        return [self.how, f"{self.method}: {detail}", *apart, exact]

    @property
    def heading(self) -> str:
        aim = self.target
        what = "logit" if aim.against is None else "difference of logits"
        text = f"{aim.title}: {what} {aim.score:z.3f}, probability {percent(aim.probability, 1)}"
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


class WordShare(NamedTuple):
    """A word, the sum over its tokens, and where these are: the first, and how many."""

    text: str
    value: float
    at: int
    tokens: int


def word_shares(tokens: Sequence[Token], values: Sequence[float]) -> list[WordShare]:
    """Shares of tokens, summed over each word."""
    words: list[WordShare] = []
    for at, (token, value) in enumerate(zip(tokens, values, strict=True)):
        if token.continues and words:
            last = words[-1]
            words[-1] = WordShare(last.text + token.text, last.value + value, last.at, last.tokens + 1)
        else:
            words.append(WordShare(token.text, value, at, 1))
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
