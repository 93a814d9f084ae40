"""Many pairs, and many texts of words, at once: the same tokens as one by one, cut in the same way."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, DataError
from glassformer.text.batches import pair_token_limits, word_indices
from glassformer.text.tokenizer import Tokenizer
from tests.text import families

SENTENCES = [
    "time flies unaffable !".split(),
    "don 't café the".split(),
    ["漢字", "かな", "Straße", "naïve", "ﬁne", "½"],
    ["New York", "x", "Ελλάδα", "Привет,мир"],
    ["a"],
    [],
]


@pytest.fixture(scope="module", params=["clip", "llama", "openai-gpt", "roberta", "t5", "xlm-roberta", "big_bird"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = families.make(request.param, tmp_path_factory.mktemp("families") / request.param)
    return Tokenizer.from_folder(folder)


def pairs(count: int = 200) -> tuple[list[str], list[str]]:
    draw, words = random.Random(0), "time flies like an unaffable café don't arrow".split()
    texts = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(2 * count)]
    return texts[:count], texts[count:]


def test_pairs_are_those_of_a_call_whatever_the_family(tokenizer: Tokenizer) -> None:
    firsts, seconds = pairs(50)
    for limit in (None, 8, 17):
        rows, truncated = tokenizer.batch_pairs(firsts, seconds, limit)
        expected = tokenizer(firsts, seconds, truncation=limit is not None, max_length=limit)
        assert [row.ids for row in rows] == expected["input_ids"]
        assert [row.token_types for row in rows] == [row.type_ids for row in expected.rows]
        full = [len(ids) for ids in tokenizer(firsts, seconds)["input_ids"]]
        assert truncated == sum(limit is not None and length > limit for length in full)


def test_pairs_have_segments(bert_folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(bert_folder)
    firsts, seconds = pairs()
    for limit in range(3, 20):
        rows, _ = tokenizer.batch_pairs(firsts, seconds, limit)
        expected = tokenizer(firsts, seconds, truncation=True, max_length=limit)
        assert [row.ids for row in rows] == expected["input_ids"]
        assert [row.token_types for row in rows] == expected["token_type_ids"]
    with pytest.raises(ConfigError, match="no room for the 3 special tokens"):
        tokenizer.batch_pairs(firsts, seconds, 2)
    with pytest.raises(DataError, match="1 texts and 2 pairs"):
        tokenizer.batch_pairs(["a"], ["a", "b"], None)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 30))
def test_the_longer_text_is_cut_first(first: int, second: int, limit: int) -> None:
    limits = pair_token_limits(limit, first, second)
    assert sum(limits) == min(limit, first + second)
    assert limits[0] <= first and limits[1] <= second
    for mine, full, other in ((limits[0], first, limits[1]), (limits[1], second, limits[0])):
        assert mine == full or mine >= other - 1  # what was cut is not the shorter


def test_words_are_read_as_the_text_that_they_make(tokenizer: Tokenizer) -> None:
    for words, row in zip(SENTENCES, tokenizer.batch_words(SENTENCES, None), strict=True):
        full = tokenizer(" ".join(words))
        assert row.ids == full["input_ids"] and not row.truncated
        owners = [word for word in row.words if word >= 0]
        assert owners == sorted(owners)
        assert sorted(set(owners)) == list(range(len(words)))  # none of these words is without a token
        text = " ".join(words)
        for word, (start, end) in zip(row.words, full.offsets(), strict=True):
            if word >= 0:
                assert set(text[start:end].split()) & set(words[word].split()) or (
                    text[start:end].strip() in words[word]
                )


def test_words_are_the_engines_own_where_it_takes_words(bert_folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(bert_folder)
    expected = tokenizer.engine.encode_batch(SENTENCES, is_pretokenized=True)
    for row, theirs in zip(tokenizer.batch_words(SENTENCES, None), expected, strict=True):
        assert row.ids == theirs.ids
        assert [None if word < 0 else word for word in row.words] == theirs.word_ids
    assert tokenizer.batch_words([["time", "unaffable"]], None)[0].words == [-1, 0, 1, 1, 1, -1]


def test_words_are_cut_with_their_tokens(bert_folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(bert_folder)
    (row,) = tokenizer.batch_words([["time", "unaffable", "arrow"]], 5)
    full = tokenizer.batch_words([["time", "unaffable", "arrow"]], None)[0]
    assert row.truncated and not full.truncated
    assert row.ids == [*full.ids[:4], full.ids[-1]] and row.words == [-1, 0, 1, 1, -1]


def test_a_word_may_have_no_token(bert_folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(bert_folder)
    (row,) = tokenizer.batch_words([["time", "", "\x00", "arrow"]], None)
    assert row.words == [-1, 0, 3, -1]


def test_words_are_texts(bert_folder: Path) -> None:
    with pytest.raises(DataError, match="text 1 must be a string, got int"):
        Tokenizer.from_folder(bert_folder).batch_words([["time", 3]], None)  # type: ignore[list-item]


def test_a_token_is_of_the_word_that_it_shares_a_character_with() -> None:
    #  "ab cd"    a token with the space before it, one of the space alone, one of nothing, one of both words
    assert word_indices(["ab", "cd"], [(0, 2), (2, 5), (2, 3), (0, 0), (1, 4)]) == [0, 1, -1, -1, 0]
