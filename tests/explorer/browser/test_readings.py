"""The lens and the attribution view, on the served page and in the standalone file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

import glassformer
from glassformer.explorer import readings
from glassformer.explorer.look import Look
from glassformer.inspect.attribution.attribution import Attribution
from glassformer.inspect.session import Progress, Session
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

TEXT = "ROMEO: O, she doth teach the torches"
Tabs = Callable[..., Tab]


@pytest.fixture(scope="module")
def plays() -> Model:
    return glassformer.load("package:glassformer/checkpoints/shakespeare")


@pytest.fixture(scope="module")
def speech(plays: Model, look: Callable[..., Look]) -> Look:
    """A small decoder that was trained: it has something to say at every layer."""
    return look(plays, TEXT)


def test_the_lens_shows_the_sessions_numbers_and_follows_a_token(tab: Tabs, speech: Look, plays: Model) -> None:
    one = tab()
    page = one.goto(speech, view="lens")
    page.wait_for_selector(".lens-grid")
    own = plays.inspect(TEXT).lens()
    assert page.locator(".lens-grid [role=rowheader]").all_inner_texts() == [*own.rows[:-1], "layer 3: output"]
    cells = page.locator(".lens-grid [role=gridcell]").all_inner_texts()
    assert cells == [own.top(row, column)[0][0] for row in range(5) for column in range(15)]
    last = page.locator(".lens-grid [role=gridcell]").nth(-1)
    last.hover()
    one.wait_for_announcement(r"layer 3, after s: of 0\.2844; of has rank 1 of 1000")
    last.click()
    page.wait_for_selector(".pin")
    assert one.state["r.cell"] == "4.14" and one.state["r.follow"] == "296"
    page.get_by_label("rank").check()
    ranks = plays.inspect(TEXT).lens(target=296).ranks
    # Until the answer about the followed token is there, the ranks are those of the tokens shown.
    one.until("document.querySelector('.lens-grid [role=gridcell]').title === x", f"rank {int(ranks[0, 0])}")
    last.focus()
    page.keyboard.press("Escape")
    page.locator(".lens-grid [aria-selected=true]").wait_for(state="detached")


def test_of_a_long_text_the_lens_reads_the_columns_on_screen(
    tab: Tabs, plays: Model, look: Callable[..., Look], tmp_path: Path
) -> None:
    opened, one = look(plays, " ".join([TEXT] * 6)), tab()
    page = one.goto(opened, view="lens")
    page.wait_for_selector(".lens-grid")
    own = opened.session.lens()
    columns = len(own.columns)
    assert 64 < columns < 128
    cells, pages = page.locator(".lens-grid [role=gridcell]"), page.locator(".lens-pages")

    def shown(first: int, last: int) -> list[str]:
        return [own.top(row, at)[0][0] or "␣" for row in range(5) for at in range(first, last)]

    last = f"tokens {columns - 64} to {columns - 1} of {columns}"
    assert cells.count() == 5 * 64 and pages.inner_text().splitlines()[1].strip() == last, "where its answer is"
    page.get_by_role("button", name="Earlier tokens").click()
    pages.filter(has_text=f"tokens 0 to 63 of {columns}").wait_for()
    assert [text.strip() for text in cells.all_inner_texts()] == [text.strip() for text in shown(0, 64)]
    page.get_by_role("button", name="Later tokens").click()
    pages.filter(has_text=last).wait_for()
    assert [text.strip() for text in cells.all_inner_texts()] == [text.strip() for text in shown(columns - 64, columns)]
    cells.nth(-1).click()  # the page that is on screen stays, also when the cell is let go of
    page.wait_for_selector(".pin")
    page.get_by_role("button", name="Follow the model's own output").click()
    page.locator(".pin").wait_for(state="detached")
    assert pages.filter(has_text=last).count() == 1
    asked = [each.request for each in opened.run.readings.values() if each.view == "lens"]
    assert {(each["first"], each["count"]) for each in asked} == {(0, 64), (columns - 64, 64)}
    opened.save(tmp_path / "page.html", layers=[0])
    page = tab().goto(tmp_path / "page.html", view="lens", **{"r.cell": f"4.{columns - 1}"})
    page.locator(".lens-grid [aria-selected=true]").wait_for()  # with what it wrote, this is not its last page


def test_views_begin_with_what_they_found(tab: Tabs, speech: Look) -> None:
    """Before the sentence on how to read them."""
    for look, view, sentence in (
        (speech, "lens", r"From .+ on, the model would say “.+” after “s”: \d+% in the end\."),
        (speech, "attribution", r".+: logit .+The word that speaks most for it is “.+”.+\. The strongest part is .+\."),
    ):
        page = tab().goto(look, view=view)
        found = page.locator(".found > p").first
        found.filter(has_text=re.compile(f"^{sentence}$")).wait_for()
        assert (found.bounding_box() or {"y": 999.0})["y"] < 300, f"{view}: on the first screen"


def test_the_lens_by_keyboard(tab: Tabs, speech: Look) -> None:
    one = tab()
    page = one.goto(speech, view="lens")
    page.wait_for_selector(".lens-grid")
    page.locator(".lens-grid [tabindex='0']").focus()
    one.wait_for_announcement("layer 3, after s")
    page.keyboard.press("ArrowUp")
    one.wait_for_announcement("layer 2, after s")
    page.keyboard.press("ArrowLeft")
    one.wait_for_announcement("layer 2, after he")
    page.keyboard.press("Enter")
    page.wait_for_selector(".lens-on")
    assert one.state["r.cell"] == "3.13"


def test_what_is_pinned_is_what_lens_and_attribution_tell_of(tab: Tabs, translation: Look, speech: Look) -> None:
    for look, pinned, words in (
        (translation, {"map": "cross", "q": 2, "k": 1}, "a"),
        (speech, {"q": 4, "k": 1}, "she"),
    ):
        page = tab().goto(look, view="lens", **pinned)
        page.locator(".lens-card h3").filter(has_text=re.compile(rf", after {words} {pinned['q']}$")).wait_for()
        page.get_by_role("tab", name="Attribution").click()
        page.get_by_role("heading", name=re.compile(f"^Why .+ after “{words}”$")).wait_for()
        likely = page.get_by_role("group", name="Outputs").get_by_role("button")
        assert likely.count() == 6 and likely.first.get_attribute("aria-pressed") == "true"
        likely.nth(1).click()
        page.get_by_role("group", name="Outputs").locator("button[aria-pressed=true]:nth-child(2)").wait_for()


def test_on_a_phone_the_lens_shows_the_column_that_it_tells_of(tab: Tabs, speech: Look) -> None:
    page = tab(viewport={"width": 390, "height": 844}).goto(speech, view="lens")
    cell = page.locator(".lens-grid [tabindex='0']")
    for expected in (14, 0):  # the last token; then the one that is pinned
        cell.wait_for()
        page.wait_for_function(
            """() => {
                const cell = document.querySelector(".lens-grid [tabindex='0']");
                const [own, all] = [cell, cell.closest(".lens-scroll")].map((each) => each.getBoundingClientRect());
                return own.left >= all.left - 1 && own.right <= all.right + 1;
            }"""
        )
        assert cell.evaluate("each => [...each.parentElement.children].indexOf(each) - 1") == expected
        page.evaluate("location.hash = 'v=1&view=lens&r.cell=4.0'")
        page.locator(".lens-on").wait_for()


def test_an_attribution_counts_its_gradients_and_can_be_stopped(
    tab: Tabs, speech: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = Event(), Event()
    plain = readings.attribution

    def slow(session: Session, *, progress: Progress, **request: Any) -> bytes:
        progress(12, 16)
        begun.set()
        assert go_on.wait(60)
        return plain(session, progress=progress, **request)

    monkeypatch.setattr(readings, "attribution", slow)
    page = tab().goto(speech, **{"view": "attribution", "r.target": " of", "r.at": 3})
    assert begun.wait(60)
    page.get_by_role("status").filter(has_text="Computing the words: 12 of 16").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("status").filter(has_text="Stopped.").wait_for()
    go_on.set()
    page.get_by_role("button", name="Explain it after all").click()
    page.get_by_role("heading", name="Why “of”").wait_for()


def test_heads_and_layers_are_there_before_the_words(tab: Tabs, speech: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, plain = Event(), readings.attribution

    def held(session: Session, *, steps: int | None = None, **request: Any) -> bytes:
        assert steps == 0 or go_on.wait(60)
        return plain(session, steps=steps, **request)

    monkeypatch.setattr(readings, "attribution", held)
    page = tab().goto(speech, **{"view": "attribution", "r.target": " a", "r.at": 3})
    page.get_by_role("status").filter(has_text="Heads and layers are below; the words follow.").wait_for()
    page.locator(".found > p").filter(
        has_text=re.compile(r"parts add up to the logit; the strongest is .+\.$")
    ).wait_for()
    assert page.get_by_role("gridcell").count() == 24 and page.locator(".attr-word:not(.attr-rough)").count() == 0
    assert "O not known yet" in [each.get_attribute("aria-label") for each in page.locator(".attr-word").all()]
    go_on.set()
    page.locator(".attr-rough").first.wait_for(state="detached")
    page.locator(".found > p").filter(has_text="The word that speaks most for it is").wait_for()


def test_a_first_attribution_comes_from_few_gradients_and_says_what_an_exact_one_takes(
    tab: Tabs, speech: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a gradient is slow, the reader decides; where it is quick, the exact one follows by itself."""
    plain, frame, asked = readings.attribution, readings.attribution_frame, list[int | None]()

    def noted(session: Session, *, steps: int | None = None, **request: Any) -> bytes:
        asked.append(steps)
        return plain(session, steps=steps, **request)

    def inexact(result: Attribution) -> bytes:
        if not result.shares:
            return frame(result)
        change, miss = result.target.score - result.baseline_score, 0.3 if asked[-1] else 0.005
        scale = change * (1 + miss) / sum(float(x.sum()) for x in result.shares.values())
        off = {stream: x * scale for stream, x in result.shares.items()}
        return frame(replace(result, shares=off, seconds=seconds, texts=texts))

    monkeypatch.setattr(readings, "attribution", noted)
    monkeypatch.setattr(readings, "attribution_frame", inexact)
    ways = {0: "up to 512 gradients, at most 64 s", 30: "30 texts with replaced words, at most 52 s"}
    for seconds, texts, target in ((2.0, 0, " the"), (32.0, 30, " a"), (0.01, 0, " my")):
        page = tab().goto(speech, **{"view": "attribution", "r.target": target, "r.at": 3})
        page.get_by_role("heading", name=f"Why “{target.strip()}”").wait_for()
        if seconds > 1:
            page.get_by_role("status").filter(has_text="from 16 gradients: the words miss 30% of the change").wait_for()
            page.locator(".found > p").filter(
                has_text="16 gradients miss 30% of the change, so none is named"
            ).wait_for()
            assert asked == [0, 16] and page.locator(".attr-word:not(.attr-rough)").count() == 0, (
                "rough words have no colour"
            )
            page.get_by_label("gradient × input").check()
            page.locator(".attr-rough").first.wait_for(state="detached")
            page.get_by_label("integrated gradients").check()
            page.get_by_role("button", name=f"Compute {ways[texts]}").click()
        page.locator("summary", has_text="which miss 0.50% of the change").wait_for()
        page.locator(".found > p").filter(has_text="The word that speaks most for it is").wait_for()
        assert page.locator(".attr-rough").count() == 0
        assert asked == [0, 16, None] and not page.get_by_text("A first answer").is_visible()
        asked.clear()


