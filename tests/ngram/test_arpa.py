"""ARPA files, ours and those of others; damaged ones are refused with the line."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import DataError
from glassformer.ngram.arpa import read_arpa, write_arpa
from glassformer.ngram.kneser_ney import train_ngram
from tests.ngram.test_kneser_ney import TEXTS, texts

# Written by hand: "b a" lacks its beginning's line "b", which stands among the 1-grams, and "a b a" its end "b a".
FOREIGN = """written by hand

\\data\\
ngram 1=5
ngram 2 = 2
ngram 3=1

\\1-grams:
-1.0\t<UNK>
-99\t<s>\t-0.5
-0.7\t</s>
-0.4\ta\t-0.2
-0.6\tb\t-0.3

\\2-grams:
-0.3\t<s> a\t-0.1
-0.2 a b -0.4

\\3-grams:
-0.15\ta b a

\\end\\
"""


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("name", ["model.arpa"])
def test_what_is_written_is_read(order: int, name: str, tmp_path: Path) -> None:
    model = train_ngram(TEXTS, order)
    write_arpa(model, tmp_path / name)
    again = read_arpa(tmp_path / name)
    assert again.words == model.words
    for ours, read in zip(model.tables, again.tables, strict=True):
        assert np.array_equal(ours.keys, read.keys) and np.array_equal(ours.suffixes, read.suffixes)
        np.testing.assert_allclose(read.log_probs, ours.log_probs, rtol=1e-6)
        np.testing.assert_allclose(read.backoffs, ours.backoffs, rtol=1e-6, atol=1e-6)


@given(texts=texts)
def test_any_model_survives(texts: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    model = train_ngram(texts, 3)
    write_arpa(model, path)
    for text in texts[:3]:
        assert read_arpa(path).score(text) == pytest.approx(model.score(text), abs=1e-4)


def test_a_file_of_another_toolkit(tmp_path: Path) -> None:
    """An n-gram that is missing has the probability of backing off, also where a longer one ends in it."""
    (tmp_path / "m.arpa.gz").write_bytes(gzip.compress(FOREIGN.encode()))
    model = read_arpa(tmp_path / "m.arpa.gz")
    assert [len(table) for table in model.tables] == [5, 3, 1]
    ten = math.log(10)
    assert model.score(["a", "b", "a"], end=False) == pytest.approx(-(0.3 + 0.1 + 0.2 + 0.15) * ten, rel=1e-6)
    b_then_a = model.step(model.state(["b"], begin=False), int(model.ids(["a"])[0]))[0]
    assert b_then_a == pytest.approx(-(0.3 + 0.4) * ten, rel=1e-6)
    assert model.score(["zebra"], begin=False, end=False) == pytest.approx(-1.0 * ten)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("\\end\\\n", "", "is not complete"),
        ("\\data\\", "\\date\\", "before \\\\data\\\\; it is no ARPA file"),
        ("ngram 1=5", "ngram 1=4", "expected \\\\2-grams:"),
        ("ngram 1=5", "ngram 1=99999999999", "99,999,999,999 1-grams were announced, and 5 are here"),
        ("ngram 1=5", "ngram 7=5", "expected 'ngram 1='"),
        ("ngram 1=5", "ngram 1=-5", "expected 'ngram 1='"),
        ("-0.4\ta", "nan\ta", "no logarithm"),
        ("-0.4\ta", "1.5\ta", "no logarithm"),
        ("-0.2 a b -0.4", "-0.2 a zebra -0.4", "'zebra' is not among the 1-grams"),
        ("-0.2 a b -0.4", "-0.2 a b c d -0.4", "expected log10 P, 2 words"),
        ("-0.2 a b -0.4", "-0.3 <s> a", "a 2-gram is there twice"),
        ("-1.0\t<UNK>", "-1.0\ta", "twice among the 1-grams"),
        ("-0.6\tb", "-0.6\t" + "b" * 40_000, "longer than"),
    ],
)
def test_a_damaged_file_is_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in FOREIGN
    (tmp_path / "m.arpa").write_text(FOREIGN.replace(old, new, 1))
    with pytest.raises(DataError, match=words):
        read_arpa(tmp_path / "m.arpa")


@given(data=st.binary(max_size=300), cut=st.integers(0, len(FOREIGN)))
def test_any_bytes_are_read_or_refused(data: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("arpa") / "m.arpa"
    path.write_bytes(FOREIGN[:cut].encode() + data + FOREIGN[cut:].encode())
    try:
        read_arpa(path)
    except DataError as error:
        assert str(path) in str(error)
