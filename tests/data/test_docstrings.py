from __future__ import annotations

import ast
from pathlib import Path

import pytest

from glassformer.data.docstrings import docstring_pairs, docstring_rows
from glassformer.errors import DataError

ROOT = Path(__file__).parents[2]

SOURCE = '''
"""A module's own is nobody's code."""

import math

class Circle:
    """Round."""

    @property
    def area(self):  # of the inside
        """The area of a circle.

        Returns: in squares.
        """
        # π r²
        text = """kept
        as it stands
as it is"""
        return math.pi * self.r ** 2

def says_nothing():
    return 1

def does_nothing():
    """Later."""

def at_once(): "ß in one line."; return 1

async def outer(x):
    """Outside."""
    if x:
        def inner():
            r"""Inside \\d."""
            return x
    return inner
'''


def test_functions_methods_and_what_lies_within() -> None:
    rows = list(docstring_pairs(SOURCE, "circle.py"))
    assert [row["name"] for row in rows] == ["Circle.area", "at_once", "outer", "outer.inner"]
    area, at_once, outer, inner = rows
    assert area["docstring"] == "The area of a circle.\n\nReturns: in squares."
    assert area["code"].splitlines() == [
        "@property",
        "def area(self):  # of the inside",
        "    # π r²",
        '    text = """kept',
        "        as it stands",
        'as it is"""',
        "    return math.pi * self.r ** 2",
    ]
    assert area["where"] == "circle.py: line 10"
    assert at_once["code"] == "def at_once(): return 1\n"
    assert inner == {
        "docstring": "Inside \\d.",
        "code": "def inner():\n    return x\n",
        "name": "outer.inner",
        "where": "circle.py: line 32",
    }
    assert '"""Inside' in outer["code"] and "Outside" not in outer["code"]


def test_code_is_the_function_without_its_docstring() -> None:
    """On our own source: what is left parses to the same tree."""
    count = 0
    for path in sorted((ROOT / "src" / "glassformer" / "text").glob("*.py")):
        source = path.read_text("utf-8")
        functions = {
            node.lineno: node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        for row in docstring_pairs(source):
            node = functions[int(row["where"].rpartition(" ")[2])]
            docstring, node.body = ast.get_docstring(node), node.body[1:]
            assert ast.dump(ast.parse(row["code"]).body[0]) == ast.dump(node), row["where"]
            node.body = [ast.Expr(ast.Constant(docstring)), *node.body]  # for what lies around it
            count += 1
    assert count > 50


def test_folders_and_encodings(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.py").write_bytes('# coding: latin-1\ndef f():\n    "größer"\n    return 1\n'.encode("latin-1"))
    (tmp_path / "a.py").write_bytes(b'def g():\r\n    """G."""\r\n    return 2\r\n')
    rows = list(docstring_rows([tmp_path]))
    assert [row["docstring"] for row in rows] == ["G.", "größer"]
    assert rows[0]["code"] == "def g():\n    return 2\n"
    assert rows[1]["where"] == f"{tmp_path / 'b' / 'x.py'}: line 2"
    assert list(docstring_rows(tmp_path)) == list(docstring_rows(str(tmp_path))) == rows, (
        "of one folder, not its letters"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"def f(:\n", "line 1: is not valid Python"),
        (b"x = 1\n\0", "is not valid Python"),
        (b"\xff\xfe\xfd", "cannot be read as Python"),
    ],
)
def test_what_is_no_python_is_reported_and_left_out(tmp_path: Path, content: bytes, message: str) -> None:
    for number in range(6):
        (tmp_path / f"bad{number}.py").write_bytes(content)
    (tmp_path / "good.py").write_text('def g():\n    """G."""\n    return 2\n')
    with pytest.warns(UserWarning) as warned:
        rows = list(docstring_rows([tmp_path]))
    assert [row["docstring"] for row in rows] == ["G."]
    first, *_, last = (str(warning.message) for warning in warned)
    assert message in first and str(tmp_path / "bad0.py") in first and len(warned) == 6
    assert last == "6 of 7 files are not valid Python and were left out"
    with pytest.warns(UserWarning) as warned:
        assert not list(docstring_rows([tmp_path / "bad1.py"]))
    assert str(warned[-1].message).startswith("1 of 1 files") and "None" not in str(warned[0].message)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.py: cannot be read as Python: .*No such file"):
        list(docstring_rows([tmp_path / "none.py"]))
