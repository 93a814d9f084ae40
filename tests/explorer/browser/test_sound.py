"""A transcription, on its page and in the explorer: what was heard, where, by which heads, and how surely."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer import Model
from glassformer.explorer import sound
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.transcription_trace import TranscriptionTrace
from tests.explorer.browser.conftest import Check
from tests.explorer.browser.tab import Tab, fits, value
from tests.tasks.transcribe.tones import RATE_HZ, letters_folder, spoken, whisper_folder

OPTIONS = TranscriptionOptions(num_beams=1, temperature=0.0, word_timestamps=True)
WORD = 9


@pytest.fixture(scope="module")
def model(whisper: Callable[[str], Path]) -> Model:
    return glassformer.load(whisper("tiny"), dtype="float32", offline=True)


def test_a_word_is_heard_and_seen(
    tab: Callable[..., Tab], check: Check, model: Model, kennedy: Path, tmp_path: Path
) -> None:
    made = TranscriptionTrace(model, kennedy, OPTIONS)
    assert [step.window.skipped for step in made] == [False]
    word = list(made.transcription.words)[WORD]
    assert made.save(tmp_path / "page.html") < 4_000_000
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.page
    page.goto((tmp_path / "page.html").as_uri())
    words = page.locator(".sound-word")
    words.last.wait_for()
    assert words.count() == page.locator(".sound-label").count() == 22
    one.until("!document.querySelector('.sound-bar button').disabled")  # the sound is ready to be played
    least = min(made.transcription.words, key=lambda word: word.probability)
    says = f"22 words in 0:11.00; the least sure is “{least.word.strip()}”, {least.probability:.0%}."
    assert page.locator("main > .found").inner_text() == says
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
    one.until("document.querySelectorAll('details tbody tr').length === x", 22)
    for theme, width in (("light", 1440), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        check(page, f"{theme}, {width} wide")
    strip, first, last = (
        page.locator(".sound-strip"),
        ".sound-attention text >> nth=0",
        ".sound-attention text >> nth=-1",
    )
    inside = "(each) => { const [a, b] = [each, each.closest('.sound-attention')].map(x => x.getBoundingClientRect()); "
    inside += "return a.top >= b.top - 2 && a.bottom <= b.bottom + 2; }"
    strip.evaluate("each => each.scrollLeft = 0")
    one.until("getComputedStyle(document.querySelector('.sound-strip')).getPropertyValue('--more') === x", "36px")
    assert page.locator(".sound-attention").evaluate("each => each.offsetHeight") <= 0.6 * 22 * 18
    assert page.locator(first).evaluate(inside) and not page.locator(last).evaluate(inside)
    assert "It scrolls sideways." in page.locator(".sound-head:has(#sound-heard)").inner_text()
    strip.evaluate("each => each.scrollLeft = each.scrollWidth")  # its rows move along
    one.until("getComputedStyle(document.querySelector('.sound-strip')).getPropertyValue('--more') === x", "0px")
    assert page.locator(last).evaluate(inside) and not page.locator(first).evaluate(inside)
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")


def test_silence_and_a_sound_beside_the_page(
    tab: Callable[..., Tab], check: Check, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was said; the sound is too large for the page, so that its file is chosen."""
    monkeypatch.setattr(sound, "EMBEDDED_BYTES", 0)
    soundfile.write(tmp_path / "quiet.wav", np.zeros(16_000, np.float32), 16_000)
    made = TranscriptionTrace(model, tmp_path / "quiet.wav", OPTIONS)
    assert list(made) and not made.transcription.segments
    made.save(tmp_path / "page.html")
    page = tab().page
    page.goto((tmp_path / "page.html").as_uri())
    page.get_by_text("No speech was heard").wait_for()
    assert page.get_by_role("button", name="Play").is_disabled()
    check(page, "without words")
    page.locator(".sound-file input").set_input_files(tmp_path / "quiet.wav")
    page.wait_for_function("() => !document.querySelector('.sound-bar button').disabled")


# ------------------------------------------------------------------------------------------ among the explorer's views


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """The explorer on a recording of several windows; a random model writes nonsense, and is aligned all the same."""
    folder = tmp_path_factory.mktemp("heard")
    random = glassformer.load(whisper_folder(folder / "whisper"))
    soundfile.write(folder / "tones.wav", np.concatenate([spoken("ab", np.random.default_rng(0))] * 6), RATE_HZ)
    factory = replace(random.session_factory(), transcribe=lambda file: TranscriptionTrace(random, file, OPTIONS))
    with Look(SessionRuns(factory), [str(folder / "tones.wav")], InitialView(view="sound")) as served:
        served.serve()
        yield served


