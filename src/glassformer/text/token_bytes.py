"""What each token adds to a text, in bytes.

▁the          "the" as the first token of a text, " the" behind others
<0xC3>, Ã     the first half of "é", which is no text of its own
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

STEPS = {"ByteLevel", "ByteFallback", "Metaspace", "WordPiece", "Fuse", "Replace", "Strip"}
"""Of decoders: in these, what a token adds depends on nothing but whether another stands before it."""

HALF = "\ufffd"
"""What a decoder writes for bytes that are no whole character."""


class TokenBytes(NamedTuple):
    """By id, what a token adds as the first of a text, and behind others; nothing for ids without a token."""

    first: list[bytes]
    later: list[bytes]


def token_bytes(tokenizer: Tokenizer, count: int) -> TokenBytes:
    """The bytes of the tokens 0 to count - 1: joined, they are what `decode` gives without special tokens.

    Raises: UnsupportedError: a tokenizer whose tokens look otherwise by what follows them.
    """
    engine = tokenizer.engine
    steps = [] if engine.decoder is None else list(_steps(json.loads(engine.decoder.__getstate__())))
    for step in steps:
        loose = step["type"] == "Replace" and "String" not in step["pattern"]
        if step["type"] not in STEPS or loose or step.get("stop"):
            raise UnsupportedError(
                f"the text of this tokenizer's tokens depends on what follows them (its decoder is {step['type']}), so "
                "a rule for the text cannot be one for the tokens"
            )
    ids = range(min(count, tokenizer.largest_id + 1))
    first = engine.decode_batch([[number] for number in ids])
    anchor = next((n for n in ids if first[n].isascii() and first[n].isalnum()), None)
    if anchor is None:
        raise UnsupportedError(
            "no token of this tokenizer is a plain word, so what tokens add cannot be told"
        )
    before = len(first[anchor])
    later = [text[before:] for text in engine.decode_batch([[anchor, number] for number in ids])]
    byte_level = any(step["type"] == "ByteLevel" for step in steps)
    names = [engine.id_to_token(number) or "" for number in ids]
    without = [b""] * (count - len(ids))
    return TokenBytes(
        *(
            [_spelled(name, text, byte_level) for name, text in zip(names, texts, strict=True)] + without
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


def _spelled(name: str, text: str, byte_level: bool) -> bytes:
    """The bytes of a token; where they are no characters, its name says them."""
    if HALF not in text:
        return text.encode()
    if byte_level:
        return bytes(BYTE_OF.get(sign, 0) for sign in name) if set(name) <= BYTE_OF.keys() else text.encode()
    byte = re.fullmatch("<0x([0-9A-F]{2})>", name)
    return bytes.fromhex(byte[1]) if byte else text.encode()


def _byte_signs() -> dict[str, int]:
    """Byte-level vocabularies write each byte as one printable sign: itself, or one of those from U+0100 on."""
    signs = {sign: ord(sign) for sign in pre_tokenizers.ByteLevel.alphabet() if ord(sign) < 256}
    others = sorted(set(range(256)) - set(signs.values()))
    return signs | {chr(256 + number): byte for number, byte in enumerate(others)}


BYTE_OF = _byte_signs()
