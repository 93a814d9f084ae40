"""Sentences: the known hard cases, nothing lost, and an end for every text."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import ConfigError, DataError
from glassformer.text.sentences import WINDOW, clear_sentence_starts, sentence_spans, split_sentences, unwrapped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The U.S. are a country. The U.N. is an organization.",
            ["The U.S. are a country.", "The U.N. is an organization."],
        ),
        ("Mr. Smith paid $3.50 at 5 p.m. on Jan. 4. He left.", 2),
        ('"Is it true?" she asked. It was.', 2),
        ("One line\nand another\r\n\r\nand a third", ["One line", "and another", "and a third"]),
        ("Is that so?! Yes... it is.", 2),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_known_cases(text: str, expected: list[str] | int) -> None:
    sentences = split_sentences(text)
    assert (sentences if isinstance(expected, list) else len(sentences)) == expected


@pytest.mark.parametrize(
    ("language", "text", "count"),
    [
        ("de", "Das ist z. B. ein Satz. Am 3. Mai kam Dr. Meier.", 2),
        ("ja", "これは文です。これも文です。", 2),
        ("hi", "यह एक वाक्य है। यह दूसरा है।", 2),
    ],
)
def test_other_languages(language: str, text: str, count: int) -> None:
    assert len(split_sentences(text, language)) == count


def test_a_language_without_rules_and_no_text() -> None:
    with pytest.raises(ConfigError, match=r"language 'xx'.*allowed: am, ar.*zh"):
        split_sentences("a", "xx")
    with pytest.raises(DataError, match="must be a string, got bytes"):
        sentence_spans(b"a")  # type: ignore[arg-type]


FRAGMENTS = st.lists(
    st.sampled_from(["U.S. ", "Mr. ", "a", " ", ". ", "? ", "!", "\n", "\r", "“", "”", "(", "1. ", "ȸ", "。"])
)


@given(st.text(st.characters(codec=None), max_size=200) | FRAGMENTS.map("".join))
def test_spans_cover_any_text(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert [text[start:end].strip() for start, end in spans] == split_sentences(text) or not text.strip()


@given(
    st.lists(
        st.sampled_from(["He ran.", "Why did Mr. Smith go to the U.S.?", "It rained all day long!"]),
        min_size=1,
    )
)
@settings(max_examples=25)
def test_the_window_changes_nothing(sentences: list[str]) -> None:
    """A line of any length is cut where it would be cut if all of it were seen."""
    many = (sentences * (1 + 3 * WINDOW // len(" ".join(sentences))))[:200]
    assert split_sentences(" ".join(many)) == many


@pytest.mark.parametrize("shift", range(0, 200, 7))
def test_what_the_edge_of_the_window_cuts_is_looked_at_again(shift: int) -> None:
    quoted = "(it was about to rain. So nobody went out. The whole town waited, and the trains did too)"
    many = ["x" * shift + " ran.", *[f"The mayor said {quoted} that all was well."] * 15]
    assert split_sentences(" ".join(many)) == [many[0].strip(), *many[1:]]


def test_a_sentence_longer_than_the_window_is_one() -> None:
    long = "word " * WINDOW
    assert split_sentences(f"Short one. {long}ends here. Another one.") == [
        "Short one.",
        f"{long}ends here.",
        "Another one.",
    ]


@pytest.mark.soak  # a shorter one is below
def test_a_megabyte_of_anything_ends_soon() -> None:
    odd = [".", "Mr. no. ", "e.g. A ", "“a? ", "1. ", "!?", "a"]
    text = " " * 500_000 + "The fox of Mr. Smith ran. " * 16_000
    text = "".join([text, *((kind * 25_000)[:25_000] for kind in odd)])
    assert len(text) > 2**20
    start = time.process_time()
    spans = sentence_spans(text)
    assert time.process_time() - start < 60  # seconds; some two, where the rules alone would take hours
    assert spans[-1][1] == len(text)


def test_scrambled_text_ends_soon() -> None:
    draw = random.Random(0)
    text = "".join(
        draw.choice(["Mr", "e.g", "no", ".", " ", "?", "(", ")", '"', "'", "1", "[", ","]) for _ in range(50_000)
    )
    start = time.process_time()
    assert sentence_spans(text)[-1][1] == len(text)
    assert time.process_time() - start < 20


def test_no_warning_reaches_the_user(tmp_path: Path) -> None:
    """Compiled anew, with every warning an error."""
    program = "from glassformer.text.sentences import split_sentences as split; print(split('A b. C d.'))"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    # Warnings of other packages on the way here are theirs.
    loud = f"import glassformer.text, warnings; warnings.simplefilter('error'); {program}"
    done = subprocess.run([sys.executable, "-c", loud], capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['A b.', 'C d.']\n", "")


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("One is here. Two is here.", ["Two"]),
        ("Dr. Smith met J. Jones at Prof. Miller's. They went.", ["They"]),
        ("In the U.S. Army, no. 5 of 1999. It ended.", ["It"]),
        ("He asked: “Why?” and left. “Because!” She sat.", ["“Because", "She"]),
        ("(See below.) The end (of it). Fin.", ["The", "Fin"]),
        ("A title\n\nAnd text\nwrapped by hand.", ["And"]),
        ("人人生而自由。他们赋有理性！Fin", ["他", "Fin"]),
        ("3.5 is a number. and 7. Only this", []),
    ],
)
def test_clear_starts_are_beyond_doubt(text: str, starts: list[str]) -> None:
    places = clear_sentence_starts(text, 0, len(text))
    assert len(places) == len(starts)
    assert all(text.startswith(word, place) for word, place in zip(starts, places, strict=True))


def test_clear_starts_of_a_stretch_are_those_of_the_text_within_it() -> None:
    text = "One is here. Two is here. Three is here. Four is here."
    two, three = text.index("Two"), text.index("Three")
    assert clear_sentence_starts(text, 5, three) == [two, three]
    assert clear_sentence_starts(text, two, three - 1) == []


def test_clear_starts_are_starts_by_the_rules() -> None:
    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    paragraphs = [
        part for page in pages for part in re.split(r"\n\n|```.*?```", page.read_text("utf-8"), flags=re.DOTALL)
    ]
    whole = [part for part in paragraphs if len(part) > 80 and part[0].isalpha() and not re.search(r"[`*\[|]", part)]
    prose = " ".join(part.replace("\n", " ") for part in whole)[:30_000]
    rules = {start for start, _ in sentence_spans(prose)}
    clear = clear_sentence_starts(prose, 0, len(prose))
    assert len(clear) > 0.9 * len(rules)
    assert len(set(clear) & rules) > 0.95 * len(clear)


WRAPPED = """Of a PDF that takes longer than a minute, the first
pages that were read are in the store, and a note says
so. Others are read whole.

