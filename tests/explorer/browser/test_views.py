"""The page as a person meets it: every view of every kind of map, its address, its texts, and what it gives away."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.explorer.describe import model_facts
from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.e2e.tiny_models import make_folder
from tests.explorer.browser.conftest import TEXTS, Check
from tests.explorer.browser.tab import PIXELS, Tab, darkest, value

VIEWS = ("model", "head", "matrix", "neuron")
GRID = ".model-view .head-canvas"
Tabs = Callable[..., Tab]


# ----------------------------------------------------------------------------------------------- the first look


def test_the_page_opens_on_every_head_at_once(tab: Tabs, served: Look) -> None:
    page = tab().open(served)
    assert page.locator(".model-view [role=gridcell]").count() == 72
    assert page.get_by_role("heading", level=1).inner_text() == "glassformer"
    for fact in ("bert", "6 layers × 12 heads", "head width 32", "float32"):
        assert fact in page.locator(".facts").inner_text()


@pytest.mark.parametrize(
    ("size", "theme", "pictures"),
    [((1440, 900), "light", (".head-grid", ".preview .map")), ((390, 844), "dark", (".preview .map",))],
    ids=["laptop", "phone"],
)
def test_the_page_opens_on_the_sentence_with_its_strongest_link(
    tab: Tabs, served: Look, size: tuple[int, int], theme: str, pictures: tuple[str, ...]
) -> None:
    width, height = size
    one = tab(viewport={"width": width, "height": height}, color_scheme=theme)
    page = one.open(served)
    assert [one.state[name] for name in ("l", "h", "q", "k")] == ["4", "9", "1", "2"]
    lead = page.locator(".lead")
    headline = lead.locator("p")
    assert headline.inner_text() == "In layer 4, head 9, “time” gives 93% of its attention to “flies”."
    one.until("/time attends to flies 0.9292, rank 1 of 13/.test(document.querySelector('.reading-line').innerText)")
    for picture in pictures:  # above the fold
        box = page.locator(picture).bounding_box()
        assert box["y"] + box["height"] < height, picture
    chips = lead.get_by_role("button")
    assert chips.first.get_attribute("aria-pressed") == "true" and chips.count() == 5
    chips.nth(1).click()
    assert headline.inner_text() == "In layer 0, head 4, “flies” gives 79% of its attention to “fruit”."
    assert [one.state[name] for name in ("l", "h", "q", "k")] == ["0", "4", "8", "7"]
    chips.last.click()
    assert headline.inner_text() == "In layer 0, head 2, each token attends to the one before it: 91% of the attention."
    one.open(served, l=3, h=4)  # a link wins, and the way back is one click
    assert (one.state["l"], one.state["h"], "q" in one.state) == ("3", "4", False)
    lead.get_by_role("button", name="time → flies").click()
    one.until("location.hash.includes('l=4&h=9&q=1&k=2')")
    page.get_by_role("button", name="Arithmetic").click()  # and the cell is computed in one more
    one.wait_for_view("neuron")
    assert "0.9292" in page.locator(".neuron-rows").inner_text()


def test_another_text_opens_on_its_own_strongest_link(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served)
    page.get_by_label("second text").fill("")
    page.get_by_label("text", exact=True).fill("The chef who ran to the store was out of food")
    page.keyboard.press("Enter")
    one.until("/“food” gives 91% of its attention to “chef”/.test(document.querySelector('.lead').innerText)")


def test_a_text_without_a_finding_says_so(tab: Tabs, served: Look) -> None:
    page = tab().open(served)
    page.get_by_label("second text").fill("")
    page.get_by_label("text", exact=True).fill("time flies")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("In so short a text no head stands out: choose one, or give a longer text.").wait_for()


def test_a_decoder_opens_with_what_it_writes_and_an_encoder_decoder_with_its_cross_attention(
    tab: Tabs, story: Look, translation: Look
) -> None:
    one = tab()
    one.goto(story)
    one.wait_for_view("generate")
    one.open(translation)
    assert one.state["map"] == "cross"


def test_every_thumbnail_is_painted(tab: Tabs, served: Look) -> None:
    one = tab()
    one.open(served)
    thumbnails = torch.cat([served.session.overview(layer).thumbnails for layer in range(6)])
    for pixels, thumbnail in zip(one.thumbnails(thumbnails.shape[1:]), thumbnails, strict=True):
        assert len(set(pixels)) > 1
        assert thumbnail.flatten()[darkest(pixels)] >= thumbnail.max() * 254 / 255


def test_a_layer_with_fewer_heads_shows_those_it_has(tab: Tabs, look: Callable[..., Look], tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path / "pruned",
        "bert",
        num_hidden_layers=2,
        num_attention_heads=4,
        hidden_size=16,
        pruned_heads={"0": [1, 2]},
    )
    one = tab()
    page = one.open(look(glassformer.load(folder), "time flies like an arrow"))
    rows = page.locator(".head-grid [role=row]:not(.heading)")
    assert [rows.nth(layer).locator("[data-cell]").count() for layer in range(2)] == [2, 4]
    page.get_by_label("Order").select_option("entropy_bits")
    assert page.locator(".head-list [data-cell]").count() == 6
    assert one.saved("Picture")[1].startswith(b"\x89PNG") and one.saved("Table (CSV)")[1].count(b"\n") == 7


def test_heads_are_grouped_by_what_they_do(tab: Tabs, served: Look, check: Check) -> None:
    one = tab()
    page = one.open(served)
    page.get_by_label("Order").select_option("kind")
    kinds: dict[str, list[tuple[float, str]]] = {}
    for layer in range(6):
        for head, (name, metric) in enumerate(served.session.overview(layer).kinds):
            kinds.setdefault(name, []).append((metric, f"{layer}·{head}"))
    groups = page.locator(".head-kinds [role=group]")
    shown = {each.locator("p b").inner_text(): each.locator("figcaption b").all_inner_texts() for each in groups.all()}
    assert {name: set(heads) for name, heads in shown.items()} == {
        name: {head for _, head in heads} for name, heads in kinds.items()
    }
    assert [len(heads) for heads in shown.values()] == sorted(map(len, shown.values())), "the rarest kind first"
    assert all(heads[0] == max(kinds[name])[1] for name, heads in shown.items())
    assert groups.first.locator("p small").inner_text()
    check(page, "heads by what they do")
    groups.first.locator("[data-cell]").first.click()
    one.wait_for_view("head")


def test_a_click_on_a_head_opens_its_lines(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served)
    page.get_by_role("gridcell", name="layer 4 · head 11").click()
    page.mouse.move(0, 0)  # else it may point at a token of the next view
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"]) == ("4", "11")
    assert page.get_by_label("Numbers").get_by_text("head 11").is_visible()


# ------------------------------------------------------------------------------------ each view of each kind of map


def check_view(one: Tab, view: str) -> None:
    """Something is drawn, and more than one number or link stands in the words next to it."""
    page = one.page
    if view == "model":
        assert min(one.colours(GRID)) >= 2
    elif view == "head":
        for column in page.locator(".head-stage").get_by_role("listbox").all():
            assert column.get_by_role("option").count() > 3
        one.wait_for_colours(".head-stage canvas", 5)
    elif view == "matrix":
        one.wait_for_colours(".matrix-plot canvas", 9)
        shares = [value(each.get_attribute("title")) for each in page.locator(".matrix-strongest .matrix-p").all()]
        assert page.locator(".matrix-p").first.inner_text().endswith("%")
        assert shares == sorted(shares, reverse=True) and 0 < shares[0] <= 1
    else:
        one.wait_for_colours(".neuron-z canvas", 3)
        assert len(re.findall(r"\d[.]\d+", page.locator(".neuron-rows").inner_text())) > 6


def test_self_attention(tab: Tabs, served: Look) -> None:
    one = tab()
    one.open(served, l=2, h=7)
    for view in VIEWS:
        one.go(view)
        check_view(one, view)


def test_causal_attention_with_shared_keys(tab: Tabs, story: Look) -> None:
    about = story.session.maps["self"]
    assert about.kv_heads < about.heads
    one = tab()
    page = one.open(story, l=1, h=5)
    for view in VIEWS:
        one.go(view)
        check_view(one, view)
        told = page.locator("#view").inner_text()
        if view == "matrix":
            assert "hidden by the mask" in told
        if view == "neuron":
            for fact in ("share key/value head", "rotation by position", "comes later"):
                assert fact in told


@pytest.mark.representative("head", "model")
@pytest.mark.parametrize("view", VIEWS)
def test_encoder_decoder_and_cross_attention(tab: Tabs, translation: Look, view: str) -> None:
    one = tab()
    page = one.open(translation, view=view, map="encoder")
    check_view(one, view)
    for name in ("decoder", "cross"):
        page.get_by_role("radio", name=name, exact=True).check()
        one.until("location.hash.includes(`map=${x}`)", name)
        one.wait_for_view(view)
        check_view(one, view)
    session = translation.session
    about = session.maps["cross"]
    assert (about.queries, about.keys) == ("target", "source")
    if view == "head":
        columns = page.locator(".head-stage").get_by_role("listbox").all()
        for column, side in zip(columns, ("target", "source"), strict=True):
            assert side in (column.get_attribute("aria-label") or "")
            assert column.get_by_role("option").count() == len(session.streams[side])


def test_each_word_of_a_long_map_has_a_row_that_can_be_read(tab: Tabs, lecture: Look) -> None:
    about = lecture.session.maps["cross"]
    queries, keys = (len(lecture.session.streams[side]) for side in (about.queries, about.keys))
    assert keys > 3 * queries
    one = tab(accept_downloads=True)
    one.open(lecture, view="matrix", map="cross")
    root = ElementTree.fromstring(one.saved("Drawing")[1])
    (plot,) = root.iter("{http://www.w3.org/2000/svg}image")
    width, height = float(plot.get("width", 0)), float(plot.get("height", 0))
    assert height == 24 * queries
    assert 24 * keys > width > 5 * keys, "a row is higher than a column is wide"
    labels = [text for text in root.iter("{http://www.w3.org/2000/svg}text") if text.get("text-anchor") == "end"]
    assert [float(label.get("y", 0)) for label in labels] == [24 * row + 12 for row in range(queries)]


GONE = """() => {
  window.gone = [];
  const names = (list) => [...list].filter((node) => node.nodeType === 1).map((node) => node.className || node.tagName);
  new MutationObserver((list) => list.forEach((one) => window.gone.push(...names(one.removedNodes))))
    .observe(document.body, { subtree: true, childList: true });
}"""


def test_the_next_head_of_the_arithmetic_is_drawn_over_the_last(
    tab: Tabs, encoder: Model, look: Callable[..., Look]
) -> None:
    one = tab()
    page = one.open(look(encoder, "time flies like an arrow " * 10), view="neuron", l=2, h=3, q=20)
    page.locator(".neuron-rows [data-key]").nth(31).wait_for()
    assert page.locator(".neuron canvas").count() == 4, "q, z, keys and bars: each costs at each frame"
    assert page.locator("#found li").count() == 0, "a search that is closed lists nothing"
    page.evaluate(GONE)
    before = page.locator(".neuron-rows").inner_text()
    page.keyboard.press(".")
    page.get_by_role("heading", name="layer 2 · head 4").wait_for()
    one.until("document.querySelector('.neuron-rows').innerText !== x", before)
    one.until("!document.querySelector('.neuron-rows[aria-busy=true]')")
    assert page.evaluate("window.gone") == [], "what goes and comes back moves the whole page"
    assert one.colours(".neuron-sheet canvas")


# ------------------------------------------------------------------------------------------------- the address

STATES = [
    {"view": "head", "map": "self", "l": "1-3", "h": "2,5", "mix": "mean", "q": "2", "k": "4"},
    {"view": "head", "map": "self", "l": "0", "h": "3", "from": "0", "to": "1", "sp": "0"},
    {"view": "matrix", "map": "self", "l": "5", "h": "11", "q": "1", "comp": "sqrt"},
    {"view": "neuron", "map": "self", "l": "4", "h": "0", "q": "3", "k": "2"},
    {"view": "model", "map": "self", "l": "2", "h": "1", "sort": "entropy_bits"},
]


@pytest.mark.representative("head0", "neuron", "model")
@pytest.mark.parametrize("state", STATES, ids=lambda state: state["view"])
def test_a_link_opens_exactly_that(tab: Tabs, served: Look, state: dict[str, str]) -> None:
    one = tab()
    page = one.open(served, **state)
    assert one.state == {"v": "1", **state}
    assert one.messages == ""
    if "q" in state:
        assert page.get_by_role("button", name="Unpin").count() == len({"q", "k"} & set(state))
    if state["view"] == "neuron":
        assert page.locator(".neuron-working").is_visible()
    if state["view"] == "matrix":
        assert page.get_by_role("checkbox").is_checked()
    if state["view"] == "model":
        assert page.get_by_role("combobox", name="Order").input_value() == "entropy_bits"


def test_back_and_forward_go_from_view_to_view(tab: Tabs, served: Look) -> None:
    one = tab()
    page = one.open(served)
    page.get_by_role("gridcell", name="layer 3 · head 2").click()
    page.mouse.move(0, 0)
    one.wait_for_view("head")
    one.go("matrix")
    page.go_back()
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"]) == ("3", "2")
    page.go_back()
    one.wait_for_view("model")
    page.go_forward()
    one.wait_for_view("head")
    assert (one.state["l"], one.state["h"]) == ("3", "2")


@pytest.mark.representative("view", "layer", "token", "version")
@pytest.mark.parametrize(
    ("asked", "told", "shown"),
    [
        ({"view": "lens"}, "view “lens”", {"view": "model"}),
        ({"view": "head", "map": "cross"}, "map “cross”", {"view": "head", "map": "self"}),
        ({"view": "head", "l": 99}, "layers 0 to 5", {"view": "head", "l": "5"}),
        ({"view": "matrix", "h": 99}, "heads 0 to 11", {"view": "matrix", "h": "11"}),
        ({"view": "neuron", "l": "x"}, "layer x", {"view": "neuron", "l": "0"}),
        ({"view": "head", "q": 99}, "token 99", {"view": "head", "l": "4"}),
        ({"v": 2, "view": "head"}, "version 2", {"v": "1", "view": "model"}),
    ],
    ids=["view", "map", "layer", "head", "no number", "token", "version"],
)
def test_what_a_link_asks_for_and_is_not_here(
    tab: Tabs, served: Look, asked: dict[str, Any], told: str, shown: dict[str, str]
) -> None:
    one = tab()
    one.goto(served, **asked)
    one.wait_for_view(shown["view"])
    assert told in one.messages
    assert shown.items() <= one.state.items()
    assert ("q" in one.state) == ("v" in asked), "a link of another version opens as the page does"
    one.page.get_by_label("Messages").get_by_role("button", name="Close").click()
    one.until("document.querySelector('.banner') === null")


def test_the_token_leaves_the_address_at_once_and_is_in_no_link(tab: Tabs, tiny: Look) -> None:
    one = tab()
    token = tiny.url.partition("token=")[2]
    page = one.open(tiny, view="head", l=1)
    assert token not in page.url
    assert "token" not in one.state
    one.context.grant_permissions(["clipboard-read", "clipboard-write"])
    one.share("Copy a link")
    one.wait_for_announcement("copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    assert token not in link
    page.go_back()  # nor is it in what lies behind
    assert token not in page.url


def test_a_copied_link_opens_in_a_second_tab(tab: Tabs, tiny: Look) -> None:
    one = tab()
    link = one.open(tiny, view="matrix", l=1, h=1, q=2).url
    other = one.context.new_page()
    other.goto(link)
    other.wait_for_selector(".matrix-strongest li")
    assert other.url == link


# -------------------------------------------------------------------------------------------------------- texts


def test_another_text_is_run_and_shown(tab: Tabs, tiny: Look) -> None:
    one = tab()
    page = one.open(tiny, view="head", l=1, h=1)
    page.get_by_label("text", exact=True).fill("an arrow flies")
    page.get_by_label("second text").fill("")
    page.get_by_role("button", name="Run").click()
    one.until("document.querySelectorAll('.head-tokens [role=option]').length === x", 10)
    column = page.get_by_role("listbox", name="Tokens that look").get_by_role("option")
    assert [text.split("\n")[0] for text in column.all_inner_texts()] == [
        "[CLS]",
        "an",
        "arrow",
        "flies",
        "[SEP]",
    ]
    assert (one.state["l"], one.state["h"]) == ("1", "1"), "the head on screen stays"
    assert "x" in one.state, "the link carries the new text"
    link = page.url
    one.page.goto("about:blank")
    page.goto(link)
    one.wait_for_view("head")
    assert page.get_by_label("text", exact=True).input_value() == "an arrow flies"


# ------------------------------------------------------------------------------------------------------ exports


def png_size(content: bytes) -> tuple[int, int]:
    """Width and height, the file checked: its signature, and that its pixels can be unpacked and are not all alike."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    at, pixels = 8, b""
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        if kind == b"IDAT":
            pixels += content[at + 8 : at + 8 + size]
        at += size + 12
    assert len(set(zlib.decompress(pixels))) > 16
    return width, height


