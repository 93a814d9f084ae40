"""Recordings in another language than the run's are left out, as a multilingual Whisper hears them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.tasks.transcribe.language import LanguageFilter
from glassformer.tasks.transcribe.quality import QualityFilters
from glassformer.tasks.transcribe.task import Transcribe
from tests.tasks.transcribe.tones import RATE_HZ, spoken, whisper_folder


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whisper_folder(tmp_path_factory.mktemp("several"), multilingual=True)


@pytest.fixture(scope="module")
def identifier(several: Path) -> Model:
    return glassformer.load(several, offline=True, task=Transcribe.HEAD)


def test_what_is_left_out_and_why(identifier: Model, several: Path, letters: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    sounds = [spoken("abab", draw), spoken("bbbb", draw) * 0.2, spoken("aaaa", draw)]
    hears = LanguageFilter(identifier, "English", 0.0)
    shares = [hears.probabilities(sound, RATE_HZ) for sound in sounds]
    assert all(sum(each.values()) == pytest.approx(1) and next(iter(each.values())) >= 0.5 for each in shares)
    english = sorted(each["en"] for each in shares)
    least = (english[0] + english[1]) / 2
    lowest = [each["en"] for each in shares].index(english[0])
    rows = read_rows(
        [{"file": {"array": sound.tolist(), "sampling_rate": RATE_HZ}, "text": "abab"} for sound in sounds]
    )
    own = Transcribe(identifier, language="en", filters={"min_language_probability": least})
    another = {"min_language_probability": least, "language_model": str(several)}
    spelling = Transcribe(glassformer.load(letters, offline=True), language="en", filters=another)
    for task in (own, spelling):
        with pytest.warns(UserWarning, match=rf"1 of 3 recordings were left out: 1 not in 'en' \(.*row {lowest}: "):
            assert len(task.encode(rows)) == 2
        assert task.dropped[0].figure.endswith(f"en {english[0]:.0%}")
    assert len(list(own.for_evaluation().predict(rows))) == 3, "an evaluation evaluates every row"


def test_what_cannot_be_asked(letters: Path, whisper_of_bytes: Path, several: Path) -> None:
    model = glassformer.load(whisper_of_bytes, offline=True)
    rows = read_rows([{"file": {"array": [0.5] * 16_000, "sampling_rate": RATE_HZ}, "text": "a"}])
    with pytest.raises(ConfigError, match="this model knows one language; name a multilingual Whisper"):
        Transcribe(model, filters={"min_language_probability": 0.5}).encode(rows)
    with pytest.raises(ConfigError, match=r"of the language of the recordings: language=uk"):
        Transcribe(glassformer.load(letters, offline=True), filters={"min_language_probability": 0.5})
    with pytest.raises(ConfigError, match="language is 'xx'; this model knows en, uk"):
        LanguageFilter(glassformer.load(several, offline=True), "xx", 0.5)
    with pytest.raises(ConfigError, match="min_language_probability is 2; it must be a number from 0 to 1"):
        QualityFilters(min_language_probability=2)
    with pytest.raises(ConfigError, match="give min_language_probability too"):
        QualityFilters(language_model="openai/whisper-base")
