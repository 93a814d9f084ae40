"""The generation view: a text as it is written, its choices, its branches, its beams, and where the model looked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.explorer.look import Look
from glassformer.generation import filters
from glassformer.model import Model
from tests.explorer.browser.conftest import STORY, TRANSLATION
from tests.explorer.browser.tab import Tab, value

Tabs = Callable[..., Tab]
N = 16
"""Tokens that are written here."""
OPTIONS = ".gen-word[data-step]"


@pytest.fixture(scope="session")
def teller(shared: Path) -> Model:
    """A real small Llama, which tells stories."""
    folder = shared / "models" / "stories260k"
    if not folder.is_dir():
        pytest.skip("needs ../shared/models/stories260k (a small Llama) next to the repository")
    return glassformer.load(folder)


@pytest.fixture(scope="session")
def greedy(teller: Model) -> Any:
    return teller.generate(STORY, max_new_tokens=N, return_scores=True)


def write(one: Tab, position: Look | Path, **state: Any) -> Any:
    """Open the view, and wait until all is written."""
    return one.open(position, **{"view": "generate", "g.max_new_tokens": N} | state)


def text_of(one: Tab) -> str:
    """The written tokens as they stand on the page, the sign for a lone space left out."""
    return "".join(one.page.locator(OPTIONS).all_text_contents()).replace("␣", "")


def joined(text: str) -> str:
    """A text as `text_of` reads it: the spaces stand between tokens on the page, not in them."""
    return re.sub(r"\s", "", text)


def table(one: Tab) -> list[dict[str, Any]]:
    """The text on screen as the page saves it."""
    rows: list[dict[str, Any]] = json.loads(one.saved("JSON")[1])["rows"]
    return rows


# -------------------------------------------------------------------------------------------------- what is written


def test_the_text_is_what_generate_writes(tab: Tabs, story: Look, greedy: Any) -> None:
    one = tab(accept_downloads=True)
    write(one, story)
    assert joined(text_of(one)) == joined(greedy.texts[0])
    rows = table(one)
    assert [row["id"] for row in rows] == greedy.new_ids[0].tolist()
    told = torch.tensor([row["log-probability"] for row in rows])
    torch.testing.assert_close(told, greedy.logprobs[0].float(), atol=1e-5, rtol=0)
    assert {row["rank"] for row in rows} == {1}, "greedy takes the likeliest"


def test_shades_are_not_all_there_is(tab: Tabs, story: Look) -> None:
    """The number is told on hover and on focus, to eyes and to assistive technology, and the colour follows it."""
    one = tab(accept_downloads=True)
    page = write(one, story)
    rows = table(one)
    word = page.locator(OPTIONS)
    surprised = max(range(N), key=lambda at: -rows[at]["log-probability"])
    sure = max(range(N), key=lambda at: rows[at]["log-probability"])
    colours = [word.nth(at).evaluate("e => getComputedStyle(e).backgroundColor") for at in (sure, surprised)]
    assert colours[0] != colours[1]
    name = word.nth(surprised).get_attribute("aria-label") or ""
    displayed = re.search(r"([\d.]+)%, the likeliest", name)
    assert displayed and float(displayed[1]) / 100 == pytest.approx(rows[surprised]["probability"], rel=0.06)
    word.nth(surprised).hover()
    page.get_by_role("heading", name=f"Step {surprised + 1} ").wait_for()


def test_it_can_be_stopped_and_keeps_what_is_there(tab: Tabs, story: Look) -> None:
    one = tab()
    page = one.goto(story, **{"view": "generate", "g.max_new_tokens": 450})
    page.locator(OPTIONS).nth(3).wait_for()
    page.get_by_role("button", name="Stop").click()
    one.wait_for_view("generate")
    assert 4 <= page.locator(OPTIONS).count() < 450
    assert "stopped" in page.locator(".gen-texts").inner_text()


def test_what_cannot_be_written_is_a_sentence(tab: Tabs, translation: Look) -> None:
    one = tab(expect="400")
    page = one.goto(translation, **{"view": "generate", "g.num_beams": 32})
    spoken_text = page.get_by_role("alert")
    spoken_text.wait_for()
    assert (
        re.search(r"num_beams is 32.*vocabulary", spoken_text.inner_text()) and "Error" not in spoken_text.inner_text()
    )
    for name, number in (("new tokens", "5"), ("beams", "2")):
        field = page.get_by_role("spinbutton", name=name)
        field.fill(number)
        field.press("Tab")
    page.get_by_role("button", name="Write").first.click()
    one.wait_for_view("generate")
    assert page.locator(OPTIONS).count() == 5
    assert spoken_text.count() == 0


def test_it_goes_on_where_it_was_only_long_enough(tab: Tabs, story: Look, teller: Model) -> None:
    one = tab()
    page = write(one, story)
    page.get_by_role("button", name="Write on", exact=True).click()
    page.locator(OPTIONS).nth(2 * N - 1).wait_for()
    one.wait_for_view("generate")
    assert joined(text_of(one)) == joined(teller.generate(STORY, max_new_tokens=2 * N))
    assert page.locator(".gen-texts li").count() == 1


def test_another_text_is_written_on_anew(tab: Tabs, story: Look, teller: Model) -> None:
    """What was pinned and branched belongs to the text before; how it is written stays."""
    one = tab()
    page = write(one, story, at=5)
    page.get_by_label("text", exact=True).fill("The dog")
    page.get_by_role("button", name="Run").click()
    one.until("document.querySelector('.gen-prompt').textContent.includes('dog')")
    one.wait_for_view("generate")
    assert joined(text_of(one)) == joined(teller.generate("The dog", max_new_tokens=N))
    assert "at" not in one.state and one.state["g.max_new_tokens"] == str(N)


def test_a_model_that_only_reads_has_no_such_view(tab: Tabs, tiny: Look) -> None:
    one = tab()
    page = one.goto(tiny, view="generate")
    one.wait_for_view("model")
    assert page.get_by_role("tab", name="Generation").count() == 0
    assert "generate" in one.wait_for_banner("not here")


# ------------------------------------------------------------------------------------------------------- the choice


def set_range(page: Any, name: str, value: float) -> None:
    page.get_by_role("slider", name=name).evaluate(
        "(e, value) => { e.value = value; e.dispatchEvent(new Event('input', { bubbles: true })); }",
        str(value),
    )


SHAPES = [(1.0, 0, 1.0), (0.5, 0, 1.0), (1.7, 5, 1.0), (1.0, 0, 0.6), (0.7, 20, 0.9), (2.0, 50, 0.95)]
"""Temperature, top-k (0 = all) and top-p."""
MARKS = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 100, 200, 500, 1000, 0]
"""Where the slider for top-k can stand."""


def test_sliders_do_what_the_filters_do(tab: Tabs, story: Look, teller: Model, greedy: Any) -> None:
    """Which tokens are kept, and their shares to 1e-5, against generation/filters.py."""
    step = 6
    page = write(tab(), story, at=step)
    ids = torch.tensor([teller.tokenizer.encode(STORY) + greedy.new_ids[0, : step - 1].tolist()])
    with torch.inference_mode():
        logits = teller(input_ids=ids).logits[:, -1].double()
    listed = logits[0].argsort(descending=True)[:15]
    for temperature, k, p in SHAPES:
        set_range(page, "temperature", temperature)
        set_range(page, "top-k", MARKS.index(k))
        set_range(page, "top-p", p)
        expected = filters.temperature(temperature)(ids, logits)
        for change in ([filters.top_k(k)] if k else []) + [filters.top_p(p)]:
            expected = change(ids, expected)
        probs = expected.softmax(-1)[0]
        stored = page.locator(".gen-facts b").first.inner_text()
        assert int(stored) == int((probs > 0).sum()), (temperature, k, p)
        bars = page.locator(".gen-bar").evaluate_all("all => all.map(e => [e.title, 'cut' in e.dataset])")
        displayed = torch.tensor([value(re.split("[:,]", title)[0]) for title, _ in bars]).double()
        torch.testing.assert_close(displayed, probs[listed], atol=1e-5, rtol=0)
        assert [cut for _, cut in bars] == (probs[listed] == 0).tolist(), (temperature, k, p)


def test_presets_and_writing_again_with_them(tab: Tabs, story: Look, teller: Model) -> None:
    one = tab()
    page = write(one, story)
    one.until("document.querySelector('.gen-facts') !== null")
    page.get_by_role("button", name="T → 0").click()
    assert page.locator(".gen-facts").inner_text().startswith("1 of 512 left")
    page.get_by_role("button", name="0.7 / 0.9").click()
    page.get_by_role("button", name="Write with these").click()
    one.until("location.hash.includes('g.seed=')")
    one.wait_for_view("generate")
    state = one.state
    assert (state["g.do_sample"], state["g.temperature"], state["g.top_p"]) == ("true", "0.7", "0.9")
    request = {"do_sample": True, "temperature": 0.7, "top_k": 0, "top_p": 0.9, "seed": int(state["g.seed"])}
    assert joined(text_of(one)) == joined(teller.generate(STORY, max_new_tokens=N, **request))


# ------------------------------------------------------------------------------------------------------- branches


def test_a_branch_is_taken_kept_left_and_removed(tab: Tabs, story: Look, teller: Model, greedy: Any) -> None:
    one = tab(accept_downloads=True)
    page = write(one, story)
    first = text_of(one)
    page.locator(OPTIONS).nth(4).click()
    assert one.state["at"] == "5"
    other = page.locator(".gen-bar:not([aria-current])").nth(1)
    other.click()
    page.get_by_role("button", name=re.compile("Remove the branch step 5")).wait_for()
    one.wait_for_view("generate")
    rows = table(one)
    assert rows[4]["chosen"] == "by hand" and {row["chosen"] for row in rows[5:]} == {"by the method"}
    forced = teller.tokenizer.encode(STORY) + [row["id"] for row in rows[:5]]
    expected = teller.generate(torch.tensor([forced]), max_new_tokens=len(rows) - 5)
    assert [row["id"] for row in rows[5:]] == expected[0, len(forced) :].tolist()
    branch = text_of(one)
    assert branch != first

    # a link opens exactly that
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    one.wait_for_view("generate")
    one.until("document.querySelector('.gen-hand') !== null")
    one.wait_for_view("generate")
    assert text_of(one) == branch
    assert page.locator(".gen-word.gen-pinned").get_attribute("data-step") == "5"

    # siblings are kept; one is switched to, and the branch removed
    texts = page.locator(".gen-texts li")
    assert texts.count() == 2
    texts.first.get_by_role("button").first.click()
    assert text_of(one) == first
    texts.nth(1).get_by_role("button").first.click()
    assert text_of(one) != first
    page.get_by_role("button", name=re.compile("Remove the branch")).click()
    assert texts.count() == 1 and text_of(one) == first
    assert "path" not in one.state


def test_all_of_it_by_keyboard(tab: Tabs, story: Look) -> None:
    one = tab()
    page = write(one, story)
    press = page.keyboard.press
    page.keyboard.press("1")
    one.wait_for_view("model")
    page.locator("body").press("5")
    one.wait_for_view("generate")
    page.locator(f"{OPTIONS}[tabindex='0']").focus()
    press("Home")
    press("ArrowRight")
    press("ArrowRight")
    page.get_by_role("heading", name="Step 3 ").wait_for()
    press("Enter")
    one.wait_for_announcement("Pinned step 3")
    assert one.state["at"] == "3"
    for _ in range(40):
        press("Tab")
        if page.evaluate("document.activeElement.matches('.gen-bar')"):
            break
    press("ArrowDown")
    press("Enter")
    page.locator(".gen-word.gen-hand").wait_for()
    one.wait_for_view("generate")
    one.wait_for_announcement("Written:")
    page.locator(".gen-tree [tabindex='0']").focus()
    press("ArrowDown")
    assert "step" in (page.evaluate("document.activeElement.getAttribute('aria-label')") or "")
    press("Escape")
    assert "at" not in one.state


# ----------------------------------------------------------------------------------------------------------- beams


def test_the_tree_of_beams(tab: Tabs, story: Look, teller: Model) -> None:
    one = tab(accept_downloads=True)
    page = write(one, story, **{"g.num_beams": 4})
    result = teller.generate(STORY, max_new_tokens=N, num_beams=4, num_return_sequences=4, return_scores=True)
    texts = page.locator(".gen-texts li")
    assert texts.count() == 4
    for at, (text, score) in enumerate(zip(result.texts, result.scores.tolist(), strict=True)):
        spoken_text = texts.nth(at).inner_text()
        assert text.strip() in spoken_text
        told = re.search(r"score −([\d.]+)", spoken_text)
        assert told and -float(told[1]) == pytest.approx(score, rel=1e-3)
    assert "given back" in texts.first.inner_text() and "given back" not in texts.nth(1).inner_text()
    marks = page.locator(".gen-chip b")
    assert sorted(marks.all_inner_texts()) == ["1", "2", "3", "4"]
    assert page.locator(".gen-chip.dead").count() > 4, "beams that were given up"
    positions = page.locator(".gen-chip").evaluate_all("all => all.map(e => `${e.style.left} ${e.style.top}`)")
    assert len(positions) == len(set(positions)), "no two in one place"
    texts.nth(2).get_by_role("button").first.click()
    assert joined(text_of(one)) == joined(result.texts[2])
    assert page.locator(".gen-chip.on").count() == page.locator(OPTIONS).count()


# -------------------------------------------------------------------------------------------------------- attention


def test_where_it_looked(tab: Tabs, story: Look, teller: Model) -> None:
    """Of one head and of all, the shares are those of a pass over the text; the head view opens at that place."""
    step, layer, head = 7, 2, 5
    one = tab()
    page = write(one, story, at=step, l=layer, h=head, shades="head")
    one.until("document.querySelector('.gen-key') !== null")
    writing = teller.writing(STORY)
    session = writing.session(writing.write(max_new_tokens=N).answers[0].node)
    row = len(writing.prefix) + step - 2
    told = page.locator(".gen-shades .gen-said").inner_text()
    shares = session.head(layer, head).probs(row)[0]
    best = int(shares.argmax())
    assert session.streams["text"][best].text in told
    assert re.search(rf"{float(shares[best]) * 100:.0f}%", told)

    page.locator(".gen-shades select").last.select_option("mean")
    one.until("location.hash.includes('shades=mean')")
    mean = torch.stack([session.head(layer, each).probs(row)[0] for each in range(8)]).mean(0)
    one.until(
        "document.querySelector('.gen-shades .gen-said').innerText.includes(x)",
        f"{float(mean.max()) * 100:.0f}%",
    )
    page.locator(".gen-shades select").last.select_option(str(head))
    page.get_by_role("button", name="Head view").click()
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"], one.state["q"]) == (str(layer), str(head), str(row))
    page.locator("#tab-generate").click()
    one.wait_for_view("generate")
    assert page.get_by_label("text", exact=True).input_value() == STORY, "back at the prompt, nothing is lost"
    assert page.locator(OPTIONS).count() == N


def test_an_encoder_decoder_answers_what_it_reads(tab: Tabs, translation: Look, models: dict[str, Model]) -> None:
    one = tab()
    page = write(one, translation, at=2, shades="mean", map="cross")
    one.until("document.querySelector('.gen-key') !== null")
    source = " ".join(page.locator(".gen-source span").all_text_contents())
    assert joined(TRANSLATION[0]) in joined(source)
    expected = models["transformer"].generate(TRANSLATION[0], max_new_tokens=N)
    assert joined(expected) in joined(text_of(one))
    shades = page.locator(".gen-source span").evaluate_all("all => all.map(e => e.style.background)")
    assert any(shades)


# ------------------------------------------------------------------------------------------------- hostile, exports


def test_a_token_may_be_a_script(tab: Tabs, look: Callable[..., Look], models: dict[str, Model]) -> None:
    """Written by hand, through a link, into the text, the bars, the tree and the list."""
    model = models["qwen2"]
    number = model.tokenizer.encode("<script>", add_special_tokens=False)[0]
    one = tab()
    page = write(one, look(model, "time flies"), path=number, at=1)
    one.until("document.querySelector('.gen-hand') !== null")
    assert page.locator(".gen-word.gen-hand").inner_text() == "<script>"
    assert page.locator(".gen-paper script, .gen-tree script, .gen-bars script, .gen-texts script").count() == 0


def test_pictures_and_tables(tab: Tabs, story: Look) -> None:
    one = tab(accept_downloads=True)
    write(one, story, **{"g.num_beams": 3})
    name, drawing = one.saved("Drawing")
    assert name.startswith("generation-") and name.endswith(".svg")
    for part in (b"Lily", b"stories260k", b"<path"):
        assert part in drawing
    name, picture = one.saved("Picture")
    assert picture.startswith(b"\x89PNG")


# ------------------------------------------------------------------------------------------------------- one file


@pytest.fixture
def offline(tab: Tabs) -> Tab:
    """A tab that may ask nobody, and has no network should it try."""
    one = tab(allow="nobody", accept_downloads=True)
    one.context.set_offline(True)
    return one


def test_one_file_holds_what_was_written(
    tab: Tabs, offline: Tab, story: Look, teller: Model, greedy: Any, tmp_path: Path
) -> None:
    """Text, shades, choices, sliders and attention without a network; what needs the model names the command."""
    path = tmp_path / "page.html"
    teller.look(STORY, html=path, view="generate", options={"max_new_tokens": N, "num_beams": 3})
    page = offline.goto(path)
    offline.wait_for_view("generate")
    best = teller.generate(STORY, max_new_tokens=N, num_beams=3)
    assert joined(text_of(offline)) == joined(best)
    assert page.locator(".gen-texts li").count() == 3
    page.locator(OPTIONS).nth(5).click()
    offline.until("document.querySelector('.gen-facts') !== null")
    page.get_by_role("button", name="T → 0").click()
    assert page.locator(".gen-facts").inner_text().startswith("1 of 512 left")

    served = tab()
    other = write(served, story, **{"g.num_beams": 3, "at": 6, "shades": "mean", "l": 1})
    page.get_by_role("radio", name="where it looked").check()
    page.locator(".gen-shades select").first.select_option("1")
    for one in (served, offline):
        one.until("document.querySelector('.gen-key') !== null")
    spoken_text = ".gen-shades .gen-said"
    offline.until(f"document.querySelector('{spoken_text}').innerText === x", other.locator(spoken_text).inner_text())

    page.locator(".gen-bar:not([aria-current])").nth(1).click()
    page.get_by_role("status").filter(has_text="glassformer look").wait_for()
    assert page.get_by_role("button", name="Write", exact=False).first.is_disabled()
    assert joined(text_of(offline)) == joined(best), "what is there stays"


def test_a_file_without_a_writing_says_how_to_add_it(offline: Tab, teller: Model, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    teller.look(STORY, html=path, view="model")  # which asks for something else
    page = offline.open(path)
    page.locator("#tab-generate").click()
    spoken_text = page.get_by_role("status").filter(has_text="glassformer look")
    spoken_text.wait_for()
    assert "--view generate" in spoken_text.inner_text()


def test_the_page_saves_what_is_written_into_one_file(tab: Tabs, offline: Tab, story: Look, tmp_path: Path) -> None:
    one = tab(accept_downloads=True)
    write(one, story)
    path = tmp_path / "saved.html"
    path.write_bytes(one.saved("one HTML file")[1])
    offline.goto(path)
    offline.wait_for_view("generate")
    assert text_of(offline) == text_of(one)


def test_options_of_the_library_have_controls_and_go_into_the_text_and_the_link(tab: Tabs, story: Look) -> None:
    one = tab()
    page = write(one, story, **{"g.stop_strings": '["zzz"]', "g.penalty_alpha": 0.6})
    more = page.locator(".gen-more")
    assert more.locator("summary").inner_text() == "More options, 1 set"
    assert "penalty_alpha 0.6, which is no option here" in page.locator("body").inner_text()
    more.locator("summary").click()
    field = more.get_by_label("repetition penalty", exact=True)
    field.fill("0")
    field.blur()
    assert field.input_value() == "", "the library takes numbers above 0"
    more.get_by_label("regex", exact=True).fill("[a-z]{4}")
    more.get_by_label("regex", exact=True).blur()
    page.get_by_role("button", name="Write again").click()
    one.until("location.hash.includes('g.regex=')")
    assert one.state["g.regex"] == "[a-z]{4}" and one.state["g.stop_strings"] == '["zzz"]'
    page.wait_for_function("() => !document.querySelector('.gen[data-busy]')")
    text = page.locator(".gen-text").inner_text()
    assert re.search(rf"{STORY} [a-z]{{4}} </s>$", text), text
