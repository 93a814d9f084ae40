"""Tokenization step by step, for inspection: normalisation, pre-tokenization, subword tokens, special tokens."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import tokenizers
from tokenizers import NormalizedString, PreTokenizedString


@dataclass(frozen=True, slots=True)
class WordStage:
    """A word after pre-tokenization, and its span [start, end) in the original text, in characters."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenStage:
    """A token, with its span in the original text and the index of its word.

    `word` is None for tokens that the post-processor added; their span is (0, 0). `special`: the token is one of
    the added tokens, whether it came from the text or the post-processor.
    """

    token: str
    id: int
    start: int
    end: int
    word: int | None
    special: bool


@dataclass(frozen=True, slots=True)
class Stages:
    """The result of each tokenization step on one text.

        text        "Fruit flies!"
        normalized  "fruit flies!"
        words       fruit · flies · !
        pieces      fruit flies !              with ids
        final       [CLS] fruit flies ! [SEP]  with ids: the model's input

    Special tokens written in the text itself are neither normalised nor split.
    """

    text: str
    normalized: str
    words: tuple[WordStage, ...]
    pieces: tuple[TokenStage, ...]
    final: tuple[TokenStage, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        return asdict(self)


def stages_of(engine: tokenizers.Tokenizer, text: str) -> Stages:
    """Run the engine's steps one by one on a text, and collect their results.

    Added tokens in the text, which the engine matches first, are read off the result: they are the tokens whose
    content is an added token.
    """
    added = engine.get_added_tokens_decoder()
    inner = _token_stages(engine.encode(text, add_special_tokens=False), added)
    final = _token_stages(engine.encode(text), added)
    normalized: list[str] = []
    words: list[WordStage] = []
    position = 0
    for token in inner:
        span = text[token.start : token.end]
        if token.special and span.strip() == token.token:  # not the [UNK] of an unknown word
            _add_ordinary_text(engine, text, position, token.start, normalized, words)
            normalized.append(span)
            words.append(WordStage(span, token.start, token.end))
            position = token.end
    _add_ordinary_text(engine, text, position, len(text), normalized, words)
    return Stages(text, "".join(normalized), tuple(words), inner, final)


def _add_ordinary_text(
    engine: tokenizers.Tokenizer,
    text: str,
    start: int,
    end: int,
    normalized: list[str],
    words: list[WordStage],
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
        words.append(WordStage(word, start + first, start + last))


def _token_stages(encoding: tokenizers.Encoding, added: dict[int, tokenizers.AddedToken]) -> tuple[TokenStage, ...]:
    columns = zip(encoding.tokens, encoding.ids, encoding.offsets, encoding.word_ids, strict=True)
    return tuple(
        TokenStage(token, number, start, end, word, number in added and added[number].content == token)
        for token, number, (start, end), word in columns
    )
