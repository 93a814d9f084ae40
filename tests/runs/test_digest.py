"""The digest of an event log: whatever happens to the log, it says what reading the whole log says."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest

from glassformer import DataError
from glassformer.runs import digest as module
from glassformer.runs.curves import curves_page
from glassformer.runs.digest import digest_path, read_digest
from glassformer.runs.folder import EventLog, ExponentialAverage, event_log_path
from glassformer.runs.history import RunHistory, read_run
from tests.reports.packed import unpacked


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and a stored digest from a few steps on."""
    monkeypatch.setattr(module, "MAX_BLOCKS", 8)
    monkeypatch.setattr(module, "MIN_NEW_STEPS", 3)


def write(log: EventLog, begin: int, end: int, draw: random.Random) -> None:
    for step in range(begin, end):
        loss = draw.choice([draw.random(), draw.random(), draw.random(), math.nan, math.inf])
        log.write("step", step=step, loss=loss, lr=draw.random(), tokens=10 * step, tokens_per_s=5.0, epoch=step / 7)
        if draw.random() < 0.2:
            log.write("validation", step=step, metrics={"f1": draw.random()}, best=draw.random() < 0.5)
            log.write("checkpoint", step=step)


def steps_of(path: Path) -> dict[int, float]:
    """Step → loss by the log alone, a line at a time."""
    losses: dict[int, float] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        if record["event"] == "step":
            losses = {step: loss for step, loss in losses.items() if step < record["step"]}
            losses[record["step"]] = float(record["loss"])
    return losses


def check(folder: Path) -> RunHistory:
    """What a run says with its stored digest, against its log, and against reading all of it."""
    path = event_log_path(folder)
    run, losses = read_run(folder), steps_of(path)
    stored = digest_path(path)
    aside = stored.rename(folder / "aside") if stored.exists() else None
    whole = read_run(folder)
    if aside is not None:
        aside.rename(stored)
    assert run.logged == whole.logged == len(losses) and run.last == whole.last == max(losses, default=0)
    assert run.validation.keys() == whole.validation.keys() and run.best == whole.best
    assert all(np.array_equal(run.validation[name], whole.validation[name]) for name in run.validation)
    assert run.checkpoints == whole.checkpoints and run.ended == whole.ended and run.tokens == 10 * run.last
    assert run.seconds == pytest.approx(2 * run.last) if losses else run.seconds == 0
    steps, values = run.line("loss")
    finite = {step: loss for step, loss in losses.items() if math.isfinite(loss)}
    drawn = {step: y for step, y in zip(steps.tolist(), values.tolist(), strict=True) if math.isfinite(y)}
    assert drawn.items() <= finite.items() and (np.diff(steps) > 0).all()
    if finite:
        assert min(drawn.values()) == min(finite.values()) and max(drawn.values()) == max(finite.values())
        assert len(run.blocks) <= 16 + run.blocks.count.max() and steps[0] == min(losses) and steps[-1] == max(losses)
        mean = run.blocks.total[:, 0].sum() / run.blocks.finite[:, 0].sum()
        assert mean == pytest.approx(sum(finite.values()) / len(finite))
    return run


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_grows_is_cut_resumed_or_rolled_back(tmp_path: Path, seed: int, short: None) -> None:
    draw, path, step = random.Random(seed), event_log_path(tmp_path), 1
    for _ in range(12):
        with EventLog(path) as log:
            what = draw.choice(["grow", "grow", "resume", "roll back", "end"])
            if what == "resume":
                offset = draw.randrange(path.stat().st_size + 1)
                log.truncate(offset)
                step = max(steps_of(path), default=0) + 1
            elif what == "roll back":
                step = draw.randint(max(step - 40, 1), step)
            write(log, step, step := step + draw.randint(0, 60), draw)
            if what == "end":
                log.write("end", steps=step)
        whole = path.read_bytes()
        path.write_bytes(whole + b'{"event":"step","st')  # a line that is being written
        check(tmp_path)
        path.write_bytes(whole)
    assert check(tmp_path).logged and digest_path(path).is_file()


def test_another_log_in_its_place_and_a_line_that_was_deleted(tmp_path: Path, short: None) -> None:
    path, draw = event_log_path(tmp_path), random.Random(1)
    for begin in (1, 500):
        path.unlink(missing_ok=True)
        with EventLog(path) as log:
            write(log, begin, begin + 100, draw)
        check_steps = read_run(tmp_path)
        assert check_steps.logged == 100 and check_steps.last == begin + 99
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:40] + lines[41:]))
    assert read_run(tmp_path).logged == len(steps_of(path)) and len(read_digest(path).blocks) <= 32


