"""Text as it comes: each token gives the characters that it completes.

Ġcaf  Ã  ©  !            tokens; Ã and © are the two bytes of é
" caf" "" "é" "!"        pieces
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glassformer.text.tokenizer import Tokenizer

HALF = "\ufffd"
"""What a decoder writes for bytes that are no whole character, or not yet."""


class Pieces:
    """The pieces of one row of tokens; together they are what the tokenizer makes of the whole row.

    Only bytes that never become characters may look otherwise: some decoders judge a whole run of them by its end.

    A token is decoded behind those of the piece before it, for a decoder looks at the left neighbour: it leaves out the
    space before a first word.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._before: list[int] = []  # the tokens of the last piece
        self._waiting: list[int] = []  # what no piece has shown yet

    def of(self, tokens: Iterable[int]) -> Iterator[str]:
        """The pieces of these tokens, as they come."""
        for token in tokens:
            if piece := self.add(token):
                yield piece
        if piece := self.rest():
            yield piece

    def add(self, token: int) -> str:
        """The characters that this token completes; none while bytes of one are missing."""
        self._waiting.append(token)
        piece = self._new()
        if not piece or piece.endswith(HALF):
            return ""
        self._before, self._waiting = self._waiting, []
        return piece

    def fork(self) -> Pieces:
        """The same row so far, to go on in another way."""
        other = Pieces(self._tokenizer)
        other._before, other._waiting = list(self._before), list(self._waiting)
        return other

    def rest(self) -> str:
        """What still waits when no token comes any more."""
        piece, self._before, self._waiting = self._new(), self._waiting, []
        return piece

    def copy(self) -> Pieces:
        """The same so far, to go on another way."""
        other = Pieces(self._tokenizer)
        other._before, other._waiting = list(self._before), list(self._waiting)
        return other

    def _new(self) -> str:
        before = self._decode(self._before)
        return self._decode(self._before + self._waiting)[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)
