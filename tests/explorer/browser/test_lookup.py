"""The card that shows where a token's vector begins: a look-up and a one-hot row's product, served and in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.explorer.look import Look
from glassformer.explorer.views import lookup
from glassformer.model import Model
from tests.explorer.browser.conftest import TEXTS, Check
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]
CARD = ".head-lookup"


def opened(one: Tab, target: Any) -> Any:
    page = one.open(target, view="head", l=4, h=11, q=2)
    page.get_by_text("Where its vector begins").click()
    page.wait_for_selector(f"{CARD} table")
    return page


def test_a_pinned_token_shows_its_row(tab: Tabs, served: Look, encoder: Model, check: Check, tmp_path: Path) -> None:
    expected = lookup(encoder.inspect(*TEXTS), stream="text", token=2)
    encoder.look(TEXTS, html=tmp_path / "page.html")
    for target in (served, tmp_path / "page.html"):
        one = tab(color_scheme="light", reduced_motion="reduce")
        page = opened(one, target)
        cells = page.locator(f"{CARD} tr.taken").locator("th, td").all_inner_texts()
        assert cells[0].replace(",", "") == str(expected.id) and cells[1] == "1"
        assert page.locator(f"{CARD} [data-holds]").count() == 2
        words = page.locator(CARD).inner_text()
        assert "the same bits in all 384 numbers" in words and "are equal" in words
    for theme, width in (("light", 1440), ("dark", 390), ("dark", 320)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        check(page, f"{theme}, {width} wide")
        fits(page, f"{width} wide")


def test_another_token_another_row(tab: Tabs, served: Look, encoder: Model) -> None:
    one = tab()
    page = opened(one, served)
    page.locator(".head-tokens.query [data-token='5']").click()
    expected = lookup(encoder.inspect(*TEXTS), stream="text", token=5)
    one.until("document.querySelector('.head-lookup tr.taken th')?.innerText === x", f"{expected.id:,}")
    page.locator(".head-tokens.query [data-token='5']").click()  # nothing is pinned any more
    page.locator(CARD).wait_for(state="detached")
