"""PDF: paragraphs, rows, columns, pages and outline; scanned, encrypted, damaged and very long files."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.retrieval.formats.isolated import read_isolated
from glassformer.retrieval.formats.pdf import pdf_document

fpdf = pytest.importorskip("fpdf")

PARAGRAPH = (
    "Apples are the fruit of an orchard that is kept for many years, and they are stored in cool rooms where the air "
    "is neither dry nor wet. Dr. Smith counted 330 sorts. "
    "They ripen from August on, and the late ones keep until spring."
)


def new_file() -> Any:
    file = fpdf.FPDF()
    file.set_font("helvetica", size=11)
    return file


def heading(file: Any, text: str, level: int = 0) -> None:
    file.start_section(text, level)
    file.set_font("helvetica", "B", 18)
    file.cell(text=text, new_x="LMARGIN", new_y="NEXT")
    file.set_font("helvetica", size=11)


@cache
def manual() -> bytes:
    file = new_file()
    file.set_title("The orchard")
    file.set_author("Ann")
    file.add_page()
    heading(file, "Apples")
    for _ in range(2):
        file.multi_cell(0, 5.5, PARAGRAPH, new_x="LMARGIN", new_y="NEXT")
        file.ln(3)
    heading(file, "Storage", 1)
    with file.table() as table:
        for cells in (("Sort", "Weeks", "Remark"), ("Gala", "12", "sweet and firm"), ("Fuji", "20", "late")):
            row = table.row()
            for cell in cells:
                row.cell(cell)
    file.ln(5)
    file.multi_cell(0, 5.5, "- first item\n- second item", new_x="LMARGIN", new_y="NEXT")
    file.add_page()
    heading(file, "Pears")
    with file.text_columns(ncols=2, gutter=8, text_align="L") as columns:
        columns.write(
            " ".join(f"Sentence number {n} of the left and the right column tells of pears." for n in range(60))
        )
    return bytes(file.output())


def test_lines_are_paragraphs_again_and_tables_rows() -> None:
    document = pdf_document(manual(), 60)
    first = document.text[: document.pages[1]]
    assert first == (
        f"Apples\n{PARAGRAPH}\n{PARAGRAPH}\nStorage\n| Sort | Weeks | Remark |\n| Gala | 12 | sweet and firm |\n"
        "| Fuji | 20 | late |\n- first item\n- second item\n\n"
    )


def test_columns_are_read_one_after_the_other() -> None:
    document = pdf_document(manual(), 60)
    words = " ".join(document.text[document.pages[1] :].split())
    assert words == "Pears " + " ".join(
        f"Sentence number {n} of the left and the right column tells of pears." for n in range(60)
    )


def test_pages_outline_title_and_author_are_kept() -> None:
    document = pdf_document(manual(), 60)
    assert document.pages[0] == 0 and document.text[document.pages[1] :].startswith("Pears\n")
    assert [(part.headings, document.text[part.start :].split("\n")[0]) for part in document.parts] == [
        (("Apples",), "Apples"), (("Apples", "Storage"), "Storage"), (("Pears",), "Pears")
    ]  # fmt: skip
    assert document.title == "The orchard" and document.metadata == {"author": "Ann"} and not document.notes


def test_the_child_gives_the_same_document() -> None:
    assert read_isolated("pdf", manual(), 60.0) == pdf_document(manual(), 60)


def test_a_sentence_runs_on_over_a_page() -> None:
    file = new_file()
    for text in ("A sentence that begins on one page and", "ends on the next. Another.", "", "The third page."):
        file.add_page()
        if text:
            file.multi_cell(0, 5.5, text)
    document = pdf_document(bytes(file.output()), 60)
    assert document.text == "A sentence that begins on one page and ends on the next. Another.\n\nThe third page."
    assert document.pages == (0, 39, 65, 67)
    assert document.notes == ("page 3 of it without text",)


def test_a_scanned_file_is_named_so() -> None:
    file = new_file()
    for _ in range(3):
        file.add_page()
        file.rect(10, 10, 50, 50)
    with pytest.raises(DataError, match="it has 3 pages without text: scanned, perhaps, and to be read by OCR first"):
        pdf_document(bytes(file.output()), 60)


def test_an_encrypted_file_is_refused_and_one_that_opens_is_read() -> None:
    for user_password in ("secret", ""):
        file = new_file()
        file.set_encryption(owner_password="owner", user_password=user_password)
        file.add_page()
        file.multi_cell(0, 5.5, PARAGRAPH)
        data = bytes(file.output())
        if user_password:
            with pytest.raises(DataError, match="it is encrypted, and opens only with a password"):
                pdf_document(data, 60)
        else:
            assert pdf_document(data, 60).text == PARAGRAPH


@pytest.mark.parametrize("cut", [0, 4, 100, 1_000])
def test_a_damaged_file_is_refused_in_a_sentence(cut: int) -> None:
    with pytest.raises(DataError, match=r"^it is no PDF, or a damaged one$"):
        pdf_document(b"%PDF-1.7\n" + bytes(cut), 60)


def test_any_damage_ends_in_a_document_or_a_sentence() -> None:
    data = manual()
    for place in range(0, len(data), len(data) // 40):
        broken = data[:place] + b"\xff" * 40 + data[place + 40 :]
        try:
            assert isinstance(read_isolated("pdf", broken, 20.0).text, str)
        except DataError as refusal:
            assert str(refusal).startswith("it ")


def test_five_thousand_pages_are_read_within_the_time_or_to_a_note() -> None:
    file = new_file()
    for number in range(5_000):
        file.add_page()
        file.cell(text=f"This is page {number + 1}.")
    data = bytes(file.output())
    document = read_isolated("pdf", data, 60.0)
    assert len(document.pages) == 5_000 and document.text.endswith("This is page 5000.") and not document.notes
    first = pdf_document(data, 0.05)
    assert 0 < len(first.pages) < 5_000 and first.text.startswith("This is page 1.")
    assert first.notes == (f"pages {len(first.pages) + 1:,} to 5,000 were not read: the limit of 0.05 s had passed",)
