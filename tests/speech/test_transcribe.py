"""Real Whisper on real speech: segments and word times of openai-whisper 20250625; and odd recordings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import glassformer
from glassformer import DataError, Model, UnsupportedError
from glassformer.audio import read_audio
from glassformer.speech.alignment_heads import find_alignment_heads
from glassformer.speech.job import TranscriptionJob
from glassformer.speech.live import LiveTranscription
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Transcription
from glassformer.speech.voice import SileroDetector, Span
from tests.audio.sounds import encoded, speech_like

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("openai_whisper_tiny_en.json").read_text("utf-8"))
"""Recording → what openai-whisper says of it, with the same weights: segments, greedy and with five beams; words."""
QUICK = {"jfk.flac", "ljspeech/LJ001-0002.flac", "fleurs/fleurs-en-004.ogg"}
CHORD = sum(np.sin(np.arange(48_000) * hertz / 2_546) for hertz in (262, 330, 392)).astype(np.float32) / 5  # type: ignore[union-attr]
GREEDY = TranscriptionOptions(num_beams=1, temperature=0.0)
ASKED = "what you can do for your country"

recordings = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.soak) for name in GOLDEN]
)


@pytest.fixture(scope="module")
def model(whisper: Callable[[str], Path]) -> Model:
    return glassformer.load(whisper("tiny"), dtype="float32", offline=True)


@pytest.fixture(scope="module")
def thrice(kennedy: Path) -> np.ndarray:
    """The speech, five seconds of silence, the speech, silence, and its beginning: two windows and a bit."""
    sound = read_audio(kennedy, 16_000)
    quiet = np.zeros(5 * 16_000, np.float32)
    return np.concatenate([sound, quiet, sound, quiet, sound, sound[:60_000]])


def segments(done: Transcription) -> list[tuple[float, float, str]]:
    return [(round(each.start, 2), round(each.end, 2), each.text) for each in done.segments]


@pytest.mark.parametrize("beams", [1, 5])
@recordings
def test_segments_of_openai_whisper(model: Model, shared: Path, name: str, beams: int) -> None:
    done = model.transcribe(shared / "data" / "speech" / name, num_beams=beams)
    assert segments(done) == [tuple(each) for each in GOLDEN[name]["greedy" if beams == 1 else "beam"]]
    assert done.language == "en"


@recordings
def test_word_times_of_openai_whisper(model: Model, shared: Path, name: str) -> None:
    done = model.transcribe(shared / "data" / "speech" / name, num_beams=1, word_timestamps=True)
    for ours, theirs in zip(done.words, GOLDEN[name]["words"], strict=True):
        assert ours.word == theirs[0]
        assert (ours.start, ours.end) == pytest.approx(theirs[1:3], abs=0.011)
        assert ours.probability == pytest.approx(theirs[3], abs=1e-3)


def test_a_long_recording_in_both_ways(model: Model, thrice: np.ndarray) -> None:
    for options in ({"num_beams": 1}, {"num_beams": 1, "batch_size": 4}):
        done = model.transcribe(thrice, sample_rate_hz=16_000, temperature=0.0, **options)
        text = done.text.lower().replace(",", "")
        assert text.count(ASKED) == 3, options
        assert all(0 <= each.start < min(each.end, done.duration) for each in done.segments)
        assert all(before.start <= after.start for before, after in pairwise(done.segments))
        assert all(window.end - window.start <= 30.0001 for window in done.windows)


@pytest.mark.soak  # it falls back to sampling after the silence
def test_the_pipeline_takes_a_long_recording(model: Model, thrice: np.ndarray) -> None:
    hear = glassformer.pipeline("automatic-speech-recognition", model)
    result = hear(thrice)
    assert result["text"].lower().replace(",", "").count(ASKED) == 3
    timed = hear(thrice[: 11 * 16_000], return_timestamps="word")
    assert [part["text"] for part in timed["chunks"]][:3] == [" And", " so", " my"]


@pytest.mark.soak
def test_the_heads_are_found_where_none_are_published(model: Model, shared: Path) -> None:
    folder = shared / "data" / "speech"
    sounds = [folder / name for name in ("jfk.flac", "ljspeech/LJ001-0003.flac", "fleurs/fleurs-en-005.ogg")]
    spoken = [list(model.transcribe(sound, num_beams=1, word_timestamps=True).words) for sound in sounds]
    published = model.generation_config["alignment_heads"]
    try:
        model.generation_config["alignment_heads"] = find_alignment_heads(model, sounds)
        again = [list(model.transcribe(sound, num_beams=1, word_timestamps=True).words) for sound in sounds]
        del model.generation_config["alignment_heads"]
        alone = model.transcribe(sounds[1], num_beams=1, word_timestamps=True)  # found on this recording
    finally:
        model.generation_config["alignment_heads"] = published
    pairs = [pair for before, after in zip(spoken, again, strict=True) for pair in zip(before, after, strict=True)]
    gaps = sorted(abs(before.start - after.start) for before, after in pairs)
    assert gaps[len(gaps) // 2] <= 0.05
    assert [word.word for word in alone.words] == [word.word for word in spoken[1]]


def test_a_stopped_job_goes_on(model: Model, thrice: np.ndarray, tmp_path: Path) -> None:
    sound = tmp_path / "talk.wav"
    soundfile.write(sound, thrice, 16_000)
    whole = model.transcribe(sound, num_beams=1, temperature=0.0)
    out = tmp_path / "out"
    job = lambda options=GREEDY: TranscriptionJob(model, sound, out, ["srt", "json"], options)  # noqa: E731

    class Stop(Exception):
        pass

    def stop(recording: Any, step: Any) -> None:
        if step.window.start > 0:
            raise Stop  # the second window is decoded, and not saved

    with pytest.raises(Stop):
        job().run(stop)
    assert not job().is_done and job().is_partial
    seen = list[float]()
    done = job().run(lambda recording, step: seen.append(step.window.start))
    assert segments(done) == segments(whole)
    assert seen[0] == 0.0 and len(seen) == len(whole.windows)
    assert job().is_done and not job().is_partial
    assert json.loads((out / "talk.json").read_text("utf-8"))["text"] == whole.text

    with pytest.raises(Stop):
        job().run(stop)
    with pytest.raises(DataError, match=r"other options \(best_of: then '5', now '2'\).*--overwrite"):
        job(replace(GREEDY, best_of=2)).run(stop)
    (out / ".transcripts" / "talk.json").write_text('{"key": ')
    with pytest.raises(DataError, match=r"talk\.json"):
        job()


def test_live_text_settles_as_it_is_in_the_end(model: Model, kennedy: Path) -> None:
    sound = read_audio(kennedy, 16_000)[: 7 * 16_000]
    live = LiveTranscription(model, GREEDY)
    updates = [update for at in range(0, len(sound), 8_000) for update in live.feed(sound[at : at + 8_000])]
    assert len(updates) == 7
    early = "".join(word.word for update in updates for word in update.settled)
    assert "fellow" in early  # long before the end
    text = early + "".join(word.word for word in live.finish().settled)
    assert text.lower().count("fellow") == 1 and "ask not" in text.lower()


@pytest.mark.parametrize(
    "sound",
    [
        np.zeros(32_000, np.float32),
        np.zeros(1, np.float32),
        np.full(40, 0.5, np.float32),
        np.random.default_rng(0).normal(0, 0.1, 32_000).astype(np.float32),
        pytest.param(CHORD, marks=pytest.mark.soak),
    ],
    ids=["silence", "one sample", "less than a frame", "noise", "music"],
)
def test_nobody_speaks(model: Model, sound: np.ndarray) -> None:
    for options in ({"num_beams": 1}, {"num_beams": 1, "batch_size": 2, "word_timestamps": True}):
        done = model.transcribe(sound, sample_rate_hz=16_000, temperature=0.0, **options)
        assert len(done.segments) <= 1  # the small model may hear a word in silence, never a story
        assert len(done.text) < 20


def test_music_is_no_word(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a detector of speech nothing of it is decoded; by loudness it may be, and a warning says so."""

    class Detector:
        def __call__(self, block: np.ndarray) -> None:
            assert len(block)

        def speech(self, duration: float) -> list[Span]:
            return []

    monkeypatch.setattr(SileroDetector, "find", Detector)
    done = model.transcribe(CHORD, sample_rate_hz=16_000, voice_filter=True)
    assert (done.text, done.segments, done.windows, done.duration) == ("", (), (), pytest.approx(3.0))
    monkeypatch.setattr(SileroDetector, "find", lambda: None)
    with pytest.warns(UserWarning, match="music and loud noise for speech.*pip install silero-vad"):
        model.transcribe(CHORD[:100], sample_rate_hz=16_000, voice_filter=True)


