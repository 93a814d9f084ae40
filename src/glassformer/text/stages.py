"""The four steps of one text, for people to look at: normalise, split into words, pieces, special tokens."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import tokenizers
from tokenizers import NormalizedString, PreTokenizedString


@dataclass(frozen=True, slots=True)
class Word:
    """A word after the split, with its place in the original text. [start, end) in characters."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A vocabulary entry, with its place in the original text and the index of its word.

    `word` is None for tokens that the post-processor added; their place is (0, 0). `special` says that the
    token is one of the added ones, wherever it came from.
    """

    token: str
    id: int
    start: int
    end: int
    word: int | None
    special: bool


@dataclass(frozen=True, slots=True)
class Stages:
    """What the tokenizer makes of one text, step by step.

        text        "Fruit flies!"
        normalized  "fruit flies!"
        words       fruit · flies · !
        pieces      fruit flies !              with ids
        final       [CLS] fruit flies ! [SEP]  with ids: what the model gets

    Special tokens written in the text itself stay whole: they are neither normalised nor split.
    """

    text: str
    normalized: str
    words: tuple[Word, ...]
    pieces: tuple[Piece, ...]
    final: tuple[Piece, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        return asdict(self)


def stages_of(engine: tokenizers.Tokenizer, text: str) -> Stages:
    """Run the engine's parts one after the other on a text, keeping what each of them makes.

    The first step, finding added tokens in the text, is read off the result: they are the pieces whose
    content is an added token.
    """
    added = engine.get_added_tokens_decoder()
    inner = _pieces(engine.encode(text, add_special_tokens=False), added)
    final = _pieces(engine.encode(text), added)
    normalized: list[str] = []
    words: list[Word] = []
    place = 0
    for piece in inner:
        if (
            piece.special and text[piece.start : piece.end].strip() == piece.token
        ):  # not an unknown word's [UNK]
            _ordinary(engine, text, place, piece.start, normalized, words)
            normalized.append(text[piece.start : piece.end])
            words.append(Word(text[piece.start : piece.end], piece.start, piece.end))
            place = piece.end
    _ordinary(engine, text, place, len(text), normalized, words)
    return Stages(text, "".join(normalized), tuple(words), inner, final)


def _ordinary(
    engine: tokenizers.Tokenizer, text: str, start: int, end: int, normalized: list[str], words: list[Word]
) -> None:
    """Normalise and split the stretch of text between two added tokens."""
    stretch = text[start:end]
    if not stretch:
        return
    clean = NormalizedString(stretch)
    split = PreTokenizedString(stretch)
    if engine.normalizer is not None:
        normalizer = engine.normalizer
        normalizer.normalize(clean)
        split.normalize(lambda part: normalizer.normalize(part))
    if engine.pre_tokenizer is not None:
        engine.pre_tokenizer.pre_tokenize(split)
    normalized.append(clean.normalized)
    for word, (first, last), _ in split.get_splits(offset_referential="original", offset_type="char"):
        words.append(Word(word, start + first, start + last))


def _pieces(encoding: tokenizers.Encoding, added: dict[int, tokenizers.AddedToken]) -> tuple[Piece, ...]:
    columns = zip(encoding.tokens, encoding.ids, encoding.offsets, encoding.word_ids, strict=True)
    return tuple(
        Piece(token, number, start, end, word, number in added and added[number].content == token)
        for token, number, (start, end), word in columns
    )
