"""The page of reports in a real browser: tables, bars with intervals, trade-offs, texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from glassformer.reports.charts import Axis, Chart, Passages, Point, Series, SeriesLine, TradeOff
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Display, Report
from glassformer.reports.table import IntervalCell, Table
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]


def amount(x: float, half: float, *, signed: bool = False) -> IntervalCell:
    return IntervalCell(f"{x:g} [{x - half:g}, {x + half:g}]", x, x - half, x + half, signed=signed)


@dataclass(frozen=True, repr=False)
class Compression(Report, kind="test-compression"):
    """Sizes and scores of a model, compressed in several ways; of its second table this many rows."""

    rows: int = 40

    title = "Compression of a model"
    caption = "1,200 rows"
    finding = "int8 costs nothing."
    notes = ("A note <b>.",)

    def tables(self) -> list[Table]:
        bars = [
            ["fp32", amount(0.9, 0.01), ""],
            ["int8", amount(0.89, 0.01), amount(-0.01, 0.02, signed=True)],
            ["int4", amount(0.8, 0.02), amount(-0.1, 0.02, signed=True)],
        ]
        layers = [[f"head {i}", *(f"{math.sin(i * j):.2f}" for j in range(40))] for i in range(self.rows)]
        shades = [[math.sin(i * j) for j in range(40)] for i in range(self.rows)]
        return [
            Table(["", "accuracy", "difference"], bars, "accuracy", reference=0, baselines=[0]),
            Table(["", *map(str, range(40))], layers, "layers", shades=shades),
            Table(["", "text"], [["long", "y" * 3_000]], "texts", left=2, folded=True),
        ]

    def charts(self) -> list[Chart]:
        sizes = [("fp32", 90.0, 0.9), ("int8", 23.0, 0.89), ("int4", 12.0, 0.8), ("worse", 30.0, 0.7)]
        points = [Point(name, amount(x, 0), amount(y, 0.01), baseline=name == "fp32") for name, x, y in sizes]
        return [TradeOff("Size and accuracy", Axis("size", "MB", more=False, log=True), Axis("f1", more=True), points)]

    def passages(self) -> list[Passages]:
        return [Passages("line 3", [("int8", "abc \u202edef"), ("int4", "")], references=[("reference", "abc")])]


class WithSeries(Compression):
    """The same with a chart over one amount and one with a band, on an axis of its own."""

    def charts(self) -> list[Chart]:
        rows, score = [100, 1_000, 10_000], [0.5, 0.7, 0.9]
        band = SeriesLine("model", rows, score, low=[0.4, 0.6, 0.8], high=[0.6, 0.8, 1.0], markers=True)
        flat = SeriesLine("baseline", rows, [0.6, 0.6, 0.6], dashed=True)
        nothing = SeriesLine("nothing", [1.0, 2.0], [math.nan, math.inf])
        return [
            *super().charts(),
            Series(title="by rows", x_label="rows", y_label="f1", lines=[band, flat], log_x=True),
            Series(title="empty", x_label="step", lines=[nothing, SeriesLine("none", [], [])]),
        ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    reports = {"plain": Compression(), "large": Compression(rows=300), "series": WithSeries()}
    return {name: write_page(folder / f"{name}.html", report_page(report)) for name, report in reports.items()}


@pytest.mark.parametrize(
    ("which", "themes"), [("plain", ("light", "dark")), ("series", ("dark", "light"))], ids=["plain", "series"]
)
def test_anyone_can_use_it_at_any_width(
    tab: Tabs, pages: dict[str, Path], check: Check, which: str, themes: tuple[str, str]
) -> None:
    page = tab().goto(pages[which])
    for summary in page.locator("summary").all():
        summary.click()
    for width, theme in zip((1440, 390), themes, strict=True):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        fits(page, f"{width} wide")
        check(page, f"{which}, {theme}, {width} wide")


def test_sentences_stand_where_they_should(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["plain"])
    assert page.title() == page.locator("h1").inner_text() == "Compression of a model"
    assert page.locator(".finding").inner_text() == "int8 costs nothing."
    assert page.locator(".remarks").inner_text() == "A note <b>."
    assert "the dashed line is the value of fp32" in page.locator(".report").inner_text()
    assert page.locator("canvas").count() == 0 and page.evaluate("typeof glassformerSeries") == "undefined"


FADE = "(each, name) => getComputedStyle(each).getPropertyValue(name)"


def test_a_table_that_continues_fades_where_it_does(tab: Tabs, pages: dict[str, Path]) -> None:
    one = tab(viewport={"width": 390, "height": 900}, reduced_motion="reduce")
    page = one.goto(pages["plain"])
    wide = page.get_by_role("group", name="layers")
    assert [wide.evaluate(FADE, name) for name in ("--before", "--behind")] == ["0px", "36px"]
    wide.evaluate("each => each.scrollLeft = each.scrollWidth")
    one.until(
        "getComputedStyle(document.querySelector('[aria-label=layers]')).getPropertyValue('--before') === x", "36px"
    )
    assert wide.evaluate(FADE, "--behind") == "0px"
    page.get_by_text("texts", exact=True).click()
    narrow = page.locator("details .sheet").last
    assert narrow.evaluate("each => each.scrollWidth <= each.clientWidth")
    assert narrow.evaluate(FADE, "--behind") == "0px", "nothing is behind its edge"


def test_a_card_alone_in_its_row_is_as_wide_as_the_page(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["plain"])
    widths = page.locator(".cards > .card:has(.sheet)").evaluate_all("all => all.map(each => each.offsetWidth)")
    assert len(widths) >= 3 and len(set(widths)) == 1, "the last of three, of two columns, too"


def test_a_long_description_has_room_on_a_phone(tab: Tabs, tmp_path: Path) -> None:
    about = "TF-IDF of words and pairs of neighbours, logistic regression by scikit-learn 1.7"

    @dataclass(frozen=True, repr=False)
    class Described(Compression):
        def tables(self) -> list[Table]:
            row = ["bag of words", about, *["0.7123 [0.6012, 0.8123]"] * 3]
            return [Table(["", "what", "accuracy", "f1_macro", "f1_micro"], [row], "systems", left=2)]

    page = tab(viewport={"width": 390, "height": 900}).goto(
        write_page(tmp_path / "described.html", report_page(Described()))
    )
    row = page.get_by_role("group", name="systems").locator("tbody tr")
    assert row.evaluate("each => each.offsetHeight / parseFloat(getComputedStyle(each).fontSize)") < 1.5 * 4 + 1.5
    assert row.locator("td").nth(1).evaluate("each => each.offsetHeight") == row.evaluate("each => each.offsetHeight")
    assert row.locator("td").nth(1).evaluate("each => getComputedStyle(each).whiteSpace") == "nowrap"


def test_a_long_finding_is_folded_on_a_phone(tab: Tabs, tmp_path: Path) -> None:
    @dataclass(frozen=True, repr=False)
    class Long(Compression):
        finding = "Both systems are as good as each other." * 12

    page = tab().goto(write_page(tmp_path / "long.html", report_page(Long())))
    more = page.get_by_role("button", name="more", exact=True)
    assert not more.is_visible(), "whole where there is room"
    page.set_viewport_size({"width": 390, "height": 844})
    folded = page.locator(".finding > p").bounding_box()["height"]
    assert folded < 80 and page.locator(".card").first.bounding_box()["y"] < 320
    more.click()
    page.get_by_role("button", name="less", exact=True).wait_for()
    assert page.locator(".finding > p").bounding_box()["height"] > 3 * folded


def test_a_table_of_two_texts_fits_a_phone(tab: Tabs, tmp_path: Path) -> None:
    what, why = "4. Then learn from all labels by the best method", "glassformer train --task classify " * 4

    @dataclass(frozen=True, repr=False)
    class Steps(Compression):
        def tables(self) -> list[Table]:
            return [Table(["what to do next", "why, and the command"], [[what, why]], "steps", left=2, longest=500)]

    page = tab(viewport={"width": 390, "height": 900}).goto(write_page(tmp_path / "steps.html", report_page(Steps())))
    sheet = page.locator(".sheet", has_text="what to do next")
    assert sheet.evaluate("each => each.scrollWidth - each.clientWidth") == 0


def test_what_is_folded_is_one_row_and_a_long_heading_as_wide_as_the_card(tab: Tabs, tmp_path: Path) -> None:
    @dataclass(frozen=True, repr=False)
    class Folds(Display):
        title = "folds"

        def tables(self) -> list[Table]:
            folded = [Table(["a", "b", "c", "d"], [["1"] * 4], f"folded {i}", folded=True) for i in range(3)]
            return [Table(["a"], [["1"]], "rows of the test, wrong by at least one, and not by all equally"), *folded]

    page = tab().goto(write_page(tmp_path / "folds.html", report_page(Folds())))
    cards = page.locator(".folds .card")
    cards.nth(2).wait_for()
    assert len({each.bounding_box()["y"] for each in cards.all()}) == 1
    cards.nth(1).locator("summary").click()
    assert cards.nth(1).bounding_box()["width"] > 1300, "what is unfolded has the whole width"
    page.set_viewport_size({"width": 390, "height": 844})
    heading = page.locator(".card-head h2").first
    assert heading.bounding_box()["width"] > 0.9 * page.locator(".card-head").first.bounding_box()["width"]


WIDTHS = """table => [...table.querySelectorAll('tfoot tr > *')].map((_, i) =>
    [...table.querySelectorAll(`tr > :nth-child(${i + 1}) svg`)].map((bar) => bar.getBoundingClientRect().width))"""
"""Of the bars of each column and its axis, in pixels."""


def test_bars_are_on_one_scale(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["plain"])
    table = page.get_by_role("group", name="accuracy", exact=True)
    places = "all => all.map(each => parseFloat(each.getAttribute('cx')))"
    first = table.locator("tbody td:nth-of-type(1) circle").evaluate_all(places)
    assert len(first) == 3 and first[0] > first[1] > first[2]
    assert (first[0] - first[1]) / (first[0] - first[2]) == pytest.approx(0.1, abs=0.01)
    lines = table.locator("tbody tr").nth(0).locator("td:nth-of-type(1) .reference")
    assert float(lines.get_attribute("x1").rstrip("%")) == pytest.approx(first[0], abs=0.01)
    assert table.locator("tbody b").all_inner_texts() == ["-0.1 [-0.12, -0.08]"], "beyond what chance would give"
    assert table.locator("tbody tr.baseline th").all_inner_texts() == ["fp32"]
    widths = [bars for bars in table.evaluate(WIDTHS) if bars]
    assert [len(bars) for bars in widths] == [4, 3], "with the axis; the first row has no difference"
    assert all(max(bars) - min(bars) < 1 for bars in widths), "also where the numbers are longer, or bold"
    ticks = [float(x) for x in table.locator("tfoot td").nth(1).locator("text").all_text_contents()]
    assert ticks == sorted(ticks) and 0.8 in ticks


def test_a_table_is_sorted_by_a_column_and_back(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["plain"])
    table = page.get_by_role("group", name="accuracy", exact=True)
    head = table.get_by_role("columnheader", name="difference")
    orders = []
    for _ in range(3):
        head.get_by_role("button").press("Enter")
        orders.append((head.get_attribute("aria-sort"), table.locator("tbody th").all_inner_texts()))
    assert orders == [
        ("descending", ["int8", "int4", "fp32"]),
        ("ascending", ["int4", "int8", "fp32"]),
        (None, ["fp32", "int8", "int4"]),
    ]


def test_a_large_table_and_a_long_text_are_shown_whole_on_request(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["large"])
    rows = page.get_by_role("group", name="layers").locator("tbody tr")
    assert rows.count() == 200
    page.get_by_role("button", name="Show all 300 rows").click()
    assert rows.count() == 300
    backgrounds = "all => new Set(all.map(each => getComputedStyle(each).backgroundColor)).size"
    assert rows.nth(7).locator("td").evaluate_all(backgrounds) > 20
    page.get_by_text("texts", exact=True).click()
    cell = page.get_by_role("group", name="texts").locator("td")
    assert cell.inner_text().count("y") < 2_100
    page.get_by_role("button", name="Show all 3,000 characters").click()
    assert cell.inner_text() == "y" * 3_000


def test_a_trade_off_has_its_points_its_front_and_a_table(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["plain"])
    figure = page.get_by_role("figure")
    at = [
        [float(each.get_attribute(name).rstrip("%")) for name in ("cx", "cy")]
        for each in figure.locator(".trade-off-plot circle").all()
    ]
    fp32, int8, int4, worse = at
    assert int4[0] < int8[0] < worse[0] < fp32[0] and fp32[1] < int8[1] < int4[1] < worse[1]
    assert (int8[0] - int4[0]) / (fp32[0] - int4[0]) == pytest.approx(math.log(23 / 12) / math.log(90 / 12), abs=0.01)
    assert figure.locator("path.front").get_attribute("d").count("L") == 2, "worse is left out"
    assert "fp32: size 90" in figure.get_by_role("img").get_attribute("aria-label")
    figure.locator("summary").click()
    assert figure.locator("tbody th").all_inner_texts() == ["fp32", "int8", "int4", "worse"]


@pytest.mark.parametrize("width", [1440, 390])
def test_names_of_a_crowded_trade_off_collide_with_nothing(tab: Tabs, tmp_path: Path, width: int) -> None:
    """Variants of one model: nearly the same quality, and latencies next to each other."""

    class Crowd(Compression):
        """Ten of them."""

        def charts(self) -> list[Chart]:
            at = {"original": 8.2, "pruned": 8.2, "distilled": 5.0, "int8": 7.5, "int8-static": 7.3, "onnx": 6.3}
            at |= {"onnx-int8": 3.9, "distilled+int8": 4.7, "int4": 17.6, "half": 6.6}
            latency, score = Axis("latency", "ms", more=False, log=True), Axis("f1", more=True)
            points = [Point(name, amount(x, 0), amount(0.94 + x / 1e4, 0.03), size=9.0) for name, x in at.items()]
            return [TradeOff("f1 by latency", latency, score, points)]

    page = tab().goto(write_page(tmp_path / "crowd.html", report_page(Crowd())))
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(200)  # names move when the plot has another size
    boxes = (
        "each => each.map(x => (({left, right, top, bottom}) => [left, right, top, bottom])(x.getBoundingClientRect()))"
    )
    names = page.locator(".trade-off-plot .name:not([data-left-out])")
    texts, covered = names.evaluate_all(boxes), page.locator(".trade-off-plot circle").evaluate_all(boxes)
    assert len(texts) == 10 == len(covered)
    for i, (left, right, top, bottom) in enumerate(texts):
        for other in [*texts[:i], *texts[i + 1 :], *covered]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top, names.nth(
                i
            ).inner_text()


def test_texts_are_side_by_side_and_isolated(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["plain"])
    texts = page.locator(".side-by-side .text")
    assert texts.all_text_contents() == ["abc", "abc \u202edef", "(nothing)"]
    assert texts.nth(1).evaluate("each => getComputedStyle(each).unicodeBidi") == "isolate"
    assert page.locator(".side-by-side .reference h3").inner_text() == "reference"


def test_charts_over_other_amounts_have_zooms_of_their_own(tab: Tabs, pages: dict[str, Path]) -> None:
    page = tab().goto(pages["series"])
    page.wait_for_selector("canvas")
    assert page.locator(".series-bar").count() == 2 and page.locator("canvas").count() == 2
    rows = page.locator('[data-chart="by rows"]')
    assert "0.9 [0.8, 1.0]" in rows.locator(".series-legend").inner_text()
    rows.get_by_role("slider").focus()
    page.keyboard.press("Home")
    assert "0.5 [0.4, 0.6]" in rows.locator(".series-legend").inner_text()
    page.keyboard.press("+")
    zooms = page.get_by_role("button", name="Whole range")
    assert [zooms.nth(i).is_enabled() for i in range(2)] == [True, False]
    assert "∞" in page.locator('[data-chart="empty"]').inner_text()


def test_names_of_megabytes_do_not_stretch_the_page(tab: Tabs, tmp_path: Path) -> None:
    long = "x" * 4_000_000

    @dataclass(frozen=True, repr=False)
    class Long(WithSeries):
        title = caption = finding = long
        notes = (long,)

        def tables(self) -> list[Table]:
            return [Table([long, long], [[long, long]], long)]

        def charts(self) -> list[Chart]:
            line = SeriesLine(long, [1, 2], [1, 2], group=long, markers=True)
            point = Point(long, amount(1, 0), amount(1, 0))
            return [
                Series(title=long, x_label=long, y_label=long, lines=[line], note=long),
                TradeOff(long, Axis(long, long, more=True), Axis(long, more=True), [point]),
            ]

        def passages(self) -> list[Passages]:
            return [Passages(long, [(long, long)], source=long)]

    page = tab(viewport={"width": 390, "height": 900}).goto(write_page(tmp_path / "long.html", report_page(Long())))
    page.wait_for_selector("canvas")
    fits(page, "390 wide")
    assert page.evaluate("document.body.innerText.length") < 30_000


PAPER = "getComputedStyle(document.documentElement).backgroundColor"


def test_on_paper_it_is_light_and_unfolded(tab: Tabs, pages: dict[str, Path]) -> None:
    page: Any = tab(color_scheme="dark").goto(pages["plain"])
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme").click()  # auto, light, dark
    assert page.evaluate(PAPER) == "rgb(12, 17, 23)"
    page.emulate_media(media="print")
    assert page.evaluate(PAPER) == "rgb(244, 246, 249)"
    page.get_by_role("group", name="texts").wait_for()
    assert not page.locator(".tools").is_visible()
    page.emulate_media(media="screen")
    page.wait_for_function(f"() => {PAPER} === 'rgb(12, 17, 23)'")  # the theme that was chosen is back
    assert not page.get_by_role("group", name="texts").is_visible()
