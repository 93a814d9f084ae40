"""The page in a cell of a notebook, in a browser: its frame, its requests, and what it says where the kernel is silent.

The notebook is a page of a few lines, which calls the widget as anywidget does.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.integrations.anywidget import CellWidget
from glassformer.model import Model
from tests.explorer.browser.tab import Tab

TEXT, OTHER = "time flies like an arrow", "fruit flies like a banana"
NOTEBOOK = """
<!doctype html><style>p { color: rgb(255, 0, 0) } iframe, textarea { border: 9px solid red }</style>
<body style="background: #111"><div data-glassformer="ID">still</div><div id="cell"></div></body>
"""
HOST = """async (esm) => {
  const calls = { "msg:custom": [], comm_live_update: [] };
  const send = (content) => { if (window.refuses) throw new Error("Cannot send"); window.toKernel(content) };
  const model = { send, on: (name, call) => calls[name].push(call), off: () => {} };
  window.die = () => calls.comm_live_update.forEach((call) => call());
  const { default: widget } = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
  window.remove = widget.render({ model, el: document.querySelector("#cell") });
  const bytes = (text) => new DataView(Uint8Array.from(atob(text), (each) => each.charCodeAt(0)).buffer);
  for (;;) {
    for (const [content, buffers] of await window.fromKernel()) for (const call of calls["msg:custom"]) call(content, buffers.map(bytes));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}"""  # noqa: E501


class Cell:
    """A cell of that notebook, which shows a page.

    asleep: whether the answers of the kernel are held back
    """

    def __init__(self, page: Any, look: Look, asleep: bool = False) -> None:
        self.page, self.answers = page, SimpleQueue[tuple[dict[str, Any], list[str]]]()  # filled in other threads
        self.widget = CellWidget(look.live_page())
        self.widget.send = lambda content, buffers=(): self.answers.put(
            (content, [base64.b64encode(x).decode() for x in buffers])
        )
        self.asleep = asleep
        page.expose_function("toKernel", lambda content: self.widget._handle_custom_msg(content, []))
        page.expose_function("fromKernel", self._taken)
        page.set_content(NOTEBOOK.replace("ID", self.widget.model_id))
        page.evaluate(f"(esm) => void ({HOST})(esm)", self.widget._esm)
        self.frame = page.frame_locator("iframe")

    def _taken(self) -> list[tuple[dict[str, Any], list[str]]]:
        return [self.answers.get() for _ in range(0 if self.asleep else self.answers.qsize())]

    def line(self, text: str) -> None:
        """Wait for the line above the page."""
        self.page.get_by_role("status").filter(has_text=text).wait_for()


@pytest.fixture
def shown(models: dict[str, Model]) -> Iterator[Look]:
    look = Look(SessionRuns(models["bert"].session_factory()), [TEXT], InitialView(view="neuron", layer=1, heads=[1]))
    yield look
    look.close()


def test_a_text_that_is_changed_in_the_cell_is_run_by_the_kernel(tab: Callable[..., Tab], shown: Look) -> None:
    cell = Cell(tab().page, shown)
    field = cell.frame.locator("textarea").first
    field.wait_for()
    assert field.input_value() == TEXT and cell.page.locator("[data-glassformer]").is_hidden()
    assert cell.frame.locator("html").get_attribute("data-theme") == "dark", "the notebook is dark"
    assert cell.frame.get_by_role("tab", selected=True).inner_text() == "Arithmetic"
    field.fill(OTHER)
    field.press("Enter")
    cell.frame.locator("#view").get_by_text("banana").first.wait_for()
    assert "banana" in cell.page.frames[-1].title()
    assert shown.explorer.runs.begin([OTHER]).finished, "the kernel has run it"
    assert field.evaluate("(each) => getComputedStyle(each).borderTopWidth") == "1px", "the notebook's style reaches it"
    cell.page.evaluate("() => window.remove()")
    assert cell.page.locator("iframe").count() == 0 and cell.page.locator("[data-glassformer]").is_visible()


def test_a_silent_kernel_and_one_that_died_are_said_in_a_line(tab: Callable[..., Tab], shown: Look) -> None:
    page = tab().page
    page.clock.install()
    cell = Cell(page, shown, asleep=True)
    cell.line("Waiting for the kernel")
    cell.asleep = False
    cell.frame.locator("textarea").first.wait_for()
    cell.asleep = True
    cell.frame.locator("textarea").first.fill(OTHER)
    cell.frame.locator("textarea").first.press("Enter")
    page.clock.fast_forward(11_000)
    cell.line("The kernel does not answer")
    page.evaluate("() => window.die()")
    cell.line("The kernel of this page has ended or was restarted: run this cell again.")
    cell.frame.get_by_text("has ended").first.wait_for()


def test_where_the_notebook_refuses_to_send_the_kernel_has_ended(tab: Callable[..., Tab], shown: Look) -> None:
    cell = Cell(tab().page, shown)
    field = cell.frame.locator("textarea").first
    field.wait_for()
    cell.page.evaluate("() => { window.refuses = true }")
    field.fill(OTHER)
    field.press("Enter")
    cell.line("The kernel of this page has ended or was restarted: run this cell again.")
    cell.page.evaluate("() => window.remove()")
    assert cell.page.locator("[data-glassformer]").is_visible()
