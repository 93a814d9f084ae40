"""The server: when no file descriptor is left."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

PROGRAM = """
import logging, resource, sys
logging.basicConfig(level=logging.WARNING)
from glassformer.explorer.server import Server, bind
async def app(scope, receive, send):
    headers = [(b"content-length", b"2"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})
server = Server(app, bind(None))
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
print(server.port, flush=True)
sys.stdin.read()
server.close()
"""


def answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(1000), b""))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of file descriptors")
def test_without_file_descriptors_it_waits_and_says_so_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdin and process.stdout
    try:
        port = int(process.stdout.readline())
        assert answer(port).endswith(b"ok")
        with ExitStack() as stack:
            for _ in range(80):  # more than it may open, fewer than may wait
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
            deadline = time.monotonic() + 300
            while "no file descriptors are left" not in log.read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(2.5)  # twice as long as asyncio waits until it tries again
        assert answer(port).endswith(b"ok")
    finally:
        process.communicate("", timeout=300)
    lines = log.read_text()
    assert lines.count("no file descriptors are left") == 1 and len(lines) < 500
