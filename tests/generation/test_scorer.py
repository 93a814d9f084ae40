"""A scorer changes what is found as the sum of both opinions does, and finds its rows again in any search."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer import ConfigError, Model
from glassformer.core.flow import Batch, Flow, Output
from glassformer.generation.beam import beam_search
from glassformer.generation.filters import PrefixStates
from glassformer.generation.rows import Rows
from glassformer.generation.scorer import LanguageModelScorer, rescore, shallow_fusion
from glassformer.models import FAMILIES, Network

IDS = torch.tensor([[5, 17, 3], [8, 8, 40]])


class Spoken(Network):
    """A network whose next token depends on the last alone."""

    def __init__(self, logits: Tensor) -> None:
        nn.Module.__init__(self)
        self.logits = logits

    def forward(self, batch: Batch, flow: Flow) -> Output:
        assert batch.input_ids is not None
        return Output(logits=self.logits[batch.input_ids[:, -1:]])


class Bigrams:
    """A scorer with a state for each row: the last token, and how often it was asked to go one step on."""

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores
        self.steps = 0
        self._rows: PrefixStates[int] | None = None

    def __call__(self, ids: Tensor, length: int) -> Tensor:
        if self._rows is None:
            self._rows = PrefixStates(0, self._step, prompt_length=length)
        return self.scores[self._rows(ids)]

    def _step(self, state: int, token: int) -> int:
        self.steps += 1
        return token


@pytest.mark.parametrize("weight", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_search_finds_what_is_best_by_both(weight: float, seed: int) -> None:
    """Against the sums of all 4⁴ continuations, of which four beams, with these seeds, do not miss the best."""
    draw = torch.Generator().manual_seed(seed)
    logits, scores = torch.randn(2, 4, 4, generator=draw, dtype=torch.float64) * 2
    log_probs, scores = logits.log_softmax(-1), scores.log_softmax(-1)
    scorer = Bigrams(scores)

    def total(tokens: tuple[int, ...]) -> float:
        return sum(
            float(log_probs[a, b] + weight * scores[a, b]) for a, b in zip((0, *tokens[:-1]), tokens, strict=True)
        )

    best = max(product(range(4), repeat=4), key=total)
    rows = Rows(Spoken(logits), torch.tensor([[0]]), cached=False)
    result = beam_search(
        rows,
        num_beams=4,
        max_new_tokens=4,
        length_penalty=0.0,
        filters=[shallow_fusion(scorer, weight, prompt_length=1)],
    )
    assert result.new_ids[0].tolist() == list(best)
    assert result.scores is not None and result.scores[0].item() == pytest.approx(total(best))
    assert result.logprobs is not None
    tokens = tuple(result.new_ids[0].tolist())
    model_alone = sum(float(log_probs[a, b]) for a, b in zip((0, *tokens[:-1]), tokens, strict=True))
    assert result.logprobs[0].sum().item() == pytest.approx(model_alone), "these stay the model's own"
    assert scorer.steps <= 4 * 4, "one step for each beam at each place"


def tiny(family: str, task: str, seed: int) -> Model:
    torch.manual_seed(seed)
    model = Model.from_config(FAMILIES[family].tiny, task=task).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("gpt2", "text-generation", 4)


@pytest.fixture(scope="module")
def other() -> Model:
    return tiny("gpt2", "text-generation", 5)


class Recomputed:
    """What `LanguageModel` gives, without a cache, a row at a time."""

    def __init__(self, network: Network, begin: list[int] | None = None) -> None:
        self._network = network
        self._begin = begin

    def __call__(self, ids: Tensor, length: int) -> Tensor:
        lines = []
        for row in ids:
            read = row[row >= 0] if self._begin is None else torch.cat([torch.tensor(self._begin), row[length:]])
            lines.append(Rows(self._network, read[None], cached=False).logits()[0].log_softmax(-1))
        return torch.stack(lines)


METHODS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True, "seed": 3, "num_return_sequences": 2},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "drawn beams": {"num_beams": 3, "do_sample": True, "seed": 5},
}
methods = pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)


@methods
def test_weight_0_is_the_search_without(model: Model, other: Model, settings: dict[str, Any]) -> None:
    plain = model.generate(IDS, return_scores=True, **settings)
    none = model.generate(IDS, return_scores=True, scorers=[(LanguageModelScorer(other.network), 0.0)], **settings)
    assert plain.ids.equal(none.ids) and plain.scores.equal(none.scores)


@methods
@pytest.mark.parametrize("padded", [False, True])
def test_another_model_with_its_cache(model: Model, other: Model, settings: dict[str, Any], padded: bool) -> None:
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]]) if padded else None
    with_cache, without, plain = (
        model.generate(IDS, attention_mask=mask, max_new_tokens=15, scorers=scorers, **settings)
        for scorers in ([(LanguageModelScorer(other.network), 2.0)], [(Recomputed(other.network), 2.0)], None)
    )
    assert with_cache.equal(without) and not with_cache.equal(plain)


def test_one_scorer_serves_one_search_after_another(model: Model, other: Model) -> None:
    scorer = LanguageModelScorer(other.network)
    for ids in (IDS, IDS[:1], IDS.flip(0), IDS):
        settings: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 9}
        expected = model.generate(ids, scorers=[(Recomputed(other.network), 1.0)], **settings)
        assert model.generate(ids, scorers=[(scorer, 1.0)], **settings).equal(expected)


@methods
def test_of_what_an_encoder_decoder_says(other: Model, settings: dict[str, Any]) -> None:
    answering = tiny("bart", "translation", 1)
    result, expected, plain = (
        answering.generate(IDS, max_new_tokens=12, scorers=scorers, **settings)
        for scorers in (
            [(LanguageModelScorer(other.network, begin=[7, 3]), 2.0)],
            [(Recomputed(other.network, [7, 3]), 2.0)],
            None,
        )
    )
    assert result.equal(expected) and not result.equal(plain)


def test_a_draw_is_from_both(model: Model, other: Model) -> None:
    """Chi-squared with 4 degrees of freedom is above 18.5 once in a thousand times; the seed is fixed."""
    both = model(IDS[:1]).logits[0, -1] + 0.5 * other(IDS[:1]).logits[0, -1].log_softmax(-1)
    best = both.topk(5)
    result = model.generate(
        IDS[:1], do_sample=True, top_k=5, seed=1, max_new_tokens=1, num_return_sequences=2_000,
        scorers=[(LanguageModelScorer(other.network), 0.5)],
    )  # fmt: skip
    counts = torch.tensor([(result[:, -1] == token).sum() for token in best.indices])
    expected = best.values.softmax(-1) * 2_000
    assert counts.sum() == 2_000 and ((counts - expected) ** 2 / expected).sum() < 18.5


# ---------------------------------------------------------------------------------------------------------- rescoring


@pytest.mark.parametrize("padded", [False, True])
def test_answers_in_another_order(model: Model, other: Model, padded: bool) -> None:
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]]) if padded else torch.ones_like(IDS)
    stops = model.generate(IDS, max_new_tokens=4)[:, -1].tolist()
    result = model.generate(
        IDS, attention_mask=mask, num_beams=4, num_return_sequences=4, length_penalty=0.0,
        return_scores=True, max_new_tokens=8, eos_token_id=stops,
    )  # fmt: skip
    judged, again = Recomputed(other.network), []
    hidden = IDS.masked_fill(mask == 0, -1).repeat_interleave(4, 0)
    for row, spoken, begin in zip(result.new_ids, result.active, hidden, strict=True):
        read = [
            float(judged(torch.cat([begin, row[:place]])[None], 3)[0, row[place]])
            for place in range(len(row))
            if spoken[place]
        ]
        again.append(sum(read))
    expected = result.scores + 2.0 * torch.tensor(again)
    ordered = rescore(result, LanguageModelScorer(other.network), 2.0, answers=4, attention_mask=mask)
    torch.testing.assert_close(ordered.scores, expected.view(2, 4).sort(descending=True).values.flatten())
    for prompt in (0, 1):
        order = 4 * prompt + expected[4 * prompt : 4 * prompt + 4].argsort(descending=True)
        here = slice(4 * prompt, 4 * prompt + 4)
        assert ordered.ids[here].equal(result.ids[order])
        assert ordered.reasons[here] == [result.reasons[row] for row in order.tolist()]
    assert not ordered.ids.equal(result.ids)
    same = rescore(result, LanguageModelScorer(other.network), 0.0, answers=4, attention_mask=mask)
    assert same.ids.equal(result.ids) and same.scores.equal(result.scores)


def test_what_cannot_be_rescored(model: Model, other: Model) -> None:
    result = model.generate(IDS, return_scores=True, num_beams=2, num_return_sequences=2)
    with pytest.raises(ConfigError, match="4 rows with scores, 3 a prompt"):
        rescore(result, LanguageModelScorer(other.network), 1.0, answers=3)
    result.scores = None
    with pytest.raises(ConfigError, match="without scores"):
        rescore(result, LanguageModelScorer(other.network), 1.0, answers=2)


@pytest.mark.parametrize("wrong", [3, [3], [(None, 1.0)], [(len, "a")], [(len, float("nan"))], [(len,)]])
def test_what_is_no_scorer(model: Model, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"scorers is .*; it must be a list of pairs \(a scorer, its weight\)"):
        model.generate(IDS, scorers=wrong)


def test_a_scorer_of_another_vocabulary(model: Model) -> None:
    wrong = Bigrams(torch.zeros(99, 7))
    with pytest.raises(ConfigError, match=r"scores of shape \[2, 7\] for logits of shape \[2, 99\]"):
        model.generate(IDS, scorers=[(wrong, 1.0)])
