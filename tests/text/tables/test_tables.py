"""Tables as tokens: equal to the reference library's tokenizer on random ones; forms of tables, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.text import Tokenizer
from glassformer.text.tables.encode import TYPES, TableTokenizer
from glassformer.text.tables.table import TextTable
from glassformer.text.tables.values import column_values, values_in

CELLS: list[Callable[[random.Random], str]] = [
    lambda r: str(r.randrange(3000)),
    lambda r: f"{r.randrange(1, 9)},{r.randrange(100, 999)}",
    lambda r: f"{r.uniform(-5, 50):.2f}",
    lambda r: f"{r.choice(['January', 'May', 'Sept', 'december'])} {r.randrange(1, 31)}, {r.randrange(1690, 2030)}",
    lambda r: f"{r.randrange(1, 31)} July {r.randrange(1900, 2000)}",
    lambda r: f"{r.randrange(1900, 2020)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}",
    lambda r: r.choice(["", "n/a", "?", "-", "nan", "--", "_", "EMPTY", "a_b", "x" * 25]),
    lambda r: r.choice(["Spiridon Louis", "São Paulo", "the third", "22nd", "50%", "$3.50", "+7", "-8 °C", "1990s"]),
    lambda r: r.choice(["Mon, Jan 3", ".5", "3.", "12.05.2004", "5/6", "0–7", "nine", "99 km", "Jan 1999", "may"]),
]
QUESTIONS = (
    "who won in 1896 ?",
    "how many after 12 may 1990?",
    "which is larger than 3.5 and 1,200",
    "the ninth of two",
    "what in the 1990s, or july 1904",
    "nothing",
)
TABLE = {"year": ["1896", "1900"], "city": ["Athens", "Paris"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Path:
    """A TAPAS tokenizer with the vocabulary of a real one."""
    root = tmp_path_factory.mktemp("tapas")
    vocabulary = json.loads((minilm / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.get)
    words[1] = "[EMPTY]"
    (root / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (root / "config.json").write_text(json.dumps({"model_type": "tapas"}))
    settings = {"tokenizer_class": "TapasTokenizer", "model_max_length": 512, "do_lower_case": True}
    (root / "tokenizer_config.json").write_text(json.dumps(settings))
    return root


@pytest.fixture(scope="module")
def reader(folder: Path) -> TableTokenizer:
    return TableTokenizer(Tokenizer.from_folder(folder, model_type="tapas"))


def random_table(draw: random.Random) -> dict[str, list[str]]:
    columns, rows = draw.randrange(1, 6), draw.randrange(1, 9)
    table = {}
    for number in range(columns):
        one_kind = draw.choice(CELLS) if draw.random() < 0.6 else None
        name = f"{draw.choice(['Year', 'name', 'Total 3', '', 'n/a'])}{number}"
        table[name] = [(one_kind or draw.choice(CELLS))(draw) for _ in range(rows)]
    return table


def test_equal_to_the_reference_on_random_tables(folder: Path, reader: TableTokenizer) -> None:
    transformers = pytest.importorskip("transformers", reason="compares with it: pip install 'glassformer[reference]'")
    pandas = pytest.importorskip("pandas", reason="the reference takes frames: pip install 'glassformer[data]'")
    reference, draw, types = transformers.TapasTokenizer(str(folder / "vocab.txt")), random.Random(0), set()
    fit: list[dict[str, Any]] = [
        {},
        *({"truncation": "drop_rows_to_fit", "max_length": length} for length in (24, 40, 64)),
        {"truncation": "drop_rows_to_fit", "max_length": 150, "padding": "max_length"},
    ]
    for number in range(200):
        table, question, options = random_table(draw), draw.choice(QUESTIONS), fit[number % len(fit)]
        try:
            ours = reader(table, question, **options)
        except DataError:  # not even the names of the columns fit, and the reference gives too many tokens
            assert options["max_length"] == 24
            continue
        theirs = reference(table=pandas.DataFrame(table), queries=question, **options)
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            assert ours[name] == theirs[name], (table, question, options)
        types |= {(i, value > 0) for token in ours["token_type_ids"] for i, value in enumerate(token)}
    assert {(i, True) for i in range(TYPES) if i != 3} <= types  # 3: cells that answered a question before


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,896 metres", [1896.0]),
        ("the twelfth of 3", [12.0, 3.0]),
        ("july 1904", [(1904, 7, None)]),
        ("1904", [1904.0, (1904, None, None)]),
        ("31 december 1999", [(1999, 12, 31)]),
        ("31 february 1999", [31.0, (1999, 2, None)]),
        ("-3.5 to +4", [-3.5, 4.0]),
        ("1e999 nan inf", [1.0, 999.0]),
        ("9" * 400, []),
        ("", []),
    ],
)
def test_numbers_and_dates_in_text(text: str, values: list[Any]) -> None:
    assert values_in(text) == values


def test_a_column_of_mixed_cells_has_no_values() -> None:
    assert column_values(["1", "2", "x", "y"]) == {} and column_values(["1", "2", "3", "y"]) == {0: 1.0, 1: 2.0, 2: 3.0}
    assert column_values(["1904", "may 1905"]) == {0: (1904, None, None), 1: (1905, 5, None)}


def test_a_table_comes_in_several_forms() -> None:
    expected = TextTable(("year", "city"), (("1896", "Athens"), ("1900", "Paris")))
    assert TextTable.of(TABLE) == TextTable.of(expected) == expected
    assert TextTable.of([{"year": 1896, "city": "Athens"}, {"year": 1900, "city": "Paris"}]) == expected
    pandas = pytest.importorskip("pandas", reason="frames: pip install 'glassformer[data]'")
    assert TextTable.of(pandas.DataFrame(TABLE)) == expected
    assert TextTable.of({"a": [None, float("nan"), 1.5]}).rows == (("",), ("",), ("1.5",))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "a table is a dict of columns"),
        ([], "a table is a dict of columns"),
        ("year,city", "a table is a dict of columns"),
        (None, "a table is a dict of columns"),
        ({"a": []}, "1 columns and 0 rows"),
        ({"a": ["1"], "b": ["1", "2"]}, "'a' has 1, 'b' has 2"),
        ({"a": "text"}, "it must be a list of cells"),
        ([{"a": 1}, {"b": 1}], "row 1 of the table has the columns"),
    ],
)
def test_what_is_no_table_is_said(table: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TextTable.of(table)


def test_calls_that_are_wrong_are_said(reader: TableTokenizer) -> None:
    with pytest.raises(DataError, match="queries is None"):
        reader(TABLE)
    with pytest.raises(ConfigError, match="takes no 'answer_text'"):
        reader(TABLE, "who?", answer_text=["x"])
    with pytest.raises(ConfigError, match="takes 'drop_rows_to_fit'"):
        reader(TABLE, "who?", truncation="only_first")
    with pytest.raises(DataError, match="leaves 0 tokens for the table"):
        reader(TABLE, "who " * 30, truncation=True, max_length=16)
    with pytest.raises(ConfigError, match="add padding=True"):
        reader(TABLE, ["who?", "who won it?"], return_tensors="pt")
    padded = reader(TABLE, ["who?", "who won it?"], return_tensors="pt", padding=True)
    assert padded["token_type_ids"].shape == (*padded["input_ids"].shape, TYPES)
    assert reader.vocab_size == reader.tokenizer.vocab_size and len(reader) == len(reader.tokenizer)
