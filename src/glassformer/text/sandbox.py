"""A sandbox for chat templates, which are untrusted Jinja code: no access to Python, and a budget of work.

Jinja's sandbox lets a template see values, never Python's internals, change nothing, open nothing, and count no further
than 100,000 in a range. It does not limit how long a template runs or how much it writes; that is done here: every
operation whose result can grow is charged to a budget of work before it runs.
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

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateRuntimeError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_WORK = 100_000_000
"""The work that one rendering may cost, in characters: some seconds, and some hundred megabytes at worst."""

MIN_COST = 500
"""The least cost of a loop iteration, a call or a filter, so that there are at most 200,000 of them."""

MULTIPLYING = frozenset(
    "* ** batch center expandtabs format format_map indent join ljust replace rjust slice wordwrap zfill".split()
)
"""Operators, methods and filters whose results may be as long as the product of their arguments' sizes."""

WIDE_FIELD = re.compile(r"%(\([^)]*\))?[^a-zA-Z%]*(\d{5}|\*)|\{[^{}]*:[^{}]*(\d{5}|\{)")
"""A field of a format string whose width has five digits, or is an argument."""

_remaining_work: ContextVar[list[int]] = ContextVar("remaining work of this rendering")


@contextmanager
def work_budget() -> Iterator[None]:
    """A context in which compiling and rendering cost at most `MAX_WORK`."""
    token = _remaining_work.set([MAX_WORK])
    try:
        yield
    finally:
        _remaining_work.reset(token)


def spend(work: int) -> None:
    """Charge work to the budget.

    Raises: TemplateRuntimeError: the budget is used up.
    """
    remaining = _remaining_work.get()
    remaining[0] -= work
    if remaining[0] < 0:
        raise TemplateRuntimeError("it runs too long or writes too much")


def _size(value: Any) -> int:
    """The length of a text or a container, the magnitude of a number; 1 for everything else."""
    if isinstance(value, int):
        return abs(value)
    return len(value) if isinstance(value, (Sequence, Set, ValuesView, dict)) else 1


def _charge(name: str, *values: Any) -> None:
    """Charge an operation to the budget, before it is done."""
    if name == "join":  # every text of the list becomes part of the result
        values += tuple(sum(map(_size, value)) for value in values if isinstance(value, (list, tuple)))
    layout = values[0]
    if name in ("%", "format", "format_map") and isinstance(layout, str) and WIDE_FIELD.search(layout):
        raise SecurityError("a format string has a very wide field")
    *_, second, first = sorted((1, 1, *map(_size, values)))
    spend(MIN_COST + (first * second if name in MULTIPLYING else first if name in ("+", "~") else 0))


def _charged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is charged to the budget."""

    @wraps(function)  # also copies Jinja's mark of filters that take the context
    def charged(*args: Any, **kwargs: Any) -> Any:
        args = _with_lists(args)
        _charge(name, *args, *kwargs.values())
        return function(*args, **kwargs)

    return charged


def _with_lists(values: Iterable[Any]) -> tuple[Any, ...]:
    """The same values, with generators (of other filters) as lists, which have a size."""
    return tuple(list(value) if isinstance(value, Generator) else value for value in values)


def _charged_iterations(values: Iterable[Any]) -> Iterator[Any]:
    """The items of a loop, each iteration charged to the budget."""
    for value in values:
        spend(MIN_COST)
        yield value


def _charged_concat(values: list[Any]) -> str:
    """Concatenation: a ~ b ~ …"""
    texts = [str(value) for value in values]
    _charge("~", sum(map(len, texts)))
    return "".join(texts)


def _charged_output(parts: Iterable[str]) -> str:
    """The output of a template, a macro or a block."""
    texts = []
    for text in parts:
        spend(len(text))
        texts.append(text)
    return "".join(texts)


class GenerationTag(Extension):
    """{% generation %} … {% endgeneration %} marks the assistant's output; its content is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012 (so Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class SandboxNamespace(Namespace):
    """Jinja's `namespace(…)`, without attributes that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # as Jinja's: no keyword is taken, not even `self`
        self, *values = args
        Namespace.__init__(self, {})
        for name, value in dict(*values, **kwargs).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"it sets the attribute {name!r}")
        super().__setitem__(name, value)


class Sandbox(ImmutableSandboxedEnvironment):
    """The Jinja environment of chat templates: immutable, sandboxed, and charged to the budget of work."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))
    concat = staticmethod(_charged_output)

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, LoopControlExtension])
        self.filters["tojson"] = to_json
        self.filters = {name: _charged(name, function) for name, function in self.filters.items()}
        # Names with spaces: no template can call these filters itself.
        self.filters |= {"charged iterations": _charged_iterations, "charged concat": _charged_concat}
        del self.globals["lipsum"]  # makes filler text of any length
        self.globals |= {
            "namespace": SandboxNamespace,
            "raise_exception": raise_exception,
            "strftime_now": strftime_now,
        }

    def template(self, source: str) -> Template:
        """Compile a template with its loops and concatenations charged to the budget.

        Raises: TemplateError: a syntax error, or a recursive loop.
        """
        tree = self.parse(source)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise TemplateRuntimeError("it has a recursive loop, whose iterations cannot be counted")
            loop.iter = self._filtered(loop.iter, "charged iterations")
        _replace_nodes(tree, nodes.Concat, lambda node: self._filtered(nodes.List(node.nodes), "charged concat"))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def _filtered(self, node: nodes.Node, name: str) -> nodes.Node:
        filtered = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
        return filtered.set_environment(self)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(__obj, "__self__", None)  # for a method of a text, the text
        args = _with_lists(args)
        _charge(getattr(__obj, "__name__", ""), owner, *args, *kwargs.values())
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _charge(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _charge("format", value.__self__)
        return wrapped


def _replace_nodes(node: nodes.Node, kind: type[nodes.Node], change: Callable[[Any], nodes.Node]) -> None:
    """Replace each node of a kind below this one, the innermost first."""
    for name, value in node.iter_fields():
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, nodes.Node):
                _replace_nodes(child, kind, change)
        changed = [change(child) if isinstance(child, kind) else child for child in children]
        setattr(node, name, changed if isinstance(value, list) else changed[0])


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson`, without the HTML escapes of Jinja's own."""
    if indent is not None and _size(indent) > 16:
        raise SecurityError("the indent of tojson is more than 16")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message: str) -> NoReturn:
    """`raise_exception(…)`: by which a template rejects messages."""
    raise TemplateRefusal(str(message))


class TemplateRefusal(TemplateError):
    """A template rejected the messages with `raise_exception`."""


def strftime_now(layout: str) -> str:
    """`strftime_now("%d %b %Y")`: the local date and time."""
    return datetime.now().strftime(layout)


def json_copy(value: Any, path: str) -> Any:
    """A copy of JSON types alone, so that templates never see other objects.

    Raises: TypeError: a value of another type, with its path.
    """
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {str(key): json_copy(item, f"{path}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_copy(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{path} is a {type(value).__name__}; it must be text, a number, a list or a mapping")
