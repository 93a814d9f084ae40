"""The encoding of bytes of unknown origin, and what is no text."""

from __future__ import annotations

import pytest

from glassformer.errors import DataError
from glassformer.retrieval.formats.encoding import decode

GERMAN = "Die Straße ist für Fußgänger geöffnet.\r\nÜber den Wolken muss die Freiheit wohl grenzenlos sein.\n"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
def test_text_of_western_europe_is_read_in_any_encoding(encoding: str) -> None:
    assert decode(GERMAN.encode(encoding)) == GERMAN


def test_typographic_signs_of_windows_are_read() -> None:
    text = "He said “no” – it’s €5 for a naïve café."
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", "Все люди рождаются свободными и равными в своем достоинстве и правах."),
        ("koi8-r", "Все люди рождаются свободными и равными в своем достоинстве и правах."),
        ("shift_jis", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"),
        ("gb18030", "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。"),
        ("euc-kr", "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."),
        ("cp1250", "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Příliš žluťoučký kůň."),
        ("iso8859-7", "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα."),
    ],
)
def test_other_encodings_are_recognised_by_their_statistics(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_a_declared_encoding_is_believed_where_it_fits() -> None:
    hebrew = "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם."
    assert decode(hebrew.encode("cp1255"), "windows-1255") == hebrew
    assert decode(GERMAN.encode("latin-1"), "no-such-encoding") == GERMAN
    assert decode(GERMAN.encode(), "latin-1") == GERMAN  # valid UTF-8, whatever it says


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\0\0\0text", bytes(range(256)) * 10, b"\x01\x02\x03 text \x04"])
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="binary file"):
        decode(data)


def test_half_a_character_of_utf_16_is_refused_with_its_place() -> None:
    with pytest.raises(DataError, match=r"not valid UTF-16 text \(truncated data at byte 10\)"):
        decode(b"\xff\xfe" + "text".encode("utf-16-le") + b"x")


def test_empty_data_is_an_empty_text() -> None:
    assert decode(b"") == decode(b"\xef\xbb\xbf") == ""
