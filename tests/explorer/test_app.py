"""The routes, asked over HTTP of a real server: what it answers, whom it answers, and what it survives."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import UnsupportedError
from glassformer.explorer import views
from glassformer.explorer.binary_frames import decode
from glassformer.explorer.http import MAX_BODY_BYTES
from glassformer.model import Model, load
from tests.explorer.client import Client
from tests.explorer.conftest import INSPECTABLE, STAND_IN, TEXTS, texts_for

Serve = Callable[..., Client]


# ----------------------------------------------------------------------------------------------------- answers


def test_the_shell_needs_no_token_and_holds_none(client: Client) -> None:
    for path, name, kind in (
        ("/", "index.html", "text/html"),
        ("/static/index.html", "index.html", "text/html"),
        ("/static/app.js", "app.js", "text/javascript"),
        ("/static/app.css", "app.css", "text/css"),
    ):
        answer = client.ask(path, headers={"Authorization": None})
        assert (answer.status, answer.body.decode()) == (200, STAND_IN[name])
        assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
        assert client.token.encode() not in answer.body


@pytest.mark.parametrize("family", INSPECTABLE)
def test_every_view_of_every_family(serve: Serve, models: dict[str, Model], family: str) -> None:
    client = serve(family, *texts_for(models[family]))
    session = client.session()
    own = client.look.session
    for about in session["maps"]:
        position = {"s": session["id"], "map": about["name"], "layer": 1}
        T, S = len(session["streams"][about["queries"]]), len(session["streams"][about["keys"]])
        row = {"layer": 1, "map": about["name"], "head": 1, "query": T - 1}
        head = {**position, "head": 1}
        assert client.frame("overview", **position, exact=True).arrays["thumbnails"].shape == (2, T, S)
        lines = client.frame(
            "lines", s=session["id"], map=about["name"], layers=[0, 2], heads=[1, 0], rows=[0, T], count=2
        )
        assert lines.arrays["keys"].shape == (4, T, min(2, S))
        assert client.frame("tile", **head, level=0, row=0, column=0).arrays["tile"].shape == (T, S)
        assert client.view("row", **head, query=T - 1).body == views.row(own, **row)
        neuron = client.view("neuron", **head, query=T - 1, keys=[0, S])
        assert neuron.body == views.neuron(own, **row, keys=(0, S))


def test_every_word_of_lines_and_tiles_is_heard(client: Client) -> None:
    position: dict[str, Any] = {"map": "self"}
    s = client.session()["id"]
    own = client.look.session
    asked = {"layers": [0, 2], "heads": [1], "mix": "max", "rows": [1, 3], "count": 3, "keys": ["0", "special"]}
    assert client.view("lines", s=s, **position, **asked).body == views.lines(
        own, **position, layers=(0, 2), heads=[1], mix="max", rows=(1, 3), count=3, keys=["0", "special"]
    )
    tile = {**position, "layer": 1, "head": 0, "level": 0, "row": 0, "column": 0, "companding": "sqrt"}
    assert client.view("tile", s=s, **tile).body == views.tile(own, **tile)


def test_a_run_ends_with_the_session(client: Client) -> None:
    *steps, last = client.runs()
    assert list(last) == ["ready"]
    assert last["ready"]["texts"] == list(TEXTS)
    assert all(list(step) == ["done", "of"] for step in steps)
    assert client.session(*TEXTS)["id"] == last["ready"]["id"]
    assert client.session("a banana")["texts"] == ["a banana"]


def test_steps_are_sent_while_the_pass_goes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line can be read before the next is written, packed as the stream may be."""
    client.session()
    own, go = Model.inspect, threading.Event()

    def slow(self: Model, *texts: str, progress: Callable[[int, int], None]) -> Any:
        progress(1, 2)
        assert go.wait(30)
        return own(self, *texts)

    monkeypatch.setattr(Model, "inspect", slow)
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
    body = json.dumps({"texts": ["an arrow"]})
    headers = {"Authorization": f"Bearer {client.token}", "Accept-Encoding": "gzip"}
    connection.request("POST", "/api/runs", body, headers)
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    unpacker = zlib.decompressobj(wbits=31)
    first = b""
    while not first.endswith(b"\n"):
        first += unpacker.decompress(answer.read1())
    assert json.loads(first) == {"done": 1, "of": 2}
    go.set()
    assert json.loads(unpacker.decompress(answer.read()))["ready"]["texts"] == ["an arrow"]
    connection.close()


