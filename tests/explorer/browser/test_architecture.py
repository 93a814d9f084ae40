"""The architecture view: the tree's numbers, a weight chosen, one that is not there, other precisions, and files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer
from glassformer.compression.prune import apply_masks, magnitude_scores, prunable_weights, sparsity_masks
from glassformer.explorer.look import Look
from glassformer.inspect.architecture import architecture, weight_numbers
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits, value

TEXT = "time flies like an arrow"
Tabs = Callable[..., Tab]


def facts(one: Tab) -> dict[str, str]:
    """What the page says of the chosen weight."""
    names, numbers = (one.page.locator(f".arch {each}").all_inner_texts() for each in ("dt", "dd"))
    return dict(zip(names, numbers, strict=True))


@pytest.fixture(scope="module")
def words(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    return look(models["bert"], TEXT)


def test_the_tree_and_a_weight_of_it(tab: Tabs, words: Look, models: dict[str, Model]) -> None:
    one = tab()
    page = one.goto(words, view="architecture")
    page.locator(".arch-chart").wait_for()
    session = models["bert"].inspect(TEXT)
    found = architecture(session)
    assert page.locator(".found > p").inner_text() == found.finding
    rows = page.locator(".arch-scroll tbody tr")
    assert rows.count() == len(found.parts)
    for at, part in enumerate(found.parts):
        cells = rows.nth(at).locator("td").all_inner_texts()
        assert cells[0].strip() == (f"{part.parameters:,}" if part.parameters else ""), part.path
    assert page.locator(".arch-scroll button").count() == sum(len(part.weights) for part in found.parts)

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.locator(".arch-scroll tr", has=page.get_by_role("rowheader", name="up", exact=True)).get_by_role(
        "button", name="weight"
    ).click()
    page.get_by_role("heading", name="blocks.0.ffn.up.weight").wait_for()
    assert "weight" in asked and "architecture" not in asked, "a click asks for the weight alone"
    page.get_by_label("number in blocks").select_option("1")
    page.get_by_role("heading", name="blocks.1.ffn.up.weight").wait_for()
    assert one.state["c.parameter"] == "blocks.1.ffn.up.weight"
    own = weight_numbers(session, parameter="blocks.1.ffn.up.weight")
    shown = facts(one)
    assert value(shown["mean"]) == pytest.approx(own.weight.mean, rel=1e-3)
    assert value(shown["standard deviation"]) == pytest.approx(own.weight.std, rel=1e-3)
    assert shown["zeros"].startswith(f"{own.weight.zeros:,} ")
    grid = page.get_by_role("application", name=re.compile("^blocks.1.ffn.up.weight"))
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    said = one.wait_for_announcement("^rows 1, columns 0: ")
    assert value(said.rpartition(": ")[2]) == pytest.approx(float(own.tiles[1, 0]), rel=1e-3)
    page.get_by_role("button", name="Data table").click()
    numbers = page.locator(".arch .data-table tbody tr td:last-child").all_inner_texts()
    assert [int(n.replace(",", "")) for n in numbers] == own.weight.counts


def test_a_weight_that_is_not_there(tab: Tabs, words: Look) -> None:
    one = tab(expect="400|Bad Request")
    page = one.goto(words, view="architecture", **{"c.parameter": "blocks.7.ffn.up.weight"})
    page.get_by_role("alert").filter(has_text="no weight is named 'blocks.7.ffn.up.weight'").wait_for()
    page.get_by_role("button", name="Show the first weight").click()
    page.locator(".arch-chart").wait_for()


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_other_precisions(
    tab: Tabs, folders: dict[str, Path], look: Callable[..., Look], check: Check, precision: str
) -> None:
    one = tab(reduced_motion="reduce")
    small = glassformer.load(folders["bert"], dtype=precision)
    page = one.goto(look(small, TEXT), view="architecture")
    page.locator(".arch-chart").wait_for()
    own = weight_numbers(small.inspect(TEXT))
    shown = facts(one)
    assert shown["stored as"] == own.weight.stored == precision
    assert value(shown["standard deviation"]) == pytest.approx(own.weight.std, rel=1e-3)
    named = {"int8": "int8 weights, float32"}.get(precision, precision)
    assert named in page.locator("header .facts span").all_inner_texts(), "above the page too"
    check(page, precision)


def test_it_for_everyone_and_in_a_file(
    tab: Tabs, words: Look, models: dict[str, Model], check: Check, tmp_path: Path
) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.goto(words, view="architecture")
    page.locator(".arch-chart").wait_for()
    for theme, width, height in (("light", 1440, 900), ("dark", 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        check(page, f"architecture, {theme}, {width} wide")
        fits(page, f"architecture, {width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "architecture, 320 wide")
    page.set_viewport_size({"width": 1440, "height": 900})
    found = architecture(models["bert"].inspect(TEXT))
    name, content = one.saved("Table (CSV)")
    assert name.startswith("architecture-") and len(content.splitlines()) == len(found.parts) + 1
    assert one.saved("Picture (PNG")[1].startswith(b"\x89PNG") and b"<svg" in one.saved("Drawing (SVG")[1]
    models["bert"].look(TEXT, view="architecture", html=tmp_path / "page.html")
    page = one.goto(tmp_path / "page.html", view="architecture")
    page.locator(".arch-chart").wait_for()
    assert page.locator(".found > p").inner_text() == found.finding
    page.locator(".arch-scroll button").first.click()
    page.get_by_role("alert").filter(has_text="This saved page does not hold the numbers of this weight").wait_for()


def test_a_pruned_model_shows_its_zeros(
    tab: Tabs, folders: dict[str, Path], look: Callable[..., Look], check: Check
) -> None:
    model = glassformer.load(folders["bert"])
    weights = prunable_weights(model.network)
    apply_masks(weights, sparsity_masks(magnitude_scores(weights), 0.75))
    found = architecture(model.inspect(TEXT))
    one = tab(color_scheme="dark")
    page = one.goto(look(model, TEXT), view="architecture")
    page.locator(".arch-chart").wait_for()
    assert page.locator(".found > p").inner_text() == found.finding and "are zeros." in found.finding
    assert page.locator(".arch-scroll th[scope=col]").all_inner_texts()[-1] == "zeros"
    page.get_by_role("radio", name="zeros").check()
    assert one.state["c.tiles"] == "zeros"
    grid = page.get_by_role("application", name=re.compile("^blocks.0.attn.qkv.weight"))
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    share = float(weight_numbers(model.inspect(TEXT)).zero_tiles[1, 0])
    assert value(one.wait_for_announcement("^rows 1, columns 0: .* zeros").split()[-2].rstrip("%")) == 100 * share
    check(page, "zeros, dark")
