"""All of it without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glassformer.explorer.look import Look
from tests.explorer.browser.tab import Tab

Tabs = Callable[..., Tab]

FOCUSED = """() => {
    const e = document.activeElement;
    if (!e || e === document.body) return "nothing has the focus";
    const { width, height, top, right, bottom, left } = e.getBoundingClientRect();
    const seen = e.checkVisibility({ visibilityProperty: true }) && width > 0 && height > 0;
    const here = bottom >= 0 && top <= innerHeight && right >= 0 && left <= innerWidth;
    return seen && here ? null : "the focus cannot be seen: " + e.outerHTML.slice(0, 90);
}"""
CHANGES = """() => {
    // Of what has the focus and of what lies around it: does its look change with the focus?
    const e = document.activeElement;
    const all = [e, e.nextElementSibling, e.parentElement, ...e.children].filter(Boolean);
    const of = ({ outline, boxShadow }) => outline + boxShadow;
    const look = () => all.map((each) => of(getComputedStyle(each))).join();
    const focused = look();
    e.blur();
    const blurred = look();
    e.focus({ focusVisible: true });
    return focused !== blurred;
}"""


def marked(page: Any) -> bool:
    """Does one see that this has the focus? By its style, else (a slider's thumb) by a picture with and without."""
    if page.evaluate(CHANGES):
        return True
    here = page.evaluate_handle("document.activeElement")
    box = here.bounding_box()
    clip = {"x": max(box["x"] - 6, 0), "y": max(box["y"] - 6, 0)}
    clip |= {"width": box["width"] + 12, "height": box["height"] + 12}
    focused = page.screenshot(clip=clip)
    here.evaluate("e => e.blur()")
    blurred = page.screenshot(clip=clip)
    here.evaluate("e => e.focus({ focusVisible: true })")
    return bool(focused != blurred)


def focus(page: Any) -> dict[str, str | None]:
    """What has the focus: its role or element, and its name."""
    assert page.evaluate(FOCUSED) is None, page.evaluate(FOCUSED)
    result: dict[str, str | None] = page.evaluate(
        """() => {
            const { id, tagName, ariaLabel, textContent, role } = document.activeElement;
            return { id, role: role ?? tagName.toLowerCase(), name: ariaLabel ?? textContent.trim() };
        }"""
    )
    return result


def tab_to(page: Any, role: str, largest: int = 40) -> None:
    """Press Tab until something of this role has the focus."""
    for _ in range(largest):
        page.keyboard.press("Tab")
        if focus(page)["role"] == role:
            return
    raise AssertionError(f"{largest} times Tab lead to no {role}")


def test_from_load_to_a_pin_and_back(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, l=0, h=0)
    press = page.keyboard.press

    tab_to(page, "gridcell")
    press("ArrowDown")
    press("ArrowDown")
    press("ArrowRight")
    assert (focus(page)["name"] or "").startswith("layer 2 · head 1:")
    press("Enter")
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"]) == ("2", "1")

    for key, view in (("3", "matrix"), ("4", "neuron"), ("1", "model"), ("2", "head")):
        press(key)
        one.wait_for_view(view)
    press("n")
    one.wait_for_view("matrix")
    press("p")
    one.wait_for_view("head")
    press("]")
    press("]")
    press("[")
    one.until("new URLSearchParams(location.hash.slice(1)).get('l') === x", "3")
    press(".")
    press(".")
    press(",")
    one.until("new URLSearchParams(location.hash.slice(1)).get('h') === x", "2")
    press("1")
    one.wait_for_view("model")
    press(",")
    press(",")
    press(",")
    assert one.state["h"] == "11", "before the first head comes the last"
    press("2")
    one.wait_for_view("head")

    page.locator("body").evaluate("body => document.activeElement.blur()")
    tab_to(page, "option")
    press("ArrowDown")
    press("Enter")
    one.until("location.hash.includes('q=1')")
    assert page.get_by_role("option", selected=True).locator("visible=true").count() >= 1
    press("ArrowRight")
    press("Enter")
    one.until("location.hash.includes('k=1')")
    press("Escape")
    one.until("!/[qk]=/.test(location.hash)")


def test_the_matrix(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, view="matrix", l=4, h=11)
    tab_to(page, "application", 120)
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    one.until("/q=2&k=1/.test(location.hash)")
    page.keyboard.press("+")
    page.get_by_role("button", name="zoom out").locator("visible=true").wait_for()
    one.until("!document.querySelector('[aria-label=\"zoom out\"]').disabled")
    page.keyboard.press("0")
    one.until("document.querySelector('[aria-label=\"zoom out\"]').disabled")
    page.keyboard.press("Escape")
    one.until("!/[qk]=/.test(location.hash)")


def test_the_arithmetic(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, view="neuron", l=4, h=11)
    page.locator(".neuron-picker [data-cell][tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    one.until("/q=2/.test(location.hash)")
    page.locator(".neuron-rows [data-key][tabindex='0']").focus()
    page.keyboard.press("Enter")
    page.locator(".neuron-working").wait_for()
    assert focus(page)["role"] == "button"


def test_help_opens_and_gives_the_focus_back(tab: Tabs, tiny: Look) -> None:
    one = tab()
    page = one.open(tiny)
    tab_to(page, "gridcell")
    before = focus(page)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    assert page.evaluate("document.querySelector('dialog[open]').contains(document.activeElement)")
    for key in ("[", "]", ",", ".", "/", "Esc", "?"):
        assert dialog.get_by_text(key, exact=True).count() >= 1, f"{key} is not explained"
    state = one.state
    page.keyboard.press("]")  # goes to the dialog
    assert one.state == state
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert focus(page) == before


def test_a_token_is_found_and_pinned(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served, view="head", l=4, h=11)
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Find a token")
    field.wait_for()
    assert focus(page)["role"] == "combobox"
    page.keyboard.type("flies")
    options = page.locator("#found").get_by_role("option")
    one.until("document.querySelectorAll('#found [role=option]').length === 2")
    assert "flies" in options.first.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    field.wait_for(state="hidden")
    tokens = [token.text for token in served.session.streams["text"]]
    second = tokens.index("flies", tokens.index("flies") + 1)
    one.until("new URLSearchParams(location.hash.slice(1)).get('q') === x", str(second))
    one.wait_for_announcement("layer 4 head 11, from “flies”|[Pp]inned")


def test_a_new_text_is_run_with_enter(tab: Tabs, tiny: Look) -> None:
    one = tab()
    page = one.open(tiny, view="head")
    tab_to(page, "textarea")
    page.keyboard.press("Control+A")
    page.keyboard.type("a [1] banana , an arrow .")  # keys that mean something elsewhere mean themselves here
    assert one.state["view"] == "head" and one.state["l"] == "0"
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    one.until("location.hash.includes('x=')")
    one.wait_for_view("head")
    displayed = page.locator(".head-tokens.query .head-token").all_inner_texts()
    assert "banana" in displayed and "arrow" in displayed
    assert focus(page)["role"] == "textarea", "who writes goes on writing"


def test_the_tabs_are_one_stop(tab: Tabs, tiny: Look) -> None:
    one = tab()
    page = one.open(tiny)
    tab_to(page, "tab")
    page.keyboard.press("ArrowRight")
    one.wait_for_view("head")
    assert focus(page)["id"] == "tab-head"
    page.keyboard.press("Tab")
    assert focus(page)["role"] != "tab"


def test_the_focus_can_be_seen_wherever_it_goes(tab: Tabs, served: Look) -> None:
    """Tab through each view to its end: every stop is on screen, and marked."""
    one = tab()
    page = one.open(served, view="head", l=4, h=11, q=3, k=2)
    for view in ("head", "matrix", "neuron", "model"):
        one.go(view)
        stops = set()
        page.evaluate("document.activeElement.blur()")
        for _ in range(70):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break  # the end: the browser's own bar is next
            stop = str(focus(page))
            assert marked(page), f"{view}: nothing marks {stop}"
            stops.add(stop)
        assert len(stops) > 8, view
