"""Embedding look-ups of the head view: a token's row of the table, and that it is a one-hot row's product with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.errors import DataError
from glassformer.inspect.lookup import Lookup, embedding_table, look_up
from glassformer.inspect.session import Session

MAX_STORED, MAX_NUMBERS = 32, 2**26
"""Tokens that a standalone page has look-ups of, and numbers of the largest table that it has them of."""


def lookup(session: Session, *, stream: str, token: int) -> Lookup:
    """The look-up of a token of a stream. Raises: DataError: there is no such token, or no table."""
    tokens = session.streams.get(stream, [])
    if not 0 <= token < len(tokens):
        raise DataError(f"there is no token {token} of {stream!r}; there are {len(tokens)}")
    return look_up(session, stream, [tokens[token].id])[0]


def stored_lookups(session: Session) -> dict[str, list[dict[str, Any]]]:
    """What a standalone page has of them: the first different tokens of each stream, where its table is small."""
    stored = {}
    for stream, tokens in session.streams.items():
        table = embedding_table(session, stream)
        if table is not None and table.weight.numel() <= MAX_NUMBERS:
            ids = list(dict.fromkeys(token.id for token in tokens))[:MAX_STORED]
            stored[stream] = [asdict(each) for each in look_up(session, stream, ids)]
    return stored
