"""The page of a folder of runs in a real browser: search, sort, group, select, and the way to each run and back."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.evaluation.run_page import FolderPages
from glassformer.explorer.report_server import ReportServer
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Display
from glassformer.runs.curves import TrainingCurves
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.history import read_run
from glassformer.runs.run_list import REPORT, ListedRun, RunList, named_runs
from glassformer.tasks.metrics.metric import Interval
from tests.evaluation.judged_run import classified, write_run
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.runs.run_folders import make_run

Tabs = Callable[..., Tab]
STUDY = Path(__file__).parents[3] / "docs/results/studies/transfer.json"
EVIL = "<img src=x onerror=alert(1)> & a+b=c%2F"
ROWS = "[...document.querySelectorAll('.browse tbody th[scope=row]')].map((each) => each.innerText)"
CHARTS = "[...document.querySelectorAll('[data-chart]')].map((each) => each.dataset.chart)"
LEGEND = '[data-chart="Training loss"] .series-legend li span:last-of-type'
DRAWN = f"[...document.querySelectorAll({LEGEND!r})].map((each) => each.innerText)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser") / "runs"
    for i, score in enumerate((0.5, 0.9, 0.7, 0.6, 0.4, 0.3, 0.2)):
        interval = (score - 0.05, score + 0.05) if i % 2 else None
        make_run(folder / f"sweep-{i % 2}" / f"run-{i}", [score], interval=interval, rate=f"1e-{3 + i % 2}", seed=i)
    make_run(folder / EVIL, None)
    make_run(folder / "broken", metric=EVIL)
    (folder / "broken" / "journal.jsonl").write_text("{\n")
    return folder


@pytest.fixture(scope="module")
def page_file(folder: Path) -> Path:
    return write_page(folder.parent / "runs.html", report_page(RunList.read(folder)))


@pytest.fixture
def served(folder: Path) -> Iterator[ReportServer]:
    def pages(path: str) -> list[Display]:
        if not path:
            return [RunList.read(folder, address="/run/")]
        found = named_runs(folder, path.removeprefix("run/").split("//"))
        return [TrainingCurves([read_run(run, name) for name, run in found.items()])]

    with ReportServer(pages) as server:
        yield server


def opened(tab: Tab, url: str) -> Any:
    tab.page.goto(url)
    tab.page.wait_for_selector(".browse tbody tr")
    return tab.page


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}])
def test_the_finding_then_the_curves_then_the_table(
    tab: Tabs, page_file: Path, check: Check, options: dict[str, Any]
) -> None:
    page = opened(tab(**options), page_file.as_uri())
    text = page.inner_text("main")
    assert text.startswith("Highest validation f1: 0.900 [0.850, 0.950], of sweep-1/run-1; the next")
    assert text.index("9 runs of classify on mood.csv: 7 ended, 1 not begun, 1 unreadable") < text.index(
        "Training loss"
    )
    assert page.evaluate(CHARTS) == ["Validation f1", "Training loss"]
    assert page.evaluate(DRAWN) == ["sweep-1/run-1", "sweep-0/run-2", "sweep-1/run-3", "sweep-0/run-0", "sweep-0/run-4"]
    assert page.evaluate(ROWS)[0] == "sweep-1/run-1" and EVIL in page.evaluate(ROWS)
    assert page.locator(".browse tbody input").count() == 7, "what has no curves cannot be selected"
    assert "unreadable: line 1 is invalid JSON" in text
    fits(page, "a folder of runs")
    check(page, "a folder of runs")


def test_a_row_is_one_line_and_a_long_setting_is_whole_where_one_points_and_in_the_file(
    tab: Tabs, tmp_path: Path
) -> None:
    frozen = [f"encoder.layer.{i}.attention" for i in range(12)]
    make_run(tmp_path / "runs" / "a", training_layers=frozen)
    make_run(tmp_path / "runs" / "b", training_layers=[])
    page = opened(tab(), write_page(tmp_path / "runs.html", report_page(RunList.read(tmp_path / "runs"))).as_uri())
    heights = page.evaluate("[...document.querySelectorAll('.browse tbody tr')].map((each) => each.offsetHeight)")
    assert max(heights) < 45, heights
    cell = page.locator(".browse td[title]")
    assert cell.get_attribute("title") == cell.text_content() == json.dumps(frozen)
    with page.expect_download() as saved:
        page.locator(".browse").get_by_title("save for a spreadsheet").click()
    lines = Path(saved.value.path()).read_text("utf-8").splitlines()
    assert frozen in [json.loads(row["training.training_layers"] or "[]") for row in csv.DictReader(lines)]


def test_rows_are_found_sorted_grouped_and_selected_and_the_address_says_so(
    tab: Tabs, page_file: Path, check: Check
) -> None:
    page = opened(tab(), page_file.as_uri())
    page.get_by_role("searchbox", name="Find rows").fill("sweep-0 training.rate=1e-3")
    assert page.evaluate(ROWS) == [f"sweep-0/run-{i}" for i in (2, 0, 4, 6)]
    assert page.get_by_text("4 of 9 rows").is_visible()
    page.locator(".browse thead").get_by_role("button", name="validation f1").click()
    page.locator(".browse thead").get_by_role("button", name="validation f1").click()
    assert page.evaluate(ROWS) == [f"sweep-0/run-{i}" for i in (6, 4, 0, 2)]
    page.get_by_label("Group by").select_option("training.seed")
    groups = page.locator(".browse tr.group").all_inner_texts()
    assert groups[0] == "training.seed 0 · 1 row · validation f1: 0.5" and len(groups) == 4
    page.get_by_role("button", name="Clear").click()
    assert page.evaluate(CHARTS) == [] and page.get_by_text("Select rows below to see their curves.").is_visible()
    page.get_by_label("Draw sweep-0/run-6").check()
    page.get_by_label("Draw sweep-0/run-0").check()
    assert page.evaluate(DRAWN) == ["sweep-0/run-0", "sweep-0/run-6"]
    page.get_by_label("Draw sweep-0/run-6").uncheck()
    colour = page.locator('[data-chart="Training loss"] .series-legend li').get_attribute("data-colour")
    assert colour == "1", "a run keeps its colour"
    check(page, "grouped")
    address = page.url
    again = opened(tab(), address)
    assert again.evaluate(ROWS) == page.evaluate(ROWS) and again.evaluate(DRAWN) == ["sweep-0/run-0"]
    assert again.locator(".browse tr.group").count() == 4
    assert again.get_by_role("searchbox").input_value() == "sweep-0 training.rate=1e-3"
    again.get_by_role("searchbox").fill("no such run")
    assert again.get_by_text("No row has this.").is_visible()


def test_it_is_used_by_keyboard_alone(tab: Tabs, page_file: Path) -> None:
    page = opened(tab(), page_file.as_uri())
    page.get_by_role("searchbox").focus()
    page.keyboard.type("run-5")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Group by"
    page.get_by_label("Draw sweep-1/run-5").focus()
    page.keyboard.press("Space")
    assert "sweep-1/run-5" in page.evaluate(DRAWN)
    assert page.evaluate("document.activeElement.ariaLabel") == "Draw sweep-1/run-5", "and the focus stays"
    page.keyboard.press("Space")
    assert "sweep-1/run-5" not in page.evaluate(DRAWN)


def test_each_run_and_several_have_a_page_and_the_way_back_works(tab: Tabs, served: ReportServer, check: Check) -> None:
    page = opened(tab(), served.url)
    assert "token" not in page.url and page.title() == "Runs in runs"
    page.get_by_role("searchbox").fill("sweep-1")
    page.get_by_role("link", name="sweep-1/run-3").click()
    page.wait_for_selector('[data-chart="Loss"]')
    assert page.title() == "sweep-1/run-3"
    check(page, "a run of a folder")
    page.go_back()
    page.wait_for_selector(".browse tbody tr")
    assert page.evaluate(ROWS) == [f"sweep-1/run-{i}" for i in (1, 3, 5)], "as it was left"
    page.get_by_role("link", name="Compare").click()
    page.wait_for_selector("text=Settings that differ")
    names = [f"sweep-{i}/run-{j}" for i, j in ((1, 1), (0, 2), (1, 3), (0, 0), (0, 4))]
    assert page.title() == "5 runs" and page.url.endswith(f"/run/{'//'.join(names)}")
    page.get_by_role("link", name="All runs").click()
    page.wait_for_selector(".browse tbody tr")


def test_a_name_of_any_characters_leads_to_its_run(tab: Tabs, folder: Path) -> None:
    make_run(folder.parent / "odd" / EVIL)
    make_run(folder.parent / "odd" / "b")

    def pages(path: str) -> list[Display]:
        if not path:
            return [RunList.read(folder.parent / "odd", address="/run/")]
        found = named_runs(folder.parent / "odd", path.removeprefix("run/").split("//"))
        return [TrainingCurves([read_run(run, name) for name, run in found.items()])]

    with ReportServer(pages) as server:
        page = opened(tab(), server.url)
        page.get_by_role("link", name=EVIL).click()
        page.wait_for_selector('[data-chart="Loss"]')
        assert page.title() == EVIL


def test_what_goes_wrong_is_said_and_can_be_tried_again(tab: Tabs, folder: Path) -> None:
    state = {"error": True}

    def pages(path: str) -> list[Display]:
        return [RunList.read(folder / "nothing" if state["error"] else folder)]

    with ReportServer(pages) as server:
        page = tab(expect="400|Failed to load|ERR_CONNECTION").page
        page.goto(server.url)
        page.wait_for_selector("[role=alert]")
        assert "holds no run" in page.inner_text("[role=alert]")
        state["error"] = False
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector(".browse tbody tr")
        state["error"] = True
        page.reload()
        page.wait_for_selector("[role=alert]")
        server.close()
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector("text=The program that serves this page has ended")


def test_a_run_that_is_gone_is_said_with_its_path_as_it_is_and_a_way_back(tab: Tabs, folder: Path) -> None:
    def pages(path: str) -> list[Display]:
        if path:
            raise DataError("runs/nb: holds no run")
        return [RunList.read(folder, address="/run/")]

    with ReportServer(pages) as server:
        page = tab(expect="400|Failed to load").page
        page.goto(f"{server.address}run/nb{server.url.removeprefix(server.address)}")
        page.wait_for_selector("[role=alert]")
        assert page.inner_text("[role=alert]") == "runs/nb: holds no run."
        page.get_by_role("link", name="All runs").click()
        page.wait_for_selector(".browse tbody tr")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_saved_picture_is_the_table_alone_with_its_frame_around_all_of_it(
    tab: Tabs, page_file: Path, width: int
) -> None:
    page = opened(tab(viewport={"width": width, "height": 844}, accept_downloads=True), page_file.as_uri())
    with page.expect_download() as download:
        page.get_by_role("button", name="Runs: save as a drawing").click()
    drawing = Path(download.value.path()).read_text("utf-8")
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", drawing)
    assert {"run", "sweep-1/run-1", "training.rate", "training.seed"} <= set(texts)
    assert not [text for text in texts if re.search("^on$|Group by|Clear|selected|nothing|^Find", text)]
    ends = [float(x) + float(long) for x, long in re.findall(r'<text x="([\d.-]+)"[^>]*textLength="([\d.]+)"', drawing)]
    [(x, wide), *_] = re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"[^>]*fill="none"', drawing)
    size = re.search(r'<svg[^>]* width="([\d.]+)"', drawing)
    assert size is not None and max(ends) < float(x) + float(wide) <= float(size[1]) + 1
    assert page.locator(".browse-bar").is_visible() and fits(page, "after saving") is None


def test_a_saved_picture_of_rows_has_no_filters(tab: Tabs, tmp_path: Path) -> None:
    records = classified()
    rows = [{"text": record.row["text"], "label": record.label} for record in records]
    run = write_run(tmp_path / "mood", "classify", rows, records, ["anger", "joy", "love"])
    with EventLog(event_log_path(run)) as log:
        log.write("begin", steps=10, options={})
    page = tab(accept_downloads=True).page
    page.goto(write_page(tmp_path / "run.html", report_page(*FolderPages(run).pages("run/run"))).as_uri())
    with page.expect_download() as saved:
        page.get_by_role("button", name="Rows: save as a drawing").click()
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", Path(saved.value.path()).read_text("utf-8"))
    assert len(texts) > 20 and not {"Order", "True", "Predicted", "Answers", "Find", "any", "Reset"} & set(texts)


def test_what_is_new_appears_and_nothing_is_lost_in_two_tabs_at_once(tab: Tabs, tmp_path: Path, check: Check) -> None:
    """A run in the making, a new one, a server that goes away: selection, words, order, scroll and focus stay."""
    folder = tmp_path / "runs"
    for i in range(40):
        make_run(folder / f"run-{i:02}", [0.5 + i / 100], seed=i)
    live = make_run(folder / "live", [0.1], ended=False, losses=(2.0,), seed=99)
    each = FolderPages(folder)

    def pages(path: str) -> list[Display]:
        return each.pages(path) if path else [RunList.read(folder, address="/run/")]

    with ReportServer(pages, stamp=each.stamp) as server:
        one = tab(expect="ERR_CONNECTION")
        first, second = one.page, one.context.new_page()
        for page in (first, second):
            page.clock.install()
            page.goto(server.url)
            page.wait_for_selector(".browse tbody tr")
        first.locator(".browse thead").get_by_role("button", name="training.seed").click()
        first.get_by_role("button", name="Clear").click()
        first.get_by_label("Draw live").check()
        first.get_by_label("Draw run-07").check()
        first.get_by_role("button", name="Zoom in").click()
        second.get_by_label("Draw run-39").uncheck()
        second.get_by_role("searchbox").fill("run-3")
        second.get_by_role("searchbox").press("Home")
        before = {page: (sorted(page.evaluate(DRAWN)), page.url) for page in (first, second)}
        first.locator(".browse .sheet").evaluate("each => each.scrollTo(0, 300)")
        first.evaluate("scrollTo(0, 200)")  # a wheel would still be turning
        places = first.evaluate("[scrollY, document.querySelector('.browse .sheet').scrollTop]")
        with EventLog(event_log_path(live)) as log:
            log.write("step", step=20, epoch=2.0, loss=0.25, lr=1e-4, grad_norm=1.0, tokens=200, tokens_per_s=50.0)
            log.write("validation", step=20, metrics={"loss": 0.01, "f1": 0.99}, best=True)
        make_run(folder / "run-30b", [0.2], seed=30)
        for page in (first, second):
            page.clock.fast_forward(6_000)
            page.get_by_text("Highest validation f1: 0.990, of live").wait_for()
            assert (sorted(page.evaluate(DRAWN)), page.url) == before[page], "each tab has its own"
        assert "run-30b" in second.evaluate(ROWS) and len(second.evaluate(ROWS)) == 11
        assert second.evaluate("[document.activeElement.type, document.activeElement.selectionStart]") == ["search", 0]
        assert first.evaluate("[scrollY, document.querySelector('.browse .sheet').scrollTop]") == places
        assert first.get_by_role("button", name="Whole range").is_enabled(), "it is zoomed in as before"
        assert "0.8333" in first.locator('[data-chart="Training loss"] .series-legend').inner_text()
        server.close()
        first.clock.fast_forward(6_000)
        news = first.get_by_role("status").filter(has_text="The program that serves this page has ended")
        news.wait_for()
        assert sorted(first.evaluate(DRAWN)) == before[first][0] and "Start it again" in news.inner_text()
        first.locator(".browse .sheet").evaluate("each => each.scrollTo(0, 0)")  # axe counts rows below the headings
        check(first, "a server that went away")


def test_a_step_of_a_curve_leads_to_the_rows_of_the_model_that_was_kept(tab: Tabs, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "a", [0.5, 0.7, 0.6], losses=(2.0, 1.0, 0.9), planned=30)
    make_run(tmp_path / "runs" / "b", [0.5])
    (run / "checkpoints" / "step-00000030").mkdir(parents=True)
    (run / "evaluation" / "validation").mkdir(parents=True)
    (run / "evaluation" / "validation" / "report.json").write_text(STUDY.read_text("utf-8"), "utf-8")
    each = FolderPages(tmp_path / "runs")
    with ReportServer(each.pages) as server:
        page = tab().page
        page.goto(f"{server.address}run/a//b{server.url.removeprefix(server.address)}")
        chart = page.get_by_role("slider", name="Loss: step")
        chart.focus()
        told = page.locator(".series-told")
        assert told.inner_text() == ""
        chart.press("Home")
        chart.press("Enter")
        assert "step=10" in page.url
        assert told.inner_text().splitlines() == [
            'b: the model of step 10 was kept; no rows were evaluated, which "glassformer evaluate RUN" does.',
            "a: no model was kept of step 10. Rows of step 20",
        ]  # fmt: skip
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        state = "a: of step 30 a training state is kept, to resume from: checkpoints/step-00000030. Rows of step 20"
        assert told.inner_text().startswith(state)
        over = page.locator(".u-over").first
        over.hover()  # waits until it no longer moves
        box = over.bounding_box()
        assert box is not None
        over.click(position={"x": box["width"] * 20 / 30.6, "y": box["height"] / 2})
        told.filter(has_text="a: the model of step 20 was kept. Its rows").wait_for()
        assert "step=20" in page.url
        page.reload()
        page.get_by_role("link", name="Its rows").click()
        page.wait_for_url("**/run/a")


def test_numbers_that_are_none_a_metric_that_comes_late_and_a_report_of_a_later_version(
    tab: Tabs, tmp_path: Path
) -> None:
    folder, records = tmp_path / "runs", classified()
    odd = make_run(folder / "odd", [0.5, 0.7], losses=(2.0, math.nan, math.inf, 1.0), ended=False)
    with EventLog(event_log_path(odd)) as log:
        log.write("validation", step=40, metrics={"f1": 0.6, "late": 0.9, "endless": math.inf, "none": math.nan})
    rows = [{"text": record.row["text"], "label": record.label} for record in records]
    later = write_run(folder / "later", "classify", rows, records, ["anger", "joy", "love"])
    with EventLog(event_log_path(later)) as log:
        log.write("begin", steps=10, options={})
    written = {**json.loads((later / REPORT).read_text("utf-8")), "version": 99}
    (later / REPORT).write_text(json.dumps(written), "utf-8")
    each = FolderPages(folder)

    def pages(path: str) -> list[Display]:
        return each.pages(path) if path else [RunList.read(folder, address="/run/")]

    with ReportServer(pages, explored=each.explored) as server:
        page = opened(tab(), server.url)
        assert page.evaluate(ROWS) == ["odd", "later/run"]
        assert page.locator(".browse thead").get_by_role("button", name="validation late").count() == 1
        page.get_by_role("link", name="odd").click()
        page.wait_for_selector('[data-chart="late"] canvas')
        page.locator('[data-chart="Loss"] .values summary').click()
        page.locator('[data-chart="Loss"] .values tbody tr').nth(1).wait_for()
        page.locator("summary", has_text="Validations of odd").click()
        validations = page.get_by_role("group", name="Validations of odd").text_content()
        assert validations is not None and {"∞", "NaN", "0.9"} <= set(re.findall(r"∞|NaN|0\.9", validations))
        fits(page, "a run of odd numbers")
        page.go_back()
        page.get_by_role("link", name="later/run").click()
        page.get_by_text("it was written by a later Glassformer; update this one").wait_for()


def test_ten_thousand_runs_are_searched_a_few_hundred_at_a_time(tab: Tabs, tmp_path: Path) -> None:
    listed = [
        ListedRun(name=f"run-{i}", state="ended", metrics={"f1": Interval(1 - i / 1e5)}, settings={"seed": str(i % 7)})
        for i in range(10_000)
    ]
    path = write_page(tmp_path / "many.html", report_page(RunList("many", "f1", True, listed)))
    page = opened(tab(), path.as_uri())
    assert len(page.evaluate(ROWS)) == 200
    page.get_by_role("button", name="Show 200 more of 10,000").click()
    assert len(page.evaluate(ROWS)) == 400
    page.get_by_role("searchbox").fill("run-9999")
    assert page.evaluate(ROWS) == ["run-9999"]
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Group by").select_option("seed")
    assert page.locator(".browse tr.group").first.inner_text().startswith("seed 0 · 1,429 rows · validation f1: mean")
    assert len(page.evaluate(ROWS)) == 200


def test_a_line_that_ends_early_has_its_name_in_the_legend_alone(tab: Tabs, tmp_path: Path) -> None:
    """A line from the middle of a chart to a name at its right edge would be taken for one of values."""
    make_run(tmp_path / "runs" / "long", [0.5, 0.6, 0.7, 0.8], losses=(4.0, 3.0, 2.0, 1.0))
    make_run(tmp_path / "runs" / "other", [0.4, 0.5, 0.6, 0.7], losses=(4.0, 3.0, 2.0, 1.0))
    make_run(tmp_path / "runs" / "short", [0.9], losses=(4.0,))
    page = opened(tab(), write_page(tmp_path / "runs.html", report_page(RunList.read(tmp_path / "runs"))).as_uri())
    with page.expect_download() as saved:
        page.get_by_role("button", name="Validation f1: save as a drawing", exact=True).click()
    names = re.findall(r"<text [^>]*>(long|other|short)<", Path(saved.value.path()).read_text("utf-8"))
    assert sorted(names) == ["long", "long", "other", "other", "short"], "in the legend, and two at the ends"
