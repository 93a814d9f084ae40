"""The page of a study in a real browser: curves with bands, quality over a cost, and differences."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from glassformer.reports.table import Table
from glassformer.studies.cells import Cell, CellResult
from glassformer.studies.report import ReportOptions
from glassformer.studies.study import Study
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.studies.few_labels import score

Tabs = Callable[..., Tab]


@pytest.fixture(scope="module")
def study_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    factors = {"method": ["prompt", "knn", "set-fit"], "labels": [8, 16, 32, 64]}
    options = ReportOptions(cost="seconds", against={"method": "prompt", "labels": 8})
    Study(factors, score, folder, seeds=[0, 1], options=options, settings={"rows": 100}).run()
    return folder / "study.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
def test_anyone_can_read_it(tab: Tabs, study_page: Path, check: Check, size: tuple[int, int], theme: str) -> None:
    width, height = size
    page = tab(viewport={"width": width, "height": height}).goto(study_page)
    page.emulate_media(color_scheme=theme)
    for summary in page.locator("summary").all():
        summary.click()
    fits(page, f"{width} wide")
    check(page, f"{theme}, {width} wide")


BOXES = """names => names.map((name) => {
  const { left, right, top, bottom } = name.getBoundingClientRect();
  return [left, right, top, bottom];
})"""


@pytest.mark.parametrize("width", [1440, 390])
def test_names_of_points_cover_no_others(tab: Tabs, study_page: Path, width: int) -> None:
    page = tab(viewport={"width": width, "height": 900}).goto(study_page)
    page.wait_for_function("() => document.querySelector('.trade-off-plot .name[dx]')")
    names = page.locator(".trade-off-plot .name:not([data-left-out])").evaluate_all(BOXES)
    assert page.locator(".trade-off-plot circle").count() == 12
    assert len(names) >= (12 if width > 1000 else 4)
    for (left, right, top, bottom), (begin, end, above, below) in combinations(names, 2):
        assert right <= begin or end <= left or bottom <= above or below <= top


def test_curves_differences_and_every_cell(tab: Tabs, study_page: Path) -> None:
    page = tab(viewport={"width": 1440, "height": 900}).goto(study_page)
    assert page.locator("h1").inner_text() == "accuracy by method (prompt, knn, set-fit), labels (8, 16, 32, 64)"
    assert "labels" in page.locator(".finding").inner_text()
    curves = page.locator("figure[data-chart=accuracy]")
    assert curves.locator("canvas").count() == 1
    assert [x.split("\n")[0] for x in curves.locator("li span:not(.swatch)").all_inner_texts()][:3] == [
        "prompt", "knn", "set-fit",
    ]  # fmt: skip
    plot = curves.locator("[aria-valuetext]")
    assert "knn 0." in str(plot.get_attribute("aria-valuetext")) and "[" in str(plot.get_attribute("aria-valuetext"))
    differences = page.get_by_role("group", name="Paired differences, 95% intervals")
    assert differences.locator("tbody tr").count() == 8 and differences.locator("td.interval svg").count() == 9
    cells = page.get_by_role("group", name="Every cell; in brackets 95% intervals over rows")
    assert not cells.is_visible()
    page.get_by_text("Every cell; in brackets").first.click()
    assert cells.locator("tbody tr").count() == 24 and "knn-16-labels/seed-1" in cells.inner_text()


@pytest.mark.parametrize("width", [1440, 390])
def test_what_was_done_in_each_cell_is_grouped_by_method_and_folded(
    tab: Tabs, tmp_path: Path, check: Check, width: int
) -> None:
    def with_details(cell: Cell) -> CellResult:
        rounds = Table(["round", "texts"], [["1", "8"], ["2", "40"]], "Self-training")
        return replace(score(cell), tables=[rounds] if cell["method"] != "set-fit" or cell["labels"] == 8 else [])

    factors = {"labels": [8, 16], "method": ["prompt", "knn", "set-fit"]}
    Study(factors, with_details, tmp_path, seeds=[0, 1], settings={"rows": 20}).run()
    page = tab(viewport={"width": width, "height": 900}).goto(tmp_path / "study.html")
    folders = page.locator(".folds > .card > details:has(.folds)")
    assert folders.locator("> summary").all_inner_texts() == ["prompt 4 tables", "knn 4 tables", "set-fit 2 tables"]
    assert page.get_by_text("Self-training").first.is_hidden()
    folders.nth(1).locator("> summary").click()
    inside = folders.nth(1).locator(".folds summary")
    assert inside.all_inner_texts() == [
        f"{labels} labels, knn, seed {seed}: Self-training" for labels in (8, 16) for seed in (0, 1)
    ]
    inside.first.click()
    assert folders.nth(1).get_by_role("group", name="Self-training").first.is_visible()
    fits(page, f"{width} wide")
    check(page, f"a group of tables, {width} wide")


def test_charts_are_on_the_first_screen_and_colours_are_those_of_the_curves(tab: Tabs, study_page: Path) -> None:
    page = tab(viewport={"width": 1440, "height": 900}).goto(study_page)
    for plot in (".series-plot", ".trade-off-plot"):
        box = page.locator(plot).first.bounding_box()
        assert box is not None and box["y"] > 0 and box["y"] + box["height"] < 900
    colours = "all => all.map((each) => getComputedStyle(each).getPropertyValue('--c'))"
    curves = page.locator("figure[data-chart=accuracy] .series-legend [data-colour]").evaluate_all(colours)
    dots = page.locator(".trade-off-plot g[data-colour]").evaluate_all(colours)
    assert len(set(curves[:3])) == 3 and dots == [colour for colour in curves[:3] for _ in range(4)]
    legend = page.locator(".trade-off-groups li")
    assert legend.all_inner_texts() == ["prompt", "knn", "set-fit"] and legend.evaluate_all(colours) == curves[:3]


def test_an_interval_takes_two_lines_on_a_phone(tab: Tabs, study_page: Path) -> None:
    page = tab(viewport={"width": 390, "height": 844}).goto(study_page)
    lines = (
        "all => all.map((each) => each.getBoundingClientRect().height / parseFloat(getComputedStyle(each).fontSize))"
    )
    heights = page.locator("section.card td.interval .written:not(:empty)").evaluate_all(lines)
    assert len(heights) == 20 and max(heights) < 3.4  # of a line 1.5


def test_charts_are_saved_as_pictures_and_tables_for_a_spreadsheet(tab: Tabs, study_page: Path, tmp_path: Path) -> None:
    page = tab(viewport={"width": 1440, "height": 900}).goto(study_page)
    page.wait_for_function("() => document.querySelector('.series-plot canvas')")
    for chart in ("accuracy", "accuracy by time"):
        with page.expect_download() as download:
            figure = page.locator("figure", has=page.get_by_role("heading", name=chart, exact=True))
            figure.get_by_role("button", name="save as a picture").click()
        download.value.save_as(tmp_path / "chart.png")
        with Image.open(tmp_path / "chart.png") as picture:
            assert picture.width > 400 and len(picture.convert("RGB").getcolors(1_000_000) or []) > 20
    chart, table = page.locator("figure.card").first, page.locator("section.card").first
    with page.expect_download() as download:
        table.get_by_role("button", name="save for a spreadsheet").click()
    assert download.value.suggested_filename == "accuracy-2.csv", "the chart above it has the same title"
    download.value.save_as(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[:5] == ["method", "labels", "accuracy", "accuracy low", "accuracy high"] and len(rows) == 12
    assert all(float(row[3]) <= float(row[2]) <= float(row[4]) for row in rows)
    chart.get_by_role("button", name="prompt").first.click()  # what is hidden is not saved
    with page.expect_download() as download:
        chart.get_by_role("button", name="save for a spreadsheet").click()
    download.value.save_as(tmp_path / "lines.csv")
    with open(tmp_path / "lines.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[0] == "labels" and [row[0] for row in rows] == ["8", "16", "32", "64"] and "knn" in head[1:4]


def test_cards_are_saved_as_drawings_of_texts_and_lines(tab: Tabs, study_page: Path, tmp_path: Path) -> None:
    page = tab(viewport={"width": 1440, "height": 900}).goto(study_page)
    page.wait_for_function("() => document.querySelector('.series-plot canvas')")
    cards = {"series": "figure.card:not(.trade-off)", "trade-off": "figure.trade-off", "table": "section.card"}
    drawings = {}
    for name, place in cards.items():
        with page.expect_download() as download:
            page.locator(place).first.get_by_role("button", name="save as a drawing").click()
        download.value.save_as(tmp_path / "card.svg")
        drawings[name] = ElementTree.parse(tmp_path / "card.svg").getroot()
    texts = {name: [x.text for x in svg.iter("{http://www.w3.org/2000/svg}text")] for name, svg in drawings.items()}
    assert all({"prompt", "knn", "set-fit"} <= set(found) for found in texts.values()), texts
    assert {"8", "16", "32", "64", "labels"} <= set(texts["series"]), "the ticks are the measured numbers"
    named = drawings["trade-off"].iter("{http://www.w3.org/2000/svg}text")
    rims = [x for x in named if x.get("stroke", "none") != "none"]
    assert rims and all((x.get("paint-order") or "").startswith("stroke") for x in rims), "a rim covers no name"
    curves = [x for x in drawings["series"].iter("{http://www.w3.org/2000/svg}path") if x.get("stroke-width") == "2"]
    assert len(curves) >= 3 and not list(drawings["series"].iter("{http://www.w3.org/2000/svg}image"))
    size = float(drawings["table"].get("height", "0"))
    assert all(
        0 <= float(x.get("y", "0")) <= size for x in drawings["table"].findall("{http://www.w3.org/2000/svg}text")
    )
