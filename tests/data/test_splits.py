"""Parts that share nothing, and hold labels in like shares."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import splits
from glassformer.data.rows import read_rows
from glassformer.data.sequence import InMemoryRows
from glassformer.data.splits import (
    column_values,
    deduplicate,
    folds,
    leaks,
    normalise_text,
    sample,
    slices,
    split,
)
from glassformer.errors import ConfigError, DataError

SIZES = (8, 16, 32, 64, 128, 220)


def furthest(labels: list[set[str]], part: np.ndarray) -> float:
    """By how many rows a label is off its share at most."""
    names = sorted({name for each in labels for name in each})
    there = np.array([[name in each for name in names] for each in labels])
    return float(np.abs(there[part].sum(0) - there.mean(0) * len(part)).max())


def tagged(seed: int, count: int = 223) -> list[set[str]]:
    """Rows with none, one or several of nine tags, some of them rare."""
    draw = np.random.default_rng(seed)
    often = [0.48, 0.33, 0.17, 0.15, 0.08, 0.07, 0.06, 0.03, 0.02]
    return [{f"tag{i}" for i, share in enumerate(often) if draw.random() < share} for _ in range(count)]


def all_once(parts: list[np.ndarray], count: int) -> bool:
    return sorted(np.concatenate(parts).tolist()) == list(range(count))


@pytest.mark.parametrize("labels", [None, ["a", "b", "b", "c"] * 25])
def test_three_parts_hold_each_row_once_and_hang_on_the_seed_alone(labels: list[str] | None) -> None:
    parts = split(100, labels=labels, seed=3)
    assert [len(part) for part in parts] == [80, 10, 10] and all_once(parts, 100)
    assert all((np.diff(part) > 0).all() for part in parts)
    again, other = split(100, labels=labels, seed=3), split(100, labels=labels, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts[0], other[0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcde"), min_size=20, max_size=200), st.integers(0, 99))
def test_each_class_is_in_each_part_within_one_row_of_its_share(labels: list[str], seed: int) -> None:
    parts = split(len(labels), (0.7, 0.2, 0.1), labels=labels, seed=seed)
    assert all_once(parts, len(labels))
    sizes = np.array([0.7, 0.2, 0.1]) * len(labels)
    assert all(abs(len(part) - size) < 1 for part, size in zip(parts, sizes, strict=True))
    for part in parts:
        assert furthest([{label} for label in labels], part) <= 1


@pytest.mark.parametrize("seed", range(4))
def test_slices_of_several_labels_a_row_keep_them_within_one_row_of_their_share(seed: int) -> None:
    labels = tagged(seed)
    parts = slices(labels, SIZES, seed=seed)
    assert [len(part) for part in parts] == list(SIZES)
    for part, outer in zip(parts, [*parts[1:], np.arange(len(labels))], strict=True):
        assert set(part) <= set(outer)
        assert furthest(labels, part) < 1


def test_swaps_mend_what_going_label_by_label_leaves() -> None:
    """Two sorts of labels that cross: places are given out by the one, and the other has to take what is left."""
    labels = [{kind, project} for kind in "abc" for project in "vwxyz" for _ in range(100)]
    for part in slices(labels, SIZES):
        assert furthest(labels, part) < 1


def test_real_issues_with_two_sorts_of_labels(shared: Path) -> None:
    with gzip.open(shared / "data/github_issues_nlbse24/train.jsonl.gz", "rt", encoding="utf-8") as file:
        labels = [{row["label"], row["repo"]} for row in map(json.loads, file)]
    for part in slices(labels, SIZES):
        assert furthest(labels, part) < 1


def test_no_speaker_is_in_two_parts() -> None:
    speakers = ["ann"] * 40 + ["bob"] * 25 + ["cem"] * 20 + ["dee"] * 10 + ["eve"] * 5
    parts = split(100, (0.8, 0.1, 0.1), groups=speakers, seed=1)
    assert all_once(parts, 100)
    heard = [{speakers[i] for i in part} for part in parts]
    assert all(heard) and not heard[0] & heard[1] and not heard[0] & heard[2] and not heard[1] & heard[2]
    assert len(parts[0]) >= 75


def test_the_last_groups_fill_parts_that_are_empty() -> None:
    parts = split(9, (0.9, 0.05, 0.05), groups=list("aaabbbccc"))
    assert [len(part) for part in parts] == [3, 3, 3]


def stratified_groups(seed: int) -> tuple[list[str], list[list[str]]]:
    """Speakers of 3 to 30 rows, each with labels of her own habit; `rare` is in few rows of few speakers."""
    draw = random.Random(seed)
    speakers, labels = [], []
    for number in range(60):
        habit = draw.choice(["joy", "anger", "fear"])
        for _ in range(draw.randint(3, 30)):
            speakers.append(f"speaker {number}")
            labels.append(
                [habit if draw.random() < 0.8 else "other"] + ["rare"] * (number % 6 == 0 and draw.random() < 0.3)
            )
    return speakers, labels


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_kept_apart_and_labels_in_their_shares(seed: int) -> None:
    speakers, labels = stratified_groups(seed)
    fractions = (0.7, 0.15, 0.15)
    parts = split(len(speakers), fractions, groups=speakers, labels=labels, seed=seed)
    assert all_once(parts, len(speakers))
    heard = [{speakers[i] for i in part} for part in parts]
    assert len(set.union(*heard)) == sum(map(len, heard)) == 60
    total = Counter(name for names in labels for name in names)
    for fraction, part in zip(fractions, parts, strict=True):
        assert len(part) / len(speakers) == pytest.approx(fraction, abs=0.02)
        found = Counter(name for i in part for name in labels[i])
        for name, count in total.items():
            assert found[name] / count == pytest.approx(fraction, abs=0.06 if name == "rare" else 0.02), name
    again = split(len(speakers), fractions, groups=speakers, labels=labels, seed=seed)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


def test_folds_keep_groups_apart_and_labels_in_their_shares() -> None:
    groups = [number // 4 for number in range(80)]
    labels = ["a" if number % 8 < 4 else "b" for number in range(80)]  # each group has one label
    for train, held_out in folds(80, 5, groups=groups, labels=labels):
        assert not {groups[i] for i in train} & {groups[i] for i in held_out}
        assert Counter(labels[i] for i in held_out) == {"a": 8, "b": 8}


def test_a_smaller_sample_lies_within_a_larger_one() -> None:
    small, large = sample(100, 10, seed=3), sample(100, 60, seed=3)
    assert set(small) < set(large) and len(set(large)) == 60 and list(large) == sorted(large)
    assert set(sample(100, 10, seed=4)) != set(small) and list(sample(5, 5)) == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="a sample of 6 rows cannot be had of 5"):
        sample(5, 6)
    with pytest.raises(ConfigError, match="1 row or more; got 0"):
        sample(5, 0)


def test_folds_hold_each_row_out_once() -> None:
    labels = ["x"] * 30 + ["y"] * 12
    parts = folds(42, 4, labels=labels)
    assert all_once([held_out for _, held_out in parts], 42)
    for train, held_out in parts:
        assert all_once([train, held_out], 42)
        assert sum(labels[i] == "y" for i in held_out) == 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"count": 9, "fractions": (0.5, 0.4)}, ConfigError, "0.5, 0.4 make 0.9"),
        ({"count": 9, "fractions": (1.0,)}, ConfigError, "two or more"),
        ({"count": 3}, DataError, "of 3 rows, 0.1 is none at all"),
        ({"count": 0}, DataError, "of 0 rows"),
        ({"count": 9, "labels": ["a"]}, DataError, "9 rows and 1 labels"),
        ({"count": 9, "labels": "a" * 9, "groups": "b" * 9}, DataError, "1 groups cannot fill 3 parts"),
        ({"count": 9, "groups": [["a"]] * 9}, DataError, "a group is a text or a number"),
        ({"count": 9, "groups": list("aaaabbbbb")}, DataError, "2 groups cannot fill 3 parts"),
        ({"count": 90, "seed": -1}, ConfigError, "got -1"),
        ({"count": 10, "labels": [[{}]] * 10}, DataError, "a text, a number or a list of them"),
    ],
)
def test_what_cannot_be_parted(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        split(**arguments)  # type: ignore[arg-type]


def test_slices_must_grow_and_be_there() -> None:
    with pytest.raises(ConfigError, match="must grow"):
        slices(["a"] * 9, (4, 4))
    with pytest.raises(DataError, match="20 rows cannot be had of 9"):
        slices(["a"] * 9, (4, 20))
    with pytest.raises(ConfigError, match="2 folds or more"):
        folds(9, 1)


def test_texts_are_compared_without_case_space_and_form() -> None:
    assert normalise_text("  Straße\u00a0①\n ") == "strasse 1"
    assert leaks(["Time flies.", "é"], ["fruit", "time  FLIES.", "e\u0301", "time flies."]) == [
        (0, 1),
        (1, 2),
        (0, 3),
    ]
    assert deduplicate(["a", "A ", "b", "a"]) == [0, 2]


def test_leaks_that_wikiann_is_known_to_have(shared: Path) -> None:
    train, judged = (
        [" ".join(row["tokens"]) for row in read_rows(shared / f"data/wikiann/en.{part}.conll.gz")]
        for part in ("train", "val")
    )
    assert len(leaks(train, judged)) == 162


def test_a_column_that_is_not_there() -> None:
    rows = InMemoryRows([{"text": "a", "label": None}, {"text": "b", "label": "x"}], name="my.csv")
    assert column_values(rows, "label") == [None, "x"]
    with pytest.raises(DataError, match=r"my.csv: no column 'lable'; nearest: 'label'"):
        column_values(rows, "lable")


def test_numbers_are_no_labels() -> None:
    """Thousands of different values would take hours to keep in their shares."""
    scores = [f"{number / 7:.3f}" for number in range(3000)]
    with pytest.raises(DataError, match=r"3,000 different labels, such as '.*'; at most 600"):
        split(3000, (0.9, 0.1), labels=scores)


def test_many_different_sets_of_labels_are_stratified_as_well_by_a_few_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = np.random.default_rng(0).random((1_000, 40)) < 0.4  # a thousand rows, each with a set of labels of its own
    labels = [[f"label {j}" for j in np.flatnonzero(row)] for row in member]

    def worst() -> float:
        parts = split(1_000, (0.8, 0.1, 0.1), labels=labels, seed=1)
        assert [len(part) for part in parts] == [800, 100, 100] and len(np.unique(np.concatenate(parts))) == 1_000
        shares = ((member[part].sum(0), len(part) / 1_000) for part in parts)
        return max(float(np.abs(count - share * member.sum(0)).max()) for count, share in shares)

    few = worst()
    monkeypatch.setattr(splits, "SWAP_CANDIDATES", 1_000)  # all pairs
    assert few <= worst() + 0.5 < 3, "rows of a label beyond its share"
    assert len(splits._most_promising(np.arange(2_000), np.arange(2_000.0))) == 1_000
