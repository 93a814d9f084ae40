"""Markdown: sections, front matter, and what only looks like a heading."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from glassformer.errors import DataError
from glassformer.retrieval.formats.markdown import markdown_document

PAGE = """---
title: Orchard
author: Ann
tags: [fruit, trees]
year: 2024
draft: false
---
Before any heading.

# Apples

They are *green*.

## Storage of `Gala` and **[Fuji](fuji.md)**

```sh
# no heading
```

Pears
-----

> # quoted, no section

# Last #
end"""


BILLION = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefgh")
)


def test_parts_are_sections_below_their_headings() -> None:
    document = markdown_document(PAGE)
    assert document.text == PAGE and document.verbatim
    storage = "Storage of Gala and Fuji"
    assert [(part.headings, part.line) for part in document.parts] == [
        ((), 8), (("Apples",), 10), (("Apples", storage), 14), (("Apples", "Pears"), 20), (("Last",), 25)
    ]  # fmt: skip
    lines = PAGE.split("\n")
    for part, end in document.spans():
        text = PAGE[part.start : end]
        assert text.strip() and text.lstrip("\n").split("\n")[0] in lines[part.line - 1 : part.line + 1]
    assert "# no heading" in PAGE[document.parts[2].start : document.parts[3].start]


def test_front_matter_is_metadata_and_no_text() -> None:
    document = markdown_document(PAGE)
    assert document.title == "Orchard"
    assert document.metadata == {"author": "Ann", "tags": "fruit, trees", "year": 2024, "draft": False}
    assert PAGE[document.parts[0].start :].lstrip().startswith("Before")


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        (BILLION, "values"),
        ("a: !!python/object/apply:os.system [ls]\n", "constructor"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("a: [\n", "invalid YAML"),
        ("a: " + "[" * 5_000 + "\n", "levels deep"),
    ],
)  # fmt: skip
def test_hostile_front_matter_is_read_as_text_with_a_note(front: str, reason: str) -> None:
    start = time.process_time()
    document = markdown_document(f"---\n{front}---\n# Title\n\nText.\n")
    assert time.process_time() - start < 5
    assert document.metadata == {} and document.title == "Title"
    assert document.parts[0].start == 0 and len(document.notes) == 1
    assert reason in document.notes[0] and "read as text" in document.notes[0]


@pytest.mark.parametrize(
    "text", ["---\n\nA rule, then text.\n\n---\nEnd", "----\na: 1\n---\n", "# A\n---\na: 1\n---\n"]
)
def test_a_rule_is_no_front_matter(text: str) -> None:
    document = markdown_document(text)
    assert document.metadata == {} and document.parts[0].start == 0 and not document.notes


def test_text_without_headings_is_one_part_and_blank_text_none() -> None:
    (part,) = markdown_document("Only text.\n\nAnd more.").parts
    assert part == (0, (), 1, {})
    for blank in ("", " \n\t\n"):
        with pytest.raises(DataError, match="it holds no text"):
            markdown_document(blank)


def test_a_heading_without_text_is_of_the_section_below_it() -> None:
    document = markdown_document("# One\n\n## Two\n\n### Three\n\ntext\n\n## Four\n\n## Five\n\ntext\n\n# Six\n")
    assert [(part.headings, part.line) for part in document.parts] == [
        (("One", "Two", "Three"), 1), (("One", "Four"), 9), (("One", "Five"), 11), (("Six",), 15)
    ]  # fmt: skip
    assert document.parts[0].start == 0


def test_windows_line_ends_count_lines_too() -> None:
    text = "# A\r\n\r\ntext\r\n\r\n# B\r\n\r\nmore\r\n"
    document = markdown_document(text)
    assert [(part.headings, part.line) for part in document.parts] == [(("A",), 1), (("B",), 5)]
    assert text[document.parts[1].start :].startswith("# B")


def test_headings_of_a_very_long_file_end_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.retrieval.formats.markdown.MAX_PARSED", 1_000)
    text = "".join(f"# Heading {n}\n\ntext\n\n" for n in range(200))
    document = markdown_document(text)
    assert 20 < len(document.parts) < 60 and document.text == text
    assert document.notes == ("headings after the first 1,000 characters were not looked for",)


def test_a_heading_of_any_length_takes_no_time() -> None:
    start = time.process_time()
    document = markdown_document(f"# {'[' * 200_000}\n\n{'> ' * 5_000}text\n\n{'- ' * 5_000}text\n")
    assert time.process_time() - start < 5
    assert document.parts[0].headings == ("[" * 300,)
