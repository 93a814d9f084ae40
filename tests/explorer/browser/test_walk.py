"""From a folder of trainings to the reason for a worst error, by clicking, and back: with real trainings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from glassformer.evaluation.run_page import FolderPages, model_in_folder, serve_run
from glassformer.evaluation.runs import evaluated_split, open_run
from glassformer.explorer.report_server import ReportServer
from glassformer.reports.page import made_by
from glassformer.reports.report import Display
from glassformer.runs.config import parse_config
from glassformer.runs.run_list import RunList
from glassformer.training.run import make_trainer
from tests.e2e.tiny_models import word_tokenizer
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.runs.run_folders import make_run

Tabs = Callable[..., Tab]
BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip
GPT = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24, "n_positions": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: a classifier and a language model, trained and evaluated, and one whose rows were not."""
    home = tmp_path_factory.mktemp("walk")
    (home / "words").mkdir()
    word_tokenizer().save(str(home / "words" / "tokenizer.json"))
    rows = [f"{word} flies,{label}" for word, label in (("time", "a"), ("fruit", "b"))] * 10
    (home / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    config = {
        "task": "classify", "scratch": BERT, "tokenizer": str(home / "words"), "output": str(home / "runs/sweep/good"),
        "data": {"train": str(home / "rows.csv"), "validation": 0.5}, "training": {"steps": 2, "batch_size": 8},
    }  # fmt: skip
    (home / "texts.csv").write_text("text\n" + "\n".join(f"{word} flies" for word in ("time", "fruit") * 10) + "\n")
    texts = {"train": str(home / "texts.csv"), "validation": 0.5}
    writer = {**config, "task": "generate", "scratch": GPT, "output": str(home / "runs" / "writer"), "data": texts}
    for each in (config, writer):
        make_trainer(parse_config(each)).train()
        evaluated_split(open_run(Path(str(each["output"]))))
    make_run(home / "runs" / "new")
    return home / "runs"


@pytest.fixture
def served(folder: Path) -> Iterator[ReportServer]:
    each = FolderPages(folder)

    def pages(where: str) -> list[Display]:
        return each.pages(where) if where else [RunList.read(folder, address="/run/", model=model_in_folder)]

    with ReportServer(pages, explored=each.explored) as server:
        yield server


def test_a_newcomer_walks_to_the_reason_for_the_worst_error_and_back(
    tab: Tabs, served: ReportServer, check: Check
) -> None:
    page = tab().page
    page.goto(served.url)
    page.get_by_role("link", name="sweep/good").click()
    page.wait_for_selector(".row")
    assert page.title() == "sweep/good"
    page.get_by_label("Answers").select_option("wrong")
    wrong = page.locator(".row").first
    true, said = (wrong.locator(f".facts .chip.is-{kind}").inner_text().split()[-1] for kind in ("true", "predicted"))
    where = wrong.locator(".where").inner_text()
    wrong.locator("a.look").click()
    row = page.get_by_role("region", name="Row", exact=True)
    row.wait_for()
    assert row.locator("span").all_inner_texts()[:2] == [where, f"true {true} · predicted {said}"] and true != said
    assert page.get_by_label("text", exact=True).input_value() in ("time flies", "fruit flies")
    check(page, "a row in the explorer")
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page, "a row in the explorer")
    page.set_viewport_size({"width": 1440, "height": 900})
    row.get_by_role("button", name=f"Why {said}, not {true}?").click()
    page.wait_for_selector("#tab-attribution[aria-selected=true]")
    assert f"r.target={said}&r.against={true}" in page.url
    page.get_by_text(f"{said} rather than {true}").first.wait_for()
    layer, head = strongest_head(page)
    page.get_by_role("tab", name="Head", exact=True).click()
    page.get_by_text(f"Layer {layer}, head {head}: its share of “{said} rather than {true}” is").wait_for()
    assert f"&l={layer}&h={head}&" in page.url
    check(page, "the head that explains a row")
    page.get_by_role("tab", name="Matrix").click()
    assert row.inner_text().startswith("← Back to the row"), "in every view"
    page.reload()
    row.wait_for()
    row.get_by_role("link", name="Back to the row").click()
    page.wait_for_selector(".row.at")
    assert (
        page.locator(".row.at .where").inner_text() == where and page.get_by_label("Answers").input_value() == "wrong"
    )
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("link", name="new", exact=True).click()
    page.get_by_text("It has no rows yet").wait_for()
    assert page.get_by_role("slider", name="Loss: step").count() == 1


