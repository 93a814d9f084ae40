"""Folders of Weights & Biases read as runs: a log that wandb 0.31 wrote, and records by its protocol buffers."""

from __future__ import annotations

import json
import math
import shutil
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import HistoryRecord, Record

from glassformer.errors import DataError
from glassformer.runs.curves import curves_page
from glassformer.runs.history import read_run, read_runs
from glassformer.runs.run_list import RunList
from glassformer.runs.wandb_files import BLOCK, FIRST, FULL, HEADER, LAST, MIDDLE, read_wandb
from tests.reports.packed import data_of

SAMPLE = Path(__file__).parent / "data" / "run-zi4n7666.wandb"
"""Of `wandb.init(mode="offline", …)`: 20 steps with train/loss and train/lr, every fifth with val/acc."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "wandb" / "offline-run-20261129_151016-zi4n7666"
    (folder / "files").mkdir(parents=True)
    shutil.copy(SAMPLE, folder)
    return folder


def log(records: Sequence[bytes]) -> bytes:
    """A log of records, as LevelDB has them."""
    content = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        first, rest = True, record
        while first or rest:
            room = BLOCK - len(content) % BLOCK
            if room < HEADER:
                content += bytes(room)
                room = BLOCK
            part, rest = rest[: room - HEADER], rest[room - HEADER :]
            kind = (FULL if first else LAST) if not rest else (FIRST if first else MIDDLE)
            content += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
    return content


def history(step: int, **values: Any) -> bytes:
    record = HistoryRecord(step={"num": step})
    for name, value in values.items():
        record.item.add(key=name, value_json=json.dumps(value))
    return bytes(Record(history=record).SerializeToString())


def test_history_and_settings_are_those_of_a_run(folder: Path) -> None:
    run = read_run(folder)
    assert run.name == folder.name and run.ended and run.last == 20
    assert run.options == {
        "lr": 0.001,
        "model": {"layers": 2},
        "seed": 0,
        "wandb": {"project": "mood", "name": "try-0"},
    }
    assert list(run.steps["loss"][:3]) == pytest.approx([2.001, 1.001, 0.667667], abs=1e-5)
    assert list(run.validation) == ["acc"] and list(run.validation["acc"][0]) == [5, 10, 15, 20]
    assert (run.metric, run.best, run.best_metrics()) == ("acc", 20, {"acc": 0.95})
    assert run.started is not None and 0 < run.seconds < 60
    assert read_run(next(folder.glob("*.wandb"))).last == 20, "the log itself, too"
    assert [chart["title"] for chart in data_of(curves_page([run]))["reports"][0]["charts"][:2]] == ["Loss", "acc"]


def test_a_folder_of_them_is_a_list(folder: Path) -> None:
    (folder.parent / "latest-run").symlink_to(folder)
    (run,) = read_runs([folder.parent])
    assert run.last == 20
    runs = RunList.read(folder.parents[1])
    assert runs.finding == f"Highest validation acc: 0.950, of wandb/{folder.name}; no other run has one."
    assert (runs.runs[0].log, runs.runs[0].state) == ("Weights & Biases", "ended")
    assert runs.runs[0].settings["model.layers"] == "2"


def test_without_a_log_the_last_values_are_known(folder: Path) -> None:
    next(folder.glob("*.wandb")).unlink()
    (folder / "files" / "wandb-summary.json").write_text('{"_step": 7, "train/loss": 0.5, "val/acc": NaN, "note": "x"}')
    (folder / "files" / "config.yaml").write_text(
        "wandb_version: 1\n_wandb: {value: {}}\nlr: {desc: null, value: 0.1}\n"
    )
    run = read_run(folder)
    assert (run.last, run.options, list(run.steps["loss"])) == (7, {"lr": 0.1}, [0.5])
    assert math.isnan(run.validation["acc"][1][0]) and run.name == folder.name
    assert RunList.read(folder.parent).runs[0].settings == {"lr": "0.1"}


def test_records_of_any_length_and_numbers_that_json_has_not(folder: Path) -> None:
    text = "x" * 100_000
    records = [history(1, loss=1.0, text=text), history(2, loss=math.nan), history(3, loss="Infinity", flag=True)]
    records += [history(step, loss=float(step)) for step in range(4, 2_000)]
    next(folder.glob("*.wandb")).write_bytes(log(records))
    values = read_wandb(folder).values
    assert list(values) == ["loss"] and len(values["loss"]) == 1_999
    assert math.isnan(values["loss"][2]) and values["loss"][3] == math.inf
    assert not read_run(folder).ended


def test_a_log_that_is_still_written_is_read_as_far_as_it_is(folder: Path) -> None:
    path, steps = next(folder.glob("*.wandb")), []
    content = path.read_bytes()
    for size in range(HEADER, len(content), 131):
        path.write_bytes(content[:size])
        steps.append(read_run(folder).last)
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] >= 19


def test_what_is_damaged_is_said(folder: Path) -> None:
    path = next(folder.glob("*.wandb"))
    content = path.read_bytes()
    for position in range(HEADER, len(content), 501):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(DataError, match=r"is damaged at byte [\d,]+: the checksum"):
            read_wandb(folder)
    for wrong, message in (
        (b"", "is no log of Weights & Biases: it must begin with :W&B"),
        (b"PK\3\4" + content, "is no log of Weights & Biases"),
        (log([b"\xff"]), "record 1 is none of Weights & Biases: it ends within a number"),
        (log([b"\x12\x03\x0a\x01\x08"]), "record 1 is none of Weights & Biases"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=message):
            read_wandb(folder)
    assert RunList.read(folder.parent).runs[0].state == "unreadable"
