"""The quantisation view: the function's numbers, a layer and a precision chosen, and a quantised model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer
from glassformer.explorer.look import Look
from glassformer.inspect.quantisation import layer_quantisation
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

TEXT = "time flies like an arrow"
Tabs = Callable[..., Tab]


def facts(one: Tab, part: str) -> dict[str, str]:
    """What a card says of its numbers."""
    card = one.page.get_by_role("region", name=part)
    return dict(zip(card.locator("dt").all_inner_texts(), card.locator("dd").all_inner_texts(), strict=True))


@pytest.fixture(scope="module")
def words(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    return look(models["bert"], TEXT)


def test_a_layer_is_chosen_and_rounded_to_fewer_bits(tab: Tabs, words: Look, models: dict[str, Model]) -> None:
    one = tab()
    page = one.goto(words, view="quantisation")
    page.wait_for_selector(".quant-charts svg")
    session = models["bert"].inspect(TEXT)
    report = layer_quantisation(session)
    assert facts(one, "Weights")["levels in use"] == f"{report.weights.used} of 256, 8 bits"
    assert facts(one, "Weights")["scales"] == str(report.weights.scales)
    cells = page.locator(".lens-grid [data-cell]")
    assert cells.count() == len(report.layers)
    assert page.locator(".lens-grid [aria-selected=true]").get_attribute("aria-label").startswith(report.layer)
    cells.nth(-1).click()
    page.get_by_text("blocks.1.ffn.down", exact=True).wait_for()
    assert one.state["c.layer"] == "blocks.1.ffn.down"
    page.get_by_role("group", name="bits").get_by_role("radio", name="4").check()
    page.get_by_text("of 16, 4 bits").wait_for()
    page.get_by_role("group", name="inputs: for each").get_by_role("radio", name="all").check()
    own = layer_quantisation(session, layer="blocks.1.ffn.down", bits=4, inputs="tensor")
    assert own.inputs is not None
    one.until("document.querySelector('[aria-label^=Inputs] dd').textContent === '1'")
    assert facts(one, "Inputs")["Z"] == str(own.inputs.zero[0]).replace("-", "−")
    assert facts(one, "Weights")["levels in use"] == f"{own.weights.used} of 16, 4 bits"
    page.get_by_role("button", name="Data table").click()
    bins = 2 * len(own.weights.centres) + own.weights.used + own.inputs.used
    assert page.locator(".data-table tbody tr").count() == bins


def test_the_chooser_by_keyboard_keeps_the_focus(tab: Tabs, words: Look) -> None:
    one = tab()
    page = one.goto(words, view="quantisation")
    page.locator(".lens-grid [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("[aria-label='Weights, 48 × 16'], section small").filter(has_text="blocks.1.attn.qkv").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("blocks.1.attn.qkv")


def test_a_quantised_model_shows_its_levels(
    tab: Tabs, folders: dict[str, Path], look: Callable[..., Look], check: Check
) -> None:
    one = tab(reduced_motion="reduce")
    small = glassformer.load(folders["bert"], dtype="int8")
    page = one.goto(look(small, TEXT), view="quantisation")
    page.wait_for_selector(".quant-charts svg")
    report = layer_quantisation(small.inspect(TEXT))
    assert report.stored and facts(one, "Weights")["levels in use"] == f"{report.weights.used} of 256, 8 bits"
    assert "relative error" not in facts(one, "Weights")
    page.get_by_text("This folder stores the layer as levels").wait_for()
    page.get_by_text("Not rounded: they stay floating-point numbers.").wait_for()
    assert page.get_by_role("radio", name="4").count() == 0
    check(page, "a quantised layer")


def test_it_for_everyone_and_in_a_file(
    tab: Tabs, words: Look, models: dict[str, Model], check: Check, tmp_path: Path
) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.goto(words, view="quantisation")
    page.wait_for_selector(".quant-charts svg")
    page.get_by_text("How to read this").click()
    for theme, width, height in (("light", 1440, 900), ("dark", 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        check(page, f"quantisation, {theme}, {width} wide")
        fits(page, f"quantisation, {width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "quantisation, 320 wide")
    page.set_viewport_size({"width": 1440, "height": 900})
    name, content = one.saved("Table (CSV)")
    assert name.startswith("quantisation-") and b"levels of weights,-127," in content
    assert one.saved("Picture (PNG")[1].startswith(b"\x89PNG") and b"<svg" in one.saved("Drawing (SVG")[1]
    models["bert"].look(TEXT, view="quantisation", html=tmp_path / "page.html")
    page = one.goto(tmp_path / "page.html", view="quantisation")
    page.wait_for_selector(".quant-charts svg")
    assert facts(one, "Weights")["scales"] == str(layer_quantisation(models["bert"].inspect(TEXT)).weights.scales)
    page.get_by_role("group", name="bits").get_by_role("radio", name="4").check()
    page.get_by_role("alert").filter(has_text="This saved page does not hold these weights").wait_for()
