"""JSON: an object a line, a file that is one list of rows, or one of several lists, each under a name.

    {"text": "so glad", "label": "joy"}          [{"text": "so glad", "label": "joy"},
    {"text": "leave me", "label": "anger"}        {"text": "leave me", "label": "anger"}]

    {"train": [["so glad", "joy"], …],           read_rows("data.json", part="train", names=("text", "label"))
     "val": [["leave me", "anger"], …]}

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
from glassformer.errors import ConfigError, DataError, nearest
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
    """A file that is one list of rows, read piece by piece; or, as some name them .json too, an object a line.

    Args:
        part: of a file that is an object of lists, the name of the one to read, or of several, which are read in the
            order in which they stand there
        names: of the columns, where a row is a list of values instead of an object
    """

    part: str | tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, given in (("part", self._parts), ("names", self.names)):
            named = isinstance(given, tuple) and all(isinstance(name, str) and name for name in given)
            if not named or len(set(given)) < len(given):
                raise ConfigError(f"{option} is {shown(given)}; give one name or more, each once")

    @property
    def _parts(self) -> tuple[str, ...]:
        return (self.part,) if isinstance(self.part, str) else self.part

    def begin(self, lines: Lines) -> int | None:
        """The place behind the bracket with which the list, or the object of lists, begins; None = an object a line."""
        pieces = _Pieces(lines)
        lines.begin()
        first = pieces.peek()
        lines.line = pieces.number + 1
        if first not in ("[", "{", ""):
            lines.refuse("begins neither a list of rows ([) nor an object ({)")
        if self._parts and first == "[":
            lines.refuse("begins a list, which has no parts; leave part= out")
        opened = first == ("{" if self._parts else "[")
        lines.go(pieces.place + opened, pieces.number)
        return lines.place if opened else None

    def rows(self, lines: Lines, head: int | None) -> Iterator[Found]:
        if head is None:
            yield from self._a_line_each(lines)
        elif self._parts:
            yield from self._in_parts(lines, whole=lines.place == head)
        else:
            pieces = _Pieces(lines)
            yield from self._listed(pieces, lines)
            pieces.end("list")

    def _a_line_each(self, lines: Lines) -> Iterator[Found]:
        try:
            yield from JsonLines().rows(lines, None)
        except DataError as error:
            if lines.number > 1:
                raise
            raise DataError(
                f"{error}; if the file is one object that holds lists, say which to read: part="
            ) from error

    def _in_parts(self, lines: Lines, *, whole: bool) -> Iterator[Found]:
        """The rows of the parts from here on; `whole`: from before the first name, and not from within a list."""
        pieces, seen = _Pieces(lines), []
        if whole:
            more = pieces.peek() != "}"
        else:
            yield from self._listed(pieces, lines)
            more = pieces.took(",")
        while more:
            if pieces.peek() != '"':
                pieces.refuse(f"the name of a list, in quotes, is needed before {shown(pieces.peek())}")
            name = pieces.value()
            if name in seen:
                pieces.refuse(f"the key {shown(name)} stands there twice")
            seen.append(name)
            pieces.take(":")
            if name in self._parts:
                pieces.take("[")
                yield from self._listed(pieces, lines)
            else:
                pieces.skip()
            more = pieces.took(",")
        pieces.take("}")
        pieces.end("object")
        if whole and (absent := [name for name in self._parts if name not in seen]):
            raise DataError(
                f"{lines.name}: no part {shown(absent[0])}{nearest(absent[0], seen)}; there are: "
                f"{', '.join(map(shown, seen)) or 'none'}"
            )

    def _listed(self, pieces: _Pieces, lines: Lines) -> Iterator[Found]:
        """The rows of a list from here to its bracket."""
        begins, what = ("[", "a list ([)") if self.names else ("{", "an object ({)")
        comma = False
        while (sign := pieces.peek()) != "]" or comma:
            start, lines.start, lines.line = pieces.place, pieces.place, pieces.number + 1
            if sign != begins:
                found = (
                    f"the list goes on with {shown(sign)}" if sign else "the file ends before the list does"
                )
                hint = "; where rows are lists, name their columns: names=" if sign == "[" else ""
                lines.refuse(f"is no list of rows: {found}; {what} is needed here{hint}")
            row = pieces.value()
            if self.names:
                if len(row) != len(self.names):
                    lines.refuse(f"has {len(row)} values, and names has {len(self.names)}")
                row = dict(zip(self.names, row, strict=True))
            if not (comma := pieces.took(",")) and pieces.peek() not in ("]", ""):
                pieces.refuse(f"a comma is missing before {shown(pieces.peek())}")
            yield Found(lines.line, start, pieces.place, pieces.number, row)
        pieces.step(1)


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

    def took(self, sign: str) -> bool:
        """Go behind the next character, if it is this one."""
        if found := self.peek() == sign:
            self.step(1)
        return found

    def take(self, sign: str) -> None:
        """Go behind the next character, which must be this one."""
        if not self.took(sign):
            self.refuse(
                f"{sign} is missing before {shown(self.peek()) if self.peek() else 'the end of the file'}"
            )

    def end(self, of: str) -> None:
        """Nothing may stand here."""
        if self.peek():
            self.refuse(f"{shown(self.peek())} stands behind the end of the {of}")

    def skip(self) -> None:
        """Go behind the value that begins here, of a list one by one."""
        if not self.took("["):
            self.value()
            return
        more = self.peek() != "]"
        while more:
            self.value()
            more = self.took(",")
        self.take("]")

    def value(self) -> Any:
        """The value that begins here."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                _check_text(self._text[self._at : end], value)
                if end < len(self._text) or not self._more():  # else a number may be cut
                    break
            except json.JSONDecodeError as error:  # perhaps only cut
                if len(self._text) - self._at > self._lines.limit:
                    self._lines.refuse_long(f" ({error.msg} at the end)")
                if not self._more():
                    self.refuse(error.msg, self._text.count("\n", self._at, error.pos))
            except (ValueError, RecursionError) as error:
                self.refuse(str(error))
        if end - self._at > self._lines.limit:
            self._lines.refuse_long()
        self.step(end - self._at)
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

    def refuse(self, what: str, line: int = 0) -> NoReturn:
        self._lines.line = self.number + 1 + line
        self._lines.refuse(f"is no JSON: {what}")