def test_words_and_heads_of_an_attribution(tab: Tabs, speech: Look, plays: Model) -> None:
    one = tab()
    page = one.goto(speech, view="attribution")
    found = plays.attribute(TEXT)
    page.locator("summary", has_text=found.how).wait_for()  # the exact one, at last
    words = page.locator(".attr-word").evaluate_all("(all) => all.map((each) => each.getAttribute('aria-label'))")
    assert [label.rpartition(" ")[0] for label in words] == [word for word, _ in found.words["text"]]
    assert [float(label.rpartition(" ")[2].replace("−", "-")) for label in words] == pytest.approx(
        [value for _, value in found.words["text"]], rel=5e-3, abs=1e-3
    )
    page.get_by_role("gridcell", name=re.compile("layer 2 head 1")).click()
    page.wait_for_selector(".pin")
    assert one.state["r.head"] == "self.2.1"
    through = page.locator(".attr-word").evaluate_all("(all) => all.map((each) => each.getAttribute('aria-label'))")
    share = sum(float(label.rpartition(" ")[2].replace("−", "-")) for label in through)
    head = next(part.value for part in found.parts if (part.layer, part.head) == (2, 1))
    assert share == pytest.approx(head, abs=0.05)
    page.get_by_label("why").fill(" of")
    page.get_by_label("rather than").fill(",")
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("heading", name="Why “of” rather than “,” after “s”").wait_for()
    page.get_by_label("why").fill("unfathomable")
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("alert").filter(has_text="tokens").wait_for()


