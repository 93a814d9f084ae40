"""Uploading a model: what the Hub receives from its own client, and errors that say what to do."""

from __future__ import annotations

import base64
import importlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from glassformer import load
from glassformer.cli.app import app
from glassformer.errors import DataError
from glassformer.hub.push import files_to_push, push_model
from tests.e2e.tiny_models import make_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Received:
    """A Hub on this machine that takes uploads; `no/way` is not the caller's.

    repositories: name → what it was made with · files: name → content, of the last commit · branch: of that
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.branch = self.token = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: bytes) -> tuple[int, Any]:
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.repositories[name] = asked
            return (403, {"error": "not yours"}) if name == "no/way" else (200, {"url": f"{self.endpoint}/{name}"})
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if "/preupload/" in path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return 200, {"files": files}
        if "/commit/" in path:
            lines = [json.loads(line) for line in body.splitlines()]
            values = [line["value"] for line in lines if line["key"] == "file"]
            self.files = {value["path"]: base64.b64decode(value["content"]) for value in values}
            self.branch = path.rpartition("/")[2]
            return 200, {"commitUrl": f"{self.endpoint}/me/mine/commit/{COMMIT}", "commitOid": COMMIT}
        return 404, {"error": path}


def _handler(hub: Received) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hub.token = self.headers.get("Authorization", "")
            status, value = hub.answer(self.path.split("?")[0], body)
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def client_at(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    importlib.import_module("huggingface_hub.utils").disable_progress_bars()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    received = Received()
    client_at(monkeypatch, received.endpoint)
    monkeypatch.setenv("HF_TOKEN", "secret")
    yield received
    received.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder, with much that is not its model's."""
    folder = tmp_path / "mood"
    make_folder(folder / "model", "bert")
    (folder / "config.yaml").write_text("task: classify\n")
    (folder / "journal.jsonl").write_text("private\n")
    (folder / "model" / "README.md").write_text("---\nlicense: mit\n---\n# mood\n")
    (folder / "model" / "metrics.json").write_text('{"metrics": {"accuracy": 0.5}}')
    (folder / "model" / ".hidden").write_text("private")
    (folder / "model" / "checkpoint-12").mkdir()
    (folder / "model" / "checkpoint-12" / "optimizer.safetensors").write_bytes(b"private")
    return folder


PUSHED = {"README.md", "metrics.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_a_run_is_published_with_its_card_and_metrics(hub: Received, run: Path) -> None:
    address = push_model(run, "me/mine", private=True, revision="v1")
    assert address == f"{hub.endpoint}/me/mine/commit/{COMMIT}" and hub.branch == "v1"
    assert set(hub.files) == PUSHED == set(files_to_push(run))
    assert all(content == (run / "model" / name).read_bytes() for name, content in hub.files.items())
    made = hub.repositories["me/mine"]
    assert made.get("private") is True or made.get("visibility") == "private"
    assert hub.token == "Bearer secret"


def test_a_model_pushes_what_it_saves(hub: Received, run: Path) -> None:
    model = load(run)
    assert model.push_to_hub("me/mine", token="other") == f"{hub.endpoint}/me/mine/commit/{COMMIT}"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(hub.files) and hub.token == "Bearer other"


def test_the_command(hub: Received, run: Path, tmp_path: Path) -> None:
    def invoke(*arguments: object) -> Any:
        return CliRunner().invoke(app, ["push", *map(str, arguments)])

    done = invoke(run, "me/mine", "--dry-run")
    assert done.exit_code == 0 and "nothing was uploaded" in done.output and not hub.repositories
    assert all(name in done.output for name in PUSHED) and ".hidden" not in done.output
    done = invoke(run, "me/mine")
    assert done.exit_code == 0 and f"uploaded: {hub.endpoint}/me/mine" in done.output and set(hub.files) == PUSHED
    (run / "model" / "README.md").unlink()
    done = invoke(run, "me/mine", "--json")
    assert "no model card (README.md): glassformer train writes it" in done.stderr
    assert json.loads(done.stdout)["address"].startswith(hub.endpoint) and "README.md" not in hub.files


def test_what_is_no_model_is_not_uploaded(hub: Received, run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        push_model(tmp_path / "none", "me/mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no config.json with weights in safetensors"):
        push_model(tmp_path / "empty", "me/mine")
    (tmp_path / "secret.txt").write_text("private")
    (run / "model" / "notes.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(DataError, match=r"notes\.txt.*link"):
        push_model(run, "me/mine")
    assert not hub.repositories and not hub.files


def test_a_refusal_and_a_missing_connection_say_what_to_do(
    hub: Received, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"'no/way' could not be uploaded.*403.*hf auth login"):
        push_model(run, "no/way")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"connections are off .*model holds it"):
        push_model(run, "me/mine")
    hub.close()
    client_at(monkeypatch, hub.endpoint)
    with pytest.raises(DataError, match=r"the Hub was not reached: .*model holds it, so try again later"):
        push_model(run, "me/mine")
