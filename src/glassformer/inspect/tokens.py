"""Tokens of a stream, for display: their characters, vocabulary entries, and which text they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import DataError, nearest
from glassformer.files import is_int, safe_repr
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

VISIBLE_SPACE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a stream.

    text: its characters, without space around them; of a special token its name
    piece: its vocabulary entry: `##ana`, `Ġflies`
    segment: index of the text that it comes from; None where the tokenizer added it
    continues: whether it belongs to the same word as the token before it
    span: its characters in that text, start ≤ i < end; None where it is of none
    """

    text: str
    piece: str
    id: int
    segment: int | None = None  # the key in the explorer's JSON, so the name stays
    special: bool = False
    continues: bool = False
    span: tuple[int, int] | None = None


def tokens_of(tokenizer: Tokenizer, encoding: Encoding, texts: Sequence[str]) -> list[Token]:
    """Tokens of an encoding's first row, aligned with the characters of `texts`."""
    columns: Any = (
        encoding.rows[0].ids,
        encoding.tokens(),
        encoding.offsets(),
        encoding.word_ids(),
        encoding.sequence_ids(),
    )
    tokens: list[Token] = []
    previous: tuple[int, int] | None = None
    for token, piece, (start, end), word, sequence in zip(*columns, strict=True):
        if sequence is None:
            tokens.append(special_token(tokenizer, token))
        else:
            text = texts[sequence][start:end]
            continues = word is not None and previous == (sequence, word) and not begins_word(texts[sequence], start)
            special = token in tokenizer.special_ids
            tokens.append(Token(readable(text) or piece, piece, token, sequence, special, continues, (start, end)))
        previous = None if sequence is None or word is None else (sequence, word)
    return tokens


def begins_word(text: str, start: int) -> bool:
    """Whether there is white space at or before a token: to some tokenizers (Llama's) a whole text is one word."""
    return text[max(start - 1, 0) : start + 1].strip() != text[max(start - 1, 0) : start + 1]


def generated_tokens(tokenizer: Tokenizer, ids: list[int]) -> list[Token]:
    """Tokens that the model generated, aligned with the text that they make.

    Where the tokenizer would cut that text otherwise, each is decoded alone.
    """
    written = [token for token in ids if token not in tokenizer.special_ids]
    text = tokenizer.decode(written)
    encoding = tokenizer(text, add_special_tokens=False)
    if encoding.rows[0].ids == written:
        aligned = iter(tokens_of(tokenizer, encoding, [text]))
        return [special_token(tokenizer, x) if x in tokenizer.special_ids else next(aligned) for x in ids]
    tokens = []
    for token in ids:
        if token in tokenizer.special_ids:
            tokens.append(special_token(tokenizer, token))
        else:
            piece = vocabulary_entry(tokenizer, token)
            tokens.append(Token(readable(tokenizer.decode([token])) or piece, piece, token, 0))
    return tokens


def readable(text: str) -> str:
    """The text without space around it; white space alone is made visible."""
    return text.strip() or text.translate(VISIBLE_SPACE)


def special_token(tokenizer: Tokenizer, token: int) -> Token:
    """A special token, shown by its name."""
    piece = vocabulary_entry(tokenizer, token)
    return Token(piece, piece, token, special=True)


def vocabulary_entry(tokenizer: Tokenizer, token: int) -> str:
    """The vocabulary entry of a token, or its number: an embedding may have more rows than the vocabulary entries."""
    piece: str | None = tokenizer.engine.id_to_token(token)
    return f"[{token}]" if piece is None else piece


def find_token(at: str | int, tokens: Sequence[Token]) -> int:
    """The number of a token, from its number, from the word that it begins, or from its own text within a word.

    Raises: DataError: there is no such token or word.
    """
    if is_int(at, -math.inf):
        if not -len(tokens) <= at < len(tokens):
            raise DataError(f"there is no token {at}; the text has tokens 0 to {len(tokens) - 1}")
        return at % len(tokens)
    if not isinstance(at, str):
        raise DataError(f"at is {safe_repr(at)}; give the number of a token, or a word of the text")
    words = dict[str, int]()
    for number, token in enumerate(tokens):
        if token.continues and words:
            text, first = next(reversed(words.items()))
            words.setdefault(text + token.text, first)
        else:
            words.setdefault(token.text, number)
    for number, token in enumerate(tokens):
        words.setdefault(token.text, number)
    if at not in words:
        raise DataError(f"the text has no word {safe_repr(at)}{nearest(at, words)}; or give the number of a token")
    return words[at]


def numbered(tokens: Sequence[Token], most: int = 40) -> str:
    """Tokens with their positions, for messages: `0 the · 1 cat · 2 sat`."""
    shown = " · ".join(f"{at} {token.text}" for at, token in enumerate(tokens[:most]))
    return shown + (f" · … {len(tokens):,} in all" if len(tokens) > most else "")