@pytest.mark.parametrize("begins", ["a folder of runs", "one run"])
def test_from_a_step_of_the_curve_to_the_reason_of_an_error_and_back(
    tab: Tabs, served: ReportServer, folder: Path, begins: str
) -> None:
    page = tab().page
    if begins == "one run":
        with serve_run(folder / "sweep" / "good") as server:
            page.goto(server.url)
            walk_from_the_curve(page)
    else:
        page.goto(served.url)
        page.get_by_role("link", name="sweep/good").click()
        walk_from_the_curve(page)
        page.get_by_role("link", name="All runs").click()
        page.get_by_role("link", name="sweep/good").wait_for()


def test_a_step_on_the_page_of_all_runs_leads_to_the_rows_of_its_model(tab: Tabs, served: ReportServer) -> None:
    page = tab().page
    page.goto(served.url)
    curve = page.get_by_role("slider", name="Training loss: step")
    click_the_last_step(curve)
    told = page.locator(".series-told")
    told.get_by_text("sweep/good:").wait_for()
    told.get_by_role("link", name=re.compile("rows", re.IGNORECASE)).first.click()
    page.wait_for_selector(".row")
    assert "/run/" in page.url


def click_the_last_step(curve: Any) -> None:
    """Once it no longer moves: other charts of the page may still be drawn above it."""
    over = curve.locator(".u-over")
    over.hover()  # which waits for that
    box = over.bounding_box()
    over.click(position={"x": box["width"] * 0.97, "y": box["height"] / 2})


def walk_from_the_curve(page: Any) -> None:
    """curve → step → its rows → row → attribution → head → arithmetic → lens → row, all by clicking."""
    curve = page.get_by_role("slider", name="Loss: step")
    curve.scroll_into_view_if_needed()
    click_the_last_step(curve)
    told = page.locator(".series-told")
    told.get_by_text(re.compile(r"step \d was kept\.|no model was kept of step \d")).wait_for()
    page.reload()
    page.wait_for_function(
        "() => { const place = document.querySelector('.series-told')?.getBoundingClientRect();"
        " return place && place.height > 0 && place.top >= 0 && place.bottom <= innerHeight && scrollY > 0; }"
    )  # a reload leads to what is said of the step
    told.get_by_role("button", name=re.compile("rows", re.IGNORECASE)).click()
    page.wait_for_function("() => Math.abs(document.querySelector('#part-Errors').getBoundingClientRect().top) < 200")
    page.get_by_label("Answers").select_option("wrong")
    where = page.locator(".row .where").first.inner_text()
    page.locator(".row a.look").first.click()
    row = page.get_by_role("region", name="Row")
    row.get_by_role("button", name="Why").click()
    layer, head = strongest_head(page)
    for name in ("Head", "Matrix", "Arithmetic"):
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(".because", has_text=f"Layer {layer}, head {head}: its share of").wait_for()
    row.get_by_role("button", name="Layer by layer").click()
    page.locator(".lens-grid [role=gridcell]").first.wait_for()
    page.go_back()
    page.wait_for_selector("#tab-neuron[aria-selected=true]")
    row.get_by_role("link", name="Back to the row").click()
    page.wait_for_selector(".row.at")
    assert page.locator(".row.at .where").inner_text() == where
    told.get_by_role("button", name=re.compile("rows", re.IGNORECASE)).wait_for()  # the step is in the address