def test_gzip_only_where_it_is_asked_for_and_helps(client: Client) -> None:
    session = client.session()
    small = json.dumps({"s": session["id"], "map": "self", "layer": 0, "head": 0, "query": 0}).encode()
    page = f"/api/page?s={session['id']}"
    for path, accepts, packed in (
        ("/static/app.js", "gzip, deflate", True),
        ("/static/app.js", "br, gzip;q=0", False),
        ("/static/app.js", None, False),
        ("/api/view/row", "gzip", False),
        (page, "gzip", False),
    ):
        body = small if path.startswith("/api/view") else None
        answer = client.ask(path, method="POST" if body else "GET", body=body, headers={"Accept-Encoding": accepts})
        assert (answer.headers.get("content-encoding") == "gzip") == packed, (path, accepts)
        if packed:
            assert gzip.decompress(answer.body).decode() == STAND_IN["app.js"]
            assert len(answer.body) < len(STAND_IN["app.js"])


def test_a_large_frame_is_packed(serve: Serve, minilm: Path) -> None:
    client = serve(load(minilm), "time flies like an arrow " * 12)
    body = json.dumps({"s": client.session()["id"], "map": "self", "layer": 2}).encode()
    plain, packed = (
        client.ask("/api/view/overview", method="POST", body=body, headers=headers)
        for headers in ({}, {"Accept-Encoding": "gzip"})
    )
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < 0.9 * len(plain.body)
    assert decode(plain.body).arrays["thumbnails"].shape[0] == 12


def test_the_page_is_a_download(client: Client) -> None:
    answer = client.get("page", s=client.session()["id"])
    assert answer.status == 200
    assert answer.headers["content-disposition"].startswith('attachment; filename="glassformer-')
    # of two layers: overview and exact numbers; of 3 levels: neighbours; places; the coloured words of its answer;
    # masks, architecture, a weight and a route; and what the tour leaves out
    assert answer.body.count(b'class="frame"') == 14


def test_answers_at_once_are_those_one_by_one(client: Client) -> None:
    s = client.session()["id"]
    requests: list[tuple[str, dict[str, Any]]] = []
    for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
        where = {"s": s, "map": "self", "layer": layer}
        lines = {"s": s, "map": "self", "layers": [0, 2], "heads": [head], "rows": [0, 5], "count": layer + 1}
        requests += [
            ("overview", {**where, "exact": bool(head)}),
            ("lines", lines),
            ("tile", {**where, "head": head, "level": 0, "row": 0, "column": 0}),
            ("row", {**where, "head": head, "query": 3}),
            ("neuron", {**where, "head": head, "query": 3, "keys": [0, 5]}),
        ]
    one_by_one = [client.view(name, **fields).body for name, fields in requests]
    fresh = Client(client.look)
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(lambda each: fresh.view(each[0], **each[1]).body, requests)) == one_by_one


def test_two_windows_with_different_texts(client: Client) -> None:
    texts = [f"time {'flies ' * i}" for i in range(1, 7)]
    with ThreadPoolExecutor(6) as pool:
        sessions = list(pool.map(client.session, texts))
    assert [session["texts"] for session in sessions] == [[text] for text in texts]
    for i, session in enumerate(sessions, 1):
        assert len(session["streams"]["text"]) == i + 3
        row = client.frame("row", s=session["id"], map="self", layer=0, head=0, query=0)
        assert row.arrays["probs"].shape == (i + 3,)


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/manifest.json", "/static//etc/passwd", "/x"],
)
def test_nothing_else_is_served(client: Client, path: str) -> None:
    answer = client.ask(path)
    assert answer.status == 404
    assert "there is nothing here" in answer.error


