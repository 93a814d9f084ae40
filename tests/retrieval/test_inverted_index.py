"""The inverted index: its file, what it refuses, and BM25 by its formula."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.retrieval import inverted_index as module
from glassformer.retrieval.bm25 import inverse_frequency
from glassformer.retrieval.inverted_index import InvertedIndex, write_inverted_index
from tests.peak import measured
from tests.retrieval.made import place_of

DRAW = np.random.default_rng(0)
SHARES = 1 / np.arange(1, 201) ** 1.1
TEXTS = [
    [f"w{x}" for x in DRAW.choice(200, DRAW.integers(1, 60), p=SHARES / SHARES.sum())] for _ in range(1_500)
]  # fmt: skip
TEXTS[7], TEXTS[8] = ["w3"] * 300 + ["w4"] * 255 + ["w5"] * 254, []
IDS = np.sort(DRAW.choice(9_000, len(TEXTS), replace=False)) + 1


def write(path: Path, texts: list[list[str]], ids: np.ndarray) -> Path:
    listed = sorted({term for text in texts for term in text}, key=str.encode)
    places = {term: [(i, text.count(term)) for i, text in enumerate(texts) if term in text] for term in listed}
    words = [(term.encode(), len(places[term]), sum(tf for _, tf in places[term])) for term in listed]
    occurrences = (int(ids[i]) for term in listed for i, tf in places[term] for _ in range(tf))
    write_inverted_index(path, ids, np.array([len(text) for text in texts]), words, occurrences)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("index") / "words.bm25", TEXTS, IDS)


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    copy = tmp_path / "words.bm25"
    copy.write_bytes(written.read_bytes())
    return copy


def weights_of(index: InvertedIndex, *terms: str) -> dict[str, tuple[module.Postings, float]]:
    lists = {term: index.postings(term) for term in terms}
    return {term: (x, inverse_frequency(len(index), len(x.rows))) for term, x in lists.items() if len(x.rows)}


def formula(terms: dict[str, tuple[module.Postings, float]], mean: float) -> np.ndarray:
    """BM25 of all passages, as the module states it."""
    scores = np.zeros(len(TEXTS))
    for row, text in enumerate(TEXTS):
        counts = Counter(text)
        for term, (_, idf) in terms.items():
            scores[row] += idf * counts[term] * 2.2 / (counts[term] + 1.2 * (1 - 0.75 + 0.75 * len(text) / mean))
    return scores


@pytest.mark.parametrize("mean", [5.0, None, 90.0])
@pytest.mark.parametrize(("frequent", "lookup"), [(32, 16), (10**9, 0), (10**9, 10**9), (0, 16)])
def test_the_best_are_those_of_the_formula_whatever_is_skipped(
    written: Path, mean: float | None, frequent: int, lookup: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FREQUENT", frequent)
    monkeypatch.setattr(module, "LOOKUP", lookup)
    index, draw = InvertedIndex(written), np.random.default_rng(1)
    mean = mean or index.mean_length
    for _ in range(15):
        terms = weights_of(index, *(f"w{x}" for x in draw.choice(200, draw.integers(1, 9), replace=False)))
        allowed = draw.random(len(TEXTS)) < draw.choice([0, 0.01, 0.3]) if draw.integers(2) else None
        limit = int(draw.choice([1, 10, 100, 2_000]))
        expected = formula(terms, mean) * (1 if allowed is None else allowed)
        order = np.lexsort((np.arange(len(TEXTS)), -expected))[: min(limit, (expected > 0).sum())]
        rows, scores = index.best(terms, limit, mean, allowed)
        np.testing.assert_allclose(scores, expected[order], rtol=1e-12)
        np.testing.assert_allclose(expected[rows], expected[order], rtol=1e-12)  # ties may differ by rounding
        assert len(set(rows.tolist())) == len(rows)


def test_of_equal_scores_the_lowest_ids_come_first(tmp_path: Path) -> None:
    texts = [["a", "b"], ["b", "a"], ["a"], ["a", "b"], ["c", "d"], ["d"]]
    index = InvertedIndex(write(tmp_path / "words.bm25", texts, np.array([2, 3, 5, 8, 13, 21])))
    rows, _ = index.best(weights_of(index, "b"), 2, index.mean_length)
    assert index.ids[rows].tolist() == [2, 3]


def test_rare_terms_choose_and_frequent_ones_are_looked_up(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, added = InvertedIndex(written), []
    terms = weights_of(index, "w0", "w150", "w120")
    adding = module._parts
    monkeypatch.setattr(module, "_parts", lambda counts, *rest: (added.append(len(counts)), adding(counts, *rest))[1])
    index.best(terms, 3, index.mean_length)
    frequent = len(terms["w0"][0].rows)
    assert frequent > 600 and max(added) < frequent / 4


def test_scores_at_the_least_are_left_out(written: Path) -> None:
    index = InvertedIndex(written)
    rows, scores = index.best(weights_of(index, "w90", "w2"), 2_000, 20.0)
    again, above = index.best(weights_of(index, "w90", "w2"), 2_000, 20.0, None, float(scores[9]))
    assert (above > scores[9]).all() and again.tolist() == rows[scores > scores[9]].tolist()


def test_postings_have_every_count_exactly(written: Path) -> None:
    index = InvertedIndex(written)
    for term, count in (("w3", 300), ("w4", 255), ("w5", 254)):
        postings = index.postings(term)
        assert postings.counts[postings.rows.tolist().index(7)] == count
        assert postings.counts.sum() == sum(text.count(term) for text in TEXTS)
    assert len(index._large) == 2 and index.lengths[7] == 809 and index.lengths[8] == 0
    assert len(index.postings("w1").rows) == sum("w1" in text for text in TEXTS)
    assert [len(index.postings(term).rows) for term in ("", "w", "zzz", "a", "w1999")] == [0] * 5


@pytest.mark.parametrize("together", [1, 7, 300])
def test_pieces_that_are_read_together_change_nothing(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """A term that is in most passages is read in pieces, which end within a passage too."""
    monkeypatch.setattr(module, "TOGETHER", together)
    assert write(tmp_path / "again.bm25", TEXTS, IDS).read_bytes() == written.read_bytes()


def test_a_term_in_each_passage_many_times_takes_the_memory_of_its_postings(tmp_path: Path) -> None:
    count, times = 200_000, 100  # at once its occurrences take 160 MB
    _, grown = measured(write_one_term, tmp_path / "words.bm25", count, times)
    assert grown < 80e6, f"{grown / 1e6:.0f} MB"


def write_one_term(path: Path, count: int, times: int) -> None:
    ids = np.arange(1, count + 1)
    occurrences = (int(id) for id in ids for _ in range(times))
    write_inverted_index(path, ids, np.full(count, times), [(b"the", count, count * times)], occurrences)


def test_a_prefix_is_all_of_its_terms(written: Path) -> None:
    index = InvertedIndex(written)
    together = index.postings("w19*")
    counts = [sum(term.startswith("w19") for term in text) for text in TEXTS]
    assert together.rows.tolist() == np.flatnonzero(counts).tolist()
    assert together.counts.tolist() == [count for count in counts if count]
    assert (
        len(index.postings("x*").rows) == 0
        and index.postings("w190*").rows.tolist() == index.postings("w190").rows.tolist()
    )
    np.testing.assert_allclose(
        index.best(weights_of(index, "w19*"), 5, 20.0)[1].max(),
        max(
            inverse_frequency(len(TEXTS), len(together.rows)) * c * 2.2 / (c + 1.2 * (0.25 + 0.75 * len(text) / 20))
            for c, text in zip(counts, TEXTS, strict=True)
        ),
    )


def test_rows_that_hold_ids(written: Path) -> None:
    index = InvertedIndex(written)
    held = index.holds(np.array([0, IDS[3], IDS[3] + 10_000, IDS[-1]]))
    assert np.flatnonzero(held).tolist() == [3, len(IDS) - 1] and not index.holds(IDS[:0]).any()


def test_passages_without_terms(tmp_path: Path) -> None:
    index = InvertedIndex(write(tmp_path / "words.bm25", [[], []], np.array([4, 9])))
    assert len(index) == 2 and index.newest == 9 and len(index.postings("a").rows) == 0
    index.verify()
    assert len(index.best({"a": (index.postings("a"), 1.0)}, 5, 1.0)[0]) == 0


def test_an_open_index_continues_when_its_file_is_replaced(path: Path) -> None:
    index = InvertedIndex(path)
    write(path, [["other"]], np.array([3]))
    index.verify()
    assert len(index.postings("w0").rows) > 600 and len(InvertedIndex(path).postings("w0").rows) == 0


def test_numbers_that_contradict_each_other_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    path, ids, lengths = tmp_path / "words.bm25", np.array([2, 5]), np.array([2, 1])
    words = [(b"a", 2, 2), (b"b", 1, 1)]
    write_inverted_index(path, ids, lengths, words, [2, 5, 2])
    path.unlink()
    for other_words, occurrences, said in (
        (words, [2, 5], "not those that it counts"),
        (words, [2, 5, 7], "not those that it counts"),
        (words, [2, 2, 5], "not those that it counts"),
        ([(b"a", 2, 2), (b"b", 0, 0), (b"c", 1, 1)], [2, 5, 2], "not those that it counts"),
        (words, [2, 5, 2, 2], "do not add up"),
        (words, [2, 5, 5], "do not add up"),
    ):
        with pytest.raises(DataError, match=said):
            write_inverted_index(path, ids, lengths, other_words, occurrences)
    with pytest.raises(DataError, match="1 passage or more"):
        write_inverted_index(path, ids[:0], lengths[:0], [], [])
    with pytest.raises(DataError, match="cannot be written"):
        write_inverted_index(tmp_path / "none" / "words.bm25", ids, lengths, words, [2, 5, 2])
    assert not list(tmp_path.iterdir())


def test_a_damaged_term_is_refused_where_it_is_read(path: Path) -> None:
    index = InvertedIndex(path)
    start = int(index._ends[index._place(b"w0") - 1]) if index._place(b"w0") else 0
    place = place_of(path, "rows").start + 4 * start
    whole = bytearray(path.read_bytes())
    whole[place : place + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(whole)
    index = InvertedIndex(path)
    assert len(index.postings("w7").rows) == sum("w7" in text for text in TEXTS)
    with pytest.raises(DataError, match="postings of a term differ from their checksum"):
        index.postings("w0")
