"""Filters take words from a model's mouth, all along or at one place only, and shape what is drawn from."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.generation import logits_process as reference

from glassformer.generation import filters
from glassformer.generation.filters import STEPS_BACK, Filter, PrefixStates, allow_only, suppress

IDS, LOGITS = torch.tensor([[5, 6], [7, 8]]), torch.arange(10.0).reshape(2, 5)
NONE = torch.zeros(1, 0, dtype=torch.long)


def remaining(filter: Filter, probs: list[float]) -> list[int]:
    """Which of these probabilities stay; those that do are not changed."""
    logits = torch.tensor([probs], dtype=torch.float64).log()
    changed = filter(NONE, logits)
    stay = changed[0].isfinite()
    assert changed[0][stay].equal(logits[0][stay])
    result: list[int] = stay.nonzero()[:, 0].tolist()
    return result


def test_never() -> None:
    changed = suppress([1, 4])(IDS, LOGITS)
    assert changed[:, [1, 4]].isneginf().all()
    assert torch.equal(changed[:, [0, 2, 3]], LOGITS[:, [0, 2, 3]])
    assert LOGITS.isfinite().all(), "the model's own numbers stay"


def test_at_one_place_only() -> None:
    assert suppress([4], at=2)(IDS, LOGITS)[:, 4].isneginf().all()
    assert torch.equal(suppress([4], at=3)(IDS, LOGITS), LOGITS)


def test_not_yet() -> None:
    assert suppress([4], before=3)(IDS, LOGITS)[:, 4].isneginf().all()
    assert torch.equal(suppress([4], before=2)(IDS, LOGITS), LOGITS)


def test_only_these() -> None:
    changed = allow_only([1, 4], at=2)(IDS, LOGITS)
    assert torch.equal(changed[:, [1, 4]], LOGITS[:, [1, 4]])
    assert changed[:, [0, 2, 3]].isneginf().all()
    assert torch.equal(allow_only([1], at=3)(IDS, LOGITS), LOGITS)


def test_one_is_forced_though_it_was_suppressed() -> None:
    assert allow_only([4], at=2)(IDS, suppress([4])(IDS, LOGITS)).argmax(-1).tolist() == [4, 4]


# ------------------------------------------------------------------------------------------------------ what was said


def banned(filter: Filter, ids: list[list[int]], vocabulary: int = 10) -> list[list[int]]:
    changed = filter(torch.tensor(ids), torch.zeros(len(ids), vocabulary))
    return [row.isneginf().nonzero()[:, 0].tolist() for row in changed]


def test_words_are_not_completed() -> None:
    words = [[3], [4, 5], [6, 5, 7], [1, 5, 8], [6, 5, 9]]
    assert banned(filters.ban_words(words), [[6, 5], [1, 4]]) == [[3, 7, 9], [3, 5]]
    assert banned(filters.ban_words(words), [[5]]) == [[3]]  # shorter than what stands before a word's end
    assert banned(filters.ban_words([[4, 5]]), [[-1, 4]]) == [[5]]


def test_runs_are_not_repeated() -> None:
    assert banned(filters.no_repeat_ngrams(2), [[4, 8, 5, 4], [1, 2, 3, 4]]) == [[8], []]
    assert banned(filters.no_repeat_ngrams(3), [[4, 8, 5, 4, 8], [4, 8, 5, 8, 4]]) == [[5], []]
    assert banned(filters.no_repeat_ngrams(1), [[4, 4, 9]]) == [[4, 9]]
    assert banned(filters.no_repeat_ngrams(4), [[4, 4]]) == [[]]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_padding_repeats_nothing(size: int) -> None:
    padded = torch.tensor([[-1, -1, -1, 5, 6, 5, 6], [1, 1, 1, 1, 1, 1, 1]])
    changed = filters.no_repeat_ngrams(size)(padded, torch.zeros(2, 9))
    assert changed[:1].equal(filters.no_repeat_ngrams(size)(padded[:1, 3:], torch.zeros(1, 9)))
    penalised = filters.repetition_penalty(2.0)(padded, torch.ones(2, 9))
    assert penalised[:1].equal(filters.repetition_penalty(2.0)(padded[:1, 3:], torch.ones(1, 9)))


def test_runs_of_a_source_serve_all_its_beams() -> None:
    source = torch.tensor([[1, 2, 3], [-1, 2, 4]])
    assert banned(filters.no_repeat_ngrams(2, source=source), [[0, 1], [0, 2], [0, 1], [0, 2]]) == [
        [2], [3], [], [4]
    ]  # fmt: skip
    assert banned(filters.no_repeat_ngrams(2, source=source), [[], []]) == [[], []]


# --------------------------------------------------------------------------------------------------- shapes of a draw


def test_top_k_keeps_ties_of_the_last() -> None:
    assert remaining(filters.top_k(2), [0.1, 0.4, 0.3, 0.2]) == [1, 2]
    assert remaining(filters.top_k(2), [0.3, 0.4, 0.3]) == [0, 1, 2]
    assert remaining(filters.top_k(9), [0.5, 0.5]) == [0, 1]
    assert remaining(filters.top_k(1, min_keep=2), [0.5, 0.3, 0.2]) == [0, 1]


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    probs = [0.15, 0.5, 0.05, 0.3]
    assert remaining(filters.top_p(0.79), probs) == [1, 3]
    assert remaining(filters.top_p(0.81), probs) == [0, 1, 3]
    assert remaining(filters.top_p(0.5), [0.25, 0.5, 0.25]) == [1]
    assert remaining(filters.top_p(1e-9), probs) == [1]  # never none
    assert remaining(filters.top_p(1e-9, min_keep=2), probs) == [1, 3]
    assert remaining(filters.top_p(1.0), probs) == [0, 1, 2, 3]
    assert remaining(filters.top_p(0.5), [0.25] * 4) == [2, 3]  # of equals, those that come last


def test_k_first_then_p() -> None:
    """Of 0.4 0.3 0.2 0.1, the three likeliest are 0.44 0.33 0.22, of which two reach 0.75; of all four, three would."""
    both: Filter = lambda ids, x: filters.top_p(0.75)(ids, filters.top_k(3)(ids, x))  # noqa: E731
    assert remaining(both, [0.4, 0.3, 0.2, 0.1]) == [0, 1]
    assert remaining(filters.top_p(0.75), [0.4, 0.3, 0.2, 0.1]) == [0, 1, 2]


def test_min_p_is_a_share_of_the_likeliest() -> None:
    assert remaining(filters.min_p(0.5), [0.4, 0.21, 0.19, 0.2]) == [0, 1, 3]
    assert remaining(filters.min_p(1.0), [0.6, 0.4]) == [0]
    assert remaining(filters.min_p(1.0, min_keep=2), [0.6, 0.3, 0.1]) == [0, 1]


def test_typical_leaves_out_the_all_too_likely() -> None:
    """Entropy 1.61: a surprise of 0.92 (0.4) is farther from it than 2.0 (0.135) is."""
    probs = [0.4, 0.135, 0.135, 0.11, 0.11, 0.11]
    assert 0 not in remaining(filters.typical_p(0.3), probs)
    assert remaining(filters.typical_p(1.0), probs) == [0, 1, 2, 3, 4, 5]
    assert len(remaining(filters.typical_p(1e-9), [0.5, 0.3, 0.2])) == 1


def test_temperature() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    for value in (0.5, 2.0):
        shaped = filters.temperature(value)(NONE, probs.log()).softmax(-1)
        torch.testing.assert_close(shaped, probs ** (1 / value) / (probs ** (1 / value)).sum())
    assert filters.temperature(1e-4)(NONE, probs.log()).softmax(-1).max() == 1  # ever colder: greedy search


def test_a_banned_end_is_not_favoured() -> None:
    """The reference computes NaN there."""
    both = filters.favour_end([1, 2], 1.5, begin=0)(torch.zeros(1, 3), torch.tensor([[0.5, -torch.inf, -2.0]]))
    torch.testing.assert_close(both, torch.tensor([[0.5, -torch.inf, -2.0 + 2.0 * (1.5**3 - 1)]]))


# ------------------------------------------------------------------------------------------------------ the reference

PAIRS: dict[str, tuple[Filter, Any]] = {
    **{f"k {k}": (filters.top_k(k), reference.TopKLogitsWarper(k)) for k in (1, 5, 40, 500)},
    **{f"p {p}": (filters.top_p(p), reference.TopPLogitsWarper(p)) for p in (0.01, 0.5, 0.9, 0.999)},
    **{f"min p {p}": (filters.min_p(p), reference.MinPLogitsWarper(p)) for p in (0.01, 0.2, 1.0)},
    **{f"typical {p}": (filters.typical_p(p), reference.TypicalLogitsWarper(p)) for p in (0.1, 0.5, 0.95)},
    "k, at least 3": (filters.top_k(1, min_keep=3), reference.TopKLogitsWarper(1, min_tokens_to_keep=3)),
    "p, at least 3": (filters.top_p(0.01, min_keep=3), reference.TopPLogitsWarper(0.01, min_tokens_to_keep=3)),
    "min p, at least 3": (filters.min_p(1.0, min_keep=3), reference.MinPLogitsWarper(1.0, min_tokens_to_keep=3)),
    "typical, at least 3": (
        filters.typical_p(0.01, min_keep=3),
        reference.TypicalLogitsWarper(0.01, min_tokens_to_keep=3),
    ),
    **{f"epsilon {p}": (filters.epsilon_cutoff(p), reference.EpsilonLogitsWarper(p)) for p in (0.001, 0.02, 0.9)},
    **{f"eta {p}": (filters.eta_cutoff(p), reference.EtaLogitsWarper(p)) for p in (0.0003, 0.02, 0.9)},
    "epsilon, at least 3": (
        filters.epsilon_cutoff(0.9, min_keep=3), reference.EpsilonLogitsWarper(0.9, min_tokens_to_keep=3)
    ),
    "eta, at least 3": (filters.eta_cutoff(0.9, min_keep=3), reference.EtaLogitsWarper(0.9, min_tokens_to_keep=3)),
    "biases": (
        filters.bias_words({(3,): 1.5, (4, 5): -2.0, (1, 6, 5): 0.5}),
        reference.SequenceBiasLogitsProcessor({(3,): 1.5, (4, 5): -2.0, (1, 6, 5): 0.5}),
    ),
    "end": (
        filters.favour_end([7, 9], 1.4, begin=4), reference.ExponentialDecayLengthPenalty((1, 1.4), [7, 9], 3)
    ),
    "temperature": (filters.temperature(0.7), reference.TemperatureLogitsWarper(0.7)),
    "repetition": (filters.repetition_penalty(1.3), reference.RepetitionPenaltyLogitsProcessor(1.3)),
    **{f"{n} grams": (filters.no_repeat_ngrams(n), reference.NoRepeatNGramLogitsProcessor(n)) for n in (1, 2, 3, 30)},
    "bad words": (
        filters.ban_words([[3], [4, 5], [6, 5, 7]]), reference.NoBadWordsLogitsProcessor([[3], [4, 5], [6, 5, 7]])
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_as_the_reference(pair: tuple[Filter, Any], spread: float) -> None:
    ours, theirs = pair
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 12, (40, 25), generator=draw)
    logits = torch.randn(40, 200, generator=draw) * spread
    for some in (
        logits,
        logits.masked_fill(logits > 2 * spread, -torch.inf),
    ):  # earlier filters have been there
        there: Tensor = theirs(ids, some.clone())
        assert ours(ids, some).equal(there)


# A row's state is what its own tokens made of it, whatever became of the rows next to it.


def test_states_follow_their_rows() -> None:
    steps = []

    def step(state: str, token: int) -> str:
        steps.append(token)
        return f"{state}{token}"

    states = PrefixStates("", step, prompt_length=1)
    assert states(torch.tensor([[7], [8]])) == ["", ""] and steps == []
    assert states(torch.tensor([[7, 1], [8, 1], [7, 2]])) == ["1", "1", "2"] and steps == [1, 2]
    steps.clear()
    assert states(torch.tensor([[7, 2, 5], [7, 1, 5], [7, 2, 5]])) == ["25", "15", "25"] and steps == [5, 5]
    steps.clear()
    assert states(torch.tensor([[7, 2, 5], [7, 1, 5], [7, 2, 5]])) == ["25", "15", "25"] and steps == []
    assert states(torch.tensor([[7, 1]])) == ["1"] and steps == [], "a step back"
    assert states(torch.tensor([[7, 9, 8, 6]])) == ["986"] and steps == [9, 8, 6], "never seen before"


def test_old_states_are_forgotten_and_found_again() -> None:
    states = PrefixStates(0, lambda state, token: state + token, prompt_length=0)
    for length in range(100):
        assert states(torch.ones(2, length, dtype=torch.long)) == [length, length]
    assert len(states._states) <= STEPS_BACK + 2
    assert states(torch.ones(1, 3, dtype=torch.long)) == [3]
