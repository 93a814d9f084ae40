"""Schemas: dataclasses whose fields carry their type, their allowed values and their documentation.

    @dataclass(frozen=True, kw_only=True)
    class SearchRequest(Schema):
        count: Annotated[int, at_least(1), Doc("Number of matches.")] = 10
        by: Literal["layer", "head"] = "layer"

    SearchRequest(count=0)                     ConfigError: count is 0; it must be a whole number from 1 up
    parse(SearchRequest, {"cuont": 3})         ConfigError: 'cuont' is no option; nearest: 'count'; allowed: count, by
    parse_query(SearchRequest, [("count", "3")])   the same from a query string, whose values are texts
    json_schema(SearchRequest)                 for OpenAPI and for the types of the page

What depends on several fields is code: `Schema.validate`. Why it is not pydantic: docs/architecture.md.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, UnknownOptionError, nearest
from glassformer.files import safe_repr
from glassformer.files.lazy import imported

T = TypeVar("T")

_KINDS: dict[Any, str] = {
    **{int: "a whole number", float: "a number", bool: "true or false", str: "a text"},
    **dict.fromkeys((list, tuple, Sequence), "a list"),
    **dict.fromkeys((dict, Mapping), "names and values"),
}
"""Types of options, as a message states them."""

_JSON_TYPES: dict[Any, str] = {
    **{int: "integer", float: "number", bool: "boolean", str: "string", type(None): "null"},
    **dict.fromkeys((list, tuple, Sequence), "array"),
    **dict.fromkeys((dict, Mapping), "object"),
}

LARGEST_COUNT = 10**15
"""No count of steps, rows or tokens is larger; counters of 64 bits are never near their end."""

# ------------------------------------------------------------------------------------------------ what a field carries


@dataclasses.dataclass(frozen=True, eq=False)  # each is its own: unions hash what they hold
class Allowed:
    """The values that a field may have: in words, as its error states them, and as a test of a value of its type.

    Annotations of a class are evaluated in the class, where a `lambda` does not see the names of its module: define
    a type that has one at the top of the module, as `Count` below.

    schema: keywords of JSON Schema that state the same, such as {"minimum": 1}
    """

    words: str
    test: Callable[[Any], Any] = lambda value: True
    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Doc:
    """The documentation of a field: the help of its option, and its description in the JSON schema.

    text: a sentence that begins with the term that a search engine knows
    group: heading of the option in `--help`
    """

    text: str
    group: str | None = None


@dataclasses.dataclass(frozen=True)
class Later:
    """The class "module:class" as the type of a field, which is imported where a value is given."""

    reference: str


def later(reference: str) -> Any:
    """An annotation by `Later`, so that options are read without torch; type checkers see the class itself.

    if TYPE_CHECKING:
        from glassformer.compression.adapters import AdapterSpec
    else:
        AdapterSpec = later("glassformer.compression.adapters:AdapterSpec")
    """
    return Annotated[Any, Later(reference)]


def at_least(low: float, high: float = math.inf, words: str | None = None) -> Allowed:
    """Whole numbers, or numbers, from `low` up, or from `low` to `high`."""
    bounded = high != math.inf
    kind = "a whole number" if isinstance(low, int) else "a number"
    return Allowed(
        words or f"{kind} from {_plain(low)} {f'to {_plain(high)}' if bounded else 'up'}",
        lambda x: low <= x <= high and x != math.inf,
        {"minimum": low, **({"maximum": high} if bounded else {})},
    )


def _plain(number: float) -> str:
    """A bound as people write it: 1,000,000, not 1e+06."""
    text = f"{number:,}" if isinstance(number, int) else f"{number:,.12f}".rstrip("0").rstrip(".")
    return text.replace(",", "") if abs(number) < 10_000 else text


def above(low: float, high: float = math.inf, words: str | None = None) -> Allowed:
    """Numbers above `low`, and below `high`."""
    bounded = high != math.inf
    return Allowed(
        words or (f"a number between {_plain(low)} and {_plain(high)}" if bounded else f"a number above {_plain(low)}"),
        lambda x: low < x < high,
        {"exclusiveMinimum": low, **({"exclusiveMaximum": high} if bounded else {})},
    )


def one_of(*values: str) -> Allowed:
    """One of these texts, such as the role of a column, where a type checker need not know which."""
    *others, last = values
    return Allowed(f"{', '.join(others)} or {last}" if others else last, lambda x: x in values, {"enum": list(values)})


Count = Annotated[int, at_least(1, LARGEST_COUNT)]
NonNegativeInt = Annotated[int, at_least(0)]
NonNegative = Annotated[float, Allowed("a number from 0 up", lambda x: 0 <= x < math.inf, {"minimum": 0})]
Positive = Annotated[float, above(0)]
BelowOne = Annotated[
    float,
    Allowed("a number from 0 up to, but not including, 1", lambda x: 0 <= x < 1, {"minimum": 0, "exclusiveMaximum": 1}),
]
Share = Annotated[float, Allowed("a number from 0 to 1", lambda x: 0 <= x <= 1, {"minimum": 0, "maximum": 1})]
Seed = Annotated[int, at_least(0, 2**32 - 1)]


class Schema:
    """Base class of dataclasses that check the types and the values of their fields when they are made.

    Raises: ConfigError: a field is not of its type or not allowed, or `validate` finds that fields do not go together.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, hint in field_types(type(self)).items():
            check(hint, getattr(self, name), name)
        self.validate()

    def validate(self) -> None:
        """Check what depends on several fields."""


