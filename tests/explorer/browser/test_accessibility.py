"""The page for people who do not see it, see it large, or want it still (WCAG 2.2 AA)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.explorer.look import Look
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import OVERFLOW, Tab, fits

VIEWS = ("model", "head", "matrix", "neuron")
THEMES = ("light", "dark")
WIDTHS = {1440: 900, 390: 844}
SCREENS = pytest.mark.parametrize(  # each theme and each width; the other two combinations in `make soak`
    "screens",
    [
        pytest.param([("light", 1440), ("dark", 390)], id="two"),
        pytest.param([("light", 390), ("dark", 1440)], id="others", marks=pytest.mark.soak),
    ],
)
MOVING = """() => [...document.querySelectorAll("*")].flatMap((e) => {
    const { transitionDuration, animationDuration, animationName, scrollBehavior } = getComputedStyle(e);
    const long = (text) => text.split(",").some((part) => parseFloat(part) > 0.01);
    const moves = long(transitionDuration) || (animationName !== "none" && long(animationDuration));
    return moves || scrollBehavior === "smooth" ? [e.outerHTML.slice(0, 100)] : [];
})"""
"""What would move if it changed."""
TABLE = re.compile("table$", re.IGNORECASE)
Tabs = Callable[..., Tab]


@SCREENS
@pytest.mark.parametrize("view", VIEWS)
def test_each_view(tab: Tabs, scattered: Look, check: Check, view: str, screens: list[tuple[str, int]]) -> None:
    """Light and dark, wide and narrow; with a link pinned, the table and the explanation open."""
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.open(scattered, view=view, l=1, h=3, q=3, k=2)
    page.locator("#view").get_by_role("button", name=TABLE).click()
    page.get_by_text("How to read this").click()
    page.wait_for_selector("#view table")
    for theme, width in screens:
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.emulate_media(color_scheme=theme)
        check(page, f"{view}, {theme}, {width} wide")


@SCREENS
@pytest.mark.parametrize(
    "writing", [{"g.num_beams": 4}, {"g.do_sample": "true", "g.seed": 5, "shades": "mean", "l": 1}]
)
def test_what_is_written(
    tab: Tabs, story: Look, check: Check, writing: dict[str, Any], screens: list[tuple[str, int]]
) -> None:
    """Beams, and a draw with the words it looked at; a step pinned, the table and the explanation open."""
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.open(story, **{"view": "generate", "g.max_new_tokens": 12, "at": 6} | writing)
    if "shades" in writing:
        page.wait_for_selector(".gen-key")
    page.locator("#view").get_by_role("button", name=TABLE).click()
    page.get_by_text("How to read this").click()
    page.get_by_role("button", name="0.7 / 0.9").click()
    page.wait_for_selector("#view table")
    assert page.locator("#view tbody tr").count() == 12
    assert page.evaluate(MOVING) == []
    for theme, width in screens:
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.emulate_media(color_scheme=theme)
        check(page, f"{writing}, {theme}, {width} wide")
    for width in (320, 720):
        page.set_viewport_size({"width": width, "height": 640})
        fits(page, f"{width} wide")


@pytest.mark.representative("dark")
@pytest.mark.parametrize("theme", THEMES)
def test_dialogs_and_menus(tab: Tabs, served: Look, check: Check, theme: str) -> None:
    one = tab(color_scheme=theme, reduced_motion="reduce")
    page = one.open(served, view="head", l=99, h=2)  # a notice is there too
    check(page, "a notice")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    check(page, "keys")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Find a token").fill("li")
    check(page, "search")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.get_by_role("button", name="Share").click()
    check(page, "the share menu")


def test_three_maps(tab: Tabs, translation: Look, check: Check) -> None:
    one = tab(reduced_motion="reduce")
    one.open(translation, map="cross", q=1, k=0)
    for view in VIEWS:
        check(one.go(view), f"{view} of cross-attention")


def test_the_standalone_page_and_what_it_lacks(tab: Tabs, tiny: Look, check: Check, tmp_path: Path) -> None:
    tiny.save(tmp_path / "page.html", layers=[0])
    one = tab(reduced_motion="reduce")
    check(one.open(tmp_path / "page.html", view="head"), "a file")
    one.page.keyboard.press("]")
    one.page.wait_for_selector(".head-absent")
    check(one.page, "a layer that is not in it")


# -------------------------------------------------------------------------------------------- small and large


WIDEST = f"""() => {{
    const look = () => {{ window.widest = Math.max(window.widest, {OVERFLOW}); }};
    const always = () => {{ look(); requestAnimationFrame(always); }};
    addEventListener("resize", look);
    always();
}}"""
"""Remembers by how many pixels the page was too wide in any frame, and before it was laid out anew."""


def test_320_pixels_need_no_scrolling_sideways(tab: Tabs, served: Look) -> None:
    """Reflow; and at 720, which is 1440 at 200%. Only what has a scroll of its own may be wider."""
    one = tab(viewport={"width": 320, "height": 640})
    page = one.open(served, l=4, h=11, q=3, k=2)
    page.evaluate(WIDEST)
    for view in VIEWS:
        one.go(view)
        for width in (320, 720):
            page.evaluate("window.widest = 0")
            page.set_viewport_size({"width": width, "height": 640})
            one.wait_for_view(view)
            fits(page, f"{view}, {width} wide")
            assert page.evaluate("window.widest") == 0, f"{view}, {width} wide: too wide for a moment after the resize"


def test_who_wants_no_movement_gets_none(tab: Tabs, served: Look) -> None:
    one = tab(reduced_motion="no-preference")
    page = one.open(served, q=3, k=2)
    assert page.evaluate(MOVING), "there is something that moves for others"
    page.emulate_media(reduced_motion="reduce")
    for view in VIEWS:
        one.go(view)
        assert page.evaluate(MOVING) == [], view


# ------------------------------------------------------------------------------------------- tables and speech


def test_each_view_has_its_table(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, l=4, h=11, q=3, k=2)
    tokens = len(served.session.streams["text"])
    for view, size in {"model": 72, "head": tokens + 1, "matrix": tokens, "neuron": tokens}.items():
        one.go(view)
        button = page.locator("#view").get_by_role("button", name=TABLE)
        assert button.get_attribute("aria-pressed") == "false"
        button.click()
        table = page.locator("#view").get_by_role("table")
        assert table.get_by_role("columnheader").count() >= 4
        one.until("document.querySelectorAll('#view tbody tr').length === x", size)
        assert re.search(r"\d", table.locator("tbody tr").nth(2).inner_text())
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        table.wait_for(state="detached")


def test_the_live_region_is_one(tab: Tabs, tiny: Look) -> None:
    one = tab()
    page = one.open(tiny)
    region = page.locator(".said")
    assert region.get_attribute("aria-live") == "polite"


def test_arrow_keys_speak_in_the_model_view(tab: Tabs, served: Look) -> None:
    """Each head is named by what it does; the focus moves, so assistive technology reads it."""
    one = tab()
    page = one.open(served, l=0, h=0)
    page.locator(".model-view [role=gridcell][tabindex='0']").focus()
    for key, position in (
        ("ArrowRight", "layer 0 · head 1"),
        ("ArrowDown", "layer 1 · head 1"),
        ("Home", "layer 0 · head 0"),
    ):
        page.keyboard.press(key)
        name = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert name.startswith(f"{position}: ") and len(name) > len(position) + 8
        assert position in page.get_by_role("complementary", name="The head pointed at").inner_text()


def test_arrow_keys_speak_in_the_head_view(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, view="head", l=4, h=11)
    tokens = [token.text for token in served.session.streams["text"]]
    page.locator(".head-tokens.query [tabindex='0']").focus()
    for position in (1, 2, 3):
        page.keyboard.press("ArrowDown")
        one.wait_for_announcement(rf"layer 4 head 11, from “{tokens[position]}” to .* rank 1 of {len(tokens)}")


def test_arrow_keys_speak_in_the_matrix_view(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, view="matrix", l=4, h=11)
    tokens = [token.text for token in served.session.streams["text"]]
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    one.wait_for_announcement(rf"from {tokens[1]} to {tokens[1]}, .* rank \d+ of {len(tokens)}")
    page.keyboard.press("ArrowDown")
    one.wait_for_announcement(rf"from {tokens[2]} to {tokens[1]}, .* rank \d+ of {len(tokens)}")


def test_arrow_keys_speak_in_the_neuron_view(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, view="neuron", l=4, h=11, q=3)
    page.locator(".neuron-rows [data-key][tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    name = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert re.search(r"^key 1, .*: score .*, probability", name)
    page.keyboard.press("ArrowRight")
    assert "times k" in one.wait_for_announcement("dimension 0: q")
    page.keyboard.press("ArrowRight")
    one.wait_for_announcement("dimension 1: q")
