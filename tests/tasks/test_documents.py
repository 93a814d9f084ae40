"""Answers of a page are words of it; what the reference library answers is compared in `tests/hf`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError
from glassformer.tasks.documents import DocumentQuestionAnswering
from tests.e2e.tiny_models import make_folder

WORDS = "time flies like an arrow . fruit flies like a banana .".split()
PAGE = [(word, [20 * i, 10, 20 * i + 15, 30]) for i, word in enumerate(WORDS)]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> DocumentQuestionAnswering:
    sizes = {"max_2d_position_embeddings": 1024, "max_position_embeddings": 32}
    folder = make_folder(tmp_path_factory.mktemp("pages") / "layoutlm", "layoutlm", task="question-answering", **sizes)
    engine = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    engine.post_processor = TemplateProcessing(single=pair[:14], pair=pair, special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    engine.save(str(folder / "tokenizer.json"))
    pipeline = glassformer.pipeline("document-question-answering", folder)
    assert isinstance(pipeline, DocumentQuestionAnswering)
    return pipeline


def test_answers_are_words_of_the_page(ask: DocumentQuestionAnswering) -> None:
    (best,) = ask(question="a banana", word_boxes=PAGE)
    assert best.answer == " ".join(WORDS[best.start : best.end + 1]) and 0 < best.score <= 1
    several = ask({"question": "a banana", "word_boxes": PAGE}, top_k=5, max_answer_len=1)
    assert all(each.start == each.end for each in several)
    assert [each.score for each in several] == sorted((each.score for each in several), reverse=True)
    assert ask([{"question": "a banana", "word_boxes": PAGE}] * 2)[1] == [best]


def test_where_words_stand_counts(ask: DocumentQuestionAnswering) -> None:
    with torch.no_grad():
        ask.model.network.page.x.weight.normal_(std=3.0)
    moved = [(word, [1000 - right, top, 1000 - left, bottom]) for word, (left, top, right, bottom) in PAGE]
    assert ask(question="time", word_boxes=PAGE) != ask(question="time", word_boxes=moved)


def test_a_long_page_is_read_in_windows(ask: DocumentQuestionAnswering) -> None:
    answers = ask(question="time", word_boxes=PAGE * 9, top_k=200, max_answer_len=1, doc_stride=4)
    assert {each.start for each in answers} == set(range(9 * len(PAGE))), "every word is in some window"
    assert any(
        not each.answer for each in ask(question="time", word_boxes=PAGE, top_k=99, handle_impossible_answer=True)
    )


def test_a_question_is_cut_after_the_tokens_it_may_have(ask: DocumentQuestionAnswering) -> None:
    cut = ask(question="a banana time time time", word_boxes=PAGE, max_question_len=2)
    assert cut == ask(question="a banana", word_boxes=PAGE) != ask(question="a banana time time time", word_boxes=PAGE)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"question": "time"}, UnsupportedError, "from an OCR program"),
        ({"question": "time", "word_boxes": []}, DataError, "must be a list of"),
        ({"question": "time", "word_boxes": ["time"]}, DataError, "must be a list of"),
        ({"question": " ", "word_boxes": PAGE}, DataError, "'question': 'Who"),
        ({"question": "time", "word_boxes": [("a", [5, 5, 5000, 6])]}, DataError, "thousandths of the page"),
        ({"question": "time", "word_boxes": PAGE, "max_answer_len": 0}, ConfigError, "from 1 up"),
        ({"question": "time", "word_boxes": PAGE, "max_question_len": 0}, ConfigError, "from 1 up"),
    ],
)
def test_what_is_refused(ask: DocumentQuestionAnswering, given: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        ask(**given)


def test_a_question_that_leaves_no_room_is_refused_with_the_numbers(ask: DocumentQuestionAnswering) -> None:
    with pytest.raises(
        DataError, match=r"the question has 40 tokens; in a window of 32 with a stride of 16 it may have"
    ):
        ask(question="flies " * 40, word_boxes=PAGE)


def test_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="LayoutLM does"):
        glassformer.pipeline(
            "document-question-answering", make_folder(tmp_path / "bert", "bert", task="question-answering")
        )


def test_an_answer_is_given_once(ask: DocumentQuestionAnswering) -> None:
    answers = ask(question="time", word_boxes=PAGE * 9, top_k=200, max_answer_len=2, doc_stride=10)
    places = [(each.start, each.end) for each in answers]
    assert len(set(places)) == len(places)
