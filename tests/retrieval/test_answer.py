"""Answers of each kind of reader: which one a model is, and what the report of a written answer has."""

from __future__ import annotations

from pathlib import Path

import pytest

import glassformer
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.reports.page import report_page
from glassformer.retrieval import Answer, Retriever, ask, index_folder
from glassformer.retrieval.answer import load_reader
from glassformer.retrieval.generative import GenerativeReader
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.reader import Reader
from glassformer.retrieval.support import EntailmentCheck, WordOverlap
from tests.e2e.tiny_models import make_folder
from tests.retrieval.encoders import write_documents
from tests.retrieval.test_generative import saying
from tests.retrieval.test_support import make_judge
from tests.retrieval.writers import make_writer

QUESTION = "When was the lighthouse built?"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("ask")
    index_folder(write_documents(folder / "notes"), folder / "store")
    return Retriever.open(folder / "store")


@pytest.fixture
def reader(tmp_path: Path) -> GenerativeReader:
    return GenerativeReader(glassformer.load(make_writer(tmp_path / "writer")))


@pytest.mark.parametrize(
    ("family", "task", "kind"),
    [
        ("bert", "question-answering", Reader),
        ("llama", "text-generation", GenerativeReader),
        ("t5", "translation", GenerativeReader),
        ("bart", "translation", GenerativeReader),
    ],
)
def test_the_kind_of_model_decides(family: str, task: str, kind: type, tmp_path: Path) -> None:
    reader = load_reader(AskOptions(reader=str(make_folder(tmp_path / "model", family, task=task))))
    assert type(reader) is kind


TABLE = "Berths.\n\n{head}| north | 9 | 2.5 m |\n| east | 12 | 3.5 m |\n| west | 7 | 4 m |\n"


@pytest.mark.parametrize("head", ["| Berths | Count | Depth |\n", "| Berths | Count | Depth |\n|---|---|---|\n"])
def test_a_row_of_a_table_answers_by_what_its_columns_are_called(head: str, tmp_path: Path) -> None:
    index_folder(write_documents(tmp_path / "notes", {"a.txt": TABLE.format(head=head)}), tmp_path / "store")
    answer = ask("What is the depth in the east?", Retriever.open(tmp_path / "store"))
    assert answer.answer == "| east | 12 | 3.5 m |"


def test_without_names_of_columns_the_first_row_may_answer(tmp_path: Path) -> None:
    index_folder(write_documents(tmp_path / "notes", {"a.txt": TABLE.format(head="")}), tmp_path / "store")
    assert ask("What is north?", Retriever.open(tmp_path / "store")).answer == "| north | 9 | 2.5 m |"


def test_an_answer_is_shown_without_the_breaks_that_wrap_its_file(tmp_path: Path) -> None:
    text = "- The lighthouse was built in 1874 by the engineer\n  and his two brothers.\n- Apples are red.\n"
    index_folder(write_documents(tmp_path / "notes", {"a.md": text}), tmp_path / "store")
    answer = ask(QUESTION, Retriever.open(tmp_path / "store"))
    assert "\n  and his" in answer.answer and "by the engineer and his two brothers." in answer.finding


def test_options_of_a_reader_that_writes(tmp_path: Path) -> None:
    judge = make_judge(tmp_path / "nli", ["entailment", "neutral"])
    folder = make_writer(tmp_path / "writer", window=400)
    reader = load_reader(AskOptions(reader=str(folder), entailment=str(judge), support=0.7, answer_tokens=9), "de")
    assert isinstance(reader, GenerativeReader) and isinstance(reader.check, EntailmentCheck)
    assert (reader.threshold, reader.answer_tokens, reader.language) == (0.7, 9, "de")
    reader = load_reader(AskOptions(reader=str(folder)), "de")
    assert isinstance(reader, GenerativeReader) and isinstance(reader.check, WordOverlap)
    assert (reader.answer_tokens, reader.check.language, reader.threshold) == (100, "de", 0.6)


@pytest.mark.parametrize("family", ["bert", "dpr", "whisper", "clip", "vit"])
def test_a_model_that_is_no_reader(family: str, tmp_path: Path) -> None:
    task = "feature-extraction" if family == "bert" else None
    folder = make_folder(tmp_path / "model", family, task=task)
    with pytest.raises(UnsupportedError, match=r"is no reader: it neither finds answers .* nor writes them"):
        load_reader(AskOptions(reader=str(folder)))


