"""Examples by a function: the second run finds them; another function, argument or row does not.

A digest covers every value, and of a function all that it refers to.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import ConfigError, DataError
from glassformer.data.mapping import digest_of, map_rows
from glassformer.data.rows import read_rows

ROWS = [{"text": "ab" * number} for number in range(1, 26)]


def bytes_of(some: list[dict[str, Any]], *, shift: int = 0) -> list[dict[str, Any]]:
    return [{"input_ids": [byte + shift for byte in row["text"].encode()]} for row in some]


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    calls: list[int] = []

    def count(some: list[dict[str, Any]]) -> Any:
        calls.append(len(some))
        return function(some)

    return count, calls


def test_batches() -> None:
    function, calls = counted(bytes_of)
    store = map_rows(read_rows(ROWS), function, batch=10)
    assert calls == [10, 10, 5]
    assert [bytes(example["input_ids"].tolist()).decode() for example in store] == [row["text"] for row in ROWS]
    for batch in (0, "10", 2.5):
        with pytest.raises(ConfigError, match=f"batch is {batch!r}; it must be a whole number"):
            map_rows(read_rows(ROWS), bytes_of, batch=batch)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([1], "example 0 is 1, a number; an example is a dict"),
        (["text"], "example 0 is 'text'"),
        ({"input_ids": [1]}, r"the function makes {'input_ids': \[1\]} of a batch of 25 rows; it must return a list"),
        (None, "the function makes None of a batch"),
        (3, "the function makes 3 of a batch"),
        ("text", "the function makes 'text' of a batch"),
    ],
)
def test_what_a_function_makes_is_a_list_of_examples(tmp_path: Path, made: Any, message: str) -> None:
    for cache in (None, tmp_path):
        with pytest.raises(DataError, match=message):
            map_rows(read_rows(ROWS), lambda some: made, cache=cache, key="made")
    assert not list(tmp_path.iterdir())


def test_the_second_run_uses_the_cache(tmp_path: Path) -> None:
    rows = read_rows(ROWS)
    function, calls = counted(bytes_of)
    first = map_rows(rows, function, cache=tmp_path, key="bytes")
    again = map_rows(read_rows(ROWS), function, cache=tmp_path, key="bytes")
    assert calls == [25] and again.fingerprint == first.fingerprint
    map_rows(rows, function, cache=tmp_path, key="other")
    map_rows(rows[1:], function, cache=tmp_path, key="bytes")
    map_rows(rows, function, cache=tmp_path, key="bytes", batch=5)
    assert calls == [25, 25, 24, 5, 5, 5, 5, 5]


def test_without_a_key_the_function_and_its_arguments_are_looked_at(tmp_path: Path) -> None:
    rows = read_rows(ROWS)
    for shift in (0, 1, 1, 0):
        store = map_rows(rows, partial(bytes_of, shift=shift), cache=tmp_path)
        assert store[0]["input_ids"].tolist() == [97 + shift, 98 + shift]
    assert len(list(tmp_path.iterdir())) == 2
    tokenizer = object()
    with pytest.raises(ConfigError, match=r"a object does not show what it holds.* give key="):
        map_rows(rows, lambda some: [{"a": id(tokenizer)}], cache=tmp_path)
    assert len(map_rows(rows, lambda some: [{"a": id(tokenizer)}])) == 1


@dataclass(frozen=True)
class Settings:
    size: int
    name: str = "a"


def made(source: str) -> Any:
    """The function `f` of a module of its own."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names["f"]


DIFFERENT: list[Any] = [
    *(
        None,
        0,
        1,
        1.0,
        "1",
        b"1",
        True,
        "",
        [],
        (),
        {},
        [1, 2],
        [2, 1],
        [[1], 2],
        ["a", "b"],
        ["ab"],
        Path("1"),
    ),
    *(
        {"a": 1},
        {"a": 2},
        {1, 2},
        {1, 3},
        np.array([1, 2]),
        np.array([[1, 2]]),
        np.array([1, 2], np.int32),
        np.int64(1),
    ),
    *(Settings(1), Settings(2), Settings(1, "b"), np, len, sum, int),
    made("def f(x): return x + 1"),
    made("def f(x): return x + 2"),
    made("def f(x): return x.lower()"),
    made("def f(x): return x.upper()"),
    made("def f(x, y=1): return x + y"),
    made("def f(x, y=2): return x + y"),
    made("def f(x, *, y=2): return x + y"),
    made("def g(x): return x\ndef f(x): return g(x)"),
    made("def g(x): return -x\ndef f(x): return g(x)"),
    made("def g(x): return -x\ndef f(x): return [g(y) for y in x]"),
    made("def g(x): return x\ndef f(x): return [g(y) for y in x]"),
    made("size = 1\ndef f(x): return x + size"),
    made("size = 2\ndef f(x): return x + size"),
    made("def outer(y):\n def f(x): return x + y\n return f\nf = outer(1)"),
    made("def outer(y):\n def f(x): return x + y\n return f\nf = outer(2)"),
]


