"""Tokenization step by step, for inspection: normalisation, pre-tokenization, subword tokens, special tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tokenizers
from tokenizers import NormalizedString, PreTokenizedString

from glassformer.reports.report import Report
from glassformer.reports.table import Table


@dataclass(frozen=True, slots=True)
class WordStage:
    """A word after pre-tokenization, and its span [start, end) in the original text, in characters."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenStage:
    """A token, with its span in the original text and the index of its word.

    `word` is None for tokens that the post-processor added; their span is (0, 0).

    special: the token is one of the added tokens, whether it came from the text or the post-processor.
    """

    token: str
    id: int
    start: int
    end: int
    word: int | None
    special: bool


@dataclass(frozen=True, slots=True, repr=False)
class Stages(Report, kind="tokens"):
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

    def tables(self) -> list[Table]:
        """The result of each step, and the tokens as the model reads them."""
        steps = {
            "text": self.text,
            "normalised": self.normalized,
            "words": " · ".join(word.text for word in self.words),
            "pieces": " · ".join(piece.token for piece in self.pieces),
            "ids": " ".join(str(piece.id) for piece in self.final),
        }
        return [
            Table(["step", "result"], [[name, _line(result)] for name, result in steps.items()], left=2, longest=1_000),
            Table(["position", "token", "in the text", "", "id", "word", "characters"], list(self._rows()), left=4),
        ]

    def _rows(self) -> Iterator[list[str]]:
        for position, piece in enumerate(self.final):
            special = "special" if piece.special else ""
            if piece.word is None:  # a special token added by the post-processor has no offsets in the text
                yield [str(position), _line(piece.token), "", special, str(piece.id), "", ""]
                continue
            span = _line(self.text[piece.start : piece.end])
            place = f"{piece.start}–{piece.end}"
            yield [str(position), _line(piece.token), span, special, str(piece.id), str(piece.word), place]


def _line(text: str) -> str:
    """A text on one line."""
    return text.replace("\n", "\\n")


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
