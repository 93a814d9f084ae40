"""YAML that anyone may have written: bounded in time, in memory, and in what its errors quote."""

from __future__ import annotations

import time
from typing import Any

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.files.yaml_text import MAX_BYTES, MAX_DEPTH, MAX_VALUES, parse_yaml


def aliases(levels: int, times: int) -> str:
    """A value of `times ** levels` values, each level a list of the one before."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * times)}]" for n in range(levels)]
    return "\n".join(lines)


def merges(levels: int) -> str:
    return "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, levels))]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (aliases(9, 10), "more than 50,000 values, with aliases written out; .* \\(at line 5"),
        (merges(9), "more than 50,000 values"),
        (aliases(300, 1), "more than 100 levels deep, with aliases"),
        ("a: " + "[" * 2_000, "more than 100 levels deep"),
        ("a: " + "{" * 2_000, "more than 100 levels deep"),
        ("- " * 2_000, "more than 100 levels deep"),
        ("? " * 2_000, "more than 100 levels deep"),
        ("a: &a [*a]", r"the alias 'a' is within the value that it refers to \(at line 1, column 8\)"),
        ("a: &a {<<: *a}", "the alias 'a' is within"),
        ("a: " + "9" * 5_000, r"'9+… \(5002 characters\) is too long for 'int'; a text needs quotes"),
        ("a: 1" + ":1" * 20_000, "is too long for 'int'"),
        ("a: 1" + ":1" * 20_000 + ".5", "is too long for 'float'"),
        ("a: 2024-13-45", "'2024-13-45' cannot be read as 'timestamp'"),
        ("a: !!int x", "'x' cannot be read as 'int'"),
        ("a: !!bool x", "'x' cannot be read as 'bool'"),
        ("a: !!timestamp x", "'x' cannot be read as 'timestamp'"),
        (r'a: "\ud800"', "cannot be read as a text"),
        (r'a: "\UFFFFFFFF"', "invalid YAML"),
        ("%YAML " + "1" * 5_000 + ".1\n---\na: 1", "invalid YAML"),
        ("a: *" + "b" * 50_000, "undefined alias"),
        ("a: !" + "b" * 50_000 + " x", "could not determine a constructor"),
        ("? " + "b" * 50_000 + "\n: 1\n? " + "b" * 50_000 + "\n: 1\n", "duplicate key"),
        ("{[a]: b}", "unhashable key"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("x" * (MAX_BYTES + 1), "has 1000001 bytes"),
    ],
)
def test_what_is_refused_at_once_and_in_a_few_words(text: str, message: str) -> None:
    start = time.process_time()
    with pytest.raises(ConfigError, match=message) as caught:
        parse_yaml(text, "run.yaml")
    assert time.process_time() - start < 2
    assert str(caught.value).startswith("run.yaml: ") and len(str(caught.value)) < 700


def test_bytes_that_are_no_text_are_an_error_of_the_class_that_is_asked_for() -> None:
    for data in (b"a: \xff", b"a: \x00"):
        with pytest.raises(DataError, match=r"f: invalid YAML: unacceptable character"):
            parse_yaml(data, "f", DataError)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: &a [1, 2]\nb: [*a, *a]", {"a": [1, 2], "b": [[1, 2], [1, 2]]}),
        ("base: &base {a: 1, b: 2}\none: {<<: *base, b: 3}", {"base": {"a": 1, "b": 2}, "one": {"a": 1, "b": 3}}),
        ("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), None),
        ("a: '2024-13-45'\nb: 1e-4\nc: 99999999999999999999", {"a": "2024-13-45", "b": "1e-4", "c": 10**20 - 1}),
    ],
)
def test_what_is_read(text: str, value: Any) -> None:
    found = parse_yaml(text, "f")
    if text.startswith("["):
        for _ in range(MAX_DEPTH - 2):
            [found] = found
        value = []
    assert found == value


def test_aliases_are_counted_as_if_they_were_written_out() -> None:
    most = (MAX_VALUES - 6) // 2  # a mapping, two keys, the list of each, and one value behind the alias
    text = "a: &a [" + "1, " * (most // 10) + "]\nb: ["
    assert len(parse_yaml(text + "*a, " * 8 + "]", "f")["b"]) == 8
    with pytest.raises(ConfigError, match="more than 50,000 values"):
        parse_yaml(text + "*a, " * 20 + "]", "f")
