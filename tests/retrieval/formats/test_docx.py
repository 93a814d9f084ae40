"""DOCX: paragraphs, headings, lists and tables in order; damaged, encrypted and hostile files."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.retrieval.formats.docx import docx_document
from glassformer.retrieval.formats.isolated import read_isolated

python_docx = pytest.importorskip("docx")


def saved(file: Any) -> bytes:
    stream = io.BytesIO()
    file.save(stream)
    return stream.getvalue()


def manual() -> bytes:
    file = python_docx.Document()
    file.core_properties.author = "Ann"
    file.add_heading("The orchard", 0)
    file.add_heading("Apples", 1)
    file.add_paragraph("They are green.")
    file.add_heading("Storage", 2)
    paragraph = file.add_paragraph("Keep ")
    paragraph.add_run("th").bold = True
    paragraph.add_run("em cool.")
    file.add_paragraph("first", style="List Bullet")
    file.add_paragraph("second", style="List Bullet")
    table = file.add_table(2, 3)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"cell {number}"
    table.cell(1, 0).merge(table.cell(1, 1))
    file.add_heading("Pears", 1)
    file.add_paragraph("The end.")
    return saved(file)


def rewritten(data: bytes, **members: bytes) -> bytes:
    """The archive with other contents of some members, by the last part of their names."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            short = name.rsplit("/", 1)[-1].removesuffix(".xml")
            new.writestr(name, members.get(short, old.read(name)))
    return stream.getvalue()


def test_blocks_come_in_order_with_headings_and_rows() -> None:
    document = docx_document(manual())
    assert document.text == (
        "The orchard\n\nApples\n\nThey are green.\n\nStorage\n\nKeep them cool.\n\n- first\n- second\n\n"
        "| cell 0 | cell 1 | cell 2 |\n| cell 3 cell 4 | cell 5 |\n\nPears\n\nThe end.\n\n"
    )
    assert [(part.headings, document.text[part.start :].split("\n")[0]) for part in document.parts] == [
        ((), "The orchard"), (("Apples",), "Apples"), (("Apples", "Storage"), "Storage"), (("Pears",), "Pears")
    ]  # fmt: skip
    assert document.title == "The orchard" and document.metadata == {"author": "Ann"}


def test_footnotes_come_last() -> None:
    stream = io.BytesIO()
    relation = (
        '<Relationship Id="rId99" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{}" {}/>'
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    added = {
        "word/_rels/document.xml.rels": relation.format("footnotes", 'Target="footnotes.xml"') + "</Relationships>",
        "[Content_Types].xml": f'<Override PartName="/word/footnotes.xml" ContentType="{kind}"/></Types>',
    }
    note = '<w:footnote w:id="{0}"><w:p><w:r><w:t>Note {0}</w:t></w:r><w:r><w:t>.</w:t></w:r></w:p></w:footnote>'
    with zipfile.ZipFile(io.BytesIO(manual())) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            text = old.read(name).decode("utf-8", "surrogateescape")
            if name in added:
                text = text.replace(added[name][added[name].rindex("</") :], added[name])
            new.writestr(name, text.encode("utf-8", "surrogateescape"))
        notes = note.format(1) + note.format(2)
        new.writestr("word/footnotes.xml", f'<w:footnotes xmlns:w="{space}">{notes}</w:footnotes>')
    assert docx_document(stream.getvalue()).text.endswith("The end.\n\nNote 1.\n\nNote 2.\n\n")


def test_the_child_gives_the_same_document() -> None:
    assert read_isolated("docx", manual(), 60.0) == docx_document(manual())


def test_a_document_without_text_is_refused() -> None:
    with pytest.raises(DataError, match="it holds no text"):
        docx_document(saved(python_docx.Document()))


@pytest.mark.parametrize("damage", ["cut", "xml", "no zip", "no document"])
def test_damaged_files_are_refused_in_a_sentence(damage: str) -> None:
    data = manual()
    broken = {
        "cut": data[: len(data) // 2],
        "xml": rewritten(data, document=b"<w:document"),
        "no zip": b"PK\x03\x04" + b"x" * 500,
        "no document": rewritten(data, **{"[Content_Types]": b"<Types/>"}),
    }[damage]
    with pytest.raises(DataError, match=r"^it is no DOCX, or a damaged one: .") as refusal:
        docx_document(broken)
    assert "\n" not in str(refusal.value)


def test_an_encrypted_file_is_named_so() -> None:
    with pytest.raises(DataError, match="it is encrypted"):
        docx_document(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000))


def test_a_decompression_bomb_is_not_unpacked() -> None:
    bomb = rewritten(manual(), document=b"<w:document>" + bytes(200 << 20))
    assert len(bomb) < 1 << 20
    with pytest.raises(DataError, match=r"it unpacks to 2\d\d,\d{3},\d{3} bytes, far more"):
        docx_document(bomb)


def test_entities_are_not_expanded() -> None:
    entities = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    with zipfile.ZipFile(io.BytesIO(manual())) as archive:
        xml = archive.read("word/document.xml").decode()
    head, body = xml.split("?>", 1)
    hostile = f'{head}?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{entities}]>{body.replace("The end.", "&i;")}'
    try:
        document = read_isolated("docx", rewritten(manual(), document=hostile.encode()), 10.0)
    except DataError as refusal:
        assert str(refusal).startswith("it ")
    else:
        assert len(document.text) < 10_000
