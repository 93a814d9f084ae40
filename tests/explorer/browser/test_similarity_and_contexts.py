"""The views of a similarity and of a corpus's contexts: their numbers, keys, files, and what a masked token changes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.explorer.look import Look
from glassformer.inspect.corpus import CorpusSearch, index_corpus
from glassformer.model import Model
from tests.cli.conftest import run_here
from tests.explorer.browser.conftest import TEXTS, Check
from tests.explorer.browser.tab import Tab, fits, value

Tabs = Callable[..., Tab]
VIEWS = ("similarity", "contexts")
TEXT = "the pilot flies to Paris\ntime flies so fast\nfruit flies eat bananas\n<script>alert(1)</script>\n"


@pytest.fixture(scope="module")
def corpus(encoder: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "corpus.txt").write_text(TEXT)
    index_corpus(encoder, folder / "corpus.txt", folder / "index", layers=[3, 6], heads=[(4, 9)])
    return folder / "index"


@pytest.fixture(scope="module")
def searched(encoder: Model, corpus: Path) -> Iterator[Look]:
    with encoder.look(TEXTS, browser=False, block=False, corpus=corpus) as look:
        yield look


def words(encoder: Model) -> Any:
    return encoder.explain_similarity(*TEXTS).words()


@pytest.mark.parametrize("view", VIEWS)
def test_each_view(tab: Tabs, searched: Look, check: Check, view: str) -> None:
    """Light and dark, wide and narrow; something pinned, the table and the explanation open; 320 pixels."""
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.open(searched, view=view, l=4, h=9, q=2, sr=3, sc=2)
    one.wait_for_view(view)
    page.locator("#view").get_by_role("button", name="data table").click()
    page.get_by_text("How to read this").click()
    page.wait_for_selector("#view table")
    for theme, width, height in (("light", 1440, 900), ("dark", 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        check(page, f"{view}, {theme}, {width} wide")
    for width in (320, 720):
        page.set_viewport_size({"width": width, "height": 640})
        fits(page, f"{view}, {width} wide")


def test_both_begin_with_what_was_found(tab: Tabs, searched: Look, encoder: Model) -> None:
    one = tab(viewport={"width": 390, "height": 844})
    page = one.open(searched, view="similarity")
    found, whole = page.locator(".found > p").inner_text(), words(encoder).similarity
    assert found.startswith(f"The cosine of the two texts is {whole:.3f}: “flies” and “flies” add most, +")
    assert page.locator(".sim-words").first.bounding_box()["y"] < 400, "the texts are next on a phone"
    page = one.open(searched, view="contexts", by="head", l=4, h=9, q=2)
    found = page.locator(".found > p").inner_text()
    assert re.match(r"“flies” by the output of head 4\.9: the nearest of \d+ is in “.+” \([\d.]+\)\.$", found)


def test_the_map_says_the_exact_number_of_a_cell(tab: Tabs, searched: Look, encoder: Model) -> None:
    one = tab(viewport={"width": 1440, "height": 1000})
    page = one.open(searched, view="similarity", sr=3, sc=2)
    one.wait_for_view("similarity")
    expected = words(encoder)
    shown = page.locator(".sim-exact > span").inner_text()
    assert value(shown) == pytest.approx(expected.cells[3, 2], rel=1e-4)
    assert value(page.locator(".sim-sum").inner_text()) == pytest.approx(expected.similarity, abs=1e-4)
    row, column, number = expected.top(1)[0]
    best = page.locator(".sim-pairs li").first
    first, second = expected.tokens[0][row].text, expected.tokens[1][column].text
    assert best.locator("button").inner_text() == f"{first} · {second}"
    assert value(best.locator("span").inner_text().lstrip("+")) == pytest.approx(number, abs=1e-4)
    page.locator(".sim-grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    said = one.wait_for_announcement(rf"^{expected.tokens[0][4].text} · {expected.tokens[1][3].text}: ")
    assert value(said.split(": ")[1].split(" of ")[0]) == pytest.approx(expected.cells[4, 3], rel=1e-3, abs=1e-6)
    page.keyboard.press("Enter")
    one.until("location.hash.includes(x)", "sr=4&sc=3")


def test_the_map_fills_its_card_and_the_texts_are_next_to_it(tab: Tabs, searched: Look) -> None:
    one = tab(viewport={"width": 1440, "height": 900})
    page = one.open(searched, view="similarity")
    one.wait_for_view("similarity")
    canvas, card, texts = (
        page.locator(each).bounding_box() for each in (".sim-map canvas", ".sim-mapped", ".sim-texts")
    )
    assert canvas["width"] > 0.75 * card["width"], "no empty half"
    assert texts["x"] > card["x"] + card["width"] and texts["y"] == card["y"] and canvas["y"] < 450


def test_a_pointer_on_a_cell_and_a_word(tab: Tabs, searched: Look, encoder: Model) -> None:
    one = tab(viewport={"width": 1440, "height": 1000})
    page = one.open(searched, view="similarity")
    one.wait_for_view("similarity")
    expected = words(encoder)
    shares = [value(x.lstrip("+")) for x in page.locator(".sim-words small").all_inner_texts()]
    np.testing.assert_allclose(shares, np.concatenate(expected.shares), atol=1e-3)
    box = page.locator(".sim-map canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 6, box["y"] + box["height"] - 6)
    one.wait_for_announcement(r"\[SEP\] · \[SEP\]: ")
    page.get_by_role("listbox", name="First text").get_by_role("option").nth(1).hover()
    row = [value(x.lstrip("+")) for x in page.locator(".sim-words").nth(1).locator("small").all_inner_texts()]
    np.testing.assert_allclose(row, expected.cells[1], atol=1e-4)
    page.get_by_role("radio", name="tokens").check()
    assert page.locator(".sim-words [role=option]").count() == sum(encoder.explain_similarity(*TEXTS).cells.shape)


def test_the_contexts_are_those_of_the_function(tab: Tabs, searched: Look, encoder: Model, corpus: Path) -> None:
    one = tab()
    page = one.open(searched, view="contexts", l=4, h=9, q=2)
    one.wait_for_view("contexts")
    session = searched.session
    expected = CorpusSearch(encoder, corpus).contexts(session, 2, layer=6, attention=(4, 9))
    scores = [value(x) for x in page.locator(".ctx-score").all_inner_texts()]
    np.testing.assert_allclose(scores, [match.score for match in expected.matches], atol=1e-3)
    marked = page.locator(".ctx-matches mark").all_inner_texts()
    assert marked == [match.tokens[match.position].text for match in expected.matches]
    counted = page.locator(".ctx-counts section").first.locator("li").first.inner_text().split()
    assert counted == [expected.counts["token"][0][0], str(expected.counts["token"][0][1])]
    page.get_by_role("radio", name="head's output").check()
    one.until("document.querySelector('.ctx-card h3')?.innerText.includes(x)", "output of head 4.9")
    page.locator(".ctx-tokens [tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    one.until("location.hash.includes(x)", "q=3")
    page.keyboard.press(".")  # head 10 is not in the index
    one.until("document.querySelector('.ctx-absent')?.innerText.includes(x)", "Head 4.10 is not in the index")
    page.get_by_role("radio", name="neuron").check()
    one.wait_for_view("contexts")
    assert page.locator(".ctx-tokens").count() == 0
    name, table = one.saved("Table (CSV)")
    assert name.startswith("contexts-neuron")
    assert next(csv.reader(io.StringIO(table.decode())))[:4] == ["rank", "score", "row", "token"]


def test_a_saved_page_shows_both_without_a_server(tab: Tabs, searched: Look, tmp_path: Path) -> None:
    one = tab()
    page = one.open(searched, view="contexts", l=4, h=9, q=2)
    one.wait_for_view("contexts")
    shown = page.locator(".ctx-matches").inner_text()
    _, content = one.saved("Save this page")
    (tmp_path / "page.html").write_bytes(content)
    other = tab()
    page = other.open(tmp_path / "page.html", view="contexts", l=4, h=9, q=2)
    other.wait_for_view("contexts")
    assert page.locator(".ctx-matches").inner_text() == shown
    page.keyboard.press(".")
    other.until(
        "document.querySelector('.ctx-absent')?.innerText.includes(x)", "This saved page does not hold this search"
    )
    other.go("similarity")
    assert page.locator(".sim-pairs li").count() > 5


def test_a_command_writes_a_page_of_a_search(
    tab: Tabs, minilm: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("corpus", "search", minilm, corpus, "time flies", "--token", "flies", "--head", "4.9")
    done = run_here(capsys, *asked, "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    one = tab()
    page = one.goto(tmp_path / "page.html")
    one.wait_for_view("contexts")
    assert "“flies” by the output of head 4.9" in page.locator(".ctx-card h3").first.inner_text()


def test_a_token_is_masked_and_shown_again(tab: Tabs, searched: Look) -> None:
    one = tab()
    page = one.open(searched, view="head", l=4, h=9, q=2)
    one.wait_for_view("head")
    page.get_by_role("button", name="mask it").click()
    one.until("document.querySelector('.texts textarea').value === x", "time [MASK] like an arrow")
    one.wait_for_view("head")
    assert "[MASK]" in page.locator(".head-tokens.query").inner_text()
    assert not page.get_by_role("button", name="mask it").count()  # the mask itself is pinned now
    page.get_by_role("button", name="unmask").click()
    one.until("document.querySelector('.texts textarea').value === x", TEXTS[0])
    one.until("!document.querySelector('.pins')?.innerText.includes(x)", "unmask")


def test_where_else_leads_from_a_pinned_token(tab: Tabs, searched: Look) -> None:
    one = tab()
    page = one.open(searched, view="head", l=4, h=9, q=2)
    one.wait_for_view("head")
    page.get_by_role("button", name="where else?").click()
    one.wait_for_view("contexts")
    assert re.search(r"view=contexts.*q=2", page.evaluate("location.hash"))
