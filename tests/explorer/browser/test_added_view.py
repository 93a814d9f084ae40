"""A view that is added as docs/adding-a-view.md says: checked, built, looked at, and saved in a page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from glassformer.explorer import standalone_page
from glassformer.explorer.registry import TABS, VIEWS
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "adding-a-view.md").read_text("utf-8")
NAME = "token-lengths"


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page that run here."""
    found = re.findall(rf"(<!-- no-run.*-->\n)?```{language}\n(.*?)```", DOCS, re.S)
    return [body for skipped, body in found if not skipped]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The view's request, report and function, and its entries, which are gone after the test."""
    module = ModuleType("documented_view")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for entries in (VIEWS, TABS):
        monkeypatch.setitem(entries, NAME, None)  # type: ignore[arg-type] # what the page puts there is taken out
    request, report, *_ = blocks("python")
    (entry,) = [body for body in blocks("python") if "VIEWS[" in body]
    for body in (request, report, entry):
        exec(compile(body, "adding-a-view.md", "exec", dont_inherit=True), module.__dict__)  # the page's own code
    yield module


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page with the view of the docs, built in a folder of its own."""
    web, modules = tmp_path / "web", ROOT / "web" / "node_modules"
    if shutil.which("npm") is None or not modules.is_dir():
        pytest.skip("needs Node 20 or newer, and `npm ci` in web/")
    shutil.copytree(ROOT / "web", web, ignore=shutil.ignore_patterns("node_modules"))
    (web / "node_modules").symlink_to(modules)
    (view,) = blocks("tsx")
    (web / "src" / "views" / f"{NAME}.tsx").write_text(view, "utf-8")
    for script in ("check", "build"):
        done = subprocess.run(["npm", "run", "--silent", script], cwd=web, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "src" / "glassformer" / "explorer" / "static"
    monkeypatch.setattr(standalone_page, "FOLDER", folder)
    return folder


def shown(page: Any) -> list[list[str]]:
    """The cells of the table."""
    rows = page.locator(".data-table tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def test_the_view_of_the_docs(
    tab: Callable[..., Tab], models: dict[str, Model], registered: ModuleType, built: Path, check: Check, tmp_path: Path
) -> None:
    model, text, one = models["bert"], "time flies like an arrow", tab()
    report = registered.token_lengths(model.inspect(text))
    inside = [[token, str(n)] for token, n in zip(report.tokens, report.lengths, strict=True)]
    longest = sorted(inside, key=lambda row: -int(row[1]))
    assert inside != longest
    with model.look(text, browser=False, block=False) as look:
        page = one.goto(look, view=NAME)
        page.wait_for_selector(".data-table")
        assert shown(page) == inside and page.locator(".legend").count() == 0
        page.get_by_role("radio", name="longest").check()
        assert shown(page) == longest and one.state["c.order"] == "longest"
        check(page, "the added view")
        page.set_viewport_size({"width": 320, "height": 640})
        fits(page, "320 wide")
        page.get_by_role("radio", name="text").check()
        assert "c.order" not in one.state
        one.page.goto("about:blank")
        one.goto(look, view=NAME, **{"c.order": "shortest"})
        one.wait_for_announcement("asks for order “shortest”, which is not here: showing text")
        page.wait_for_selector(".data-table")
        assert shown(page) == inside
        page.goto("about:blank")  # what it still asks for would find no server
    saved = tmp_path / "page.html"
    model.look(text, view=NAME, html=saved)
    page = one.goto(saved, view=NAME, **{"c.order": "longest"})
    page.wait_for_selector(".data-table")
    assert shown(page) == longest
