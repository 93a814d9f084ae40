"""An ablation: four systems on the same recordings, their effects, and that nothing is done twice."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from glassformer.cli.app import main
from glassformer.errors import ConfigError, DataError
from glassformer.ngram.store import load_ngram
from glassformer.reports.page import report_data, report_page
from glassformer.studies.ablation import Ablation, parse_ablation, study_of
from glassformer.studies.ablation_results import AblationResults, ErrorCounts, TunedFusion
from glassformer.studies.overlap import PartOverlap
from glassformer.studies.training import StudyProgress
from tests.reports.packed import unpacked
from tests.tasks.transcribe.tones import letters_folder, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings in three parts, and a recogniser."""
    place = tmp_path_factory.mktemp("ablation")
    for seed, (name, count) in enumerate({"train": 12, "validation": 4, "test": 8}.items()):
        write_table(place, count, seed, f"{name}.csv")
    letters_folder(place / "letters")
    return place


def configuration(folder: Path, output: Path, **changed: Any) -> dict[str, Any]:
    values = {
        "task": "transcribe",
        "model": str(folder / "letters"),
        "output": str(output),
        "data": {"folder": str(folder), "train": "train.csv", "validation": "validation.csv", "ignore": ["speaker"]},
        "training": {"steps": 2, "batch_size": 4, "learning_rate": 1e-3},
        "study": {
            "language_model": {"order": 2, "alphas": [0.5], "tune_rows": 2},
            "test_sets": {"test": "test.csv"},
            "speaker": "speaker",
        },
    }
    values["data"]["columns"] = {"audio": "file_name"}  # type: ignore[index]
    return {**values, **changed}


