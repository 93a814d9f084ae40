"""A study and a search that run, followed on their page: what starts, ends, is stopped, and a server that goes away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.explorer.report_server import ReportServer
from glassformer.files.lock import FolderLock
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.unfinished import ProgressFile, results, results_stamp
from glassformer.studies.study import Study
from glassformer.training.trials import SearchResult, Trial
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits
from tests.runs.run_folders import make_run

Tabs = Callable[..., Tab]
LONG_ENOUGH = 6_000
"""Milliseconds after which an open page has looked again."""


def following(folder: Path) -> ReportServer:
    return ReportServer(lambda where: results(folder), stamp=lambda where: results_stamp(folder))


def later(page: Any, sentence: str) -> None:
    """A while later the page begins with a sentence."""
    page.clock.fast_forward(LONG_ENOUGH)
    page.locator(".finding", has_text=sentence).first.wait_for()


def test_a_study_is_followed_from_its_first_cell_to_its_last(tab: Tabs, tmp_path: Path, check: Check) -> None:
    folder, page, asked = tmp_path / "study", tab().page, list[str]()
    page.clock.install()

    def score(cell: Any) -> dict[str, float]:
        """Evaluates a cell, and looks meanwhile at the page, as who waits for it does."""
        asked.append(cell["method"])
        match asked:
            case ["a"]:
                page.goto(server.url)
                page.locator(".finding", has_text="0 of 3 cells are done; now a, seed 0, since").wait_for()
                check(page, "a study that has begun")
            case ["a", "b"]:
                later(page, "1 of 3 cells are done; now b, seed 0, since")
                assert page.locator("section.card tbody tr").count() > 0, "the first cell is there"
            case ["a", "b", "c"]:
                later(page, "2 of 3 cells are done; now c, seed 0, since")
                assert "Replacing a by b" in page.inner_text(".finding"), "what is known so far"
                raise KeyboardInterrupt
            case _:
                later(page, "2 of 3 cells are done; now c, seed 0, since")
        return {"accuracy": {"a": 0.5, "b": 0.7, "c": 0.6}[cell["method"]]}

    study = Study({"method": ["a", "b", "c"]}, score, folder)
    with following(folder) as server:
        with pytest.raises(KeyboardInterrupt):
            study.run()
        later(page, "Stopped with 2 of 3 cells done, at c, seed 0; the same command continues.")
        fits(page, "a study that was stopped")
        study.run()
        page.clock.fast_forward(LONG_ENOUGH)
        page.locator(".finding", has_not_text="cells").first.wait_for()
        assert page.inner_text(".finding").startswith("Replacing a by b") and asked == ["a", "b", "c", "c"]
        assert page.evaluate("document.querySelector('.report-news').innerText") == ""


def test_a_search_is_followed_with_the_curves_of_the_trial_that_trains(tab: Tabs, tmp_path: Path, check: Check) -> None:
    page = tab(viewport={"width": 390, "height": 844}, color_scheme="dark").page
    page.clock.install()
    trials = [Trial(i, {"rate": 10.0**-i}, {"f1": 0.5 + i / 10}, "complete", 1.0) for i in (1, 2)]
    so_far, progress = SearchResult("f1", "maximize"), ProgressFile(tmp_path, "trial", 3)
    with following(tmp_path) as server, FolderLock(tmp_path / "lock"):
        so_far.save(tmp_path / "trials.json")
        progress.begin("trial 0", 0)
        live = make_run(tmp_path / "trial-0", [], ended=False, losses=(2.0,), planned=30)
        with FolderLock(live / "lock"):
            page.goto(server.url)
            page.locator(".finding", has_text="0 of 3 trials are done; now trial 0, since").wait_for()
            assert "at step 10 of 30" in page.inner_text(".finding")
            legend = page.locator('[data-chart="Loss"] .series-legend').first
            assert "2" in legend.inner_text()
            with EventLog(event_log_path(live)) as log:
                log.write("step", step=20, epoch=1.0, loss=0.25, lr=1e-4, grad_norm=1.0, tokens=9, tokens_per_s=9.0)
            later(page, "at step 20 of 30")
            check(page, "a trial that trains")
        SearchResult("f1", "maximize", trials[:1]).save(tmp_path / "trials.json")
        progress.begin("trial 1", 1)
        later(page, "1 of 3 trials are done; now trial 1, since")
        assert page.locator('[data-chart="Loss"]').count() == 0, "nothing trains"
        SearchResult("f1", "maximize", trials).save(tmp_path / "trials.json")
        progress.end()
        later(page, "Best: f1 0.7, trial 2")
        fits(page, "a search that has ended")


def test_a_server_that_goes_away_and_comes_back(tab: Tabs, tmp_path: Path) -> None:
    """First the way to it is cut, then it is another: what is on screen stays, and the page says what to do."""
    one = tab(expect="ERR_INTERNET_DISCONNECTED|ERR_CONNECTION|401")
    page, progress = one.page, ProgressFile(tmp_path, "cell", 2)
    page.clock.install()
    news = page.locator(".report-news")
    with FolderLock(tmp_path / "lock"):
        progress.begin("knn, seed 0", 0)
        with following(tmp_path) as server:
            page.goto(server.url)
            page.locator(".finding", has_text="0 of 2 cells are done; now knn, seed 0").wait_for()
            one.context.set_offline(True)
            page.clock.fast_forward(LONG_ENOUGH)
            news.filter(has_text="The program that serves this page has ended").wait_for()
            assert "now knn, seed 0" in page.inner_text(".finding"), "what is on screen stays"
            progress.begin("knn, seed 1", 1)
            one.context.set_offline(False)
            later(page, "1 of 2 cells are done; now knn, seed 1")
            assert news.inner_text() == ""
            port = int(server.address.rsplit(":", 1)[1].strip("/"))
        page.clock.fast_forward(LONG_ENOUGH)
        news.filter(has_text="Start it again").wait_for()
        with ReportServer(lambda where: results(tmp_path), port, stamp=lambda where: results_stamp(tmp_path)):
            page.clock.fast_forward(LONG_ENOUGH)
            news.filter(has_text="The key of this page is of a program that has ended; open the address").wait_for()
            assert "now knn, seed 1" in page.inner_text(".finding")
