"""The page of sounds in a browser: it plays, switches without a break, and is for everyone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glassformer.audio.listening import AttentionOverTime, Sound, SoundExample, SoundMark
from glassformer.explorer.listening_page import ListeningPage
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

RATE, SECONDS = 8_000, 3.0
TIME = "Number(document.querySelector('.sound-bar input[type=range]').value)"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two examples: a note with its decoded sound, and another which is played on."""
    time = np.arange(round(SECONDS * RATE)) / RATE
    low, high = (np.sin(2 * np.pi * hz * time) * np.exp(-time) for hz in (110.0, 440.0))
    codes = np.tile(np.arange(25), 3)[None].repeat(4, 0) * np.array([[1], [2], [3], [4]])
    notes = [SoundMark("A2", 0.0, 1.5, 45), SoundMark("E3", 1.5, 3.0, 52)]
    coded = Sound("decoded", high, RATE, codes=codes, frame_rate_hz=25.0, about="from 4 codes a frame")
    first = SoundExample("A note", [Sound("original", low, RATE, marks=notes), coded], "It is A2.", {"pitch": "A2"})
    here = [SoundMark("continued from here", 1.0), SoundMark("new", 1.0, 3.0)]
    probs = np.stack([np.eye(30), np.tri(30) / np.arange(1, 31)[:, None]])
    attention = AttentionOverTime(["head 0", "head 1"], probs, 10.0, 1, "It looks at all alike.")
    second = SoundExample("Played on", [Sound("all of it", low, RATE, marks=here, attention=attention)])
    path = tmp_path_factory.mktemp("listen") / "page.html"
    ListeningPage([first, second], "Two sounds", about="To be compared.", command="glassformer listen run").save(path)
    return path


def test_sounds_are_played_and_switched(tab: Callable[..., Tab], saved: Path) -> None:
    one = tab(reduced_motion="reduce")
    page = one.page
    page.goto(saved.as_uri())
    page.locator(".listen-lane").first.wait_for()
    assert page.title() == "Two sounds · glassformer"
    assert page.locator("h2").all_inner_texts() == ["A note", "Played on"]
    page.keyboard.press("Space")
    one.until(f"{TIME} > 0.2")
    page.keyboard.press("2")  # the other sound, from where the first one is
    page.get_by_role("button", name="Pause decoded").wait_for()
    assert page.get_by_role("radio", name="decoded").is_checked()
    one.until(f"{TIME} > 0.5")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play", exact=True).wait_for()
    width = page.locator(".listen-sheet").first.evaluate("sheet => sheet.clientWidth")
    shift = "new DOMMatrix(getComputedStyle(document.querySelector('.sound-cursor')).transform).e"
    one.until(f"Math.abs({shift} * x - {TIME}) < 0.06", SECONDS / width)  # the cursor comes to where the sound is
    page.locator(".listen-lanes").first.click(position={"x": width / 2, "y": 80})
    one.until(f"Math.abs({TIME} - x) < 0.06", SECONDS / 2)
    page.keyboard.press("]")
    one.until("document.querySelector('.listen-example[data-current] h2').textContent === 'Played on'")
    page.get_by_role("button", name="Play all of it").click()
    one.until(f"{TIME} > 0.1")
    page.keyboard.press("Space")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save decoded as a wav file").click()
    assert download.value.suggested_filename == "a-note-decoded.wav"
    assert Path(download.value.path()).stat().st_size == 44 + 2 * SECONDS * RATE


def test_codes_say_what_they_are_and_where_else_they_occur(tab: Callable[..., Tab], saved: Path) -> None:
    one = tab(reduced_motion="reduce")
    page = one.page
    page.goto(saved.as_uri())
    codes = page.locator(".listen-codes")
    codes.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    line = page.locator(".listen-token").first
    assert line.inner_text().split("\n")[0].startswith("code 9")
    assert "codebook 3 of 4" in line.inner_text() and "3 × in decoded" in line.inner_text()
    page.keyboard.press("Enter")
    one.until(f"Math.abs({TIME} - x) < 0.06", 3 / 25)
    codes.hover(position={"x": 2, "y": 2})
    one.until("document.querySelector('.listen-token b').textContent === 'code 0'")
    before = page.locator(".listen-sheet").first.evaluate("sheet => sheet.clientWidth")
    page.keyboard.press("+")
    one.until("document.querySelector('.listen-sheet').clientWidth === x", 2 * before)


def test_attention_is_that_of_the_moment(tab: Callable[..., Tab], saved: Path) -> None:
    one = tab(reduced_motion="reduce")
    page = one.page
    page.goto(saved.as_uri())
    page.locator(".listen-head select").select_option(label="head 0")
    page.locator(".listen-map").click(position={"x": 5, "y": 62})  # half of the way down: half of its three seconds
    one.until(f"Math.abs({TIME} - x) < 0.11", SECONDS / 2)
    page.mouse.move(0, 0)
    size = page.locator(".listen-attention .listen-size")
    assert size.inner_text() == "at 1.50 s: 100% on 1.50 s"
    page.locator(".listen-head select").select_option(label="head 1")
    one.until("document.querySelector('.listen-attention .listen-size').textContent.includes('6.3% on 0.00 s')")
    assert "It looks at all alike." in page.locator(".listen-attention").inner_text()


def test_the_page_is_for_everyone(tab: Callable[..., Tab], check: Check, saved: Path) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.page
    page.goto(saved.as_uri())
    page.locator(".listen-lane").first.wait_for()
    page.locator(".listen-codes").focus()
    for theme, width in (("light", 1440), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        check(page, f"{theme}, {width} wide")
        fits(page, f"{width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")
