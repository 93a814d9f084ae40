"""Heads mixed in the head view: by sliders, and by what they write; the numbers of Python, also in a saved page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.explorer.look import Look
from glassformer.inspect.head import mixed
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

TEXT = "time flies like an arrow"
Tabs = Callable[..., Tab]
PLACE = {"view": "head", "map": "self", "l": "1", "h": "0,1", "q": "2"}


def table(one: Tab) -> dict[str, float]:
    """What the pinned token gives to each token, as the table of the view has it."""
    rows = [line.split(",") for line in one.saved("Table (CSV)")[1].decode().splitlines()[1:]]
    return {row[4]: float(row[6]) for row in rows if row[4]}


def same(one: Tab, models: dict[str, Model], mix: str, weights: list[float] | None) -> None:
    session = models["bert"].inspect(TEXT)
    own = mixed([session.head(1, head) for head in (0, 1)], mix, rows=2, weights=weights)[0]  # type: ignore[arg-type]
    shown = table(one)
    assert len(shown) == len(own)
    for key, share in enumerate(own.tolist()):
        assert shown[str(key)] == pytest.approx(share, abs=5e-6)


def test_sliders_and_what_is_written(
    tab: Tabs, models: dict[str, Model], look: Callable[..., Look], check: Check, tmp_path: Path
) -> None:
    one = tab(reduced_motion="reduce")
    page = one.open(look(models["bert"], TEXT), **PLACE)
    mixes = page.get_by_role("group", name="How heads are shown together")
    with one.frames("lines"):
        mixes.get_by_role("radio", name="written").check()
    page.get_by_text("mean by what is written of 2 heads").first.wait_for()
    one.wait_for_view("head")
    same(one, models, "written", None)

    mixes.get_by_role("radio", name="own weights").check()
    sliders = page.get_by_role("group", name="Weights of the heads")
    assert sliders.locator("b").all_inner_texts() == ["50%", "50%"]
    with one.frames("lines") as got:
        sliders.get_by_label("weight of head 1").fill("0.25")
    assert json.loads(json.dumps(got[0].fields))["mix"] == "weights"
    assert sliders.locator("b").all_inner_texts() == ["80%", "20%"] and one.state["c.weights"] == "1:0.25"
    one.wait_for_view("head")
    same(one, models, "weights", [1.0, 0.25])
    check(page, "own weights")
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page, "own weights, 390 wide")
    page.set_viewport_size({"width": 1440, "height": 900})
    for head in (0, 1):
        sliders.get_by_label(f"weight of head {head}").fill("0")
    page.get_by_text("All weights are 0: give one head at least a weight.").wait_for()
    sliders.get_by_role("button", name="all equal").click()
    one.wait_for_view("head")
    assert "c.weights" not in one.state

    models["bert"].look(TEXT, html=tmp_path / "page.html")
    for mix, weights in (("written", None), ("weights", [1.0, 0.25])):
        saved = tab()
        saved.open(tmp_path / "page.html", **PLACE, mix=mix, **({"c.weights": "1:0.25"} if weights else {}))
        same(saved, models, mix, weights)
