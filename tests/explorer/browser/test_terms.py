"""A word with dots under it says what it means: to a pointer, a finger and the keyboard, served and in a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.explorer.glossary import GLOSSARY
from glassformer.explorer.look import Look
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]


@pytest.mark.parametrize("host", ["served", "file"])
def test_a_word_is_explained_where_it_stands(tab: Tabs, served: Look, check: Check, tmp_path: Path, host: str) -> None:
    target: Look | Path = served
    if host == "file":
        target = tmp_path / "page.html"
        served.save(target, layers=[4])
    one = tab(viewport={"width": 390, "height": 844}, has_touch=True)
    page = one.open(target, view="head", l=4, h=9, q=1, k=2)
    rank = page.locator(".head-details .term", has_text="rank")
    rank.tap()
    note = page.locator(":popover-open")
    note.wait_for()
    assert note.inner_text() == GLOSSARY["rank"] == rank.get_attribute("title")
    check(page, "a word that is explained")
    fits(page, "a word that is explained")
    box = note.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] >= 0 and box["y"] + box["height"] <= 844
    page.keyboard.press("Escape")
    note.wait_for(state="hidden")
    page.locator(".head-details .term", has_text="score").focus()
    page.keyboard.press("Enter")
    note.wait_for()
    assert note.inner_text() == GLOSSARY["score"]


def test_what_the_tour_emphasises_is_explained(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.goto(served, tour=4)
    page.locator(".tour .term", has_text="softmax").click()
    note = page.locator(":popover-open")
    assert note.inner_text() == GLOSSARY["softmax"]
    page.keyboard.press("Escape")
    note.wait_for(state="hidden")
    assert page.locator(".tour").is_visible() and one.state["tour"] == "4", "Esc has closed the note alone"


def test_the_label_of_what_is_not_drawn_is_where_no_line_goes(tab: Tabs, served: Look) -> None:
    """The strongest line of “time” goes down: the label is above it, and its legend says what it is."""
    one = tab()
    page = one.open(served, view="head", l=4, h=9, q=1)
    svg = one.saved("Drawing (SVG")[1].decode()
    label, token = (
        float(re.search(rf'<text x="[^"]+" y="([^"]+)"[^>]*>{text}<', svg)[1]) for text in ("other: .*?", "time")
    )
    assert label < token
    page.locator(".head-status .term").click()
    assert page.locator(":popover-open").inner_text() == GLOSSARY["other"]
