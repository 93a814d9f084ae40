"""Read SentencePiece model files (protocol buffers): pieces with scores, training and normaliser settings.

    ModelProto        1: piece, repeated            2: training     3: normaliser
      piece           1: text   2: score (fp32)     3: kind
      training        3: unigram or byte pairs      24: suffix marks    35: bytes for unknown characters
      normaliser      2: map of characters

A protocol buffer is fields one after the other, each with a number and one of four wire types. Only the fields
above are read, all others are skipped, so a few lines replace two packages, and no untrusted file reaches a parser
that trusts it: every length is checked against the bytes that are left.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import read_bytes
from glassformer.files.protobuf import ProtobufError, as_bytes, parse_fields

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of pieces, by their number in the file."""

ALGORITHMS = {1: "unigram", 2: "byte pairs", 3: "words", 4: "characters"}

MAX_PIECES = 2**20
"""Four times the largest vocabulary in use."""


class VocabularyPiece(NamedTuple):
    """A vocabulary entry (piece); a higher score is a likelier piece, or an earlier merge."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """A SentencePiece model as its file describes it.

    Fields:
        algorithm: "unigram" or "byte pairs".
        byte_fallback: whether an unknown character is encoded as its bytes, <0xE2> <0x98> <0x83>.
        character_map: how characters are normalised, in the library's compiled form; empty: not at all.
    """

    pieces: tuple[VocabularyPiece, ...]
    algorithm: str
    byte_fallback: bool
    character_map: bytes


def read_sentencepiece_model(path: Path) -> SentencePieceModel:
    """Read a SentencePiece model file.

    Raises:
        DataError: the file is damaged or missing.
        UnsupportedError: a model of words or characters, or one that marks the ends of words, not their beginnings.
    """
    content = read_bytes(path, DataError)
    try:
        pieces, training, character_map = _parse_model(content)
    except (ProtobufError, UnicodeDecodeError, struct.error) as error:
        raise DataError(
            f"{path} is not a SentencePiece model, or a damaged one: {error}; fetch the file again, "
            "or put a tokenizer.json next to it"
        ) from error
    texts: set[str] = set()
    for number, piece in enumerate(pieces):
        if not piece.text or not math.isfinite(piece.score) or piece.text in texts:
            raise DataError(
                f"{path}: piece {number} is {piece.text!r:.60} with the score {piece.score}; each must have "
                "a unique text and a finite score; fetch the file again"
            )
        texts.add(piece.text)
    algorithm = ALGORITHMS.get(training.get(3, 1), "?")
    if algorithm not in ("unigram", "byte pairs") or training.get(24, 0):
        reason = f"splits into {algorithm}" if not training.get(24, 0) else "marks where words end"
        raise UnsupportedError(
            f"{path} {reason}, which is not supported; put a tokenizer.json next to it "
            "(the library that made it writes one on saving)"
        )
    return SentencePieceModel(tuple(pieces), algorithm, bool(training.get(35, 0)), character_map)


def _parse_model(content: bytes) -> tuple[list[VocabularyPiece], dict[int, int], bytes]:
    pieces: list[VocabularyPiece] = []
    training: dict[int, int] = {}
    character_map = b""
    for number, value in parse_fields(content):
        if number == 1:
            pieces.append(_parse_piece(as_bytes(value)))
            if len(pieces) > MAX_PIECES:
                raise ProtobufError(f"more than {MAX_PIECES:,} pieces")
        elif number == 2:
            training |= {key: item for key, item in parse_fields(as_bytes(value)) if isinstance(item, int)}
        elif number == 3:
            for key, item in parse_fields(as_bytes(value)):
                character_map = as_bytes(item) if key == 2 else character_map
    if not pieces:
        raise ProtobufError("it holds no pieces")
    return pieces, training, character_map


def _parse_piece(content: bytes) -> VocabularyPiece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in parse_fields(content):
        if number == 1:
            text = as_bytes(value).decode("utf-8")
        elif number == 2:
            (score,) = struct.unpack("<f", as_bytes(value))
        elif number == 3 and isinstance(value, int):
            kind = value
    return VocabularyPiece(text, score, kind)
