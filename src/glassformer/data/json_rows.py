"""JSON and JSONL files: an object a line, one list of rows, or an object of several named lists.

    {"text": "so glad", "label": "joy"}          [{"text": "so glad", "label": "joy"},
    {"text": "leave me", "label": "anger"}        {"text": "leave me", "label": "anger"}]

    {"train": [["so glad", "joy"], …],           read_rows("data.json", part="train", names=("text", "label"))
     "val": [["leave me", "anger"], …]}

Duplicate keys, NaN and lone surrogates are refused (RFC 8259).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from glassformer.data.lines import NOT_UTF_8, Format, LineReader, OnBadRows, ParsedRow
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import STRICT, check_surrogates, safe_repr

CHUNK_BYTES = 1 << 16  # read at a time, so that a file of any size fits in memory
WHITESPACE = " \t\r\n"
_DECODER = json.JSONDecoder(**STRICT)


def parse_json(text: str) -> Any:
    """Parse strict JSON. Raises: ValueError, RecursionError: invalid JSON."""
    value = _DECODER.decode(text)
    check_surrogates(text, value)
    return value


def cut_off(problem: Exception, text: str) -> str:
    """What to do where the last text of a file is no JSON because it ends too early; empty where it does not."""
    ends = isinstance(problem, json.JSONDecodeError) and (
        problem.pos >= len(text.rstrip()) or problem.msg.startswith("Unterminated")
    )
    return "; the file ends too early: get it again" if ends else ""


def json_values(lines: LineReader) -> Iterator[Any]:
    """Parse each line that is not blank; `lines.row_line` is its number."""
    lines.begin_row()
    for text in lines:
        if text.strip():
            yield _line_value(text, lines)
        lines.begin_row()


def _line_value(text: str, lines: LineReader) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        hint = "" if text.endswith("\n") else cut_off(error, text)
        raise DataError(f"{lines.name}: line {lines.row_line} is not valid JSON: {error}{hint}") from error


@dataclass(frozen=True)
class JsonLines(Format):
    """JSON Lines: an object a line.

    Args:
        on_bad_rows: "error", or "skip": lines that are no JSON object are left out, and a warning counts them
    """

    on_bad_rows: OnBadRows = "error"

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        lines.begin_row()
        for text in lines:
            if text.strip():
                row = lines.row_or_skip(self.on_bad_rows, self._row, text, lines)
                if row is not None:
                    yield lines.parsed(row)
            lines.begin_row()

    def _row(self, text: str, lines: LineReader) -> dict[str, Any]:
        value = _line_value(text, lines)
        if not isinstance(value, dict):
            lines.fail(f"is not a JSON object, but {safe_repr(value)}")
        return value


def _row_lists(value: Mapping[str, Any]) -> list[str]:
    """The keys of an object under which there is a list of objects or lists; none where it has a text, as rows do."""
    if any(isinstance(item, str) for item in value.values()):
        return []
    return [key for key, item in value.items() if isinstance(item, list) and item and isinstance(item[0], (dict, list))]


def _holds_columns(value: Mapping[str, Any]) -> bool:
    """Whether an object holds columns rather than one row: row name → value of each, or a list of values of each.

    `tokens` with its tags is one row: the lists hold its words.
    """
    columns = list(value.values())
    if columns and all(isinstance(column, dict) and column for column in columns):
        return all(column.keys() == columns[0].keys() for column in columns)
    lists = all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1
    return lists and len(columns) > 1 and "tokens" not in value


@dataclass(frozen=True)
class JsonList(Format):
    """A JSON file that holds a list of rows, parsed incrementally; or JSON Lines, which some name .json too.

    Args:
        part: key of the list to read in an object of lists, or several, which are read in the order of the file
        names: column names, where a row is a list of values instead of an object
    """

    part: str | tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, value in (("part", self._parts), ("names", self.names)):
            named = isinstance(value, tuple) and all(isinstance(name, str) and name for name in value)
            if not named or len(set(value)) < len(value):
                raise ConfigError(f"{option} is {safe_repr(value)}; give one name or more, each once")

    @property
    def _parts(self) -> tuple[str, ...]:
        return (self.part,) if isinstance(self.part, str) else self.part

    def read_header(self, lines: LineReader) -> int | None:
        """The offset after the bracket that opens the list, or the object of lists; None = JSON Lines."""
        reader = _JsonReader(lines)
        lines.begin_row()
        first = reader.peek()
        lines.row_line = reader.lines_read + 1
        if first not in ("[", "{", ""):
            lines.fail("begins neither a list of rows ([) nor an object ({)")
        if self._parts and first == "[":
            lines.fail("begins a list, which has no parts; leave part= out")
        opened = first == ("{" if self._parts else "[")
        lines.seek(reader.offset + opened, reader.lines_read)
        return lines.offset if opened else None

    def rows(self, lines: LineReader, header: int | None) -> Iterator[ParsedRow]:
        if header is not None and self._parts:
            yield from self._named_lists(lines, from_start=lines.offset == header)
        elif header is not None:
            reader = _JsonReader(lines)
            yield from self._list_rows(reader, lines)
            reader.expect_end("list")
        else:
            only, from_start = None, lines.lines_read == 0
            try:
                for count, parsed in enumerate(JsonLines().rows(lines, None)):
                    only = None if count else parsed
                    yield parsed
                if not from_start or only is None:
                    return
                lines.row_line = only.line
                if _holds_columns(only.row):
                    lines.fail(
                        f"is one object of columns, {', '.join(map(safe_repr, list(only.row)[:5]))}, where rows are "
                        "needed: a list of objects, as DataFrame.to_json(path, orient='records') writes"
                    )
                if names := _row_lists(only.row):
                    lines.fail(
                        f"is one object that holds lists of rows, {', '.join(map(safe_repr, names[:5]))}; say which to "
                        f"read: part= {safe_repr(names[0])}"
                    )
            except DataError as error:
                if only is not None:
                    raise
                hint = "; if the file is one object that holds lists, say which to read: part= NAME"
                raise DataError(f"{error}{hint}" if lines.lines_read <= 1 else str(error)) from error

    def _named_lists(self, lines: LineReader, *, from_start: bool) -> Iterator[ParsedRow]:
        """The rows of the requested lists; `from_start`: before the first key, else from within a list."""
        reader, names = _JsonReader(lines), []
        if from_start:
            more = reader.peek() != "}"
        else:
            yield from self._list_rows(reader, lines)
            more = reader.accept(",")
        while more:
            if reader.peek() != '"':
                reader.fail(f"the name of a list, in quotes, is needed before {safe_repr(reader.peek())}")
            name = reader.read_value()
            if name in names:
                reader.fail(f"duplicate key {safe_repr(name)}")
            names.append(name)
            reader.expect(":")
            if name in self._parts:
                reader.expect("[")
                yield from self._list_rows(reader, lines)
            else:
                reader.skip_value()
            more = reader.accept(",")
        reader.expect("}")
        reader.expect_end("object")
        if from_start and (missing := [name for name in self._parts if name not in names]):
            raise DataError(
                f"{lines.name}: no part {safe_repr(missing[0])}{nearest(missing[0], names)}; there are: "
                f"{', '.join(map(safe_repr, names)) or 'none'}"
            )

    def _list_rows(self, reader: _JsonReader, lines: LineReader) -> Iterator[ParsedRow]:
        """The rows of a list up to its closing bracket."""
        opening, expected = ("[", "a list ([)") if self.names else ("{", "an object ({)")
        comma = False
        while (sign := reader.peek()) != "]" or comma:
            start, lines.row_start, lines.row_line = reader.offset, reader.offset, reader.lines_read + 1
            if sign != opening:
                goes_on = f"the list continues with {safe_repr(sign)}"
                problem = goes_on if sign else "the file ends before the list does, so get it again"
                hint = "; where rows are lists, name their columns: names=" if sign == "[" else ""
                lines.fail(f"is not a list of rows: {problem}; {expected} is needed here{hint}")
            row = reader.read_value()
            if self.names:
                if len(row) != len(self.names):
                    lines.fail(f"has {len(row)} values, and names has {len(self.names)}")
                row = dict(zip(self.names, row, strict=True))
            if not (comma := reader.accept(",")) and reader.peek() not in ("]", ""):
                reader.fail(f"a comma is missing before {safe_repr(reader.peek())}")
            yield ParsedRow(lines.row_line, start, reader.offset, reader.lines_read, row)
        reader.advance(1)


class _JsonReader:
    """Incremental JSON parser that buffers only a chunk of the text.

    offset: byte offset of the next character
    lines_read: lines before it
    """

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self._decode = codecs.getincrementaldecoder("utf-8-sig" if lines.offset == 0 else "utf-8")().decode
        self._text, self._at = "", 0
        self.offset, self.lines_read = lines.offset, lines.lines_read

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            if self._at == len(self._text) and not self._read_more():
                return ""
            if (sign := self._text[self._at]) not in WHITESPACE:
                return sign
            self.advance(1)

    def advance(self, size: int) -> None:
        end = self._at + size
        self.offset += len(self._text[self._at : end].encode())
        self.lines_read += self._text.count("\n", self._at, end)
        self._at = end

    def accept(self, sign: str) -> bool:
        """Consume the next character if it is this one."""
        if matches := self.peek() == sign:
            self.advance(1)
        return matches

    def expect(self, sign: str) -> None:
        """Consume the next character, which must be this one."""
        if not self.accept(sign):
            following = safe_repr(self.peek()) if self.peek() else "the end of the file; get it again"
            self.fail(f"{sign} is missing before {following}")

    def expect_end(self, of: str) -> None:
        """Check that the file ends here."""
        if self.peek():
            self.fail(f"{safe_repr(self.peek())} follows the end of the {of}")

    def skip_value(self) -> None:
        """Skip the value that begins here, a list item by item, so that it is never buffered whole."""
        if not self.accept("["):
            self.read_value()
            return
        more = self.peek() != "]"
        while more:
            self.read_value()
            more = self.accept(",")
        self.expect("]")

    def read_value(self) -> Any:
        """Parse the value that begins here."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                check_surrogates(self._text[self._at : end], value)
                # At the end of the text, a number may go on in the next chunk.
                if end < len(self._text) or not self._read_more():
                    break
            except DataError:  # of the file
                raise
            except json.JSONDecodeError as error:  # perhaps the value continues in the next chunk
                if len(self._text) - self._at > self._lines.limit:
                    self._lines.fail_too_long(f" ({error.msg} at the end)")
                if not self._read_more():
                    self.fail(f"{error.msg}{cut_off(error, self._text)}", self._text.count("\n", self._at, error.pos))
            except (ValueError, RecursionError) as error:
                self.fail(str(error))
        if end - self._at > self._lines.limit:
            self._lines.fail_too_long()
        self.advance(end - self._at)
        return value

    def _read_more(self) -> bool:
        """Buffer more text; False at the end. The chunk doubles for a row that does not fit."""
        rest = self._text[self._at :]
        while data := self._lines.read_bytes(max(CHUNK_BYTES, len(rest))):
            try:
                text = self._decode(data)
            except UnicodeDecodeError as error:
                before = rest.count("\n") + error.object.count(b"\n", 0, error.start)
                self._lines.row_line = self.lines_read + before + 1
                self._lines.fail(NOT_UTF_8)
            if self.offset == 0 and not rest and data.startswith(codecs.BOM_UTF8):
                self.offset = len(codecs.BOM_UTF8)
            if text:
                self._text, self._at = rest + text, 0
                return True
        return False

    def fail(self, what: str, line: int = 0) -> NoReturn:
        self._lines.row_line = self.lines_read + 1 + line
        self._lines.fail(f"is not valid JSON: {what}")