def test_other_methods_are_refused(client: Client) -> None:
    assert client.ask("/api/runs").status == 405
    assert client.ask("/api/view/row").status == 405
    assert client.ask("/", method="DELETE").status == 405


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("view", "change", "message"),
    [
        ("row", {"s": None}, "s is None"),
        ("row", {"s": ""}, "lacks 's'"),
        ("row", {"query": None}, "query is None; it must be a whole number"),
        ("row", {"layer": 2}, "no layer 2; there are layers 0 to 1"),
        ("row", {"head": 7}, "no head 7; there are heads 0 to 1"),
        ("row", {"map": "cross"}, "no map 'cross'"),
        ("row", {"map": "<script>"}, "no map '<script>'"),
        ("row", {"query": 99}, "the query tokens are 0 to 9"),
        ("row", {"query": "NaN"}, "query is 'NaN'; it must be a whole number from 0 up"),
        ("row", {"query": -1}, "query is -1; it must be a whole number from 0 up"),
        ("row", {"query": 1.5}, "query is 1.5; it must be a whole number"),
        ("row", {"query": True}, "query is True; it must be a whole number"),
        ("row", {"query": 99999999999999999999}, "the query tokens are 0 to 9"),
        ("row", {"quary": 0}, "'quary' is no option; nearest: 'query'"),
        ("raw", {}, "there is no view 'raw'; nearest: 'row'"),
        ("overview", {"exact": "yes"}, "exact is 'yes'; it must be true or false"),
        ("lines", {"layers": 0}, "layers is 0; it must be a pair [begin, end]"),
        ("lines", {"heads": []}, "heads is []"),
        ("lines", {"rows": [3, 2]}, "0 ≤ a < b"),
        ("lines", {"rows": [0, "Infinity"]}, "rows is [0, 'Infinity']"),
        ("lines", {"count": 4097}, "from 1 to 256"),
        ("lines", {"mix": "sum"}, "allowed: each, mean, max"),
        ("tile", {"level": 9}, "no tile level 9"),
        ("tile", {"row": 5}, "no tile (5, 0)"),
        ("tile", {"companding": "log"}, "allowed: linear, sqrt"),
        ("neuron", {"keys": [0, 11]}, "there are 10 key tokens"),
    ],
)
def test_a_wrong_field_is_named(client: Client, view: str, change: dict[str, Any], message: str) -> None:
    head = {"map": "self", "layer": 0, "head": 0}
    fields: dict[str, dict[str, Any]] = {
        "overview": {"map": "self", "layer": 0},
        "lines": {"map": "self", "layers": [0, 1], "heads": [0], "rows": [0, 1]},
        "tile": {**head, "level": 0, "row": 0, "column": 0},
        "row": {**head, "query": 0},
        "neuron": {**head, "query": 0, "keys": [0, 1]},
    }
    answer = client.view(view, **{"s": client.session()["id"], **fields.get(view, {}), **change})
    assert answer.status == 400
    assert message in answer.error


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("page?s={s}&s={s}", "duplicate parameter"),
        ("page?s={s}&w=x&node=0", "a page is of a session, s, or of a generation trace"),
        ("page?s={s}&layers=0", "'layers' is no option"),
        ("frame?s={s}&key=none", "evicted"),
        ("frame?s={s}", "'key' is missing"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, path: str, message: str) -> None:
    answer = client.ask("/api/" + path.format(s=client.session()["id"]))
    assert answer.status == (410 if "key=" in path else 400)
    assert message in answer.error


def test_a_session_that_is_not_kept_is_gone(serve: Serve) -> None:
    client = serve("bert", *TEXTS, max_stored=1)
    first = client.session()["id"]
    client.session("a banana")
    for asked in (first, "0" * 16, "<script>"):
        for answer in (client.view("overview", s=asked, map="self", layer=0), client.get("page", s=asked)):
            assert answer.status == 410
            assert "run the text again" in answer.error
    assert client.session()["id"] == first  # and then it is there again
    assert client.view("overview", s=first, map="self", layer=0).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b'"text"',
        b'{"texts": "time flies"}',
        b'{"texts": []}',
        b'{"texts": ["a", "b", "c"]}',
        b'{"texts": [1]}',
        b'{"texts": [null]}',
        b'{"texts": ["a"], "more": 1}',
        b'{"text": ["a"]}',
        b'{"texts": ["\\ud800"]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_request_that_is_none(client: Client, body: bytes) -> None:
    answer = client.ask("/api/runs", method="POST", body=body)
    assert answer.status == 400
    assert answer.error


@pytest.mark.parametrize("megabytes", [2, 4])
def test_a_text_that_is_far_too_long(client: Client, megabytes: int) -> None:
    body = json.dumps({"texts": ["word " * (megabytes * 200_000)]}).encode()
    answer = client.ask("/api/runs", method="POST", body=body)
    assert answer.status == 413
    assert f"{MAX_BODY_BYTES:,} bytes" in answer.error
    assert client.session()["texts"] == list(TEXTS)


def test_a_text_longer_than_the_model_reads(client: Client) -> None:
    (last,) = client.runs("flies " * 100)
    assert "102 tokens" in last["error"] and "16" in last["error"]
    assert client.session()["texts"] == list(TEXTS)


def test_an_empty_text(client: Client, serve: Serve) -> None:
    """A framed model reads [CLS] [SEP]; one that adds nothing has nothing to read."""
    assert [token["text"] for token in client.session("")["streams"]["text"]] == ["[CLS]", "[SEP]"]
    (last,) = serve("gpt2", "time flies").runs("")
    assert "give at least one word" in last["error"]


def test_words_of_html_are_text(client: Client) -> None:
    text = '<script> </script> <!-- "&'
    session = client.session(text)
    assert session["texts"] == [text]
    assert [t["text"] for t in session["streams"]["text"][1:5]] == ["<script>", "</script>", "<!--", '"&']


