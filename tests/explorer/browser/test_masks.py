"""The masks view: every kind, its numbers, another size, by keyboard, narrow, dark, and in a saved page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.explorer.look import Look
from glassformer.inspect.patterns import attention_masks, own_patterns, position_encodings
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

TEXT = "time flies like an arrow"
Tabs = Callable[..., Tab]


@pytest.fixture(scope="module")
def words(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    return look(models["bert"], TEXT)


def test_masks_and_positions(tab: Tabs, words: Look, models: dict[str, Model], check: Check) -> None:
    one = tab(expect="400")
    page = one.goto(words, view="masks")
    page.locator(".masks-small").first.wait_for()
    own = own_patterns(models["bert"].inspect(TEXT), padding=4)
    names = [*own, *attention_masks(), *position_encodings()]
    assert [each.strip() for each in page.locator(".masks-small").all_inner_texts()] == names
    page.get_by_text("every token attends to every token but the last 4, which are padding. 320 of 400").wait_for()
    page.get_by_text("Mask of 20 tokens, 4 of them padding, as set below; this text has 7, and no padding: ").wait_for()
    check(page, "the opening mask")

    page.get_by_role("button", name="causal", exact=True).click()
    page.get_by_text("210 of 400 pairs attend").wait_for()
    assert one.state["c.pattern"] == "causal"
    grid = page.get_by_role("application", name=re.compile("^causal: 20 × 20"))
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    one.wait_for_announcement("token 0 may not attend to token 1")
    page.keyboard.press("ArrowDown")
    one.wait_for_announcement("token 1 may attend to token 1")

    page.get_by_role("spinbutton", name="tokens").fill("50")
    page.keyboard.press("Tab")
    page.get_by_text("1,275 of 2,500 pairs attend").wait_for()
    assert one.state["c.tokens"] == "50"
    page.get_by_role("spinbutton", name="tokens").fill("0")
    page.keyboard.press("Tab")
    page.get_by_text("tokens is 0; it must be a whole number from 1 to 4,096").wait_for()
    page.get_by_role("spinbutton", name="tokens").fill("20")
    page.keyboard.press("Tab")

    page.get_by_role("button", name="sinusoids").click()
    page.get_by_role("application", name=re.compile("^sinusoids: 20 × 32")).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    one.wait_for_announcement(re.escape(f"position 1, number 0: {position_encodings()['sinusoids'].values[1, 0]:.4f}"))
    check(page, "sinusoids")
    page.get_by_role("button", name="Data table").click()
    assert page.locator(".data-table tbody tr").count() == 400
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")


def test_an_encoder_and_a_decoder_have_three_masks(tab: Tabs, translation: Look) -> None:
    one = tab()
    page = one.goto(translation, view="masks")
    own = page.get_by_role("region", name="This model")
    masks = own.get_by_role("button", name=re.compile("mask$"))
    masks.first.wait_for()
    assert [each.strip() for each in masks.all_inner_texts()] == ["encoder mask", "decoder mask", "cross mask"]
    page.get_by_text("320 of 400 pairs attend").wait_for()
    own.get_by_role("button", name="decoder mask").click()
    page.get_by_text("210 of 400 pairs attend").wait_for()
    assert page.locator(".masks-numbers").inner_text().split() == ["tokens", "layer"]
    own.get_by_role("button", name="cross mask").click()
    page.get_by_text("every token of the target attends to every token of the source but the last 4").wait_for()
    page.get_by_role("spinbutton", name="tokens").fill("3")  # fewer than the padding that nobody chose
    page.keyboard.press("Tab")
    page.get_by_text("0 of 9 pairs attend").wait_for()


def test_a_saved_page_has_all_of_them(tab: Tabs, models: dict[str, Model], tmp_path: Path, check: Check) -> None:
    saved, one = tmp_path / "page.html", tab(color_scheme="dark")
    models["bert"].look(TEXT, html=saved)
    page = one.goto(saved, view="masks", **{"c.pattern": "random"})
    page.get_by_role("application", name=re.compile("^random: 20 × 20")).wait_for()
    pairs = int(attention_masks()["random"].values.sum())
    page.get_by_text(f"{pairs} of 400 pairs attend").wait_for()
    check(page, "saved, dark")
