"""The page as one file, opened from disk with no network at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.explorer import readings
from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.conftest import TEXTS
from tests.explorer.browser.tab import SENTENCE, Tab
from tests.explorer.reader import Reader

VIEWS = ("model", "head", "matrix", "neuron")
HOSTILE = ["<script>alert(1)</script>", "</script><!--"]
Tabs = Callable[..., Tab]
NUMBER = re.compile(r"[-−]?\d+(\.\d+)?(e[-−]?\d+)?")


@pytest.fixture
def offline(tab: Tabs) -> Tab:
    """A tab that may ask nobody, and has no network should it try."""
    one = tab(allow="nobody", accept_downloads=True)
    one.context.set_offline(True)
    return one


@pytest.fixture(scope="session")
def file(encoder: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    encoder.look(TEXTS, html=path)
    return path


def sentence(one: Tab, look: Look | Path, state: dict[str, Any]) -> str:
    """What the head view says of token 2 → 4."""
    page = one.open(look, view="head", **state, q=2)
    page.locator(".head-tokens.key [data-token='4']").hover()
    return one.wait_for_announcement("rank .* of")


def listed(one: Tab, position: Look | Path, state: dict[str, Any]) -> list[str]:
    """Tokens, shares and scores of a row in the matrix view's table."""
    page = one.open(position, view="matrix", **state, q=2)
    page.get_by_role("button", name="Data table").click()
    return list(page.get_by_role("table").locator("tbody tr").all_inner_texts())


def numbers(row: str) -> list[float]:
    return [float(cell.replace("−", "-")) for cell in row.split("\t") if NUMBER.fullmatch(cell)]


def words(row: str) -> list[str]:
    return [cell for cell in row.split("\t") if not NUMBER.fullmatch(cell)]


def test_every_view_opens_from_disk(offline: Tab, file: Path) -> None:
    page = offline.open(file, l=3, h=8)
    assert page.url.startswith("file://")
    assert "in this file" in page.locator(".provenance").inner_text()
    assert page.get_by_role("button", name="Run").count() == 0
    pixels = offline.thumbnails((8, 8))
    assert len(pixels) == 72 and all(pixel >> 24 == 255 for thumbnail in pixels for pixel in thumbnail)
    for view in VIEWS:
        offline.go(view)
    assert {url.partition(":")[0] for url in offline.requested_urls} <= {"file", "data", "blob"}


@pytest.mark.representative("served", "translation")
@pytest.mark.parametrize(
    ("fixture", "state"),
    [
        ("served", {"map": "self", "l": 4, "h": 11}),
        ("story", {"map": "self", "l": 2, "h": 5}),
        ("translation", {"map": "cross", "l": 1, "h": 1}),
        ("windowed", {"map": "self", "l": 0, "h": 1}),
        ("windowed", {"map": "self", "l": 1, "h": 1}),
    ],
)
def test_its_numbers_are_the_served_ones(
    request: pytest.FixtureRequest,
    tab: Tabs,
    offline: Tab,
    tmp_path: Path,
    fixture: str,
    state: dict[str, Any],
) -> None:
    look = request.getfixturevalue(fixture)
    look.save(tmp_path / "page.html")
    online = tab()
    spoken_text = sentence(online, look, state)
    assert SENTENCE.search(spoken_text)
    assert sentence(offline, tmp_path / "page.html", state) == spoken_text
    here, there = listed(offline, tmp_path / "page.html", state), listed(online, look, state)
    assert len(here) == len(there)
    for mine, theirs in zip(here, there, strict=True):
        assert numbers(mine) == pytest.approx(numbers(theirs), rel=2e-4, abs=1e-9)  # the last of four digits may differ
        assert words(mine) == words(theirs)


def test_it_may_run_nothing_else_and_ask_nobody(offline: Tab, file: Path) -> None:
    page = offline.open(file)
    (policy,) = page.locator("meta[http-equiv=Content-Security-Policy]").all()
    content = policy.get_attribute("content")
    for rule in ("connect-src 'none'", "script-src 'sha256-", "style-src 'sha256-"):
        assert rule in content
    offline._expect = "Content Security Policy"
    refused = page.evaluate(
        """async () => {
            const added = document.createElement("script");
            added.textContent = "window.intruded = true";
            document.body.append(added);
            const asked = await fetch("https://example.org/").then(() => "let through", () => "refused");
            return [window.intruded ?? null, asked];
        }"""
    )
    assert refused == [None, "refused"]
    assert [url for url in offline.foreign_requests if "example.org" not in url] == []
    offline.foreign_requests.clear()


