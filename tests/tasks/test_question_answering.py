"""The answers of the question-answering pipeline are those of an exhaustive search, in windows and without."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError, hf
from glassformer.models import FAMILIES
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.span import keep_threshold
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder

QUESTION, CONTEXT = "fruit flies", "time flies like an arrow . fruit flies like a banana"


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder = make_folder(tmp_path_factory.mktemp("qa"), "bert", task="question-answering", max_position_embeddings=40)
    model = glassformer.load(folder)
    perturbed(model.network)
    return glassformer.pipeline("question-answering", model)


def exhaustive(answering: Pipeline, longest: int) -> list[tuple[float, str]]:
    """Every span of the context with its probability, best first."""
    tokenizer = answering.model.tokenizer
    context = tokenizer(CONTEXT, add_special_tokens=False).input_ids
    begin = tokenizer(QUESTION, CONTEXT).sequence_ids(0).index(1)
    with torch.no_grad():
        output = answering.model(**tokenizer(QUESTION, CONTEXT, return_tensors="pt"))
    allowed = [0, *range(begin, begin + len(context))]
    starts, ends = (
        {token: float(share) for token, share in zip(allowed, logits[0, allowed].softmax(-1), strict=True)}
        for logits in (output.start_logits, output.end_logits)
    )
    words = CONTEXT.split()
    spans = [
        (starts[a + begin] * ends[b + begin], " ".join(words[a : b + 1]))
        for a, b in product(range(len(context)), repeat=2)
        if a <= b < a + longest
    ]
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("longest", [1, 4])
def test_the_best_spans(answering: Pipeline, longest: int) -> None:
    answers = answering({"question": QUESTION, "context": CONTEXT}, top_k=3, max_answer_len=longest)
    expected = exhaustive(answering, longest)
    for answer, (score, text) in zip(answers, expected, strict=False):
        assert answer["score"] == pytest.approx(score, abs=1e-6) and answer["answer"] == text
        assert CONTEXT[answer.start : answer.end] == text


def test_forms_of_the_input(answering: Pipeline) -> None:
    row = {"question": QUESTION, "context": CONTEXT}
    one = answering(row)
    assert one == answering(question=QUESTION, context=CONTEXT) == answering([row])[0]
    first, other = answering(question=[QUESTION, "time"], context=CONTEXT)
    assert first.answer == one.answer and first.score == pytest.approx(one.score, abs=1e-6)
    assert other == answering(question="time", context=CONTEXT) | {"score": pytest.approx(other.score, abs=1e-6)}
    assert answering.texts([row]) == [one.answer]
    assert answering(row, top_k=2)[0].answer == one.answer


def test_windows_find_what_the_whole_context_holds(answering: Pipeline) -> None:
    row = {"question": "time", "context": "banana . " * 20 + CONTEXT}
    answers = answering(row, max_seq_len=16, doc_stride=4, top_k=5)
    assert len(answers) == 5 and all(row["context"][a.start : a.end] == a.answer for a in answers)
    assert answers == sorted(answers, key=lambda a: -a.score)


def test_a_question_is_cut_after_the_tokens_it_may_have(answering: Pipeline) -> None:
    row = {"question": "fruit flies like a banana", "context": CONTEXT}
    cut, short = answering(row, max_question_len=2), answering({**row, "question": "fruit flies"})
    assert cut == short != answering(row)
    assert answering(row, max_question_len=5) == answering(row)
    there = hf.pipeline("question-answering", answering.model, max_question_len=2)
    assert there(**row)["score"] == pytest.approx(short.score)
    with pytest.raises(ConfigError, match="max_question_len is 0"):
        answering(row, max_question_len=0)
    long = {**row, "question": "time flies like an arrow " * 50}
    with pytest.raises(DataError, match="shorten it"):
        answering(long)
    assert answering(long, max_question_len=3) == answering({**row, "question": "time flies like"})


def test_no_answer_is_one_where_it_is_asked_for(answering: Pipeline) -> None:
    row: dict[str, Any] = {"question": QUESTION, "context": CONTEXT}
    several = answering(row, handle_impossible_answer=True, top_k=200)
    assert sum(answer.answer == "" for answer in several) == 1
    assert all(answer.answer for answer in answering(row, top_k=200))


def test_what_cannot_be_asked_is_refused(answering: Pipeline) -> None:
    for row in ({"question": QUESTION}, {"question": QUESTION, "context": 3}, {}):
        with pytest.raises(DataError, match=r"it must be \{'question': 'Who"):
            answering(row)
    with pytest.raises(DataError, match="the context is ' '; it must have a word"):
        answering({"question": QUESTION, "context": " "})
    with pytest.raises(DataError, match="text 1: the question is ''; it must have a word"):
        answering(question=[QUESTION, ""], context=CONTEXT)
    with pytest.raises(DataError, match="2 questions and 1 contexts"):
        answering(question=["a", "b"], context=["c"])
    with pytest.raises(ConfigError, match="max_answer_len is 0"):
        answering({"question": QUESTION, "context": CONTEXT}, max_answer_len=0)
    with pytest.raises(ConfigError, match="takes no 'top'"):
        answering({"question": QUESTION, "context": CONTEXT}, top=1)
    layout = glassformer.Model.from_config(FAMILIES["layoutlm"].tiny, task="question-answering")
    with pytest.raises(UnsupportedError, match="with their places on a page"):
        glassformer.pipeline("question-answering", layout)


def test_a_question_that_leaves_no_room_is_refused_with_the_numbers(answering: Pipeline) -> None:
    with pytest.raises(
        DataError, match=r"the question has 60 tokens; in a window of 40 with a stride of 13 it may have 26"
    ):
        answering(question="flies " * 60, context=CONTEXT)


@pytest.fixture(scope="module")
def in_pieces(minilm: Path) -> Pipeline:
    """A tokenizer that cuts rare words into several tokens, and a head that is sure of itself."""
    torch.manual_seed(1)
    config = FAMILIES["bert"].tiny | {"vocab_size": 30522, "max_position_embeddings": 128}
    model = glassformer.Model.from_config(config, task="question-answering").eval()
    perturbed(model.network)
    model._tokenizer = glassformer.load(minilm).tokenizer
    return glassformer.pipeline("question-answering", model)


RARE = "Angela Merkel was the chancellor of Germany; antidisestablishmentarianism flourished in Bremen."


def test_an_answer_is_given_once_with_the_sum_of_its_probabilities(in_pieces: Pipeline) -> None:
    """As the reference library since 4.53: the best 2k + 10 spans of tokens, those of the same words added up."""
    answers = in_pieces(question="Who?", context=RARE, top_k=6)
    places = [(answer.start, answer.end) for answer in answers]
    assert len(set(places)) == len(places) == 6
    encoding = in_pieces.model.tokenizer("Who?", RARE)
    with torch.no_grad():
        output = in_pieces.model(**in_pieces.model.tokenizer("Who?", RARE, return_tensors="pt"))
    allowed = torch.tensor([text == 1 for text in encoding.sequence_ids(0)])
    allowed[0] = True
    hidden = [logits[0].masked_fill(~allowed, -torch.inf) for logits in (output.start_logits, output.end_logits)]
    starts, ends = (logits.softmax(-1).tolist() for logits in hidden)
    tokens = range(1, len(starts))
    spans = sorted(((starts[a] * ends[b], a, b) for a in tokens for b in tokens if a <= b < a + 15), reverse=True)
    words: dict[int, list[int]] = {}
    for token, word in enumerate(encoding.word_ids(0)):
        if allowed[token] and word is not None:
            words.setdefault(word, []).extend(encoding.offsets(0)[token])
    sums: dict[tuple[int, int], float] = {}
    for score, a, b in spans[: 2 * 6 + 10]:
        place = min(words[encoding.word_ids(0)[a]]), max(words[encoding.word_ids(0)[b]])
        sums[place] = sums.get(place, 0.0) + score
    expected = sorted(sums.items(), key=lambda each: -each[1])[:6]
    assert [(answer.start, answer.end) for answer in answers] == [place for place, _ in expected]
    assert [answer.score for answer in answers] == pytest.approx([score for _, score in expected], abs=1e-6)
    assert len(sums) < 2 * 6 + 10  # some were merged


def test_an_answer_of_two_windows_is_given_once(answering: Pipeline) -> None:
    row = {"question": "time", "context": "banana . " * 20 + CONTEXT}
    answers = answering(row, max_seq_len=16, doc_stride=10, top_k=200, max_answer_len=2)
    places = [(answer.start, answer.end) for answer in answers]
    assert len(set(places)) == len(places)


def logit_difference(answering: Pipeline) -> float:
    """The score of "no answer" minus that of the best span, of the row of these tests."""
    tokenizer = answering.model.tokenizer
    begin = tokenizer(QUESTION, CONTEXT).sequence_ids(0).index(1)
    with torch.no_grad():
        output = answering.model(**tokenizer(QUESTION, CONTEXT, return_tensors="pt"))
    start, end = output.start_logits[0], output.end_logits[0]
    last = len(start) - 1  # [SEP]
    best = max(float(start[a] + end[b]) for a in range(begin, last) for b in range(a, min(last, a + 15)))
    return float(start[0] + end[0]) - best


def test_a_tuned_threshold_decides_whether_there_is_an_answer(answering: Pipeline) -> None:
    row: dict[str, Any] = {"question": QUESTION, "context": CONTEXT}
    config, difference = answering.model.config, logit_difference(answering)
    best, *_, least = answering(row, top_k=99)
    try:
        for threshold, empty in ((difference - 0.1, True), (difference + 0.1, False)):
            keep_threshold(answering.model, threshold)
            assert (answering(row).answer == "") is empty  # by default, as there is a threshold
            assert answering(row, handle_impossible_answer=False) == best
            first, *others = answering(row, top_k=99)
            assert (first.answer == "") is empty and (best in others) is empty
            assert [answer.answer for answer in (first, *others)].count("") == 1
            there = hf.pipeline("question-answering", answering.model)
            assert there(**row)["answer"] == first.answer
        keep_threshold(answering.model, math.inf)  # each question of its validation rows had an answer
        assert all(answer.answer for answer in answering(row, top_k=99))
        assert answering(row, top_k=99, handle_impossible_answer=True)[0] == best != least
    finally:
        del config["task_specific_params"]


def test_a_context_without_a_token_has_no_answer(in_pieces: Pipeline) -> None:
    invisible = {"question": QUESTION, "context": "\u200b\u200d"}
    assert not in_pieces.model.tokenizer(invisible["context"], add_special_tokens=False).input_ids
    assert in_pieces(invisible).answer == "" and [a.answer for a in in_pieces(invisible, top_k=3)] == [""]


def test_more_answers_than_there_are(answering: Pipeline) -> None:
    answers = answering({"question": QUESTION, "context": "a banana"}, top_k=10_000)
    assert sorted(answer.answer for answer in answers) == ["a", "a banana", "banana"]
