"""A lesson on the page: a question before its numbers, a part that is left out live, and the file that holds both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import glassformer
from glassformer.explorer.lesson import Lesson
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.tour import without
from glassformer.files.schema import parse
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

TEXT = "today the keys near the cabinet"
LESSON = {
    "title": "<i>Mine</i>",
    "texts": [TEXT],
    "steps": [
        {
            "title": "Guess <script>",
            "text": "Layer **{layer}** of {layers}",
            "layer": 1,
            "head": 0,
            "list": "attention",
            "question": {"ask": "How many tokens?", "number": "tokens", "within": 0, "reveal": "Right *so*."},
            "without": ["{block}.attn.out"],
            "code": "{block}.ffn",
        },
        {
            "title": "Choose",
            "text": "-",
            "view": "lens",
            "question": {"ask": "Which is larger?", "choices": {"layers": "layers", "tokens": "tokens"}},
        },
    ],
}


SHOWN = {
    "generate": ".gen-foot .hint",
    "patch": ".patch-picture",
    "lens": ".lens-grid",
    "attribution": ".attr-words",
    "masks": ".masks-small",
    "quantisation": ".quant-body",
    "difference": ".diff-body",
    "neuron": ".neuron-z canvas",
}
"""What is on screen where a view has its numbers."""

ABSENT = re.compile("This page holds (no|one writing)|This saved page does not hold|is not in this page")
"""What a page says that lacks something."""


@pytest.fixture(scope="module")
def served() -> Iterator[Look]:
    model = glassformer.load("package:glassformer/checkpoints/agreement")
    factory = replace(model.session_factory(), lesson=parse(Lesson, json.loads(json.dumps(LESSON))))
    with Look(SessionRuns(factory), [TEXT], InitialView(tour=1)) as look:
        look.serve()
        yield look


def test_a_question_comes_before_its_numbers_and_a_part_is_left_out(
    tab: Callable[..., Tab], served: Look, check: Check, tmp_path: Path
) -> None:
    path = tmp_path / "lesson.html"
    served.save(path)
    one = tab(reduced_motion="reduce")
    page = one.page
    for address in (served.url, path.as_uri()):
        page.goto("about:blank")
        page.goto(address)
        page.get_by_role("heading", name="1. Guess <script>").wait_for()
        assert page.locator(".tour > p b").inner_text() == "1" and page.locator(".tour > ol").count() == 0
        assert not page.locator("#view").is_visible()  # it would show the answer
        assert page.locator(".tour blockquote").inner_text() == TEXT  # which the question is about
        check(page, "a question of a lesson")
        field = page.get_by_label("Your answer")
        field.fill("12")
        field.press("ArrowRight")  # moves the cursor, not the tour
        field.press("Backspace")
        field.press("Backspace")
        field.fill("6")
        field.press("Enter")
        page.get_by_text("Right: 6. Right so.").wait_for()
        assert page.locator("#view").is_visible()
        assert page.locator(".tour > ol li").count() == 6
        page.get_by_role("button", name="Leave out the attention of layer 1").click()
        shown = without(served.session, components=["blocks.1.attn.out"], stream="text", token=5)
        page.get_by_text(f"cosine to its vector with it: {shown['cosine']:.3f}").wait_for()
        page.locator(".tour summary").click()
        assert "def forward" in page.locator(".tour details pre").inner_text()
        check(page, "a step of a lesson")
        page.get_by_role("button", name="Next", exact=True).click()
        page.get_by_role("heading", name="2. Choose").wait_for()
        page.get_by_role("button", name="layers", exact=True).click()
        page.get_by_text("No: tokens.").wait_for()
        page.keyboard.press("ArrowLeft")  # the button that had the focus is gone
        page.get_by_role("heading", name="1. ").wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page, "a lesson on a phone")


def test_the_sliders_follow_the_options_of_a_step(tab: Callable[..., Tab], models: dict[str, Model]) -> None:
    steps = [
        {"title": title, "text": "-", "view": "generate", "options": options}
        for title, options in (("As it is", {}), ("Colder", {"g.temperature": "0.5", "at": "1"}))
    ]
    lesson = parse(Lesson, {"title": "Temperature", "texts": ["time flies"], "steps": steps})
    factory = replace(models["llama"].session_factory(), lesson=lesson)
    with Look(SessionRuns(factory), ["time flies"], InitialView(tour=1)) as look:
        look.serve()
        page = tab(reduced_motion="reduce").page
        page.goto(look.url)
        temperature = page.locator("label", has_text="temperature").locator("input[type=range]")
        temperature.wait_for()
        assert temperature.input_value() == "1"
        page.get_by_role("button", name="Next").click()
        page.get_by_role("heading", name="2. Colder").wait_for()
        page.wait_for_function("(it) => it.value === '0.5'", arg=temperature.element_handle())
        temperature.fill("0.8")
        page.get_by_role("button", name="Back").click()
        page.get_by_role("heading", name="1. As it is").wait_for()
        page.wait_for_function("(it) => it.value === '1'", arg=temperature.element_handle())


def test_a_saved_lesson_holds_what_each_of_its_steps_shows(tab: Callable[..., Tab], tmp_path: Path) -> None:
    """Whatever the options of a step ask of its view: a page has no model to compute it later."""
    views: list[tuple[str, dict[str, str]]] = [
        ("generate", {"at": "1"}),
        ("generate", {"g.temperature": "0.5", "at": "2"}),
        ("patch", {}),
        ("patch", {"p.kind": "attention", "p.mode": "mean"}),
        ("patch", {"p.mode": "swap", "p.other": "today the key near the cabinet", "p.align": "end"}),
        ("lens", {"r.follow": "3"}),
        ("attribution", {"r.target": "are"}),
        ("masks", {"c.pattern": "band"}),
        ("quantisation", {"c.bits": "4", "c.zero": "affine"}),
        ("difference", {"c.other": "today the key near the cabinet"}),
        ("neuron", {}),
    ]
    steps = [
        {"title": view, "text": "-", "view": view, "options": options, "layer": 1, "head": 0, "query": "cabinet"}
        for view, options in views
    ]
    lesson = parse(Lesson, {"title": "Mine", "texts": [TEXT], "steps": steps})
    model = glassformer.load("package:glassformer/checkpoints/agreement")
    with Look(SessionRuns(replace(model.session_factory(), lesson=lesson)), [TEXT], InitialView(tour=1)) as look:
        look.save(tmp_path / "lesson.html")
    for first in (1, 2):  # also where a link opens the step that asks for other options than the text was written with
        one = tab(reduced_motion="reduce")
        page = one.page
        page.goto(f"{(tmp_path / 'lesson.html').as_uri()}#tour={first}")
        for number, (view, _) in enumerate(views[first - 1 :], first):
            page.get_by_role("heading", name=f"{number}. {view}").wait_for()
            page.wait_for_selector(f"#tab-{view}[aria-selected=true]")
            page.locator(SHOWN[view]).first.wait_for()
            assert page.get_by_text(ABSENT).count() == 0, number
            page.get_by_role("button", name="Next" if number < len(views) else "Done", exact=True).click()
