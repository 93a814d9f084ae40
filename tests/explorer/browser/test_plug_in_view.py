"""The view of a plug-in: the page draws its report, with charts, without a build; so does a saved page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glassformer.model import Model
from tests import plug_in
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits


@pytest.fixture
def used(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with plug_in.on_path(plug_in.install(tmp_path_factory.mktemp("plug-in")), monkeypatch):
        yield


def test_its_report_is_drawn(
    used: None, tab: Callable[..., Tab], models: dict[str, Model], check: Check, tmp_path: Path
) -> None:
    model, text, one = models["bert"], "time flies like an arrow", tab()
    saved = tmp_path / "page.html"
    with model.look(text, browser=False, block=False) as look:
        page = one.goto(look, view="word-lengths")
        page.wait_for_selector(".report .card table")
        assert page.get_by_role("tab", name="Lengths").get_attribute("aria-selected") == "true"
        assert page.locator(".report thead").first.inner_text().split() == ["characters", "tokens"]
        assert page.locator(".report figure canvas").count() == 1
        assert page.locator(".intro p").first.inner_text() == "How many characters each token has."
        check(page, "the view of a plug-in")
        page.set_viewport_size({"width": 320, "height": 640})
        fits(page, "320 wide")
        page.set_viewport_size({"width": 1200, "height": 800})
        page.get_by_role("tab", name="Model").click()
        page.get_by_role("tab", name="Lengths").click()
        page.wait_for_selector(".report .card table")
        page.goto("about:blank")  # what it still asks for would find no server
    model.look(text, view="word-lengths", html=saved)
    page = one.goto(saved, view="word-lengths")
    page.wait_for_selector(".report figure canvas")
    assert page.locator(".report tbody tr").first.inner_text().split() == ["2", "1"]