def test_digital_silence_is_no_word(model: Model, kennedy: Path) -> None:
    """Not even that which the small model hears in it; and what is said after it has its language and its times."""
    quiet = np.zeros(31 * 16_000, np.float32)
    done = model.transcribe(np.concatenate([quiet, read_audio(kennedy, 16_000)]), sample_rate_hz=16_000, num_beams=1)
    assert done.windows[0].skipped and not done.windows[0].attempts
    assert done.text.startswith("And so my fellow Americans") and 29 < done.segments[0].start < 32
    silent = model.transcribe(quiet, sample_rate_hz=16_000)
    assert (silent.text, silent.segments, [each.skipped for each in silent.windows]) == ("", (), [True, True])


@pytest.mark.parametrize("options", [{}, {"word_timestamps": True}, {"batch_size": 2}])
def test_words_after_a_long_pause_have_their_own_times(model: Model, kennedy: Path, options: dict[str, Any]) -> None:
    sound = read_audio(kennedy, 16_000)
    pause = np.zeros(40 * 16_000, np.float32)
    done = model.transcribe(
        np.concatenate([sound, pause, sound]), sample_rate_hz=16_000, num_beams=1, temperature=0.0, **options
    )
    assert [segment.text.split()[0].lower() for segment in done.segments][:3] == ["and", "ask", "and"]
    assert done.text.lower().count("country") == 4
    assert 50.7 <= done.segments[2].start <= 51.5 and done.segments[1].end <= 11.1
    assert all(window.skipped or not 11.5 < window.start < 50 for window in done.windows)


