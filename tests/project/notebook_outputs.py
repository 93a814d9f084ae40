"""What the cells of a notebook show, as GitHub shows it too: text, tables and small drawings.

python tests/project/notebook_outputs.py NOTEBOOK      runs it, and stores them in it (make notebooks: all)

A page stays out (it needs a kernel, or a megabyte): its still is stored as image/svg+xml, with the words above it.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type

from glassformer.hub.find import resolve

STILL = re.compile(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
LARGEST = 100_000
"""Bytes of an output; a page of one has more, and is left out."""
SHOWN: list[dict[str, str]] = []
"""MIME type → content of what a cell shows, in order."""


class Collected(DisplayHook):
    """The value of a cell goes to `SHOWN`."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, str], md_dict: Any = None) -> None:
        SHOWN.append(format_dict)

    def finish_displayhook(self) -> None:
        pass


class Published(DisplayPublisher):
    """What a cell displays goes to `SHOWN`."""

    def publish(self, data: dict[str, str], metadata: Any = None, **others: Any) -> None:
        SHOWN.append(data)


class Shell(InteractiveShell):
    """A shell without a terminal, which takes itself for a notebook."""

    displayhook_class = Type(Collected)
    display_pub_class = Type(Published)
    kernel = object()


def run_cells(sources: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Run the cells of a notebook, in this process and its folder. Returns: the outputs of each."""
    shell, cells = Shell.instance(), []
    for number, source in enumerate(sources, 1):
        SHOWN.clear()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            done = shell.run_cell(source, store_history=True)
        if not done.success:
            sys.exit(f"cell {number} failed: {printed.getvalue()}")
        text = printed.getvalue()
        stream = [{"output_type": "stream", "name": "stdout", "text": text}] if text else []
        cells.append([*stream, *(each for data in SHOWN for each in stored(data))])
    return cells


def stored(data: dict[str, str]) -> list[dict[str, Any]]:
    """What is stored of an output: a still with the words above it, else a table, else text."""
    html, plain = data.get("text/html", ""), data.get("text/plain", "")
    if still := STILL.search(html):
        above = re.sub("^<div[^>]*>", "", html[: still.start()])
        words = [unescape(re.sub("<[^>]+>", "", x)).strip() for x in re.findall("<p>(.*?)</p>", above)]
        caption = {"text/plain": "\n".join(words) or plain, **({"text/html": above} if "<table" in above else {})}
        drawing = base64.b64decode(still[1]).decode()
        return [displayed(caption), displayed({"image/svg+xml": drawing, "text/plain": plain})]
    if "application/vnd.jupyter.widget-view+json" in data or " at 0x" in plain:
        return []
    html = re.sub(r' data-glassformer="\w+"', "", html)  # of the widget, which is not stored
    fits = 0 < len(html) < LARGEST and "<iframe" not in html
    return [displayed({"text/plain": plain, **({"text/html": html} if fits else {})})]


def displayed(data: dict[str, str]) -> dict[str, Any]:
    """An output of a notebook."""
    return {"output_type": "display_data", "data": data, "metadata": {}}


def link_minilm(folder: Path, model: Path) -> None:
    """Let the name that cells load be a folder, so that no output says where this machine has the model."""
    link = folder / "sentence-transformers" / "all-MiniLM-L6-v2"
    link.parent.mkdir()
    link.symlink_to(model)


def store(path: Path) -> None:
    """Run a notebook, and write what its cells show into it."""
    notebook = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        link_minilm(Path(folder), resolve("sentence-transformers/all-MiniLM-L6-v2"))
        outputs = run_cells(["".join(cell["source"]) for cell in code])
    for number, cell in enumerate(code, 1):
        cell["outputs"], cell["execution_count"] = outputs[number - 1], number
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    store(Path(sys.argv[1]).absolute())
