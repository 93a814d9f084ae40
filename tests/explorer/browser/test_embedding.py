"""The map of embeddings: points by keyboard and pointer, layers, projections in a worker, selections, one file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.explorer.binary_frames import encode
from glassformer.explorer.embedding_page import PageMap
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.embeddings.word_study import WordStudy
from glassformer.model import Model
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.samples import words
from tests.explorer.browser.tab import Tab, fits

Tabs = Callable[..., Tab]
SENTENCES = [f"{words(6, seed)} banana {words(4, seed + 50)}" for seed in range(24)]


PAINTED = """({ stage, firstChild: c }) => {
    stage.renderer.draw(stage.camera, 1, 13);
    const copy = Object.assign(document.createElement("canvas"), { width: c.width, height: c.height }).getContext("2d");
    copy.drawImage(c, 0, 0);
    return copy.getImageData(0, 0, c.width, c.height).data.some((value, at) => at % 4 === 3 && value > 100);
}"""


def opened(model: Model, projections: dict[str, bytes] | None = None) -> Look:
    """The page of a word's occurrences in random sentences of two kinds."""
    labels = ["fruit" if i % 3 else "<b>other</b>" for i in range(len(SENTENCES))]
    embeddings = embed_words(model, SENTENCES, "banana", labels=labels)
    study = WordStudy(embeddings)
    page = PageMap.of(EmbeddingMap.of(embeddings), study.caption, study=study)
    start = InitialView(view="embedding")
    return Look(SessionRuns(model.session_factory()), SENTENCES[:1], start, corpus=page, projections=projections)


@pytest.fixture(scope="module")
def corpus(models: dict[str, Model]) -> Iterator[Look]:
    look = opened(models["bert"])
    look.serve()
    yield look
    look.close()


