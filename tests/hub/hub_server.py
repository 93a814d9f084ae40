"""A Hub on this machine that serves one repository, and fails in whatever way a test asks."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Fault:
    """How the body of one file is served while `times` lasts.

    kind: `cut` the connection after `at` bytes, `stall` there, `flip` the byte there, `short` body and header
    alike, `long` likewise, `status` instead of a body, `no range` (a resume gets the whole file as 200),
    `wrong range` (a resume gets bytes from the start as 206).
    """

    kind: str
    at: int = 0
    times: int = 1_000_000
    status: int = 500
    file: str = "model.safetensors"


@dataclass
class Repository:
    files: dict[str, bytes]
    large: frozenset[str] = frozenset({"model.safetensors"})  # named by SHA-256, as Git LFS does
    name: str = "org/name"
    api_status: int = 200
    states_sizes: bool = True
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)  # that were asked for

    def digest(self, name: str) -> str:
        content = self.files[name]
        if name in self.large:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class HubServer:
    """Serves `repository` at `endpoint` until closed."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are sent apart; the client would wait for each

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.serve(body=False)

        def do_GET(self) -> None:
            self.serve(body=True)

        def serve(self, *, body: bool) -> None:
            repository = hub.repository
            path = self.path.split("?")[0]
            repository.requests.append(f"{self.command} {path}")
            api = f"/api/models/{repository.name}"
            if path.startswith("/api/"):
                if repository.api_status != 200:
                    return self.answer(repository.api_status, {}, b"down")
                if path == api or path.startswith(f"{api}/revision/"):
                    siblings: list[dict[str, Any]] = [{"rfilename": name} for name in repository.files]
                    if "blobs=" in self.path and repository.states_sizes:
                        siblings = [
                            {"rfilename": name, "size": len(content)} for name, content in repository.files.items()
                        ]
                    return self.json({"id": repository.name, "sha": COMMIT, "siblings": siblings})
                if path.startswith(f"{api}/tree/"):
                    return self.json([self.tree_entry(name) for name in repository.files])
            for prefix in (f"/{repository.name}/resolve/main/", f"/{repository.name}/resolve/{COMMIT}/"):
                if path.startswith(prefix) and path.removeprefix(prefix) in repository.files:
                    return self.file(path.removeprefix(prefix), body=body)
            self.answer(404, {"X-Error-Code": "RepoNotFound"}, b"")

        def tree_entry(self, name: str) -> dict[str, Any]:
            repository = hub.repository
            size, digest = len(repository.files[name]), repository.digest(name)
            entry: dict[str, Any] = {"type": "file", "path": name, "size": size, "oid": digest}
            if name in repository.large:
                entry |= {"oid": "0" * 40, "lfs": {"oid": digest, "size": size, "pointerSize": 130}}
            return entry

        def json(self, value: object) -> None:
            self.answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

        def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for key, text in ({"Content-Length": str(len(content))} | headers).items():
                self.send_header(key, text)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def fault(self, name: str, *, body: bool) -> Fault | None:
            for fault in hub.repository.faults:
                applies = body != fault.kind.startswith("head")
                if fault.file == name and fault.times > 0 and applies:
                    fault.times -= 1
                    return fault
            return None

        def file(self, name: str, *, body: bool) -> None:
            content = hub.repository.files[name]
            fault = self.fault(name, body=body)
            kind, at = (fault.kind, fault.at) if fault else ("", 0)
            headers = {
                "ETag": f'"{hub.repository.digest(name)}"',
                "X-Repo-Commit": COMMIT,
                "Accept-Ranges": "bytes",
            }
            if name in hub.repository.large:
                headers |= {
                    "X-Linked-Etag": f'"{hub.repository.digest(name)}"',
                    "X-Linked-Size": str(len(content)),
                }
            if kind in ("status", "head status"):
                assert fault is not None
                return self.answer(fault.status, {}, b"")
            if kind == "flip":
                content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
            elif kind == "short":
                content = content[:at]
            elif kind == "long":
                content += b"more"
            status, start = 200, 0
            if body and "Range" in self.headers:
                hub.repository.ranges.append(self.headers["Range"])
            if "Range" in self.headers and kind != "no range":
                start = int(self.headers["Range"].removeprefix("bytes=").split("-")[0])
                if start >= len(content):
                    return self.answer(416, {}, b"")
                status = 206
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            part = content[: len(content) - start] if kind == "wrong range" else content[start:]
            self.send_response(status)
            for key, text in ({"Content-Length": str(len(part))} | headers).items():
                self.send_header(key, text)
            self.end_headers()
            if not body:
                return
            if kind not in ("cut", "stall"):
                self.wfile.write(part)
                return
            self.wfile.write(part[: max(at - start, 0)])
            self.wfile.flush()
            if kind == "stall":
                hub.released.wait(5)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    return Handler


Serve = Callable[[Repository], HubServer]
