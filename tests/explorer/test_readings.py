"""The routes and frames of the lens and of attributions: the session's numbers, with progress, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.explorer.binary_frames import decode
from glassformer.explorer.readings import ReadingJob, quick_readings, read
from glassformer.explorer.session_runs import PassStopped
from glassformer.inspect.outputs import reads_layers
from glassformer.model import Model, load
from tests.explorer.client import Answer, Client

TEXT = "time flies like"


@pytest.fixture(scope="module")
def client(serve: Callable[..., Client]) -> Client:
    return serve("gpt2", TEXT)


@pytest.fixture(scope="module")
def id(client: Client) -> str:
    return str(client.session()["id"])


def post(client: Client, path: str, **fields: Any) -> Answer:
    return client.ask(f"/api/{path}", method="POST", body=json.dumps(fields).encode())


def frame(client: Client, path: str, id: str, **fields: Any) -> Any:
    *_, last = [json.loads(line) for line in post(client, path, s=id, **fields).body.splitlines()]
    return decode(client.ask(f"/api/reading?s={id}&key={last['ready']['key']}").body)


def test_the_lens_is_that_of_the_session(client: Client, id: str, models: dict[str, Model]) -> None:
    sent, own = frame(client, "lens", id, target=7), models["gpt2"].inspect(TEXT).lens(target=7)
    assert sent.kind == "lens" and client.session()["model"]["reads"]
    for name in ("ids", "logprobs", "entropy", "kl", "ranks", "target_logprobs"):
        assert np.array_equal(sent.arrays[name], getattr(own, name).numpy()), name
    assert sent.fields["rows"] == own.rows and sent.fields["names"] == own.about.column_names
    assert dict(sent.fields["outputs"])[7] == own.about.name(7)
    assert {number for number, _ in sent.fields["outputs"]} == {*own.ids.flatten().tolist(), 7}


def test_an_attribution_is_that_of_the_session(client: Client, id: str, models: dict[str, Model]) -> None:
    sent, own = frame(client, "attribution", id, target=7, at=1), models["gpt2"].inspect(TEXT).attribute(7, at=1)
    assert torch.equal(torch.tensor(sent.arrays["integrated/text"]), own.integrated["text"])
    assert torch.allclose(torch.tensor(sent.arrays["heads/self"]), own.by_token["self"])
    assert sent.fields["target"] == own.to_dict()["target"] and len(sent.fields["parts"]) == len(own.parts)
    assert sent.fields["gap"] == pytest.approx(own.gap, abs=1e-6) and sent.fields["notes"]


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("lens", {"target": 100_000}, "there is no output"),
        ("lens", {"target": "zebra"}, "vocabulary"),
        ("lens", {"target": []}, "target"),
        ("attribution", {"at": "zebra"}, "the text has no word"),
        ("attribution", {"at": 99}, "there is no token 99"),
        ("attribution", {"other": 1}, "other"),
    ],
)
def test_what_is_refused(client: Client, id: str, path: str, fields: dict[str, Any], message: str) -> None:
    assert message in post(client, path, s=id, **fields).body.decode()


def test_a_reading_that_is_not_there(client: Client, id: str) -> None:
    assert client.ask(f"/api/reading?s={id}&key=nothing").status == 410
    assert post(client, "lens", s="elsewhere").status == 410


def test_who_goes_away_ends_it(models: dict[str, Model]) -> None:
    job = ReadingJob(models["gpt2"].inspect(TEXT), "attribution", {"target": None, "at": None, "against": None})
    job.stop()
    with pytest.raises(PassStopped):
        job.work()


def test_a_page_to_be_saved_holds_what_is_quick(models: dict[str, Model]) -> None:
    session = models["gpt2"].inspect(TEXT)
    lens, attribution = quick_readings(session)
    assert (lens.kind, attribution.kind) == ("lens", "attribution") and lens.key != attribution.key
    assert read(session, "lens", {"target": None}).frame == lens.frame


def test_a_filler_of_gaps_without_a_gap_has_a_lens_alone(folders: dict[str, Path]) -> None:
    model = load(folders["bert"], task="fill-mask")
    assert [each.kind for each in quick_readings(model.inspect("time flies"))] == ["lens"]
    assert reads_layers(model.network) and not reads_layers(load(folders["bert"], task="feature-extraction").network)
