"""Commands on pages: a button copies each, by pointer or keyboard; where the browser refuses, it is selected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.few_labels.advise import advise
from glassformer.reports.page import report_page, write_page
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]
NO_CLIPBOARD = "Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })"


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("advice")
    rows = [f"text {i} of the rows,{'joy' if i % 2 else 'anger'}" for i in range(40)]
    (folder / "rows.csv").write_text("\n".join(["text,label", *rows]), "utf-8")
    made = advise(folder / "rows.csv")
    return write_page(folder / "page.html", report_page(made)), made.commands


@pytest.mark.parametrize(("size", "theme"), [((1440, 900), "light"), ((390, 844), "dark")])
def test_each_command_is_copied_by_keyboard(
    tab: Tabs, advice: tuple[Path, list[str]], check: Check, size: tuple[int, int], theme: str
) -> None:
    file, commands = advice
    one = tab(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    one.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = one.goto(file)
    assert page.locator(".command code").all_inner_texts() == commands and len(commands) >= 2
    for button, command in zip(page.get_by_role("button", name="Copy the command").all(), commands, strict=True):
        button.focus()
        page.keyboard.press("Enter")
        page.locator(".command", has_text="Copied").last.wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == command
    fits(page, f"{size[0]} wide")
    check(page, f"{theme}, {size[0]} wide")


def test_where_there_is_no_clipboard_a_command_is_selected(tab: Tabs, advice: tuple[Path, list[str]]) -> None:
    file, commands = advice
    one = tab()
    one.context.add_init_script(NO_CLIPBOARD)
    page = one.goto(file)
    page.get_by_role("button", name="Copy the command").first.click()
    page.locator(".command", has_text="Selected").wait_for()
    assert page.evaluate("getSelection().toString()") == commands[0]
