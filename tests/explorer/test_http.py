"""Who may call, with the headers that a browser sends and with others'; parameters are read strictly."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from glassformer.explorer.http import HEADERS
from tests.explorer.client import Client

API = ["/api/view/overview", "/api/view/no-such", "/api/frame", "/api/page", "/api/no-such"]


@pytest.mark.parametrize("given", [None, "", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "bearer {token}"])
def test_without_the_token_nothing_is_told(client: Client, given: str | None) -> None:
    header = None if given is None else given.format(token=client.token)
    for path in API:
        assert client.ask(path, headers={"Authorization": header}).status == 401, path
    answer = client.ask("/api/runs", method="POST", body=b"{}", headers={"Authorization": header})
    assert answer.status == 401
    none = header in (None, "", "Bearer ")
    assert ("lacks its key" if none else "of a program that has ended") in answer.error
    assert "that the terminal printed" in answer.error


def test_the_token_in_the_address_does_not_count(client: Client) -> None:
    answer = client.ask(f"/api/frame?token={client.token}", headers={"Authorization": None})
    assert answer.status == 401


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:9999", "LOCALHOST", "[::1]:{port}", "127.0.0.1"])
def test_the_names_of_this_machine(client: Client, host: str) -> None:
    name = host.format(port=client.port)
    assert client.ask("/", headers={"Host": name}).status == 200
    assert client.ask("/", headers={"Host": name, "Origin": f"http://{name}"}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "127.0.0.1@evil.example",
        "127.0.0.1:",
        "127.0.0.1:1:2",
        "0.0.0.0",
        "127.0.0.2",
        "",
    ],
)
def test_any_other_name_is_refused(client: Client, host: str) -> None:
    for path in ("/", "/static/app.js", "/api/frame"):
        answer = client.ask(path, headers={"Host": host})
        assert answer.status == 403
        assert "127.0.0.1" in answer.error


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.example",
        "",
    ],
)
def test_a_page_of_another_origin_is_refused(client: Client, origin: str) -> None:
    for path, method, body in (("/", "GET", None), ("/api/frame", "GET", None), ("/api/runs", "POST", b"{}")):
        headers = {"Origin": origin.format(port=client.port)}
        answer = client.ask(path, method=method, body=body, headers=headers)
        assert answer.status == 403


def test_every_answer_tells_browsers_what_they_may_do(client: Client) -> None:
    s = client.session()["id"]
    answers = [
        client.ask("/"),
        client.ask("/nowhere"),
        client.view("overview", s=s, map="self", layer=0),
        client.ask("/api/frame"),
        client.ask("/", headers={"Host": "evil.example"}),
        client.ask("/api/runs", headers={"Authorization": None}),
    ]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in answer.headers
    assert answers[2].headers["cache-control"] == "no-store"


def test_a_connection_that_sends_no_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a few hundred of them would make the page unreachable."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from glassformer.explorer import server

    async def answer(request: Any) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.4)
    listening = server.bind(None)
    served = server.Server(Starlette(routes=[Route("/", answer, methods=["GET", "POST"])]), listening)
    try:
        for half in (b"", b"GET / HTTP/1.1\r\nHost:", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"):
            with socket.create_connection((server.HOST, served.port), timeout=300) as connection:
                connection.sendall(half)
                assert b"200 OK" not in connection.recv(1000)  # closed, with nothing or an error
        with socket.create_connection((server.HOST, served.port), timeout=300) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in connection.recv(1000)
    finally:
        served.close()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server whose answer fits into no buffer, and one that computes for a while before it answers."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from glassformer.explorer import server

    async def answer(request: Any) -> PlainTextResponse:
        return PlainTextResponse("x" * 40_000_000)

    async def later(request: Any) -> PlainTextResponse:
        await asyncio.sleep(1.5)
        return PlainTextResponse("late")

    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.4)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 5)
    served = server.Server(Starlette(routes=[Route("/", answer), Route("/later", later)]), server.bind(None))
    yield served
    served.close()


def open_connection(served: Any, path: str = "/") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=300)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return connection


def read(connection: socket.socket, rest: float = 0.0) -> int:
    """How many bytes come until the other end closes, or the whole answer is there. Args: rest: between two reads"""
    total = 0
    while total < 40_000_000 and (data := connection.recv(4_000_000 if rest else 1 << 16)):
        total += len(data)
        time.sleep(rest)
    return total


def test_a_client_that_does_not_read_is_closed(large: Any) -> None:
    for seconds in (1.5, 6, 24):  # on busy cores the server may look at its clock late
        received = 1  # a connection that is reset counts as one that is closed
        with open_connection(large) as connection, contextlib.suppress(ConnectionResetError):
            time.sleep(seconds)
            received = read(connection)
        if received < 40_000_000:
            break
    assert 0 < received < 40_000_000
    with open_connection(large, "/later") as connection:  # there is nothing to read yet
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_client_that_reads_slowly_gets_all(large: Any) -> None:
    with open_connection(large) as connection:
        start = time.monotonic()
        assert read(connection, rest=0.12) >= 40_000_000
        assert time.monotonic() - start > 1.0


def test_more_connections_than_a_browser_opens_are_answered_at_once(large: Any) -> None:
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(open_connection(large, "/later")) for _ in range(9)]
        answers = [connection.recv(12) for connection in connections]
    assert set(answers) <= {b"HTTP/1.1 200", b"HTTP/1.1 503"} and answers.count(b"HTTP/1.1 503") >= 4
    deadline = time.monotonic() + 300
    while True:
        with open_connection(large, "/later") as connection:
            if connection.recv(12) == b"HTTP/1.1 200":
                break
        assert time.monotonic() < deadline