@pytest.mark.parametrize("view", ["lens", "attribution"])
def test_each_view_for_everyone(tab: Tabs, speech: Look, check: Check, view: str) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.goto(speech, view=view)
    page.get_by_role("button", name="Data table").click()
    page.get_by_text("How to read this").click()
    page.wait_for_selector("#view .data-table table")
    for theme, width, height in (("light", 1440, 900), ("dark", 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        check(page, f"{view}, {theme}, {width} wide")
        fits(page, f"{view}, {width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, f"{view}, 320 wide")


def test_the_file_holds_what_was_read(tab: Tabs, speech: Look, check: Check, tmp_path: Path) -> None:
    speech.save(tmp_path / "page.html", layers=[0])
    one = tab(reduced_motion="reduce")
    page = one.goto(tmp_path / "page.html", view="lens")
    page.wait_for_selector(".lens-grid")
    page.locator(".lens-grid [role=gridcell]").first.click()
    page.get_by_role("alert").filter(has_text="This saved page does not hold what the model would answer").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Attribution").click()
    page.wait_for_selector(".attr-word")
    check(page, "an attribution in a file")
    page.set_viewport_size({"width": 390, "height": 844})
    check(page, "an attribution in a file, on a phone: outputs that cannot be chosen here can be scrolled to")
    name, content = one.saved("Table (CSV)")
    assert name == "attribution.csv" and b"direct logit attribution,layer 2 head 1," in content
    assert one.saved("Picture (PNG")[1].startswith(b"\x89PNG") and b"<svg" in one.saved("Drawing (SVG")[1]


def test_the_way_through_the_layers_has_room_for_its_columns(tab: Tabs, speech: Look) -> None:
    page = tab(viewport={"width": 1440, "height": 900}).goto(speech, view="lens")
    page.wait_for_selector(".lens-path tbody tr")
    long = (
        "for (const each of document.querySelectorAll('.lens-path .token')) each.textContent = 'incomprehensibilities'"
    )
    page.evaluate(f"() => {{ {long} }}")
    assert page.locator(".lens-path").evaluate("each => each.scrollWidth - each.clientWidth") <= 0


def test_a_classifier_and_the_span_of_an_answer(
    tab: Tabs, folders: dict[str, Path], look: Callable[..., Look], check: Check
) -> None:
    one = tab(reduced_motion="reduce")
    classes = look(glassformer.load(folders["bert"], task="text-classification"), "time flies")
    page = one.goto(classes, view="lens")
    page.wait_for_selector(".lens-grid")
    assert page.locator(".lens-grid [role=columnheader]").all_inner_texts() == ["layer", "LABEL_0", "LABEL_1"]
    shares = page.locator(".lens-grid [role=gridcell]").all_inner_texts()
    assert len(shares) == 6 and all(share.endswith("%") for share in shares)
    answer = look(glassformer.load(folders["bert"], task="question-answering"), "time flies", "a banana")
    page = one.goto(answer, view="lens")
    page.wait_for_selector(".lens-span svg")
    check(page, "where an answer starts and ends")
    tokens = answer.session.streams["text"]
    lens = answer.session.lens(top=len(tokens))
    start, end = (torch.zeros(len(tokens)).scatter(0, lens.ids[-1, i], lens.logprobs[-1, i].exp()) for i in (0, 1))
    pairs = (start[:, None] * end[None, :]).triu()  # in order: no end before its start
    first, last = divmod(int(pairs.argmax()), len(tokens))
    said = page.locator(".found").inner_text()
    words = "".join(("" if each.continues else " ") + (each.text or each.piece) for each in tokens[first : last + 1])
    told = re.search(r"“([^”]*)”: ([\d.]+)% that it starts there, ([\d.]+)% that it ends there\.$", said)
    assert told is not None and told[1] == words.strip()
    assert [float(told[2]), float(told[3])] == pytest.approx(
        [100 * float(start[first]), 100 * float(end[last])], rel=0.06
    )
    assert said.startswith("The answer would be") == (int(start.argmax()) <= int(end.argmax()))
    one.goto(answer, view="attribution")
    page.get_by_role("heading", name=re.compile("Why answer")).wait_for()
