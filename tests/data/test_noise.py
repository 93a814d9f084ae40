from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import noise
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.metrics.rouge import rouge

MASK = 1
SENTINELS = list(range(999, 899, -1))
IDS = st.lists(st.integers(2, 800), min_size=2, max_size=300).map(np.array)
SEEDS = st.integers(0, 2**32)


def drawing(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def rebuilt(source: np.ndarray, target: np.ndarray) -> list[int]:
    """The text again, from what T5 reads and what it says."""
    hidden: dict[int, list[int]] = {}
    for number in target.tolist():
        if number in SENTINELS:
            here = hidden.setdefault(number, [])
        else:
            here.append(number)
    return [n for number in source.tolist() for n in hidden.get(number, [number])]


@given(IDS, SEEDS, st.floats(0.05, 0.9), st.floats(1, 6))
def test_spans_and_what_was_cut_out_make_the_text(ids: np.ndarray, seed: int, rate: float, mean: float) -> None:
    before = ids.copy()
    source, target = noise.corrupt_spans(ids, drawing(seed), sentinels=SENTINELS, rate=rate, mean=mean)
    assert rebuilt(source, target) == ids.tolist() == before.tolist()
    used = [number for number in target.tolist() if number in SENTINELS]
    assert used == SENTINELS[: len(used)], "in order, each once"
    assert [number for number in source.tolist() if number in SENTINELS] == used[:-1], "the last says: no more"
    places = np.flatnonzero(np.isin(source, SENTINELS))
    assert (np.diff(places) > 1).all(), "no two spans touch"
    assert len(source) > len(used) - 1, "something is left to read"


def test_spans_have_the_rate_and_the_mean_that_were_asked_for() -> None:
    rng, tokens, spans, gone = drawing(0), 0, 0, 0
    for length in rng.integers(60, 512, 2_000):
        _, target = noise.corrupt_spans(np.arange(2, 2 + length) % 800, rng, sentinels=SENTINELS)
        sentinels = int(np.isin(target, SENTINELS).sum())
        tokens, spans, gone = tokens + length, spans + sentinels - 1, gone + len(target) - sentinels
    assert gone / tokens == pytest.approx(0.15, abs=0.001)
    assert gone / spans == pytest.approx(3.0, abs=0.1)


def test_spans_fall_anywhere() -> None:
    """The first and the last token too, if somewhat less: fewer spans can reach them."""
    rng, ids = drawing(0), np.arange(2, 22)
    gone = np.zeros(20)
    for _ in range(4_000):
        source, _ = noise.corrupt_spans(ids, rng, sentinels=SENTINELS, rate=0.3, mean=2)
        gone += ~np.isin(ids, source)
    assert gone.mean() / 4_000 == pytest.approx(0.3, abs=0.005)
    assert gone.min() / 4_000 > 0.18 and gone.max() / 4_000 < 0.38


@given(IDS, SEEDS)
def test_infilling_leaves_the_rest_in_order(ids: np.ndarray, seed: int) -> None:
    noisy = noise.infill(ids, drawing(seed), mask=MASK)
    left = iter(ids.tolist())
    assert all(number in left for number in noisy.tolist() if number != MASK), "a part of the text, in its order"


def test_infilling_hides_the_rate_with_poisson_lengths() -> None:
    rng, tokens, hidden, masks = drawing(0), 0, 0, 0
    for _ in range(1_000):
        noisy = noise.infill(np.arange(2, 302), rng, mask=MASK)
        tokens, masks = tokens + 300, masks + int((noisy == MASK).sum())
        hidden += 300 - int((noisy != MASK).sum())
    assert hidden / tokens == pytest.approx(0.3, abs=0.001)
    assert hidden / masks == pytest.approx(3.0, abs=0.15), "spans of none count: λ = 3 is the mean of all"


def test_a_mask_stands_for_any_number_of_tokens() -> None:
    """Poisson's: none in e⁻³ of the cases, three in e⁻³ 3³ / 3!."""
    rng, lengths = drawing(0), []
    for _ in range(300):
        noisy = noise.infill(np.arange(2, 602), rng, mask=MASK)
        masks = np.flatnonzero(noisy[1:-1] == MASK) + 1
        lengths += (noisy[masks + 1] - noisy[masks - 1] - 1).tolist()
    assert lengths.count(0) / len(lengths) == pytest.approx(np.exp(-3), abs=0.006)
    assert lengths.count(3) / len(lengths) == pytest.approx(np.exp(-3) * 27 / 6, abs=0.01)


@pytest.mark.parametrize(
    ("spoil", "count"),
    [
        (lambda ids, rng: (noise.mask_tokens(ids, rng, mask=MASK) == MASK).sum(), 0.15),
        (lambda ids, rng: len(ids) - len(noise.delete_tokens(ids, rng)), 0.15),
    ],
    ids=["hide", "delete"],
)
def test_rates_are_met_on_short_texts_too(
    spoil: Callable[[np.ndarray, np.random.Generator], int], count: float
) -> None:
    rng = drawing(0)
    touched = sum(int(spoil(np.arange(2, 9), rng)) for _ in range(20_000))
    assert touched / (7 * 20_000) == pytest.approx(count, abs=0.005)


@given(IDS, SEEDS)
def test_rotation_and_permutation_lose_nothing(ids: np.ndarray, seed: int) -> None:
    turned = noise.rotate(ids, drawing(seed)).tolist()
    assert any(turned == [*ids[place:], *ids[:place]] for place in range(len(ids)))
    parts = np.array_split(ids, 3)
    permuted = noise.permute_sentences(parts, drawing(seed))
    assert sorted(map(tuple, permuted)) == sorted(map(tuple, parts))


def test_the_same_draw_gives_the_same_noise_and_leaves_the_text_alone() -> None:
    ids = np.arange(2, 60)
    for spoil in (
        lambda rng: noise.infill(ids, rng, mask=MASK),
        lambda rng: noise.mask_tokens(ids, rng, mask=MASK),
        lambda rng: noise.delete_tokens(ids, rng),
        lambda rng: noise.rotate(ids, rng),
    ):
        first, again, other = (spoil(drawing(seed)).tolist() for seed in (7, 7, 8))
        assert first == again and first != other
        assert ids.tolist() == list(range(2, 60))


def test_rouge_is_the_packages() -> None:
    words = "the cat sat on the mat while another cat slept under a warm red mat".split()
    numbers = {word: number for number, word in enumerate(sorted(set(words)))}
    for cut in range(1, len(words)):
        a, b = words[:cut], words[cut:]
        ours = noise.rouge1(*(np.array([numbers[word] for word in part]) for part in (a, b)))
        theirs = rouge([" ".join(a)], [" ".join(b)], sentences=False, resamples=2).rouge1.f.value
        assert ours == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=50)
