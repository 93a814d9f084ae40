"""The route view: its numbers are those of the function, another token, by keyboard, for everyone, and in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.explorer.look import Look
from glassformer.inspect.route import route
from glassformer.model import Model
from tests.explorer.browser.conftest import TRANSLATION, Check
from tests.explorer.browser.tab import Tab, fits, value

TEXT = "time flies like an arrow"
Tabs = Callable[..., Tab]


@pytest.fixture(scope="module")
def words(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    return look(models["bert"], TEXT)


def table(one: Tab) -> list[list[str]]:
    return [line.split(",") for line in one.saved("Table (CSV)")[1].decode().splitlines()]


def test_another_token_and_a_head_of_it(tab: Tabs, words: Look, models: dict[str, Model]) -> None:
    one = tab()
    page = one.goto(words, view="route")
    page.locator(".found > p").wait_for()
    session = models["bert"].inspect(TEXT)
    assert page.locator(".found > p").inner_text() == route(session).finding
    page.get_by_label("Token to follow").select_option("2")
    own = route(session, token=2)
    page.get_by_text(own.finding).wait_for()
    assert one.state["q"] == "2"
    heading, *rows = table(one)
    assert heading[3 : 3 + len(own.parts)] == own.parts
    for row, shares, tokens in zip(rows, own.shares.tolist(), own.tokens.tolist(), strict=True):
        assert [float(x) for x in row[3:]] == pytest.approx([*shares, *tokens], abs=1e-5)
    grid = page.get_by_role("application", name="layers × parts")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    said = one.wait_for_announcement("^layer 0, head 0: ")
    share = said.removeprefix("layer 0, head 0: ").partition("%")[0].replace("+", "")
    assert value(share) / 100 == pytest.approx(float(own.shares[0, 1]), abs=6e-3)
    page.keyboard.press("Enter")
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"], one.state["q"]) == ("0", "0", "2")


def test_of_two_streams(tab: Tabs, translation: Look, models: dict[str, Model]) -> None:
    one = tab()
    waiting: list[Any] = []
    one.page.route("**/api/view/route", lambda each: waiting.append(each))
    page = one.goto(translation, view="route")
    session = models["transformer"].inspect(*TRANSLATION)
    assert page.get_by_label("Stream to follow").input_value() == "target", "also while it is computed"
    one.until("document.querySelector('.reading-waiting')")
    waiting.pop().continue_()
    page.unroute("**/api/view/route")
    page.get_by_text(route(session).finding).wait_for()
    page.get_by_label("Stream to follow").select_option("source")
    page.get_by_text(route(session, stream="source").finding).wait_for()
    page.get_by_label("Token to follow").select_option("1")
    page.get_by_text(route(session, stream="source", token=1).finding).wait_for()


def test_it_for_everyone_and_in_a_file(
    tab: Tabs, words: Look, models: dict[str, Model], check: Check, tmp_path: Path
) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.goto(words, view="route")
    page.locator(".found > p").wait_for()
    page.get_by_role("button", name="Data table").click()
    for theme, width, height in (("light", 1440, 900), ("dark", 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        check(page, f"route, {theme}, {width} wide")
        fits(page, f"route, {width} wide")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert one.saved("Picture (PNG")[1].startswith(b"\x89PNG") and b"<svg" in one.saved("Drawing (SVG")[1]
    models["bert"].look(TEXT, view="route", html=tmp_path / "page.html")
    page = one.goto(tmp_path / "page.html", view="route")
    page.get_by_text(route(models["bert"].inspect(TEXT)).finding).wait_for()
    page.get_by_label("Token to follow").select_option("1")
    page.get_by_role("alert").filter(has_text="This saved page does not hold the route of this token").wait_for()
