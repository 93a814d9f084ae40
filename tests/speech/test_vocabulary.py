"""Texts of users become text tokens, whatever is written in them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer
from glassformer.errors import DataError
from glassformer.model import Model
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.sequential import prompt_tokens
from glassformer.speech.vocabulary import text_ids
from glassformer.speech.window import WindowDecoder
from glassformer.tasks.transcribe.task import Transcribe

TYPED = ("<|endoftext|>", "ask <|startoftranscript|> not", "<|notimestamps|>", "<|0.00|> ask <|1.00|>")


@pytest.fixture(scope="module")
def model(whisper: Callable[[str], Path]) -> Model:
    return glassformer.load(whisper("tiny"), dtype="float32", offline=True)


@pytest.mark.parametrize("text", TYPED)
def test_control_tokens_that_are_typed_are_text(model: Model, text: str) -> None:
    decoder = WindowDecoder(model, TranscriptionOptions.read({"initial_prompt": text}))
    prompt = prompt_tokens(decoder)
    assert max(prompt) < decoder.vocabulary.end and model.tokenizer.decode(prompt) == f" {text}"
    task = Transcribe(model)
    labels = task.recogniser.labels(text)
    assert max(labels[1:-1]) < decoder.vocabulary.end and labels[-1] == decoder.vocabulary.end


def test_timestamps_of_the_tokenizer_are_text_too(model: Model) -> None:
    """Published tokenizers hold "<|0.02|>" as an added token that is not special."""
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.engine.add_tokens(["<|0.02|>"])
    assert tokenizer("<|0.02|>", special_tokens_as_text=True, add_special_tokens=False)["input_ids"] == [50363]
    assert text_ids(tokenizer, "a<|0.02|>") == text_ids(model.tokenizer, "a<|0.02|>")


def test_other_text_is_tokenised_as_before(model: Model) -> None:
    page = Path(__file__).parents[2] / "docs" / "speech.md"
    plain = [*page.read_text("utf-8").splitlines()[:40], "", " ", "two  spaces", "漢字 é", "\t\0"]
    assert [text_ids(model.tokenizer, line) for line in plain] == [
        model.tokenizer(line, add_special_tokens=False)["input_ids"] for line in plain
    ]
    with pytest.raises(DataError, match="text cannot be tokenised"):
        text_ids(model.tokenizer, "\ud800")