def field_types(cls: type) -> dict[str, Any]:
    """Each field of a dataclass with its annotation."""
    return _field_types(cls)


@cache  # resolving annotations takes longer than checking values
def _field_types(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def given(options: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, by name."""
    defaults = {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(options)
    }
    values = {name: getattr(options, name) for name in defaults}
    return {name: x for name, x in values.items() if type(x) is not type(defaults[name]) or x != defaults[name]}


def metadata_of(hint: Any, kind: type[T]) -> T | None:
    """What an annotation carries of this kind, such as its `Doc` or its `Allowed`; None = nothing."""
    return next((x for x in getattr(hint, "__metadata__", ()) if isinstance(x, kind)), None)


def keyword_types(cls: type) -> dict[str, Any]:
    """The types of the keyword arguments of a class, those of its bases too: name → annotation."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if "__init__" not in vars(base):
            continue
        try:
            own = get_type_hints(base.__init__, include_extras=True)  # type: ignore[misc] # of this very class
        except (NameError, TypeError):  # annotations for type checkers alone
            continue
        for name, hint in own.items():
            unpacked = get_origin(hint) is Unpack  # **options: Unpack[SomeTypedDict]
            hints |= get_type_hints(get_args(hint)[0], include_extras=True) if unpacked else {name: hint}
    return hints


def refuse_unknown(call: str, options: Mapping[str, object], kind: type) -> None:
    """Refuse keywords that the `TypedDict` of a call does not have: Python itself takes any.

    Raises: UnknownOptionError: such a keyword, with the nearest that there is.
    """
    for name in options:
        if name not in kind.__annotations__:
            raise UnknownOptionError(f"{call}(…) takes no {safe_repr(name)}{nearest(name, list(kind.__annotations__))}")


# ------------------------------------------------------------------------------------------------ parsing


def parse(cls: type[T], values: object, path: str = "") -> T:
    """Parse a mapping into a dataclass; unknown keys and values of another type are errors.

        parse(TrainingOptions, {"steps": 100, "learning_rate": 1e-4}, "training")

    Integers are accepted as floats, and so are strings such as "5e-5", which YAML reads as a string.

    Args:
        path: key path of the mapping in its file, for messages.
    Raises: ConfigError: an unknown key (with the nearest known ones), a value of another type or not allowed, a
        missing key.
    """
    where = f"{path}: " if path else ""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}expected names and values, got {safe_repr(values)}")
    hints = field_types(cls)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints and name in getattr(cls, "KEYS", ()):
            continue  # written by a record, and computed again from its fields
        if name not in hints:
            meant, allowed = _meant(str(name), hints), ", ".join(hints) or "none"
            raise ConfigError(f"{where}{safe_repr(name)} is no option{meant}; allowed: {allowed}")
        arguments[name] = convert(hints[name], value, f"{path}.{name}" if path else name)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and field.name not in arguments:
            raise ConfigError(f"{where}{field.name!r} is missing")
    return cls(**arguments)


def actual_type(hint: Any) -> Any:
    """An annotation itself, or the class that `later` names."""
    named = metadata_of(hint, Later)
    return hint if named is None else imported(named.reference)


def _shown(key: object) -> str:
    """A key as a part of a path, for messages."""
    return safe_repr(key).strip("'")


def _meant(name: str, hints: Mapping[str, Any]) -> str:
    """What an unknown key may mean: that of a part, or one with nearly this name. Parts are imported `later`."""

    def inner(resolve: Callable[[Any], Any]) -> str:
        keys = [f"{key}.{name}" for key, hint in hints.items() if name in _fields_of(hint, resolve)]
        return f"; it may be {' or '.join(keys)}" if keys else ""

    return inner(lambda hint: hint) or nearest(name, hints) or inner(actual_type)


def _fields_of(hint: Any, resolve: Callable[[Any], Any]) -> set[str]:
    """The names of the fields of a dataclass, or of those in a union."""
    # A `Doc` next to a type is a dataclass too, but an instance of one.
    kinds = map(resolve, (hint, *get_args(hint)))
    classes = [each for each in kinds if isinstance(each, type) and dataclasses.is_dataclass(each)]
    return {field.name for each in classes for field in dataclasses.fields(each)}


def check(hint: Any, value: Any, path: str) -> None:
    """Check that a value of Python is of an annotated type, and allowed.

    Raises: ConfigError: it is not.
    """
    convert(hint, value, path, strict=True)


def convert(hint: Any, value: Any, path: str, *, strict: bool = False) -> Any:
    """Convert a value of YAML or JSON to an annotated type, and check that it is allowed.

    Args:
        strict: no 3.0 for 3, and no "5e-5" for a number, which files may write
    Raises: ConfigError: a value of another type, or one that is not allowed; a text that no file can hold.
    """
    if strict and type(value) is hint:  # most fields of what a program makes
        return value
    if not strict and isinstance(value, str):
        _check_unicode(value, path)
    hint = actual_type(hint)
    if get_origin(hint) is Annotated:
        allowed = metadata_of(hint, Allowed)
        try:
            converted = convert(get_args(hint)[0], value, path, strict=strict)
            if allowed is None or converted is None or allowed.test(converted):
                return converted
        except (ConfigError, TypeError):  # the latter of a test, for what cannot be compared or hashed
            if allowed is None:
                raise
        raise ConfigError(f"{path} is {safe_repr(value)}; it must be {allowed.words}")
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(inner, value, path, strict)
    if origin is Literal:
        if value in inner:
            return value
        raise ConfigError(f"{path} is {safe_repr(value)}; allowed: {', '.join(map(str, inner))}")
    if dataclasses.is_dataclass(hint):
        if isinstance(value, hint):  # type: ignore[arg-type]
            return value
        read = getattr(hint, "from_dict", None)  # a report has a kind and a version to check
        return parse(hint, value, path) if read is None else read(value)  # type: ignore[arg-type]
    if origin in (list, tuple, Sequence) and isinstance(value, (list, tuple)):
        kind = list if origin is Sequence else origin
        mixed = origin is tuple and len(inner) > 1 and inner[1] is not Ellipsis  # a type for each item
        types_ = inner if mixed else inner[:1] * len(value)
        if len(types_) == len(value):
            return kind(
                convert(of, item, f"{path}[{i}]", strict=strict)
                for i, (of, item) in enumerate(zip(types_, value, strict=True))
            )
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {
            convert(inner[0], _key(inner[0], k, strict), path, strict=strict): convert(
                inner[1], v, f"{path}.{_shown(k)}", strict=strict
            )
            for k, v in value.items()
        }
    if hint in (int, float):
        if (number := _number(hint, value, strict)) is not None:
            return number
    elif (isinstance(hint, type) and isinstance(value, hint)) or (origin is Callable and callable(value)):
        return value
    expected = "True or False" if strict and hint is bool else _KINDS.get(hint) or _KINDS.get(origin) or str(hint)
    raise ConfigError(f"{path} is {safe_repr(value)}; it must be {expected}")


def _check_unicode(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        remedy = "if it names a file or a folder, rename it"
        raise ConfigError(f"{path} is {safe_repr(text)}, which is not valid Unicode; {remedy}") from None


def _key(kind: Any, key: Any, strict: bool) -> Any:
    """A key of JSON, which is always a text, as the whole number that it may stand for."""
    written = kind is int and not strict and isinstance(key, str) and key.isdecimal() and len(key) < 20
    return int(key) if written else key


def _number(kind: type, value: Any, strict: bool) -> int | float | None:
    """A value as a number of this type; None = it is none. True and False are none."""
    accepted = (int,) if strict and kind is int else (int, float) if strict or kind is int else (int, float, str)
    if isinstance(value, bool) or not isinstance(value, accepted):
        return None
    if kind is int:
        return int(value) if isinstance(value, int) or float(value).is_integer() else None  # JSON may write 3 as 3.0
    try:
        return float(value)
    except (ValueError, OverflowError):  # the latter of an integer that no float holds
        return None


def _convert_union(alternatives: tuple[Any, ...], value: Any, path: str, strict: bool) -> Any:
    """The first alternative that takes the value; the error names them all, or is that of the last, deeper within."""
    if value is None and type(None) in alternatives:
        return None
    problems = list[ConfigError]()
    for alternative in [alternative for alternative in alternatives if alternative is not type(None)]:
        try:
            return convert(alternative, value, path, strict=strict)
        except ConfigError as error:
            problems.append(error)
    begin, last = f"{path} is {safe_repr(value)}; it must be ", problems[-1]
    words = [message.removeprefix(begin) for message in map(str, problems) if message.startswith(begin)]
    raise ConfigError(begin + ", or ".join(dict.fromkeys(words))) if str(last).startswith(begin) else last


def parse_query(cls: type[T], pairs: Iterable[tuple[str, str]]) -> T:
    """Parse the pairs of a query string (`?layer=3&rows=0:64&kinds=a,b`), whose values are texts, into a dataclass.

    Raises: ConfigError: a parameter that is unknown, missing, given twice, or not of its type.
    """
    hints = field_types(cls)
    values: dict[str, Any] = {}
    for name, text in pairs:
        if name in values:
            raise ConfigError(f"duplicate parameter {safe_repr(name)}; give it once")
        values[name] = _from_text(hints[name], text) if name in hints else text
    return parse(cls, values)


def _from_text(hint: Any, text: str) -> Any:
    """Read a text as a value of a type; what cannot be read stays text, which `parse` refuses."""
    if get_origin(hint) is Annotated:
        return _from_text(get_args(hint)[0], text)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        candidates = (_from_text(each, text) for each in inner if each is not type(None))
        return next((x for x in candidates if not isinstance(x, str)), text)
    if hint is int and text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 18:
        return int(text)
    if hint is bool and text in ("0", "1"):
        return text == "1"
    if origin is Literal:
        return next((x for x in inner if str(x) == text), text)
    if origin is tuple:  # a span, a:b
        return tuple(_from_text(inner[0], part) for part in text.split(":")) if ":" in text else text
    if origin in (list, Sequence):
        return [_from_text(inner[0], part) for part in text.split(",") if part]
    return text


# ------------------------------------------------------------------------------------------------ JSON Schema


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON schema of a dataclass: types, allowed values, defaults and documentation of its fields.

    Source: JSON Schema, draft 2020-12. Fields without a type of JSON, such as functions, are left out.
    """
    properties, required = {}, []
    for field in dataclasses.fields(cls):
        schema = _type_schema(field_types(cls)[field.name])
        if schema is None:
            continue
        if field.default is field.default_factory is dataclasses.MISSING:
            required.append(field.name)
        elif field.default is not dataclasses.MISSING:
            schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
        properties[field.name] = schema
    description = (cls.__doc__ or "").strip().partition("\n")[0]
    return {
        "type": "object",
        "title": cls.__name__,
        "description": description,
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _type_schema(hint: Any) -> dict[str, Any] | None:
    """The JSON schema of a type; None = JSON has no such values."""
    hint = actual_type(hint)
    if get_origin(hint) is Annotated:
        schema = _type_schema(get_args(hint)[0])
        if schema is None:
            return None
        doc, allowed = metadata_of(hint, Doc), metadata_of(hint, Allowed)
        more = {} if allowed is None else allowed.schema
        return {**schema, **more, **({} if doc is None else {"description": doc.text})}
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if dataclasses.is_dataclass(hint):
        return json_schema(hint)  # type: ignore[arg-type]
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        schemas = [_type_schema(each) for each in inner]
        known = [schema for schema in schemas if schema is not None]
        return None if all(schema == {"type": "null"} for schema in known) else {"anyOf": known}
    if (name := _JSON_TYPES.get(hint) or _JSON_TYPES.get(origin)) is None:
        return None
    if name == "array" and inner:
        items = _type_schema(inner[0])
        return None if items is None else {"type": name, "items": items}
    return {"type": name}
