"""The difference view: another text, another model, its numbers, choices and a saved page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

TEXT, OTHER = "time flies like an arrow", "fruit flies like an arrow"
Tabs = Callable[..., Tab]


def percent(x: float) -> str:
    """As the page writes it."""
    return "0%" if x == 0 else f"{100 * x:.0f}%" if x >= 0.0995 else f"{100 * x:.1f}%"


@pytest.fixture(scope="module")
def words(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    return look(models["bert"], TEXT)


def test_another_text(tab: Tabs, words: Look, models: dict[str, Model], check: Check) -> None:
    model, one = models["bert"], tab()
    page = one.goto(words, view="difference")
    page.get_by_text("Write another text").wait_for()
    check(page, "nothing to compare with")
    page.get_by_role("button", name="the same words in reverse").click()
    page.get_by_role("application", name=re.compile("^Vectors")).wait_for()
    assert one.state["c.other"] == " ".join(reversed(TEXT.split()))
    page.get_by_role("textbox", name="other text").fill(OTHER)
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("application", name=re.compile("^Vectors")).wait_for()
    assert one.state["c.other"] == OTHER
    found = model.inspect(TEXT).difference(model.inspect(OTHER))
    level, token = found.first() or (0, 0)
    sentence = page.locator(".found > p").inner_text()
    where = found.levels[level] if level else "the embedding"
    assert sentence.startswith(f"The texts part at {where}, at “{' / '.join(found.queries[token])}”")
    assert percent(float(found.distance[level, token])) in sentence
    layer, head = divmod(int(found.heads.argmax()), found.heads.shape[1])
    page.get_by_role("heading", name=f"Layer {layer}, head {head}: where to").wait_for()
    check(page, "another text")

    heads = page.get_by_role("application", name=re.compile("^Heads"))
    heads.focus()
    page.keyboard.press("ArrowDown")
    one.wait_for_announcement("of its attention moved")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("where to")).wait_for()
    assert re.fullmatch(r"\d+\.\d+", one.state["c.head"])

    page.get_by_role("button", name="Data table").click()
    rows = page.locator(".data-table tbody tr")
    assert rows.count() == found.distance.numel() + found.heads.numel()
    page.get_by_role("radio", name="10%").check()
    assert one.state["c.threshold"] == "10%"
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")
    check(page, "narrow")


def test_each_text_of_a_pair_is_offered_alone(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.goto(served, view="difference")
    page.get_by_role("button", name="the second text alone").click()
    page.get_by_role("application", name=re.compile("^Vectors")).wait_for()
    assert one.state["c.other"] == served.session.texts[1]
    assert page.get_by_role("textbox", name="other text").input_value() == served.session.texts[1]


def test_a_precision_is_one_click_away(tab: Tabs, words: Look, models: dict[str, Model], check: Check) -> None:
    one = tab()
    page = one.goto(words, view="difference")
    page.get_by_role("radio", name="int8").check()
    page.get_by_role("application", name=re.compile("^Vectors")).wait_for()
    assert one.state["c.precision"] == "int8" and page.get_by_role("textbox", name="other text").count() == 0
    other = words.explorer.runs.factory.in_precision("int8")
    found = models["bert"].inspect(TEXT).difference(other.inspect(TEXT))
    sentence = page.locator(".found > p").inner_text()
    level, token = found.first() or (0, 0)
    assert sentence.startswith("int8 parts from float32 at ") or "No vector of int8" in sentence
    assert percent(float(found.distance[level, token] if found.first() else found.distance.max())) in sentence
    check(page, "a precision")
    page.get_by_role("radio", name="another text").check()
    page.get_by_role("textbox", name="other text").fill(OTHER)
    page.get_by_role("button", name="Compare").click()
    one.wait_for_announcement("The texts part at")
    assert one.state["c.other"] == OTHER and "c.precision" not in one.state


def test_another_model_and_a_saved_page(tab: Tabs, models: dict[str, Model], tmp_path: Path, check: Check) -> None:
    model, one = models["bert"], tab(color_scheme="dark")
    with model.look(TEXT, against="bfloat16", browser=False, block=False) as served:
        page = one.goto(served, view="difference")
        page.get_by_role("application", name=re.compile("^Vectors")).wait_for()
        own = model.inspect(TEXT)
        other = served.explorer.runs.factory.against
        assert other is not None and other.names == ("float32", "bfloat16")
        found = own.difference(other.inspect(TEXT))
        sentence = page.locator(".found > p").inner_text()
        assert percent(float(found.distance.max())) in sentence or sentence.startswith("bfloat16 parts from float32")
        assert 0 < float(found.distance.max()) < 0.5 and torch.isfinite(found.shifts).all()
        check(page, "another precision, dark")
        one.page.goto("about:blank")
    saved = tmp_path / "page.html"
    model.look(TEXT, against="bfloat16", view="difference", html=saved)
    page = one.goto(saved, view="difference")
    page.get_by_role("application", name=re.compile("^Heads")).wait_for()
    assert page.locator(".found > p").inner_text() == sentence
    assert page.get_by_role("button", name="Compare").count() == 0
