"""What a saved lesson holds: the requests of its steps as a page makes them, each once, and a text that is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

import glassformer
from glassformer.explorer import readings
from glassformer.explorer.binary_frames import decode
from glassformer.explorer.lesson import Lesson, read_lesson
from glassformer.explorer.lesson_views import lesson_views
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.scene import Scene
from glassformer.explorer.session_runs import SessionRuns
from glassformer.files.schema import parse
from tests.explorer.client import Client
from tests.explorer.reader import Reader

pytestmark = pytest.mark.usefixtures("page_files")
TEXT = "today the keys near the cabinet"


@contextmanager
def looking(lesson: Lesson | None, checkpoint: str = "agreement", text: str = TEXT) -> Iterator[Look]:
    model = glassformer.load(f"package:glassformer/checkpoints/{checkpoint}")
    with Look(SessionRuns(replace(model.session_factory(), lesson=lesson)), [text], InitialView(tour=1)) as look:
        look.run.result()
        yield look


def scene_of(look: Look) -> Scene:
    return look.explorer.jobs.scene(look.run.id)


def test_the_tour_of_a_page_asks_nothing_more() -> None:
    with looking(None) as look:
        assert lesson_views(scene_of(look)) == ([], None)


def test_steps_that_ask_the_same_are_answered_once_at_the_token_of_the_step() -> None:
    with looking(read_lesson("left-out")) as look:
        found, generated = lesson_views(scene_of(look))
    assert generated is None and [reading.view for reading in found] == ["lens", "sweep", "sweep", "sweep"]
    for reading, kind in zip(found[1:], ("feed-forward", "attention", "heads"), strict=True):
        expected = {"kind": kind, "mode": "zero", "map": "self", "position": 5, "direction": "denoising"}
        assert expected.items() <= reading.request.items()


def test_a_lesson_on_generation_holds_a_text_and_the_pass_of_its_prompt() -> None:
    with looking(read_lesson("generation"), "shakespeare", "ROMEO: I will") as look:
        _, generated = lesson_views(scene_of(look))
        page = Reader(str(look.page()))
    assert generated is not None and generated[1] == 0
    session = page.json("session")
    assert session["texts"] == ["ROMEO: I will"]
    assert page.json("trace")["ready"]["count"] == 40 and page.json("trace")["node"] == 0


def test_a_page_from_the_share_menu_holds_the_lesson_and_the_text_that_was_written() -> None:
    step = {"title": "-", "text": "-", "view": "patch"}
    lesson = parse(Lesson, {"title": "Mine", "texts": ["ROMEO: I will"], "steps": [step, {**step, "view": "generate"}]})
    with looking(lesson, "shakespeare", "ROMEO: I will") as look:
        look.serve()
        client = Client(look)
        body = json.dumps({"prompt": None, "options": {"max_new_tokens": 3}}).encode()
        written = client.ask("/api/write", method="POST", body=body).body.splitlines()
        address = f"/api/page?w={json.loads(written[0])['trace']['id']}&node=3"
        page = Reader(client.ask(address).body.decode())
        of_the_text = Reader(client.ask(f"/api/page?s={client.session()['id']}").body.decode())
    for saved, tokens in ((page, 3), (of_the_text, 40)):
        session = saved.json("session")
        assert session["texts"] == ["ROMEO: I will"] and session["start"] == "v=1&tour=1"
        assert {"sweep", "tour"} <= {each["view"] for each in session["readings"]}
        assert saved.json("trace")["ready"]["count"] == tokens


def test_what_cannot_be_computed_of_a_text_leaves_its_step_to_say_so() -> None:
    steps = [{"title": "-", "text": "-", "view": "attribution", "options": {"r.target": "no such token"}}]
    with looking(parse(Lesson, {"title": "Mine", "texts": [TEXT], "steps": steps})) as look:
        assert lesson_views(scene_of(look)) == ([], None)


def test_the_tour_of_a_saved_page_goes_around_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def views(look: Look) -> list[str]:
        page = Reader(str(look.page()))
        (key,) = (each["key"] for each in page.json("session")["readings"] if each["view"] == "tour")
        return [step["address"].partition("&")[0] for step in decode(page.frames()[f"view/{key}"]).fields["steps"]]

    with looking(None) as look:
        assert {"view=lens", "view=attribution"} <= set(views(look))
        monkeypatch.setattr(readings, "QUICK", 0)
        assert not {"view=lens", "view=attribution"} & set(views(look))
