"""What a model says about a text, next to the logits of a plain forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.inspect.answer import MOST, AnswerChoice, ModelAnswer, answer
from glassformer.model import Model
from tests.e2e.tiny_models import make_folder

TEXT = "time flies like an arrow"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: make_folder(root / name, name) for name in ("bert", "gpt2")}


def asked(folder: Path, task: str, *texts: str) -> tuple[Model, ModelAnswer, Any]:
    """A model, its answer, and the output of a plain pass."""
    model = glassformer.load(folder, task=task)
    reply = answer(model.inspect(*texts))
    assert reply is not None
    with torch.no_grad():
        return model, reply, model(**model.tokenizer(*texts, return_tensors="pt"))


def test_a_class_of_the_text(folders: dict[str, Path]) -> None:
    model, reply, output = asked(folders["bert"], "text-classification", TEXT)
    shares = output.logits[0].softmax(-1)
    best = int(shares.argmax())
    names = model.config.id2label
    assert reply.sentence == f"{names[best]}: {float(shares[best]):.0%}"
    assert {choice.target: choice.share for choice in reply.choices} == pytest.approx(
        {names[i]: float(share) for i, share in enumerate(shares)}, abs=1e-6
    )
    assert [choice.share for choice in reply.choices] == sorted((c.share for c in reply.choices), reverse=True)


def test_the_label_of_each_token_but_those_outside(folders: dict[str, Path]) -> None:
    model, reply, output = asked(folders["bert"], "token-classification", TEXT)
    tokens, shares = model.inspect(TEXT).streams["text"], output.logits[0].softmax(-1)
    expected = [
        AnswerChoice(f"{token.text}: LABEL_{best}", pytest.approx(share, abs=1e-6), f"LABEL_{best}", at)
        for at, (token, share, best) in enumerate(zip(tokens, *(x.tolist() for x in shares.max(-1)), strict=True))
        if not token.special
    ]
    assert reply.choices == expected
    assert reply.sentence == " · ".join(choice.name for choice in expected)


def test_the_span_of_an_answer_is_the_one_that_is_attributed(folders: dict[str, Path]) -> None:
    model, reply, _ = asked(folders["bert"], "question-answering", "time flies", "a banana")
    target = model.inspect("time flies", "a banana").attribute().target
    assert reply.sentence == f"{target.name}: {target.probability:.0%}" and not reply.choices


def test_the_next_token_and_what_fills_a_gap(folders: dict[str, Path]) -> None:
    model, reply, output = asked(folders["gpt2"], "text-generation", TEXT)
    shares = output.logits[0, -1].softmax(-1)
    assert [choice.share for choice in reply.choices] == pytest.approx(shares.topk(MOST).values.tolist(), abs=1e-6)
    assert reply.sentence.startswith(f"“{reply.choices[0].name}” after “")
    assert {choice.at for choice in reply.choices} == {output.logits.shape[1] - 1}
    blank = glassformer.load(folders["bert"]).inspect(TEXT).names().blank
    assert blank is not None
    model, reply, output = asked(folders["bert"], "fill-mask", f"time {blank.text} like an arrow")
    shares = output.logits[0, 2].softmax(-1)
    assert [choice.share for choice in reply.choices] == pytest.approx(shares.topk(MOST).values.tolist(), abs=1e-6)
    assert reply.choices[0].at == 2 and f"at “{blank.text}”" in reply.sentence
    assert answer(model.inspect(TEXT)) is None, "there is no gap"


def test_a_model_without_a_head_has_no_answer(folders: dict[str, Path]) -> None:
    assert answer(glassformer.load(folders["bert"]).inspect(TEXT)) is None