WRITTEN = """() => {
    window.written = [];
    const { prototype } = OffscreenCanvasRenderingContext2D, write = prototype.fillText;
    prototype.fillText = function (text, ...place) { window.written.push(text); write.call(this, text, ...place); };
}"""
"""Remembers what is written into pictures; a slide's own words come last."""


@pytest.mark.parametrize("view", VIEWS)
def test_pictures_drawings_and_tables(tab: Tabs, served: Look, view: str) -> None:
    one = tab(accept_downloads=True)
    one.open(served, view=view, l=4, h=11, q=3, k=2)
    if view == "head":
        one.until("document.querySelector('.head-exact') !== null")

    name, picture = one.saved("Picture")
    assert name.endswith(".png")
    width, height = png_size(picture)
    assert width > 400 and height > 200

    one.page.evaluate(WRITTEN)
    name, slide = one.saved("Card")
    assert name.endswith(".card.png") and all(a > b for a, b in zip(png_size(slide), (width, height), strict=True))
    written = " ".join(one.page.evaluate("window.written"))
    assert re.search(r"Layer 4 · head 11: .*\d ?%", written) and TEXTS[0] in written, written

    name, drawing = one.saved("Drawing")
    assert name.endswith(".svg")
    root = ElementTree.fromstring(drawing)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    session = served.session
    if view != "model":  # which has no tokens in it
        for token in session.streams["text"][1:4]:
            assert any(token.text in text for text in texts), token.text
    assert any("float32" in text for text in texts), "the picture says what it was made from"

    name, table = one.saved("CSV")
    assert name.endswith(".csv")
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    name, whole = one.saved("JSON")
    assert name.endswith(".json")
    about = json.loads(whole)
    assert about["texts"] == TEXTS and about["revision"] and about["dtype"] == "float32"
    assert "token=" not in about["link"]
    assert len(rows) == len(about["rows"])
    for row, same in zip(rows, about["rows"], strict=True):
        for column, cell in same.items():
            assert row[column].removeprefix("'") == cell if isinstance(cell, str) else float(row[column]) == cell
    check_numbers(view, about["rows"], session)


