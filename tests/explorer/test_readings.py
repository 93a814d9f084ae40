"""The routes and frames of the lens and of attributions: the session's numbers, with progress, and what they refuse."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.explorer import readings
from glassformer.explorer.binary_frames import decode
from glassformer.explorer.describe import model_facts
from glassformer.explorer.readings import comparisons, default_readings, quick_readings, read
from glassformer.explorer.registry import Reading, View, request_of
from glassformer.explorer.scene import ViewJob
from glassformer.explorer.session_runs import PassStopped, SessionRun
from glassformer.explorer.standalone_page import StandalonePage
from glassformer.inspect.attribution import attribute
from glassformer.inspect.options import LensRequest
from glassformer.inspect.outputs import reads_layers
from glassformer.model import Model, load
from tests.e2e.tiny_models import make_folder
from tests.explorer.client import Client

TEXT = "time flies like"


@pytest.fixture(scope="module")
def client(serve: Callable[..., Client]) -> Client:
    return serve("gpt2", TEXT)


@pytest.fixture(scope="module")
def id(client: Client) -> str:
    return str(client.session()["id"])


def test_the_lens_is_that_of_the_session(client: Client, id: str, models: dict[str, Model]) -> None:
    sent, own = client.frame("lens", s=id, target=7), models["gpt2"].inspect(TEXT).lens(target=7)
    assert sent.kind == "lens" and client.session()["model"]["reads"]
    for name in ("ids", "logprobs", "entropy", "kl", "ranks", "target_logprobs"):
        assert np.array_equal(sent.arrays[name], getattr(own, name).numpy()), name
    assert sent.fields["rows"] == own.rows and sent.fields["names"] == own.about.column_names
    assert dict(sent.fields["outputs"])[7] == own.about.name(7)
    assert {number for number, _ in sent.fields["outputs"]} == {*own.ids.flatten().tolist(), 7}


def test_a_page_reads_the_columns_that_it_shows(client: Client, id: str, models: dict[str, Model]) -> None:
    sent, own = client.frame("lens", s=id, first=1, count=2), models["gpt2"].inspect(TEXT).lens(first=1, count=2)
    assert np.array_equal(sent.arrays["ids"], own.ids.numpy()) and sent.arrays["ids"].shape[1] == 2
    assert sent.fields["first"] == 1 and len(sent.fields["names"]) > 2 and sent.arrays["norms"].shape[1] > 2


def test_the_lens_of_a_long_text_is_small(tmp_path: Path) -> None:
    """512 tokens, 12 layers, ten tokens of each prediction, of a model whose numbers hardly compress: what is sent."""
    model = load(make_folder(tmp_path / "deep", "gpt2", n_layer=12, n_positions=512))
    session = model.inspect(" ".join(["time flies like an arrow"] * 102))
    lens = session.lens()
    assert lens.ids.shape == (13, 510, 10)
    frame = read(session, "lens", LensRequest()).frame
    assert 100_000 < len(zlib.compress(frame, 1)) <= 600_000


def test_an_attribution_is_that_of_the_session(client: Client, id: str, models: dict[str, Model]) -> None:
    sent, own = client.frame("attribution", s=id, target=7, at=1), models["gpt2"].inspect(TEXT).attribute(7, at=1)
    assert torch.equal(torch.tensor(sent.arrays["shares/text"]), own.shares["text"])
    assert torch.allclose(torch.tensor(sent.arrays["heads/self"]), own.by_token["self"])
    assert sent.fields["target"] == own.to_dict()["target"] and len(sent.fields["parts"]) == len(own.parts)
    assert sent.fields["gap"] == pytest.approx(own.gap, abs=1e-6) and sent.fields["notes"]


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("lens", {"target": 100_000}, "there is no output"),
        ("lens", {"target": "zebra"}, "vocabulary"),
        ("lens", {"target": []}, "target"),
        ("lens", {"first": 99}, "first is 99"),
        ("lens", {"count": 0}, "count"),
        ("attribution", {"at": "zebra"}, "the text has no word"),
        ("attribution", {"at": 99}, "there is no token 99"),
        ("attribution", {"other": 1}, "other"),
    ],
)
def test_what_is_refused(client: Client, id: str, path: str, fields: dict[str, Any], message: str) -> None:
    assert message in client.view(path, s=id, **fields).error


def test_a_reading_that_is_not_there(client: Client, id: str) -> None:
    assert client.get("frame", s=id, key="nothing").status == 410
    assert client.view("lens", s="elsewhere").status == 410


def test_who_goes_away_ends_it(client: Client, id: str) -> None:
    jobs = client.look.explorer.jobs
    view, request = request_of("attribution", {})

    def make(job: ViewJob) -> Reading:
        return Reading("attribution", {}, view.frame("attribution", jobs.scene(id, job), request))

    job = ViewJob(make, threading.Lock())
    job.stop()
    with pytest.raises(PassStopped):
        job.work()


def test_the_same_view_is_computed_once_and_kept_with_its_session(client: Client, id: str) -> None:
    jobs = client.look.explorer.jobs
    view, request = request_of("lens", {"target": 5})
    first, second = jobs.begin(id, "lens", view, request), jobs.begin(id, "lens", view, request)
    assert first is second or first.finished
    key = second.result().key
    assert jobs.frame(id, key) == second.result().frame


def test_jobs_of_one_view_run_one_after_another(client: Client, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attribution takes tens of megabytes; a page that asks for a hundred at once took gigabytes."""
    running: list[str] = []
    most: dict[str, int] = {}

    def slow(self: View, name: str, *_: Any) -> bytes:
        running.append(name)
        most[name] = max(most.get(name, 0), running.count(name))
        time.sleep(0.02)
        running.remove(name)
        return b"frame"

    monkeypatch.setattr(View, "frame", slow)
    jobs = client.look.explorer.jobs
    views = [
        (name, *request_of(name, {"target": 1 + number})) for number in range(5) for name in ("lens", "attribution")
    ]
    begun = [jobs.begin(id, *view) for view in views]
    assert [job.result().frame for job in begun] == [b"frame"] * 10
    assert most == {"lens": 1, "attribution": 1}


