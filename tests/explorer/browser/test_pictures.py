"""Saved pictures of every view: light on a dark page too, readable, and of all that the view shows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.explorer.look import Look
from glassformer.reports.page import report_page, write_page
from tests.explorer.browser.samples import words
from tests.explorer.browser.tab import Tab
from tests.explorer.browser.test_report import Compression, WithSeries
from tests.explorer.browser.test_similarity_and_contexts import corpus, searched
from tests.explorer.browser.test_sound import heard

__all__ = ["corpus", "heard", "searched"]
"""Fixtures of other views."""

Tabs = Callable[..., Tab]
image = pytest.importorskip("PIL.Image", reason="needs Pillow to read pictures: pip install pillow")

LIGHT, READABLE = 0.9, 3.0
"""Luminance of the ground of a picture; and the contrast that its texts have at least."""


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, `#rgb` or `rgb(r, g, b)`, after WCAG."""
    numbers = [int(x) for x in re.findall(r"\d+", colour)] if colour.startswith("rgb") else None
    if numbers is None:
        digits = colour.lstrip("#") if len(colour) == 7 else "".join(2 * digit for digit in colour.lstrip("#"))
        numbers = list(bytes.fromhex(digits))
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (n / 255 for n in numbers[:3])]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def light_and_readable(name: str, drawing: str, picture: bytes) -> None:
    """The ground of both files is light, and the texts on it are dark."""
    ground = re.search(r'<rect[^>]*?fill="([^"]+)"', drawing)
    assert ground is not None and luminance(ground[1]) > LIGHT, f"{name}: the ground is {ground and ground[1]}"
    soft = [
        colour for colour in re.findall(r'<text[^>]*?fill="([^"]+)"', drawing)
        if colour not in ("#fff", "#ffffff", "rgb(255, 255, 255)")  # on a dark cell
        and (luminance(ground[1]) + 0.05) / (luminance(colour) + 0.05) < READABLE
    ]  # fmt: skip
    assert not soft, f"{name}: texts that are too light: {sorted(set(soft))}"
    pixels = image.open(io.BytesIO(picture)).convert("RGB")
    corner = "#" + bytes(pixels.getpixel((1, 1))).hex()
    assert luminance(corner) > LIGHT, f"{name}: the picture begins with {corner}"


@pytest.mark.parametrize("which", ["translation", "tiny"])
def test_the_pictures_of_every_view_are_light_in_the_dark(
    tab: Tabs, which: str, request: pytest.FixtureRequest
) -> None:
    target: Look = request.getfixturevalue(which)
    one = tab(color_scheme="dark", accept_downloads=True)
    page = one.goto(target)
    page.get_by_role("button", name="Share").wait_for()
    names = page.get_by_role("tab").all_inner_texts()
    assert len(names) > 8
    saved = 0
    for name in names:
        page.get_by_role("tab", name=name, exact=True).click()
        if not shows(page):
            assert name == "Difference", name  # it waits for another text
            continue
        drawing = one.saved("Drawing (SVG)")[1].decode()
        light_and_readable(name, drawing, one.saved("Picture (PNG")[1])
        if name == "Similarity":
            assert ">subtracts</text>" in drawing and "of the two texts is" in drawing, "a title, and colours in words"
        if name == "Embeddings":
            assert ">fruit</text>" in drawing, "points have names"
        saved += 1
    assert saved >= len(names) - 1
    assert page.evaluate("document.documentElement.dataset.theme ?? 'none'") == "none", "the page is as it was"


@pytest.mark.parametrize(("fixture", "view"), [("story", "generate"), ("heard", "sound"), ("searched", "contexts")])
def test_views_of_some_models_alone_are_saved_light_and_titled(
    tab: Tabs, fixture: str, view: str, request: pytest.FixtureRequest
) -> None:
    one = tab(color_scheme="dark", accept_downloads=True)
    page = one.goto(
        request.getfixturevalue(fixture), view=view, **({"l": 4, "h": 9, "q": 2} if view == "contexts" else {})
    )
    page.get_by_role("button", name="Share").wait_for()
    assert shows(page)
    drawing, picture = one.saved("Drawing (SVG)")[1].decode(), one.saved("Picture (PNG")[1]
    light_and_readable(view, drawing, picture)
    pixels = image.open(io.BytesIO(picture)).convert("RGBA")
    assert pixels.getextrema()[3] == (255, 255), f"{view}: an edge is clear"
    assert len(pixels.getcolors(1 << 24)) > 8 and len(re.findall("<text", drawing)) > 4, f"{view}: is blank"


def shows(page: Any) -> bool:
    """Wait until the view has something to save, if it will."""
    button = page.locator("#share button", has_text="Drawing (SVG)")
    if page.locator(".diff-empty").count():
        return False
    page.wait_for_function("button => !button.disabled", arg=button.element_handle(), timeout=20_000)
    return True


def test_a_picture_of_a_head_has_all_tokens_on_a_low_screen(tab: Tabs, scattered: Look) -> None:
    one = tab(accept_downloads=True, viewport={"width": 1200, "height": 500})
    one.open(scattered, view="head", l=1, h=2)
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", one.saved("Drawing (SVG)")[1].decode())
    assert all(texts.count(word) >= 2 for word in words(30).split()), "both columns from their beginning to their end"
    assert not any("tokens 0 to" in text for text in texts)


def test_a_long_generation_is_a_picture_in_bands(tab: Tabs, story: Look) -> None:
    one = tab(accept_downloads=True)
    one.open(story, view="generate", **{"g.max_new_tokens": 40})
    picture = image.open(io.BytesIO(one.saved("Picture (PNG")[1]))
    assert picture.width == 2000, "two pixels for each of the page"
    drawing = one.saved("Drawing (SVG)")[1].decode()
    places = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', drawing)]
    assert max(places) < 1000 - 24 and drawing.count('fill="none"') >= 40


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pictures_of_a_report_are_light(tab: Tabs, tmp_path: Path, theme: str) -> None:
    write_page(tmp_path / "page.html", report_page(Compression(), WithSeries()))
    page = tab(color_scheme=theme, accept_downloads=True).goto(tmp_path / "page.html")
    for button in page.get_by_role("button", name="save as a drawing").all():
        if button.is_visible():
            title = button.get_attribute("aria-label")
            files = []
            for words in ("drawing", "picture"):
                with page.expect_download() as download:
                    page.get_by_role("button", name=str(title).replace("drawing", words)).first.click()
                files.append(Path(download.value.path()).read_bytes())
            light_and_readable(str(title), files[0].decode(), files[1])
