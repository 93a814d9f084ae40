"""Normalisers: one table of texts and what becomes of them, in each language."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from glassformer.tasks.metrics.normalisers import letters_of, normaliser_of
from glassformer.tasks.metrics.number_words import ENGLISH
from glassformer.tasks.metrics.speech import word_errors

CASES = [
    ("english", "Dr. Smith's got 7 dogs, doesn't he?", "doctor smith has got 7 dogs does not he"),
    ("english", "I’ll pay 1,234 [laughs]", "i will pay 1234"),
    ("english", "um, 3.14%", "3.14%"),
    ("english", "One hundred and five – won't; can't & let's", "105 will not can not and let us"),
    ("english", "105, 0 and 1000000", "105 0 and 1000000"),
    ("english", "thousand and one nights, salt and pepper", "1001 nights salt and pepper"),
    ("english", "mp3 Hm, mr Uhland's (inaudible) umbrella", "mp 3 mister uhland is umbrella"),
    ("english", "R&D, U.S.A. 24/7: -5 #1 [x] .5 a_b ''", "r and d u s a 24 7 5 1 .5 a b"),
    ("english", "", ""),
    ("english", "one second; two thousand million or five million two", "1 2nd 2000000000 or 5000002"),
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


PAIRS = [
    ("the first of may", "the 1st of May"),
    ("the twenty first century", "the 21st century"),
    ("in nineteen ninety nine", "in 1999"),
    ("the nineteen nineties", "the 1990s"),
    ("the eighties", "the 80s"),
    ("nineteen hundred", "1900"),
    ("nineteen oh five", "1905"),
    ("twenty twenty four", "2024"),
    ("two thousand and five", "2,005"),
    ("five dollars", "$5"),
    ("three dollars and fifty cents", "$3.50"),
    ("one point five million pounds", "£1.5 million"),
    ("twenty euros", "€20"),
    ("fifty cents", "50 cents"),
    ("twenty percent", "20%"),
    ("twenty per cent", "20%"),
    ("three point one four", "3.14"),
    ("two and a half", "2.5"),
    ("one hundred and twenty thousand and five", "120,005"),
    ("double oh seven", "zero zero seven"),
    ("nine one one", "911"),
    ("four oh four", "404"),
    ("one hundred and first", "101st"),
    ("the twelfth", "the 12th"),
    ("twenty-one-year-old", "21-year-old"),
    ("colour", "color"),
    ("gonna", "going to"),
    ("I wanna, you gotta", "I want to, you got to"),
    ("it's", "it is"),
    ("she's been", "she has been"),
    ("I'd say they'd been", "I would say they had been"),
    ("won't can't shouldn't", "will not can not should not"),
    ("y'all coulda", "you all could have"),
    ("Mr. and Mrs. St. John, Jr.", "mister and missus saint john junior"),
    ("Prof. X, Gov. Y", "professor x governor y"),
    ("café, naïve", "cafe naive"),
    ("travelled to the theatre's grey centre", "traveled to the theater's gray center"),
    ("organisations realised their neighbours' behaviour", "organizations realized their neighbors' behavior"),
    ("uh, mm, okay", "okay"),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_openai_whisper_counts_as_equal_is_equal(one: str, other: str) -> None:
    assert word_errors([one], [other], normaliser="english").wer.value == 0
    published = pytest.importorskip("transformers.models.whisper.english_normalizer")
    spellings = dict(zip(SPELLINGS[::2], SPELLINGS[1::2], strict=True))
    clean = published.EnglishTextNormalizer(spellings)
    assert clean(one) == clean(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("double oh seven", "007"),
        ("20 percent", "20 %"),
        ("one dollar", "$1"),
        ("one second", "1 second"),
        ("50¢", "50 cents"),
    ],
)
def test_what_is_equal_here_alone(one: str, other: str) -> None:
    assert word_errors([one], [other], normaliser="english").wer.value == 0


SPELLINGS = """colour color travelled traveled theatre theater grey gray centre center organisations organizations
realised realized neighbours neighbors behaviour behavior""".split()


def test_numbers_that_openai_whisper_counts_as_equal_are_equal() -> None:
    """Whole numbers in every spelling, as they are, ordinals, money and shares."""
    published = pytest.importorskip("transformers.models.whisper.english_normalizer").EnglishTextNormalizer({})
    groups = defaultdict[str, set[str]](set)
    for number in [*range(0, 120), *range(995, 1010), 1066, 1900, 1905, 1999, 2010, 2024, 12_345, 100_001, 7_000_300]:
        words = ENGLISH.spell(str(number))
        century = f"{ENGLISH.spell(str(number // 100))} {ENGLISH.spell(str(number % 100))}"
        forms = {str(number), f"{number:,}", words, words.replace("hundred ", "hundred and ")}
        forms |= {century} if 1_000 < number < 10_000 and number % 100 >= 10 else set()
        for form in forms:
            for text in ("{}", "in {} we", "{} dollars", "{} per cent", "{} euros", "{} point seven five", "minus {}"):
                groups[published(text.format(form))].add(text.format(form))
        for text in (f"${number}", f"€{number}", f"{number}%", f"{number}.75", f"{number} dollars and 20 cents"):
            groups[published(text)].add(text)
    groups.pop(" one")  # "$1" has lost its currency there
    assert sum(len(group) > 1 for group in groups.values()) > 500
    clean = normaliser_of("english")
    assert not [group for group in groups.values() if len({clean(text) for text in group}) > 1]
    texts = [text for group in groups.values() for text in group]
    assert all(clean(clean(text)) == clean(text) for text in texts)


@pytest.mark.parametrize("text", ["9" * 5000, "nine " * 5000, "hundred " * 500, "million " * 500, "point one " * 500])
def test_long_numbers_take_no_time(text: str) -> None:
    begin = time.process_time()
    clean = normaliser_of("english")(text)
    assert time.process_time() - begin < 1 and len(clean) <= len(text) * 5


def test_letters_keep_apostrophes_within_words() -> None:
    assert letters_of("Дерев’яний – 'Don't!' semi-dry") == "дерев'яний don't semi dry"
