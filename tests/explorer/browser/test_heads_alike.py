"""Heads in groups of similar maps: those of SciPy, from the same thumbnails."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow
import pyarrow.ipc
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from glassformer.explorer.binary_frames import decode
from glassformer.explorer.look import Look
from glassformer.explorer.views import overview
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.samples import shaped, words
from tests.explorer.browser.tab import Tab, fits

ALIKE = 0.8
GROUP = ".head-kinds [role=group]"


def expected_groups(look: Look, pool: int = 1) -> list[set[str]]:
    """The groups of SciPy, of heads by their names; pool = pixels of a thumbnail, each way, whose maximum counts."""
    (about,) = look.session.maps.values()
    frames = [decode(overview(look.session, map="self", layer=at, exact=False)) for at in range(about.layers)]
    maps = np.concatenate([frame.arrays["thumbnails"] for frame in frames]).astype(float)
    for axis in (1, 2):
        maps = np.maximum.reduceat(maps, range(0, maps.shape[axis], pool), axis=axis)
    numbers = fcluster(linkage(maps.reshape(len(maps), -1), "average", "cosine"), 1 - ALIKE, "distance")
    groups = defaultdict(set)
    for at, number in enumerate(numbers):
        groups[number].add(f"{at // about.heads}·{at % about.heads}")
    return list(groups.values())


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, look: Callable[..., Look]) -> Look:
    """272 heads, more than are compared pixel by pixel; thumbnails of 32 × 32."""
    return look(shaped(tmp_path_factory.mktemp("many"), layers=17, heads=16, width=64), words(30))


def test_more_heads_than_256_are_compared_by_the_maxima_of_squares(tab: Callable[..., Tab], many: Look) -> None:
    expected = expected_groups(many, pool=2)
    several = {frozenset(group) for group in expected if len(group) > 1}
    assert several and several != {frozenset(group) for group in expected_groups(many) if len(group) > 1}
    page = tab().open(many, sort="alike")
    page.wait_for_selector(GROUP)
    while (
        more := page.get_by_role("button", name="more heads")
    ).count():  # those below the screen are drawn when scrolled to
        more.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
    shown = groups_of(page)
    assert {frozenset(names) for title, names in shown if title != "like no other"} == several
    assert sum(len(names) for _, names in shown) == 272


def groups_of(page: Any) -> list[tuple[str, list[str]]]:
    """Titles of the groups on screen, and the names of their heads."""
    groups: list[tuple[str, list[str]]] = page.eval_on_selector_all(
        GROUP,
        """groups => groups.map((group) => [
            group.querySelector("p b").textContent,
            Array.from(group.querySelectorAll("figcaption b"), (name) => name.textContent),
        ])""",
    )
    return groups


def test_heads_are_grouped_by_the_similarity_of_their_maps(tab: Callable[..., Tab], served: Look, check: Check) -> None:
    expected = expected_groups(served)
    one = tab()
    page = one.open(served, sort="alike")
    page.wait_for_selector(GROUP)
    shown = groups_of(page)
    several = {frozenset(names) for title, names in shown if title != "like no other"}
    alone = [name for title, names in shown if title == "like no other" for name in names]
    assert several == {frozenset(group) for group in expected if len(group) > 1}
    assert set(alone) == {name for group in expected if len(group) == 1 for name in group}
    assert len(several) > 1
    assert [len(names) for title, names in shown if title != "like no other"] == sorted(map(len, several), reverse=True)
    titles = [title for title, _ in shown if title != "like no other"]
    assert titles == [f"like {names[0]}" for title, names in shown if title != "like no other"]
    rows = list(csv.DictReader(io.StringIO(one.saved("Table (CSV)")[1].decode())))
    saved = defaultdict(set)
    for row in rows:
        saved[row["group"]].add(f"{row['layer']}·{row['head']}")
    assert {title: set(names) for title, names in shown} == saved and len(rows) == 72
    assert all(0.5 <= float(row["similarity"]) <= 1.001 for row in rows if row["group"] != "like no other")
    assert {row["does"] for row in rows} >= {"previous token", "first token"}
    name, content = one.saved("Table (Arrow)")
    table = pyarrow.ipc.open_file(content).read_all()
    table.validate(full=True)
    json_rows = json.loads(one.saved("Table (JSON)")[1])["rows"]
    assert name.endswith(".arrow") and table.schema.field("layer").type == pyarrow.float64()
    assert [{k: "" if x is None else x for k, x in row.items()} for row in table.to_pylist()] == [
        {k: "" if x is None else x for k, x in row.items()} for row in json_rows
    ]
    first = page.locator(f"{GROUP} [data-cell]").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.cell") != first.get_attribute("data-cell")
    check(page, "model")
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page, "heads alike at 390")
