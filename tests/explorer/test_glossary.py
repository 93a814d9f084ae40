"""Words that the page explains: one text for the page and the docs, and none that nobody shows."""

from __future__ import annotations

import re
from pathlib import Path

from glassformer.explorer.glossary import GLOSSARY
from glassformer.explorer.lesson import SHIPPED

ROOT = Path(__file__).parents[2]


def test_the_docs_say_the_same() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("## Words on the page")[2]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", page, re.MULTILINE))
    assert {word: rows.get(word) for word in GLOSSARY} == GLOSSARY


def test_every_word_stands_somewhere_and_every_term_is_known() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "web" / "src").rglob("*.tsx"))
    shown = set(re.findall(r'<Term of="([^"]+)"', sources))
    emphasised = set(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", (SHIPPED / "tour.json").read_text("utf-8")))
    assert shown and shown <= GLOSSARY.keys()
    assert GLOSSARY.keys() <= shown | emphasised