class Heard(StudyProgress):
    """What was done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.told: list[str] = []

    def start(self, what: str) -> None:
        self.told.append(what)

    def training(self, number: int, count: int, run: Any) -> None:
        self.done.append(f"{number}/{count} {run.name}")

    def evaluating(self, run: Any, test_set: str, rows: int) -> None:
        self.done.append(f"{run.name} {run.seed}: {rows} of {test_set}")


def test_four_systems_and_nothing_twice(folder: Path, tmp_path: Path) -> None:
    study, heard = parse_ablation(configuration(folder, tmp_path / "study")), Heard()
    results = study.run([0, 1], heard)
    searched = "12 recordings; then 20 transcripts by 5 beams of each of 3 models"  # 2 weights × 2, 2 × 8 of test
    assert heard.told == [f"2 trainings on {searched}"]
    assert heard.done == [
        "pretrained 0: 8 of test", "pretrained 0: 8 of test+lm",
        "1/2 fine-tuned", "fine-tuned 0: 8 of test", "fine-tuned 0: 8 of test+lm",
        "2/2 fine-tuned", "fine-tuned 1: 8 of test", "fine-tuned 1: 8 of test+lm",
    ]  # fmt: skip
    headings, rows = results.table.headings, results.table.rows
    assert headings == ["", "pretrained", "fine-tuned", "fine-tuning"] and len(rows) == 6
    assert all(rows[i][3] for i in (0, 1, 3, 4)), "the effect of fine-tuning, without and with the language model"
    language_model = load_ngram(tmp_path / "study" / "words.ngram")
    assert {"aa", "ab", "ba", "bb"} <= set(language_model.words)
    parts = [json.loads(line) for line in (tmp_path / "study" / "parts.jsonl").read_text().splitlines()]
    assert [x["part"] for x in parts] == ["train"] * 12 + ["validation"] * 4 + ["test"] * 8
    saved = json.loads((tmp_path / "study" / "study.json").read_text())
    assert [x["of"] for x in saved["effects"]][:5] == ["fine-tuning"] * 2 + ["the language model"] * 2 + [
        "fine-tuning plus the language model"
    ]
    assert any("are by speakers who are in train too" in note for note in saved["notes"])
    page = (tmp_path / "study" / "study.html").read_text()
    assert "Ablation: pretrained, fine-tuned, without and with a language model" in page and "uplot" not in page

    again = Heard()
    assert str(parse_ablation(configuration(folder, tmp_path / "study")).run([0, 1], again)) == str(results)
    assert not again.done and again.told == [f"2 trainings (2 finished before) on {searched}"]
    wider = configuration(folder, tmp_path / "study", evaluation={"beams": 2})
    with pytest.raises(ConfigError, match="was trained otherwise: evaluation"):
        parse_ablation(wider).run([0])


def test_rescoring_in_the_place_of_fusion(folder: Path, tmp_path: Path) -> None:
    """The weights are tuned for what is evaluated, and the search without a language model has nothing to rescore."""
    values = configuration(folder, tmp_path / "study", evaluation={"beams": 4, "rescore": True})
    values["study"]["language_model"]["betas"] = [0.0, 30.0]
    parse_ablation(values).run([0])
    (tuned,) = (tmp_path / "study").glob("**/pretrained*/**/fusion.json")
    pairs = [(x["alpha"], x["beta"]) for x in json.loads(tuned.read_text())["tried"]]
    assert pairs == [(0.0, 0.0), (0.5, 0.0), (0.5, 30.0)]


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = configuration(folder, tmp_path / "study")
    assert isinstance(study_of(values), Ablation)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(SystemExit, match="0"):
        main(["study", str(tmp_path / "study.yaml"), "--plan", "--json"])
    (planned,) = json.loads(capsys.readouterr().out)["trainings"]
    assert (planned["name"], planned["examples"], planned["steps"], planned["finished"]) == ("fine-tuned", 12, 2, False)
    with pytest.raises(SystemExit, match="0"):
        main(["study", str(tmp_path / "study.yaml"), "--quiet"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "of the training transcripts alone" in shown  # what one has to know of the table
    assert "WER on test, without LM" in shown and "Fine-tuning without the language model" in shown


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"task": "classify"}, "is for task: transcribe"),
        ({"study": {"language_model": {}, "test_sets": {}}}, "names no test set"),
        ({"study": {"language_model": {"order": 0}, "test_sets": {"a": "b"}}}, "from 1 up"),
        ({"study": {"language_model": {"alphas": []}, "test_sets": {"a": "b"}}}, "at least one weight"),
        ({"data": {"train": "a.csv", "validation": 0.1}}, "validation must name files"),
    ],
)
def test_what_cannot_be_studied(folder: Path, tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_ablation(configuration(folder, tmp_path, **changed))


def test_a_recording_in_two_parts_is_an_error(folder: Path, tmp_path: Path) -> None:
    values = configuration(folder, tmp_path / "study")
    values["study"]["test_sets"] = {"test": "validation.csv"}
    with pytest.raises(DataError, match=r"recording .* is in validation and in test"):
        parse_ablation(values).run()
    values["study"] = {**values["study"], "test_sets": {"test": "test.csv"}, "speaker": "speakr"}
    with pytest.raises(DataError, match=r"no column 'speakr'.*speaker"):
        parse_ablation(values).run()


# --------------------------------------------------------------------------------------------- the results


def results_of(pretrained: list[int], tuned: list[list[int]], fused: list[int]) -> AblationResults:
    """Word errors of recordings of two words each."""

    def counts(name: str, lm: bool, seed: int, errors: list[int]) -> ErrorCounts:
        rows = np.array([[wrong, 2, wrong, 10] for wrong in errors], dtype=float)
        return ErrorCounts(name, lm, seed, "test", rows, [f"{name} {wrong}" for wrong in errors])

    systems = [counts("pretrained", lm, 0, fused if lm else pretrained) for lm in (False, True)]
    systems += [counts("fine-tuned", lm, seed, errors) for seed, errors in enumerate(tuned) for lm in (False, True)]
    return AblationResults(
        counts=systems,
        tuned=[TunedFusion("pretrained", 0, 0.5, 0.0, 3), TunedFusion("fine-tuned", 0, 0.0, 0.0, 3)],
        overlap=[PartOverlap("texts", "train", "test", 0, len(pretrained))],
        test_sets={"test": {"files": ["test.csv"], "rows": len(pretrained)}},
        references={"test": ["a b"] * len(pretrained)},
        normaliser="basic", beams=5, order=3, training_rows=9, planned=len(tuned), seconds=1.0,
    )  # fmt: skip


def test_effects_are_paired_and_say_what_they_show() -> None:
    results = results_of([2] * 20 + [1] * 20, [[0] * 40, [1] + [0] * 39], [2] * 19 + [1] * 19 + [2, 0])
    tuning, _, helped, unchanged, both = results.effects_on("wer", "test")
    assert (tuning.before, tuning.after) == (0.75, pytest.approx(1 / 160))
    assert tuning.difference.value == pytest.approx(1 / 160 - 0.75) and tuning.difference.leaves_out_zero
    assert tuning.seeds == [-0.75, pytest.approx(1 / 80 - 0.75)]
    assert tuning.sentence("word error rate").startswith("Fine-tuning without the language model lowers the word error")
    assert "with 2 of 2 seeds; zero is outside" in tuning.sentence("word error rate")
    assert not helped.difference.leaves_out_zero
    assert "is not shown to change" in helped.sentence("word error rate")
    assert unchanged.sentence("word error rate") == (
        "The language model on the fine-tuned model changes no word error rate: 0.006."
    )
    assert both.before == 0.75 and both.after == pytest.approx(1 / 160)
    # rows that are hard for both systems cancel out: an unpaired interval would be far wider
    assert helped.difference.high is not None and helped.difference.high - helped.difference.value < 0.08


def test_the_page_and_the_table() -> None:
    results = results_of([2, 1, 0], [[0, 1, 0]], [2, 1, 0])
    page = unpacked(report_page(results))
    assert "Different transcripts" in page and "fine-tuned 1" in page and "(not used)" in page
    tables = {table["caption"]: table for table in report_data(results)["tables"]}
    rates = tables["word error rate on test, lower is better"]
    assert [row[0] for row in rates["rows"]][:2] == ["pretrained, without LM", "pretrained, with LM"]
    assert rates["rows"][0][1]["low"] <= rates["rows"][0][1]["value"]
    assert [text for text, _ in results.differing("test", 20)] == ["a b", "a b"]
    assert len(results.differing("test", 1)) == 1
    assert "no transcript of test is in train" in str(results)


def test_error_rates_that_are_no_numbers_are_said_and_not_drawn() -> None:
    """Of recordings without a word."""
    results = results_of([2, 1, 0], [[0, 1, 0]], [2, 1, 0])
    for counts in results.counts:
        counts.errors[:, 1] = counts.errors[:, 3] = 0
    with np.errstate(all="ignore"):
        page = unpacked(report_page(replace(results, seconds=math.nan)))
    assert "nan%" not in page and "inf%" not in page and "trainings in –" in page
