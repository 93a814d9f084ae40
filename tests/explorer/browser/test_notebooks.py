"""The page in real notebooks: JupyterLab and marimo, in a browser, with a kernel."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.clients
LOOK = "model.look('ROMEO: my love', view='neuron', layer=1, heads=[0])"
LOAD = "import glassformer\nmodel = glassformer.load('package:glassformer/checkpoints/shakespeare')"
SECONDS = 120  # JupyterLab takes that long on a busy machine
SLOW = "[anywidget] Failed to initialize model."
"""What anywidget says where a machine takes more than two seconds to begin; it goes on all the same."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts a program that serves on the port that it is given; gives its address once it answers."""
    running: list[subprocess.Popen[bytes]] = []
    folders = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    environment = {**os.environ, **folders, "IPYTHONDIR": str(tmp_path / "ipython")}

    def start(*words: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", *words, f"--port={port}"]
        with (tmp_path / "log").open("wb") as log:
            running.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log))
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                return f"http://127.0.0.1:{port}"
            except urllib.error.HTTPError:
                return f"http://127.0.0.1:{port}"  # it answers, and wants a token
            except OSError:
                time.sleep(0.3)
        pytest.fail((tmp_path / "log").read_text()[-3000:])

    yield start
    for each in running:
        each.terminate()
        each.wait(30)


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A tab that complains at the end of what our page's console has."""
    tab = chromium.new_page(viewport={"width": 1440, "height": 1000})
    tab.set_default_timeout(SECONDS * 1000)
    errors: list[str] = []

    def note(text: str) -> None:
        if SLOW not in text:
            errors.append(text)

    tab.on("pageerror", lambda error: note(str(error)))
    tab.on("console", lambda message: message.type == "error" and note(message.text))
    yield tab
    tab.close()
    assert not errors


def change_text(page: Any) -> None:
    """Another text in the cell gives its tokens."""
    frame = page.frame_locator("iframe[title=glassformer]")
    field = frame.locator("textarea").first
    field.fill("JULIET: good night")
    field.press("Enter")
    frame.locator("#view").get_by_text("night").first.wait_for()


def test_in_jupyterlab(program: Callable[..., str], page: Any, tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "id": str(i), "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for i, source in enumerate((LOAD, LOOK))
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = tmp_path / "look.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    token = secrets.token_hex(16)
    options = ["--no-browser", "--allow-root", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={tmp_path}"]
    address = program("jupyterlab", *options)
    page.goto(f"{address}/lab/tree/look.ipynb?token={token}&reset")
    page.get_by_text("| Idle").wait_for()
    page.locator(".jp-Notebook .jp-Cell").first.click()
    for key in ("Escape", "Shift+Enter", "Shift+Enter"):
        page.keyboard.press(key)
    change_text(page)
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+s")
    until = time.monotonic() + SECONDS
    while "widget-view" not in notebook.read_text() and time.monotonic() < until:
        page.wait_for_timeout(200)
    saved = notebook.read_text()
    assert len(saved) < 20_000 and "Attention of self layer 1 head 0" in saved and "#token=" not in saved


def test_in_marimo(program: Callable[..., str], page: Any, tmp_path: Path) -> None:
    indented = "\n    ".join(LOAD.splitlines())
    (tmp_path / "look.py").write_text(
        "import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n"
        f"    {indented}\n    {LOOK}\n    return\n\n\nif __name__ == '__main__':\n    app.run()\n"
    )
    page.goto(program("marimo", "run", "look.py", "--headless", "--no-token"))
    change_text(page)
