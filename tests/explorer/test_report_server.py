"""The server of reports: its pages, and the explorer of each of its models."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from glassformer.errors import DataError
from glassformer.explorer import report_server
from glassformer.explorer.report_server import ReportServer, explorer_address, one_page
from glassformer.explorer.session_runs import SessionFactory
from glassformer.model import Model
from glassformer.reports.report import Display
from glassformer.reports.table import Table


class Shown(Display):
    title = "Shown"

    def tables(self) -> list[Table]:
        return [Table(["a"], [["1"]])]


def asked(server: ReportServer, path: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON of a request with the key."""
    key = {"Authorization": f"Bearer {server.url.partition('token=')[2]}", **headers}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(server.address + path, data, key)) as answer:
            return answer.status, [json.loads(line) for line in answer.read().splitlines()]
    except HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_page_and_what_is_not_there() -> None:
    with ReportServer(one_page([Shown()])) as server:
        status, [page] = asked(server, "api/report/")
        assert (status, page["title"], page["reports"][0]["tables"][0]["rows"]) == (200, "Shown", [["1"]])
        assert asked(server, "api/report/else") == (400, {"error": "else: there is nothing here"})
        assert asked(server, "api/look/mood//runs", {}) == (400, {"error": "mood: there is no model here"})
        for path in ("api/report/", "api/look/mood//runs"):
            assert asked(server, path, Authorization="Bearer other")[0] == 401


def test_an_open_page_is_told_what_is_new_and_nothing_else() -> None:
    state, read = {"stamp": "1"}, list[str]()

    def pages(path: str) -> list[Display]:
        read.append(path)
        return [Shown()]

    with ReportServer(pages, stamp=lambda path: state["stamp"] + path) as server:
        key = {"Authorization": f"Bearer {server.url.partition('token=')[2]}"}

        def answer(tag: str) -> tuple[int, str | None]:
            request = Request(f"{server.address}api/report/run/a", headers={**key, "If-None-Match": tag})
            try:
                with urlopen(request) as got:
                    return got.status, got.headers["etag"]
            except HTTPError as error:
                return error.code, error.headers["etag"]

        assert answer("") == (200, '"1run/a"') and answer('"1run/a"') == (304, '"1run/a"')
        state["stamp"] = "2"
        assert answer('"1run/a"') == (200, '"2run/a"') and read == ["run/a"] * 2, "the same is not read again"
        with urlopen(f"{server.address}page.js") as program:
            assert b"If-None-Match".lower() in program.read().lower()
    with ReportServer(one_page([Shown()])) as server, urlopen(f"{server.address}page.js") as program:
        assert b"newer results" not in program.read(), "a page that stays as it is does not look again"


def test_models_have_an_explorer_each_and_the_last_few_are_kept(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def explored(name: str) -> tuple[SessionFactory, list[str]]:
        if name == "none":
            raise DataError("none: holds no model yet")
        opened.append(name)
        return models["bert"].session_factory(), [name]

    monkeypatch.setattr(report_server, "MAX_MODELS", 2)
    assert explorer_address("a b/ü") == "/look/a%20b/%C3%BC"
    with ReportServer(one_page([Shown()]), explored=explored) as server:
        for name in ("time/flies", "fruit", "time/flies", "banana", "time/flies", "fruit"):
            status, lines = asked(server, f"api{explorer_address(name)}//runs", {})
            assert status == 200 and lines[-1]["ready"]["texts"] == [name]
        assert opened == ["time/flies", "fruit", "banana", "fruit"], "that which was used last stays"
        assert asked(server, "api/look/none//runs", {}) == (400, {"error": "none: holds no model yet"})
        with urlopen(server.address + "look/time/flies") as page:
            assert b'id="app"' in page.read()
