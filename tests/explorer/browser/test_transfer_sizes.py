"""Transfer sizes: how many bytes each view fetches. How long that takes, benchmarks/explorer.py measures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.samples import shaped, words
from tests.explorer.browser.tab import Tab, darkest

Tabs = Callable[..., Tab]

SHELL_AND_VIEW_BYTES = 800_000
FOCUS_BYTES = 300_000
NEURON_BYTES = 64_000
SIZES = """path => performance.getEntriesByType("resource").filter((each) => each.name.includes(path))
    .map((each) => each.transferSize)"""
"""Transfer size of each response of a route, in bytes."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """12 × 12 heads. Width does not change what travels for a picture; narrow heads make the pass short."""
    return shaped(tmp_path_factory.mktemp("large"), layers=12, heads=12, width=192, positions=512)


@pytest.fixture(scope="module")
def page_of_512(large: Model, look: Callable[..., Look]) -> Look:
    """The page of 512 tokens."""
    page = look(large, words(510))
    assert len(page.session.streams["text"]) == 512
    return page


class NetworkBytes:
    """Bytes that the browser received, compressed as they were sent."""

    def __init__(self, one: Tab) -> None:
        self.bytes = 0.0
        session = one.context.new_cdp_session(one.page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", self._add)

    def _add(self, event: dict[str, Any]) -> None:
        self.bytes += event["encodedDataLength"]


def test_the_model_view_of_512_tokens(tab: Tabs, page_of_512: Look) -> None:
    one = tab()
    network = NetworkBytes(one)
    one.open(page_of_512)
    assert [len(set(pixels)) > 1 for pixels in one.thumbnails((32, 32))] == [True] * 144
    assert 100_000 < network.bytes <= SHELL_AND_VIEW_BYTES


def test_a_head_of_512_tokens(tab: Tabs, page_of_512: Look) -> None:
    """The image of one head, dense; and under the pointer a row that has not been loaded yet."""
    one = tab()
    with one.frames("tile") as first:
        page = one.open(page_of_512, view="matrix", l=5, h=3)
    assert first[0].arrays["tile"].shape == (256, 256)
    one.until(f"({SIZES})(x).length === 4", "/api/view/tile")
    assert 50_000 < sum(page.evaluate(SIZES, "/api/view/tile")) <= FOCUS_BYTES
    box = page.get_by_role("application").bounding_box()
    # Above the line at the foot, whatever the font.
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4)
    one.until(r"/^\d/.test(document.querySelector('.matrix-tip output')?.textContent ?? '')")


def test_an_answer_of_the_neuron_view_is_small(tab: Tabs, page_of_512: Look) -> None:
    one = tab()
    page = one.open(page_of_512, view="neuron", l=5, h=3, q=100, k=99)
    sizes = page.evaluate(SIZES, "/api/view/neuron")
    assert sizes and max(sizes) <= NEURON_BYTES


def test_a_sample_says_so_until_it_is_refined(
    tab: Tabs, tmp_path_factory: pytest.TempPathFactory, look: Callable[..., Look]
) -> None:
    model = shaped(tmp_path_factory.mktemp("long"), layers=2, heads=2, width=32, positions=1500)
    long_page = look(model, words(1498))
    one = tab()
    page = one.open(long_page)
    badge = page.get_by_role("button", name="sampled")
    badge_text = re.search(r"sampled 1 of (\d+) rows", badge.inner_text())
    overview = long_page.session.overview(0)
    assert badge_text and int(badge_text[1]) == round(overview.rows_total / overview.rows_used)
    assert "sampled" in page.locator(".provenance").inner_text()
    badge.click()
    badge.wait_for(state="detached")
    assert "sampled" not in page.locator(".provenance").inner_text()
    exact = long_page.session.overview(0, exact=True)
    for pixels, thumbnail in zip(one.thumbnails(exact.thumbnails.shape[1:]), exact.thumbnails, strict=False):
        assert thumbnail.flatten()[darkest(pixels)] >= thumbnail.max() * 254 / 255
