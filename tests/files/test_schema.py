"""Schemas: what dataclasses accept from Python, YAML, JSON and query strings, and their JSON schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict, Unpack

import jsonschema
import pytest

from glassformer.errors import ConfigError
from glassformer.files import json_value
from glassformer.files.schema import (
    Allowed,
    BelowOne,
    Doc,
    NonNegativeInt,
    Positive,
    Schema,
    Seed,
    at_least,
    convert,
    json_schema,
    keyword_types,
    parse,
    parse_query,
)


@dataclass(frozen=True)
class Inner:
    rate: float = 1.0
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    name: str
    count: int | None = None
    files: str | list[str] = "x"
    share: str | float | None = None
    inner: Inner = field(default_factory=Inner)
    free: dict[str, Any] = field(default_factory=dict)
    on: Annotated[bool, Doc("Whether it is on.")] = False


def test_values_of_all_types() -> None:
    read = parse(
        Outer,
        {
            "name": "n",
            "count": 3.0,
            "files": ["a", "b"],
            "share": 0.1,
            "inner": {"rate": "5e-5", "kind": "b"},
            "free": {"x": [1]},
            "on": True,
        },
    )
    assert read == Outer("n", 3, ["a", "b"], 0.1, Inner(5e-5, "b"), {"x": [1]}, True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'name' is missing"),
        ({"name": "n", "cuont": 1}, "'cuont' is no option; nearest: 'count'.*; allowed: name, count"),
        ({"name": "n", "rate": 1}, r"'rate' is no option; it may be inner\.rate; allowed: name"),
        ({"name": "n", "group": 1}, r"'group' is no option; allowed: name"),
        ({"name": 3}, "name is 3; it must be a text"),
        ({"name": "n", "count": 1.5}, "count is 1.5; it must be a whole number"),
        ({"name": "n", "count": True}, "count is True; it must be a whole number"),
        ({"name": "n", "on": "yes"}, "on is 'yes'; it must be true or false"),
        ({"name": "n", "files": [1]}, r"files\[0\] is 1; it must be a text"),
        ({"name": "n", "inner": {"kind": "c"}}, "inner.kind is 'c'; allowed: a, b"),
        ({"name": "n", "inner": {"rate": "fast"}}, "inner.rate is 'fast'; it must be a number"),
        ({"name": "n", "inner": 3}, "inner: expected names and values, got 3"),
        ([], r"expected names and values, got \[\]"),
        ({"name": "r\udcff.csv"}, r"name is 'r\\udcff.csv', which is not valid Unicode; if it names a file"),
    ],
)
def test_invalid_values_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(Outer, values)


def test_values_for_strict_json() -> None:
    assert json_value({"x": [float("nan"), 1, None], "y": (float("inf"),)}) == {
        "x": ["nan", 1, None],
        "y": ["inf"],
    }


class Sides(TypedDict, total=False):
    language: str | None


class Base:
    def __init__(self, model: object, *, size: int | None = None, **more: Unpack[Sides]) -> None: ...


class Derived(Base):
    def __init__(self, model: object, *, names: Sequence[str] = (), how: Mapping[str, Any] | None = None) -> None: ...


def test_the_error_of_several_types_names_them_all_or_the_one_that_is_deeper() -> None:
    for value, said in (
        ({"name": "n", "files": 5}, "files is 5; it must be a text, or a list"),
        ({"name": "n", "files": ["a", 5]}, r"files\[1\] is 5; it must be a text"),
    ):
        with pytest.raises(ConfigError, match=f"^{said}$"):
            parse(Outer, value)
    layers: Any = Annotated[int, at_least(1)] | list[int]
    with pytest.raises(ConfigError, match=r"^layers is 0; it must be a whole number from 1 up, or a list$"):
        convert(layers, 0, "layers")


def test_keywords_are_converted_by_their_annotations() -> None:
    hints = keyword_types(Derived)
    assert convert(hints["size"], 3.0, "size") == 3 and convert(hints["names"], ("a",), "names") == ["a"]
    assert convert(hints["how"], {"a": 1}, "how") == {"a": 1} and convert(hints["how"], None, "how") is None
    assert convert(hints["language"], "en", "language") == "en"
    for name, value, said in (
        ("size", "x", "task_options.size is 'x'; it must be a whole number"),
        ("size", 2.5, "task_options.size is 2.5"),
        ("names", "ab", "task_options.names is 'ab'; it must be a list"),
        ("names", [1], r"task_options.names\[0\] is 1; it must be a text"),
        ("how", [1], r"task_options.how is \[1\]; it must be names and values"),
        ("language", 5, "task_options.language is 5; it must be a text"),
    ):
        with pytest.raises(ConfigError, match=said):
            convert(hints[name], value, f"task_options.{name}")


Evenness = Annotated[int, Allowed("an even number", lambda n: n % 2 == 0, {"multipleOf": 2})]


@dataclass(frozen=True, kw_only=True)
class Request(Schema):
    """A request of each kind of field.

    More about it, which is no part of its description.
    """

    text: str
    count: Annotated[int, at_least(1, 9), Doc("Number of matches.")] = 3
    rate: Positive | None = None
    seed: Seed = 0
    even: Evenness = 0
    share: BelowOne = 0.5
    by: Literal["layer", "head"] = "layer"
    rows: tuple[int, int] = (0, 64)
    layers: Sequence[int] = (0,)
    more: bool = False
    size: Annotated[int | Sequence[NonNegativeInt], Allowed("a size, or several", lambda x: x != [])] = 1
    call: Callable[[int], int] | None = None

    def validate(self) -> None:
        if self.more and self.count == 1:
            raise ConfigError("more needs a count from 2 up")


REFUSED = [
    ({"count": 0}, "count is 0; it must be a whole number from 1 to 9"),
    ({"count": 10}, "count is 10; it must be"),
    ({"count": True}, "count is True; it must be a whole number from 1 to 9"),
    ({"count": None}, "count is None"),
    ({"rate": 0}, "rate is 0; it must be a number above 0"),
    ({"rate": math.inf}, "rate is inf"),
    ({"rate": math.nan}, "rate is nan"),
    ({"rate": 10**400}, "rate is 0x1b4"),
    ({"seed": -1}, "seed is -1; it must be a whole number from 0 to 4,294,967,295"),
    ({"even": 3}, "even is 3; it must be an even number"),
    ({"share": 1.0}, "share is 1.0; it must be a number from 0 up to, but not including, 1"),
    ({"by": "neuron"}, "by is 'neuron'; allowed: layer, head"),
    ({"by": []}, r"by is \[\]; allowed: layer, head"),
    ({"rows": (1, 2, 3)}, r"rows is \(1, 2, 3\); it must be a list"),
    ({"layers": "ab"}, "layers is 'ab'; it must be a list"),
    ({"size": []}, r"size is \[\]; it must be a size, or several"),
    ({"size": [-1]}, r"size is \[-1\]; it must be a size, or several"),
    ({"size": {}}, "size is {}; it must be a size, or several"),
    ({"call": 3}, "call is 3; it must be"),
    ({"more": True, "count": 1}, "more needs a count from 2 up"),
    ({"text": "x" * 100_000, "by": "y" * 4_000_000}, "by is 'y{50,2000}"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_allowed_is_refused_by_the_constructor_and_by_parse(values: dict[str, Any], message: str) -> None:
    for make in (lambda x: Request(**x), lambda x: parse(Request, x)):
        with pytest.raises(ConfigError, match=message) as error:
            make({"text": "a", **values})
        assert len(str(error.value)) < 2_500


def test_files_may_write_numbers_in_their_ways_and_python_may_not() -> None:
    read = parse(Request, {"text": "a", "count": 3.0, "rate": "5e-5", "layers": (1, 2.0)}, "part")
    assert read == Request(text="a", count=3, rate=5e-5, layers=[1, 2]) and type(read.count) is int
    assert Request(text="a", rate=1, size=[1, 2], call=abs).call is abs
    for values in ({"count": 3.0}, {"rate": "5e-5"}, {"layers": [2.0]}):
        with pytest.raises(ConfigError, match="must be"):
            Request(text="a", **values)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="more is 1; it must be True or False"):
        Request(text="a", more=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"part\.more is 1; it must be true or false"):
        parse(Request, {"text": "a", "more": 1}, "part")


def test_a_query_string() -> None:
    pairs = [("text", "3"), ("count", "5"), ("rows", "2:9"), ("layers", "1,2"), ("more", "1"), ("by", "head")]
    assert parse_query(Request, [*pairs, ("rate", "0.5"), ("size", "4")]) == Request(
        text="3", count=5, rows=(2, 9), layers=[1, 2], more=True, by="head", rate=0.5, size=4
    )
    for more, message in (
        ([("count", "0")], "count is 0; it must be a whole number from 1 to 9"),
        ([("count", "1e3")], "count is '1e3'; it must be a whole number from 1 to 9"),
        ([("count", "٣")], "count is '٣'; it must be"),
        ([("count", "9" * 5_000)], "count is '9+"),
        ([("rows", "2")], "rows is '2'; it must be a list"),
        ([("rows", "2:x")], r"rows\[1\] is 'x'; it must be a whole number"),
        ([("more", "yes")], "more is 'yes'; it must be true or false"),
        ([("cuont", "1")], "'cuont' is no option; nearest: 'count'"),
        ([("by", "head"), ("by", "head")], "duplicate parameter 'by'; give it once"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_query(Request, [("text", "a"), *more])
    with pytest.raises(ConfigError, match="'text' is missing"):
        parse_query(Request, [])


def test_the_json_schema_agrees_with_parse() -> None:
    schema = json_schema(Request)
    assert (schema["title"], schema["description"]) == ("Request", "A request of each kind of field.")
    assert schema["required"] == ["text"] and schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["count"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "description": "Number of matches.", "default": 3,
    }  # fmt: skip
    assert properties["rate"]["anyOf"] == [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]
    assert properties["by"] == {"enum": ["layer", "head"], "default": "layer"}
    assert properties["layers"] == {"type": "array", "items": {"type": "integer"}, "default": [0]}
    assert properties["even"]["multipleOf"] == 2 and "call" not in properties
    json.dumps(schema, allow_nan=False)
    validator = jsonschema.Draft202012Validator(schema)
    for values, _ in REFUSED:
        given = {"text": "a", **values}
        plain = not any(isinstance(x, float) and not math.isfinite(x) for x in given.values())
        # What depends on several fields, and lists of a length, are code.
        if plain and not {"more", "rows", "call", "size"} & values.keys() and values != {"rate": 10**400}:
            assert not validator.is_valid(given), values
    assert validator.is_valid({"text": "a", "count": 4, "rate": None, "layers": [1]})


def test_every_schema_of_the_package_has_a_json_schema_of_its_defaults() -> None:
    from glassformer.compression.adapters import AdapterSpec
    from glassformer.generation.options import GenerationOptions
    from glassformer.runs.config import RunConfig, TrainingOptions
    from glassformer.speech.options import TranscriptionOptions

    for cls in (AdapterSpec, GenerationOptions, RunConfig, TrainingOptions, TranscriptionOptions):
        schema = json_schema(cls)
        jsonschema.Draft202012Validator.check_schema(schema)
        text = json.dumps(schema, allow_nan=False)
        defaults = {name: x["default"] for name, x in schema["properties"].items() if "default" in x}
        if cls is not RunConfig:
            jsonschema.validate({k: v for k, v in defaults.items() if v is not None}, json.loads(text))
            parse(cls, defaults)


def test_a_value_that_is_nested_too_deeply_is_named_in_its_error() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ConfigError, match="x is a list that is nested too deeply; it must be a whole"):
        convert(int | str, value, "x", strict=True)
    assert convert(list[Any] | str, value, "x", strict=True) is not None
