"""The page of curves as a file: small, self-contained, with nothing in it that could run."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from glassformer import DataError
from glassformer.runs.charts import charts, number, ticks, value_range
from glassformer.runs.curves import curves_page, write_page
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.runs.history import read_run
from tests.training.a_run import write_run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def test_nothing_in_it_comes_from_elsewhere_or_can_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", options={EVIL: EVIL, "labels": [EVIL]})
    with EventLog(event_log_path(folder)) as log:
        log.write("validation", step=60, metrics={EVIL: 0.5})
        log.write("skipped", step=61, loss=math.inf, module=EVIL, indices=[EVIL])
    text = write_page(folder, tmp_path / "page.html").read_text("utf-8")
    assert "alert(1)</script>" not in text and "<img" not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert re.findall(r"https?://[^\s\"']*", text) == ["http://www.w3.org/2000/svg"]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    assert 'style="' not in text  # which the policy would refuse


def test_a_page_of_one_run_says_what_it_reached(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", options={"training": {"metric": "accuracy"}})
    with EventLog(event_log_path(folder)) as log:
        log.write("validation", step=60, metrics={"loss": 0.25, "accuracy": 0.875}, best=True)
    assert "best at step 60: accuracy 0.875</p>" in curves_page([read_run(folder)])
    assert "best at step" not in curves_page([read_run(folder)] * 2).partition("</p>")[0]


def test_a_long_run_is_a_small_page(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        rows = (
            f'{{"event":"step","step":{i},"loss":{2 + math.sin(i)},"lr":{1 / i},"grad_norm":{3 + math.cos(i)},'
            f'"epoch":{i / 1e4},"tokens":100,"tokens_per_s":{1000 + i % 77}}}\n'
            for i in range(1, 100_001)
        )
        log.path.write_text("".join(rows))
    page = write_page(tmp_path, tmp_path / "page.html")
    assert 200_000 < page.stat().st_size < 2_000_000
    assert "Of 100,000 lines of the log" in page.read_text("utf-8")


def test_many_runs_are_a_small_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path, steps=1500)
    assert len(curves_page([read_run(folder)] * 12)) < 2_000_000


def test_settings_that_differ_come_first(tmp_path: Path) -> None:
    runs = [read_run(write_run(tmp_path / str(i), seed=7, options={"z": i, "data": {"x": 1}})) for i in range(2)]
    text = curves_page(runs)
    rows = re.findall(r'<tr class="(differs|same)"><th scope="row">(.*?)</th>', text)
    assert rows[0] == ("differs", "z") and ("same", "data.x") in rows[1:]


def test_pages_of_runs_with_little_in_them(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        log.write("begin", options={})
        assert "0 steps" in curves_page([read_run(tmp_path)])
        log.write("step", step=1, loss=2.0)
        assert "1 steps" in curves_page([read_run(tmp_path)])
        log.write("validation", step=1, metrics={"f1": math.nan})
        assert "<td>NaN</td>" in curves_page([read_run(tmp_path)])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3)
    with pytest.raises(DataError, match="the page cannot be written: No such file"):
        write_page(folder, tmp_path / "nowhere" / "page.html")


def test_ticks_are_round_and_within() -> None:
    assert ticks(0, 2020, 5) == [0, 500, 1000, 1500, 2000]
    assert ticks(0.19, 3.1, 5) == [1, 2, 3]
    assert ticks(1e-7, 9e-7, 5) == pytest.approx([2e-7, 4e-7, 6e-7, 8e-7])
    assert ticks(-1, 1, 4) == [-1, -0.5, 0, 0.5, 1]


def test_a_spike_does_not_flatten_the_rest(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        for step in range(1, 300):
            log.write("step", step=step, loss=1e6 if step == 150 else 1 + step % 2)
    (raw,) = [line for line in charts([read_run(tmp_path)], 1000)[0].lines if line.kind == "raw"]
    low, high = value_range([raw])
    assert raw.values.max() == 1e6 and 0 <= low <= 1 and 2 <= high < 3


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (0, "0"),
        (0.41237, "0.4124"),
        (1240, "1,240"),
        (5.96e-4, "5.96e-4"),
        (1e-5, "1e-5"),
        (12_345_678, "1.23e7"),
        (math.nan, "NaN"),
        (-math.inf, "−∞"),
        (-3, "-3"),
    ],
)
def test_numbers_as_people_read_them(x: float, written: str) -> None:
    assert number(x) == written
