"""What goes wrong is said in words, next to what helps; and what was on screen stays there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.explorer.look import Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.model import Model
from tests.explorer.browser.conftest import TEXTS
from tests.explorer.browser.tab import Tab

Tabs = Callable[..., Tab]
REFUSED = "Failed to load resource"
"""What the console says of an answer that is no 200, or of none."""


@pytest.fixture
def serve(models: dict[str, Model]) -> Iterator[Callable[..., Look]]:
    """A server of this test alone."""
    served: list[Look] = []

    def start(*texts: str, model: Model = models["bert"], **options: Any) -> Look:
        made = Look(SessionRuns(model.session_factory(), **options), texts or TEXTS)
        made.serve()
        served.append(made)
        return made

    yield start
    for each in served:
        each.close()


def tokens(one: Tab) -> list[str]:
    return list(one.page.locator(".head-tokens.query .head-token").all_inner_texts())


def write(one: Tab, *texts: str) -> None:
    """Write texts into the fields, and run them."""
    fields = one.page.locator(".texts textarea").all()
    for field, text in zip(fields, [*texts, *[""] * (len(fields) - len(texts))], strict=True):
        field.fill(text)
    one.page.get_by_role("button", name="Run", exact=True).click()


# --------------------------------------------------------------------------------------------------- the server


def test_the_program_ends_while_the_page_is_open(tab: Tabs, serve: Callable[..., Look]) -> None:
    one = tab(expect=REFUSED)
    look = serve()
    page = one.open(look, view="head")
    before = tokens(one)
    look.close()
    page.keyboard.press("]")
    told = one.wait_for_banner("has ended")
    assert "glassformer look" in told, "the command that starts it again"
    assert tokens(one) == before
    one.page.get_by_role("button", name="Try again").click()
    one.wait_for_banner("has ended")
    assert tokens(one) == before


def test_a_view_that_was_not_opened_before_the_end_says_so_in_its_place(tab: Tabs, serve: Callable[..., Look]) -> None:
    one = tab(expect=REFUSED)
    look = serve()
    page = one.open(look, view="head")
    page.route("**/view-matrix.js", lambda route: route.abort())  # as if it had ended before this was loaded
    page.keyboard.press("3")
    page.get_by_text("was never opened here").wait_for()
    one.wait_for_banner("has ended")


@pytest.mark.parametrize("view", ["head", "matrix", "neuron"])
def test_numbers_that_do_not_come_are_not_drawn_as_none(tab: Tabs, serve: Callable[..., Look], view: str) -> None:
    one = tab(expect=REFUSED)
    look = serve()
    page = one.open(look, q=2, k=4)
    one.until("performance.getEntriesByType('resource').some((each) => each.name.includes(`/view-${x}`))", view)
    look.close()
    page.locator(f"#tab-{view}").click()
    place = page.locator(f".{view}-absent")
    place.filter(has_text="The program that serves this page has ended.").wait_for()
    one.wait_for_banner("has ended")
    assert page.locator(".head-ranking li, .head-exact, .matrix-strongest, .neuron-rows").count() == 0
    assert page.locator(".head-status", has_text=re.compile("fetching|line")).count() == 0


def test_numbers_that_did_not_come_are_there_after_the_text_was_run_again(
    tab: Tabs, serve: Callable[..., Look]
) -> None:
    one = tab(expect=REFUSED)
    page = one.open(serve(), q=2)
    one.until("performance.getEntriesByType('resource').some((each) => each.name.includes('/view-head'))")
    page.context.set_offline(True)
    page.locator("#tab-head").click()
    page.locator(".head-absent").wait_for()
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    one.wait_for_view("head")
    assert page.locator(".head-absent").count() == 0 and one.state["q"] == "2"


def test_all_views_are_loaded_soon_after_the_first_picture(tab: Tabs, serve: Callable[..., Look]) -> None:
    one = tab(expect=REFUSED)
    look = serve()
    page = one.open(look, view="head")
    views = page.locator("[role=tab]").count()
    one.until(
        "performance.getEntriesByType('resource').filter((each) => each.name.includes('/view-')).length === x", views
    )
    look.close()
    page.get_by_role("tab", name="Masks").click()
    one.wait_for_banner("has ended")
    assert page.get_by_text("was never opened here").count() == 0
    page.locator("#view").get_by_role("alert").filter(has_text="has ended").wait_for()


@pytest.mark.parametrize("token", ["", "#token=of-another-run"], ids=["none", "foreign"])
def test_who_has_no_right_token_is_told_so(tab: Tabs, tiny: Look, token: str) -> None:
    one = tab(expect=REFUSED)
    one.page.goto(tiny.address + token)
    assert "address" in one.wait_for_banner("key|token")
    assert one.page.get_by_role("tab").count() == 0
    assert "Traceback" not in one.page.inner_text("body")
    one.page.goto(tiny.url)  # in the same tab, where the fragment alone is another
    one.page.wait_for_selector("[role=tab][aria-selected=true]")
    assert "token" not in one.page.url


SLOW = """
const post = BroadcastChannel.prototype.postMessage;
BroadcastChannel.prototype.postMessage = function (x) { setTimeout(() => post.call(this, x), x.key ? 1500 : 0); };
"""


def test_a_link_in_a_new_tab_waits_for_the_key_of_one_that_is_busy(tab: Tabs, tiny: Look) -> None:
    one = tab()
    one.page.add_init_script(SLOW)
    one.open(tiny, view="head")
    second = one.context.new_page()
    second.goto(one.page.url)
    second.wait_for_selector("#tab-head[aria-selected=true]")
    one.page.close()
    third = one.context.new_page()  # lent by the second
    third.goto(second.url)
    third.wait_for_selector("#tab-head[aria-selected=true]")


def test_a_session_that_was_let_go_is_run_again(tab: Tabs, serve: Callable[..., Look]) -> None:
    look = serve(max_stored=1)
    one, other = tab(expect=REFUSED), tab()
    page = one.open(look, view="head", q=1)
    before = tokens(one)
    other.open(look, view="head")
    write(other, "an arrow flies")  # takes the only place
    other.until("location.hash.includes('x=')")
    page.keyboard.press("3")
    one.wait_for_banner("run the text again|Run it again")
    page.keyboard.press("2")
    assert tokens(one) == before
    page.get_by_role("button", name="Run it again").click()
    one.until("document.querySelector('.banner') === null")
    page.keyboard.press("3")
    one.wait_for_view("matrix")
    assert one.state["q"] == "1"


def test_two_tabs_keep_their_texts(tab: Tabs, tiny: Look) -> None:
    one, other = tab(), tab()
    one.open(tiny, view="head")
    other.open(tiny, view="head")
    write(one, "an arrow")
    write(other, "fruit flies", "a banana")
    for tabbed in (one, other):
        tabbed.until("location.hash.includes('x=')")
        tabbed.wait_for_view("head")
    assert tokens(one) == ["[CLS]", "an", "arrow", "[SEP]"]
    assert tokens(other) == ["[CLS]", "fruit", "flies", "[SEP]", "a", "banana", "[SEP]"]
    one.page.keyboard.press("Escape")
    for tabbed in (one, other):
        tabbed.page.reload()
        tabbed.wait_for_view("head")
    assert tokens(one) == ["[CLS]", "an", "arrow", "[SEP]"]
    assert tokens(other)[1] == "fruit"


# -------------------------------------------------------------------------------------------------------- texts


def test_a_text_that_is_too_long_says_so_where_it_was_written(tab: Tabs, tiny: Look) -> None:
    one = tab(expect=REFUSED)
    page = one.open(tiny, view="head")
    before = tokens(one)
    text = "time flies " * 40
    write(one, text)
    told = one.text_error()
    assert re.search(r"\b16\b", told) and re.search(r"\b82\b", told), f"how long it may be, and is: {told}"
    assert page.locator(".texts textarea").first.input_value() == text, "what was written is not lost"
    assert tokens(one) == before
    page.get_by_role("tab", name="Matrix").click()
    one.wait_for_view("matrix")
    assert one.text_error() == told, "it stays until it is dealt with"
    assert f"{len(before)} tokens" in page.locator(".provenance").inner_text()


@pytest.mark.parametrize("texts", [["", ""], ["   "]], ids=["none", "blank"])
def test_no_text_at_all(tab: Tabs, tiny: Look, texts: list[str]) -> None:
    one = tab()
    page = one.open(tiny, view="head")
    before = tokens(one)
    write(one, *texts)
    assert one.text_error() == "Write something in “text” first." and tokens(one) == before
    field = page.locator(".texts textarea").first
    assert [field.get_attribute(name) for name in ("aria-invalid", "aria-describedby")] == ["true", "missing"]
    write(one, "flies time")
    page.wait_for_function("!document.querySelector('.texts [role=alert]')")
    assert field.get_attribute("aria-invalid") is None and one.announcement != "Write something in “text” first."


FOUR_MEGABYTES = """(field, how) => {
    const text = "time flies ".repeat(400_000);
    if (how === "paste") {
        const clipboardData = new DataTransfer();
        clipboardData.setData("text/plain", text);
        field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    } else {
        field.value = text;
        field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
}"""


@pytest.mark.parametrize("how", ["paste", "drop"])
def test_four_megabytes_are_refused_at_once_by_the_page_itself(tab: Tabs, tiny: Look, how: str) -> None:
    one = tab()  # which the server is not asked about
    page = one.open(tiny, view="head")
    before = tokens(one)
    field = page.locator(".texts textarea").first
    field.evaluate(FOUR_MEGABYTES, how)
    told = one.text_error()
    assert "too long: 4,400,000 characters" in told and "200,000" in told and "16 tokens" in told and "part" in told
    assert field.input_value() == TEXTS[0], "what stood there is still there"
    assert not [url for url in one.requested_urls if url.endswith("/api/runs")][1:]
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_function("!document.querySelector('.texts [role=alert]')")
    assert tokens(one) == before


def test_the_message_of_a_text_goes_with_the_next_try(tab: Tabs, tiny: Look) -> None:
    one = tab(expect=REFUSED)
    page = one.open(tiny, view="head")
    write(one, "time flies " * 40)
    one.wait_for_banner("82")
    write(one, "")
    page.get_by_text("Write something in").wait_for()
    assert one.messages == ""


def test_a_pass_that_fails_midway_shows_why(tab: Tabs, folders: dict[str, Path], serve: Callable[..., Look]) -> None:
    model = glassformer.load(folders["bert"])
    look = serve(model=model)
    one = tab()
    page = one.open(look, view="head")
    before = tokens(one)

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("made up")

    network: Any = model.network
    hook = network.blocks[1].register_forward_pre_hook(fail)
    write(one, "an arrow flies")
    assert "not enough memory" in one.text_error()
    assert tokens(one) == before
    hook.remove()
    page.get_by_role("button", name="Run", exact=True).click()
    one.until("location.hash.includes('x=')")
    one.wait_for_view("head")
    assert tokens(one) == ["[CLS]", "an", "arrow", "flies", "[SEP]"]
    assert one.messages == ""


def test_a_link_whose_text_was_cut_short(tab: Tabs, tiny: Look) -> None:
    one = tab()
    one.goto(tiny, view="head", x="eJyLVkrMUtJRSiwqyi9XiN")
    one.wait_for_view("head")
    assert "cannot be read" in one.messages
    assert tokens(one)[1] == "time"
