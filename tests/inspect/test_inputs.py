"""Texts as a pass reads them: each token with the characters it stands for, whose text it is of, and what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from glassformer.errors import DataError
from glassformer.inspect import SessionInput, Token, text_input, translation_input
from glassformer.inspect.inputs import MAX_CHARACTERS
from glassformer.text import Tokenizer
from glassformer.text.settings import TokenizerSettings
from tests.e2e.tiny_models import word_tokenizer


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    """Without merges, every byte is a token; it adds nothing around a text, as GPT-2's."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(alphabet)}, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return Tokenizer(engine)


@pytest.fixture(scope="module")
def real(minilm: Path) -> Tokenizer:
    return Tokenizer.from_folder(minilm)


def read(tokenizer: Tokenizer, *texts: str, segments: int = 2) -> tuple[SessionInput, list[Token]]:
    reading = text_input(tokenizer, texts, token_types=segments)
    tokens = reading.streams["text"]
    assert reading.batch.input_ids is not None
    assert reading.batch.input_ids.tolist() == [[token.id for token in tokens]]
    return reading, tokens


def test_a_pair(real: Tokenizer) -> None:
    reading, tokens = read(real, "time flies like an arrow", "fruit flies like a banana")
    assert [token.segment for token in tokens].index(1) == 7  # where the second text starts
    assert [token.special for token in tokens] == [True, *[False] * 5, True, *[False] * 5, True]
    assert reading.batch.token_type_ids is not None
    assert reading.batch.token_type_ids.tolist() == [[0] * 7 + [1] * 6]
    assert read(real, "a", "b", segments=0)[0].batch.token_type_ids is None


def test_a_token_shows_the_characters_it_stands_for(real: Tokenizer) -> None:
    _, tokens = read(real, "Bananarama, FRUIT")
    assert [(t.text, t.piece, t.continues) for t in tokens] == [
        ("[CLS]", "[CLS]", False),
        ("Banana", "banana", False),
        ("rama", "##rama", True),
        (",", ",", False),
        ("FRUIT", "fruit", False),
        ("[SEP]", "[SEP]", False),
    ]


def test_a_word_does_not_go_on_in_the_next_text(real: Tokenizer) -> None:
    """Both have a word 0, and special tokens between them."""
    _, tokens = read(real, "bananarama", "rama")
    assert [t.continues for t in tokens] == [False, False, True, False, False, False, False][: len(tokens)]


def test_a_special_token_written_in_the_text_is_special(real: Tokenizer) -> None:
    _, tokens = read(real, "a [MASK] b")
    masked = next(token for token in tokens if token.piece == "[MASK]")
    assert masked.special and masked.segment == 0 and masked.text == "[MASK]"


def test_two_texts_that_would_touch_get_a_line_break(byte_level: Tokenizer) -> None:
    reading, tokens = read(byte_level, "ab", "cd")
    assert [(t.text, t.piece, t.segment) for t in tokens] == [
        ("a", "a", 0), ("b", "b", 0), ("↵", "Ċ", 1), ("c", "c", 1), ("d", "d", 1)
    ]  # fmt: skip
    assert reading.texts == ("ab", "cd")  # as they were given
    assert [t.text for t in read(byte_level, "ab")[1]] == ["a", "b"]
    assert [t.text for t in read(byte_level, "", "cd")[1]] == ["c", "d"]


def test_space_and_control_characters_are_drawn(byte_level: Tokenizer) -> None:
    _, tokens = read(byte_level, "a \t\n\r")
    assert [t.text for t in tokens] == ["a", "␣", "⇥", "↵", "␍"]


def test_stories260k_pieces(shared: Path) -> None:
    _, tokens = read(Tokenizer.from_folder(shared / "models" / "stories260k"), "Once upon a time")
    assert tokens[0].special and tokens[0].segment is None
    assert [t.text for t in tokens[1:]] == ["Once", "upon", "a", "time"]
    assert tokens[1].piece == "▁Once"


@pytest.mark.parametrize("texts", [(), ("a", "b", "c"), "a", (1,), ("a", None), (b"a",)])
def test_not_one_or_two_texts(byte_level: Tokenizer, texts: object) -> None:
    with pytest.raises(DataError, match=r"the texts are .*; give one text or two"):
        text_input(byte_level, texts, token_types=0)  # type: ignore[arg-type]


def test_far_too_long(byte_level: Tokenizer) -> None:
    for texts in (["a" * 2_000_000], ["a", "b" * 2_000_000]):
        with pytest.raises(DataError, match=f"the text has 2,000,000 characters, .*{MAX_CHARACTERS:,}"):
            text_input(byte_level, texts, token_types=0)
        with pytest.raises(DataError, match="the text has 2,000,000 characters"):
            translation_input(byte_level, texts, decoder_prefix=lambda ids: [0], limit=None, generate=lambda ids: ids)