def check_numbers(view: str, rows: list[dict[str, Any]], session: Any) -> None:
    """The table's numbers are the session's."""
    if view == "model":
        assert len(rows) == 72
        for row in rows[::7]:
            overview = session.overview(row["layer"])
            assert row["entropy_bits"] == pytest.approx(float(overview.stats["entropy_bits"][row["head"]]), abs=1e-5)
            assert row["summary"] == overview.summaries[row["head"]]
        return
    head = session.head(4, 11)
    probs, scores = head.probs(3)[0], head.scores(3)[0]
    if view == "head":
        links = [row for row in rows if row["to token"] != "other"]
        assert links and {(row["layer"], row["head"], row["from"]) for row in links} == {(4, 11, 3)}
        for row in links:
            assert row["probability"] == pytest.approx(float(probs[row["to"]]), abs=5e-6)
        assert sum(row["probability"] for row in rows) == pytest.approx(1, abs=1e-4)
        return
    assert len(rows) == len(probs)
    for row in rows:
        assert row["probability"] == pytest.approx(float(probs[row["key"]]), abs=5e-6)
        assert row["score"] == pytest.approx(float(scores[row["key"]]), abs=2e-5, rel=1e-5)


def test_the_page_saves_itself_as_one_file(tab: Tabs, tiny: Look) -> None:
    one = tab(accept_downloads=True)
    one.open(tiny)
    name, content = one.saved("one HTML file")
    assert name.endswith(".html")
    page = content.decode()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert 'id="session"' in page and 'data-key="layer/self/1"' in page
    assert tiny.url.partition("token=")[2] not in page


