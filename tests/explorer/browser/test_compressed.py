"""Compressed models on the page: layers of fewer heads, fewer layers, levels for weights, a trimmed vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer
from glassformer.compression.structure import Parts, keep_layers, remove_heads
from glassformer.compression.vocabulary import trim_vocabulary
from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.conftest import TEXTS, Check
from tests.explorer.browser.samples import shaped
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]
REMOVED = {0: [1], 2: [0, 1, 3]}
HEADS = [3, 4, 1]
"""Of each layer, when those are removed from three layers of four."""


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A random encoder whose layers have 3, 4 and 1 heads, saved and loaded again."""
    model, folder = shaped(tmp_path_factory.mktemp("whole"), layers=3), tmp_path_factory.mktemp("pruned")
    remove_heads(Parts.of(model), REMOVED).put_into(model)
    model.save_pretrained(folder)
    return glassformer.load(folder)


@pytest.fixture(scope="module")
def uneven(pruned: Model, look: Callable[..., Look]) -> Look:
    return look(pruned, *TEXTS)


def test_the_grid_has_the_heads_of_each_layer(tab: Tabs, uneven: Look, check: Check) -> None:
    one = tab(reduced_motion="reduce")
    page = one.open(uneven)
    rows = page.locator(".head-grid [role=row]:not(.heading)")
    assert [rows.nth(layer).locator("[data-cell]").count() for layer in range(3)] == HEADS
    assert page.locator(".head-grid canvas[data-empty]").count() == 0
    assert "3 layers × 1–4 heads" in page.locator(".facts").first.inner_text()
    assert page.get_by_text("Keys and values are shared").count() == 0
    check(page, "layers of unequal numbers of heads")
    fits(page, "layers of unequal numbers of heads")
    assert one.saved("Picture (PNG")[1].startswith(b"\x89PNG")
    rows.nth(2).locator("[data-cell]").click()
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"]) == ("2", "0")
    assert page.locator(".navigator summary").inner_text() == "All 8 heads"


def test_keys_and_links_stay_within_a_layer(tab: Tabs, uneven: Look) -> None:
    one = tab()
    page = one.open(uneven, view="head", l=1, h=3)
    page.keyboard.press("]")
    one.until("location.hash.includes('l=2&h=0')")
    page.keyboard.press(".")  # the only one: around to itself
    assert (one.state["l"], one.state["h"]) == ("2", "0")
    assert page.get_by_role("button", name="Next head").is_disabled()
    one.goto(uneven, view="head", l=2, h=3)
    one.wait_for_banner("asks for head 3; a layer has heads 0 to 0: showing head 0")


@pytest.mark.parametrize("mix", ["each", "mean"])
def test_heads_of_several_layers_together(tab: Tabs, uneven: Look, pruned: Model, tmp_path: Path, mix: str) -> None:
    one = tab()
    page = one.open(uneven, view="head", l="0-2", h="0,3,1", mix=mix)
    assert page.locator(".head-chip").count() == 4
    uneven.save(tmp_path / "page.html", layers=[0, 1, 2])
    page = one.open(tmp_path / "page.html", view="head", l="0-2", h="0,3,1", mix=mix)
    members = sum(head < count for count in HEADS for head in (0, 3, 1))
    assert members == 6
    if mix == "mean":
        assert "mean of 6 heads" in page.locator(".head").inner_text()
    for view in ("matrix", "neuron"):
        one.go(view)


KINDS = ["fewer layers", "levels", "vocabulary", "heads"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_of_a_compressed_folder(
    tab: Tabs, look: Callable[..., Look], pruned: Model, tmp_path: Path, kind: str
) -> None:
    model = pruned
    if kind != "heads":
        model = shaped(tmp_path, layers=3)
        if kind == "fewer layers":
            keep_layers(Parts.of(model), [0, 2]).put_into(model)
        if kind == "vocabulary":
            trim_vocabulary(model, TEXTS)
        if kind == "levels":
            model = glassformer.load(tmp_path, dtype="int4")
        model.save_pretrained(tmp_path / "small")
        model = glassformer.load(tmp_path / "small")
    one = tab()
    one.open(look(model, *TEXTS))
    for view in ("head", "matrix", "neuron", "embedding"):
        one.go(view)
    one.page.locator("#tab-quantisation").click()
    one.page.wait_for_selector(".quant-charts svg")
    one.page.wait_for_selector("section.banners .banner", state="detached")
    if kind == "levels":
        one.page.get_by_text("4 bits").first.wait_for()