def test_different_things_have_different_digests() -> None:
    digests = [digest_of(thing) for thing in DIFFERENT]
    assert len(set(digests)) == len(DIFFERENT)
    assert digest_of(1, 2) != digest_of([1, 2]) != digest_of([[1, 2]])
    assert digests == [digest_of(thing) for thing in DIFFERENT]


def test_where_a_function_stands_is_no_part_of_it() -> None:
    assert digest_of(made("def f(x): return x + 1")) == digest_of(made("\n\n# words\ndef f(x):\n  return x + 1"))
    looped = made("def f(x): return f(x - 1) if x else 0")
    assert digest_of(looped) == digest_of(made("def f(x): return f(x - 1) if x else 0"))


def test_a_process_of_another_hash_seed_agrees() -> None:
    code = "from glassformer.data.mapping import digest_of; print(digest_of({'b', 'a'}, {'x': (1, len)}))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**environ(), "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {digest_of({"b", "a"}, {"x": (1, len)})}


def environ() -> dict[str, str]:
    import os

    return dict(os.environ)


def test_what_does_not_show_its_content() -> None:
    for thing in (object(), [object()], lambda x: HIDDEN):
        with pytest.raises(ConfigError, match="does not show what it holds"):
            digest_of(thing)


HIDDEN = object()


@pytest.mark.parametrize("use", ["helper.double", "Helper.double", "helper.Helper.double"])
def test_an_edit_of_a_module_or_a_class_that_a_function_reaches_is_another_function(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = """
        import deeper

        def double(x):
            return deeper.times(x)

        class Helper:
            @staticmethod
            def double(x):
                return deeper.times(x)
    """
    digests = []
    for helper, factor in ((text, 2), (text, 3), (text.replace("times(x)", "times(x) + 1"), 3), (text, 2)):
        (tmp_path / "helper.py").write_text(textwrap.dedent(helper))
        (tmp_path / "deeper.py").write_text(f"def times(x):\n    return {factor} * x\n")
        for name in ("helper", "deeper"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        scope: dict[str, object] = {}
        exec(f"import helper\nfrom helper import Helper\ndef function(rows):\n    return {use}(rows)", scope)
        digests.append(digest_of(scope["function"]))
    assert len(set(digests)) == 3 and digests[0] == digests[3]


@pytest.mark.parametrize("reached", ["from deeper import times", "from deeper import FACTOR", "from pack import times"])
@pytest.mark.parametrize("inside", [False, True], ids=["above", "inside"])
def test_what_a_module_or_a_function_imports_by_name_counts(
    reached: str, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = reached.rpartition(" ")[2]
    above, within = ("pass", reached) if inside else (reached, "pass")
    (tmp_path / "helper.py").write_text(f"{above}\ndef use():\n    {within}\n    return {name}\n")
    (tmp_path / "pack").mkdir()
    digests = []
    for factor in (2, 3, 2):
        source = f"FACTOR = {factor}\ndef times(x):\n    return {factor} * x\n"
        (tmp_path / "deeper.py").write_text(source)
        (tmp_path / "pack" / "inner.py").write_text(source)
        (tmp_path / "pack" / "__init__.py").write_text("from .inner import times\n")
        for module in ("helper", "deeper", "pack", "pack.inner"):
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        scope: dict[str, object] = {}
        exec("import helper\ndef function(rows):\n    return helper.use()", scope)
        exec(f"def direct(rows):\n    {reached}\n    return {name}", scope)
        digests.append((digest_of(scope["function"]), digest_of(scope["direct"])))
    assert digests[0] == digests[2] and not set(digests[0]) & set(digests[1])


def test_a_long_chain_of_modules_and_one_that_was_broken_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    length = 350
    for number in range(length):
        after = f"import link{number + 1}" if number + 1 < length else "LAST = 1"
        (tmp_path / f"link{number}.py").write_text(f"def f():\n    {after}\n" if number else "import link1\n")
    importlib.invalidate_caches()

    def function(rows: Any) -> Any:
        import link0  # type: ignore[import-not-found] # the digest finds it without an import

        return link0

    before = digest_of(function)
    (tmp_path / f"link{length - 1}.py").write_text("def f(:\n")
    assert digest_of(function) != before


def test_a_module_of_many_names_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python writes an extra step in front of those that use a name or constant beyond number 255."""
    names = "".join(f"name_{number} = {number}.5\n" for number in range(300))
    (tmp_path / "many_names.py").write_text(
        f"{names}from many_names_inner import FACTOR\ndef f(x): return FACTOR * x\n"
    )
    inner = tmp_path / "many_names_inner.py"
    digests = []
    for factor in (2, 3):
        inner.write_text(f"FACTOR = {factor}\n")
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import many_names\n"
        code += "from glassformer.data.mapping import digest_of; print(digest_of(many_names))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        digests.append(done.stdout)
    assert digests[0] != digests[1]
