"""Plain text, files whose lines are pairs, and CoNLL sentences."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

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


# ── line ends of CR alone, as programs for the Mac write them ─────────────────────────────────────────────


def test_conll_with_cr_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"Ann\tB-PER\rsings\tO\r\rin\tO\rRome\tB-LOC\r")
    rows = read_rows(path)
    expected = [
        {"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]},
        {"tokens": ["in", "Rome"], "tags": ["O", "B-LOC"]},
    ]
    assert list(rows) == [rows[0], rows[1]] == expected
    assert rows.where(1).endswith("line 4")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b'text,label\rgood,pos\r"two\nlines",neg\rbad,neg\r',
         [{"text": "good", "label": "pos"}, {"text": "two\nlines", "label": "neg"}, {"text": "bad", "label": "neg"}]),
        ("a.jsonl", b'{"a":1}\r{"a":2}\r', [{"a": 1}, {"a": 2}]),
        ("a.json", b'[{"a":1},\r{"a":2}]\r', [{"a": 1}, {"a": 2}]),
        ("a.txt", b"one\rtwo\r", [{"text": "one"}, {"text": "two"}]),
        ("b.txt", b"one\r\ntwo\r\n", [{"text": "one"}, {"text": "two"}]),
        ("c.txt", b"one\rtwo\nthree\nfour\n", [{"text": "one\rtwo"}, {"text": "three"}, {"text": "four"}]),
    ],
)  # fmt: skip
def test_lines_end_as_most_in_the_file_do(
    name: str, content: bytes, expected: list[dict[str, Any]], packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    rows = read_rows(path)
    assert list(rows) == [rows[index] for index in range(len(rows))] == expected


def test_parallel_files_with_cr_alone(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"one\r\rthree\r")
    (tmp_path / "a.de").write_bytes(b"eins\n\ndrei\n")
    rows = list(read_rows(str(tmp_path / "a.{en,de}")))
    assert [(row["source"], row["target"]) for row in rows] == [("one", "eins"), ("", ""), ("three", "drei")]


def test_a_cr_within_a_field_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\ngood\rvery,pos\nbad,neg\n")
    with pytest.raises(
        DataError, match=r"line 2 holds a carriage return \(CR\) within a field; put the field in double"
    ):
        read_rows(path)


# ── fields of CoNLL files ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\x85", "\x1c"])
@pytest.mark.parametrize("between", [" ", "\t", "   "])
def test_other_white_space_is_part_of_a_token(space: str, between: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"10{space}000{between}B-NUM\nLe{between}O\n", "utf-8", newline="")
    assert list(read_rows(path)) == [{"tokens": [f"10{space}000", "Le"], "tags": ["B-NUM", "O"]}]


def test_spaces_around_a_field_are_not_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Angela\tB-PER \n Merkel\tI-PER\nlacht \t O\n \t\nEnde\tO\n")
    rows = list(read_rows(path))
    assert rows[0] == {"tokens": ["Angela", "Merkel", "lacht"], "tags": ["B-PER", "I-PER", "O"]} and len(rows) == 2


def test_words_and_tags_need_a_field_each(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Angela\nlacht\n")
    with pytest.raises(DataError, match="line 1 has 1 field, and 'tags' would be the same one as 'tokens'"):
        read_rows(path)
    path.write_text("Angela B-PER\n")
    with pytest.raises(DataError, match="line 1 has 2 fields, and 'b' would be the same one as 'a'"):
        read_rows(path, fields={"a": 1, "b": -1})


CONLLU = """# sent_id = 1
# text = Don't run
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tyou\tyou\tPRON\t_\t_\t_\t_\t_\t_
3\trun\trun\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No

# sent_id = 2
1\t#\t#\tSYM\t#\t_\t0\troot\t_\t_
"""


def test_a_field_of_numbers_that_a_line_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Ann B-PER\n")
    for numbers, shown in ((2, "2 "), (-3, "-3 "), (10**300, "10000")):
        with pytest.raises(DataError, match=f"line 1 has 2 fields, and numbers says field {shown}"):
            read_rows(path, numbers=numbers)


def test_conllu_words_without_ranges_and_empty_nodes(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    rows = read_rows(path)
    expected = [
        {"tokens": ["Do", "n't", "run"], "tags": ["AUX", "PART", "VERB"]},
        {"tokens": ["#"], "tags": ["SYM"]},
    ]
    assert list(rows) == [rows[0], rows[1]] == expected
    relations = read_rows(path, fields={"tokens": 1, "tags": 7})
    assert relations[0]["tags"] == ["aux", "advmod", "root"]