def test_from_a_word_to_the_arithmetic_and_back(tab: Callable[..., Tab], heard: Look) -> None:
    one = tab()
    page = one.open(heard, view="sound")
    one.until("!document.querySelector('.sound-bar button').disabled")  # the sound has come
    trace = heard.explorer.sounds.get()
    page.keyboard.press("]")  # here it is a window, as on the page of a transcription
    page.get_by_text("2 of ", exact=False).wait_for()
    assert one.state["l"] == "0"
    words = page.locator(".sound-word")
    words.nth(at := 1).focus()
    page.keyboard.press("Enter")
    one.until("location.hash.includes(`word=${x}`)", at)
    assert page.locator(".sound-cell b").inner_text() == f"“{list(trace.transcription.words)[at].word.strip()}”"
    page.keyboard.press(".")
    one.until("location.hash.includes('aligned=1')")
    layer, head = trace.description(playable=True)["heads"]["pairs"][0]
    page.locator(".sound-hearing .sound-inside").first.click()
    one.wait_for_view("neuron")
    one.wait_for_announcement("looks for the sound of")
    state = one.state
    assert (state["map"], state["l"], state["h"]) == ("cross", str(layer), str(head))
    shares = trace.session(int(state["win"])).head(layer, head, "cross").probs(int(state["q"]))[0]
    shown = page.locator(f".neuron-rows [data-key='{state['k']}']").first.get_attribute("aria-label")
    assert value(str(shown).rpartition(" ")[2]) == pytest.approx(float(shares[int(state["k"])]), rel=1e-3)
    tokens = page.locator(".neuron-rows").inner_text()
    page.reload()  # a link holds the window that is looked into
    one.wait_for_view("neuron")
    assert page.locator(".neuron-rows").inner_text() == tokens
    one.go("sound")
    assert page.locator(".sound-word[aria-pressed]").get_attribute("data-cell") == str(at)
    page.keyboard.press("Escape")
    one.until("!location.hash.includes('word=')")
    page.goto("about:blank")
    one.goto(heard, win=99)
    one.wait_for_banner("Window 99 cannot be looked into")


def test_the_view_for_everyone_and_what_it_saves(tab: Callable[..., Tab], check: Check, heard: Look) -> None:
    one = tab(color_scheme="light", reduced_motion="reduce")
    page = one.open(heard, view="sound", word=0)
    page.locator(".sound-attention").click(position={"x": 200, "y": 9})
    page.locator(".sound-cell .sound-inside").wait_for()
    page.get_by_text("How to read this").click()
    for theme, width in (("light", 1440), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        check(page, f"{theme}, {width} wide")
    page.set_viewport_size({"width": 320, "height": 640})
    fits(page, "320 wide")
    page.set_viewport_size({"width": 1440, "height": 900})
    name, table = one.saved("Table (CSV)")
    assert name == "sound-tones.csv" and table.startswith(b"word,start,end,probability")
    assert one.saved("Picture (PNG, twice the size)")[1].startswith(b"\x89PNG")
    assert b"data:image/png" in one.saved("Drawing (SVG)")[1]
    assert b'id="transcript"' in one.saved("Save this page as one HTML file, to send")[1]
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("in the view Sound: play, pause").wait_for()


def test_a_word_of_letters_leads_to_its_first_frame(
    tab: Callable[..., Tab], look: Callable[..., Look], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("letters")
    letters = glassformer.load(letters_folder(folder / "model"), task="automatic-speech-recognition")
    soundfile.write(folder / "tones.wav", np.concatenate([spoken("ab", np.random.default_rng(0))] * 6), RATE_HZ)
    served = look(letters, str(folder / "tones.wav"))
    one = tab()
    page = one.open(served, view="sound", word=0)
    assert page.locator("#sound-heads").count() == 0
    page.get_by_role("button", name="Where its first frame looks").click()
    page.wait_for_selector("#tab-head[aria-selected=true]")
    first = next(served.explorer.sounds.get().transcription.words)  # type: ignore[attr-defined]
    frame = served.session.streams["sound"][int(one.state["q"])]
    assert float(frame.text.removesuffix(" s")) == pytest.approx(first.start, abs=0.041)


# ------------------------------------------------------------------------------------------------- the first minute


def walk(page: Any, steps: list[tuple[str, str]]) -> None:
    """Take the tour of a page: each step has this heading, and this view beside it."""
    page.get_by_role("button", name="Tour", exact=True).click()
    for number, (title, view) in enumerate(steps, 1):
        page.get_by_role("heading", name=f"{number}. {title}", exact=True).wait_for()
        page.wait_for_selector(f"#tab-{view}[aria-selected=true]")
        page.get_by_role("button", name="Next" if number < len(steps) else "Done", exact=True).click()
    page.locator(".tour").wait_for(state="detached")


def test_the_first_minute_on_a_sound_that_is_transcribed(tab: Callable[..., Tab], model: Model, kennedy: Path) -> None:
    with model.look(str(kennedy), browser=False, block=False) as look:
        for width, height, theme in ((1440, 900, "dark"), (390, 844, "light")):
            viewport = {"width": width, "height": height}
            page = tab(viewport=viewport, color_scheme=theme, reduced_motion="reduce").page
            page.goto(look.url)
            page.locator(".sound-attention").wait_for()
            told = re.compile(r"“what” gives \d+% of its attention to “\d\.\d\d s”, and “your” comes next")
            page.locator(".found").filter(has_text=told).wait_for()
            for picture in (".sound-mel", ".sound-attention"):
                assert page.locator(picture).bounding_box()["y"] < height - 60, picture
            steps = [
                ("Sound and text", "sound"),
                ("Vectors", "embedding"),
                ("One head", "matrix"),
                ("Its arithmetic", "neuron"),
                ("What a layer adds", "embedding"),
                ("Layers", "lens"),
                ("Output", "attribution"),
            ]
            walk(page, steps)


def test_the_tour_of_a_model_without_words_speaks_of_pieces(tab: Callable[..., Tab], tmp_path: Path) -> None:
    soundfile.write(tmp_path / "tones.wav", spoken("ab", np.random.default_rng(0)), RATE_HZ)
    letters = glassformer.load(letters_folder(tmp_path / "letters"))
    with letters.look(str(tmp_path / "tones.wav"), browser=False, block=False) as look:
        page = tab(reduced_motion="reduce").page
        page.goto(look.url)
        page.locator("[role=tab][aria-selected=true]").wait_for()
        steps = [("Pieces", "sound"), ("One head", "matrix"), ("Its arithmetic", "neuron")]
        walk(page, [*steps, ("What a layer adds", "embedding"), ("Layers", "lens"), ("Output", "sound")])
