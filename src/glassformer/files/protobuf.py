"""Protocol buffers, read without their schema: fields one after the other, each with a number and a value.

    for number, value in parse_fields(content): …        an integer, or bytes: a text, a message, four or eight bytes

Source: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5  # wire types


class ProtobufError(ValueError):
    """Bytes that are no protocol buffer, or not the one that was expected."""


def parse_fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: an integer for varints, bytes for every other wire type.

    Raises: ProtobufError: it is damaged.
    """
    position = 0
    while position < len(content):
        key, position = parse_varint(content, position)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise ProtobufError(f"field number 0 at byte {position}")
        if wire_type == VARINT:
            value, position = parse_varint(content, position)
            yield number, value
            continue
        if wire_type == LENGTH_DELIMITED:
            size, position = parse_varint(content, position)
        elif wire_type in (FIXED32, FIXED64):
            size = 4 if wire_type == FIXED32 else 8
        else:
            raise ProtobufError(f"wire type {wire_type} at byte {position}")
        if size > len(content) - position:
            raise ProtobufError(f"a field of {size} bytes where {len(content) - position} are left")
        yield number, content[position : position + size]
        position += size


def as_bytes(value: int | bytes) -> bytes:
    """The bytes of a field. Raises: ProtobufError: it is a number."""
    if isinstance(value, int):
        raise ProtobufError("a number where bytes are expected")
    return value


def parse_varint(content: bytes, position: int) -> tuple[int, int]:
    """A variable-length integer and the position behind it: seven bits a byte, the lowest first; bit 8: more follow."""
    if position < len(content) and content[position] < 0x80:  # fast path: nearly all are one byte
        return content[position], position + 1
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            raise ProtobufError("it ends within a number")
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtobufError(f"a number of more than ten bytes at byte {position}")
