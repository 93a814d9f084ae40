"""Counts of n-grams: those of a dictionary, whatever fits in memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.ngram import counts
from glassformer.ngram.counts import BEGIN, END, NgramCounts, SortedCounter, check_word, count_ngrams


def as_dictionary(counted: NgramCounts, n: int) -> dict[tuple[str, ...], int]:
    def words(order: int, place: int) -> tuple[str, ...]:
        key = int(counted.orders[order - 1].keys[place])
        return ((*words(order - 1, key >> 32),) if order > 1 else ()) + (counted.words[key & (2**32 - 1)],)

    order = counted.orders[n - 1]
    return {words(n, place): int(count) for place, count in enumerate(order.counts) if count}


@pytest.mark.parametrize("chunk", [5, 64, 1 << 20])
def test_counts_are_those_of_a_dictionary(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "CHUNK", chunk)
    draw = np.random.default_rng(0)
    texts = [[f"w{i}" for i in draw.zipf(1.5, draw.integers(0, 9)) % 40] for _ in range(300)]
    progress: list[int] = []
    counted = count_ngrams(texts, 4, tmp_path, progress=progress.append)
    rows = [[BEGIN, *text, END] for text in texts]
    for n in range(1, 5):
        assert as_dictionary(counted, n) == Counter(
            tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)
        )
        assert (np.diff(counted.orders[n - 1].keys) > 0).all()
    assert sum(progress) >= sum(map(len, rows))


def test_runs_on_disk_are_merged(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    numbers = [draw.integers(0, 3_000, size) for size in (1, 700, 900, 5_000, 1_100, 80)]
    small, large = SortedCounter(tmp_path, "small", 1_000), SortedCounter(tmp_path, "large", 10**9)
    for counter in (small, large):
        for part in numbers:
            counter.add(part)
    few, all_at_once = small.counts(), large.counts()
    assert len(list(tmp_path.glob("small.run*.keys"))) > 2 and not list(tmp_path.glob("large*"))
    keys, expected = np.unique(np.concatenate(numbers), return_counts=True)
    for counted in (few, all_at_once):
        assert np.array_equal(counted.keys, keys) and np.array_equal(counted.counts, expected)


def test_rare_words_are_unknown(tmp_path: Path) -> None:
    texts = [["b", "a", "a", "c", "<s>", "</s>", "<unk>"], ["a", "b"]]
    assert count_ngrams(texts, 1, tmp_path).words[3:] == ["a", "b", "c"]
    counted = count_ngrams(texts, 2, tmp_path, min_count=2)
    assert counted.words[3:] == ["a", "b"]
    assert as_dictionary(counted, 1)[("<unk>",)] == 4  # c, and three that have a meaning of their own
    assert as_dictionary(counted, 2)[("<unk>", "<unk>")] == 3
    assert count_ngrams(texts, 1, tmp_path, max_words=1).words[3:] == ["a"]


@pytest.mark.parametrize("word", ["", "two words", " ", "a\u00a0b", "\ud800", "x" * 1_001, "a\n"])
def test_what_is_no_word(word: str) -> None:
    with pytest.raises(DataError, match="is no word of an n-gram model"):
        check_word(word)
