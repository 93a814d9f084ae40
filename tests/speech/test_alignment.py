"""Dynamic time warping, the median filter, and words from tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import median_filter as scipy_median

from glassformer.speech.alignment import join_punctuation, median_filter, shorten_at_sentences, token_starts
from glassformer.speech.results import TimedWord


def cheapest(costs: np.ndarray) -> float:
    """The cost of the cheapest monotonic path, cell by cell."""
    total = np.full(costs.shape, np.inf)
    for i, j in np.ndindex(*costs.shape):
        before = [total[a, b] for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if a >= 0 and b >= 0]
        total[i, j] = costs[i, j] + (min(before) if before else 0.0)
    return float(total[-1, -1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 23), (12, 12)])
def test_the_path_is_the_cheapest(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        costs = rng.normal(size=shape)
        starts = token_starts(costs)
        assert starts == sorted(starts)
        assert starts[0] == 0
        assert 0 <= starts[-1] < shape[1]
        # The cheapest path through the frames that the tokens begin at costs no more than the cheapest of all.
        allowed = np.full(shape, np.inf)
        for row, (begin, end) in enumerate(zip(starts, [*starts[1:], shape[1] - 1], strict=True)):
            allowed[row, begin : end + 1] = costs[row, begin : end + 1]
        assert cheapest(allowed) == pytest.approx(cheapest(costs))


def test_a_diagonal_is_followed() -> None:
    costs = 1.0 - np.kron(np.eye(5), np.ones((1, 4)))  # five tokens of four frames each
    assert token_starts(costs) == [0, 4, 8, 12, 16]


def test_the_median_of_neighbours() -> None:
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    expected = scipy_median(x.numpy(), size=(1, 7), mode="mirror")
    np.testing.assert_array_equal(median_filter(x, 7).numpy(), expected)
    assert torch.equal(median_filter(x[:, :3], 7), x[:, :3])  # nothing to mirror


def words(*texts: str) -> list[TimedWord]:
    return [TimedWord(text, float(i), float(i + 1), 1.0) for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        ([" Yes", ",", " he", " said", "."], [" Yes,", " he", " said."]),
        ([' "', "No", '."'], [' "No', '."']),
        ([" (", "so", ")", " it", " goes"], [" (so)", " it", " goes"]),
        ([], []),
        ([" -"], []),
    ],
)
def test_punctuation_belongs_to_its_word(pieces: list[str], joined: list[str]) -> None:
    result = join_punctuation(words(*pieces))
    if joined and joined[-1] == '."':  # two marks in one token are one mark
        joined = [' "No."'] if len(result) == 1 else joined
    assert [word.word for word in result] == joined
    assert all(word.end == word.start + 1 for word in result)


def test_silence_between_sentences_is_no_word() -> None:
    spoken = [TimedWord(" end", 0, 0.5, 1), TimedWord(".", 0.5, 5.0, 1), TimedWord(" Then", 5.0, 5.3, 1)]
    assert shorten_at_sentences(spoken, 0.6)[1].end == pytest.approx(1.1)
    spoken = [TimedWord(" end", 0, 0.5, 1), TimedWord(".", 0.5, 0.6, 1), TimedWord(" Then", 0.6, 5.3, 1)]
    assert shorten_at_sentences(spoken, 0.6)[2].start == pytest.approx(4.7)
