"""Recognisers of letters: a wav2vec 2.0 with random weights; what it spells is nonsense, and the same in every way."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import glassformer
from glassformer import DataError, Model
from glassformer.ngram.kneser_ney import train_ngram
from tests.audio.sounds import speech_like
from tests.e2e.tiny_models import make_folder

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_folder(
        tmp_path_factory.mktemp("ctc"),
        "wav2vec2",
        task="automatic-speech-recognition",
        vocab_size=len(LETTERS),
        pad_token_id=0,
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(LETTERS)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Wav2Vec2CTCTokenizer"}))
    return glassformer.load(folder)


def test_a_short_sound_as_in_the_pipeline(model: Model) -> None:
    sound = speech_like(4.0)
    done = model.transcribe(sound, sample_rate_hz=16_000, num_beams=1, word_timestamps=True)
    expected = glassformer.pipeline("automatic-speech-recognition", model)(sound)["text"]
    for special in LETTERS[1:4]:  # a transcript leaves them out
        expected = expected.replace(special, "")
    assert done.text.split() == expected.split()
    assert done.duration == pytest.approx(4.0)
    words = list(done.words)
    assert "".join(word.word for word in words).strip() == done.text
    assert all(0 <= word.start < word.end <= 4.0 and 0 < word.probability <= 1 for word in words)
    assert all(before.end <= after.start + 1e-9 for before, after in pairwise(words))


def test_a_long_sound_in_overlapping_windows(model: Model) -> None:
    quiet = np.zeros(16_000, np.float32)
    sound = np.concatenate([part for _ in range(4) for part in (speech_like(9.3), quiet)])
    recording = model.transcribe(sound, sample_rate_hz=16_000, num_beams=1)
    assert recording.duration == pytest.approx(len(sound) / 16_000)
    assert recording.segments[-1].end > 35
    assert all(before.end <= after.start + 1e-9 for before, after in pairwise(recording.segments))


def test_fusion_at_weight_0_is_the_plain_search(model: Model) -> None:
    sound = speech_like(2.0)
    words = train_ngram([["a", "word"], ["or", "two"]], 2)
    plain = model.transcribe(sound, sample_rate_hz=16_000, num_beams=4)
    fused = model.transcribe(sound, sample_rate_hz=16_000, num_beams=4, language_model=words, alpha=0.0)
    assert plain == fused


def test_nothing_to_hear(model: Model) -> None:
    for samples in (1, 40):  # less than a frame
        assert model.transcribe(np.zeros(samples, np.float32), sample_rate_hz=16_000).segments == ()
    with pytest.raises(DataError, match="not a single sample"):
        model.transcribe(np.zeros(0, np.float32), sample_rate_hz=16_000)


def test_options_of_models_with_a_decoder_are_refused(model: Model) -> None:
    with pytest.raises(glassformer.ConfigError, match="language"):
        model.transcribe(speech_like(1.0), sample_rate_hz=16_000, language="de")


def test_a_language_model_needs_beams(model: Model) -> None:
    words = train_ngram([["a", "word"]], 2)
    with pytest.raises(glassformer.ConfigError, match="takes part in a beam search, and num_beams is 1"):
        model.transcribe(speech_like(1.0), sample_rate_hz=16_000, num_beams=1, language_model=words)
