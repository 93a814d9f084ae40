"""A sandbox for chat templates, which are untrusted Jinja code: no access to Python, bounded time, memory and output.

Jinja's sandbox lets a template see values, never Python's internals, change nothing and open nothing. It does not limit
how long a template runs or how much it makes, and there are too many ways to make much of little to count them all. So
templates run in a child process (`files/child.py`) that the kernel limits; it is kept for the next one.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from glassformer.files import child

MAX_SECONDS, MAX_MEMORY_BYTES, MAX_OUTPUT_CHARS = 4.0, 512 << 20, 32_000_000
"""What one rendering may take: processor time, memory beyond that of an idle child, and characters of its result."""

MAX_WAIT_SECONDS = 30.0
"""How long a rendering may take by the clock, where other programs keep the processors busy."""

WARM_UP = (
    "{% macro m(y) %}{{ y | tojson | wordwrap(2) }}{% endmacro %}"
    "{% for é in x %}{{ m(é) ~ 'y' ~ x | pprint }}{% endfor %}",
    "{{ x.y.z }}",  # fails
)
"""Templates for which Jinja imports what it imports when it is needed; in the sandbox no file can be read."""


def worker(
    seconds: float = MAX_SECONDS, memory_bytes: int = MAX_MEMORY_BYTES, output_chars: int = MAX_OUTPUT_CHARS
) -> child.Worker:
    """A child process that renders templates within these limits; see `main`."""
    program = "from glassformer.text.sandbox import main; main(*sys.argv[1:])"
    return child.Worker(program, str(seconds), str(memory_bytes), str(output_chars), timeout_s=MAX_WAIT_SECONDS)


def main(seconds: str, memory_bytes: str, output_chars: str) -> None:
    """Entry point of the child: enter the sandbox and answer {"source", "variables"} with {"text"} or {"error"}.

    "marks": [opening, closing] writes these texts around what {% generation %} blocks write.
    """
    for source in WARM_UP:
        _rendered({"source": source, "variables": {"x": ["é"]}}, 99)
    child.enter_sandbox(memory_bytes=int(memory_bytes), reads=False)
    child.serve(lambda request: _rendered(request, int(output_chars)), cpu_s=float(seconds))


def _rendered(request: dict[str, Any], max_chars: int) -> dict[str, str]:
    """The rendered text, or what is wrong, as the end of a sentence about the template."""
    remedy = "give another template: chat_template=…"
    try:
        _environment().marks = tuple(request.get("marks", ("", "")))
        text = _compiled_template(request["source"]).render(request["variables"])
        if len(text) <= max_chars:
            return {"text": text}
        message = f"writes too much: {len(text)} characters; at most {max_chars} are taken"
    except MemoryError:
        message = "takes too much memory"
    except TemplateSyntaxError as error:
        message = f"has a syntax error: line {error.lineno}: {error.message}; repair it, or {remedy}"
    except TemplateRefusal as error:
        message = f"rejects these messages: {error}"
    except SecurityError as error:
        message = f"was stopped, since it violates the sandbox: {error}"
    except TemplateError as error:
        message = f"fails on these messages: {error}; check both, or {remedy}"
    except Exception as error:  # untrusted code may fail in any way
        message = f"fails on these messages: {type(error).__name__}: {error!s:.200}"
    return {"error": message[:2000]}


@lru_cache(maxsize=16)
def _compiled_template(source: str) -> Template:
    return _environment().from_string(source)


@lru_cache(maxsize=1)
def _environment() -> Sandbox:
    return Sandbox()


class GenerationTag(Extension):
    """{% generation %} … {% endgeneration %} marks the assistant's output; its content is rendered unchanged.

    The marks of the environment are written around it where they are asked for (`main`).
    """

    tags = {"generation"}  # noqa: RUF012 (so Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        first, last = (nodes.Output([self.call_method("mark", [nodes.Const(i)])], lineno=line) for i in (0, 1))
        return nodes.Scope([first, *body, last], lineno=line)

    def mark(self, index: int) -> str:
        """The opening mark (0) or the closing one (1)."""
        text: str = self.environment.marks[index]  # type: ignore[attr-defined] # of `Sandbox`
        return text


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
    """The Jinja environment of chat templates: immutable and sandboxed; `marks` are those of `GenerationTag`."""

    marks: tuple[str, str] = ("", "")

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, LoopControlExtension])
        self.filters["tojson"] = to_json
        del self.globals["lipsum"]  # makes filler text of any length
        self.globals |= {
            "namespace": SandboxNamespace,
            "raise_exception": raise_exception,
            "strftime_now": strftime_now,
        }


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson`, without the HTML escapes of Jinja's own."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message: str) -> NoReturn:
    """`raise_exception(…)`: by which a template rejects messages."""
    raise TemplateRefusal(str(message))


class TemplateRefusal(TemplateError):
    """A template rejected the messages with `raise_exception`."""


def strftime_now(layout: str) -> str:
    """`strftime_now("%d %b %Y")`: the local date and time."""
    return datetime.now().strftime(layout)
