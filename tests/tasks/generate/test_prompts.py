"""Prompts from examples, TL;DR, and T5's prefixes with what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer import ConfigError, DataError
from glassformer.tasks.generate.prompts import T5, FewShot, tldr, translate

PAIRS = [("Thank you", "Danke"), ("Good morning", "Guten Morgen")]
ROWS = [{"text": f"text {i}", "label": i % 3} for i in range(9)]


def test_the_example_of_a_lecture() -> None:
    assert FewShot(PAIRS)("Good night") == "Thank you => Danke\nGood morning => Guten Morgen\nGood night =>"
    shots = FewShot(PAIRS[:1], instruction="English to German", arrow=": ", between="\n\n")
    assert shots("Time flies") == "English to German\n\nThank you: Danke\n\nTime flies:"
    assert shots.read(" Die Zeit vergeht.\n\nFruit: Obst") == "Die Zeit vergeht."
    assert FewShot([])("Time flies") == "Time flies =>"


def test_from_labelled_rows() -> None:
    every = FewShot.from_rows(ROWS, text="text", label="label")
    assert every.examples[4] == ("text 4", "1") and len(every.examples) == 9
    names = ["bad", "fair", "good"]
    shots = FewShot.from_rows(ROWS, text="text", label="label", names=names, shots=2, arrow=" is ")
    assert [answer for _, answer in shots.examples] == names * 2
    assert shots("x").splitlines()[0] == "text 0 is bad"
    drawn = [FewShot.from_rows(ROWS, text="text", label="label", shots=2, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and len({*drawn[0].examples}) == 6
    assert sorted(answer for _, answer in drawn[2].examples) == ["0", "0", "1", "1", "2", "2"]
    assert FewShot.from_rows(iter(ROWS[:1]), text="text", label="label", names={0: "a"}).examples == (("text 0", "a"),)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: FewShot([("a", "b"), ("a",)]), DataError, r"example 1 is .*; it must be a pair of texts"),
        (lambda: FewShot([("a", " ")]), DataError, "example 0"),
        (lambda: FewShot(["ab"]), DataError, "example 0 is 'ab'"),
        (lambda: FewShot([], arrow=""), ConfigError, "must not be empty"),
        (lambda: FewShot(PAIRS)(" "), DataError, "the question is ' '"),
        (
            lambda: FewShot.from_rows(ROWS, text="text", label="y"),
            DataError,
            "row 0 has text, label; it must have",
        ),
        (lambda: FewShot.from_rows(["a"], text="text", label="y"), DataError, "row 0 is 'a'"),
        (
            lambda: FewShot.from_rows(ROWS, text="text", label="label", shots=4),
            DataError,
            "label 0 has 3 rows",
        ),
        (
            lambda: FewShot.from_rows(ROWS, text="text", label="label", names=["a"]),
            ConfigError,
            "names has no name for the label 1",
        ),
        (lambda: tldr(""), DataError, "must be a text that is not empty"),
        (lambda: T5["stsb"]("one"), DataError, "reads 2 texts"),
    ],
)
def test_bad_requests(call: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        call()


def test_tldr() -> None:
    assert tldr("A long article. \n") == "A long article.\nTL;DR:"


def test_t5() -> None:
    assert T5["summarization"]("x") == "summarize: x"
    assert T5["translation_en_to_de"]("x") == translate("English", "German")("x") == "translate English to German: x"
    assert T5["cola"]("x") == "cola sentence: x"
    assert T5["stsb"]("A man.", "A dog.") == "stsb sentence1: A man. sentence2: A dog."
    assert T5["summarization"].read(" a ") == "a"
    assert [T5["cola"].read(answer) for answer in ("acceptable", "unacceptable ", "not acceptable")] == [
        True,
        False,
        False,
    ]
    assert [T5["stsb"].read(answer) for answer in ("0.0", "3.8", " 5", "0.6")] == [0.0, 3.8, 5.0, 0.6]
    steps = [T5["stsb"].read(f"{step / 5:.1f}") for step in range(26)]
    assert steps == [step / 5 for step in range(26)]
    for answer in ("3.7", "5.2", "-0.2", "nan", "inf", "", "four"):
        with pytest.raises(DataError, match=r"a number from 0 to 5 in steps of 0\.2"):
            T5["stsb"].read(answer)
    with pytest.raises(DataError, match="it must be 'acceptable' or 'unacceptable'"):
        T5["cola"].read("yes")