def test_no_token_at_all(byte_level: Tokenizer, real: Tokenizer) -> None:
    with pytest.raises(DataError, match="the text is empty"):
        text_input(byte_level, [""], token_types=0)
    with pytest.raises(DataError, match="the source is empty"):
        translation_input(byte_level, [""], decoder_prefix=lambda ids: [0], limit=None, generate=lambda ids: ids)
    assert [t.text for t in read(real, "")[1]] == ["[CLS]", "[SEP]"]  # these are something to look at


# ------------------------------------------------------------------------------------------- source and target


def test_a_given_target_begins_with_the_start_token() -> None:
    tokenizer = Tokenizer(word_tokenizer())
    reading = translation_input(
        tokenizer,
        ("time flies", "fruit flies"),
        decoder_prefix=lambda ids: [1],
        limit=None,
        generate=lambda ids: pytest.fail("not asked for"),
    )
    assert [t.text for t in reading.streams["source"]] == ["[CLS]", "time", "flies", "[SEP]"]
    assert [(t.text, t.special, t.segment) for t in reading.streams["target"]] == [
        ("[CLS]", True, None), ("fruit", False, 0), ("flies", False, 0)
    ]  # fmt: skip
    assert reading.batch.decoder_input_ids is not None
    assert reading.batch.decoder_input_ids.tolist() == [[t.id for t in reading.streams["target"]]]


def test_a_source_that_is_too_long_is_not_answered() -> None:
    tokenizer = Tokenizer(word_tokenizer())
    with pytest.raises(DataError, match="the source has 102 tokens and the model reads at most 64"):
        translation_input(
            tokenizer,
            ["time " * 100],
            decoder_prefix=lambda ids: [1],
            limit=64,
            generate=lambda ids: pytest.fail("answered"),
        )


def test_without_a_target_the_answer_is_read() -> None:
    tokenizer = Tokenizer(word_tokenizer())
    asked: list[list[int]] = []

    def answer(ids: torch.Tensor) -> torch.Tensor:
        asked.extend(ids.tolist())
        return torch.tensor([[1, 8, 5, 2, 9_999]])  # the last is no word of the vocabulary

    reading = translation_input(tokenizer, ("time flies",), decoder_prefix=lambda ids: [1], limit=None, generate=answer)
    assert asked == [[t.id for t in reading.streams["source"]]]
    assert [(t.text, t.piece, t.special) for t in reading.streams["target"]] == [
        ("[CLS]", "[CLS]", True),
        ("arrow", "arrow", False),
        ("flies", "flies", False),
        ("[SEP]", "[SEP]", True),
        ("[9999]", "[9999]", False),
    ]


@pytest.mark.parametrize("ended", [True, False])
def test_the_end_of_an_answer_is_not_read_and_its_pieces_make_words(ended: bool) -> None:
    tokenizer = Tokenizer(word_tokenizer(), TokenizerSettings(roles={"eos": "[SEP]"}))
    end, words = tokenizer.eos_token_id, tokenizer("time flies", add_special_tokens=False).input_ids
    assert end is not None
    answer = torch.tensor([[end, *words, *([end] if ended else [])]])
    reading = translation_input(
        tokenizer, ("a",), decoder_prefix=lambda ids: [end], limit=None, generate=lambda ids: answer
    )
    target = reading.streams["target"]
    assert [(token.text, token.special, token.span) for token in target] == [
        ("[SEP]", True, None), ("time", False, (0, 4)), ("flies", False, (5, 10)),
    ]  # fmt: skip


def test_a_written_token_of_bytes_is_readable(byte_level: Tokenizer) -> None:
    space = byte_level.convert_tokens_to_ids("Ġ")
    reading = translation_input(
        byte_level,
        ("a",),
        decoder_prefix=lambda ids: [0],
        limit=None,
        generate=lambda ids: torch.tensor([[0, space]]),
    )
    assert (reading.streams["target"][1].text, reading.streams["target"][1].piece) == ("␣", "Ġ")


def test_long_texts_are_cut_where_that_is_asked_for(byte_level: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"the text has 10 tokens and the model reads at most 4; shorten the text, or"):
        text_input(byte_level, ["time flies"], token_types=0, limit=4)
    with pytest.warns(UserWarning, match="the text has 10 tokens and is cut to 4"):
        cut = text_input(byte_level, ["time flies"], token_types=0, limit=4, truncation=True)
    assert [token.text for token in cut.streams["text"]] == list("time")
    sides: Any = {"decoder_prefix": lambda ids: [0, 1], "generate": lambda ids: ids, "limit": 4}
    with pytest.warns(UserWarning, match="the target has 5 tokens and is cut to 2"):
        cut = translation_input(byte_level, ["time", "flies"], **sides, truncation=True)
    assert [token.text for token in cut.streams["target"][2:]] == ["f", "l"]
    with pytest.raises(DataError, match="the target has 5 tokens"):
        translation_input(byte_level, ["time", "flies"], **sides)
