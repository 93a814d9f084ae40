"""`glassformer look` as a user meets it: an address or a file, one clear line for what is wrong, a clean end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from glassformer.cli.look import look
from glassformer.errors import ConfigError, DataError
from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder
from tests.explorer.reader import Reader

TEXTS = ["time flies like an arrow", "fruit flies"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_folder(tmp_path_factory.mktemp("models") / "tiny", "bert", num_hidden_layers=3))


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "DISPLAY": "", "WAYLAND_DISPLAY": "", "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def api(url: str, path: str, body: bytes | None = None) -> Any:
    address = urlsplit(url)
    token = parse_qs(address.fragment)["token"][0]
    request = urllib.request.Request(
        f"http://{address.netloc}{path}", data=body, headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read()


def test_it_serves_until_it_is_interrupted(folder: str) -> None:
    with started("look", folder, *TEXTS, "--no-browser", "--view", "head", "--layer", "2", "--head", "1") as process:
        assert process.stdout is not None
        word, url = process.stdout.readline().split()
        assert word == "open"
        assert url.endswith("&v=1&view=head&l=2&h=1")
        assert process.stdout.readline() == "Ctrl-C stops the server\n"
        assert process.stdout.readline().startswith("7 text tokens · self 3 × 2 heads · forward pass ")
        assert b'<div id="app">' in api(url, "/")
        ready = json.loads(api(url, "/api/runs", b"{}").splitlines()[-1])["ready"]
        assert ready["texts"] == TEXTS
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (0, "\nstopped\n", "")


LONG_PASS = """
import sys, time, torch
from glassformer.model import Model

def inspect(self, *texts, progress):
    for block in range(10_000):
        progress(block, 10_000)
        torch.randn(400, 400) @ torch.randn(400, 400)

Model.inspect = inspect
from glassformer.cli.app import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("option", "code", "end"), [("--no-browser", 0, "\nstopped\n"), ("--json", 130, "")])
def test_it_can_be_interrupted_in_the_middle_of_a_pass(folder: str, option: str, code: int, end: str) -> None:
    """The interpreter must not end while another thread computes: torch would abort the process."""
    command = [sys.executable, "-c", LONG_PASS, "look", folder, "time", "--port", str(free_port()), option]
    environment = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_for_port(int(command[7]), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, err) == (code, "")
    assert out.endswith(end)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            time.sleep(1.0)  # and now the command waits for the pass
            return


def test_json_is_one_line_when_all_is_ready(folder: str) -> None:
    with started("look", folder, TEXTS[0], "--no-browser", "--json") as process:
        assert process.stdout is not None
        report = json.loads(process.stdout.readline())
        assert report["texts"] == [TEXTS[0]]
        assert report["tokens"] == {"text": 7}
        assert report["maps"] == {"self": {"layers": 3, "heads": 2}}
        assert f":{report['port']}/#token=" in report["url"]
        assert json.loads(api(report["url"], "/api/runs", b"{}").splitlines()[-1])["ready"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flies " * 50], "16"),
        (["a", "b", "c"], "one text or two, got 3"),
        ([], "a folder of runs; of a model, give a text or two too, in quotes: glassformer look MODEL"),
        (["a", "--layers", "0"], "--layers says what the file of --html holds"),
        (["a", "--views", "lens"], "--views says what the file of --html shows"),
        (["a", "--view", "heads"], "allowed: model, head, matrix, neuron"),
        (["a", "--html", "page.txt"], "must end in .html"),
    ],
)
def test_what_the_user_can_mend_is_one_line(folder: str, arguments: list[str], message: str, command: Command) -> None:
    done = command("look", folder, *arguments, "--no-browser")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a"], {"views": ["difference"], "html": Path("page.html")}, "the view 'difference' as a file compares"),
        (["a"], {"views": ["lens"], "view": "head", "html": Path("page.html")}, "leaves it out"),
        (["a"], {"views": ["lense"], "html": Path("page.html")}, "allowed: model, head"),
        ([" "], {}, "the text ' ' is empty"),
    ],
)
def test_what_no_page_shows_is_refused_before_the_model_is_loaded(
    texts: list[str], options: dict[str, Any], message: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.model.load", None)  # loading fails
    with pytest.raises((ConfigError, DataError), match=message):
        look(folder, texts, **options)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        look(str(tmp_path / "no" / "model"), ["a"])


# ------------------------------------------------------------------------------------------------------- files


def test_one_file(folder: str, tmp_path: Path, capsys: Any) -> None:
    look(folder, TEXTS, html=tmp_path / "page.html", layer=1, heads=[1], theme="light")
    page = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert page.session()["texts"] == TEXTS
    assert page.session()["exact_layers"] == {"self": [0, 1, 2]}
    assert page.session()["start"] == "v=1&l=1&h=1&theme=light"
    summary, saved = capsys.readouterr().out.splitlines()
    assert summary.startswith("7 text tokens")
    assert saved.startswith(f"saved in {tmp_path / 'page.html'}: ")
    assert "no network needed" in saved


def test_json_of_a_file(folder: str, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "page.html"
    look(folder, TEXTS, html=out, layers="0,2", json=True)
    report = json.loads(capsys.readouterr().out)
    assert (report["out"], report["bytes"]) == (str(out), out.stat().st_size)
    assert report["held"] == {"self": [0, 2]}
    assert report["tokens"] == {"text": 7}


def test_layers_beyond_the_size_limit_are_listed(folder: str, tmp_path: Path, capsys: Any) -> None:
    look(folder, TEXTS, html=tmp_path / "page.html", cap_mb=0)
    out = capsys.readouterr().out
    assert "exact numbers of layers 0,1,2 would exceed" in out and "--layers" in out and "--cap-mb" in out
    look(folder, TEXTS, html=tmp_path / "page.html", layers="1")
    assert "would exceed" not in capsys.readouterr().out


def test_a_wrong_layer_leaves_the_old_file(folder: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    with pytest.raises(DataError, match="layers 0 to 2"):
        look(folder, TEXTS, html=tmp_path / "page.html", layers="0-5")
    assert (tmp_path / "page.html").read_text() == "old"


def test_the_file_of_a_writing(tmp_path: Path, capsys: Any) -> None:
    folder = str(make_folder(tmp_path / "tiny", "llama"))
    html = tmp_path / "page.html"
    look(folder, ["time flies"], html=html, view="generate", max_new_tokens=4, num_beams=2, temperature=0.9, seed=1)
    assert "saved in" in capsys.readouterr().out
    options = Reader(html.read_text("utf-8")).json("trace")["trace"]["options"]
    assert options["num_beams"] == 2 and options["do_sample"] and options["temperature"] == 0.9
    with pytest.raises(ConfigError, match="go with view='generate'"):
        look(folder, ["time flies"], html=html, num_beams=2)


def test_a_text_that_is_too_long_is_cut_on_request(folder: str, tmp_path: Path, capsys: Any) -> None:
    long, html = "time flies " * 100, tmp_path / "page.html"
    with pytest.raises(DataError, match=r"the model reads at most \d+; shorten the text, or let .*--truncate"):
        look(folder, [long], html=html)
    look(folder, [long, "fruit flies"], html=html, truncate=True)
    captured = capsys.readouterr()
    assert "16 text tokens" in captured.out and captured.err.count("note: the text has") == 1
    look(
        str(make_folder(tmp_path / "tiny", "llama")),
        [long],
        html=html,
        view="generate",
        max_new_tokens=4,
        truncate=True,
    )
