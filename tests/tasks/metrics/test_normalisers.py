"""Normalisers: one table of texts and what becomes of them, in each language."""

from __future__ import annotations

import pytest

from glassformer.tasks.metrics.normalisers import letters_of, normaliser_of

CASES = [
    ("english", "Dr. Smith's got 7 dogs, doesn't he?", "doctor smiths got seven dogs does not he"),
    ("english", "I’ll pay 1,234 [laughs]", "i will pay one thousand two hundred thirty four"),
    ("english", "um, 3.14%", "three point one four percent"),
    ("english", "One hundred and five – won't; can't & let's", "one hundred five will not can not and let us"),
    ("english", "105, 0 and 1000000", "one hundred five zero and one million"),
    ("english", "thousand and one nights, salt and pepper", "thousand one nights salt and pepper"),
    ("english", "mp3 Hm, mr Uhland's (inaudible) umbrella", "mp three mister uhlands umbrella"),
    ("ukrainian", "П'ять, п’ять і пʼять!", "пʼять пʼять і пʼять"),
    ("ukrainian", "за́мок на 21 замо́к", "замок на двадцять один замок"),
    ("ukrainian", "2000 і 5001, 1 000 000", "дві тисячі і пʼять тисяч один один нуль нуль"),
    ("ukrainian", "її їжак – ЙОД", "її їжак йод"),
    ("ukrainian", "cон (Latin c), a Windows", "сон latin c a windows"),
    ("basic", "It’s semi-dry", "its semi dry"),
    ("none", " It’s  so ", "It’s so"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), CASES)
def test_texts(name: str, text: str, expected: str) -> None:
    assert normaliser_of(name)(text) == expected


@pytest.mark.parametrize("name", ["english", "ukrainian", "basic", "none"])
def test_a_normalised_text_stays_as_it_is(name: str) -> None:
    clean = normaliser_of(name)
    for _, text, _ in CASES:
        assert clean(clean(text)) == clean(text)


def test_long_digits_are_read_one_by_one() -> None:
    assert normaliser_of("english")("9" * 5000).split() == ["nine"] * 5000


def test_letters_keep_apostrophes_within_words() -> None:
    assert letters_of("Дерев’яний – 'Don't!' semi-dry") == "дерев'яний don't semi dry"
