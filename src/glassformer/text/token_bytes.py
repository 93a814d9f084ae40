"""Token bytes, for constrained decoding: what each token adds to a decoded text.

▁the          "the" as the first token of a text, " the" after others
<0xC3>, Ã     the first half of "é", which is not valid UTF-8 by itself
[SEP]         nothing: special tokens are left out
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tokenizers import pre_tokenizers

from glassformer.errors import UnsupportedError
from glassformer.text.tokenizer import Tokenizer

CONTEXT_FREE_DECODERS = {"ByteLevel", "ByteFallback", "Metaspace", "WordPiece", "Fuse", "Replace", "Strip"}
"""Decoders in which the text of a token depends only on whether it is the first, not on its neighbours."""

REPLACEMENT_CHARACTER = "\ufffd"
"""What decoders write for invalid UTF-8, such as half a character."""


class TokenBytes(NamedTuple):
    """The bytes of each token by id, as the first of a text and after others; empty for ids without a token."""

    first: list[bytes]
    later: list[bytes]


def token_bytes(tokenizer: Tokenizer, count: int) -> TokenBytes:
    """The bytes of the tokens 0 to count - 1: joined, they are what `decode` gives without special tokens.

    Raises: UnsupportedError: a tokenizer whose tokens decode differently by their neighbours.
    """
    engine = tokenizer.engine
    steps = [] if engine.decoder is None else list(_steps(json.loads(engine.decoder.__getstate__())))
    for step in steps:
        is_regex = step["type"] == "Replace" and "String" not in step["pattern"]
        if step["type"] not in CONTEXT_FREE_DECODERS or is_regex or step.get("stop"):
            raise UnsupportedError(
                f"the text of this tokenizer's tokens depends on what follows them (its decoder is {step['type']}), so "
                "constraints on text cannot become constraints on tokens"
            )
    ids = range(min(count, tokenizer.largest_id + 1))
    first = engine.decode_batch([[number] for number in ids])
    anchor = next((n for n in ids if first[n].isascii() and first[n].isalnum()), None)
    if anchor is None:
        raise UnsupportedError("no token of this tokenizer is a plain word, so the bytes of its tokens cannot be found")
    # Tokens may drop a leading space at the beginning of a text; behind the anchor none does.
    before = len(first[anchor])
    later = [text[before:] for text in engine.decode_batch([[anchor, number] for number in ids])]
    byte_level = any(step["type"] == "ByteLevel" for step in steps)
    names = [engine.id_to_token(number) or "" for number in ids]
    padding = [b""] * (count - len(ids))
    return TokenBytes(
        *(
            [_bytes_of_token(name, text, byte_level) for name, text in zip(names, texts, strict=True)] + padding
            for texts in (first, later)
        )
    )


def _steps(decoder: Any) -> Iterator[Any]:
    """The steps of a decoder, one by one."""
    if decoder["type"] == "Sequence":
        for inner in decoder["decoders"]:
            yield from _steps(inner)
    else:
        yield decoder


def _bytes_of_token(name: str, text: str, byte_level: bool) -> bytes:
    """The bytes of a token; where they are not valid UTF-8, they are read from its name."""
    if REPLACEMENT_CHARACTER not in text:
        return text.encode()
    if byte_level:
        return (
            bytes(BYTE_OF_CHARACTER[char] for char in name) if set(name) <= BYTE_OF_CHARACTER.keys() else text.encode()
        )
    byte = re.fullmatch("<0x([0-9A-F]{2})>", name)
    return bytes.fromhex(byte[1]) if byte else text.encode()


def _byte_level_alphabet() -> dict[str, int]:
    """Character → byte of byte-level BPE: a printable byte is its own character, the others are U+0100 and so on."""
    printable = {char: ord(char) for char in pre_tokenizers.ByteLevel.alphabet() if ord(char) < 256}
    others = sorted(set(range(256)) - set(printable.values()))
    return printable | {chr(256 + number): byte for number, byte in enumerate(others)}


BYTE_OF_CHARACTER = _byte_level_alphabet()
