"""Python functions as tools of a conversation: the JSON schema of a function, by its type hints and its docstring.

def weather(city: str, days: int = 1) -> str          {"type": "function", "function": {"name": "weather",
    The weather of a city.                               "description": "The weather of a city.",
    Args:                                                "parameters": {"type": "object", "properties": {
        city: Where.                                       "city": {"type": "string", "description": "Where."}, …},
        days: How many days. (choices: [1, 7])             "required": ["city"]}, …}}
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from glassformer.errors import DataError

TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null", Any: None}
SECTION = re.compile(r"^\s*(Args|Returns|Raises|Example|Examples|Note|Yields):\s*$", re.MULTILINE)
CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.DOTALL | re.IGNORECASE)


def tool_schemas(tools: Any) -> Any:
    """Tools as JSON schemas: Python functions by their hints and docstrings, others as they are."""
    return [function_schema(x) if callable(x) else x for x in tools] if isinstance(tools, (list, tuple)) else tools


def function_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function as a tool.

    Raises: DataError: no docstring, no type hint of an argument, or no description of one.
    """
    name, text = function.__name__, inspect.cleandoc(function.__doc__ or "").strip()
    if not text:
        raise DataError(f"the tool {name} has no docstring; a model reads what it does, and its 'Args:'")
    parts = SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    described = _arguments(sections.get("Args", ""))
    hints, properties, required = get_type_hints(function), {}, []
    for each in inspect.signature(function).parameters.values():
        if each.name not in hints or each.name not in described:
            what = "type hint" if each.name not in hints else "description under 'Args:' in its docstring"
            raise DataError(f"the tool {name} has no {what} for {each.name!r}")
        properties[each.name] = _described(_type(hints[each.name]), described[each.name])
        if each.default is inspect.Parameter.empty:
            required.append(each.name)
    schema: dict[str, Any] = {"name": name, "description": parts[0].strip()}
    schema["parameters"] = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    if "return" in hints:
        answer = _type(hints["return"])
        if "Returns" in sections:
            answer["description"] = re.sub(r"\s*\n+\s*", " ", sections["Returns"]).strip()
        schema["return"] = answer
    return {"type": "function", "function": schema}


def _arguments(section: str) -> dict[str, str]:
    """`name: description` or `name (type): description`, each perhaps of several lines."""
    fields = re.split(r"^\s*(\w+)\s*(?:\([^)]*\))?:\s*", section, flags=re.MULTILINE)
    return {
        name: re.sub(r"\s*\n+\s*", " ", text).strip() for name, text in zip(fields[1::2], fields[2::2], strict=True)
    }


def _described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """A schema with its description; `(choices: ["a", "b"])` at the end are the allowed values."""
    if (choices := CHOICES.search(text)) is not None:
        schema["enum"] = json.loads(choices.group(1))
        text = text[: choices.start()].strip()
    return {**schema, "description": text}


def _type(hint: Any) -> dict[str, Any]:
    """The schema of a type hint. Raises: DataError: one that JSON has no type for."""
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [_type(x) for x in of if x is not type(None)]
        simple = [x["type"] for x in kinds if list(x) == ["type"] and isinstance(x["type"], str)]
        one = {"type": sorted(simple)} if len(simple) == len(kinds) > 1 else {"anyOf": kinds}
        schema: dict[str, Any] = kinds[0] if len(kinds) == 1 else one
        return {**schema, "nullable": True} if type(None) in of else schema
    if origin is Literal:
        return {"type": TYPES[type(of[0])], "enum": list(of)}
    if (origin or hint) is list:
        return {"type": "array", **({"items": _type(of[0])} if of else {})}
    if (origin or hint) is dict:
        return {"type": "object", **({"additionalProperties": _type(of[1])} if of else {})}
    if hint in TYPES:
        return {} if TYPES[hint] is None else {"type": TYPES[hint]}
    raise DataError(f"the type {hint!r} has no JSON schema; give str, int, float, bool, list, dict, Literal or a union")
