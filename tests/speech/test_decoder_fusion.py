"""Rescoring: the n best texts of a search without the language model, in the order of all that is known of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import ConfigError, Model
from glassformer.generation.decoding import Generated
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.window import WindowDecoder
from glassformer.speech.word_fusion import FusedWords
from tests.tasks.transcribe.tones import letters_folder, spoken, tokens_of, whisper_folder

PLAIN = TranscriptionOptions(num_beams=6, temperature=0.0, timestamps=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(whisper_folder(tmp_path_factory.mktemp("whisper")), offline=True)


def n_best(decoder: WindowDecoder, weight: float = 0.0) -> tuple[list[tuple[tuple[int, ...], float]], str]:
    """The texts of a search with their scores, and the one that is taken."""
    memory = decoder.encode(torch.randn(1, 16, 200, generator=torch.Generator().manual_seed(0)))
    found: list[tuple[tuple[int, ...], float]] = []
    search = decoder._search

    def kept(*given: object) -> object:
        result = search(*given)  # type: ignore[arg-type]
        found.extend((each.tokens, each.score + each.language.weighed(weight, 0.0)) for each in result[0])
        return result

    decoder._search = kept  # type: ignore[assignment, method-assign]
    return found, decoder.decode(memory, "en")[0].text


@pytest.mark.parametrize("kind", ["words", "tokens"])
def test_what_is_added_to_each_text(model: Model, kind: str) -> None:
    texts = [" ab ba", " ba.", " ab ab ba"]
    rows = [model.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    ngrams = train_ngram([["ab", "ba"], ["ba"]], 2) if kind == "words" else tokens_of(model)
    options = replace(PLAIN, language_model=ngrams, alpha=0.7, beta=2.0, rescore=True)
    decoder = WindowDecoder(model, options)
    end, longest = decoder.vocabulary.end, max(map(len, rows))
    ids = torch.tensor([[9, 9, *row, *[end] * (longest + 1 - len(row))] for row in rows])
    active = torch.arange(longest + 1) <= torch.tensor([[len(row)] for row in rows])
    scores = torch.zeros(3)
    found = decoder._fusion.of_texts(Generated(ids, 2, scores=scores, active=active))
    for text, row, said in zip(texts, rows, found, strict=True):
        words = text.replace(".", "").split()
        added = FusedWords(ngrams, 0.7, 2.0).of_text(words)
        if kind == "tokens":
            added = 0.7 * ngrams.score(model.tokenizer.convert_ids_to_tokens(row))
        assert said.weighed(0.7, 2.0) == pytest.approx(added, rel=1e-5)


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_the_search_is_the_same_and_its_best_text_is_taken(model: Model, weight: float) -> None:
    """At weight 0 the result is that of plain beam search, exactly."""
    plain, text = n_best(WindowDecoder(model, PLAIN))
    options = replace(PLAIN, language_model=tokens_of(model), alpha=weight, rescore=True)
    rescored, chosen = n_best(WindowDecoder(model, options), weight)
    assert [tokens for tokens, _ in rescored] == [tokens for tokens, _ in plain] and len(plain) > 1
    assert (rescored == plain, chosen == text) == ((True, True) if weight == 0 else (False, chosen == text))
    best = max(rescored, key=lambda each: each[1] / len(each[0]))[0]
    assert chosen == WindowDecoder(model, PLAIN).text(best).strip()


def test_letters_are_rescored_by_words(tmp_path: Path) -> None:
    model = glassformer.load(letters_folder(tmp_path / "letters"), offline=True)
    sound = spoken("abab", np.random.default_rng(0))
    heard = model.transcribe(sound, sample_rate_hz=16_000, num_beams=8)
    words = train_ngram([["a"], ["b", "a"]], 2)
    same = model.transcribe(
        sound, sample_rate_hz=16_000, num_beams=8, language_model=words, alpha=0.0, beta=0.0, rescore=True
    )
    assert same == heard
    other = model.transcribe(
        sound, sample_rate_hz=16_000, num_beams=8, language_model=words, alpha=50.0, beta=0.0, rescore=True
    )
    assert other.segments[0].avg_logprob != heard.segments[0].avg_logprob


def test_what_cannot_be_rescored() -> None:
    words = train_ngram([["a"]], 1)
    for options in ({"rescore": True}, {"rescore": True, "language_model": words, "num_beams": 1}):
        with pytest.raises(ConfigError, match="give language_model, and num_beams from 2 up"):
            TranscriptionOptions.read(options)


def test_samples_of_a_fallback_are_rescored_too(model: Model) -> None:
    memory = WindowDecoder(model, PLAIN).encode(torch.randn(2, 16, 200, generator=torch.Generator().manual_seed(0)))
    ngrams = tokens_of(model)
    sampled = replace(PLAIN, temperature=0.6, best_of=4)
    plain = WindowDecoder(model, sampled).decode(memory, "en")
    same = replace(sampled, language_model=ngrams, alpha=0.0, rescore=True)
    assert WindowDecoder(model, same).decode(memory, "en") == plain
    other = WindowDecoder(model, replace(same, alpha=20.0)).decode(memory, "en")
    assert [each.tokens for each in other] != [each.tokens for each in plain]
