"""Promises with figures, loosely.

Machines that test are slow and busy at times, so each bound on time is two to five times the promise; what goes wrong
by an order of magnitude is found all the same. Bounds on bytes are the promises themselves. benchmarks/explorer.py
measures both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.samples import shaped, words
from tests.explorer.browser.tab import Tab

Tabs = Callable[..., Tab]

SHELL_AND_VIEW_BYTES = 800_000
MODEL_VIEW_SECONDS = 3.0
HOVER_SECONDS = 0.3
FOCUS_BYTES = 300_000
NEURON_BYTES = 64_000
SIZES = """path => performance.getEntriesByType("resource").filter((each) => each.name.includes(path))
    .map((each) => each.transferSize)"""
"""What each answer of a route took over the wire."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """12 × 12 heads. Width does not change what travels for a picture; narrow heads make the pass short."""
    return shaped(tmp_path_factory.mktemp("large"), layers=12, heads=12, width=192, positions=512)


@pytest.fixture(scope="module")
def page_of_512(large: Model, look: Callable[..., Look]) -> Look:
    return look_at_512(large, look, 0)


def look_at_512(model: Model, look: Callable[..., Look], seed: int) -> Look:
    """The page, its pass done, of which nothing has been looked at."""
    made = look(model, words(510, seed))
    assert len(made.session.sides["text"]) == 512
    return made


class Wire:
    """What the browser received, in bytes as they travelled."""

    def __init__(self, one: Tab) -> None:
        self.bytes = 0.0
        session = one.context.new_cdp_session(one.page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", self._add)

    def _add(self, event: dict[str, Any]) -> None:
        self.bytes += event["encodedDataLength"]


def test_the_model_view_of_512_tokens(tab: Tabs, large: Model, look: Callable[..., Look]) -> None:
    seconds = []
    for seed in (1, 2, 3):  # the best of three: something else may have had the machine
        one = tab()
        wire = Wire(one)
        page = one.open(look_at_512(large, look, seed))
        seconds.append(page.evaluate("performance.now()") / 1000)  # since the page was asked for
        assert len(one.colours(".model-view [role=gridcell] canvas")) == 144
        assert 100_000 < wire.bytes <= SHELL_AND_VIEW_BYTES
        if seconds[-1] <= MODEL_VIEW_SECONDS:
            return
    raise AssertionError(f"{seconds} s; it should take at most {MODEL_VIEW_SECONDS} s")


def test_a_head_of_512_tokens(tab: Tabs, page_of_512: Look) -> None:
    """The picture of one head, dense, and a row that nobody has asked for yet under the pointer."""
    one = tab()
    with one.frames("tile") as first:
        page = one.open(page_of_512, view="matrix", l=5, h=3)
    assert first[0].arrays["tile"].shape == (256, 256)
    for _ in range(100):  # all four of its tiles; asked from here, since a busy page may not call back
        if len(sizes := page.evaluate(SIZES, "/api/tile")) == 4:
            break
        page.wait_for_timeout(100)
    assert len(sizes) == 4 and 50_000 < sum(sizes) <= FOCUS_BYTES
    page.evaluate(
        """() => {
            const tip = () => document.querySelector(".matrix-tip output")?.textContent ?? "";
            window.shown = null;
            addEventListener("pointermove", () => {
                const began = performance.now();
                const look = () => {
                    if (/^\\d/.test(tip())) window.shown = performance.now() - began;
                    else requestAnimationFrame(look);
                };
                look();
            }, { capture: true, once: true });
        }"""
    )
    box = page.get_by_role("application").bounding_box()
    page.mouse.move(
        box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4
    )  # above the line at the foot, whatever the font
    page.wait_for_function("() => window.shown !== null")
    assert page.evaluate("window.shown") <= 1000 * HOVER_SECONDS


def test_an_answer_of_the_neuron_view_is_small(tab: Tabs, page_of_512: Look) -> None:
    one = tab()
    page = one.open(page_of_512, view="neuron", l=5, h=3, q=100, k=99)
    sizes = page.evaluate(SIZES, "/api/neuron")
    assert sizes and max(sizes) <= NEURON_BYTES


def test_a_sample_says_so_until_it_is_refined(
    tab: Tabs, tmp_path_factory: pytest.TempPathFactory, look: Callable[..., Look]
) -> None:
    model = shaped(tmp_path_factory.mktemp("long"), layers=2, heads=2, width=32, positions=1500)
    made = look(model, words(1498))
    one = tab()
    page = one.open(made)
    badge = page.get_by_role("button", name="sampled")
    found = re.search(r"sampled 1 of (\d+) rows", badge.inner_text())
    overview = made.session.overview(0)
    assert found and int(found[1]) == round(overview.rows_total / overview.rows_used)
    assert "sampled" in page.locator(".provenance").inner_text()
    badge.click()
    badge.wait_for(state="detached")
    assert "sampled" not in page.locator(".provenance").inner_text()
    exact = made.session.overview(0, exact=True)
    for at, thumbnail in zip(
        one.brightest(".model-view [role=gridcell] canvas"), exact.thumbnails, strict=False
    ):
        assert thumbnail.flatten()[at] >= thumbnail.max() * 254 / 255