def test_a_view_that_ends_while_a_page_is_saved_does_not_disturb_it() -> None:
    run = SessionRun("id", (), lambda progress: None, threading.Lock())  # type: ignore[arg-type, return-value] # no pass
    for number in range(3):
        run.keep(Reading("lens", {"target": number}, b""), 3)
    saved = iter(run.readings.values())
    first = next(saved)
    run.keep(Reading("lens", {"target": 3}, b""), 3)
    assert [each.request["target"] for each in (first, *saved)] == [0, 1, 2]
    assert [each.request["target"] for each in run.readings.values()] == [1, 2, 3]


def test_a_page_to_be_saved_holds_what_is_quick(models: dict[str, Model]) -> None:
    session = models["gpt2"].inspect(TEXT)
    lens, attribution = quick_readings(session)
    assert (lens.view, attribution.view) == ("lens", "attribution") and lens.key != attribution.key
    assert read(session, "lens", LensRequest()).frame == lens.frame
    others = default_readings(session, wanted=None, has=())
    assert {"masks", "architecture", "route"} <= {each.view for each in others}
    assert len(others) == len({each.key for each in others})


def test_a_page_to_be_saved_holds_the_route_of_the_token_that_it_opens_with(minilm: Path) -> None:
    session = glassformer.load(minilm).inspect("time flies like an arrow", "fruit flies like a banana")
    pinned = session.findings[0].query
    routes = [each.request["token"] for each in default_readings(session, wanted=None, has=()) if each.view == "route"]
    assert pinned is not None and routes == [None, pinned]


