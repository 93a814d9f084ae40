"""Runs side by side: differences where the rows are the same, and reasons where they are not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from glassformer import ConfigError
from glassformer.cli.compare import compare as typed_compare
from glassformer.cli.screen import whisker
from glassformer.evaluation.compare.compare import compare
from glassformer.evaluation.runs import TrainedRun
from glassformer.reports.page import report_data
from glassformer.tasks.metrics.metric import Interval, differences
from tests.evaluation.made import AccuracyTask, Right, make_run
from tests.reports.packed import data_of, unpacked


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainedRun, "task_for_evaluation", lambda self, **options: AccuracyTask())


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [
        make_run(tmp_path / "small", [i % 2 == 0 for i in range(40)], seconds=90),
        make_run(tmp_path / "large", [i % 4 != 1 for i in range(40)]),
    ]


def test_the_same_rows_are_drawn_together(two: list[Path]) -> None:
    found = compare(two, resamples=200)
    small, large, dummy = found.systems
    records = [open_records(folder) for folder in two]
    wanted = differences(Right(records[1]), Right(records[0]), 200)
    assert large.differences == wanted and large.differences["accuracy"].value == pytest.approx(0.25)
    assert small.differences == {} and small.cost.parameters == 1_234 and small.cost.cpu_seconds == 180
    assert dummy.differences["accuracy"] == Interval(-0.5, -0.6, -0.4), "the run lies above it by 0.5"
    assert json.dumps(found.to_dict())
    text = str(found)
    for words in ("small, large", "+0.250 [", "1,234", "minutes", "<most> frequent"):
        assert words in text, words
    assert "ms alone" not in text, "what nobody measured has no column"


def test_other_rows_have_no_difference(two: list[Path], tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", [True] * 9, fingerprint="others")
    standing = compare([two[0], other], resamples=50).systems[1]
    assert standing.differences == {} and standing.apart == "other rows or labels"
    (two[1] / "evaluation" / "validation" / "examples.jsonl").unlink()
    assert compare(two, resamples=50).systems[1].apart == "its predictions were not saved"


def test_several_seeds_beside_several(tmp_path: Path) -> None:
    for name, counts in (("a", (10, 12, 14)), ("b", (15, 16, 18))):
        for seed, right in enumerate(counts):
            make_run(tmp_path / name / f"seed-{seed}", [i < right for i in range(20)], seed=seed, seconds=30)
    a, b, _ = compare([tmp_path / "a", tmp_path / "b"]).systems
    assert a.seeds == 3 and a.metrics["accuracy"].value == pytest.approx(0.6)
    difference = b.differences["accuracy"]
    assert difference.value == pytest.approx(49 / 60 - 0.6) and difference.leaves_out_zero
    mixed = compare([tmp_path / "a", tmp_path / "b" / "seed-0"])
    one = mixed.systems[1]
    assert "a (3 seeds), b, seed 0;" in mixed.caption and "over rows, or over seeds" in mixed.caption
    assert one.apart == "one run compared with several seeds"


def test_a_folder_of_one_seed_is_a_run(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "seed-0", [True, False] * 5)
    other = make_run(tmp_path / "b", [True] * 10)
    found = compare([tmp_path / "a", other], resamples=50)
    assert found.systems[1].differences["accuracy"].value == 0.5 and found.systems[0].name == "a"
    assert not (tmp_path / "a" / "seeds.json").exists(), "the summary of a comparison is not saved"


def test_an_evaluation_is_a_place_too(two: list[Path]) -> None:
    again = shutil.copytree(two[1], two[1].parent / "elsewhere" / two[1].name)
    found = compare([two[0] / "evaluation" / "validation", two[1], again], resamples=50)
    assert [one.name for one in found.systems[:3]] == ["small (validation)", "large", "large (2)"]
    assert "accuracy" in found.systems[1].differences


def test_a_run_that_was_not_evaluated_is_evaluated_first(two: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    place = two[1] / "evaluation" / "validation"
    kept = place.rename(place.with_name("kept"))

    class Evaluated:
        def save(self, folder: Path) -> None:
            kept.rename(folder)

    monkeypatch.setattr(TrainedRun, "evaluate", lambda self, **options: Evaluated())
    assert compare(two, resamples=50).systems[1].metrics["accuracy"].value == 0.75


def test_what_cannot_be_compared(two: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"large and .*small/\.\./large are the same folder; give it once"):
        compare([*two, two[0] / ".." / two[1].name])
    with pytest.raises(ConfigError, match="no system to compare"):
        compare([])
    with pytest.raises(ConfigError, match="holds no run"):
        compare([tmp_path])
    tags = make_run(tmp_path / "tags", [True], task="tag")
    with pytest.raises(ConfigError, match="small was trained to classify, tags to tag"):
        compare([two[0], tags])
    with pytest.raises(ConfigError, match=r"lead-3: no such folder; name folders.*--data FILE"):
        typed_compare(["lead-3"])


def test_on_the_screen_and_as_a_page(two: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = two[1].rename(tmp_path / "<b>\x1b[31m")
    path = tmp_path / "page.html"
    typed_compare([str(two[0]), str(evil)], html=path)
    out = capsys.readouterr().out
    assert "●" in out and "\x1b" not in out and "saved in" in out
    html = path.read_text("utf-8")
    shown = [row[0] for row in data_of(html)["reports"][0]["tables"][0]["rows"]]
    assert "<b>\x1b" not in html and "<b>\\x1b[31m" in shown and any("<most>" in name for name in shown)
    assert "default-src 'none'" in html and set(re.findall("https?://([^/]*)", unpacked(html))) <= {"www.w3.org"}
    data = report_data(compare([two[0], evil], resamples=50))
    (_, first, _), (_, second, difference) = data["tables"][0]["rows"][:2]
    assert first["low"] <= first["value"] <= first["high"] and second["value"] - first["value"] == 0.25
    assert difference["signed"] and difference["text"].startswith("+0.250")
    assert data["tables"][0]["reference"] == 0 and data["tables"][0]["baselines"] == [2]
    typed_compare([str(two[0]), str(evil)], json=True)
    assert json.loads(capsys.readouterr().out)["metric"] == "accuracy"
    alone = report_data(compare([two[0]], resamples=50))
    assert alone["tables"][0]["rows"][0][1]["low"] is not None, "one alone is drawn too"


@pytest.mark.parametrize(
    ("interval", "drawn"),
    [
        (Interval(5, 2, 8), "  ╶──●──╴  "),
        (Interval(0, 0, 10), "●─────────╴"),
        (Interval(10), "          ●"),
    ],
)
def test_whiskers(interval: Interval, drawn: str) -> None:
    assert whisker(interval.cell(), 0, 10, 11) == drawn
    assert len(whisker(interval.cell(), 5, 5, 7)) == 7


def open_records(folder: Path) -> list:  # type: ignore[type-arg]
    from glassformer.tasks.predictions import read_predictions

    return read_predictions(folder / "evaluation" / "validation" / "examples.jsonl")
