"""Incremental detokenization: each token gives the characters that it completes; stop strings in that text.

Ġcaf  Ã  ©  !            tokens; Ã and © are the two bytes of é
" caf" "" "é" "!"        pieces of text
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy

from glassformer.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
"""Unicode replacement character, which a decoder gives for an incomplete or invalid UTF-8 sequence."""


class IncrementalDetokenizer:
    """Decodes one row of tokens piece by piece; joined, the pieces equal the decoded row.

    Only invalid UTF-8 may differ: some decoders replace a run of invalid bytes depending on its end.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Tokens of the last piece: decoders look at the left neighbour, and omit the space before a first word.
        self._context: list[int] = []
        self._pending: list[int] = []  # tokens that no piece has shown yet

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Pieces of text of a stream of tokens."""
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
        other = IncrementalDetokenizer(self._tokenizer)
        other._context, other._pending = list(self._context), list(self._pending)
        return other

    def _new(self) -> str:
        context = self._decode(self._context)
        return self._decode(self._context + self._pending)[len(context) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)


class StopStringMatcher:
    """Detects stop strings in the text of one row; immutable, so that rows may share it.

    matched: whether the last token completed a stop string
    """

    def __init__(self, strings: Sequence[str], tokenizer: Tokenizer) -> None:
        self.matched = False
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings))
        self._detokenizer = IncrementalDetokenizer(tokenizer)
        self._tail = ""  # only as much of the text as the beginning of a stop string may take

    def advance(self, token: int) -> StopStringMatcher:
        """The matcher after one more token."""
        matcher = copy(self)
        matcher._detokenizer = self._detokenizer.copy()
        text = self._tail + matcher._detokenizer.add(token)
        matcher.matched = any(string in text for string in self._strings)
        matcher._tail = text[max(0, len(text) - self._longest + 1) :]
        return matcher
