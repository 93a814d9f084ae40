"""The page of a transcription: what was heard, where, by which heads, and how sure of it the model was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer import Model
from glassformer.speech import sound_page
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.sound_page import TranscriptionPage
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits

OPTIONS = TranscriptionOptions(num_beams=1, temperature=0.0, word_timestamps=True)
WORD = 9


@pytest.fixture(scope="module")
def model(whisper: Callable[[str], Path]) -> Model:
    return glassformer.load(whisper("tiny"), dtype="float32", offline=True)


def test_a_word_is_heard_and_seen(
    tab: Callable[..., Tab], check: Check, model: Model, kennedy: Path, tmp_path: Path
) -> None:
    made = TranscriptionPage(model, kennedy, OPTIONS)
    assert [step.window.skipped for step in made] == [False]
    word = list(made.transcription.words)[WORD]
    assert made.save(tmp_path / "page.html") < 4_000_000
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.page
    page.goto((tmp_path / "page.html").as_uri())
    words = page.locator(".sound-word")
    words.last.wait_for()
    assert words.count() == page.locator(".sound-label").count() == 22
    words.nth(WORD).focus()
    page.keyboard.press("Enter")  # it sounds, and the time stops at its end
    one.until("document.querySelector('.sound-clock').textContent.startsWith(x)", f"0:0{word.end:.1f}")
    assert word.word.strip() in (shown := page.locator(".sound-chosen").inner_text())
    assert f"0:0{word.start:.2f} – 0:0{word.end:.2f}" in shown and f"{word.probability:.3f}" in shown
    mean = page.locator(".sound-hearing tbody tr").first.locator("td").first.inner_text()
    assert mean == f"0:0{word.start:.2f}"  # the word begins where the path of the mean does
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    one.until("document.querySelector('.sound-word[aria-pressed]').dataset.cell === x", str(WORD + 1))
    pressed = page.locator(".sound-grid button[aria-pressed=true]")
    page.keyboard.press(".")
    pressed.wait_for()
    assert page.locator(".sound-grid button").count() == len(made.recording._heads("en"))  # type: ignore[union-attr]
    page.get_by_text("Words as a table").click()
    assert page.locator("details tbody tr").count() == 22
    for theme, width in (("light", 1440), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        check(page, f"{theme}, {width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")


def test_silence_and_a_sound_beside_the_page(
    tab: Callable[..., Tab], check: Check, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was said; the sound is too large for the page, so that its file is chosen."""
    monkeypatch.setattr(sound_page, "SOUND_BYTES", 0)
    soundfile.write(tmp_path / "quiet.wav", np.zeros(16_000, np.float32), 16_000)
    made = TranscriptionPage(model, tmp_path / "quiet.wav", OPTIONS)
    assert list(made) and not made.transcription.segments
    made.save(tmp_path / "page.html")
    page = tab().page
    page.goto((tmp_path / "page.html").as_uri())
    page.get_by_text("No speech was heard").wait_for()
    assert page.get_by_role("button", name="Play").is_disabled()
    check(page, "without words")
    page.locator(".sound-file input").set_input_files(tmp_path / "quiet.wav")
    page.wait_for_function("() => !document.querySelector('.sound-bar button').disabled")