def test_a_checkpoint_without_its_head(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model", "bert", task="feature-extraction")
    config = (folder / "config.json").read_text().replace("BertModel", "BertForQuestionAnswering")
    (folder / "config.json").write_text(config)
    with pytest.raises(WeightsError, match=r"does not fit its config.json: 2 missing: qa_outputs"):
        load_reader(AskOptions(reader=str(folder)))


def test_no_reader_is_named() -> None:
    with pytest.raises(ConfigError, match="no reader is named"):
        load_reader(AskOptions())


def test_the_report_of_a_written_answer(
    retriever: Retriever, reader: GenerativeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = retriever.search(QUESTION).matches
    assert first[0].text.endswith("The lighthouse was built in 1874. It stands on a rock.")
    saying(reader, "It was built in 1874 [1]. Napoleon lived there [2].", monkeypatch)
    answer = ask(QUESTION, retriever, reader=reader)
    assert (answer.answer, answer.passage, answer.score) == ("It was built in 1874 [1].", 0, 1.0)
    assert answer.source is not None and (answer.start, answer.stop) == (answer.source.start, answer.source.stop)
    assert answer.finding == "It was built in 1874 [1].\n\nfrom [1] tower.md:4"
    assert [x.passage for x in answer.sentences] == [0, None] and answer.read == list(range(len(first)))
    assert [x.name for x in answer.stages] == ["bm25", "prompt", "write", "check"]
    assert Answer.from_dict(answer.to_dict()) == answer
    table = answer.tables()[0]
    assert table.headings == ["support", "passage", "sentence"]
    assert table.rows == [
        ["1.00", "[1] tower.md:4", "It was built in 1874."],
        ["0.00", "none", "Napoleon lived there."],
    ]
    page = report_page(answer)
    assert "Napoleon lived there." in page and "[1] tower.md:4" in page


def test_a_written_answer_that_nothing_supports(
    retriever: Retriever, reader: GenerativeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    saying(reader, "Napoleon lived there [2].", monkeypatch)
    answer = ask(QUESTION, retriever, reader=reader)
    assert (answer.answer, answer.passage, answer.score) == ("", None, None)
    assert answer.finding == "The documents do not answer this."


MARKDOWN = """# The tower

## Height

It is taller than any other of this coast. At night its lamp
is seen from far away.

| month | visitors |
| --- | --- |
| July | 2980 |
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    """A store of a Markdown file, a table and a PDF, whose passages are longer than their sentences."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "notes").mkdir()
    (folder / "notes" / "tower.md").write_text(MARKDOWN)
    (folder / "notes" / "boats.csv").write_text("name,length\nAnna,18\nCarla,21\n")
    fpdf = pytest.importorskip("fpdf")
    file = fpdf.FPDF()
    file.set_font("helvetica", size=11)
    for text in ("The bridge is long, and it was", "built of stone. The railing must be replaced."):
        file.add_page()
        file.multi_cell(0, 5.5, text)
    (folder / "notes" / "bridge.pdf").write_bytes(bytes(file.output()))
    index_folder(folder / "notes", folder / "store")
    return Retriever.open(folder / "store")


@pytest.mark.parametrize(
    ("question", "answer", "place"),
    [
        ("Is the lamp of the tower seen at night?", "At night its lamp\nis seen from far away.", "tower.md:5"),
        ("What is the height of the tower?", "It is taller than any other of this coast.", "tower.md:5"),
        ("How many visitors in July?", "| July | 2980 |", "tower.md:10"),
        ("How long is the boat Carla, its length?", "name: Carla\nlength: 21", "boats.csv:3"),
        ("What must be replaced, the railing?", "The railing must be replaced.", "bridge.pdf, page 2"),
        ("Is the bridge long?", "The bridge is long, and it was built of stone.", "bridge.pdf, page 1"),
    ],
)
def test_an_answer_is_a_statement_with_its_own_line_or_page(
    places: Retriever, question: str, answer: str, place: str
) -> None:
    report = ask(question, places)
    assert (report.answer, report.place) == (answer, place)
    assert report.finding.endswith(f"from {place}")
