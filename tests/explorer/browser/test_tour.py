"""The tour on the page: its steps, its keys, its link, and the file that holds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import glassformer
from glassformer.explorer.look import Look
from glassformer.explorer.tour import TourStep, tell
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]
VIEWS = ["embedding", "embedding", "head", "neuron", "embedding", "embedding", "similarity"]


def plain(step: TourStep) -> str:
    return "".join(words for _, words in step.text)


def test_the_steps_forth_and_back_by_buttons_and_keys(tab: Tabs, served: Look) -> None:
    runs = served.explorer.runs
    steps = tell(served.session, runs.facts, compare=runs.factory.explain_similarity).steps
    one = tab()
    page = one.open(served)
    page.get_by_role("button", name="Tour", exact=True).click()
    for at, (step, view) in enumerate(zip(steps, VIEWS, strict=True), 1):
        page.get_by_role("heading", name=f"{at}. {step.title}").wait_for()
        one.wait_for_view(view)
        assert page.locator(".tour > p").inner_text() == plain(step) and one.state["tour"] == str(at)
        assert page.locator(".tour li").all_inner_texts() == [f"{name} {words}" for name, words, _ in step.items]
        if at < len(steps):
            page.keyboard.press("ArrowRight") if at % 2 else page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("button", name="Back").click()
    page.get_by_role("heading", name="6. Layers").wait_for()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("heading", name="5. What a layer adds").wait_for()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("heading", name="4. Its arithmetic").wait_for()
    assert "0.9292" in page.locator(".neuron-rows").inner_text()
    page.keyboard.press("Escape")
    page.locator(".tour").wait_for(state="detached")
    assert "tour" not in one.state and one.state["view"] == "neuron"
    page.keyboard.press("t")
    page.get_by_role("heading", name="1. Tokens").wait_for()


def test_a_link_opens_a_step_on_the_page_and_in_its_file(tab: Tabs, served: Look, check: Check, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    served.save(path, layers=[4])
    one = tab(reduced_motion="reduce")
    page = one.page
    for address in (f"{served.url}&tour=4", f"{path.as_uri()}#tour=4"):
        page.goto("about:blank")
        page.goto(address)
        page.get_by_role("heading", name="4. Its arithmetic").wait_for()
        one.wait_for_view("neuron")
        assert (one.state["l"], one.state["h"], one.state["q"], one.state["k"]) == ("4", "9", "1", "2")
    for theme, width, height in (("light", 1440, 900), ("dark", 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        check(page, f"the tour, {theme}, {width} wide")
        fits(page, f"the tour, {width} wide")
    page.goto("about:blank")
    page.goto(f"{path.as_uri()}#tour=8")
    one.wait_for_view("model")
    assert page.locator(".tour").count() == 0, "there is no such step"


def test_a_classifier_opens_on_its_answer_and_why(
    tab: Tabs, folders: dict[str, Path], look: Callable[..., Look]
) -> None:
    one = tab()
    served = look(glassformer.load(folders["bert"], task="text-classification"), "time flies like an arrow")
    page = one.goto(served)
    page.wait_for_selector("#tab-attribution[aria-selected=true]")
    page.wait_for_selector(".attr-word")
    outputs = page.get_by_role("group", name="Outputs").get_by_role("button")
    labels = [text.split()[0] for text in outputs.all_inner_texts()]
    assert page.locator(".found > p").inner_text().startswith(f"{labels[0]}: ") and len(labels) == 2
    outputs.nth(1).click()
    page.get_by_role("heading", name=f"Why {labels[1]}").wait_for()
    assert one.state["r.target"] == labels[1] and outputs.nth(1).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Tour", exact=True).click()
    for _ in range(6):
        page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("heading", name="7. Output").wait_for()
    assert labels[0] in page.locator(".tour > p").inner_text()


def test_the_arithmetic_without_a_pin_is_of_what_was_found_in_that_head(tab: Tabs, served: Look) -> None:
    for head, token in ({"l": 0, "h": 4}, "flies"), ({"l": 2, "h": 1}, "time"):  # of the second, nothing was found
        page = tab().goto(served, view="neuron", **head)
        page.locator(".neuron-name").filter(has_text=re.compile(rf"^q\s*{token}$")).wait_for()


def test_the_tour_opens_at_once_and_ends_where_it_is_refused(tab: Tabs, tiny: Look) -> None:
    one = tab(expect="Failed to load resource")
    page = one.open(tiny)
    held: list[Any] = []
    page.route("**/api/view/tour", lambda route: held.append(route))
    page.get_by_role("button", name="Tour", exact=True).click()
    waiting = page.get_by_role("region", name="Tour", exact=True)
    waiting.get_by_role("status").wait_for()
    assert "Reading the numbers" in waiting.inner_text()
    page.keyboard.press("Escape")
    waiting.wait_for(state="detached")
    with page.expect_request("**/api/view/tour"):
        page.keyboard.press("t")
    waiting.wait_for()
    held[-1].fulfill(status=400, json={"error": "no tour today"})
    one.wait_for_banner("No tour today")
    waiting.wait_for(state="detached")


def test_the_saved_page_of_a_decoder_tells_what_the_served_one_tells(tab: Tabs, story: Look, tmp_path: Path) -> None:
    """Of the prompt, though the file holds what was written after it, too."""
    path = tmp_path / "page.html"
    story.save(path)

    def said(target: Look | Path) -> list[list[str]]:
        one = tab()
        page = one.open(target, view="generate")
        page.locator(".found > p").wait_for()
        sentences = [[page.locator(".found > p").inner_text()]]
        page.keyboard.press("t")
        steps = tell(story.session, story.explorer.runs.facts).steps
        for at, step in enumerate(steps, 1):
            page.get_by_role("heading", name=f"{at}. {step.title}").wait_for()
            page.wait_for_selector(f"#tab-{dict(parse_qsl(step.address))['view']}[aria-selected=true]")
            if at == len(steps):
                page.locator(".attr-notes > summary", has_text="the logit").wait_for()
            texts = page.locator(".tour > p, .tour li, .attr-head").all_inner_texts()
            sentences.append([one.state["view"], *texts])
            page.keyboard.press("ArrowRight")
        page.locator(".tour").wait_for(state="detached")
        return sentences

    served = said(story)
    assert served[-1][0] == "attribution" and any("Why" in text for text in served[-1])
    assert said(path) == served


def test_what_later_steps_show_is_computed_while_one_reads(tab: Tabs, story: Look) -> None:
    one = tab()
    page = one.open(story, view="head")
    with page.expect_response("**/api/view/lens"), page.expect_response("**/api/view/attribution"):
        page.get_by_role("button", name="Tour", exact=True).click()
    page.get_by_role("heading", name="1. Tokens").wait_for()
    one.until("performance.getEntriesByType('resource').filter((x) => x.name.includes('/api/frame')).length === 2")
    for _ in range(5):
        page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("heading", name="6. Layers").wait_for()
    page.wait_for_selector(".lens-grid")
    asked = [url for url in one.requested_urls if url.endswith("/api/view/lens")]
    assert len(asked) == 1, "the step shows what was computed before"


def test_what_made_the_answer_stays_when_the_tour_is_done(tab: Tabs, story: Look) -> None:
    one = tab()
    page = one.goto(story, tour=7)
    page.get_by_role("heading", name="7. Output").wait_for()
    page.locator("summary", has_text="the logit").wait_for()
    one.until("!document.querySelector('.reading-waiting progress')")
    before = page.locator(".attr-head").inner_text()
    asked = [url for url in one.requested_urls if url.endswith("/api/view/attribution")]
    page.get_by_role("button", name="Done").click()
    page.locator(".tour").wait_for(state="detached")
    assert one.state["view"] == "attribution" and "q" not in one.state
    assert page.locator(".attr-head").inner_text() == before
    assert [url for url in one.requested_urls if url.endswith("/api/view/attribution")] == asked


def test_the_last_step_names_the_strongest_words_and_what_to_compare_with(
    tab: Tabs, story: Look, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    story.save(path)
    for target in (f"{story.url}&tour=7", f"{path.as_uri()}#tour=7"):
        one = tab()
        page = one.page
        page.goto(target)
        page.get_by_role("heading", name="7. Output").wait_for()
        most, compute = page.locator(".attr-most"), page.get_by_role("button", name=re.compile("^Compute"))
        most.or_(compute).first.wait_for()
        if compute.is_visible():  # on busy cores the page asks before it computes more
            compute.click()
        most.wait_for()
        values = [word.get_attribute("aria-label") or "" for word in page.locator(".attr-word").all()]
        numbers = [
            (float(value.replace("−", "-")), name) for name, _, value in (each.rpartition(" ") for each in values)
        ]
        value, word = max(number for number in numbers if number[1] != "<s>")
        assert most.inner_text().startswith(f"Most for it: “{word}” +{value:.3g}")
        other = story.session.attribute(steps=0).target.likely[1][0]
        assert "What speaks for " in most.inner_text()
        most.get_by_role("button", name=f"rather than “{other}”").click()
        page.get_by_role("heading", name=f"rather than “{other}”").wait_for()
    most.get_by_role("button", name="by itself").click()
    most.get_by_role("button", name=f"rather than “{other}”").wait_for()


def test_what_is_left_out_is_told_in_a_sentence(tab: Tabs, story: Look) -> None:
    page = tab().goto(story, tour=5)
    page.get_by_role("button", name="Leave out").click()
    told = page.locator(".tour > p[role=status]", has_text="Without ")
    told.wait_for()
    assert "where 1 is unchanged. The answer" in told.inner_text()


def test_who_leaves_the_tour_ends_what_was_computed_ahead(tab: Tabs, story: Look) -> None:
    one = tab()
    page = one.open(story, view="head")
    page.route("**/api/view/lens", lambda route: None)  # never answers
    with page.expect_request("**/api/view/lens"):
        page.get_by_role("button", name="Tour", exact=True).click()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/lens")):
        page.keyboard.press("Escape")


def test_on_a_phone_what_a_step_quotes_is_on_screen(tab: Tabs, served: Look) -> None:
    page = tab(viewport={"width": 390, "height": 844}).goto(served, tour=5)
    page.get_by_role("heading", name="5. What a layer adds").wait_for()
    items = page.locator(".tour ol")
    quoted = re.findall(r"cosine (\S+)", items.locator("li").last.inner_text())
    assert quoted and quoted[0] in page.locator(".tour > p").inner_text()
    assert items.evaluate("list => list.scrollHeight <= list.clientHeight"), "no number of it fades"


def test_on_a_phone_a_step_leaves_most_of_the_screen_to_what_it_shows(tab: Tabs, served: Look) -> None:
    page = tab(viewport={"width": 390, "height": 844}).goto(served, tour=1)
    for at in range(1, len(VIEWS) + 1):
        page.locator(".tour h2", has_text=f"{at}. ").wait_for()
        card, items = page.locator(".tour"), page.locator(".tour > ol")
        assert card.evaluate("card => card.getBoundingClientRect().height <= 0.4 * innerHeight + 1"), f"step {at}"
        below = "items => items.getBoundingClientRect().bottom - items.closest('.tour').getBoundingClientRect().bottom"
        assert items.evaluate(below) <= 1, f"step {at}: its numbers are in sight before one scrolls"
        card.evaluate("card => card.scrollTo(0, card.scrollHeight)")
        assert page.locator(".tour > p").evaluate(
            "p => p.getBoundingClientRect().bottom <= p.closest('.tour').getBoundingClientRect().bottom"
        ), f"step {at}: all words can be read"
        page.get_by_role("button", name="Next" if at < len(VIEWS) else "Done", exact=True).click()


def test_on_a_narrow_phone_a_long_list_shows_that_it_goes_on(tab: Tabs, scattered: Look) -> None:
    one = tab(viewport={"width": 260, "height": 844})
    page = one.goto(scattered, tour=1)
    page.get_by_role("heading", name="1. Tokens").wait_for()
    items = page.locator(".tour ol")
    assert items.evaluate("list => list.scrollHeight > list.clientHeight"), "else nothing goes on"
    mask, padding = items.evaluate(
        "list => (({ maskImage, paddingBottom }) => [maskImage, paddingBottom])(getComputedStyle(list))"
    )
    assert "linear-gradient" in mask and padding == "22px", "a fade, above which the last line can be scrolled"
