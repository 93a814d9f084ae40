"""The file of a SentencePiece model: pieces with scores, how they were trained, how text is normalised first.

    ModelProto        1: piece, again and again     2: training     3: normaliser
      piece           1: text   2: score (fp32)     3: kind
      training        3: unigram or byte pairs      24: suffix marks    35: bytes for unknown characters
      normaliser      2: map of characters

It is a protocol buffer: fields one after the other, each with a number and one of four encodings. Only what
stands above is read, all else is skipped, so a few lines serve where two packages would be needed, and nothing
of the file reaches code that trusts it: every length is checked against what is left.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import DataError, UnsupportedError
from glassformer.text.files import read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of pieces, as the file numbers them."""

ALGORITHMS = {1: "unigram", 2: "byte pairs", 3: "words", 4: "characters"}

MAX_PIECES = 2**20
"""Four times the largest vocabulary in use."""

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


class Piece(NamedTuple):
    """An entry of the vocabulary; a higher score is a likelier piece, or an earlier merge."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


@dataclass(frozen=True, slots=True)
class PieceFile:
    """What the file says.

    Fields:
        algorithm: "unigram" or "byte pairs".
        byte_fallback: whether an unknown character is written as its bytes, <0xE2> <0x98> <0x83>.
        character_map: how characters are normalised, in the library's own compiled form; empty leaves them.
    """

    pieces: tuple[Piece, ...]
    algorithm: str
    byte_fallback: bool
    character_map: bytes


class _DamagedError(Exception):
    pass


def read_piece_file(path: Path) -> PieceFile:
    """Read a SentencePiece model file.

    Raises:
        DataError: the file is damaged, or no such file.
        UnsupportedError: it cuts words or characters, or marks the ends of words instead of their beginnings.
    """
    content = read_bytes(path)
    try:
        pieces, training, character_map = _model(content)
    except (_DamagedError, UnicodeDecodeError, struct.error) as error:
        raise DataError(
            f"{path} is not a SentencePiece model, or a damaged one: {error}; fetch the file again, "
            "or put a tokenizer.json beside it"
        ) from error
    seen: set[str] = set()
    for number, piece in enumerate(pieces):
        if not piece.text or not math.isfinite(piece.score) or piece.text in seen:
            raise DataError(
                f"{path}: piece {number} is {piece.text!r:.60} with the score {piece.score}; each must have "
                "a text of its own and a finite score; fetch the file again"
            )
        seen.add(piece.text)
    algorithm = ALGORITHMS.get(training.get(3, 1), "?")
    if algorithm not in ("unigram", "byte pairs") or training.get(24, 0):
        how = f"cuts {algorithm}" if not training.get(24, 0) else "marks where words end"
        raise UnsupportedError(
            f"{path} {how}, which is not done; put a tokenizer.json beside it "
            "(the library that made it writes one on saving)"
        )
    return PieceFile(tuple(pieces), algorithm, bool(training.get(35, 0)), character_map)


def _model(content: bytes) -> tuple[list[Piece], dict[int, int], bytes]:
    pieces: list[Piece] = []
    training: dict[int, int] = {}
    character_map = b""
    for number, value in _fields(content):
        if number == 1:
            pieces.append(_piece(_message(value)))
            if len(pieces) > MAX_PIECES:
                raise _DamagedError(f"more than {MAX_PIECES:,} pieces")
        elif number == 2:
            training |= {key: item for key, item in _fields(_message(value)) if isinstance(item, int)}
        elif number == 3:
            for key, item in _fields(_message(value)):
                character_map = _message(item) if key == 2 else character_map
    if not pieces:
        raise _DamagedError("it holds no pieces")
    return pieces, training, character_map


def _piece(content: bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in _fields(content):
        if number == 1:
            text = _message(value).decode("utf-8")
        elif number == 2:
            (score,) = struct.unpack("<f", _message(value))
        elif number == 3 and isinstance(value, int):
            kind = value
    return Piece(text, score, kind)


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _DamagedError("a number where bytes must be")
    return value


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: an integer, or the bytes of everything else."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        number, encoding = key >> 3, key & 7
        if number == 0:
            raise _DamagedError(f"field number 0 at byte {place}")
        if encoding == _VARINT:
            value, place = _varint(content, place)
            yield number, value
            continue
        if encoding == _BYTES:
            size, place = _varint(content, place)
        elif encoding in (_FOUR, _EIGHT):
            size = 4 if encoding == _FOUR else 8
        else:
            raise _DamagedError(f"encoding {encoding} at byte {place}")
        if size > len(content) - place:
            raise _DamagedError(f"{size} bytes are announced where {len(content) - place} are left")
        yield number, content[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; the eighth bit says that another follows."""
    if place < len(content) and content[place] < 0x80:  # nearly all are one byte
        return content[place], place + 1
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(content):
            raise _DamagedError("it ends within a number")
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise _DamagedError(f"a number of more than ten bytes at byte {place}")
