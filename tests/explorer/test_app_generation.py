"""The routes of the generation view, asked over HTTP: streams of steps, branches, what could follow, attention."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.explorer.traces import MAX_RUNNING, TraceStore
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.model import Model
from tests.explorer.client import Client
from tests.explorer.conftest import texts_for

Serve = Callable[..., Client]
OPTIONS = {"max_new_tokens": 5, "min_new_tokens": 5}


def post(client: Client, path: str, **options: Any) -> Any:
    return client.ask(f"/api/{path}", method="POST", body=json.dumps(options).encode())


def lines_of(client: Client, path: str, **options: Any) -> list[Any]:
    answer = post(client, path, **options)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


def write(client: Client, **options: Any) -> list[Any]:
    return lines_of(client, "write", prompt=None, options={**OPTIONS, **options})


@pytest.fixture(scope="module")
def client(serve: Serve, models: dict[str, Model]) -> Client:
    return serve("llama", "time flies like")


# ----------------------------------------------------------------------------------------------------- a stream


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart", "t5", "transformer", "whisper"])
def test_a_text_is_told_step_by_step(serve: Serve, models: dict[str, Model], family: str) -> None:
    model = models[family]
    client = serve(family, texts_for(model)[0])
    first, *steps, last = write(client)
    description = first["trace"]
    assert description["options"]["max_new_tokens"] == 5 and description["vocabulary"] == model.vocabulary
    assert description["prefix_length"] == len(description["prefix"])
    assert [list(step) for step in steps] == [["step"]] * 5
    nodes = [node for step in steps for node in step["step"]["nodes"]]
    assert [(node["id"], node["parent"], node["depth"]) for node in nodes] == [(i, i - 1, i) for i in range(1, 6)]
    for number, step in enumerate(steps):
        (choice,) = step["step"]["choices"]
        assert choice["at"] == number and len(choice["top"]) == 10
        assert choice["top"][nodes[number]["rank"] - 1]["token"] == nodes[number]["token"]
    (answer,) = last["ready"]["answers"]
    expected = model.generate(client.look.texts[0], return_scores=True, **OPTIONS)
    assert ([answer["text"]], [answer["reason"]]) == (expected.texts, expected.reasons)
    assert (answer["node"], last["ready"]["count"]) == (5, 5)
    (ended,) = last["ready"]["ended"]
    assert ended == {"node": 5, "score": answer["score"], "reason": answer["reason"], "returned": True}


def test_beams_are_told_as_they_live_and_end(client: Client, models: dict[str, Model]) -> None:
    _, *steps, last = write(client, num_beams=3, num_return_sequences=2)
    expected = models["llama"].generate(
        "time flies like", num_beams=3, num_return_sequences=2, return_scores=True, **OPTIONS
    )
    assert [answer["text"] for answer in last["ready"]["answers"]] == expected.texts
    assert [answer["score"] for answer in last["ready"]["answers"]] == expected.scores.tolist()
    assert [location["returned"] for location in last["ready"]["ended"]] == [True, True, False]
    assert [len(step["step"]["live"]) for step in steps] == [3, 3, 3, 3, 0]
    assert steps[-1]["step"]["ended"][0]["node"] == last["ready"]["answers"][0]["node"]


def test_a_seed_that_was_drawn_is_told(client: Client) -> None:
    first, *_, last = write(client, do_sample=True)
    again = write(client, **first["trace"]["options"])
    assert again[-1]["ready"]["answers"] == last["ready"]["answers"]


def test_another_prompt(client: Client, models: dict[str, Model]) -> None:
    *_, last = lines_of(client, "write", prompt="a banana", options=OPTIONS)
    assert last["ready"]["answers"][0]["text"] == models["llama"].generate("a banana", **OPTIONS)


def test_lines_are_sent_while_it_writes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    go, own = threading.Event(), GenerationTrace.write

    def slow(self: GenerationTrace, *values: Any, on_step: Any, **named: Any) -> Any:
        def slow_step(step: Any) -> None:
            on_step(step)
            assert go.wait(30)

        return own(self, *values, on_step=slow_step, **named)

    monkeypatch.setattr(GenerationTrace, "write", slow)
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
    connection.request(
        "POST",
        "/api/write",
        json.dumps({"prompt": None, "options": OPTIONS}),
        {"Authorization": f"Bearer {client.token}"},
    )
    answer = connection.getresponse()
    assert "trace" in json.loads(answer.readline())
    assert json.loads(answer.readline())["step"]["nodes"][0]["depth"] == 1
    go.set()
    assert b"ready" in answer.read().splitlines()[-1]
    connection.close()


def test_a_stream_is_packed_where_it_is_taken(client: Client) -> None:
    body = json.dumps({"prompt": None, "options": OPTIONS}).encode()
    answer = client.ask("/api/write", method="POST", body=body, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert "ready" in json.loads(gzip.decompress(answer.body).splitlines()[-1])


# ------------------------------------------------------------------------------------------------------ branches


def test_a_branch_goes_on_in_the_same_tree(client: Client, models: dict[str, Model]) -> None:
    first, *steps, _ = write(client)
    w, other = first["trace"]["id"], steps[2]["step"]["choices"][0]["top"][4]
    text, *branch, last = lines_of(client, "write", w=w, node=2, tokens=[other["token"]])
    assert text["trace"]["id"] == w
    nodes = [node for step in branch for node in step["step"]["nodes"]]
    assert [node["id"] for node in nodes] == list(range(6, 12))
    assert (nodes[0]["parent"], nodes[0]["chosen"], nodes[1]["chosen"]) == (2, "hand", "method")
    assert nodes[0]["logprob"] == pytest.approx(other["logprob"], abs=1e-5)
    assert last["ready"]["count"] == 11
    begun = [token["id"] for token in first["trace"]["prefix"]]
    begun += [steps[0]["step"]["nodes"][0]["token"], steps[1]["step"]["nodes"][0]["token"], other["token"]]
    expected = models["llama"].generate(torch.tensor([begun]), max_new_tokens=5)
    assert [node["token"] for node in nodes[1:]] == expected[0, len(begun) :].tolist()


def test_a_branch_may_be_written_in_another_way(client: Client) -> None:
    first, *_ = write(client)
    w = first["trace"]["id"]
    *_, last = lines_of(client, "write", w=w, node=1, tokens=[4, 5], options={"max_new_tokens": 2, "num_beams": 2})
    assert len(last["ready"]["ended"]) == 2
    *_, last = lines_of(client, "write", w=w, node=5, tokens=[], options={"max_new_tokens": 1})
    assert last["ready"]["answers"][0]["node"] == last["ready"]["count"]


# ------------------------------------------------------------------------------------------------ what could follow


def test_the_whole_distribution_is_exact(client: Client) -> None:
    first, *steps, _ = write(client)
    w = first["trace"]["id"]
    frame = client.frame("distribution", w=w, node=1)
    V = first["trace"]["vocabulary"]
    assert sorted(frame.arrays["ids"].tolist()) == list(range(V))
    assert bool((np.diff(frame.arrays["logprobs"]) <= 0).all())
    assert float(np.exp(frame.arrays["logprobs"].astype(float)).sum()) == pytest.approx(1, abs=1e-6)
    assert len(frame.arrays["rest_counts"]) == 0 and "ruled" in frame.arrays  # min_new_tokens bans the end
    assert frame.fields["node"] == 1 and len(frame.fields["tokens"]) == V
    top = steps[1]["step"]["choices"][0]["top"]
    assert frame.arrays["ids"][:10].tolist() == [each["token"] for each in top]
    assert frame.arrays["logprobs"][:10].tolist() == [each["logprob"] for each in top]
    assert frame.fields["tokens"][0] == [top[0]["text"], top[0]["piece"]]
    assert frame.fields["entropy"] == steps[1]["step"]["choices"][0]["entropy"]


def test_what_is_not_listed_is_in_bins(client: Client) -> None:
    first, *_ = lines_of(client, "write", prompt=None, options={"max_new_tokens": 2, "do_sample": True, "top_k": 3})
    frame = client.frame("distribution", w=first["trace"]["id"], node=0, count=4)
    assert "ruled" not in frame.arrays and frame.fields["top_k"] == 3 and frame.fields["top_p"] is None
    arrays = {name: array.astype(float) for name, array in frame.arrays.items()}
    rest = float((np.exp(arrays["rest_logprobs"]) * arrays["rest_counts"]).sum())
    assert rest + float(np.exp(arrays["logprobs"]).sum()) == pytest.approx(1, abs=1e-5)
    assert int(arrays["rest_counts"].sum()) + 4 == frame.fields["vocabulary"]


# ----------------------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("family", ["gpt2", "bart", "whisper"])
def test_the_attention_of_what_was_written(serve: Serve, models: dict[str, Model], family: str) -> None:
    client = serve(family, texts_for(models[family])[0])
    first, *_ = write(client)
    w = first["trace"]["id"]
    *_, last = lines_of(client, "attend", w=w, node=5)
    session = last["ready"]
    side, begun = first["trace"]["stream"], first["trace"]["prefix_length"]
    assert session["generated"] == {"w": w, "node": 5, "stream": side, "prefix_length": begun}
    assert len(session["streams"][side]) == begun + 5
    causal = next(result for result in session["maps"] if result["causal"])
    row = client.frame("row", s=session["id"], map=causal["name"], layer=1, head=0, query=begun + 2)
    assert float(row.arrays["probs"].sum()) == pytest.approx(1, abs=1e-5)
    assert float(row.arrays["probs"][begun + 3 :].sum()) == 0
    lines = client.frame(
        "lines",
        s=session["id"],
        map=causal["name"],
        layers=[0, 2],
        heads=[0, 1],
        mix="mean",
        rows=[2, 3],
        count=4,
    )
    assert lines.arrays["probs"].shape[0] == 1
    *_, again = lines_of(client, "attend", w=w, node=5)
    assert again["ready"]["id"] == session["id"]


def test_the_file_of_a_writing(client: Client, page_files: Path) -> None:
    from tests.explorer.reader import Reader

    first, *_ = write(client)
    w = first["trace"]["id"]
    answer = client.get("page", w=w, node=5)
    assert answer.headers["content-disposition"].endswith(f'"glassformer-{w[:8]}.html"')
    reader = Reader(answer.body.decode())
    assert reader.json("trace")["node"] == 5
    assert {f"distribution/{node}" for node in range(5)} <= set(reader.frames())
    assert reader.json("written")["generated"]["w"] == w and "generated" not in reader.session()


# ------------------------------------------------------------------------------------------------ going, stopping


def _slow(monkeypatch: pytest.MonkeyPatch, steps: list[int]) -> None:
    own = GenerationTrace.write

    def slow(self: GenerationTrace, *values: Any, on_step: Any, **named: Any) -> Any:
        def slow_step(step: Any) -> None:
            steps.append(len(steps))
            time.sleep(0.05)
            on_step(step)

        return own(self, *values, on_step=slow_step, **named)

    monkeypatch.setattr(GenerationTrace, "write", slow)


def _write_long(client: Client, **options: int) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, str]:
    """Begin a generation of 500 tokens: its connection, the answer after its first step, and its id."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
    connection.request(
        "POST",
        "/api/write",
        json.dumps({"prompt": None, "options": {"max_new_tokens": 500, "min_new_tokens": 500, **options}}),
        {"Authorization": f"Bearer {client.token}"},
    )
    answer = connection.getresponse()
    w = json.loads(answer.readline())["trace"]["id"]
    answer.readline()
    return connection, answer, w