- an item of a list that is as wide as the paragraph is
- another

| name | what it is, which is as wide as the rest here |
| size | of a file |"""


def test_line_breaks_that_wrap_a_paragraph_end_no_sentence() -> None:
    joined = unwrapped(WRAPPED)
    assert len(joined) == len(WRAPPED)
    sentences = [joined[start:end].strip() for start, end in sentence_spans(joined)]
    assert sentences[0].startswith("Of a PDF") and sentences[0].endswith("a note says so.")
    assert sentences[1:] == ["Others are read whole.", *WRAPPED.splitlines()[4:6], *WRAPPED.splitlines()[7:]]


@pytest.mark.parametrize("text", ["", "one line", "a verse\nanother verse\n", "\n\n", "x\r\ny"])
def test_other_line_breaks_stay(text: str) -> None:
    assert unwrapped(text) == text


def test_a_line_that_hangs_below_another_goes_on_with_its_sentence() -> None:
    item = "- What was written stays; it continues after a stop of\n  the whole."
    text = f"{item}\n- {'x' * 90}\n- Another of some forty characters, or more:\n  what follows it.\n  Then the end."
    assert unwrapped(text) == text.replace("of\n", "of ")


def test_a_break_of_two_characters_becomes_two_spaces() -> None:
    text = "a" * 30 + " and more words\r\n" + "unbroken" * 5
    assert unwrapped(text) == text.replace("\r\n", "  ")
