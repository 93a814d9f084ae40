"""pipeline(task, model): names, verbs, languages, what is loaded, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError
from glassformer.task_names import TASK_ALIASES
from glassformer.tasks import PIPELINES, Pipeline, pipeline
from tests.e2e.tiny_models import make_folder

Folders = Callable[..., Path]


def test_one_function_under_two_names() -> None:
    assert glassformer.pipeline is pipeline
    writing = {"text-generation", "summarization", "translation", "text2text-generation"}
    reading = {"fill-mask", "text-classification", "token-classification", "feature-extraction"}
    reading |= {
        "question-answering",
        "zero-shot-classification",
        "document-question-answering",
        "table-question-answering",
        "passage-reading",
    }
    looking = {"image-classification", "image-feature-extraction", "zero-shot-image-classification"}
    looking |= {"visual-question-answering"}
    listening = {"audio-classification", "audio-frame-classification", "automatic-speech-recognition"}
    assert set(PIPELINES) == writing | reading | looking | listening
    with pytest.raises(AttributeError):
        glassformer.tasks.nosuch  # noqa: B018


def test_verbs_and_options(folder_of: Folders) -> None:
    t5 = folder_of("t5", "T5ForConditionalGeneration")
    for verb, task in TASK_ALIASES.items():
        if task in ("summarization", "translation"):
            found = pipeline(verb, t5, max_new_tokens=3)
            assert (type(found), found.task) == (PIPELINES[task], task)
    found = pipeline("summarise", str(t5), dtype="float64", device="cpu", batch_size=3)
    assert found.model.dtype == torch.float64 and found.batch_size == 3 and isinstance(found, Pipeline)
    assert "Summarization('summarization', Model(t5" in repr(found)
    model = glassformer.load(t5)
    assert pipeline("translation_en_to_fr", model).model is model


def test_a_checkpoint_of_another_head_lends_its_body(folder_of: Folders) -> None:
    """The tied head of a decoder is its embedding, so a bare body is enough."""
    body = folder_of("llama", "LlamaModel", tie_word_embeddings=True)
    assert pipeline("text-generation", body, max_new_tokens=2).model.task == "text-generation"


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (
            "sumarization",
            "the task 'sumarization'; nearest: 'summarization.*; there are, in short: classify, .*in full: text-class",
        ),
        (
            "pre-training",
            r"'pre-training'; load\(…, task='pre-training'\) gives a model with that head.*; there are, in short: ",
        ),
        ("next-sentence-prediction", r"task='next-sentence-prediction'\)"),
        ("", "there is no pipeline for the task ''"),
        ("translation_en", "translation_XX_to_YY"),
        (5, "there is no pipeline for the task"),
        (None, "there is no pipeline for the task"),
    ],
)
def test_tasks_that_there_are_not(task: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        pipeline(task, "anything")


def test_bad_models(tmp_path: Path) -> None:
    gpt2 = make_folder(tmp_path / "gpt2", "gpt2")
    with pytest.raises(DataError, match=r"was given no model, and fetches none that you did not name; .*'openai"):
        pipeline("text-generation")
    with pytest.raises(DataError, match="no such folder"):
        pipeline("text-generation", tmp_path / "nowhere")
    with pytest.raises(DataError, match="the model is 5"):
        pipeline("text-generation", 5)  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"holds no config\.json"):
        pipeline("text-generation", tmp_path / "empty")
    with pytest.raises(ConfigError, match="dtype is an option of load"):
        pipeline("text-generation", glassformer.load(gpt2), dtype="float32")
    with pytest.raises(UnsupportedError, match="loaded for 'feature-extraction'; for 'text-generation' load it with"):
        pipeline("text-generation", glassformer.load(gpt2, task="embed"))
    with pytest.raises(ConfigError, match="takes no 'max_new_token'; nearest: 'max_new_tokens'"):
        pipeline("text-generation", gpt2, max_new_token=3)
