"""Pictures of the docs: each is shown, and those that a command makes are of that command's texts, size and numbers."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import glassformer

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SHOWN = re.compile(r"!\[(?P<caption>[^\]]+)\]\((?P<file>[^)#\s]+\.(?:png|svg|webp))\)")


@pytest.fixture(scope="module")
def drawn() -> Any:
    """The commands that make the explorer's pictures: `benchmarks/pictures.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module("pictures")


def test_every_picture_is_shown_and_every_shown_one_is_there() -> None:
    shown = {(page.parent / match["file"]).resolve() for page in PAGES for match in SHOWN.finditer(page.read_text())}
    there = {path.resolve() for path in DOCS.rglob("*") if path.suffix in (".png", ".svg", ".webp")}
    assert shown == there


def test_pictures_have_the_size_at_which_their_commands_draw_them(drawn: Any) -> None:
    for name, picture in drawn.PICTURES.items():
        with Image.open(DOCS / f"explorer-{name}.png") as image:
            assert image.size == (picture.width, picture.height), name


def test_the_similarity_that_the_docs_show_is_that_of_their_texts(drawn: Any, minilm: Path) -> None:
    texts = shlex.split(drawn.INSTRUMENTS)
    model = glassformer.load(minilm)
    written = f"{float(model.similarity(*model.encode(texts)[:, None])):.2f}"
    guide, caption = ((DOCS / page).read_text("utf-8") for page in ("guide.md", "explorer.md"))
    assert f"*{texts[0]}* and *{texts[1]}* have a similarity of {written}" in guide
    assert f"a cosine of {written}; below" in caption
