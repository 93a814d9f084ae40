"""Pieces of text hold whole characters, and are together the text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

import glassformer
from glassformer.generation.detokenizer import REPLACEMENT, IncrementalDetokenizer, clean_up_pieces
from glassformer.generation.generate import _strip_pieces
from glassformer.text import Tokenizer
from glassformer.text.engine import clean_up

TEXTS = ["time flies like an arrow", "  two  spaces ", "café — 你好 🙂🏽!", "a\nb\r\n\n", "x"]


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """A token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = tokenizers.Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return Tokenizer(engine)


@pytest.fixture(scope="module")
def stories(shared: Path) -> Tokenizer:
    """Words with a mark for the space before them, and bytes for what it does not know."""
    return glassformer.load(shared / "models" / "stories260k").tokenizer


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["letters", "stories"])
def test_together_they_are_the_text(name: str, text: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    ids = tokenizer.encode(text)
    pieces = list(IncrementalDetokenizer(tokenizer).stream(ids))
    assert "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=True)
    assert all(pieces) and not any(REPLACEMENT in piece for piece in pieces)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([" ", " time", " ", "flies ", "\n", " like", " \n", "  "], ["time", " flies", " \n like"]),
        ([" ", ""], []),
        ([], []),
        (["a"], ["a"]),
    ],
)
def test_a_transcript_is_streamed_without_outer_spaces(pieces: list[str], text: list[str]) -> None:
    assert list(_strip_pieces(iter(pieces))) == text
    assert "".join(text) == "".join(pieces).strip()


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_is_cleaned_up_as_the_whole_text_is(seed: int) -> None:
    parts = ["do", "time", " ", " n't", "n't", " '", "'", " ' ", "s", " .", ",", " 've", "flies ", " re", "e", "\n"]
    pieces = random.Random(seed).choices(parts, k=60)
    assert "".join(clean_up_pieces(pieces)) == clean_up("".join(pieces))
    assert list(clean_up_pieces(["time", " flies", " ", "."])) == ["time", " flies", "."]


def test_a_character_comes_with_its_last_byte(letters: Tokenizer) -> None:
    pieces = IncrementalDetokenizer(letters)
    assert [pieces.add(token) for token in letters.encode("a🙂é")] == ["a", "", "", "", "🙂", "", "é"]


def test_what_never_becomes_whole_comes_last(letters: Tokenizer) -> None:
    ids = letters.encode("a🙂")[:-1]
    assert list(IncrementalDetokenizer(letters).stream(ids)) == ["a", letters.decode(ids)[1:]]


@pytest.mark.parametrize("name", ["letters", "stories"])
def test_any_tokens(name: str, request: pytest.FixtureRequest) -> None:
    """Of random bytes some are no character at all; nothing is lost, and nothing said twice.

    Tokens such as <0xE9> are left out: whether a run of them is shown is known only behind its end.
    """
    tokenizer: Tokenizer = request.getfixturevalue(name)
    every = [n for n in range(len(tokenizer)) if not tokenizer.convert_ids_to_tokens(n).startswith("<0x")]
    for seed in range(60):
        draw = random.Random(seed)
        ids = draw.choices(every, k=30)
        assert "".join(IncrementalDetokenizer(tokenizer).stream(ids)) == tokenizer.decode(ids, skip_special_tokens=True)


def test_a_copy_goes_on_by_itself(letters: Tokenizer) -> None:
    first, second = letters.encode("🙂"), letters.encode("🙃")
    pieces = IncrementalDetokenizer(letters)
    for token in first[:-1]:
        assert pieces.add(token) == ""
    other = pieces.copy()
    assert (pieces.add(first[-1]), other.add(second[-1])) == ("🙂", "🙃")
