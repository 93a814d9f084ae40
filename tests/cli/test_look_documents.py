"""`glassformer look STORE` as a user meets it: an address, JSON, one clear line for what is wrong."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from glassformer.explorer.binary_frames import decode
from glassformer.retrieval.indexing import index_folder
from tests.cli.conftest import Command
from tests.cli.test_look import api, started
from tests.retrieval.encoders import write_documents


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("made")
    index_folder(write_documents(folder / "documents"), folder / "notes.store")
    return str(folder / "notes.store")


def test_it_answers_until_it_is_interrupted(store: str) -> None:
    with started("look", store, "When was the lighthouse built?", "--no-browser", "--theme", "dark") as process:
        assert process.stdout is not None
        word, url = process.stdout.readline().split()
        assert word == "open" and url.endswith("&q=When+was+the+lighthouse+built%3F&theme=dark")
        assert process.stdout.readline() == "Ctrl-C stops the server\n"
        assert decode(api(url, "/api/view/store", b"{}")).fields["name"] == "notes.store"
        answer = decode(api(url, "/api/view/ask", b'{"question": "which ship turned?"}')).fields
        assert answer["answer"] == "The ship turned at once." and answer["matches"][0]["ranks"] == {"bm25": 1}
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (0, "\nstopped\n", "")


def test_json_is_one_line(store: str) -> None:
    with started("look", store, "--no-browser", "--json") as process:
        assert process.stdout is not None
        report = json.loads(process.stdout.readline())
        assert report["url"].startswith(f"http://127.0.0.1:{report['port']}/#token=")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b"], "a store is asked one question at a time, got 2"),
        (["--view", "head"], "--view is of the explorer of a model; leave it out for a store of documents"),
        (["--html", "page.html"], "as a file: glassformer ask QUESTION --store"),
        (["--rerank", "nowhere/model"], "nowhere/model"),
    ],
)
def test_what_the_user_can_correct_is_one_line(
    store: str, arguments: list[str], message: str, command: Command
) -> None:
    done = command("look", store, *arguments, "--no-browser")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and message in done.stderr


def test_a_reader_is_of_a_store(tmp_path: Path, command: Command) -> None:
    done = command("look", tmp_path, "a", "--reader", "model")
    assert done.returncode == 2 and "--reader is of a store of documents; name its folder" in done.stderr
