"""What a page draws of a transcription, and the pass behind each of its windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import glassformer
from glassformer.errors import DataError
from glassformer.explorer.binary_frames import decode
from glassformer.speech.alignment import SMOOTHED_FRAMES, Alignment, median_filter
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.transcription_trace import TranscriptionTrace, transcriber
from tests.tasks.transcribe.tones import RATE_HZ, WORDS, letters_folder, spoken, whisper_folder

OPTIONS = TranscriptionOptions(num_beams=1, temperature=0.0, word_timestamps=True)


class Kept(TranscriptionTrace):
    """Keeps what it packs."""

    def _keep(self, alignment: Alignment) -> None:
        self.__dict__.setdefault("kept", []).append(alignment)
        super()._keep(alignment)


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("tones") / "tones.wav"
    soundfile.write(path, np.concatenate([spoken(word, draw) for word in WORDS * 2]), RATE_HZ)
    return path


@pytest.fixture(scope="module")
def trace(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A random model of two-second windows: what it writes is nonsense, and is aligned all the same."""
    model = glassformer.load(whisper_folder(tmp_path_factory.mktemp("whisper")))
    made = Kept(model, tones, OPTIONS)
    seconds: list[float] = []
    made.run(seconds.append, lambda: None)
    assert seconds == sorted(seconds) and seconds[-1] == pytest.approx(made.duration, abs=0.02)
    return made


def test_at_the_end_of_a_cell_it_is_its_page(trace: Kept) -> None:
    page = trace.live_page()
    assert page.still() == trace.transcription.notebook_html() and "start, s" in page.still()
    html = page.html()
    assert html.startswith("<!doctype html>") and 'id="sound"' in html and 'data-key="alignment/0"' in html
    unheard = TranscriptionTrace(trace.model, trace.sound, OPTIONS)
    unheard.live_page().html()
    assert unheard.transcription.text == trace.transcription.text


def test_the_pass_of_a_window_holds_the_attention_that_timed_its_words(trace: Kept) -> None:
    """From the raw shares of the session, the picture of the page is made again: same rows, same heads, same frames."""
    assert len(trace.alignments) > 1
    for number, frame in enumerate(trace.alignments):
        alignment: Alignment = trace.kept[number]  # type: ignore[attr-defined]
        session = trace.session(number)
        frames = max(1, alignment.size // 2)
        probs = torch.stack([session.head(*pair, "cross").probs()[:, :frames] for pair in alignment.heads])
        weights = probs / probs.sum(-1, keepdim=True)
        weights = (weights - weights.mean(1, keepdim=True)) / weights.std(1, keepdim=True, correction=0)
        smooth = median_filter(weights.nan_to_num(), SMOOTHED_FRAMES)[:, alignment.prompt_length - 1 : -1]
        torch.testing.assert_close(smooth, alignment.weights, rtol=1e-3, atol=1e-3)
        about = decode(frame).fields
        assert len(about["queries"]) == len(about["words"])
        assert about["queries"][0] == alignment.prompt_length - 1
        assert [token.id for token in session.streams["target"]] == list(alignment.ids)
        assert session.streams["source"][1].text == f"{alignment.begin + 0.02:.2f} s"


def test_a_window_that_is_not_there(trace: Kept) -> None:
    for window in (-1, len(trace.alignments)):
        with pytest.raises(DataError, match=f"window {window} cannot be looked into"):
            trace.session(window)


def test_it_is_interrupted_between_two_blocks(trace: Kept) -> None:
    calls = []

    def check() -> None:
        calls.append(0)
        if len(calls) == 5:
            raise KeyError("enough")

    with pytest.raises(KeyError):
        TranscriptionTrace(trace.model, trace.sound, OPTIONS).run(lambda seconds: None, check)
    assert len(calls) == 5
    trace.session(0)
    assert len(calls) == 5  # and nothing is left behind in the network


def test_a_recording_shorter_than_a_frame_has_a_page(trace: Kept, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "one.wav", np.full(1, 0.1), RATE_HZ)
    made = TranscriptionTrace(trace.model, tmp_path / "one.wav", OPTIONS)
    made.run(lambda seconds: None, lambda: None)
    assert not made.description(playable=True)["segments"]
    assert decode(made.spectrogram()).arrays["values"].shape[1] == 1


def test_letters_have_words_and_no_cross_attention(tones: Path, tmp_path: Path) -> None:
    model = glassformer.load(letters_folder(tmp_path), task="automatic-speech-recognition")
    make = transcriber(model)
    assert make is not None
    made = make(str(tones))
    made.run(lambda seconds: None, lambda: None)
    about = made.description(playable=False)
    assert (about["heads"], about["alignments"], about["windowed"], about["playable"]) == (None, 0, False, False)
    with pytest.raises(DataError, match="cannot be looked into"):
        made.session(0)
    assert transcriber(glassformer.load(tmp_path, task="feature-extraction")) is None