# ---------------------------------------------------------------------------------------------- theme and status


def test_dark_and_light_follow_the_system(tab: Tabs, tiny: Look) -> None:
    one = tab(color_scheme="light")
    page = one.open(tiny, view="head")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    picture = page.screenshot()
    page.emulate_media(color_scheme="dark")
    one.until(f"{paper} !== x", light)
    assert brightness(page.evaluate(paper)) < 60 < 200 < brightness(light)
    assert page.screenshot() != picture


def test_the_theme_can_be_chosen_and_is_remembered(tab: Tabs, tiny: Look) -> None:
    one = tab(color_scheme="light")
    page = one.open(tiny)
    button = page.get_by_role("button", name="Theme")
    button.click()  # auto → light
    button.click()  # → dark
    assert "dark" in (button.get_attribute("aria-label") or "")
    page.reload()
    one.wait_for_view("model")
    assert brightness(page.evaluate("getComputedStyle(document.documentElement).backgroundColor")) < 60


def brightness(colour: str) -> float:
    red, green, blue = map(float, re.findall(r"[\d.]+", colour)[:3])
    return 0.3 * red + 0.59 * green + 0.11 * blue


def test_the_status_line_says_where_the_numbers_come_from(tab: Tabs, encoder: Model, served: Look) -> None:
    one = tab()
    page = one.open(served)
    line = page.locator(".provenance").inner_text()
    facts = model_facts(encoder)
    assert facts.revision in line and facts.name in line and "float32" in line
    text_hash = hashlib.sha256(json.dumps(TEXTS).encode()).hexdigest()[:8]
    assert f"text {text_hash}" in line
    assert f"{len(served.session.streams['text'])} tokens" in line
    assert re.search(r"Python keeps [\d.]+ [kM]B", line)
    assert re.search(r"pass [\d.]+ s", line)