def test_a_saved_page_has_the_whole_lens_where_that_is_quick_and_else_the_columns_that_were_looked_at(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["gpt2"]
    session = model.inspect(TEXT)
    part = read(session, "lens", LensRequest(first=1, count=2))

    def lenses() -> list[dict[str, Any]]:
        page = StandalonePage(session, model_facts(model), [TEXT], readings=[part], start="view=lens")
        "".join(page.parts())
        return [each.request for each in page.readings if each.view == "lens"]

    assert [each["count"] for each in lenses()] == [2, None]
    monkeypatch.setattr(readings, "QUICK", 0)
    assert [each["count"] for each in lenses()] == [2]


def test_a_page_of_a_long_text_holds_no_route_that_takes_many_passes(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = models["gpt2"].inspect(TEXT)
    monkeypatch.setattr(readings, "QUICK", 2 * readings._size(session))
    kept = [each.view for each in default_readings(session, wanted=None, has=())]
    assert "architecture" in kept and "route" not in kept
    assert "route" in [each.view for each in default_readings(session, wanted="route", has=())]


def test_an_attribution_of_many_gradients_has_the_first_of_them_on_a_page_that_does_not_open_with_it(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = models["gpt2"].inspect(TEXT)
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)  # never near enough: 512 gradients
    monkeypatch.setattr(attribute, "MAX_TOKENS", 0)
    per_gradient = readings.GRADIENT_PASSES * readings._size(session)
    monkeypatch.setattr(readings, "QUICK", 60 * per_gradient)

    def gradients(wanted: str | None = None) -> int:
        lens, attribution = quick_readings(session, wanted=wanted)
        assert (lens.view, attribution.view) == ("lens", "attribution")
        return int(decode(attribution.frame).fields["steps"])

    assert gradients() == attribute.STEPS, "as a page that is served begins"
    assert gradients(wanted="attribution") == attribute.MAX_STEPS
    monkeypatch.setattr(readings, "QUICK", 600 * per_gradient)
    assert gradients() == attribute.MAX_STEPS


def test_a_page_of_a_longer_text_holds_heads_and_layers_without_words(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = models["gpt2"].inspect(TEXT)
    monkeypatch.setattr(readings, "QUICK", 10 * readings._size(session))
    (attribution,) = (each for each in quick_readings(session) if each.view == "attribution")
    assert attribution.request["steps"] == 0 and not attribution.whole and not comparisons(session, [attribution])
    monkeypatch.setattr(readings, "QUICK", 2 * readings._size(session))
    assert not [each for each in quick_readings(session) if each.view == "attribution"]


def test_a_page_of_a_model_that_writes_compares_with_the_next_most_likely_token(models: dict[str, Model]) -> None:
    session = models["gpt2"].inspect(TEXT)
    quick = quick_readings(session)
    (compared,) = comparisons(session, quick)
    own, other = (decode(each.frame).fields["target"] for each in (quick[1], compared))
    assert (other["name"], other["against"]) == (own["name"], f"“{own['likely'][1][0]}”")
    assert comparisons(session, quick[:1]) == []


def test_a_filler_of_gaps_without_a_gap_has_a_lens_alone(folders: dict[str, Path]) -> None:
    model = load(folders["bert"], task="fill-mask")
    assert [each.view for each in quick_readings(model.inspect("time flies"))] == ["lens"]
    assert reads_layers(model.network) and not reads_layers(load(folders["bert"], task="feature-extraction").network)


def test_a_view_whose_session_was_evicted_meanwhile_is_gone(serve: Callable[..., Client]) -> None:
    client = serve("gpt2", TEXT, max_stored=1)
    id, jobs = client.session()["id"], client.look.explorer.jobs
    view, request = request_of("lens", {})
    own = View.frame

    def slow(self: View, *arguments: Any) -> bytes:
        frame = own(self, *arguments)
        client.session("a banana .")
        return frame

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(View, "frame", slow)
        key = jobs.begin(id, "lens", view, request).result().key
    assert client.get("frame", s=id, key=key).status == 410
