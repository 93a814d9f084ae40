"""Source code: parts of declarations, with the comments above them."""

from __future__ import annotations

import inspect

import pytest

from glassformer.retrieval import bm25 as sample
from glassformer.retrieval.formats.code import code_document

PYTHON = '''"""Module."""
import os

# The tower of the town.
@decorator
class Tower:
    """Iron."""
    height = 3

    def grow(self):
        def inner():
            pass
        return 4

    @property
    def low(self): return 1

LIMIT = 3
async def main(): pass
'''


def test_python_has_a_part_for_each_class_function_and_method() -> None:
    document = code_document(PYTHON, python=True)
    assert document.text == PYTHON and document.verbatim
    assert [(part.headings, part.line) for part in document.parts] == [
        ((), 1), (("Tower",), 4), (("Tower", "grow"), 10), (("Tower", "low"), 15), ((), 18), (("main",), 19)
    ]  # fmt: skip
    texts = [PYTHON[part.start : end] for part, end in document.spans()]
    assert "".join(texts) == PYTHON
    assert texts[1].startswith("# The tower") and "def inner" in texts[2] and texts[4] == "LIMIT = 3\n"


def test_a_real_module_is_cut_at_its_declarations() -> None:
    text = inspect.getsource(sample)
    headings = [part.headings for part in code_document(text, python=True).parts]
    names = ("inverse_frequency", "term_weights", "frequent_score", "telling", "scores_by_term")
    assert headings == [(), *((name,) for name in names)]


@pytest.mark.parametrize(
    "text", ["def broken(:\n    pass\n", "print 'two'\ndef old(): pass\n", "\0def a(): pass", "x\ry"]
)
def test_what_is_no_python_of_today_is_cut_by_its_key_words(text: str) -> None:
    assert "".join(text[part.start : end] for part, end in code_document(text, python=True).spans()) == text


def test_deeply_nested_python_is_no_crash() -> None:
    text = "x = " + "(" * 50_000 + ")" * 50_000
    assert code_document(text, python=True).text == text


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("import x\n\n/** Doc. */\nexport async function go(a) {\n}\nexport default class Tower {\n  grow() {}\n}\n",
         [(), ("go",), ("Tower",)]),
        ("package main\n\nfunc (t *Tower) Grow() int {\n}\n\ntype Tower struct {\n}\n", [("main",), ("Grow",)]),
        ("use std;\n\n/// Doc.\npub(crate) struct Tower {\n}\nimpl Tower {\n    pub fn grow(&self) {}\n}\n",
         [(), ("Tower",), ("Tower",), ("Tower", "grow")]),
        ("class Tower\n  def grow\n  end\nend\n", [("Tower",), ("Tower", "grow")]),
    ],
)  # fmt: skip
def test_declarations_of_other_languages(text: str, headings: list[tuple[str, ...]]) -> None:
    document = code_document(text)
    assert "".join(text[part.start : end] for part, end in document.spans()) == text
    assert [part.headings for part in document.parts] == headings


def test_comments_and_attributes_above_belong_to_a_declaration() -> None:
    text = "use std;\n\n/// Doc.\n#[derive(Debug)]\nstruct Tower {\n}\n"
    document = code_document(text)
    assert text[document.parts[1].start :].startswith("/// Doc.") and document.parts[1].line == 3
