"""Incremental detokenization: each token gives the characters that it completes; stop strings in that text.

Ġcaf  Ã  ©  !            tokens; Ã and © are the two bytes of é
" caf" "" "é" "!"        pieces of text
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any

from glassformer.text.engine import clean_up
from glassformer.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
"""Unicode replacement character, which a decoder gives for an incomplete or invalid UTF-8 sequence."""


class IncrementalDetokenizer:
    """Decodes one row of tokens piece by piece; joined, the pieces equal the decoded row.

    Only invalid UTF-8 may differ: some decoders replace a run of invalid bytes depending on its end.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] = (), **decode_kwargs: Any) -> None:
        """Begin a row.

        Args:
            prompt: tokens before the row, which are not shown
            decode_kwargs: of the tokenizer's `decode`
        """
        self._tokenizer = tokenizer
        self._decode_kwargs = {"skip_special_tokens": True, **decode_kwargs}
        # Tokens of the last piece: decoders look at the left neighbour, and omit the space before a first word.
        self._context = list(prompt)
        self._pending: list[int] = []  # tokens that no piece has shown yet

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Pieces of text of a stream of tokens."""
        pieces = self._pieces(tokens)
        cleans = self._decode_kwargs.get("clean_up_tokenization_spaces")
        cleans = self._tokenizer.cleans_up if cleans is None else cleans and not self._tokenizer.is_bpe
        return clean_up_pieces(pieces) if cleans else pieces

    def _pieces(self, tokens: Iterable[int]) -> Iterator[str]:
        for token in tokens:
            if piece := self.add(token):
                yield piece
        if piece := self.flush():
            yield piece

    def add(self, token: int) -> str:
        """The characters that this token completes; empty while bytes of a character are missing."""
        self._pending.append(token)
        piece = self._new()
        if not piece or piece.endswith(REPLACEMENT):
            return ""
        self._context, self._pending = self._pending, []
        return piece

    def flush(self) -> str:
        """The rest of the text at the end of the stream."""
        piece, self._context, self._pending = self._new(), self._pending, []
        return piece

    def copy(self) -> IncrementalDetokenizer:
        """A copy with the same state, for another continuation."""
        other = IncrementalDetokenizer(self._tokenizer, **self._decode_kwargs)
        other._context, other._pending = list(self._context), list(self._pending)
        return other

    def _new(self) -> str:
        context = self._decode(self._context)
        return self._decode(self._context + self._pending)[len(context) :]

    def _decode(self, ids: list[int]) -> str:
        # What is cleaned up depends on what follows; `stream` does it.
        kwargs = {**self._decode_kwargs, "clean_up_tokenization_spaces": False}
        text: str = self._tokenizer.decode(ids, **kwargs)
        return text


def clean_up_pieces(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces of text whose whole is cleaned up (`clean_up`): four letters in a row end what may still change."""
    rest = ""
    for piece in pieces:
        rest += piece
        if match := _SETTLED.match(rest):
            yield clean_up(match.group())
            rest = rest[match.end() :]
    if rest := clean_up(rest):
        yield rest


_SETTLED = re.compile(r".*[^\W_]{4}", re.DOTALL)


class StopStringMatcher:
    """Detects stop strings in the text of one row, special tokens included; immutable, so that rows may share it.

    matched: whether the last token completed a stop string
    """

    def __init__(self, strings: Sequence[str], tokenizer: Tokenizer) -> None:
        self.matched = False
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings))
        # With special tokens: a marker such as <|im_end|> is a stop string too, though no text shows it.
        self._detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=False)
        self._tail = ""  # only as much of the text as the beginning of a stop string may take

    def advance(self, token: int) -> StopStringMatcher:
        """The matcher after one more token."""
        matcher = copy(self)
        matcher._detokenizer = self._detokenizer.copy()
        text = self._tail + matcher._detokenizer.add(token)
        matcher.matched = any(string in text for string in self._strings)
        matcher._tail = text[max(0, len(text) - self._longest + 1) :]
        return matcher
