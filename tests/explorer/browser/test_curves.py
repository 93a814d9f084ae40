"""The page of a training's curves in a real browser: what it shows, what one can do, and without a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.runs.curves import write_page
from glassformer.training.trials import SearchResult, Trial, trials_page
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.training.a_run import write_run

Tabs = Callable[..., Tab]
PATH = "() => document.querySelector('[data-chart=\"0\"] path.smooth').getAttribute('d')"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("curves")
    runs = [write_run(folder / name, steps=300, seed=i) for i, name in enumerate(("plain", "other <b>run"))]
    return {
        "one": write_page(runs[0], folder / "one.html"),
        "two": write_page(runs, folder / "two.html"),
    }


def legend(page: Any, chart: int = 0) -> str:
    return str(page.locator(f'[data-chart="{chart}"] .legend').inner_text())


@pytest.mark.parametrize(
    ("which", "themes"), [("one", ("light", "dark")), ("two", ("dark", "light"))], ids=["one", "two"]
)
def test_anyone_can_use_it_at_any_width(
    tab: Tabs, pages: dict[str, Path], check: Check, which: str, themes: tuple[str, str]
) -> None:
    page = tab().goto(pages[which])
    page.locator("summary").first.click()
    for width, theme in zip((1440, 390), themes, strict=True):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        fits(page, f"{width} wide")
        check(page, f"{which}, {theme}, {width} wide")


def test_metrics_of_a_few_runs_need_no_scrolling(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab(viewport={"width": 1440, "height": 900}).goto(pages["two"])
    metrics = page.get_by_role("region", name="Metrics of each run")
    hidden = "each => [each.scrollWidth - each.clientWidth, each.scrollHeight - each.clientHeight]"
    assert metrics.evaluate(hidden) == [0, 0], "a run a column: the whole table is on the page"
    assert metrics.locator("thead th").all_inner_texts()[1:] == ["plain", "other <b>run"]
    assert metrics.locator("tbody th").first.inner_text() == "steps"


def test_the_trials_of_a_search(tab: Tabs, tmp_path: Path, check: Check) -> None:
    trials = [
        Trial(
            i,
            {"learning_rate": 10.0 ** -(i + 2), "batch": 8 * i + 8, "schedule": "linear"},
            {"f1": i / 9},
            state,
            1.0,
        )
        for i, state in enumerate(("complete", "pruned", "complete"))
    ]
    (tmp_path / "trials.html").write_text(trials_page(SearchResult("f1", "maximize", trials)), "utf-8")
    page = tab(color_scheme="dark").goto(tmp_path / "trials.html")
    assert page.locator("circle").count() == 3 * 4
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        fits(page, f"{width} wide")
    check(page, "trials")


def test_without_scripts_the_pictures_are_there(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab(java_script_enabled=False).goto(pages["one"])
    plots = page.locator(".plot[role=img]")
    assert plots.count() == 5
    assert re.match(
        r"Loss over steps\. training, smoothed: from [\d.]+ to 0\.\d+",
        plots.first.get_attribute("aria-label"),
    )
    assert page.locator("path.smooth").first.get_attribute("d").count("L") > 100
    assert page.locator(".plot .best").first.get_attribute("d").startswith("M")
    assert not page.locator(".bar").is_visible()


def test_the_script_draws_what_stood_there(tab: Tabs, pages: dict[str, Path]) -> None:
    """The two drawings, in Python and in the page, agree to a pixel or so of a thousand."""
    still = tab(java_script_enabled=False).goto(pages["one"])
    alive = tab().goto(pages["one"])
    for selector in ("path.smooth", "path.points", ".best", ".skip", ".saved"):
        spoken_text = [page.locator(f".plot {selector}").first.get_attribute("d") for page in (still, alive)]
        ours, theirs = ([float(x) for x in re.findall(r"-?[\d.]+", each)] for each in spoken_text)
        assert ours == pytest.approx(theirs, abs=1.0), selector
    for selector in (".y text", ".x text"):
        assert still.locator(selector).all_text_contents() == alive.locator(selector).all_text_contents()
    last = [
        [float(x.replace(",", "")) for x in page.locator(".legend b").all_text_contents()] for page in (still, alive)
    ]
    assert last[0] == pytest.approx(last[1], rel=3e-4)


def test_pointing_tells_the_numbers_of_a_step_everywhere(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    before = legend(page)
    box = page.locator(".plot").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 100 / 303, box["y"] + 50)
    (step,) = re.findall(r"step (\d+)", page.locator(".bar output").inner_text())
    assert abs(int(step) - 100) <= 1 and legend(page) != before
    assert page.locator(".cursor[visibility=visible]").count() == 5
    assert re.search(r"validation 0\.\d+ \(step \d+\)", legend(page, 1)) or "(step" not in legend(page, 1)
    page.mouse.move(5, 5)
    assert legend(page) == before


def test_dragging_zooms_all_and_back(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    before = page.evaluate(PATH)
    full = page.get_by_role("button", name="Whole run")
    assert full.is_disabled()
    box = page.locator(".plot").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=3)
    page.mouse.up()
    assert page.evaluate(PATH) != before
    for chart in range(5):
        ticks = [int(x) for x in page.locator(f'[data-chart="{chart}"] .x text').all_text_contents()]
        assert ticks and min(ticks) >= 150 and max(ticks) <= 184
    full.click()
    assert page.evaluate(PATH) == before


def test_the_keyboard_does_all_of_it(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    plot = page.get_by_role("slider", name="Loss: step")
    plot.focus()
    page.keyboard.press("Home")
    assert plot.get_attribute("aria-valuenow") == "1"
    page.keyboard.press("ArrowRight")
    assert re.match(r"step 2: training [\d.]+, training, smoothed [\d.]+", plot.get_attribute("aria-valuetext"))
    for _ in range(98):
        page.keyboard.press("ArrowRight")
    assert plot.get_attribute("aria-valuenow") == "101"  # step 100 was not applied
    before = page.evaluate(PATH)
    page.keyboard.press("+")
    assert page.evaluate(PATH) != before
    page.keyboard.press("Escape")
    assert page.evaluate(PATH) == before


def test_a_log_scale_is_a_log_scale(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    page.get_by_role("button", name="Loss: log scale").click()
    positions = page.eval_on_selector_all(
        '[data-chart="0"] .y text',
        "all => all.map(e => [Number(e.textContent), parseFloat(e.getAttribute('y'))])",
    )
    assert len(positions) >= 3
    (a, y), (b, z), *_, (c, w) = positions
    from math import log

    assert (z - y) / (w - y) == pytest.approx(log(b / a) / log(c / a), abs=0.01)


def test_runs_can_be_left_out_and_names_are_only_text(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["two"])
    other = page.get_by_role("button", name="other <b>run")
    assert "other <b>run" in legend(page)
    other.click()
    assert other.get_attribute("aria-pressed") == "false"
    assert "other" not in legend(page) and "plain" in legend(page)
    assert page.locator('[data-chart="0"] path.smooth').count() == 1
    other.click()
    assert page.locator('[data-chart="0"] path.smooth').count() == 2
