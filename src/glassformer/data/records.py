"""JSON: an object a line, or a file that is a list of objects.

    {"text": "so glad", "label": "joy"}          [{"text": "so glad", "label": "joy"},
    {"text": "leave me", "label": "anger"}        {"text": "leave me", "label": "anger"}]

A key that stands twice, NaN, and half a surrogate pair are no JSON text (RFC 8259) and are refused.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from glassformer.data.formats import Format, Found, found
from glassformer.data.lines import Lines
from glassformer.errors import DataError
from glassformer.files import shown

PIECE = 1 << 16
SPACE = " \t\r\n"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(
            f"the key {next(shown(key) for key in keys if keys.count(key) > 1)} stands there twice"
        )
    return read


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON; write null, or leave the row out")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


def read_value(text: str) -> Any:
    """A value of strict JSON. Raises: ValueError, RecursionError: it is none."""
    value = _DECODER.decode(text)
    _check_text(text, value)
    return value


def _check_text(text: str, value: Any) -> None:
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair (\\ud800 to \\udfff) is no character") from None


def json_values(lines: Lines) -> Iterator[Any]:
    """The value of each line that is not blank; `lines.line` is its number."""
    lines.begin()
    for text in lines:
        if text.strip():
            try:
                yield read_value(text)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{lines.name}: line {lines.line} is no JSON: {error}") from error
        lines.begin()


@dataclass(frozen=True)
class JsonLines(Format):
    """An object a line."""

    def rows(self, lines: Lines, head: Any) -> Iterator[Found]:
        for value in json_values(lines):
            if not isinstance(value, dict):
                lines.refuse(f"is no JSON object, but {shown(value)}")
            yield found(lines, value)


@dataclass(frozen=True)
class JsonList(Format):
    """A file that is one list of objects, read piece by piece; or, as some name them .json too, an object a line."""

    def begin(self, lines: Lines) -> bool:
        """Whether it is a list; the reader then stands behind its bracket."""
        pieces = _Pieces(lines)
        lines.begin()
        first = pieces.peek()
        lines.line = pieces.number + 1
        if first not in ("[", "{", ""):
            lines.refuse("begins neither a list of objects ([) nor an object ({)")
        lines.go(pieces.place + (first == "["), pieces.number)
        return first == "["

    def rows(self, lines: Lines, head: bool) -> Iterator[Found]:
        if not head:
            yield from JsonLines().rows(lines, None)
            return
        pieces, comma = _Pieces(lines), False
        while (sign := pieces.peek()) != "]" or comma:
            start, lines.start, lines.line = pieces.place, pieces.place, pieces.number + 1
            if sign != "{":
                what = (
                    "the file ends before the list does"
                    if not sign
                    else f"the list goes on with {shown(sign)}"
                )
                lines.refuse(f"is no list of JSON objects: {what}; an object ({{) is needed here")
            row = pieces.value()
            comma = pieces.peek() == ","
            if comma:
                pieces.step(1)
            elif pieces.peek() not in ("]", ""):
                lines.line = pieces.number + 1
                lines.refuse(f"is no JSON: a comma is missing before {shown(pieces.peek())}")
            yield Found(lines.line, start, pieces.place, pieces.number, row)
        pieces.step(1)
        if pieces.peek():
            lines.line = pieces.number + 1
            lines.refuse(f"is no JSON: {shown(pieces.peek())} stands behind the end of the list")


class _Pieces:
    """Text of which only a piece is held, and the place of what comes next.

    place: its byte in the file · number: lines behind it
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._decode = codecs.getincrementaldecoder("utf-8-sig" if lines.place == 0 else "utf-8")().decode
        self._text, self._at = "", 0
        self.place, self.number = lines.place, lines.number

    def peek(self) -> str:
        """The next character that is no space; none at the end."""
        while True:
            if self._at == len(self._text) and not self._more():
                return ""
            if (sign := self._text[self._at]) not in SPACE:
                return sign
            self.step(1)

    def step(self, size: int) -> None:
        """Go behind so many characters."""
        end = self._at + size
        self.place += len(self._text[self._at : end].encode())
        self.number += self._text.count("\n", self._at, end)
        self._at = end

    def value(self) -> dict[str, Any]:
        """The object that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                _check_text(self._text[self._at : end], value)
                break
            except json.JSONDecodeError as error:  # perhaps only cut
                if len(self._text) - self._at > self._lines.limit:
                    self._lines.refuse_long(f" ({error.msg} at the end)")
                if not self._more():
                    self._refuse(error.msg, self._text.count("\n", self._at, error.pos))
            except (ValueError, RecursionError) as error:
                self._refuse(str(error))
        if end - self._at > self._lines.limit:
            self._lines.refuse_long()
        self.step(end - self._at)
        assert isinstance(value, dict)
        return value

    def _more(self) -> bool:
        """Hold more text; False at the end. Twice as much each time, for a row that does not fit."""
        rest = self._text[self._at :]
        while data := self._lines.piece(max(PIECE, len(rest))):
            try:
                read = self._decode(data)
            except UnicodeDecodeError as error:
                self._lines.line = (
                    self.number + rest.count("\n") + error.object.count(b"\n", 0, error.start) + 1
                )
                self._lines.refuse("is not UTF-8 text; save the file as UTF-8")
            if self.place == 0 and not rest and data.startswith(codecs.BOM_UTF8):
                self.place = len(codecs.BOM_UTF8)
            if read:
                self._text, self._at = rest + read, 0
                return True
        return False

    def _refuse(self, what: str, line: int = 0) -> NoReturn:
        self._lines.line = self.number + 1 + line
        self._lines.refuse(f"is no JSON: {what}")
