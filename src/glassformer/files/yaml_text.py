"""Read YAML that anyone may have written: a few hundred bytes of it can stand for gigabytes.

a: &a [x, x, x, x]        An alias is the value that it refers to, once more: nine lines of ten aliases each are
b: &b [*a, *a, *a, *a]    a billion values. Values are counted as if aliases were written out, and nested ones as
c: [*b, *b, *b, *b]       deep as they would be then; whole numbers are bounded as well.
"""

from __future__ import annotations

from typing import Any

import yaml

from glassformer.errors import ConfigError, GlassformerError
from glassformer.files import safe_repr

MAX_BYTES = 1_000_000  # configurations have a few thousand
MAX_VALUES = 50_000  # PyYAML takes 50 µs for each
MAX_DEPTH = 100  # PyYAML calls itself for each level, and Python allows a thousand calls
MAX_NUMBER = 400  # characters of a number, a date or any other value that is no text
MAX_MESSAGE = 500  # characters; PyYAML quotes names and tags in full

TEXT = "tag:yaml.org,2002:str"


def parse_yaml(text: bytes | str, where: str, error: type[GlassformerError] = ConfigError) -> Any:
    """Parse one YAML document; None where it is empty.

    Args:
        where: what the text is, for messages: a path.
        error: the class of error to raise.
    Raises: `error`: invalid YAML, a duplicate key (of which PyYAML takes the last), a value that refers to itself, a
        number or a date that is none, more than `MAX_BYTES`, `MAX_VALUES` or `MAX_DEPTH`.
    Source: YAML 1.2.2; section 3.2.1.3 for keys.
    """
    if len(text) > MAX_BYTES:
        raise error(f"{where}: has {len(text)} bytes; YAML may have {MAX_BYTES}")
    try:
        return _BoundedLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError) as problem:  # ValueError: bytes or escapes that are no character
        raise error(f"{where}: invalid YAML: {_message(problem)}") from problem


class _BoundedLoader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """A loader of plain values that counts them, and how deep they are, while it reads."""

    def __init__(self, text: bytes | str) -> None:
        super().__init__(text)
        self._values = 0  # so far, aliases written out
        self._heights = [0]  # of each open node: that of its highest child so far
        self._finished: dict[int, tuple[int, int]] = {}  # a node's id → its number of values, and its height

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node, or the one that an alias refers to."""
        event, before = self.peek_event(), self._values
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._finished:
                raise _problem(f"the alias {safe_repr(event.anchor)} is within the value that it refers to", event)
            values, height = self._finished[id(node)]
        else:
            self._check(len(self._heights), MAX_DEPTH, "levels deep", event)
            self._heights.append(0)
            node = super().compose_node(parent, index)
            values, height = 1, self._heights.pop() + 1
            if isinstance(node, yaml.MappingNode):
                _check_keys(node)
        self._values += values
        self._check(self._values, MAX_VALUES, "values", event)
        self._heights[-1] = max(self._heights[-1], height)
        self._check(len(self._heights) - 1 + height, MAX_DEPTH, "levels deep", event)
        self._finished[id(node)] = self._values - before, height
        return node

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:
        """An opening bracket. The scanner looks far ahead of `compose_node`, in time that is quadratic in the depth."""
        if self.flow_level >= MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, _too_much(MAX_DEPTH, "levels deep"), self.get_mark())
        super().fetch_flow_collection_start(TokenClass)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """The value of a node."""
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        if node.tag != TEXT and len(node.value) > MAX_NUMBER:
            raise _problem(f"{safe_repr(node.value)} is too long for {_kind(node)}; a text needs quotes", node)
        try:
            node.value.encode()  # an escape can make half of a surrogate pair, which is no character
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, KeyError, AttributeError):  # of int(), float(), tables and patterns there
            raise _problem(
                f"{safe_repr(node.value)} cannot be read as {_kind(node)}; a text needs quotes", node
            ) from None

    @staticmethod
    def _check(count: int, most: int, what: str, event: Any) -> None:
        if count > most:
            raise _problem(_too_much(most, what), event)


def _message(problem: Exception) -> str:
    """What is wrong, on one line, with its line and column."""
    message, mark = str(problem), getattr(problem, "problem_mark", None)
    if isinstance(problem, yaml.MarkedYAMLError):
        message = f"{problem.context}: {problem.problem}" if problem.context else str(problem.problem)
    message = " ".join(message.split())
    cut = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"
    return cut if mark is None else f"{cut} (at line {mark.line + 1}, column {mark.column + 1})"


def _check_keys(node: yaml.MappingNode) -> None:
    keys = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (name := (key.tag, key.value)) in keys:
                raise _problem(f"duplicate key {safe_repr(key.value)}", key)
            keys.add(name)


def _too_much(most: int, what: str) -> str:
    return f"more than {most:,} {what}, with aliases written out; no more are read"


def _kind(node: Any) -> str:
    return "a text" if node.tag == TEXT else safe_repr(node.tag.removeprefix("tag:yaml.org,2002:"))


def _problem(problem: str, place: Any) -> yaml.MarkedYAMLError:
    """An error at a node or an event."""
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=place.start_mark)