@given(st.lists(IDS, min_size=2, max_size=8), st.floats(0.05, 0.9))
def test_gap_sentences_say_most_of_the_others(sentences: list[np.ndarray], rate: float) -> None:
    source, target = noise.gap_sentences(sentences, mask=MASK, rate=rate)
    scores = [
        noise.rouge1(sentence, np.concatenate([s for i, s in enumerate(sentences) if i != place]))
        for place, sentence in enumerate(sentences)
    ]
    gaps = int((source == MASK).sum())
    assert gaps == min(max(round(len(sentences) * rate), 1), len(sentences) - 1)
    chosen = sorted(sorted(range(len(sentences)), key=lambda i: (-scores[i], i))[:gaps])
    assert target.tolist() == [n for i in chosen for n in sentences[i].tolist()]
    assert source.tolist() == [
        n for i, sentence in enumerate(sentences) for n in ([MASK] if i in chosen else sentence.tolist())
    ]


def test_what_cannot_be_is_reported() -> None:
    ids = np.arange(2, 12)
    with pytest.raises(ConfigError, match="2 sentinels"):
        noise.corrupt_spans(ids, drawing(0), sentinels=[9])
    with pytest.raises(DataError, match="at least 2"):
        noise.corrupt_spans(ids[:1], drawing(0), sentinels=SENTINELS)
    with pytest.raises(DataError, match="at least 2"):
        noise.gap_sentences([ids], mask=MASK)
    with pytest.raises(ConfigError, match="rate is 15"):
        noise.mask_tokens(ids, drawing(0), mask=MASK, rate=15)
    with pytest.raises(ConfigError, match="mean is 0"):
        noise.infill(ids, drawing(0), mask=MASK, mean=0)
