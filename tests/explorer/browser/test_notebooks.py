"""The page in real notebooks: JupyterLab and marimo, in a browser, with a kernel."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from glassformer.runs.folder import EventLog, event_log_path
from tests.evaluation.judged_run import classified, write_run
from tests.tasks.transcribe.tones import RATE_HZ, spoken, whisper_folder

pytestmark = pytest.mark.clients
LOAD = "import glassformer\nmodel = glassformer.load('package:glassformer/checkpoints/shakespeare')"
LOOK = "model.look('ROMEO: my love', view='neuron', layer=1, heads=[0])"
TOKEN = "that-of-the-tests"
SECONDS = 180
"""On a busy machine JupyterLab takes a minute to open."""
SLOW = "[anywidget] Failed to initialize model."
"""What anywidget says where a machine takes more than two seconds to begin; it goes on all the same."""
GONE = ("widget model not found", "Comm not found for comm id")
"""What JupyterLab says of a widget whose kernel has ended."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of notebooks, with a run and a recording."""
    made = tmp_path_factory.mktemp("notebooks")
    records = classified()
    rows = [{"text": record.row["text"], "label": record.label} for record in records]
    with EventLog(event_log_path(write_run(made / "mood", "classify", rows, records, ["anger", "joy", "love"]))) as log:
        log.write("begin", steps=10, options={})
        log.write("end", steps=10)
    whisper_folder(made / "whisper")
    soundfile.write(made / "tones.wav", np.concatenate([spoken("ab", np.random.default_rng(0))] * 6), RATE_HZ)
    return made


PAGES = {
    "from glassformer.evaluation.runs import open_run\nopen_run('mood/run')": "most frequent",
    "from glassformer.inspect.embeddings.embedding_map import EmbeddingMap\n"
    "from glassformer.inspect.embeddings.occurrences import embed_words\n"
    "EmbeddingMap.of(embed_words(model, ['my love', 'love me', 'no love'], 'love'))": "layer 3 (output), by PCA",
    "from glassformer.speech.options import TranscriptionOptions\n"
    "from glassformer.speech.transcription_trace import TranscriptionTrace\n"
    "TranscriptionTrace(glassformer.load('whisper'), 'tones.wav', "
    "TranscriptionOptions(num_beams=1, temperature=0.0, word_timestamps=True))": "tones.wav",
    "model.look(lesson='generation')": "The next token",
}
"""The end of a cell, and words of the page that it shows: a run, a map, a transcript, a lesson."""