def strongest_head(page: Any) -> list[str]:
    """Layer and head that Attribution names first."""
    page.locator(".attr-strongest button").first.wait_for()
    _, layer, _, head = page.locator(".attr-strongest button").first.inner_text().split()
    return [layer, head]


def test_a_row_leads_to_the_head_that_explains_it_and_says_why(tab: Tabs, served: ReportServer) -> None:
    page = tab().page
    page.goto(served.url)
    page.get_by_role("link", name="sweep/good").click()
    page.locator(".row a.look").first.click()
    page.get_by_role("tab", name="Head", exact=True).click()  # before or after Attribution has its numbers
    reason = page.locator(".because")
    reason.get_by_text("the largest of 4 heads").wait_for()
    shown = parse_qs(urlsplit(page.url).fragment)
    reason.get_by_role("button", name="Attribution").click()
    assert strongest_head(page) == [*shown["l"], *shown["h"]]
    other = page.locator(".attr-grid [role=gridcell]").last
    other.click()
    layer, head = re.findall(r"\d+", other.get_attribute("aria-label"))[:2]
    page.get_by_role("tab", name="Head", exact=True).click()
    reason.get_by_text(f"Layer {layer}, head {head}: its share of").wait_for()
    page.reload()
    reason.get_by_text(f"Layer {layer}, head {head}: its share of").wait_for()
    page.keyboard.press("[")
    reason.wait_for(state="detached")
    assert "why=" not in page.url, "the reader has chosen another"


def reloaded(page: Any, shows: str) -> None:
    """Load the page again: the address stays, and so does what it shows."""
    page.locator(shows).first.wait_for()
    address = page.url
    page.reload()
    page.locator(shows).first.wait_for()
    assert page.url == address


