"""Who may call, asked over HTTP with the headers that a browser sends, and with those of somebody else."""

from __future__ import annotations

import pytest

from glassformer.explorer.http import HEADERS
from tests.explorer.client import Client

API = ["/api/overview", "/api/lines", "/api/tile", "/api/row", "/api/neuron", "/api/page", "/api/no-such"]


@pytest.mark.parametrize("given", [None, "", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "bearer {token}"])
def test_without_the_token_nothing_is_told(client: Client, given: str | None) -> None:
    header = None if given is None else given.format(token=client.token)
    for path in API:
        assert client.ask(path, headers={"Authorization": header}).status == 401, path
    answer = client.ask("/api/runs", method="POST", body=b"{}", headers={"Authorization": header})
    assert answer.status == 401
    assert "open the address that was printed" in answer.error


def test_the_token_in_the_address_does_not_count(client: Client) -> None:
    answer = client.ask(f"/api/overview?token={client.token}", headers={"Authorization": None})
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
    for path in ("/", "/static/app.js", "/api/row"):
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
    for path, method, body in (("/", "GET", None), ("/api/row", "GET", None), ("/api/runs", "POST", b"{}")):
        headers = {"Origin": origin.format(port=client.port)}
        answer = client.ask(path, method=method, body=body, headers=headers)
        assert answer.status == 403


def test_every_answer_tells_browsers_what_they_may_do(client: Client) -> None:
    s = client.session()["id"]
    answers = [
        client.ask("/"),
        client.ask("/nowhere"),
        client.ask(f"/api/overview?s={s}&map=self&layer=0"),
        client.ask("/api/overview"),
        client.ask("/", headers={"Host": "evil.example"}),
        client.ask("/api/runs", headers={"Authorization": None}),
    ]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in answer.headers
    assert answers[2].headers["cache-control"] == "no-store"
