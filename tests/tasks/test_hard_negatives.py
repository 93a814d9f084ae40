"""Hard-negative mining: nearest neighbours without a text's own, by a margin and ranks, and files of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.data.options import MiningOptions, ReadingOptions
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.hard_negatives import _largest, mine_file, mine_negatives
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder

TEXTS = ["time", "time flies", "flies like", "like an arrow", "time flies an arrow", "fruit", "a fruit", "a banana"]
ROWS = [{"text": text, "text_pair": f"{TEXTS[(i + 3) % 8]} an", "id": i} for i, text in enumerate(TEXTS)]
ROWS.append({**ROWS[0], "text_pair": "a banana an", "id": 8})  # a text with two of its own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "bert", "bert", task="feature-extraction")


def options(**given: Any) -> MiningOptions:
    return MiningOptions(**{"model": "given", "output": Path("mined.jsonl"), "margin": 0.0, **given})


def test_negatives_are_the_nearest_of_other_texts(folder: Path) -> None:
    model, rows = glassformer.load(folder), read_rows(ROWS)
    margin = 0.002
    with pytest.warns(UserWarning, match="rows have fewer than 3 negatives"):
        mined = mine_negatives(rows, model, options(count=3, margin=margin, skip=1))
    pairs = list(dict.fromkeys(row["text_pair"] for row in ROWS))
    similar = np.asarray(model.similarity(model.encode([row["text"] for row in ROWS]), model.encode(pairs)))
    assert sum(len(row["negative"]) for row in mined.rows) > 8
    assert mined.short == sum(len(row["negative"]) < 3 for row in mined.rows) > 0
    for row, given, similarities in zip(mined.rows, ROWS, similar, strict=True):
        assert {name: row[name] for name in given} == given
        own = {other["text_pair"] for other in ROWS if other["text"] == given["text"]} | {given["text"]}
        others = sorted((pair for pair in pairs if pair not in own), key=lambda pair: -similarities[pairs.index(pair)])
        most = similarities[pairs.index(given["text_pair"])] - margin
        assert row["negative"] == [pair for pair in others[1:] if similarities[pairs.index(pair)] <= most][:3]


@pytest.mark.parametrize("count", [1, 7, 60, 99, 100, 500])
def test_the_largest_are_those_of_a_whole_sort(count: int) -> None:
    values = np.random.default_rng(count).integers(0, 20, 100).astype(np.float32)  # many are equal
    assert _largest(values, count) == np.argsort(-values, kind="stable")[:count].tolist()


def test_depth_bounds_the_ranks(folder: Path) -> None:
    with pytest.warns(UserWarning, match="fewer than 8 negatives"):
        mined = mine_negatives(read_rows(ROWS), glassformer.load(folder), options(count=8, depth=2))
    assert max(len(row["negative"]) for row in mined.rows) <= 2


def test_a_file_of_negatives_trains_both_kinds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's rows are those that `embed` reads, and its labelled pairs those of `rank`."""
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    mined, pairs = tmp_path / "mined.jsonl", tmp_path / "pairs.csv"
    done = run_here(capsys, "data", "negatives", data, "--model", folder, "--margin", "0", "--output", mined)
    assert done.returncode == 0 and "mined.jsonl  9 rows" in done.stdout, done.stderr
    done = run_here(capsys, "data", "negatives", data, "--model", folder, "--margin", "0", "--labelled", "-o", pairs)
    assert done.returncode == 0, done.stderr
    labels = [row["label"] for row in iter(read_rows(pairs))]
    assert labels.count("1") == 9 and labels.count("0") > 4
    for task, file in (("embed", mined), ("rank", pairs)):
        given = ("--task", task, "--model", folder, "--data", file, "--output", tmp_path / task, "--steps", "2")
        done = run_here(capsys, "train", *given, "--ignore", "*")
        assert done.returncode == 0, done.stderr


def test_what_cannot_be_mined(folder: Path, tmp_path: Path) -> None:
    model = glassformer.load(folder)
    with pytest.raises(DataError, match="there is no column 'text_pair'"):
        mine_negatives(read_rows([{"text": "a"}]), model, options())
    with pytest.raises(DataError, match="'text_pair' is the same text in every row; there is no negative to find"):
        mine_negatives(read_rows([{"text": "a", "text_pair": "b"}, {"text": "c", "text_pair": "b"}]), model, options())
    with pytest.raises(ConfigError, match=r"a list of negatives needs JSON Lines"):
        mine_file(tmp_path / "rows.csv", options(output=Path("mined.csv")))


def test_rows_without_a_text_are_left_out_where_asked_for(folder: Path, tmp_path: Path) -> None:
    path, output = tmp_path / "pairs.jsonl", tmp_path / "mined.jsonl"
    rows = [*ROWS[:8], {"text": "time", "text_pair": " ", "id": 9}, {"text": None, "text_pair": "time", "id": 10}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match="'text' is None"):
        mine_file(path, options(model=folder, output=output))
    with pytest.warns(UserWarning, match="2 of 10 rows were left out: 2 without a text"):
        mined = mine_file(path, options(model=folder, output=output), ReadingOptions(skip_bad_rows=True))
    assert [row["id"] for row in mined.rows] == [*range(8)]