def test_like_openai_a_window_begins_in_silence(model: Model, kennedy: Path) -> None:
    sound = np.concatenate([np.zeros(20 * 16_000, np.float32), read_audio(kennedy, 16_000)[: 9 * 16_000]])
    given = {"sample_rate_hz": 16_000, "num_beams": 1, "temperature": 0.0}
    assert model.transcribe(sound, **given, like_openai=True).windows[0].start == 0.0
    skipped, heard = model.transcribe(sound, **given).windows[:2]
    assert skipped.skipped and skipped.end == heard.start == pytest.approx(19.8, abs=0.05)


def test_live_sound_after_a_long_pause_is_heard_from_its_beginning(
    model: Model, kennedy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = list[tuple[float, float]]()

    def hear(live: LiveTranscription, spectrogram: Any) -> list[Any]:
        begins.append((round(live._begin, 1), spectrogram.duration))
        return []

    monkeypatch.setattr(LiveTranscription, "_hear", hear)
    sound = read_audio(kennedy, 16_000)[: 3 * 16_000]
    live = LiveTranscription(model, GREEDY)
    for block in np.split(np.concatenate([sound, np.zeros(40 * 16_000, np.float32), sound]), 46):
        list(live.feed(block))
    assert begins == [(0, 1), (0, 2), (0, 3), (0, 4), (42.8, 1.2), (42.8, 2.2), (42.8, 3.2)]


def test_odd_recordings(model: Model, kennedy: Path, tmp_path: Path) -> None:
    sound = read_audio(kennedy, 96_000)[: 96_000 * 4]
    soundfile.write(tmp_path / "eight.wav", np.stack([sound] * 8, axis=1), 96_000)
    assert "fellow" in model.transcribe(tmp_path / "eight.wav", num_beams=1).text
    (tmp_path / "text.wav").write_text("This is no sound.")
    with pytest.raises(DataError, match=r"text\.wav is not readable audio"):
        model.transcribe(tmp_path / "text.wav")
    cut = encoded(tmp_path / "call.m4a", speech_like(3), 16_000, "aac")
    cut.write_bytes(cut.read_bytes()[:500])
    with pytest.raises(DataError, match=r"call\.m4a"):
        model.transcribe(cut)
    with pytest.raises(DataError, match="NaN"):
        model.transcribe(np.array([0.0, np.nan], np.float32), sample_rate_hz=16_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "klingon"}, "language is 'klingon'; this model knows en"),
        ({"task": "translate"}, "knows English alone"),
        ({"beams": 3}, "transcribe has no option 'beams'"),
    ],
)
def test_options_that_the_model_has_not(model: Model, kennedy: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(glassformer.ConfigError, match=message):
        model.transcribe(kennedy, **options)


def test_a_model_of_texts_transcribes_nothing(shared: Path, kennedy: Path) -> None:
    stories = glassformer.load(shared / "models" / "stories260k")
    with pytest.raises(UnsupportedError, match=r"Whisper and wav2vec 2\.0 do"):
        stories.transcribe(kennedy)


def test_prompts_are_the_references(whisper: Callable[[str], Path]) -> None:
    """Every language, both tasks, with and without timestamps and previous text."""
    from transformers import WhisperProcessor

    from glassformer.speech.vocabulary import SpeechVocabulary

    folder = whisper("base")
    ours = SpeechVocabulary.of(glassformer.load(folder, offline=True))
    theirs = WhisperProcessor.from_pretrained(folder, local_files_only=True)
    assert len(ours.languages) == 99
    for language in ours.languages:
        for task in ("transcribe", "translate"):
            for timestamps in (True, False):
                forced = theirs.get_decoder_prompt_ids(language=language, task=task, no_timestamps=not timestamps)
                expected = [ours.start, *(token for _, token in forced)]
                assert ours.prompt(language, task, timestamps=timestamps) == expected
    text = theirs.get_prompt_ids(" Glass, former").tolist()
    assert ours.prompt("German", previous=text[1:])[: len(text)] == text
    long = list(range(400))
    assert ours.prompt("en", previous=long)[1:224] == long[-223:]


def test_language_identification(whisper: Callable[[str], Path], shared: Path) -> None:
    model = glassformer.load(whisper("base"), dtype="float32", offline=True)
    done = model.transcribe(shared / "data" / "speech" / "fleurs" / "fleurs-de-000.ogg", num_beams=1)
    assert done.language == "de"
    assert 0.5 < (done.language_probability or 0) <= 1
    torch.manual_seed(0)
    english = model.transcribe(
        shared / "data" / "speech" / "fleurs" / "fleurs-de-000.ogg", language="German", task="translate", num_beams=1
    )
    assert english.text != done.text and english.language == "de" and english.language_probability is None
