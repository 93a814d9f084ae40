"""Which texts to label next: measures of uncertainty, distances against every other choice, and both together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest

from glassformer.few_labels.active_learning import (
    CANDIDATES,
    FILTER,
    UNCERTAIN,
    Strategy,
    central,
    choose_texts,
    farthest,
    uncertainty,
)

COUNT = 200
TEXTS = [str(i) for i in range(COUNT)]
POINTS = np.random.default_rng(5).normal(size=(3, 8))


def vectors(texts: Sequence[str]) -> np.ndarray:
    """Three blobs, of which the first has most texts."""
    numbers = np.array([int(text) for text in texts])
    blob = np.where(numbers < 160, 0, np.where(numbers < 190, 1, 2))
    noise = np.random.default_rng(0).normal(size=(COUNT, 8))[numbers] * 0.05
    made: np.ndarray = POINTS[blob] + noise
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def scores(texts: Sequence[str]) -> np.ndarray:
    """The higher its number, the surer the label of a text."""
    high = 0.5 + np.array([int(text) for text in texts]) / COUNT / 2
    return np.stack([high, 1 - high], 1)


def chosen_by(strategy: Strategy, count: int, labelled: Sequence[int] = (3, 40), *, fitted: bool = True) -> np.ndarray:
    return choose_texts(
        TEXTS, np.array(labelled, dtype=np.int64), count, strategy, np.random.default_rng(1),
        scores=scores if fitted else None, vectors=vectors, several=False,
    )  # fmt: skip


def test_uncertainty_by_its_formulas() -> None:
    p = np.array([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0], [1 / 3] * 3])
    assert uncertainty(p, "least-confidence", several=False) == pytest.approx([0.5, 0.1, 2 / 3])
    assert uncertainty(p, "margin", several=False) == pytest.approx([0.8, 0.2, 1.0])
    entropy = uncertainty(p, "entropy", several=False)
    assert entropy[2] == pytest.approx(np.log(3)) and entropy[1] == pytest.approx(
        -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    )
    several = uncertainty(np.array([[0.5, 1.0], [0.9, 0.2]]), "margin", several=True)
    assert several == pytest.approx([(1 + 0) / 2, (0.2 + 0.4) / 2])


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_every_strategy_chooses_other_texts_each_once(strategy: Strategy) -> None:
    for fitted in (True, False):
        for labelled in ((3, 40), ()):
            chosen = chosen_by(strategy, 12, labelled, fitted=fitted)
            assert len({*chosen.tolist()}) == 12 and not {*chosen.tolist()} & {*labelled}
            assert chosen.tolist() == chosen_by(strategy, 12, labelled, fitted=fitted).tolist()
    rest = chosen_by(strategy, 198)
    assert sorted(rest.tolist()) == [i for i in range(COUNT) if i not in (3, 40)]


def test_the_least_sure_texts_are_chosen() -> None:
    for strategy in UNCERTAIN[:3]:
        assert sorted(chosen_by(strategy, 5).tolist()) == [0, 1, 2, 4, 5]  # type: ignore[arg-type] # 3 is labelled
    both = chosen_by("both", 5)
    assert max(both) <= 5 * FILTER + 1 and sorted(both.tolist()) != [0, 1, 2, 4, 5]


def test_the_farthest_is_farther_than_every_other() -> None:
    points, centres = vectors(TEXTS[::4]), vectors(TEXTS[:2])
    order = farthest(points, centres, 6)
    known = [*centres]
    for i in order:
        distances = (points @ np.array(known).T).max(1)
        assert distances[i] == pytest.approx(min(distances))
        known.append(points[i])
    first = farthest(points, None, 1)
    assert (points @ points.mean(0)).argmax() == first[0]


def test_different_texts_are_of_every_blob() -> None:
    """Of 200 texts 10 are of the third blob: of three random ones hardly ever one of each."""
    for strategy in ("core-set", "k-means"):
        chosen = chosen_by(strategy, 3, ())  # type: ignore[arg-type]
        assert sorted(np.digitize(chosen, [160, 190]).tolist()) == [0, 1, 2]
    alike = np.tile(vectors(["0"]), (6, 1))
    with pytest.warns(UserWarning, match="distinct clusters"):
        assert len({*central(alike, 4, 0).tolist()}) == 4


def test_of_many_texts_a_sample_is_looked_at() -> None:
    seen: list[int] = []

    def counted(texts: Sequence[str]) -> np.ndarray:
        seen.append(len(texts))
        return np.full((len(texts), 2), 0.5)

    many = [str(i) for i in range(CANDIDATES + 500)]
    chosen = choose_texts(
        many, np.arange(4), 10, "margin", np.random.default_rng(0), scores=counted, vectors=vectors, several=False
    )
    assert seen == [CANDIDATES] and len(chosen) == 10 and chosen.max() > CANDIDATES
