"""The patching view, and heads switched off in the head view: as a person sees, hears and types them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits, value

TEXT, OTHER = "My lord, the king and his", "My lord, the men and his"
MAP = ".patch-map canvas"
Tabs = Callable[..., Tab]


@pytest.fixture(scope="session")
def plays() -> Model:
    return glassformer.load("package:glassformer/checkpoints/shakespeare")


@pytest.fixture(scope="session")
def play(plays: Model, look: Callable[..., Look]) -> Look:
    """A real small GPT-2, of 4 layers × 6 heads."""
    return look(plays, TEXT)


def opened(one: Tab, target: Look | Path, **state: Any) -> Any:
    one.goto(target, view="patch", **state)
    one.page.wait_for_selector(".patch-aside")
    one.wait_for_colours(MAP, 5)
    return one.page


def test_heads_are_switched_off_one_by_one(tab: Tabs, play: Look, plays: Model) -> None:
    one = tab()
    page = opened(one, play)
    sweep = plays.inspect(TEXT).sweep("heads")
    (name, effect), *_ = sweep.strongest()
    layer, head = int(name.split(".")[1]), int(name[name.index("[") + 1 : -1])
    first = page.locator(".patch-strongest li").first
    assert f"layer {layer}, head {head}" in first.inner_text()
    assert value(first.locator("span").inner_text()) == pytest.approx(effect, rel=0.01)
    first.get_by_role("button").click()
    one.until("location.hash.includes(x)", f"p.cell={layer}.{head}")
    page.wait_for_selector(".patch-aside .changes")
    changes = plays.inspect(TEXT).patch(name).top(3)
    assert page.locator(".patch-aside .changes tbody tr").count() == len(changes)
    assert changes[0].name.strip() in page.locator(".patch-aside .changes").inner_text()


def test_two_texts_by_a_link_and_what_is_measured(tab: Tabs, play: Look, plays: Model) -> None:
    one = tab()
    state = {"p.kind": "residual", "p.mode": "swap", "p.other": OTHER, "p.target": " son", "p.against": " men"}
    page = opened(one, play, **state)
    told = page.locator(".patch-picture").inner_text()
    assert "0 = corrupt, 1 = clean" in told and "'son' − 'men'" in told
    page.get_by_role("button", name="data table").click()
    session = plays.inspect(TEXT)
    expected = session.sweep("residual", source=plays.inspect(OTHER), target=" son", against=" men").normalised
    assert expected is not None
    rows = page.locator("#view .data-table tbody tr")
    assert rows.count() == 5
    shown = [value(cell) for cell in rows.last.locator("td").all_inner_texts()]
    assert shown == pytest.approx(expected[-1].tolist(), abs=2e-3)


def test_keys_move_pin_and_speak(tab: Tabs, play: Look) -> None:
    one = tab()
    page = opened(one, play)
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    one.wait_for_announcement(r"layer 0, head 1: changes the logit of .* rank \d+ of 24")
    page.keyboard.press("ArrowDown")
    one.wait_for_announcement(r"layer 1, head 1: ")
    page.keyboard.press("Enter")
    one.until("location.hash.includes('p.cell=1.1')")
    page.keyboard.press("Escape")
    one.until("!location.hash.includes('p.cell')")


def test_errors_stand_in_the_view(tab: Tabs, play: Look) -> None:
    one = tab()
    one.goto(play, view="patch", **{"p.kind": "residual", "p.mode": "swap", "p.other": "My lord"})
    told = one.page.get_by_role("alert").inner_text()
    assert "2 and 7 text tokens" in told and "0 My · 1 lord ‖" in told
    one.page.get_by_label("other text", exact=True).last.fill(OTHER)
    one.page.locator(".patch-controls .primary").click()
    one.page.wait_for_selector(".patch-aside")
    assert one.state["p.other"] == OTHER


def test_a_click_in_the_head_view_switches_a_head_off_and_on(tab: Tabs, play: Look, plays: Model) -> None:
    one = tab()
    page = one.open(play, view="head", l=3, h=3)
    page.get_by_role("button", name="Switch off layer 3 · head 3").click()
    one.until("location.hash.includes('off=self.3.3')")
    page.wait_for_selector(".head-ablation .changes")
    result = plays.inspect(TEXT).patch("blocks.3.attn.z[3]")
    target = next(change for change in result.top() if change.number == result.patching.metric.target)
    row = page.locator(".head-ablation tbody tr", has_text=target.name.strip()).first
    shown = row.locator("td").last.inner_text()
    assert value(shown.removesuffix("%")) == pytest.approx(100 * (target.probability_after or 0), rel=0.05)
    assert page.get_by_role("button", name="head 3, switched off").count() == 1
    page.get_by_role("button", name="Restore layer 3 · head 3").click()
    one.until("!location.hash.includes('off=')")
    page.locator(".head-ablation .changes").wait_for(state="detached")
    one.goto(play, view="head", l=0, h=1, off="self.3.3,self.0.1")
    page.wait_for_selector(".head-ablation .changes")
    assert page.get_by_role("button", name=re.compile("^Restore layer")).count() == 2


def test_the_file_holds_the_sweep_and_its_heads(tab: Tabs, play: Look, tmp_path: Path) -> None:
    run = play.run
    opened(tab(), play)
    assert run.readings
    from glassformer.explorer.standalone_page import StandalonePage

    page = StandalonePage(play.session, play.explorer.runs.facts, [TEXT], readings=list(run.readings.values()))
    page.save(tmp_path / "page.html")
    one = tab()
    opened(one, tmp_path / "page.html", **{"p.cell": "3.3"})
    one.page.wait_for_selector(".patch-aside .changes")
    one.go("head")
    one.page.keyboard.press("]")
    one.page.locator(".head-off button").first.click()
    one.page.wait_for_selector(".head-ablation .changes")
    one.goto(tmp_path / "page.html", view="patch", **{"p.kind": "residual"})
    assert "does not hold what each part does to the prediction" in one.page.get_by_role("alert").inner_text()


def test_it_is_saved_as_a_table(tab: Tabs, play: Look) -> None:
    one = tab(accept_downloads=True)
    page = opened(one, play)
    page.get_by_role("button", name="Share").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Table (CSV)").click()
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))
    assert rows[0] == ["component", "layer", "column", "metric", "effect"] and len(rows) == 25


@pytest.mark.parametrize(
    "screens",
    [
        pytest.param([("light", 1440), ("dark", 390)], id="two"),
        pytest.param([("light", 390), ("dark", 1440)], id="others", marks=pytest.mark.soak),
    ],
)
def test_for_people_who_do_not_see_it(tab: Tabs, play: Look, check: Check, screens: list[tuple[str, int]]) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = opened(one, play, **{"p.kind": "residual", "p.mode": "swap", "p.other": OTHER, "p.cell": "0.4"})
    page.wait_for_selector(".patch-aside .changes")
    page.get_by_role("button", name="data table").click()
    page.get_by_text("How to read this").click()
    for theme, width in screens:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        check(page, f"patching, {theme}, {width} wide")
    for width in (320, 720):
        page.set_viewport_size({"width": width, "height": 640})
        fits(page, f"{width} wide")
    page.set_viewport_size({"width": 1440, "height": 900})
    one.goto(play, view="head", l=3, h=3, off="self.3.3")
    page.wait_for_selector(".head-ablation .changes")
    check(page, "a head that is off")