def test_by_keyboard(tab: Tabs, corpus: Look, check: Check) -> None:
    """Points are reached by arrows and said; one is pinned, with its neighbours; layers change; a table has all."""
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.open(corpus, view="embedding")
    count = len(corpus.explorer.maps.corpus.embedding_map)  # type: ignore[union-attr]
    page.wait_for_function("() => document.title.endsWith('Embeddings')")
    assert "occurrences" in page.title(), "the map is of a corpus, not of its first text"
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    one.wait_for_announcement(rf"^point 0 of {count}, .*banana")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    one.until("new URLSearchParams(location.hash.slice(1)).has('pt')")
    one.until("document.querySelectorAll('.map-near li').length === x", min(count - 1, 10))
    assert page.locator(".map-text mark").inner_text() == "banana"
    page.keyboard.press("[")
    one.wait_for_announcement("layer 0")
    assert one.state["lv"] == "1"
    page.get_by_role("button", name="Data table").click()
    one.until("document.querySelectorAll('.data-table tbody tr').length === x", count)
    page.get_by_text("How to read this").click()
    for theme, width in (("light", 1440), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        check(page, f"{theme}, {width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")


def test_lasso_and_classes(tab: Tabs, corpus: Look) -> None:
    """A lasso around everything holds all points; they are saved as a table; a class can be hidden."""
    one = tab(reduced_motion="reduce", viewport={"width": 1440, "height": 1500})
    page = one.open(corpus, view="embedding")
    count = len(corpus.explorer.maps.corpus.embedding_map)  # type: ignore[union-attr]
    page.get_by_role("button", name="Lasso").click()
    box = page.locator(".map-stage").bounding_box()
    right, bottom = box["width"] - 4, box["height"] - 4
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    for x, y in ((right, 4), (right, bottom), (4, bottom), (4, 8)):
        page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.up()
    heading = page.locator("section[aria-label=Selection] h3")
    heading.wait_for()
    selected = int(re.sub(r"\D", "", heading.inner_text().split("point")[0]))
    assert selected == count
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "point,key,label,cluster,x,y,text" and len(lines) == selected + 1
    page.locator(".map-legend button").first.click()
    assert page.locator(".map-legend button").first.get_attribute("aria-pressed") == "false"
    assert page.locator(".map-legend b").count() == 0  # a label is text


def test_a_projection_and_its_end(tab: Tabs, corpus: Look) -> None:
    """t-SNE comes from a worker process; one that is cancelled gives PCA back, and its process ends."""
    one = tab(reduced_motion="reduce")
    page = one.open(corpus, view="embedding")
    page.locator(".segments label", has_text="t-SNE").click()
    page.get_by_role("button", name="Cancel").click()
    one.wait_for_announcement("The projection was cancelled")
    assert "em" not in one.state and page.locator(".map-working").count() == 0
    page.locator(".segments label", has_text="t-SNE").click()
    page.wait_for_selector(".map-working")
    page.wait_for_selector(".map-working", state="detached", timeout=120_000)
    assert one.state["em"] == "tsne" and page.locator(".map-problem").count() == 0
    one.wait_for_announcement("is on screen")
    page.keyboard.press("[")  # of few points all levels were projected: at once
    one.wait_for_announcement("layer 0")
    assert page.locator(".map-working").count() == 0
    slider = page.get_by_role("slider", name="perplexity")
    slider.evaluate("each => { each.value = 2; each.dispatchEvent(new Event('input', { bubbles: true })); }")
    assert (
        page.locator(".map-slider output").first.inner_text() == "2" and "perp" not in one.state
    )  # it is still dragged
    slider.dispatch_event("change")
    one.until("new URLSearchParams(location.hash.slice(1)).get('perp') === '2'")


@pytest.mark.parametrize("renderer", ["WebGL2", "Canvas2D"])
def test_both_renderers(tab: Tabs, corpus: Look, renderer: str) -> None:
    one = tab(reduced_motion="reduce")
    one.page.goto(corpus.url.replace("/#", f"/?renderer={renderer}#"))
    page = one.page
    page.wait_for_selector(".map[data-ready] .map-stage[data-renderer]")
    if page.locator(".map-stage").get_attribute("data-renderer") != renderer:
        pytest.skip("this Chromium has no WebGL2")
    assert page.evaluate(f"({PAINTED})(document.querySelector('.map-stage'))")


def test_from_a_point_to_its_heads(tab: Tabs, corpus: Look) -> None:
    one = tab(reduced_motion="reduce")
    page = one.open(corpus, view="embedding", pt=3)
    page.get_by_role("button", name="Look at this text").click()
    one.wait_for_view("head")
    text = page.locator(".texts textarea").first.input_value()
    assert text == corpus.explorer.maps.corpus.description()["texts"][3].strip("…")  # type: ignore[union-attr]


def test_as_one_file(tab: Tabs, models: dict[str, Model], check: Check, tmp_path: Path) -> None:
    """The map, neighbours, and the projections that it holds; others are greyed."""
    model = models["bert"]
    made = opened(model)
    page_map = made.explorer.maps.corpus
    assert page_map is not None
    places = np.random.default_rng(0).normal(size=(1, len(page_map.embedding_map), 2)).astype(np.float32)
    last = len(page_map.embedding_map.levels) - 1
    frames = {f"tsne/{last}": encode("projection", {"places": places}, {"method": ProjectionOptions("tsne").method})}
    made.close()
    with opened(model, frames) as look:
        look.save(tmp_path / "page.html")
    one = tab(reduced_motion="reduce")
    page = one.open(tmp_path / "page.html", view="embedding", pt=2, em="tsne")
    assert page.locator(".map-near li").count() == 10
    assert page.get_by_role("radio", name="UMAP").is_disabled() and page.get_by_role("slider").first.is_disabled()
    page.keyboard.press("[")
    page.get_by_role("alert").wait_for()
    assert "This projection is not in this page" in page.get_by_role("alert").inner_text()
    page.locator(".segments label", has_text="PCA").click()
    page.get_by_role("alert").wait_for(state="detached")
    check(page, "a file")


def test_tokens_through_the_layers(tab: Tabs, tiny: Look) -> None:
    """Without a map of texts, the tokens of the pass."""
    one = tab(reduced_motion="reduce")
    page = one.open(tiny, view="embedding", pt=1)
    found = page.locator(".found > p")
    last = found.inner_text()
    assert last.startswith("Layer 1 (output): “") and page.locator("main").inner_text().count(last) == 1
    page.locator("input[type=range]").first.fill("0")
    page.wait_for_function("() => document.querySelector('.found > p').innerText.startsWith('Embedding: “')")
    page.locator("input[type=range]").first.fill("2")
    assert page.locator(".map-text mark").inner_text() == "time"