@pytest.mark.parametrize("words", [33, 80])
def test_the_large_map_of_many_tokens_names_some_and_those_pointed_at(
    tab: Callable[..., Tab], encoder: Model, look: Callable[..., Look], words: int
) -> None:
    """One cell a token, or, of more tokens than a thumbnail has cells, one for several."""
    shown = look(encoder, " ".join(["time flies like an arrow fruit banana".split()[i % 7] for i in range(words - 2)]))
    one = tab()
    page = one.open(shown)
    names = [token.text for token in shown.session.streams["text"]]
    bin = math.ceil(words / 64)
    cells, (row, column) = math.ceil(words / bin), (5, 9)
    page.locator(".ruler.columns li").nth(11).wait_for()
    area = page.locator(".large .map").bounding_box()
    x, y = ((place + 0.5) / cells for place in (column, row))
    page.mouse.move(area["x"] + x * area["width"], area["y"] + y * area["height"])
    page.locator(".ruler.rows [data-on]", has_text=names[row * bin]).wait_for()
    assert page.locator(".ruler.columns [data-on]").inner_text() == names[column * bin]
    line = page.locator(".reading-line").inner_text()
    assert names[row * bin] in line and names[column * bin] in line
    shown_names = page.locator(".ruler.rows li").all_inner_texts()
    assert 12 <= len(shown_names) <= 24 and set(shown_names) <= set(names)