@pytest.mark.parametrize("beams", [1, 3])
def test_who_goes_away_stops_it_within_a_step(client: Client, monkeypatch: pytest.MonkeyPatch, beams: int) -> None:
    steps: list[int] = []
    _slow(monkeypatch, steps)
    connection, answer, w = _write_long(client, num_beams=beams)
    connection.close()
    answer.close()
    stored = client.look.explorer.traces.get(w)
    deadline = time.monotonic() + 300
    while stored.running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not stored.running
    assert 1 <= len(steps) < 20
    assert client.frame("distribution", w=w, node=1).fields["node"] == 1  # what was written stays


def test_stop_ends_it_and_keeps_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    _slow(monkeypatch, steps)
    connection, answer, w = _write_long(client)
    assert post(client, "stop", w=w).json == {"stopped": True}
    last = json.loads(answer.read().splitlines()[-1])
    connection.close()
    assert last["ready"]["answers"][0]["reason"] == "interrupted"
    assert last["ready"]["count"] == len(steps)
    assert post(client, "stop", w=w).json == {"stopped": False}


def test_only_so_many_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    go, own = threading.Event(), GenerationTrace.write

    def waiting(self: GenerationTrace, *values: Any, **named: Any) -> Any:
        assert go.wait(30)
        return own(self, *values, **named)

    monkeypatch.setattr(GenerationTrace, "write", waiting)
    traces: TraceStore = client.look.explorer.traces
    jobs = [traces.write(traces.begin("time", {})) for _ in range(MAX_RUNNING)]
    answer = post(client, "write", prompt=None, options=OPTIONS)
    assert answer.status == 400 and "4 texts are being generated" in answer.error
    go.set()
    while not all(job.finished for job in jobs):
        time.sleep(0.01)


