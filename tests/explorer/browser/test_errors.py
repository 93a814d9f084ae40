"""The page of an evaluation's rows in a real browser: what it shows, what one can do, and the way to the explorer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from glassformer.evaluation.error_analysis.confusion import confusion_matrix
from glassformer.evaluation.error_analysis.page import ErrorsPage
from glassformer.evaluation.error_analysis.served import ServedErrors
from glassformer.evaluation.run_page import RunPage
from glassformer.evaluation.runs import EvaluatedSplit, TrainedRun
from glassformer.model import Model
from glassformer.runs.config import parse_config
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import EVIL, classified, report, tagged
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.training.a_run import write_run

Tabs = Callable[..., Tab]


def errors_page(records: list[Prediction], **options: Any) -> ErrorsPage:
    task = "tag" if "tokens" in records[0].row else "classify"
    return ErrorsPage(report(task, records), records, **options)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("errors")
    many = classified(63, [f"class {i}" for i in range(21)])
    kinds = {"classes": classified(60, text=f"time {EVIL} flies"), "tags": tagged(), "many": many}
    return {
        name: errors_page(records, pages={records[-1].index: "look/row.html"}).save(folder / f"{name}.html")
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


def test_a_phone_shows_what_continues_and_gives_descriptions_room(tab: Tabs, tmp_path: Path) -> None:
    records = classified(63, [f"class {i}" for i in range(21)])
    made = report("classify", records)
    about = "TF-IDF of words and pairs of neighbours, logistic regression by scikit-learn 1.7"
    made.baselines["bag of words"] = replace(made.baselines["most frequent"], about=about)
    phone = {"viewport": {"width": 390, "height": 900}}
    page = opened(tab, ErrorsPage(made, records).save(tmp_path / "page.html"), **phone)
    said = page.locator(".metrics .dim", has_text="TF-IDF")
    lines = said.evaluate("each => each.offsetHeight / parseFloat(getComputedStyle(each).lineHeight)")
    assert lines < 4.5
    fade = "each => getComputedStyle(each).getPropertyValue('--behind')"
    assert page.get_by_role("region", name="Confusion matrix").evaluate(fade) == "36px"
    labels = page.get_by_role("region", name="Loss by label")
    assert labels.evaluate("each => each.scrollWidth <= each.clientWidth") and labels.evaluate(fade) == "0px"


def test_rows_are_ordered_filtered_and_searched(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    assert told(page).startswith("60 of 60 rows · mean loss") and page.locator(".row").count() == 25
    losses = [float(x) for x in page.locator(".loss b").all_inner_texts()]
    assert losses == sorted(losses, reverse=True)
    page.get_by_label("Order").select_option("low")
    losses = [float(x) for x in page.locator(".loss b").all_inner_texts()]
    assert losses == sorted(losses)
    page.get_by_role("button", name="Next").click()
    assert "26–50 of 60" in page.locator(".pager").inner_text()
    page.get_by_label("Find").fill("FLIES 54")
    assert told(page).startswith("1 of 60") and page.locator("mark").all_inner_texts() == ["flies 54"]
    assert page.locator(".text").inner_text() == f"time {EVIL} flies 54", "a text is only text"
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Answers").select_option("wrong")
    assert told(page).startswith("7 of 60")
    again = opened(tab, pages["classes"], viewport={"width": 800, "height": 700})
    again.goto(page.url)
    again.wait_for_selector(".row")
    assert told(again).startswith("7 of 60"), "the address holds what is chosen"


def test_a_cell_chooses_its_rows_by_mouse_and_keyboard(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    cell = page.get_by_role("button", name="true anger, predicted joy: 7", exact=True)
    cell.click()
    assert told(page).startswith("7 of 60") and cell.get_attribute("aria-pressed") == "true"
    assert page.locator(".row").first.locator(".chip.said").inner_text().endswith("joy")
    cell.press("Enter")
    assert told(page).startswith("60 of 60")
    cell.press("ArrowLeft")
    page.keyboard.press(" ")
    assert told(page).startswith("13 of 60"), "anger that was found"


def test_the_script_writes_the_numbers_of_the_picture(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    result = confusion_matrix(classified(60))
    assert result is not None
    for words, how in (("% of true", "true"), ("% of predicted", "predicted"), ("counts", None)):
        page.get_by_role("button", name=words).click()
        ours = MatrixCells(page)
        (theirs := tab().page).set_content(result.svg(how))  # type: ignore[arg-type]
        assert ours.cells == MatrixCells(theirs).cells, words


class MatrixCells:
    """The cells of a confusion matrix: number and opacity."""

    def __init__(self, page: Any) -> None:
        self.cells = page.eval_on_selector_all(
            ".confusion .cell",
            "all => all.map(e => [e.querySelector('text').textContent, "
            "e.querySelector('rect').getAttribute('fill-opacity')])",
        )


def test_words_and_their_tags(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["tags"])
    wrong = page.locator(".word.wrong")
    assert [x.split() for x in wrong.all_inner_texts()] == [
        ["Rome", "✗", "predicted", "O", "✓", "true", "B-LOC", "loss", "2.00"],
        ["=Jeff", "✗", "predicted", "B-LOC", "✓", "true", "B-PER", "loss", "1.00"],
    ]
    page.get_by_role("button", name="true B-PER, predicted B-LOC: 1").click()
    assert told(page).startswith("1 of 2") and page.locator(".word.found").count() == 1
    assert page.locator(".word.silent").get_attribute("title").startswith("not evaluated")


def test_looking_inside_a_file(tab: Tabs, pages: dict[str, Path]) -> None:
    page = opened(tab, pages["classes"])
    assert page.get_by_role("link", name="Look inside row 59").get_attribute("href") == "look/row.html"
    page.get_by_role("button", name="Look inside row 56").click()
    assert page.locator(".command code").inner_text().startswith("glassformer look MODEL 'time </script><img")


def test_looking_inside_through_the_explorer(tab: Tabs, models: dict[str, Model]) -> None:
    with ServedErrors(errors_page(classified()), models["bert"]) as served:
        one = tab()
        page = one.page
        page.goto(served.url)
        page.wait_for_selector(".row")
        assert "token" not in page.url, "the key leaves the address"
        with page.context.expect_page() as other:
            page.locator("a.look").first.click()
        inside = other.value
        inside.wait_for_selector("#tab-model[aria-selected=true]")
        assert inside.get_by_label("text", exact=True).input_value() == "time flies 27"
        inside.close()
        address = served.url.partition("/errors")[0] + "/api/errors"
        with pytest.raises(Exception, match="401"):
            urlopen(Request(address))


def test_thousands_of_rows_are_shown_a_few_at_a_time(tab: Tabs, tmp_path: Path) -> None:
    page = opened(tab, errors_page(classified(5_000)).save(tmp_path / "page.html"))
    for order in ("low", "file", "high"):
        page.get_by_label("Order").select_option(order)
        assert page.locator(".row").count() == 25 and "of 5,000" in page.locator(".pager").inner_text()
    assert len(json.loads(page.locator("#records").text_content())["rows"]) == 5_000


def test_the_page_of_a_run(tab: Tabs, tmp_path: Path, check: Check, models: dict[str, Model]) -> None:
    """Curves, report, errors, attention, settings on one page; served, its links open the explorer on their text."""
    records, folder = classified(), write_run(tmp_path / "mood", options={"data": {"train": str(tmp_path / "a.csv")}})
    run = TrainedRun(folder, parse_config({"task": "classify", "output": "x", "model": "m", "data": {"train": "a"}}))
    page_of_run = RunPage(EvaluatedSplit(run, "validation", None, report("classify", records), records))
    page = opened(tab, page_of_run.save(tmp_path / "run.html"))
    settings = page.locator("#part-settings")
    assert "…/a.csv" not in settings.inner_text() and page.locator(".row").count() == 8
    settings.locator("summary").click()
    assert str(tmp_path) not in page.content() and "…/a.csv" in settings.inner_text()
    said = page.locator(".verdict").inner_text()
    assert said.startswith(
        "accuracy 0.700 [0.600, 0.800]; better than the baseline “most frequent” (0.300) on 30 rows. The report leads "
        "with accuracy, but loss chose the model: best loss"
    )
    assert said.endswith("It ended at step 60.") and page.get_by_text("It ended at step 60.").count() == 1
    for width, theme in ((1440, "dark"), (390, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        fits(page, f"{width} wide")
        check(page, f"the page of a run, {theme}, {width} wide")
    page.get_by_label("Answers").select_option("wrong")
    page.get_by_role("link", name="Attention").click()
    assert told(page).startswith("4 of 30"), "going to a part of the page keeps what is chosen"
    assert page.locator(".linked li").count() == 5 and page.locator(".linked a").count() == 0

    with ServedErrors(page_of_run, models["bert"], name="run") as served:
        one = tab()
        one.page.goto(served.url)
        one.page.wait_for_selector(".row")
        assert one.page.get_by_role("slider", name="Loss: step").count() == 1, "the curves are alive"
        with one.context.expect_page() as other:
            one.page.locator(".linked a").first.click()
        other.value.wait_for_selector("#tab-model[aria-selected=true]")
        assert other.value.get_by_label("text", exact=True).input_value() == "time flies 27"