def test_a_model_near_chance_says_so_on_every_page_of_the_walk(tab: Tabs, tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    word_tokenizer().save(str(tmp_path / "words" / "tokenizer.json"))
    lines = [f"{word} flies,{label}" for word in ("time", "fruit") for label in "aabc"] * 5  # no word tells the label
    (tmp_path / "rows.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    config = {
        "task": "classify", "scratch": BERT, "tokenizer": str(tmp_path / "words"), "output": str(tmp_path / "guess"),
        "data": {"train": str(tmp_path / "rows.csv"), "validation": 0.5}, "training": {"steps": 1, "batch_size": 8},
    }  # fmt: skip
    make_trainer(parse_config(config)).train()
    evaluated_split(open_run(tmp_path / "guess"))
    with serve_run(tmp_path / "guess") as server:
        page = tab().page
        page.goto(server.url)
        page.get_by_text(re.compile(r"Hardly better than chance: accuracy 0\.\d+ \[.*always “a” has")).first.wait_for()
        page.locator(".row a.look").first.click()
        page.locator(".found", has_text="That is hardly better than chance").wait_for()
        row = page.get_by_role("region", name="Row", exact=True)
        row.get_by_text("Hardly better than chance: accuracy").wait_for()
        row.get_by_role("button", name="Layer by layer").click()
        page.locator(".found", has_text="an equal share of 3 labels is 33%").wait_for()
        cells = page.locator(".lens-grid [role=gridcell]")
        shades = cells.evaluate_all("cells => cells.map((cell) => getComputedStyle(cell).backgroundColor)")
        assert len(set(shades)) > 2, "the scale is that of the numbers"
        low, high = page.locator(".lens-legend > span:not(.lens-scale)").all_inner_texts()
        assert 20 < float(low.rstrip("%")) < 33.4 < float(high.rstrip("%")) < 50


@pytest.mark.parametrize("width", [390, 1440])
def test_each_state_of_the_walk_is_in_its_address(tab: Tabs, served: ReportServer, width: int) -> None:
    page = tab().page
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(served.url)
    reloaded(page, ".browse tbody tr")
    page.get_by_role("link", name="sweep/good").click()
    reloaded(page, ".row")
    page.get_by_label("Answers").select_option("wrong")
    reloaded(page, ".row a.look")
    page.locator(".row a.look").first.click()
    page.locator(".attr-strongest li").first.wait_for()
    reloaded(page, "section[aria-label=Row]")
    row = page.get_by_role("region", name="Row", exact=True)
    row.get_by_role("button", name="Why").click()
    page.wait_for_selector("#tab-attribution[aria-selected=true]")
    reloaded(page, "#view [role=gridcell]")
    row.get_by_role("button", name="Layer by layer").click()
    page.wait_for_selector("#tab-lens[aria-selected=true]")
    reloaded(page, ".lens-grid")
    page.get_by_role("tab", name="Head", exact=True).click()
    reloaded(page, ".head-tokens")
    row.get_by_role("link", name="Back to the row").click()
    reloaded(page, ".row.at")
    assert page.get_by_label("Answers").input_value() == "wrong"
    page.get_by_role("link", name="All runs").click()
    reloaded(page, ".browse tbody tr")


def test_the_lens_of_a_row_of_a_language_model(tab: Tabs, served: ReportServer) -> None:
    page = tab().page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(served.url)
    page.get_by_role("link", name="writer").click()
    worst = page.locator(".row").first
    where = worst.locator(".where").inner_text()
    worst.locator("a.look").click()
    row = page.get_by_role("region", name="Row", exact=True)
    row.get_by_role("button", name="Layer by layer").click()
    reloaded(page, ".lens-grid [role=rowheader]")
    assert page.locator(".lens-grid [role=rowheader]").all_inner_texts() == ["embedding", "layer 0", "layer 1: output"]
    assert row.locator("span").all_inner_texts() == [where], "it has no label, and is the text of the row"
    fits(page, "the lens of a row")
    page.locator(".texts-line").click()
    page.get_by_label("text", exact=True).fill("fruit flies flies")
    page.get_by_role("button", name="Run").click()
    row.get_by_text("The text is another than that of the row.").wait_for()
    reloaded(page, "text=The text is another than that of the row.")
    row.get_by_role("link", name="Back to the row").click()
    page.wait_for_selector(".row.at")
    assert page.locator(".row.at .where").inner_text() == where


def test_a_run_whose_model_is_gone_says_so_on_the_page(tab: Tabs, served: ReportServer) -> None:
    page = tab(expect="400").page
    page.goto(f"{served.address}look/new{served.url.removeprefix(served.address)}")
    page.get_by_text("new: its rows were not evaluated").wait_for()


def test_a_click_on_a_link_of_a_server_that_has_just_ended_stays_on_the_page(
    tab: Tabs, folder: Path, check: Check
) -> None:
    """In a list of runs, in a run and in the explorer of its model; the page says how to start it again."""
    each = FolderPages(folder)

    def pages(where: str) -> list[Display]:
        return each.pages(where) if where else [RunList.read(folder, address="/run/")]

    one = tab(expect="ERR_CONNECTION")
    run, explorer = one.page, one.context.new_page()
    with made_by(["glassformer", "look", "runs of today"]), ReportServer(pages, explored=each.explored) as server:
        run.goto(server.url)
        run.get_by_role("link", name="sweep/good").click()
        run.wait_for_selector(".row")
        explorer.goto(server.url)
        explorer.get_by_role("link", name="sweep/good").click()
        explorer.locator(".row a.look").first.click()
        explorer.get_by_role("link", name="Back to the row").wait_for()
    for page, link, place in ((run, "All runs", ".report-news"), (explorer, "Back to the row", ".banner")):
        address = page.url
        page.get_by_role("link", name=link).click()
        told = page.locator(place, has_text="The program that serves this page has ended. What is on screen stays.")
        told.wait_for()
        assert page.url == address and told.get_by_role("button", name="Copy the command").is_visible()
        assert told.locator("code").inner_text() == "glassformer look 'runs of today'", "what the reader started"
    check(run, "a run whose server has ended")
