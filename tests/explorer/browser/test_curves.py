"""The page of a training's curves in a real browser: what it shows, what one can do, and without a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.reports.page import report_page
from glassformer.runs.curves import write_page
from glassformer.training.trials import SearchResult, Trial
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.training.a_run import write_run

Tabs = Callable[..., Tab]
INK = """
(figure, colour) => {
  const canvas = figure.querySelector('canvas'), probe = document.createElement('span');
  figure.append(probe);
  probe.style.color = colour;
  const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const columns = new Set();
  for (let i = 0; i < pixels.length; i += 4)
    if (Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b) < 24 && pixels[i + 3] > 200)
      columns.add((i / 4) % canvas.width);
  return columns.size / canvas.width;
}
"""
"""The share of the width of a chart in which there is ink of a colour."""
FIRST, SECOND = "light-dark(#0b6b83, #63cddb)", "light-dark(#c2410c, #ff9d5c)"


def chart(page: Any, title: str = "Loss") -> Any:
    return page.locator(f'[data-chart="{title}"]')


def ink(page: Any, colour: str, title: str = "Loss") -> float:
    """How much of the width of a chart has ink of a colour, once it is drawn."""
    page.wait_for_selector(f'[data-chart="{title}"] canvas')
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return float(chart(page, title).evaluate(f"(figure, colour) => ({INK})(figure, colour)", colour))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("curves")
    runs = [write_run(folder / name, steps=300, seed=i) for i, name in enumerate(("plain", "other <b>run"))]
    return {
        "one": write_page(runs[0], folder / "one.html"),
        "two": write_page(runs, folder / "two.html"),
    }


def legend(page: Any, title: str = "Loss") -> str:
    return str(chart(page, title).locator(".series-legend").inner_text())


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
    metrics = page.get_by_role("group", name="Metrics", exact=True)
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
    (tmp_path / "trials.html").write_text(report_page(SearchResult("f1", "maximize", trials)), "utf-8")
    page = tab(color_scheme="dark").goto(tmp_path / "trials.html")
    assert page.locator(".trade-off-plot circle").count() == 3 * 3
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        fits(page, f"{width} wide")
    check(page, "trials")


def test_without_scripts_the_numbers_are_there(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab(java_script_enabled=False).goto(pages["one"])
    text = page.locator("noscript").inner_text()
    assert "validation f1" in text and "learning_rate" in text and "270\t0.5364" in text


def test_each_chart_has_its_lines_marks_and_values(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    page.wait_for_selector("canvas")
    titles = [figure.get_attribute("data-chart") for figure in page.locator("[data-chart]").all()]
    assert titles == ["Loss", "f1", "Learning rate", "Gradient norm", "Tokens a second"]
    assert ink(page, FIRST) > 0.85, "the smoothed loss goes through the chart"
    assert ink(page, SECOND) > 0.3 and ink(page, FIRST, "f1") > 0.3, "validations are dashed"
    assert ink(page, "var(--bad)") > 0, "a step that was not applied"
    assert 0.005 < ink(page, "var(--edge)") < 0.2, "checkpoints"
    assert ink(page, "var(--ink)") > 0.005, "a ring around the best validation"
    assert ink(page, "var(--ink)", "Learning rate") == 0
    for name in ("checkpoint", "not applied: its loss was not finite", "best", "training, smoothed", "validation"):
        assert name in legend(page), name
    assert "half-life of 5 steps" in chart(page).inner_text()
    assert re.match(
        r"Loss over step\. training, smoothed: from [\d.]+ to 0\.\d+; validation: from",
        chart(page).get_by_role("slider").get_attribute("aria-description"),
    )
    chart(page).get_by_text("Values of Loss").click()
    chart(page).locator("tbody tr").first.wait_for()
    rows = chart(page).locator("tbody tr").all_inner_texts()
    assert 50 < len(rows) < 80 and any(row.startswith("270\t") for row in rows), "each validation is among them"


def test_pointing_tells_the_numbers_of_a_step_everywhere(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    page.wait_for_selector(".u-over")
    before = legend(page)
    box = page.locator(".u-over").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 100 / 306, box["y"] + 50)
    (step,) = re.findall(r"step (\d+)", page.locator(".series-bar output").inner_text())
    assert abs(int(step) - 100) <= 1 and legend(page) != before
    shown = "all => all.map(each => new DOMMatrix(getComputedStyle(each).transform).e).filter(x => x > 0)"
    assert len(page.eval_on_selector_all(".u-cursor-x", shown)) == 5
    assert re.search(r"validation\s+0\.\d+ \(step \d+\)", legend(page, "f1")) or "(step" not in legend(page, "f1")
    page.mouse.move(5, 5)
    assert legend(page) == before


def test_dragging_zooms_all_and_back(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    page.wait_for_selector(".u-over")
    full = page.get_by_role("button", name="Whole range")
    assert full.is_disabled()
    box = page.locator(".u-over").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=3)
    page.mouse.up()
    assert full.is_enabled()
    for title in ("Loss", "Tokens a second"):
        chart(page, title).scroll_into_view_if_needed()
        box = chart(page, title).locator(".u-over").bounding_box()
        for share, low, high in ((0.01, 150, 156), (0.99, 180, 186)):
            page.mouse.move(box["x"] + box["width"] * share, box["y"] + 50)
            (step,) = re.findall(r"step (\d+)", page.locator(".series-bar output").inner_text())
            assert low <= int(step) <= high, title
    full.click()
    assert full.is_disabled()
    chart(page).scroll_into_view_if_needed()
    box = page.locator(".u-over").first.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 50)
    assert page.locator(".series-bar output").inner_text() == "step 1"


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
    full = page.get_by_role("button", name="Whole range")
    page.keyboard.press("+")
    assert full.is_enabled()
    page.keyboard.press("Escape")
    assert full.is_disabled()


def test_a_log_scale_is_a_log_scale(tab: Tabs, pages: dict[str, Path]) -> None:
    """The smoothed loss falls as an exponential: on a log scale its second half has as much height as its first."""
    page = tab().goto(pages["one"])
    ink(page, FIRST)
    before = page.locator("[data-chart=Loss] canvas").evaluate("each => each.toDataURL()")
    button = page.get_by_role("button", name="Loss: log scale")
    button.click()
    assert button.get_attribute("aria-pressed") == "true" and ink(page, FIRST) > 0.85
    assert page.locator("[data-chart=Loss] canvas").evaluate("each => each.toDataURL()") != before
    button.click()
    assert ink(page, FIRST) > 0.85
    assert page.locator("[data-chart=Loss] canvas").evaluate("each => each.toDataURL()") == before


def test_runs_can_be_left_out_and_names_are_only_text(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["two"])
    other = page.get_by_role("group", name="Shown").get_by_role("button", name="other <b>run")
    assert "other <b>run" in legend(page) and ink(page, FIRST) > 0.3 and ink(page, SECOND) > 0.5
    other.click()
    assert other.get_attribute("aria-pressed") == "false"
    assert ink(page, SECOND) == ink(page, SECOND, "f1") == 0 and ink(page, FIRST) > 0.85
    chart(page).get_by_role("button", name="other <b>run, validation").click()
    assert other.get_attribute("aria-pressed") == "true" and ink(page, SECOND) > 0.5


def test_a_line_of_one_run_can_be_left_out_of_its_chart(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["one"])
    chart(page).get_by_role("button", name="validation").click()
    assert ink(page, SECOND) == 0 and ink(page, FIRST) > 0.85 and ink(page, FIRST, "f1") > 0.3


def test_the_charts_follow_the_theme_and_the_width(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab(color_scheme="light").goto(pages["one"])
    assert ink(page, "#0b6b83") > 0.85 and ink(page, "#63cddb") == 0
    for _ in range(2):  # light, dark
        page.get_by_role("button", name="Theme").click()
    assert ink(page, "#63cddb") > 0.85 and ink(page, "#0b6b83") == 0
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_function("() => document.querySelector('canvas').clientWidth < 390")
    assert ink(page, "#63cddb") > 0.65