def test_a_writing_that_is_not_kept_is_gone(client: Client) -> None:
    first, *_ = write(client)
    w = first["trace"]["id"]
    for _ in range(8):
        write(client)
    for options in (w, "0" * 16):
        assert post(client, "write", w=options, node=0, tokens=[1]).status == 410
        assert post(client, "attend", w=options, node=0).status == 410
        assert post(client, "stop", w=options).status == 410
        answer = client.view("distribution", w=options, node=0)
        assert answer.status == 410 and "generate it again" in answer.error
        assert client.get("page", w=options, node=0).status == 410


# ----------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'options' is missing"),
        ({"prompt": None}, "'options' is missing"),
        ({"prompt": 3, "options": {}}, "prompt is 3"),
        ({"prompt": None, "options": []}, "options is"),
        ({"prompt": "", "options": {}}, "the text is empty"),
        ({"prompt": "\ud800", "options": {}}, "not valid Unicode"),
        ({"prompt": None, "options": {}, "w2": 1}, "'w2' is no option"),
        ({"prompt": None, "options": {"beams": 3}}, "takes no 'beams'"),
        ({"prompt": None, "options": {"use_cache": False}}, "takes no 'use_cache'"),
        ({"prompt": None, "options": {"num_beams": 33}}, "at most 32"),
        ({"prompt": None, "options": {"max_new_tokens": 1025}}, "at most 1024"),
        ({"prompt": None, "options": {"max_new_tokens": -1}}, "max_new_tokens is -1"),
        ({"prompt": None, "options": {"temperature": 0.5}}, "add do_sample=True"),
        ({"prompt": None, "options": {"do_sample": True, "temperature": 0}}, "temperature is 0"),
        ({"prompt": None, "options": {"do_sample": True, "top_p": "x"}}, "top_p is 'x'"),
        ({"prompt": None, "options": {"do_sample": True, "temperature": float("inf")}}, "temperature is inf"),
    ],
)
def test_a_request_that_is_none(client: Client, options: dict[str, Any], message: str) -> None:
    answer = post(client, "write", **options)
    assert answer.status == 400
    assert message in answer.error


