"""The bytes of tokens, joined, are what `decode` gives."""

from __future__ import annotations

from random import Random

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models

from glassformer import UnsupportedError
from glassformer.text.token_bytes import token_bytes
from glassformer.text.tokenizer import Tokenizer
from tests.e2e.tiny_models import word_tokenizer
from tests.generation.test_constrain import END, KINDS


@pytest.mark.parametrize("kind", [*KINDS, "no decoder"])
def test_joined_they_are_the_text(kind: str) -> None:
    tokenizer = Tokenizer(word_tokenizer() if kind == "no decoder" else KINDS[kind]())
    first, later = token_bytes(tokenizer, len(tokenizer) + 3)
    draw, decoded = Random(1), 0
    starters = [token for token in range(len(tokenizer)) if first[token]]
    for length in list(range(1, 12)) * 60:
        begin = [draw.choice(starters)]
        ids = begin + [draw.randrange(len(tokenizer)) for _ in range(length)]
        joined = first[ids[0]] + b"".join(later[token] for token in ids[1:])
        try:
            text = joined.decode()
        except UnicodeDecodeError:  # no text: decoders write signs for it, each in its own way
            continue
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        decoded += 1
    assert decoded > 40


@pytest.mark.parametrize("kind", KINDS)
def test_what_tokens_cannot_say(kind: str) -> None:
    tokenizer = Tokenizer(KINDS[kind]())
    first, later = token_bytes(tokenizer, len(tokenizer) + 3)
    assert len(first) == len(later) == len(tokenizer) + 3
    for token in (tokenizer.convert_tokens_to_ids(END), len(tokenizer), len(tokenizer) + 2):
        assert first[token] == later[token] == b""
    assert token_bytes(tokenizer, len(tokenizer) - 1).later == later[: len(tokenizer) - 1]


def test_a_character_in_several_tokens() -> None:
    for kind in ("byte level", "byte fallback"):
        tokenizer = Tokenizer(KINDS[kind]())
        _, later = token_bytes(tokenizer, len(tokenizer))
        assert {bytes([byte]) for byte in "é→".encode()} <= set(later)
        assert len({text for text in later if len(text) == 1}) == 256 or kind == "byte level"


@pytest.mark.parametrize(
    "decoder",
    [
        decoders.BPEDecoder(suffix="</w>"),
        decoders.CTC(),
        decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 0, 1)]),
    ],
)
def test_tokens_that_depend_on_what_follows(decoder: decoders.Decoder) -> None:
    engine = Engine(models.BPE({"a": 0, "b": 1}, []))
    engine.decoder = decoder
    with pytest.raises(UnsupportedError, match="depends on what follows"):
        token_bytes(Tokenizer(engine), 2)


def test_a_vocabulary_without_words() -> None:
    engine = Engine(models.WordLevel({"-": 0, "!": 1}, unk_token="-"))
    with pytest.raises(UnsupportedError, match="no token of this tokenizer is a plain word"):
        token_bytes(Tokenizer(engine), 2)