def test_on_paper_there_is_the_finding_without_what_one_clicks(tab: Tabs, served: Look) -> None:
    page = tab().open(served, view="head", l=4, h=9, q=1, k=2)
    assert page.locator(".tabs").is_visible()
    page.emulate_media(media="print")
    assert page.locator(".found > p").inner_text().startswith("In layer 4, head 9, “time” gives 93%")
    assert not page.locator(".tabs").is_visible() and not page.locator(".top .tools").is_visible()


def test_paper_is_light_also_where_the_dark_theme_was_chosen(tab: Tabs, served: Look) -> None:
    """Colours of the page, and canvases, for which no frame comes while the page is laid out for paper."""
    one = tab()
    page = one.open(served, view="matrix", theme="dark")
    page.wait_for_selector(".navigator .head-canvas:not([data-empty])")
    colours = "['backgroundColor', 'color'].map((name) => getComputedStyle(document.documentElement)[name])"
    canvas = ".navigator .head-canvas, [role=application] > canvas:first-of-type"
    bright = f"""[...document.querySelectorAll('{canvas}')].map((c) => {{
        const all = [...{PIXELS}].filter((each) => each >>> 24 === 255);
        return all.reduce((sum, each) => sum + (each >> 8 & 255), 0) / all.length;
    }})"""
    before, canvases = page.evaluate(colours), page.evaluate(bright)
    assert len(canvases) == 2 and max(canvases) < 100
    page.emulate_media(media="print")
    assert page.evaluate(colours) == ["rgb(244, 246, 249)", "rgb(15, 28, 43)"]
    page.wait_for_selector("html[data-theme=light]")
    page.emulate_media(media="screen")
    page.wait_for_selector("html[data-theme=dark]")  # the theme that was chosen is back
    assert page.evaluate(colours) == before
    page.evaluate("window.requestAnimationFrame = () => 0")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert min(page.evaluate(bright)) > 150


@pytest.mark.parametrize(
    ("view", "picture"),
    [
        ("head", ".head-tokens"), ("matrix", "[role=application]"), ("neuron", ".neuron-sweep, .neuron-rows"),
        ("generate", ".gen-paper"), ("patch", ".patch-map canvas"), ("lens", ".lens-grid"),
        ("attribution", ".attr-word"),
    ],
)  # fmt: skip
def test_on_a_phone_the_picture_comes_before_what_changes_it(tab: Tabs, story: Look, view: str, picture: str) -> None:
    page = tab(viewport={"width": 390, "height": 844}).goto(story, view=view)
    page.locator(picture).first.wait_for()
    page.wait_for_function("() => !document.querySelector('.running')")
    box = page.locator(picture).first.bounding_box()
    assert box is not None and box["y"] <= 450
