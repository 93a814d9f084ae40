"""What a folder of documents may hold: bad files are listed each with a reason, the rest answers; size is bounded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from glassformer.retrieval.answer import ask
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.options import DocumentOptions
from glassformer.retrieval.retriever import Retriever
from tests.peak import measured

SENTENCE = "The keeper of lighthouse number {} writes the weather of each day into a book. "


def encrypted_and_scanned(folder: Path) -> None:
    fpdf = pytest.importorskip("fpdf")
    for name in ("encrypted.pdf", "scanned.pdf"):
        file = fpdf.FPDF()
        if name == "encrypted.pdf":
            file.set_encryption(owner_password="owner", user_password="secret")
        file.add_page()
        file.rect(10, 10, 50, 50)
        (folder / name).write_bytes(bytes(file.output()))


def test_bad_files_are_listed_and_the_rest_answers(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    (folder / "in").mkdir(parents=True)
    (folder / "latin.txt").write_bytes("Der Käse liegt im Kühlschrank. Voilà, garçon.".encode("latin-1"))
    (folder / "wide.txt").write_bytes("The café opened in 1901.".encode("utf-16"))
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 20)
    for name in ("one.txt", "two.txt"):
        (folder / name).write_text("Twins have one content.")
    for name, target in (("in/up", ".."), ("loop", "other"), ("other", "loop"), ("gone", "nowhere")):
        (folder / name).symlink_to(target)
    encrypted_and_scanned(folder)
    named = sys.platform == "linux"  # other systems refuse the name
    if named:
        with open(os.fsencode(folder) + b"/\xff\xfe.txt", "w") as stream:
            stream.write("A whale swims here.")
    report = index_folder(folder, tmp_path / "store")
    assert {x.file: x.reason for x in report.unread} == {
        "binary.txt": "it is a binary file, not text",
        "encrypted.pdf": "it is encrypted, and opens only with a password",
        "gone": "it is a link to a file that is not there",
        "in/up": "it is a link to a folder, and links to folders are not followed",
        "loop": "it is a link that leads back to itself",
        "other": "it is a link that leads back to itself",
        "scanned.pdf": "it has 1 page without text: scanned, perhaps, and to be read by OCR first",
    }
    retriever = Retriever.open(tmp_path / "store")
    expected = {"Käse": "latin.txt", "café": "wide.txt", "twins": "one.txt"} | (
        {"whale": "\\xff\\xfe.txt"} if named else {}
    )
    for question, file in expected.items():
        assert (source := ask(question, retriever).source) is not None and source.file == file
    assert retriever.search("twins").matches[0].also == ["two.txt"]


def test_a_question_of_ten_thousand_words_is_shown_by_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/a.txt").write_text(SENTENCE.format(1))
    index_folder(tmp_path / "documents", tmp_path / "store")
    retriever, question = Retriever.open(tmp_path / "store"), "which lighthouse keeper " * 3_400
    answer, result = ask(question, retriever), retriever.search(question)
    assert answer.source is not None and answer.question == question == result.question
    for report in (answer, result, retriever.search("nothing " * 10_000)):
        assert report.caption.endswith(" …") and len(report.caption) < 250


def write_and_index(folder: Path, count: int, size: int, lines: bool) -> int:
    """Index text files of this size, whose numbers are words of three digits; the number of passages."""
    (folder / "documents").mkdir()
    number = 0
    for name in range(count):
        with open(folder / f"documents/{name}.txt", "w") as stream:
            written = 0
            while written < size:
                number += 1
                written += stream.write(SENTENCE.format(f"{number:,}".replace(",", " ")) + "\n" * lines)
            stream.write(f"A zebra ends book {name}.")
    report = index_folder(folder / "documents", folder / "store", files=DocumentOptions(max_bytes=size + 1_000))
    assert report.document_count == count and not report.unread
    retriever = Retriever.open(folder / "store")
    assert f"A zebra ends book {count - 1}." in retriever.search(f"zebra book {count - 1}").matches[0].text
    return report.passage_count


@pytest.mark.parametrize(
    ("count", "size", "lines"),
    [
        pytest.param(1, 1_000_000, False, id="a line of 1 MB"),
        pytest.param(1, 100_000_000, False, id="a line of 100 MB", marks=pytest.mark.soak),
        pytest.param(20, 50_000_000, True, id="1 GB of text", marks=pytest.mark.soak),
    ],
)
def test_memory_does_not_grow_with_a_folder(tmp_path: Path, count: int, size: int, lines: bool) -> None:
    """A file is held while it is read, as bytes and as characters, and what the index of words has of each passage."""
    passages, grown = measured(write_and_index, tmp_path, count, size, lines, timeout_s=7_200)
    assert passages >= count * size / 1_500
    assert grown < 4 * size + 150e6 + 500 * passages, f"{grown / 1e6:.0f} MB for files of {size / 1e6:.0f} MB"
