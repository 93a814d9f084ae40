"""From a folder of trainings to the reason for a worst error, by clicking, and back: with a real training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glassformer.evaluation.run_page import FolderPages
from glassformer.evaluation.runs import evaluated_split, open_run
from glassformer.explorer.report_server import ReportServer
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one that was trained and evaluated, and one whose rows were not."""
    home = tmp_path_factory.mktemp("walk")
    (home / "words").mkdir()
    word_tokenizer().save(str(home / "words" / "tokenizer.json"))
    rows = [f"{word} flies,{label}" for word, label in (("time", "a"), ("fruit", "b"))] * 10
    (home / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    config = {
        "task": "classify", "scratch": BERT, "tokenizer": str(home / "words"), "output": str(home / "runs/sweep/good"),
        "data": {"train": str(home / "rows.csv"), "validation": 0.5}, "training": {"steps": 2, "batch_size": 8},
    }  # fmt: skip
    make_trainer(parse_config(config)).train()
    evaluated_split(open_run(home / "runs" / "sweep" / "good"))
    make_run(home / "runs" / "new")
    return home / "runs"


@pytest.fixture
def served(folder: Path) -> Iterator[ReportServer]:
    each = FolderPages(folder)

    def pages(where: str) -> list[Display]:
        return each.pages(where) if where else [RunList.read(folder, address="/run/")]

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
    row = page.get_by_role("region", name="Row")
    row.wait_for()
    assert row.locator("span").all_inner_texts() == [where, f"true {true} · predicted {said}"] and true != said
    assert page.get_by_label("text", exact=True).input_value() in ("time flies", "fruit flies")
    check(page, "a row in the explorer")
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page, "a row in the explorer")
    page.set_viewport_size({"width": 1440, "height": 900})
    row.get_by_role("button", name=f"Why {said}, not {true}?").click()
    page.wait_for_selector("#tab-attribution[aria-selected=true]")
    assert f"r.target={said}&r.against={true}" in page.url
    page.get_by_text(f"{said} rather than {true}").first.wait_for()
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


def test_a_run_whose_model_is_gone_says_so_on_the_page(tab: Tabs, served: ReportServer) -> None:
    page = tab(expect="400").page
    page.goto(f"{served.address}look/new{served.url.removeprefix(served.address)}")
    page.get_by_text("new: its rows were not evaluated").wait_for()
