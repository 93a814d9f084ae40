"""Two files whose lines are pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import ConfigError, DataError
from glassformer.data.rows import read_rows
from glassformer.data.streams import stream_rows


def test_pairs(tmp_path: Path) -> None:
    english, german = tmp_path / "a.en", tmp_path / "a.de"
    english.write_text("One.\n\nThree.\n")
    german.write_text("Eins.\nZwei.\r\nDrei.")
    rows = read_rows(str(tmp_path / "a.{en,de}"))
    assert list(rows) == [
        {"source": "One.", "target": "Eins."},
        {"source": "", "target": "Zwei."},
        {"source": "Three.", "target": "Drei."},
    ]
    assert rows[2]["target"] == "Drei." and rows.where(2) == f"{english}: line 3"
    named = read_rows({"de": german, "en": english})
    assert named.columns == ("de", "en") and named[0] == {"de": "Eins.", "en": "One."}
    assert read_rows({"de": german, "en": english}, columns=["en"]).columns == ("en",)
    with pytest.raises(DataError, match="no column 'fr'; there are: 'de', 'en'"):
        read_rows({"de": german, "en": english}, columns=["fr"])
    with pytest.raises(ConfigError, match="'header' is no option of parallel lines"):
        read_rows({"de": german}, header=False)
    german.write_text("Eins.\nZwei.\n")
    for reader in (read_rows, stream_rows):
        with pytest.raises(DataError, match=r"a\.en: line 3 has no counterpart: .*a\.de ends before it"):
            list(reader(str(tmp_path / "a.{en,de}")))