@pytest.fixture(scope="module")
def program(folder: Path) -> Iterator[Callable[..., str]]:
    """Starts a program that serves on the port that it is given; gives its address once it answers."""
    running: list[subprocess.Popen[bytes]] = []
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    environment = {**os.environ, **{name: str(folder / ".jupyter" / name) for name in names}}

    def start(*words: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", *words, f"--port={port}"]
        with (folder / "log").open("wb") as log:
            running.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                return f"http://127.0.0.1:{port}"
            except urllib.error.HTTPError:
                return f"http://127.0.0.1:{port}"  # it answers, and wants a token
            except OSError:
                time.sleep(0.3)
        pytest.fail((folder / "log").read_text()[-3000:])

    yield start
    for each in running:
        each.terminate()
        each.wait(30)


class Notebook:
    """A tab with a notebook of JupyterLab."""

    def __init__(self, page: Any, address: str, name: str) -> None:
        self.page = page
        page.goto(f"{address}/lab/tree/{name}?token={TOKEN}&reset")
        page.get_by_text("| Idle").wait_for()

    def run(self, cells: int) -> None:
        """Run the first cells."""
        self.select(0)
        for _ in range(cells):
            self.page.keyboard.press("Shift+Enter")

    def select(self, cell: int) -> None:
        self.page.locator(".jp-Notebook .jp-Cell").nth(cell).click(position={"x": 20, "y": 10})
        self.page.keyboard.press("Escape")

    def saved(self, file: Path, has: str) -> str:
        """The file, once it is saved with these words."""
        self.select(0)
        self.page.keyboard.press("Control+s")
        until = time.monotonic() + SECONDS
        while has not in (text := file.read_text()) and time.monotonic() < until:
            self.page.wait_for_timeout(200)
        assert has in text
        return text


@pytest.fixture(scope="module")
def lab(program: Callable[..., str], folder: Path) -> Callable[..., tuple[str, str]]:
    """lab(name, *cells) → the address of JupyterLab, and a notebook of these cells there."""
    quiet = [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None"]
    address = program("jupyterlab", "--no-browser", "--allow-root", *quiet)

    def write(name: str, *sources: str) -> tuple[str, str]:
        empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        cells = [{**empty, "id": str(i), "source": source} for i, source in enumerate(sources)]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        text = json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
        (folder / name).write_text(text)
        return address, name

    return write


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[[], Any]]:
    """Opens tabs; complains at the end of what their consoles have."""
    context = chromium.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(SECONDS * 1000)
    errors: list[str] = []

    def note(text: str) -> None:
        if not any(known in text for known in (SLOW, *GONE)):
            errors.append(text)

    context.on("weberror", lambda error: note(str(error.error)))
    context.on("console", lambda message: message.type == "error" and note(message.text))
    yield context.new_page
    context.close()
    assert not errors


def change_text(page: Any) -> None:
    """Another text in the cell gives its tokens."""
    frame = page.locator("iframe[title=glassformer]").first.content_frame
    field = frame.locator("textarea").first
    field.fill("JULIET: good night")
    field.press("Enter")
    frame.locator("#view").get_by_text("night").first.wait_for()


def nbconvert(path: Path) -> str:
    """The notebook as nbviewer shows it."""
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--stdout", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def test_in_jupyterlab(lab: Callable[..., Any], tab: Callable[[], Any], folder: Path) -> None:
    address = lab("look.ipynb", LOAD, LOOK, "import os\nos._exit(1)")
    first = Notebook(tab(), *address)
    first.run(2)
    change_text(first.page)
    saved = first.saved(folder / "look.ipynb", "widget-view")
    assert len(saved) < 20_000 and "Attention of self layer 1 head 0" in saved and "data:image/svg+xml" in saved
    assert "#token=" not in saved
    viewed = nbconvert(folder / "look.ipynb")
    assert (
        viewed.count('<img alt="Attention of self layer 1 head 0') == 1 and 'src="data:image/svg+xml;base64' in viewed
    )

    second = Notebook(tab(), *address)  # of the same kernel
    change_text(second.page)
    second.page.close()

    first.page.bring_to_front()
    first.select(2)
    first.page.keyboard.press("Shift+Enter")  # the kernel dies
    first.page.get_by_role("dialog").get_by_role("button", name="OK").click()
    field = first.page.frame_locator("iframe[title=glassformer]").locator("textarea").first
    field.fill("MERCUTIO: a plague")
    field.press("Enter")
    first.page.get_by_text("The kernel of this page has ended or was restarted: run this cell again.").wait_for()

    reader = Notebook(tab(), *address)  # without the kernel that made it
    still = reader.page.get_by_alt_text("Attention of self layer 1 head 0")
    assert still.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
    reader.page.get_by_text("Run the cell for the page").wait_for()


def test_pages_in_jupyterlab(lab: Callable[..., Any], tab: Callable[[], Any], folder: Path) -> None:
    notebook = Notebook(tab(), *lab("pages.ipynb", LOAD, *PAGES))
    notebook.run(1)
    for number, words in enumerate(PAGES.values(), 1):
        notebook.select(number)  # one after the other: JupyterLab leaves out cells that are out of sight
        notebook.page.keyboard.press("Shift+Enter")
        cell = notebook.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{number}']")
        cell.frame_locator("iframe[title=glassformer]").get_by_text(words).first.wait_for()
    saved = notebook.saved(folder / "pages.ipynb", "data:image/svg+xml")  # the still of the last one
    assert len(saved) < 40_000 and saved.count("widget-view+json") == len(PAGES)
    assert all(words in saved for words in ("accuracy 0.700", "map of 3 occurrences of", "3.15 s, language en"))


def test_in_marimo(program: Callable[..., str], tab: Callable[[], Any], folder: Path) -> None:
    def cell(source: str, given: str = "", made: str = "") -> str:
        body = "\n".join(f"    {line}" for line in [*source.splitlines(), f"return {made}"])
        return f"@app.cell\ndef _({given}):\n{body}\n"

    cells = [cell(LOAD, made="glassformer, model"), *(cell(x, "glassformer, model") for x in (LOOK, *PAGES))]
    dark = '# /// script\n# [tool.marimo.display]\n# theme = "dark"\n# ///\n\n'
    (folder / "look.py").write_text(f"{dark}import marimo\n\napp = marimo.App()\n\n\n" + "\n\n".join(cells))
    page = tab()
    page.goto(program("marimo", "run", "look.py", "--headless", "--no-token"))
    page.locator("iframe[title=glassformer]").nth(len(PAGES)).wait_for()  # all of them
    change_text(page)
    html = page.locator("iframe[title=glassformer]").first.content_frame.locator("html")
    assert html.get_attribute("data-theme") == "dark", "the notebook is dark"
    for number, words in enumerate(PAGES.values()):
        frame = page.locator("iframe[title=glassformer]").nth(number + 1).content_frame
        frame.get_by_text(words).first.wait_for()
