"""Evaluation of answers: the search's bound, the reader alone with the right passage, and the whole system."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from glassformer.cli.app import main
from glassformer.errors import DataError
from glassformer.reports.page import report_page
from glassformer.retrieval import Retriever, evaluation, index_folder
from glassformer.retrieval.answer_evaluation import ALONE, BOUND, WHOLE, ReaderEvaluation, evaluate_answers
from glassformer.retrieval.evaluation import RetrievalEvaluation, evaluate_store
from glassformer.retrieval.options import RetrievalOptions
from glassformer.retrieval.queries import LabelledQuery, read_queries
from glassformer.retrieval.reader import BoundaryScore, PassageSpan, RankedPassage, Reader
from tests.e2e.tiny_models import make_folder
from tests.retrieval.encoders import write_documents

SQUAD = {
    "question": "When was the lighthouse built?",
    "context": "The lighthouse was built in 1874. It stands on a rock.",
    "answers": [{"text": "1874", "answer_start": 28}, {"text": "in 1874", "answer_start": 25}],
}
ROWS = [
    {**SQUAD, "answer": None},
    {"question": "Which fruit is green?", "answer": "pears", "context": None, "answers": None},
    {"question": "Who saw the light?", "answer": "a ship", "context": None, "answers": None},
    {"question": "xyzzy lighthouse", "answer": "nowhere at all", "context": None, "answers": None},  # not in the store
    {**SQUAD, "question": "How high is it?", "answers": [], "answer": None},  # the data say: no answer
]


class Words(Reader):
    """Answers with one of some words: that which the first passages have, or nothing."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def read_with_boundaries(
        self, question: str, passages: Sequence[RankedPassage], *, top: int = 1
    ) -> tuple[list[PassageSpan], list[list[BoundaryScore]]]:
        self.seen.append([passage.text for passage in passages])
        text = next((word for word in ("1874", "Pears", "ship") if word in self.seen[-1][0]), "")
        return [PassageSpan(text=text, passage=0 if text else None, score=0.0, span_score=0.0)], []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    index_folder(write_documents(folder / "documents"), folder / "store")
    return folder / "store"


@pytest.fixture(scope="module")
def queries() -> list[LabelledQuery]:
    return read_queries(ROWS)


@pytest.fixture(scope="module")
def report(store: Path, queries: list[LabelledQuery]) -> ReaderEvaluation:
    return evaluate_answers(Retriever.open(store), queries, Words(), RetrievalOptions(top=2), resamples=200)


def test_true_answers_of_rows(queries: list[LabelledQuery]) -> None:
    assert [query.answers for query in queries] == [
        ("1874", "in 1874"), ("pears",), ("a ship",), ("nowhere at all",), (),
    ]  # fmt: skip
    assert [bool(query.context) for query in queries] == [True, False, False, False, True]


def test_three_systems(report: ReaderEvaluation) -> None:
    assert [x.name for x in report.systems] == [BOUND, ALONE, WHOLE]
    assert (report.question_count, report.top, report.method, report.without_passage) == (4, 2, "bm25", 1)
    bound, alone, whole = report.systems
    assert (bound.exact_match.value, bound.f1.value, bound.mean_ms) == (0.75, 0.75, None)
    assert (alone.exact_match.value, alone.f1.value) == (0.75, 0.75)  # "a ship" without its article
    assert whole.exact_match.value <= 0.75 and whole.mean_ms is not None and alone.mean_ms is not None
    assert report.cost.value == pytest.approx(whole.f1.value - alone.f1.value)
    assert bound.f1.low is not None and bound.f1.low < 0.75


def test_what_the_reader_is_given(store: Path, queries: list[LabelledQuery]) -> None:
    reader = Words()
    evaluate_answers(Retriever.open(store), queries, reader, RetrievalOptions(top=2), resamples=2)
    given = iter(reader.seen)
    assert next(given) == [SQUAD["context"]]  # the context of the row, whatever passages the store makes of it
    assert len(next(given)) <= 2
    assert next(given)[0].startswith("Apples are red. Pears are green.")


def test_a_right_passage_that_the_search_misses(store: Path) -> None:
    row = {"question": "Which price?", "answer": "Pears are green", "context": None, "answers": None}
    reader = Words()
    report = evaluate_answers(Retriever.open(store), read_queries([row]), reader, RetrievalOptions(top=1), resamples=2)
    assert reader.seen[0][0].startswith("Apples are red.")  # looked up by the words of the answer
    bound, alone, _ = report.systems
    assert bound.f1.value == 0 and alone.f1.value > 0 and report.without_passage == 0


def test_no_answers(store: Path) -> None:
    listed = read_queries([{"question": "Are plums blue?", "file": "notes/garden.txt"}])
    with pytest.raises(DataError, match="no query has an answer"):
        evaluate_answers(Retriever.open(store), listed, Words())


def test_the_command_shows_all_in_one_report(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "queries.jsonl"
    listed.write_text("\n".join(json.dumps(row) for row in ROWS[:3]))
    monkeypatch.setattr(evaluation, "load_reader", lambda options, language: Words())
    report = evaluate_store(store, listed, RetrievalOptions(top=3), reader="words")
    assert report.answers is not None and report.answers.top == 3
    assert RetrievalEvaluation.from_dict(report.to_dict()) == report
    assert {"exact_match", "f1", "recall"} <= set(report.computed)
    shown = str(report)
    assert "the whole system" in shown and "the reader alone" in shown and "F1" in shown
    assert "the whole system" in report_page(report)
    monkeypatch.undo()
    model = make_folder(tmp_path / "qa", "bert", task="question-answering", max_position_embeddings=64)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(store), "--queries", str(listed), "--reader", str(model), "--top", "2", "--json"])
    assert not ended.value.code
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert (answers["top"], answers["question_count"]) == (2, 3) and len(answers["systems"]) == 3
