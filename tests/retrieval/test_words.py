"""Terms of texts: one word has one term on both sides of a search, in any script."""

from __future__ import annotations

import pytest

from glassformer.errors import ConfigError
from glassformer.retrieval.words import match_expression, query_terms, terms


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The lighthouses weren’t BUILT", "en", "the lighthous werent built"),
        ("Häuser am Fluß", "de", "haus am fluss"),
        ("Маяки построены", "ru", "маяк постро"),
        ("max_seq_len = 3.5e-2", "none", "max seq len 3 5e 2"),
        ("灯台は1874年", "ja", "灯台 台は は 1874 年"),
        ("हिन्दी में", "none", "हिन्दी में"),
        ("ﬁle № ①", "none", "file no 1"),
        ("\U00020000\U00020001", "none", "\U00020000\U00020001 \U00020001"),
        ("--- \x00 \ud800", "en", ""),
    ],
)
def test_terms(text: str, language: str, expected: str) -> None:
    assert terms(text, language) == expected.split()


def test_one_character_of_a_script_without_spaces_is_a_prefix() -> None:
    assert query_terms("猫", "ja") == ["猫*"]
    assert query_terms("黒猫", "ja") == ["黒猫"]
    assert match_expression(["猫*", "tower"]) == '"猫"* OR "tower"'


@pytest.mark.parametrize(
    "question", ['NEAR("', '"' * 13, "a AND OR NOT b", "col:x ^y z*", "(((", "';DROP TABLE words;--"]
)
def test_no_word_of_a_question_is_an_operator(question: str) -> None:
    assert all(term.isalnum() for term in query_terms(question, "en"))


def test_a_language_that_is_none() -> None:
    with pytest.raises(ConfigError, match="must be a code such as en"):
        terms("a", "english!")
    assert terms("words", "xx") == ["words"]
