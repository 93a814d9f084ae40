"""Heads in groups of similar maps: those of SciPy, from the same thumbnails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from glassformer.explorer.binary_frames import decode
from glassformer.explorer.look import Look
from glassformer.explorer.views import overview
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab

ALIKE = 0.8
GROUP = ".head-kinds [role=group]"


def test_heads_are_grouped_by_the_similarity_of_their_maps(tab: Callable[..., Tab], served: Look, check: Check) -> None:
    thumbnails = [
        decode(overview(served.session, map="self", layer=layer, exact=False)).arrays["thumbnails"]
        for layer in range(6)
    ]
    vectors = np.concatenate(thumbnails).reshape(72, -1).astype(float)
    numbers = fcluster(linkage(vectors, "average", "cosine"), 1 - ALIKE, "distance")
    expected = defaultdict(set)
    for at, number in enumerate(numbers):
        expected[number].add(f"{at // 12}·{at % 12}")
    one = tab()
    page = one.open(served, sort="alike")
    page.wait_for_selector(GROUP)
    shown = page.eval_on_selector_all(
        GROUP,
        """groups => groups.map((group) => [
            group.querySelector("p b").textContent,
            Array.from(group.querySelectorAll("figcaption b"), (name) => name.textContent),
        ])""",
    )
    several = {frozenset(names) for title, names in shown if title != "like no other"}
    alone = [name for title, names in shown if title == "like no other" for name in names]
    assert several == {frozenset(group) for group in expected.values() if len(group) > 1}
    assert set(alone) == {name for group in expected.values() if len(group) == 1 for name in group}
    assert len(several) > 1
    assert [len(names) for title, names in shown if title != "like no other"] == sorted(map(len, several), reverse=True)
    titles = [title for title, _ in shown if title != "like no other"]
    assert titles == [f"like {names[0]}" for title, names in shown if title != "like no other"]
    first = page.locator(f"{GROUP} [data-cell]").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.cell") != first.get_attribute("data-cell")
    check(page, "model")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