@pytest.mark.parametrize(
    "damage", [b"", b"\xff" * 100, b"\x08" + b"\0" * 7 + b"{}      ", b"cut"], ids=["empty", "bytes", "bare", "cut"]
)
def test_a_damaged_digest_is_made_anew(tmp_path: Path, damage: bytes, short: None) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        write(log, 1, 100, random.Random(2))
    check(tmp_path)
    stored = digest_path(path).read_bytes()
    digest_path(path).write_bytes(stored[: len(stored) // 2] if damage == b"cut" else damage)
    check(tmp_path)
    assert digest_path(path).stat().st_size == len(stored)


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path, short: None) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        write(log, 1, 100, random.Random(3))
    digest_path(event_log_path(tmp_path)).mkdir()  # root may write anywhere else
    assert read_run(tmp_path).logged == 99


def test_a_damaged_line_after_the_digest_is_left_out_and_named(tmp_path: Path, short: None) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        write(log, 1, 100, random.Random(4))
    before = read_run(tmp_path)
    number = len(path.read_bytes().splitlines()) + 1
    with path.open("ab") as stream:
        stream.write(b'{"event":"step","step":100,"loss":[1]}\n\0\0{"event":"end"}\n{"event":"step","step":101}\n')
    run = read_run(tmp_path)
    assert run.logged == before.logged + 1 and run.last == 101
    first, second = run.left_out
    assert first.startswith(f"Line {number} of journal.jsonl is no step of a run: ")
    assert second == f"Line {number + 1} of journal.jsonl is no text, and is left out."


@pytest.mark.parametrize("damage", [b"{", b"\xff\xfe", b"[1]", b'{"event":"step"}', b'{"event":"\\u0000unreadable"}'])
def test_a_damaged_line_anywhere_costs_that_line_alone(tmp_path: Path, damage: bytes, short: None) -> None:
    path = event_log_path(tmp_path)
    with EventLog(path) as log:
        write(log, 1, 60, random.Random(5))
        write(log, 30, 90, random.Random(6))  # rolled back: steps of a block are read again
        log.write("end", steps=90)
    whole, lines = read_run(tmp_path), path.read_bytes().splitlines(keepends=True)
    for at in (*range(1, len(lines), 9), len(lines)):
        digest_path(path).unlink(missing_ok=True)
        path.write_bytes(b"".join([*lines[:at], damage + b"\n", *lines[at:]]))
        for _ in range(2):  # the second time from the stored digest
            run = read_run(tmp_path)
            assert run.ended and np.array_equal(run.blocks.last, whole.blocks.last, equal_nan=True)
            assert len(run.left_out) == 1 and run.left_out[0].startswith(f"Line {at + 1} of journal.jsonl is ")


def test_a_file_of_damaged_lines_is_no_log(tmp_path: Path) -> None:
    path = event_log_path(tmp_path)
    path.write_bytes(b'{"event":"begin","options":{}}\n' + b"{\n" * 101)
    with pytest.raises(DataError, match=r"journal\.jsonl: line 102 .*100 lines before: this is no event log"):
        read_run(tmp_path)


def test_smoothing_of_steps_is_the_exponential_average(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        write(log, 1, 400, random.Random(5))
    run = read_run(tmp_path)
    average = ExponentialAverage(0.5 ** (1 / run.half_life))
    expected = [average.add(x) for x in run.steps["loss"].tolist()]
    np.testing.assert_allclose(run.smoothed("loss"), expected, rtol=1e-10)
    assert not digest_path(event_log_path(tmp_path)).exists(), "a short log needs none"


def test_a_long_run_keeps_its_spikes_and_its_mean(tmp_path: Path) -> None:
    """Twenty thousand steps, at the real sizes; the second reading parses none of them."""
    path = event_log_path(tmp_path)
    lines = [f'{{"event":"step","step":{i},"loss":{2 + math.sin(i)},"tokens_per_s":1}}\n' for i in range(1, 20_001)]
    lines[776] = '{"event":"step","step":777,"loss":9}\n'
    path.write_text("".join(lines))
    first = read_run(tmp_path)
    os.utime(path)
    path.write_bytes(path.read_bytes().replace(b'"step":5,', b'"step":x,'))  # that nobody reads any more
    run = read_run(tmp_path)
    assert run.logged == first.logged == 20_000 and 777 in run.line("loss")[0] and max(run.line("loss")[1]) == 9
    assert run.smoothed("loss")[-1] == pytest.approx(2, abs=0.02)
    assert "Of 20,000 lines of the log" in unpacked(curves_page([run]))
