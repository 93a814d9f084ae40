"""The nearest sentence: by meaning and words together, and told from a passage that has nothing to do with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import glassformer
from glassformer.model import Model
from glassformer.retrieval import Answer, Retriever, ask, index_folder
from glassformer.retrieval.answer import UNANSWERED
from glassformer.retrieval.bm25 import inverse_frequency
from glassformer.retrieval.nearest_sentence import LITTLE, nearest_sentence
from glassformer.retrieval.options import AskOptions
from tests.retrieval.encoders import make_encoder, write_documents

MILL = {
    "people.md": "# The mill\n\nThe board is chaired by Helena Strand. The mill employs 87 people.\n",
    "history.md": "# History\n\nThe mill was built in 1902. It burned down in 1931, and was built again.\n",
    "paper.md": "# Paper\n\nThe mill makes paper for books. Most of it is sold in the north.\n",
    "river.md": "# The river\n\nThe river Aln drives two turbines. In summer it is low.\n",
}
CHAIR = "Who chairs the board of the mill?"


class Cosines:
    """An embedder whose sentences have these cosines with any question."""

    def __init__(self, cosines: Sequence[float]) -> None:
        self.cosines = np.array(cosines)

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        assert len(texts) == len(self.cosines)
        return np.stack([self.cosines, np.sqrt(1 - self.cosines**2)], axis=1)

    def query(self, question: str) -> np.ndarray:
        return np.array([1.0, 0.0], np.float32)


@pytest.fixture(scope="module")
def mill(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("mill")
    index_folder(write_documents(folder / "notes", MILL), folder / "store")
    return Retriever.open(folder / "store")


def test_meaning_and_words_are_weighed_together(mill: Retriever) -> None:
    passage = mill.search(CHAIR).matches[0]
    found = nearest_sentence(CHAIR, passage, mill.store, Cosines([0.4, 0.6]))  # type: ignore[arg-type]
    assert passage.text[found.start : found.stop] == "The board is chaired by Helena Strand."
    idf = {count: inverse_frequency(4, count) for count in (1, 3, 4)}  # chair and board; mill; the
    share = (2 * idf[1] + idf[4]) / (2 * idf[1] + idf[3] + idf[4])
    assert found.word_share == pytest.approx(share)
    assert found.similarity == pytest.approx(0.4) and found.score == pytest.approx((0.4 + share) / 2)
    by_words = ask(CHAIR, mill)
    assert by_words.answer == "The board is chaired by Helena Strand." and by_words.similarity is None
    assert by_words.score == by_words.word_share == round(share, 4)


@pytest.mark.parametrize(
    ("question", "cosine", "little"),
    [
        ("What is the capital of Mongolia?", LITTLE - 0.01, True),
        ("What is the capital of Mongolia?", LITTLE + 0.01, False),
        ("What is the mill of Mongolia?", LITTLE - 0.01, False),
    ],
)
def test_nothing_in_common(mill: Retriever, question: str, cosine: float, little: bool) -> None:
    passage = mill.search(CHAIR).matches[0]
    embedder = Cosines([cosine, cosine])
    assert nearest_sentence(question, passage, mill.store, embedder).has_little_in_common is little  # type: ignore[arg-type]


def test_a_question_that_the_documents_do_not_answer(mill: Retriever) -> None:
    answer = ask("What is the capital of Mongolia?", mill)
    assert answer.answer and UNANSWERED in answer.notes and UNANSWERED in str(answer)
    assert UNANSWERED not in ask(CHAIR, mill).notes


def test_with_a_real_encoder(minilm: Path, tmp_path: Path) -> None:
    model = glassformer.load(minilm)
    index_folder(write_documents(tmp_path / "notes", MILL), tmp_path / "store", model)
    retriever = Retriever.open(tmp_path / "store", model=str(minilm))
    answer = ask(CHAIR, retriever)
    assert answer.answer == "The board is chaired by Helena Strand." and UNANSWERED not in answer.notes
    unanswered = ask("What is the capital of Mongolia?", retriever)
    assert UNANSWERED in unanswered.notes and unanswered.to_dict()["similarity"] < LITTLE


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(make_encoder(tmp_path_factory.mktemp("encoder")))


def test_a_question_that_was_cut_is_a_note(encoder: Model, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    index_folder(write_documents(tmp_path / "notes"), tmp_path / "store", encoder)
    retriever = Retriever.open(tmp_path / "store", model=str(encoder.folder))
    options = AskOptions(late_interaction=2)
    answer = ask("When was the lighthouse built? " * 100, retriever, options)
    assert [x for x in answer.notes if "cut to the 64 tokens" in x] and not list(recwarn)
    assert not [x for x in ask("When was the lighthouse built?", retriever, options).notes if "cut" in x]


def test_the_place_of_an_answer_is_in_its_json(mill: Retriever) -> None:
    answer = ask("When did it burn down?", mill)
    written = answer.to_dict()
    assert {name: written[name] for name in ("file", "line", "page", "place")} == {
        "file": "history.md", "line": 3, "page": 0, "place": "history.md:3",
    }  # fmt: skip
    assert Answer.from_dict(written) == answer


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    index_folder(tmp_path / "notes", tmp_path / "store")
    answer = ask(CHAIR, Retriever.open(tmp_path / "store"))
    assert answer.source is None and answer.finding.startswith("The store is empty") and answer.place == ""
    assert str(answer).count("The store is empty") == 1
