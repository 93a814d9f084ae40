"""The page of a store of documents in a browser: answer, passages with their ranks, and why each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.reports.page import made_by, packed, packed_program, report_files, report_page
from glassformer.retrieval.answer import ask
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.opening import open_store
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.page import DocumentsPage
from glassformer.retrieval.reader import Reader
from glassformer.retrieval.retriever import Retriever
from tests.e2e.tiny_models import make_folder
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits, value
from tests.retrieval.encoders import DOCUMENTS, make_encoder, write_documents

QUESTION = "Which ship saw the light of the tower?"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
SIZES = {"desk": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("made")
    model = glassformer.load(make_encoder(folder / f"{'long-name-' * 8}"))
    documents = {**DOCUMENTS, f"<img src=x onerror=alert(3)>/{'a' * 90}.txt": f"Evil {EVIL} 🦆 ship. {'w' * 300}\n"}
    index_folder(write_documents(folder / "documents", documents), folder / "store", model)
    return Retriever(open_store(folder / "store"), model)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("reader")
    return Reader(glassformer.load(make_folder(folder, "bert", task="question-answering", max_position_embeddings=64)))


@pytest.fixture(scope="module")
def served(retriever: Retriever, reader: Reader) -> Iterator[DocumentsPage]:
    with DocumentsPage(retriever, reader=reader, name=EVIL) as page:
        page.serve()
        yield page


def opened(tab: Tab, served: DocumentsPage, question: str = "") -> Any:
    tab.page.goto(served.url)
    box = tab.page.get_by_role("textbox", name="Question")
    box.wait_for()
    if question:
        box.fill(question)
        tab.page.keyboard.press("Enter")
        tab.page.locator(".ask-tokens canvas").wait_for()
    return tab.page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_an_answer_that_one_can_see_through(
    tab: Callable[..., Tab], served: DocumentsPage, retriever: Retriever, reader: Reader, check: Check, size: str,
    scheme: str,
) -> None:  # fmt: skip
    one = tab(viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    page = opened(one, served)
    page.get_by_text("Ask a question:").wait_for()
    for fact in ("document", "passage", "encoder"):
        page.locator("header .facts span").filter(has_text=fact).wait_for()  # seen, on a phone too
    check(page, "empty"), fits(page, "empty")
    opened(one, served, QUESTION)
    answer = ask(QUESTION, retriever, AskOptions(top=6), reader=reader)
    assert answer.source is not None and page.locator(".ask-finding").inner_text().startswith(
        " ".join(answer.answer.split())
    )
    assert answer.source.place in page.locator(".ask-source").inner_text()
    rows = page.locator("[role=option]")
    assert rows.count() == len(answer.matches)
    for at, match in enumerate(answer.matches):
        shown = rows.nth(at).locator(".ask-ranks").inner_text()
        assert all(
            f"{name} {match.ranks[name]} {match.scores[name]:.3f}" in shown.replace("−", "-") for name in match.ranks
        )
    rows.first.click()
    page.get_by_role("heading", name="Why passage 1").wait_for()
    adds = page.locator(".ask-words tbody td.ask-adds").all_inner_texts()
    assert sum(map(value, adds)) == pytest.approx(value(page.locator(".ask-words tfoot td").inner_text()), abs=0.005)
    assert value(page.locator(".ask-words tfoot td").inner_text()) == pytest.approx(
        answer.matches[0].scores["bm25"], abs=6e-4
    )
    marked = {text.lower() for text in page.locator(".ask-text mark[data-word]").all_inner_texts()}
    assert {word.word.lower() for word in answer.matches[0].words if word.score > 0.01 and word.places} <= marked
    assert page.locator(".ask-text mark[data-bar]").count() > 0
    one.wait_for_colours(".ask-tokens canvas", 8)
    check(page, "answer"), fits(page, "answer")
    assert not [url for url in one.requested_urls if not url.startswith((served.address, "data:", "blob:"))]


def test_the_keyboard_goes_through_the_passages(tab: Callable[..., Tab], served: DocumentsPage) -> None:
    page = opened(tab(), served, QUESTION)
    page.locator("[role=option]").first.focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("heading", name="Why passage 2").wait_for()
    assert page.locator("[role=option][aria-selected=true]").locator("b").first.inner_text() == "2"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.ariaLabel") == "Question"
    page.get_by_label("token by token").check()
    page.locator(".ask-ranks").get_by_text("late").first.wait_for()
    page.get_by_role("radio", name="words").check(force=True)
    page.wait_for_function("() => !document.querySelector('.ask-ranks').innerText.includes('dense')")
    assert "m=bm25" in page.url and "late=1" in page.url and "token" not in page.url
    page.go_back()
    page.wait_for_function("() => document.querySelector('.ask-ranks').innerText.includes('dense')")


@pytest.mark.parametrize("size", SIZES)
def test_a_search_is_limited_to_a_folder_and_metadata(
    tab: Callable[..., Tab], served: DocumentsPage, retriever: Retriever, check: Check, size: str
) -> None:
    page = opened(tab(viewport=SIZES[size]), served, "fruit")
    page.get_by_label("Folder or file").select_option("notes/")
    page.get_by_label("Metadata", exact=True).select_option("price")
    page.get_by_label("Value of price").fill("4")
    page.get_by_label("Diversity").fill("0.3")
    page.wait_for_function("() => document.querySelectorAll('[role=option]').length === 1")
    page.locator(".ask-stages").get_by_text("diversity").wait_for()
    assert {"in=notes%2F", "where=price%3D4", "mmr=0.3"} <= set(page.url.partition("#")[2].split("&"))
    assert "prices.csv" in page.locator("[role=option]").first.inner_text()
    offered = page.get_by_label("Metadata", exact=True).locator("option").all_inner_texts()
    assert offered == ["anything", "fruit", "year"]
    page.get_by_label("Metadata", exact=True).select_option("fruit")
    page.get_by_label("Value of fruit").fill("apple")
    page.get_by_label("Value of fruit").press("Enter")
    page.get_by_text("The documents have nothing about this.").wait_for()
    page.get_by_label("Value of fruit").fill("pear")
    page.get_by_label("Value of fruit").press("Enter")
    page.wait_for_function("() => document.querySelectorAll('[role=option]').length === 1")
    check(page, "filters"), fits(page, "filters")
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('[role=option]').length === 1")
    assert page.get_by_label("Value of price").input_value() == "4"
    assert page.get_by_label("Value of fruit").input_value() == "pear"
    page.get_by_label("Filter 1").select_option("")
    page.wait_for_function("() => !location.hash.includes('price')")
    assert "where=fruit%3Dpear" in page.url


def test_a_long_passage_shows_its_answer(tab: Callable[..., Tab], retriever: Retriever, tmp_path: Path) -> None:
    text = "\n\n".join(f"Line {i} is about nothing." for i in range(40)) + "\n\nThe quagga ate a plum.\n"
    index_folder(write_documents(tmp_path / "documents", {"long.txt": text}), tmp_path / "store")
    with DocumentsPage(Retriever.open(tmp_path / "store"), question="what did the quagga eat?") as served:
        served.serve()
        page = tab(viewport=SIZES["phone"]).page
        page.goto(served.url)
        page.get_by_role("heading", name="Words that BM25 matched").wait_for()
        inside = "(a, b) => a.top >= b.top && a.bottom <= b.bottom"
        boxes = "['[data-answer]', '.ask-text'].map((x) => document.querySelector(x).getBoundingClientRect())"
        page.wait_for_function(f"() => ({inside})(...{boxes})")
        assert page.locator(".ask-text").evaluate("box => box.scrollTop") > 0


def test_hostile_texts_are_texts(tab: Callable[..., Tab], served: DocumentsPage) -> None:
    page = opened(tab(viewport=SIZES["phone"]), served, f"evil {EVIL}")
    assert page.locator("h1").inner_text() == EVIL and page.locator("img, script:not([src])").count() == 0
    assert EVIL in page.locator(".ask-text").inner_text()
    fits(page, "hostile texts")


def test_what_has_no_answer(tab: Callable[..., Tab], served: DocumentsPage, retriever: Retriever) -> None:
    page = opened(tab(expect="status of 40[01]"), served)
    page.get_by_role("textbox", name="Question").fill("   x")
    page.evaluate("document.querySelector('.ask-form input').value = '\\ud800'")
    page.keyboard.press("Enter")
    assert "not valid Unicode" in page.get_by_role("alert").inner_text()
    with DocumentsPage(Retriever(retriever.store), question="zebra xyzzy", theme="dark") as words:
        words.serve()
        page.goto(words.url)
        page.get_by_text("The documents have nothing about this.").wait_for()
        assert (
            page.get_by_role("radio").count() == 0 and page.evaluate("document.documentElement.dataset.theme") == "dark"
        )


def test_the_page_of_one_answer_marks_words(
    tab: Callable[..., Tab], retriever: Retriever, reader: Reader, tmp_path: Path, check: Check
) -> None:
    answer = ask(f"evil {EVIL} ship", retriever, AskOptions(top=3), reader=reader)
    path = tmp_path / "answer.html"
    path.write_text(report_page(answer))
    style, program = report_files([answer])
    assert len(packed(style)) + len(packed_program(program)) <= 20_000, "of a file, beside its answer"
    one = tab()
    page = one.goto(path)
    assert {"Evil", "ship"} <= set(page.locator("mark").all_inner_texts())
    assert page.locator("mark", has_text="Evil").first.get_attribute("title").startswith("evil: ")
    assert page.get_by_text("where the answer begins and ends").count() == 1
    check(page, "answer"), fits(page, "answer")
    assert not [url for url in one.requested_urls if not url.startswith(("file:", "data:", "blob:"))]


def test_an_address_without_its_key_says_so(tab: Callable[..., Tab], served: DocumentsPage) -> None:
    page = tab(expect="status of 401").page
    page.goto(served.url.partition("#")[0])
    told = "The address lacks its key; open the whole address that the terminal printed, to the end of #token=…"
    page.get_by_role("alert").filter(has_text=told).wait_for()


def test_a_page_whose_program_has_ended_says_how_to_start_it_again(
    tab: Callable[..., Tab], retriever: Retriever, check: Check
) -> None:
    one = tab(expect="ERR_CONNECTION")
    with made_by(["glassformer", "look", "my store"]), DocumentsPage(retriever) as page:
        page.serve()
        shown = opened(one, page, QUESTION)
    shown.get_by_role("textbox", name="Question").fill("what else?")
    shown.keyboard.press("Enter")
    told = shown.get_by_role("alert").filter(has_text="The program that serves this page has ended. What is on screen")
    told.get_by_role("button", name="Copy the command").wait_for()
    assert told.locator("code").inner_text() == "glassformer look 'my store'"
    assert shown.locator(".ask-tokens canvas").count() == 1, "the answer stays"
    check(shown, "documents whose server has ended")
