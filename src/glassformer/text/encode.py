"""Encode texts and pairs into rows: windows, long texts in chunks, padding, special tokens as text."""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers

from glassformer.errors import DataError, UnsupportedError
from glassformer.text.encoding import EncodedRow
from glassformer.text.engine import sharing_copy
from glassformer.text.inputs import call_engine
from glassformer.text.long_text import (
    MAX_UNSPLIT_CHARS,
    ChunkedEncoding,
    ChunkedRow,
    encode_in_chunks,
    ids_in_chunks,
)
from glassformer.text.request import EncodeRequest

_FAILURE = "text cannot be tokenised"


def encode_rows(
    engine: tokenizers.Tokenizer, first: list[str], second: list[str] | None, request: EncodeRequest
) -> tuple[list[EncodedRow], list[int]]:
    """Encode texts, or pairs of texts, without padding.

    Returns: the rows, with windows several a text; and the index of the text that each row came from.
    Raises: DataError: text that is not valid Unicode, or a truncation that cannot bring a pair to its length.
    """
    try:
        rows_by_text = _rows_by_text(engine, first, second, request)
    except DataError as error:
        if (
            request.truncation in ("only_first", "only_second")
            and second is not None
            and _is_too_short(error)
        ):
            raise DataError(
                f"truncation={request.truncation!r} cannot bring every pair to max_length={request.max_length}: "
                "the other text leaves too few tokens (for the stride); give more, or use truncation=True"
            ) from error
        raise
    samples = [index for index, rows in enumerate(rows_by_text) for _ in rows]
    return [row for rows in rows_by_text for row in rows], samples


def _rows_by_text(
    engine: tokenizers.Tokenizer, first: list[str], second: list[str] | None, request: EncodeRequest
) -> list[Sequence[EncodedRow]]:
    configured = request.engine_for(engine)
    texts = [*first, *(second or ())]
    if max(map(len, texts), default=0) > MAX_UNSPLIT_CHARS:
        bare = request.engine_for(engine, bare=True)
        inputs = [(text,) for text in first] if second is None else list(zip(first, second, strict=True))
        return [
            call_engine(list(parts), _FAILURE, _encode_long, configured, bare, parts, request)
            for parts in inputs
        ]
    batch = first if second is None else list(zip(first, second, strict=True))
    encodings = call_engine(
        texts, _FAILURE, configured.encode_batch, batch, add_special_tokens=request.add_special_tokens
    )
    if request.overflow:
        return [[encoding, *encoding.overflowing] for encoding in encodings]
    return [[encoding] for encoding in encodings]


def _encode_long(
    engine: tokenizers.Tokenizer, bare: tokenizers.Tokenizer, texts: tuple[str, ...], request: EncodeRequest
) -> list[EncodedRow]:
    joined: tuple[ChunkedEncoding, ...] = tuple(encode_in_chunks(bare, text) for text in texts)
    pair = joined[1].encoding if len(joined) == 2 else None
    encoding = engine.post_process(joined[0].encoding, pair, request.add_special_tokens)
    rows = [encoding, *encoding.overflowing] if request.overflow else [encoding]
    return [ChunkedRow(row, joined, is_window=index > 0) for index, row in enumerate(rows)]


def _is_too_short(error: DataError) -> bool:
    """Whether the engine reports that the one text it may truncate is too short for that."""
    return "too short to respect" in str(error) or "`stride` must be" in str(error)


def encode_ids(engine: tokenizers.Tokenizer, texts: list[str]) -> list[list[int]]:
    """Token ids without special tokens; long texts in chunks, all others in one parallel call."""
    if max(map(len, texts)) <= MAX_UNSPLIT_CHARS:
        encodings = call_engine(texts, _FAILURE, engine.encode_batch_fast, texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]
    bare = sharing_copy(engine)
    bare.post_processor = None
    return [call_engine([text], _FAILURE, ids_in_chunks, bare, text) for text in texts]


def pad_rows(rows: list[EncodedRow], request: EncodeRequest, pad_id: int, pad_token: str | None) -> None:
    """Pad the rows in place, to the longest of them or to `max_length`."""
    length = max(map(len, rows))
    if request.padding == "max_length" and request.max_length is not None:
        length = request.max_length
    for row in rows:
        row.pad(length, direction=request.padding_side, pad_id=pad_id, pad_token=pad_token)


def refuse_special_ids(
    engine: tokenizers.Tokenizer, rows: list[EncodedRow], special_ids: frozenset[int]
) -> None:
    """Check that no text was encoded to a special token, where special tokens are to be read as text.

    It can be, where the vocabulary holds a special token as an ordinary one too.

    Raises: UnsupportedError: one was.
    """
    for row in rows:
        for number, sequence in zip(row.ids, row.sequence_ids, strict=True):
            if sequence is not None and number in special_ids:
                raise UnsupportedError(
                    f"this tokenizer cannot encode {engine.id_to_token(number)!r} as ordinary text, because its "
                    "vocabulary holds it as an ordinary token; remove it from the text"
                )
