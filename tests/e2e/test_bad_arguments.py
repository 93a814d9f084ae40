"""What a model's methods and pipelines may be handed by mistake: an answer, or an error that says what to give."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer import DataError, hf
from glassformer.integrations.sklearn import Embedder
from tests.e2e.tiny_models import make_folder

LONG = "time flies " * 95_000
"""A megabyte."""
INPUTS: dict[str, Callable[[], Any]] = {
    "nothing": list,
    "an empty text": lambda: "",
    "empty texts": lambda: ["", ""],
    "None": lambda: None,
    "a list of None": lambda: [None],
    "a number": lambda: 3,
    "bytes": lambda: b"time",
    "a mapping": lambda: {"words": "time"},
    "a generator": lambda: (text for text in ["time", "flies"]),
    "a megabyte": lambda: [LONG],
}
GIVEN = ("nothing", "a generator")
"""What every call answers."""
HINTS = ("must be", "give at least one", "give a list", "shorten", "it must hold")

Calls = dict[str, Callable[[Any], Any]]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """Name → a call with texts."""
    root = tmp_path_factory.mktemp("models")
    one = {"id2label": {"0": "near"}, "label2id": {"near": 0}}
    encoder = make_folder(root / "encoder", "bert", task="feature-extraction")
    model = glassformer.load(encoder)
    cross = glassformer.load(make_folder(root / "cross", "bert", task="text-classification", **one))
    made: Calls = {
        "encode": model.encode,
        "encode_query": model.encode_query,
        "rank": lambda texts: cross.rank("time", texts),
        "Embedder": Embedder(str(encoder)).fit(["time"]).transform,
    }
    heads = {
        "text-classification": "bert",
        "token-classification": "bert",
        "feature-extraction": "bert",
        "text-generation": "gpt2",
        "translation": "t5",
    }
    for task, family in heads.items():
        options = {"max_new_tokens": 2, "do_sample": False} if family != "bert" else {}
        folder = str(make_folder(root / task, family, task=task))
        for name, make in (("", glassformer.pipeline), ("hf ", hf.pipeline)):
            made[name + task] = _listed(make(task, folder, **options))
    return made


def _listed(pipeline: Any) -> Callable[[Any], Any]:
    """A pipeline that gives lists, of streams too."""

    def call(texts: Any) -> Any:
        answers = pipeline(texts)
        return list(answers) if hasattr(answers, "__next__") else answers

    return call


NAMES = (
    *("encode", "encode_query", "rank", "Embedder", "text-classification", "token-classification"),
    *("feature-extraction", "text-generation", "translation", "hf text-classification", "hf token-classification"),
    *("hf feature-extraction", "hf text-generation", "hf translation"),
)
WHOLE = ("token-classification", "hf token-classification", "rank", "translation", "hf translation")
"""They read all of a megabyte: half a minute in windows of 16 tokens, or hundreds of gigabytes of scores."""


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_or_a_clear_error(calls: Calls, name: str, given: str) -> None:
    if given == "a megabyte" and name in WHOLE:
        given = "empty texts"
    try:
        answer = calls[name](INPUTS[given]())
    except DataError as error:
        assert given not in GIVEN or name == "Embedder", "it can be answered"
        assert any(hint in str(error) for hint in HINTS), error
    else:
        assert given not in ("None", "a list of None", "a number", "bytes"), answer
        assert len(answer) == (2 if given == "a generator" else len(answer))


def test_many_texts(calls: Calls) -> None:
    texts = ["time flies", "a banana"] * 50_000
    vectors = calls["encode"](texts)
    assert vectors.shape == (100_000, 8)
    np.testing.assert_allclose(vectors[-2:], calls["encode"](texts[:2]), atol=1e-5)


def test_threads_share_a_pipeline(calls: Calls) -> None:
    texts = [[f"time {word}"] for word in ("flies", "like", "an", "arrow", "fruit", "a")]
    for name in ("encode", "text-classification", "hf text-generation"):
        with ThreadPoolExecutor(3) as pool:
            together = list(pool.map(calls[name], texts))
        alone = [calls[name](text) for text in texts]
        assert str(together) == str(alone), name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_workers(calls: Calls) -> None:
    texts = [["time flies"], ["a banana"]]
    alone = [calls["encode"](text) for text in texts]  # the parent has run it, with its threads
    for worker, text in enumerate(texts):
        receive, send = get_context("fork").Pipe(duplex=False)
        process = get_context("fork").Process(target=lambda text=text, to=send: to.send(calls["encode"](text)))
        process.start()
        assert receive.poll(60), "the worker waits for ever"
        np.testing.assert_allclose(receive.recv(), alone[worker], atol=1e-6)
        process.join(10)


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")]
)
def test_a_prompt_beyond_all_memory(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = glassformer.load(make_folder(tmp_path, "t5", task="translation"))

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(model.network, "memory", fail)
    with pytest.raises(DataError, match="not enough memory for these prompts; shorten them"):
        model.generate(["time"], max_new_tokens=2)
    monkeypatch.setattr(model.network, "memory", lambda *_: [].pop())
    with pytest.raises(IndexError):
        model.generate(["time"], max_new_tokens=2)
