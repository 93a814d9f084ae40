"""Questions about tables: answers equal to the reference library's pipeline; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import hf
from glassformer.errors import ConfigError, DataError, UnsupportedError
from tests.e2e.tiny_models import make_folder

TABLE = {
    "year": ["1896", "1900", "1904", "1908"],
    "city": ["Athens", "Paris", "St. Louis", "London"],
    "nations": ["14", "24", "12", "22"],
}
QUESTIONS = ["where were the games in 1904 ?", "how many nations in 1908", "which city before 1900 ?"]


@pytest.fixture(scope="module", params=[0, 4], ids=["cells", "operators"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Path:
    """A small TAPAS with random weights that selects some cells, and a real vocabulary."""
    transformers = pytest.importorskip("transformers", reason="compares with it: pip install 'glassformer[reference]'")
    root = tmp_path_factory.mktemp("tapas")
    vocabulary = json.loads((minilm / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.get)
    words[1] = "[EMPTY]"
    (root / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    labels = {0: "NONE", 1: "SUM", 2: "AVERAGE", 3: "COUNT"} if request.param else None
    config = transformers.TapasConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        num_aggregation_labels=request.param,
        aggregation_labels=labels,
        no_aggregation_label_index=0 if labels else None,
    )
    torch.manual_seed(3)
    model = transformers.TapasForQuestionAnswering(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(root)
    transformers.TapasTokenizer(str(root / "vocab.txt")).save_pretrained(root)
    return root


@pytest.mark.parametrize("sequential", [False, True])
def test_answers_equal_the_reference_pipeline(folder: Path, sequential: bool) -> None:
    import transformers

    theirs = transformers.pipeline("table-question-answering", model=str(folder))
    ours = hf.pipeline("table-question-answering", model=str(folder))
    expected = theirs(table=TABLE, query=QUESTIONS, sequential=sequential)
    answers = ours(table=TABLE, query=QUESTIONS, sequential=sequential)
    assert json.loads(json.dumps(answers)) == json.loads(json.dumps(expected))
    assert any(answer["cells"] for answer in answers)
    assert ours(TABLE, QUESTIONS[0]) == answers[0] == ours({"table": TABLE, "query": QUESTIONS[0]})
    several = ours([{"table": TABLE, "query": question} for question in QUESTIONS])
    assert sequential or [dict(each) for each in several] == [dict(each) for each in answers]


def test_by_hand_as_books_do(folder: Path) -> None:
    tokenizer, model = hf.TapasTokenizer.from_pretrained(folder), hf.TapasForQuestionAnswering.from_pretrained(folder)
    inputs = tokenizer(table=TABLE, queries=QUESTIONS, padding="max_length", max_length=64, return_tensors="pt")
    outputs = model(**inputs)
    operators = (outputs.logits_aggregation.detach(),) if model.config.num_aggregation_labels else ()
    coordinates, *rest = tokenizer.convert_logits_to_predictions(inputs, outputs.logits.detach(), *operators)
    answers = glassformer.pipeline("table-question-answering", folder)({"table": TABLE, "query": QUESTIONS})
    assert coordinates == [answer.coordinates for answer in answers] and len(rest) == len(operators)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": TABLE}, "'query': 'a question'"),
        ({"table": TABLE, "query": ""}, "'query': 'a question'"),
        ({"table": TABLE, "query": []}, "'query': 'a question'"),
        ({"table": None, "query": "who?"}, "a table is a dict of columns"),
        ({"table": TABLE, "query": [1]}, "'query': 'a question'"),
        ("who?", "the input is 'w'"),
    ],
)
def test_what_is_no_question_about_a_table_is_said(folder: Path, given: Any, message: str) -> None:
    ask = glassformer.pipeline("table-question-answering", folder)
    with pytest.raises(DataError, match=message):
        ask(given)


def test_options_and_models_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_length is 0"):
        glassformer.pipeline("table-question-answering", folder, max_length=0)
    with pytest.raises(UnsupportedError, match="does not read tables; TAPAS does"):
        glassformer.pipeline("table-question-answering", make_folder(tmp_path, "bert", task="question-answering"))
    ask = glassformer.pipeline("table-question-answering", folder, max_length=24)
    assert "answer" in ask({"table": TABLE, "query": QUESTIONS[0]})