def test_its_size(file: Path) -> None:
    """The page itself takes at most 320 kB next to its data: its program is compressed in it."""
    data = sum(len(text) for attributes, text in Reader(file.read_text("utf-8")).scripts() if is_data(attributes))
    assert data > 100_000
    assert file.stat().st_size - data <= 320_000


def is_data(attributes: dict[str, str]) -> bool:
    """Whether a script of a page holds data, not its program."""
    return bool(attributes) and "data-packed" not in attributes


def test_layers_that_are_not_in_it_are_greyed_with_the_command(
    offline: Tab, encoder: Model, served: Look, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    page_of = served.save(path, layers=[1])
    assert page_of.exact_layers == {"self": [1]}
    page = offline.open(path)
    thumbnails = offline.thumbnails((8, 8))
    assert len(thumbnails) == 72 and all(len(set(pixels)) > 1 for pixels in thumbnails), "all thumbnails always"
    for view, position in (
        ("head", ".head-absent"),
        ("matrix", ".matrix-absent"),
        ("neuron", ".neuron-absent"),
    ):
        offline.open(path, view=view, l=1)
        page.keyboard.press("]")
        page.wait_for_selector(position)
        told = page.locator(position).inner_text()
        assert re.search(r"glassformer look .* --layers (\d,)*2\b", told), told
        if view == "head":  # what stands there from before is grey, and out of reach
            grey = page.locator(".head-content")
            assert grey.evaluate("e => e.inert && Number(getComputedStyle(e).opacity) < 1")
        page.keyboard.press("[")
        page.wait_for_selector(position, state="detached")
        offline.wait_for_view(view)
        offline.open(path, l=2)
        page.locator(f"#tab-{view}").click()
        page.wait_for_selector(position)  # a view that is opened on what is absent says so too


def test_a_link_to_a_view_that_a_page_of_one_view_lacks(offline: Tab, served: Look, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    served.save(path, views=["masks"])
    for view in ("difference", "nonsense", "generate"):
        page = offline.goto(path, view=view)
        offline.wait_for_banner(f"asks for the view “{view}”, which is not here: showing masks")
        page.wait_for_selector("#tab-masks[aria-selected=true]")
        assert offline.state["view"] == "masks" and offline.errors == []


def test_a_tab_that_is_not_marked_as_absent_holds_what_it_opens_with(
    offline: Tab, file: Path, served: Look, story: Look, tmp_path: Path
) -> None:
    story.save(tmp_path / "story.html")
    for path in (file, tmp_path / "story.html"):
        page = offline.goto(path)
        page.wait_for_selector("[role=tab][aria-selected=true]")
        for tab in page.locator("[role=tab]:not([data-absent])").all():
            tab.click()
            page.wait_for_selector(f"#view[aria-labelledby={tab.get_attribute('id')}]")
            page.wait_for_function("!document.querySelector('#view .reading-waiting')")
            assert page.get_by_text("does not hold").count() == 0, (path.name, tab.inner_text())


def test_it_takes_no_other_text(offline: Tab, file: Path) -> None:
    page = offline.open(file)
    for field, text in zip(page.locator(".texts textarea").all(), TEXTS, strict=True):
        assert field.input_value() == text
        assert field.get_attribute("readonly") is not None
    page.get_by_role("button", name="Another text").click()
    assert page.get_by_text("glassformer look").first.is_visible()


def test_a_link_into_it_and_its_first_view(offline: Tab, encoder: Model, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    encoder.look(TEXTS, html=path, view="neuron", layer=2, heads=[9], theme="dark")
    offline.goto(path)
    page = offline.wait_for_view("neuron")
    assert (offline.state["l"], offline.state["h"]) == ("2", "9")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    offline.open(path, view="head", l=5, h=1)
    assert (offline.state["l"], offline.state["h"]) == ("5", "1")


def test_words_that_a_page_does_not_hold_are_not_drawn_and_those_that_it_holds_are(
    offline: Tab, story: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "QUICK", readings._size(story.session) * (readings.GRADIENT_PASSES + 1))
    story.save(tmp_path / "page.html")
    page = offline.goto(tmp_path / "page.html", view="attribution")
    page.get_by_text("words: not computed").wait_for()
    assert page.locator(".attr-word").count() == 0
    page.get_by_label("gradient × input").check()
    page.locator(".attr-word").first.wait_for()
    page.get_by_label("integrated gradients").check()
    page.locator(".attr-word").first.wait_for(state="detached")
    page.locator(".attr-grid [data-cell]").first.click()
    page.locator(".attr-word").first.wait_for()  # those that the head read


# ------------------------------------------------------------------------------------------------ hostile texts


@pytest.mark.representative("words")
@pytest.mark.parametrize("host", ["served", "standalone"])
@pytest.mark.parametrize("model", ["encoder", "words"])
def test_a_text_that_is_markup_is_text(
    request: pytest.FixtureRequest,
    tab: Tabs,
    tmp_path: Path,
    look: Callable[..., Look],
    host: str,
    model: str,
) -> None:
    """In pieces, and where `<script>` is one token; a dialog or an error in the console fails the test."""
    if model == "words":
        result, texts = request.getfixturevalue("models")["bert"], ["time <script> flies", "</script> <!--"]
    else:
        result, texts = request.getfixturevalue("encoder"), HOSTILE
    made = look(result, *texts)
    position: Look | Path = made
    if host == "standalone":
        made.save(tmp_path / "page.html")
        position = tmp_path / "page.html"
    one = tab()
    scripts = None
    for view in VIEWS:
        page = one.open(position, view=view, l=1, h=0, q=2, k=4)
        scripts = scripts or page.locator("script").count()
        assert page.locator("script").count() == scripts, "a token has become an element"
        assert [field.input_value() for field in page.locator(".texts textarea").all()] == texts
        if view == "head":
            displayed = page.locator(".head-tokens.query .head-token").all_inner_texts()
            assert displayed == [token.text for token in made.session.streams["text"]]


def test_a_view_alone_is_a_small_file_that_says_what_it_leaves_out(tab: Tabs, story: Look, tmp_path: Path) -> None:
    one = tab()
    before = one.goto(story, view="attribution")
    before.wait_for_selector(".attr-word:not(.attr-rough)")  # also of few gradients, which are not saved next to all
    name, content = one.saved("Save this view alone")
    assert name.endswith("-attribution.html") and len(content) <= 150_000
    (tmp_path / name).write_bytes(content)
    alone = tab(allow="nobody")
    page = alone.goto(tmp_path / name)
    page.wait_for_selector("#tab-attribution[aria-selected=true]")
    assert page.get_by_role("tab").count() == 1 and page.get_by_role("button", name="Tour").count() == 0
    page.locator("[role=gridcell][data-cell]").first.click()
    page.get_by_role("button", name="open", exact=True).click()
    assert "A page of all views: glassformer look" in alone.wait_for_banner("does not show the view head")
    assert alone.state["view"] == "attribution"


def test_tabs_of_which_it_holds_nothing_are_marked_and_say_how_to_see_them(
    offline: Tab, story: Look, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    story.save(path)
    page = offline.open(path, view="generate")
    page.locator(".found > p").wait_for()
    absent = page.locator("[role=tab][title*='Not in this saved page']")
    marked = set(absent.evaluate_all("tabs => tabs.map((tab) => tab.id.replace('tab-', ''))"))
    assert {"difference", "quantisation"} <= marked and not marked & {*VIEWS, "generate", "embedding", "lens", "masks"}
    assert absent.first.get_attribute("aria-disabled") is None, "it opens"
    for name in sorted(marked):
        page.locator(f"#tab-{name}").click()
        page.wait_for_selector(f"#tab-{name}[aria-selected=true]")
        page.locator("#view").get_by_text("glassformer look").first.wait_for()
    held = page.locator("[role=tab]:not([data-absent])").evaluate_all("tabs => tabs.map((tab) => tab.id)")
    for name in held:
        page.locator(f"#{name}").click()
        page.wait_for_selector(f"#{name}[aria-selected=true]")
        assert page.locator("#view [role=alert]").count() == 0, name
    page.locator("#tab-attribution").click()
    field = page.get_by_label("rather than")
    assert field.get_attribute("readonly") is not None
    assert field.evaluate("input => getComputedStyle(input).backgroundColor") == "rgba(0, 0, 0, 0)", "none to fill"
