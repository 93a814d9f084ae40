"""Rows, their matrix and the page of a run in a real browser: what one can do, and the way to the explorer."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from urllib.request import Request, urlopen

import numpy as np
import pytest

from glassformer.evaluation.error_analysis.confusion import confusion_matrix
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.evaluation.error_analysis.review import read_sheet
from glassformer.evaluation.groups import GroupMetrics, MetricsByGroup
from glassformer.evaluation.run_page import run_reports
from glassformer.evaluation.runs import EvaluatedSplit, TrainedRun
from glassformer.explorer.report_server import ReportServer, explorer_address, one_page
from glassformer.model import Model
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Display
from glassformer.runs.config import parse_config
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import EVIL, classified, report, tagged
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.training.a_run import write_run

Tabs = Callable[..., Tab]
AT_CURVES = "Math.abs(document.getElementById('part-Curves')?.getBoundingClientRect().top - 8) < 2"
"""Whether the page is scrolled to the curves of a run."""


def errors_of(records: list[Prediction], **options: Any) -> EvaluatedRows:
    task = "tag" if "tokens" in records[0].row else "classify"
    return EvaluatedRows(report(task, records), records, **options)


def written(*reports: Display, folder: Path, title: str | None = None) -> Path:
    return write_page(folder / "page.html", report_page(*reports, title=title))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("errors")
    many = classified(63, [f"class {i}" for i in range(21)])
    kinds = {"classes": classified(60, text=f"time {EVIL} flies"), "tags": tagged(), "many": many}
    return {
        name: write_page(
            folder / f"{name}.html", report_page(errors_of(records, pages={records[-1].index: "look/row.html"}))
        )
        for name, records in kinds.items()
    }


def opened(tab: Tabs, position: Path, **options: Any) -> Any:
    page = tab(**options).goto(position)
    page.wait_for_selector(".row")
    return page


def told(page: Any) -> str:
    return str(page.locator(".filters output").inner_text())


@pytest.mark.representative("many")
@pytest.mark.parametrize(
    ("which", "themes"),
    [("classes", ("light", "dark")), ("tags", ("dark", "light")), ("many", ("light", "dark"))],
)
def test_anyone_can_use_it_at_any_width(
    tab: Tabs, pages: dict[str, Path], check: Check, which: str, themes: tuple[str, str]
) -> None:
    page = opened(tab, pages[which])
    for width, theme in zip((1440, 390), themes, strict=True):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        fits(page, f"{width} wide")
        check(page, f"{which}, {theme}, {width} wide")


def test_the_names_of_a_matrix_are_next_to_the_word_for_its_side(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["tags"])
    word = page.locator(".matrix .names text.middle", has_text=re.compile("^true$")).bounding_box()
    names = [each.bounding_box() for each in page.locator(".matrix .names text.end").all()]
    assert len(names) == 3 and all(name["x"] >= word["x"] + word["width"] for name in names), "also capital letters"


@pytest.mark.parametrize("width", [1440, 390])
def test_how_many_rows_there_are_is_one_line(tab: Tabs, tmp_path: Path, width: int) -> None:
    records = classified(60)
    page = opened(tab, written(errors_of(records, review="glassformer review"), folder=tmp_path))
    page.set_viewport_size({"width": width, "height": 900})
    lines = "each => each.getClientRects().length && each.clientHeight / parseFloat(getComputedStyle(each).lineHeight)"
    assert page.locator(".filters output").evaluate(lines) < 1.5, told(page)


def test_a_phone_shows_what_continues_and_has_room_for_numbers(tab: Tabs, tmp_path: Path) -> None:
    records = classified(63, [f"class {i}" for i in range(21)])
    page = opened(tab, written(errors_of(records), folder=tmp_path), viewport={"width": 390, "height": 900})
    fade = "each => getComputedStyle(each).getPropertyValue('--behind')"
    assert page.get_by_role("group", name="Confusion matrix", exact=True).evaluate(fade) == "36px"
    labels = page.get_by_role("group", name="By label")
    assert labels.evaluate("each => each.scrollWidth <= each.clientWidth") and labels.evaluate(fade) == "0px"
    value, better = (each.bounding_box() for each in page.locator(".baseline td .ends").all()[:2])
    assert value["x"] + value["width"] < better["x"], "intervals are one next to the other"


def test_rows_are_ordered_filtered_and_searched(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    assert told(page).startswith("60 of 60 rows · mean loss") and page.locator(".row").count() == 25
    losses = [float(x) for x in page.locator(".loss b").all_inner_texts()]
    assert losses == sorted(losses, reverse=True)
    page.get_by_label("Order").select_option("low")
    losses = [float(x) for x in page.locator(".loss b").all_inner_texts()]
    assert losses == sorted(losses)
    page.get_by_role("button", name="Next", exact=True).click()
    assert "26–50 of 60" in page.locator(".pager").inner_text()
    page.get_by_label("Find").fill("FLIES 54")
    assert told(page).startswith("1 of 60") and page.locator("mark").all_inner_texts() == ["flies 54"]
    assert page.locator(".row .text").inner_text() == f"time {EVIL} flies 54", "a text is only text"
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Answers").select_option("wrong")
    assert told(page).startswith("7 of 60")
    again = opened(tab, pages["classes"], viewport={"width": 800, "height": 700})
    again.goto(page.url)
    again.wait_for_selector(".row")
    assert told(again).startswith("7 of 60"), "the address holds what is chosen"


def test_the_rows_that_are_chosen_are_saved(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    page.get_by_label("Find").fill("flies 54")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Rows: save for a spreadsheet", exact=True).click()
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert saved.value.suggested_filename == "rows.csv"
    assert head == ["index", "where", "text", "true", "predicted", "probability", "loss"]
    assert [row[:5] for row in rows] == [["54", "val.csv: line 56", f"time {EVIL} flies 54", "anger", "joy"]]


def test_a_picture_of_rows_is_light_in_the_dark(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"], color_scheme="dark")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Rows: save as a drawing", exact=True).click()
    drawing = Path(saved.value.path()).read_text("utf-8")
    assert '<rect width="100%" height="100%" fill="#fff"' in drawing, "light, between the rows too"
    assert "highest loss first" not in drawing, "controls are not drawn"


def test_labels_are_corrected_and_come_back_as_a_sheet(tab: Tabs, tmp_path: Path) -> None:
    records = classified(60, text=f"=time {EVIL} flies")
    page = opened(tab, written(errors_of(records, review="glassformer review in mood --output x"), folder=tmp_path))
    for label, row in (("love", 59), ("delete", 56)):
        page.get_by_label("Find").fill(f"flies {row}")
        page.get_by_role("button", name=f"Correct row {row}").click()
        page.get_by_label(f"Right label of row {row}").fill(label)
        page.get_by_label(f"Right label of row {row}").press("Enter")
    page.reload()
    page.wait_for_selector(".row")
    assert page.get_by_label("Right label of row 56").input_value() == "delete", "a reload keeps them"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save 2 corrections").click()
    assert page.locator(".filters code").inner_text() == "glassformer review in mood --output x corrections.csv"
    saved.value.save_as(tmp_path / saved.value.suggested_filename)
    found = read_sheet(tmp_path / "corrections.csv", records, ["anger", "joy", "love"])
    assert (found.labels, found.dropped_rows) == ({59: "love"} if records[59].label != "love" else {}, {56})


def test_tags_of_words_are_corrected_one_by_one(tab: Tabs, tmp_path: Path, check: Check) -> None:
    records = tagged()
    page = opened(tab, written(errors_of(records, review="glassformer review in ner --output x"), folder=tmp_path))
    page.get_by_role("button", name="Correct row 0").click()
    word, tag = page.get_by_label("Word of row 0"), page.get_by_label("Right tag of row 0")
    assert word.locator("option:checked").inner_text() == "Rome · B-LOC", "the first that is wrong"
    tag.fill("B-PER")
    tag.press("Enter")
    word.select_option("1")
    assert tag.input_value() == ""
    tag.fill("O")
    tag.press("Enter")
    assert word.locator("option").all_inner_texts() == ["Jeff · B-PER → O", "saw · O", "Rome · B-LOC → B-PER"]
    page.get_by_role("button", name="Correct row 1").click()
    page.get_by_label("Right tag of row 1").fill("delete")
    page.get_by_label("Right tag of row 1").press("Enter")
    check(page, "tags that are corrected")
    page.reload()
    page.wait_for_selector(".row")
    assert page.get_by_label("Right tag of row 0").input_value() == "B-PER", "a reload keeps them"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save 3 corrections").click()
    saved.value.save_as(tmp_path / "corrections.csv")
    found = read_sheet(tmp_path / "corrections.csv", records, ["O", "B-PER", "B-LOC"])
    assert (found.labels, found.dropped_rows) == ({0: ["O", "O", "B-PER"]}, {1})


def test_a_cell_chooses_its_rows_by_mouse_and_keyboard(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    cell = page.get_by_role("button", name="true anger, predicted joy: 7 ")
    cell.click()
    assert told(page).startswith("7 of 60") and cell.get_attribute("aria-pressed") == "true"
    assert page.locator(".row").first.locator(".chip.is-predicted").inner_text().endswith("joy")
    cell.press("Enter")
    assert told(page).startswith("60 of 60")
    cell.press("ArrowLeft")
    page.keyboard.press(" ")
    assert told(page).startswith("13 of 60"), "anger that was found"
    page.locator(".matrix summary").click()
    page.get_by_role("button", name="7 anger predicted as joy 35%").click()
    assert told(page).startswith("7 of 60")
    page.get_by_role("button", name="joy", exact=True).click()
    assert told(page).startswith("20 of 60"), "a label in a table chooses its rows"


def test_numbers_of_the_matrix_are_those_of_python(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    result = confusion_matrix(classified(60))
    assert result is not None
    ways: list[tuple[str, Literal["true", "predicted"] | None]]
    ways = [("% of true", "true"), ("% of predicted", "predicted"), ("counts", None)]
    for words, how in ways:
        page.get_by_role("button", name=words).click()
        shares = result.shares(how)
        wanted = {f"{i},{j}": shares[i, j] for i, j in np.argwhere(result.counts)}
        shown = page.eval_on_selector_all(
            "[data-cell]", "all => all.map(e => [e.dataset.cell, e.querySelector('text').textContent])"
        )
        assert dict(shown) == {cell: f"{x:.0%}" if how else f"{x:.0f}" for cell, x in wanted.items()}
        assert ("cells=" in page.url) == (how is not None)


def test_the_matrix_is_saved_as_a_picture_and_as_a_table(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["many"])
    with page.expect_download() as picture:
        page.get_by_role("button", name="Confusion matrix: save as a picture").click()
    assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Confusion matrix: save for a spreadsheet").click()
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[1][:2] == ["class 0", "2"] and len(rows) == len(rows[0]) == 22


def test_names_of_150_classes_stay_in_sight(tab: Tabs, tmp_path: Path) -> None:
    records = classified(600, [f"class {i}" for i in range(150)])
    page = opened(tab, written(errors_of(records), folder=tmp_path))
    sheet = page.get_by_role("group", name="Confusion matrix", exact=True)
    sheet.evaluate("each => { each.scrollLeft = 900; each.scrollTop = 700; }")
    page.locator("[data-cell='70,70']").hover()
    assert page.locator(".readout").inner_text() == "true class 70, predicted class 70: 4 (100% of the true ones)"
    box = sheet.bounding_box()
    for name in page.locator(".matrix .names text", has_text=re.compile("class 70$")).all():
        place = name.bounding_box()
        assert box["x"] <= place["x"] < box["x"] + box["width"] and box["y"] <= place["y"] < box["y"] + box["height"]


def test_words_and_their_tags(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["tags"])
    wrong = page.locator(".word.wrong")
    assert [x.split() for x in wrong.all_inner_texts()] == [
        ["Rome", "✗", "predicted", "O", "✓", "true", "B-LOC", "loss", "2.00"],
        ["=Jeff", "✗", "predicted", "B-LOC", "✓", "true", "B-PER", "loss", "1.00"],
    ]
    page.get_by_role("button", name="true B-PER, predicted B-LOC: 1 ").click()
    assert told(page).startswith("1 of 2") and page.locator(".word.found").count() == 1
    assert page.locator(".word.unread").get_attribute("title").startswith("not evaluated")


def test_rows_of_a_group(tab: Tabs, tmp_path: Path) -> None:
    records = classified(12)
    groups = MetricsByGroup(
        column="speaker", metric="accuracy", groups=[GroupMetrics(name=name, rows=6) for name in ("theo", "lucas")]
    )
    made = replace(report("classify", records), groups=groups)
    rows = EvaluatedRows(made, records, groups=[(["theo", "lucas"][i % 2],) for i in range(12)])
    page = opened(tab, written(rows, folder=tmp_path))
    page.get_by_role("button", name="lucas", exact=True).click()
    assert told(page).startswith("6 of 12") and "group=lucas" in page.url
    page.locator("[name=group]").select_option("")
    assert told(page).startswith("12 of 12")


def test_looking_inside_a_file(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    assert page.get_by_role("link", name="Look inside row 59").get_attribute("href") == "./look/row.html"
    page.get_by_role("button", name="Look inside row 56").click()
    assert page.locator(".row .command code").inner_text().startswith("glassformer look MODEL 'time </script><img")


def test_looking_inside_through_the_explorer(tab: Tabs, models: dict[str, Model]) -> None:
    rows = errors_of(classified(), explorer=explorer_address("a mood/1"))
    with ReportServer(one_page([rows]), explored=lambda name: (models["bert"].session_factory(), [name])) as served:
        page = tab().page
        page.goto(served.url)
        page.wait_for_selector(".row")
        assert "token" not in page.url, "the key leaves the address"
        page.locator("select[name=true]").select_option("love")
        page.get_by_role("link", name="Look inside row 14").click()
        page.wait_for_selector("#tab-model[aria-selected=true]")
        assert page.url.partition("#")[0] == f"{served.address}look/a%20mood/1"
        field, row = page.get_by_label("text", exact=True), page.get_by_role("region", name="Row", exact=True)
        assert field.input_value() == "time flies 14" and "x=" in page.url
        assert row.inner_text().splitlines() == ["← Back to the row", "val.csv: line 16", "true love · predicted love"]
        field.fill("fruit flies")
        page.get_by_role("button", name="Run").click()
        row.get_by_text("The text is another than that of the row.").wait_for()
        assert "true=" not in page.url, "nor does its link say so"
        row.get_by_role("link", name="Back to the row").click()
        page.wait_for_selector(".row.at")
        assert page.locator(".row.at .where").inner_text() == "val.csv: line 16" and "true=love" in page.url
        page.locator("select[name=true]").select_option("joy")
        assert page.locator(".row.at").count() == 0 and "at=" not in page.url
        address = f"{served.address}api/report/"
        with pytest.raises(Exception, match="401"):
            urlopen(Request(address))
        stranger = tab(expect="401").page
        stranger.goto(served.url.partition("#")[0])
        stranger.get_by_text("The address lacks its key; open the whole address that the terminal printed").wait_for()
        assert stranger.get_by_role("button", name="Try again").count() == 0, "it would be refused again"
        late = tab(expect="ERR_CONNECTION_REFUSED").page
        late.goto(served.url)
        late.wait_for_selector(".row")
        late.route("**/api/report/", lambda route: route.abort("connectionrefused"))
        late.reload()
        late.get_by_text("The program that serves this page has ended").wait_for()
        late.unroute_all()
        late.get_by_role("button", name="Try again").click()
        late.wait_for_selector(".row")


def test_very_many_rows_are_shown_a_few_at_a_time(tab: Tabs, tmp_path: Path) -> None:
    page = opened(tab, written(errors_of(classified(5_000)), folder=tmp_path))
    for order in ("low", "file", "high"):
        page.get_by_label("Order").select_option(order)
        assert page.locator(".row").count() == 25 and "of 5,000" in page.locator(".pager").inner_text()


def test_the_page_of_a_run(tab: Tabs, tmp_path: Path, check: Check, models: dict[str, Model]) -> None:
    """Verdict, metrics, errors, curves, settings on one page; served, its rows open the explorer on their text."""
    records, folder = classified(), write_run(tmp_path / "mood", options={"data": {"train": str(tmp_path / "a.csv")}})
    run = TrainedRun(folder, parse_config({"task": "classify", "output": "x", "model": "m", "data": {"train": "a"}}))
    split = EvaluatedSplit(run, "validation", None, report("classify", records), records)
    page = opened(tab, written(*run_reports(split), folder=tmp_path))
    assert page.title() == page.locator("h1").inner_text() == "mood"
    assert page.locator("h2.part").all_inner_texts() == ["Errors", "Curves", "Settings"]
    settings = page.locator("article").last
    assert "…/a.csv" not in settings.inner_text() and page.locator(".row").count() == 10
    settings.locator("summary").click()
    assert str(tmp_path) not in page.content() and "…/a.csv" in settings.inner_text()
    said = page.locator(".finding").first.inner_text()
    better = "accuracy 0.700 [0.600, 0.800]; better than the baseline “most frequent” (0.300) on 30 rows."
    assert said.startswith(f"{better} No better since step ")
    heading = page.locator(".heading").first.inner_text()
    assert "The report leads with accuracy, but loss chose the model: best loss" in heading
    assert said.endswith("It ended at step 60.") and page.get_by_text("It ended at step 60.").count() == 1
    for width, theme in ((1440, "dark"), (390, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        fits(page, f"{width} wide")
        check(page, f"the page of a run, {theme}, {width} wide")
    page.get_by_role("button", name="Show all 30 rows").click()
    assert page.locator(".row").count() == 25 and "page=0" in page.url
    page.get_by_label("Answers").select_option("wrong")
    page.get_by_role("link", name="Curves", exact=True).click()
    assert told(page).startswith("4 of 30"), "going to a part of the page keeps what is chosen"
    page.get_by_role("link", name="Settings", exact=True).click()
    assert "part=Settings" in page.url and not page.evaluate(AT_CURVES)
    page.go_back()
    page.wait_for_function(f"() => {AT_CURVES}")
    page.reload()
    page.wait_for_function(f"() => {AT_CURVES}")
    assert told(page).startswith("4 of 30") and "part=Curves" in page.url

    reports = run_reports(split, explorer=explorer_address("mood"))
    with ReportServer(one_page(reports), explored=lambda name: (models["bert"].session_factory(), [name])) as served:
        one = tab()
        one.page.goto(served.url)
        one.page.wait_for_selector(".row")
        assert one.page.title() == "mood"
        assert one.page.get_by_role("slider", name="Loss: step").count() == 1, "the curves are alive"
        one.page.locator("a.look").first.click()
        one.page.wait_for_selector("#tab-model[aria-selected=true]")
        assert one.page.get_by_label("text", exact=True).input_value() == "time flies 27"
        one.page.go_back()
        one.page.wait_for_selector(".row.at")