def test_a_pass_that_fails_midway(client: Client, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def failing(self: Model, *texts: str, progress: Callable[[int, int], None]) -> Any:
        progress(1, 2)
        time.sleep(0.1)
        raise RuntimeError("half way\nthere")

    client.session()
    with monkeypatch.context() as patched:
        patched.setattr(Model, "inspect", failing)
        step, last = client.runs("an arrow")
    assert step == {"done": 1, "of": 2}
    assert last["error"].startswith("RuntimeError: half way\nthere; this is a bug in glassformer")
    assert "Traceback" not in caplog.text.replace("DEBUG", "")
    assert client.session("an arrow")["texts"] == ["an arrow"]


def test_memory_that_is_not_enough_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Model, *texts: str, progress: Callable[[int, int], None]) -> Any:
        raise MemoryError

    client.session()
    with monkeypatch.context() as patched:
        patched.setattr(Model, "inspect", failing)
        (last,) = client.runs("an arrow . .")
    assert "not enough memory" in last["error"]


def test_a_bug_in_a_view_is_one_line_and_the_server_lives(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    s = client.session()["id"]
    session = client.look.session
    with monkeypatch.context() as patched:
        patched.setattr(type(session), "head", lambda *_: 1 / 0)
        answer = client.view("row", s=s, map="self", layer=0, head=0, query=0)
    assert answer.status == 500
    assert "ZeroDivisionError" in answer.error and "bug in glassformer" in answer.error
    assert "Traceback" not in answer.error
    assert "Traceback" not in "".join(capfd.readouterr())
    assert client.view("row", s=s, map="self", layer=0, head=0, query=0).status == 200


def test_a_model_without_attention(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve("bert", *TEXTS)

    def refusing(self: Model, *texts: str, progress: Callable[[int, int], None]) -> Any:
        raise UnsupportedError("there is no attention to look at")

    monkeypatch.setattr(Model, "inspect", refusing)
    assert client.runs("an arrow") == [{"error": "there is no attention to look at"}]


def test_who_goes_away_in_the_middle_disturbs_nobody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    own, go = Model.inspect, threading.Event()

    def slow(self: Model, *texts: str, progress: Callable[[int, int], None]) -> Any:
        progress(1, 2)
        assert go.wait(30)
        return own(self, *texts)

    client.session()
    monkeypatch.setattr(Model, "inspect", slow)
    runs = client.look.explorer.runs
    for number in range(3):  # the first is in a block, the others wait for their turn
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
        connection.request(
            "POST", "/api/runs", '{"texts": ["a banana ."]}', {"Authorization": f"Bearer {client.token}"}
        )
        answer = connection.getresponse()
        if not number:
            assert answer.readline() == b'{"done":1,"of":2}\n'
        run = next(run for run in runs._runs.values() if run.texts == ("a banana .",))
        assert not run.stopped
        answer.close(), connection.close()
        deadline = time.monotonic() + 300
        while not run.stopped:  # nobody waits for it any more
            assert time.monotonic() < deadline
            time.sleep(0.01)
    go.set()
    assert client.session("a banana .")["texts"] == ["a banana ."]


def test_a_page_sends_no_text_that_takes_minutes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own long text the user may look at, and stop."""
    monkeypatch.setattr("glassformer.explorer.session_runs.MAX_TEXT_TOKENS", 6)
    client = serve("bert", "time flies like an arrow")
    assert len(client.session()["streams"]["text"]) == 7
    for path, fields in (
        ("runs", {"texts": ["a banana .", "time flies like an arrow"]}),
        ("view/patch", {"s": client.session()["id"], "components": [], "other": "time flies like an arrow"}),
    ):
        answer = client.ask(f"/api/{path}", method="POST", body=json.dumps(fields).encode())
        if path == "runs":
            assert answer.status == 400
            assert "has 7 tokens; a page may send at most 6: shorten it" in answer.error
        else:
            assert answer.status == 400


def test_bytes_that_are_no_http(client: Client) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
        assert raw.recv(64).startswith(b"HTTP/1.1 400")
    assert client.ask("/").status == 200


def test_a_page_opens_no_other_file(serve: Serve, models: dict[str, Model], tmp_path: Path) -> None:
    """Whoever may ask for a text may not have any file of this machine read."""
    own, text = texts_for(models["clip"])
    client = serve("clip", own, text)
    assert client.session(own, "fruit flies")["texts"] == [own, "fruit flies"]
    other = tmp_path / "picture.png"
    other.write_bytes(Path(own).read_bytes())
    asked = json.dumps({"texts": [str(other), text]}).encode()
    answer = client.ask("/api/runs", method="POST", body=asked)
    assert answer.status == 400 and "this page looks at one picture" in answer.error
