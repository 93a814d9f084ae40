"""Where the programs that come with tokenizers run: chat templates, written in Jinja by nobody one knows.

Jinja's sandbox lets a template see values, never Python's insides, change nothing, open nothing, and count no further
than 100,000 in a range. It does not bound how long a template runs or how much it writes; that is done here, by a
budget of work that everything which can grow is paid from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import wraps
from typing import Any, NoReturn

from jinja2 import Environment, Template, nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateRuntimeError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

WORK = 100_000_000
"""What one rendering may cost, about a character each: some seconds, and some hundred megabytes at worst."""
STEP = 500
"""The least that a round of a loop, a call and a filter cost, so that there are at most 200,000 of them."""

GROWING = frozenset(
    "* ** batch center expandtabs format format_map indent join ljust replace rjust slice wordwrap zfill".split()
)
"""Operators, methods and filters whose results may be as long as the product of what they are given."""

WIDE = re.compile(r"%(\([^)]*\))?[^a-zA-Z%]*(\d{5}|\*)|\{[^{}]*:[^{}]*(\d{5}|\{)")
"""In a format string, a width of five digits, or one that is given as a value."""

_left: ContextVar[list[int]] = ContextVar("what is left of the budget of this rendering")


@contextmanager
def budget() -> Iterator[None]:
    """What is compiled and rendered within costs at most `WORK`."""
    token = _left.set([WORK])
    try:
        yield
    finally:
        _left.reset(token)


def spend(work: int) -> None:
    """Raises: TemplateRuntimeError: the budget is used up."""
    left = _left.get()
    left[0] -= work
    if left[0] < 0:
        raise TemplateRuntimeError("it runs too long or writes too much")


def _size(value: Any) -> int:
    """How long a text or a container is, how large a number; everything else is small."""
    if isinstance(value, int):
        return abs(value)
    return len(value) if isinstance(value, (Sequence, Set, ValuesView, dict)) else 1


def _pay(name: str, *values: Any) -> None:
    """The price of an operation, before it is done."""
    if name == "join":  # each text of the list becomes part of the result
        values += tuple(sum(map(_size, value)) for value in values if isinstance(value, (list, tuple)))
    layout = values[0]
    if name in ("%", "format", "format_map") and isinstance(layout, str) and WIDE.search(layout):
        raise SecurityError("it asks for a very wide field in a format string")
    *_, second, first = sorted((1, 1, *map(_size, values)))
    spend(STEP + (first * second if name in GROWING else first if name in ("+", "~") else 0))


def _priced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is paid for."""

    @wraps(function)  # also the mark of filters that are given the context
    def priced(*args: Any, **kwargs: Any) -> Any:
        args = _counted(args)
        _pay(name, *args, *kwargs.values())
        return function(*args, **kwargs)

    return priced


def _counted(values: Iterable[Any]) -> tuple[Any, ...]:
    """The same values, and what other filters still were to give as a list, which has a size."""
    return tuple(list(value) if isinstance(value, Generator) else value for value in values)


def _rounds(values: Iterable[Any]) -> Iterator[Any]:
    """What a loop goes through, each round paid for."""
    for value in values:
        spend(STEP)
        yield value


def _concatenated(values: list[Any]) -> str:
    """a ~ b ~ …"""
    texts = [str(value) for value in values]
    _pay("~", sum(map(len, texts)))
    return "".join(texts)


def _written(pieces: Iterable[str]) -> str:
    """What a template, a macro or a block writes."""
    texts = []
    for piece in pieces:
        spend(len(piece))
        texts.append(piece)
    return "".join(texts)


class Generation(Extension):
    """{% generation %} … {% endgeneration %} marks what the assistant says; its content is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012 (so Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class Names(Namespace):
    """`namespace(…)`, in which no name may look like one of Python's own."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *given = args
        Namespace.__init__(self, {})
        for name, value in dict(*given, **kwargs).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"it sets the attribute {name!r}")
        super().__setitem__(name, value)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja as chat templates expect it, with nothing in reach and everything paid for."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))
    concat = staticmethod(_written)

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, LoopControlExtension])
        self.filters["tojson"] = to_json
        self.filters = {name: _priced(name, function) for name, function in self.filters.items()}
        self.filters |= {
            "the rounds": _rounds,
            "joined by ~": _concatenated,
        }  # names that no template can say
        del self.globals["lipsum"]  # filler text, any amount of it
        self.globals |= {"namespace": Names, "raise_exception": refuse, "strftime_now": now}

    def template(self, source: str) -> Template:
        """Compile a template, its loops and joins paid for.

        Raises: TemplateError: a syntax that Jinja does not know, or a recursive loop.
        """
        tree = self.parse(source)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise TemplateRuntimeError("it holds a recursive loop, whose rounds cannot be counted")
        program = _Paid(self).visit(tree)
        return Template.from_code(self, self.compile(program), self.make_globals(None))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(__obj, "__self__", None)  # of a text's method, the text
        args = _counted(args)
        _pay(getattr(__obj, "__name__", ""), owner, *args, *kwargs.values())
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _pay(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        found = super().wrap_str_format(value)
        if found is not None:
            _pay("format", value.__self__)
        return found


class _Paid:
    """Puts what counts around the loops and joins of a template's tree."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit(self, tree: nodes.Template) -> nodes.Template:
        for loop in tree.find_all(nodes.For):
            loop.iter = self._filtered(loop.iter, "the rounds")
        _replace(tree, nodes.Concat, lambda node: self._filtered(nodes.List(node.nodes), "joined by ~"))
        return tree

    def _filtered(self, node: nodes.Node, name: str) -> nodes.Node:
        filtered = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
        return filtered.set_environment(self._environment)


def _replace(node: nodes.Node, kind: type[nodes.Node], change: Callable[[Any], nodes.Node]) -> None:
    """Replace each node of a kind below this one, the innermost first."""
    for name, value in node.iter_fields():
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, nodes.Node):
                _replace(child, kind, change)
        changed = [change(child) if isinstance(child, kind) else child for child in children]
        setattr(node, name, changed if isinstance(value, list) else changed[0])


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, without the escapes that a page of HTML would need."""
    if indent is not None and _size(indent) > 16:
        raise SecurityError("tojson indents by at most 16")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def refuse(message: str) -> NoReturn:
    """`raise_exception(…)`: how a template says that it cannot take these messages."""
    raise Refused(str(message))


class Refused(TemplateError):
    """A template's own words about messages that it cannot take."""


def now(layout: str) -> str:
    """`strftime_now("%d %b %Y")`: the date, here."""
    return datetime.now().strftime(layout)


def plain(value: Any, place: str) -> Any:
    """A copy made of what JSON has: nothing else comes before the eyes of a template.

    Raises: TypeError: something else, with its place.
    """
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{place}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{place}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{place} is a {type(value).__name__}; it must be text, a number, a list or a mapping")