def test_a_branch_that_is_none(client: Client) -> None:
    first, *_ = write(client)
    w = first["trace"]["id"]
    for options, message in (
        ({"node": 9, "tokens": []}, "no node 9"),
        ({"node": -1, "tokens": []}, "node is -1"),
        ({"node": True, "tokens": []}, "node is True"),
        ({"node": 0}, "'tokens' is missing"),
        ({"node": 0, "tokens": [99]}, "no token 99"),
        ({"node": 0, "tokens": [1.5]}, "tokens[0] is 1.5; it must be a whole number"),
        ({"node": 0, "tokens": [1] * 1025}, "at most 1,024"),
        ({"node": 0, "tokens": [1], "options": 3}, "options is 3"),
    ):
        answer = post(client, "write", w=w, **options)
        assert answer.status == 400 and message in answer.error, answer.body
    for answer, message in (
        (client.view("distribution", w=w), "'node' is missing"),
        (client.view("distribution", w=w, node=7), "no node 7"),
        (client.view("distribution", w=w, node=0, count=0), "count is 0"),
        (client.view("distribution", w=w, node=0, top=3), "'top' is no option"),
        (client.get("page", w=w), "a page is of a session, s, or of a generation trace, w and node"),
        (client.get("page", w=w, node=77), "no node 77"),
    ):
        assert answer.status == 400 and message in answer.error, answer.body
    assert "no node 77" in post(client, "attend", w=w, node=77).error


def test_no_room(serve: Serve) -> None:
    client = serve("gpt2", "time flies")
    *_, last = lines_of(client, "write", prompt=None, options={"max_new_tokens": 60})
    assert "16 positions" in last["error"]


def test_a_model_that_writes_nothing(serve: Serve) -> None:
    client = serve("bert", "time flies")
    assert client.session()["model"]["can_generate"] is False
    answer = post(client, "write", prompt=None, options={})
    assert answer.status == 400 and "language-model head" in answer.error


def test_a_page_listens_to_no_other_file(serve: Serve, models: dict[str, Model], tmp_path: Path) -> None:
    own = texts_for(models["whisper"])[0]
    client = serve("whisper", own)
    other = tmp_path / "sound.wav"
    other.write_bytes(Path(own).read_bytes())
    answer = post(client, "write", prompt=str(other), options={})
    assert answer.status == 400 and "this page listens to one sound" in answer.error


def test_without_the_key(client: Client) -> None:
    for path in ("write", "attend", "stop", "view/distribution"):
        assert client.ask(f"/api/{path}", method="POST", headers={"Authorization": None}).status == 401
    for path in ("write", "attend", "stop"):
        assert client.ask(f"/api/{path}").status == 405
