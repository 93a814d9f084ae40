"""The routes of the patching view: what they answer, what they refuse, and that who goes away ends a sweep."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.explorer.binary_frames import decode
from glassformer.explorer.scene import ViewJob
from glassformer.model import Model
from tests.explorer.client import Client
from tests.explorer.reader import Reader

TEXT, OTHER = "time flies like", "a banana ."


@pytest.fixture(scope="module")
def client(serve: Callable[..., Client]) -> Client:
    return serve("gpt2", TEXT)


@pytest.fixture(scope="module")
def id(client: Client) -> str:
    return str(client.session()["id"])


def lines(client: Client, **fields: Any) -> list[Any]:
    return [json.loads(line) for line in client.post("view/sweep", **fields).body.splitlines()]


def test_a_patch_is_that_of_the_session(client: Client, id: str, models: dict[str, Model]) -> None:
    session = client.session()
    assert session["model"]["predicts"] == "token"
    path = session["maps"][0]["paths"][1]
    answer = client.view("patch", s=id, components=[f"{path}.z[1]", "blocks.0.ffn.out@0"])
    own = models["gpt2"].inspect(TEXT).patch("blocks.1.attn.z[1]", "blocks.0.ffn.out@0")
    assert answer.fields == {**own.to_dict(), "at": 2}


def test_a_sweep_comes_with_its_progress_and_is_the_sessions(client: Client, id: str, models: dict[str, Model]) -> None:
    *progress, last = lines(client, s=id, kind="heads", other=OTHER, mode="swap")
    data, model = client.get("frame", s=id, key=last["ready"]["key"]).fields, models["gpt2"]
    own = model.inspect(TEXT).sweep("heads", source=model.inspect(OTHER)).to_dict()
    assert data["values"] == own["values"] and data["normalised"] == own["normalised"]
    assert all(line["done"] <= line["of"] == 4 for line in progress)
    change = data["changes"][0][0]
    assert data["classes"][str(change["number"])]["name"] and 0 <= change["probability"] <= 1
    assert data["target"] in {each["name"] for each in data["classes"].values()}


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("patch", {"components": ["blocks.0.attn.z[7]"]}, "no head 7"),
        ("patch", {"components": [7]}, "components is [7]; it must be a list of at most 512 names"),
        ("patch", {"components": []}, "no component"),
        ("patch", {}, "'components' is missing"),
        ("patch", {"components": ["attn.z"], "how": "off"}, "'how' is no option"),
        ("patch", {"components": ["attn.z"], "target": "time flies"}, "2 tokens"),
        ("sweep", {"kind": "neurons"}, "the sweep is 'neurons'"),
        ("sweep", {"kind": "heads", "other": "time", "mode": "swap"}, "1 and 3 text tokens"),
        ("sweep", {"kind": "heads", "mode": "swap"}, "no other text"),
        ("sweep", {"kind": "heads", "other": "", "mode": "swap"}, "the text is empty"),
        ("sweep", {"kind": "heads", "position": "last"}, "position is 'last'; it must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused(client: Client, id: str, path: str, fields: dict[str, Any], message: str) -> None:
    assert message in client.view(path, s=id, **fields).error


def test_a_session_that_is_gone(client: Client) -> None:
    assert client.view("sweep", s="0" * 16, kind="heads").status == 410


def test_a_model_without_a_prediction_says_so(serve: Callable[..., Client]) -> None:
    assert serve("bert", TEXT).session()["model"]["predicts"] is None


def test_who_goes_away_ends_the_sweep(client: Client, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, started, jobs = ViewJob.progress, threading.Event(), []

    def waiting(job: ViewJob, done: int, of: int) -> None:
        jobs.append(job)
        started.set()
        assert job._stopped.wait(20)
        own(job, done, of)

    monkeypatch.setattr(ViewJob, "progress", waiting)
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
    body = json.dumps({"s": id, "kind": "residual"})
    connection.request("POST", "/api/view/sweep", body, {"Authorization": f"Bearer {client.token}"})
    answer = connection.getresponse()
    assert started.wait(20)
    connection.close()
    answer.close()
    assert jobs[0].wait(20) and "cancelled" in str(jobs[0].failure)


def stored(page: bytes) -> list[tuple[Any, Any]]:
    """The sweeps of a page: request, and what it answered."""
    reader = Reader(page.decode())
    sweeps = [each for each in reader.json("session")["readings"] if each["view"] == "sweep"]
    return [(each["request"], decode(reader.frames()[f"view/{each['key']}"]).fields) for each in sweeps]


def test_a_saved_page_holds_the_sweeps_that_were_run(serve: Callable[..., Client]) -> None:
    client = serve("gpt2", "fruit flies like")
    id = client.session()["id"]
    assert [request["kind"] for request, _ in stored(client.get("page", s=id).body)] == ["heads"]  # it is quick
    for _ in range(2):
        lines(client, s=id, kind="residual", mode="mean")
    ((request, sweep),) = stored(client.get("page", s=id).body)
    assert (request["kind"], request["mode"], len(sweep["values"])) == ("residual", "mean", 3)
