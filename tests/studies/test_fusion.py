"""A language model as a factor of a recogniser: four systems on the same recordings, and nothing is done twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from glassformer.cli.app import main
from glassformer.errors import ConfigError, DataError
from glassformer.ngram.store import load_ngram
from glassformer.studies.cells import Cell, CellResult, scored
from glassformer.studies.overlap import PartOverlap
from glassformer.studies.report import ReportOptions, StudyReport
from glassformer.studies.study import parse_study
from glassformer.studies.summary import study_report
from glassformer.tasks.metrics.metric import BootstrapSums
from glassformer.tasks.metrics.speech import error_rates
from tests.reports.packed import unpacked
from tests.studies.samples import Heard, recordings, spoken_values
from tests.studies.test_pinned import check_effects, pinned


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recordings(tmp_path_factory.mktemp("fusion"))


def test_four_systems_and_nothing_twice(folder: Path, tmp_path: Path) -> None:
    study, heard = parse_study(spoken_values(folder, tmp_path / "study")), Heard()
    results = study.run([0, 1], heard)
    searched = "12 recordings; then 20 transcripts by 5 beams of each of 3 models"  # 2 weights × 2, 2 × 8 of test
    assert heard.told == [f"2 trainings on {searched}"]
    assert heard.trained == ["1/2 fine-tuned, seed 0", "2/2 fine-tuned, seed 1"]
    each = ["on 8 rows of test", "on 8 rows of test with LM"]
    assert heard.evaluated == [f"{name} {x}" for name in ("pretrained", "fine-tuned", "fine-tuned") for x in each]
    assert results.table.headings[:3] == ["model", "language model", "test"]
    assert [row[:2] for row in results.table.rows] == [
        [model, search] for model in ("pretrained", "fine-tuned") for search in ("without LM", "with LM")
    ]  # fmt: skip
    assert [x.metric for x in results.effects] == ["wer"] * 5 + ["cer"] * 5 and results.metric == "wer"
    language_model = load_ngram(tmp_path / "study" / "words.ngram")
    assert {"aa", "ab", "ba", "bb"} <= set(language_model.words)
    parts = [json.loads(line) for line in (tmp_path / "study" / "parts.jsonl").read_text().splitlines()]
    assert [x["part"] for x in parts] == ["train"] * 12 + ["validation"] * 4 + ["test"] * 8
    saved = json.loads((tmp_path / "study" / "study.json").read_text())
    effects = [(x["factor"], "".join(x["where"].values())) for x in saved["effects"]][:5]
    assert effects == [
        ("model", "without LM"), ("model", "with LM"), ("language model", "pretrained"),
        ("language model", "fine-tuned"), ("model + language model", ""),
    ]  # fmt: skip
    assert any("are by speakers who are in train too" in note for note in saved["notes"])
    assert saved["examples"] and {*saved["examples"][0]["outputs"]} == {
        f"{model}, {search}" for model in ("pretrained", "fine-tuned") for search in ("without LM", "with LM")
    }
    page = unpacked((tmp_path / "study" / "study.html").read_text())
    assert "wer by model (pretrained, fine-tuned), language model (without LM, with LM)" in page
    assert "Different answers" in page

    again = Heard()
    assert str(parse_study(spoken_values(folder, tmp_path / "study")).run([0, 1], again)) == str(results)
    assert not again.trained and not again.evaluated
    assert again.told == [f"2 trainings (2 finished before) on {searched}"]
    wider = spoken_values(folder, tmp_path / "study", evaluation={"beams": 2})
    with pytest.raises(ConfigError, match="was trained otherwise: evaluation"):
        parse_study(wider).run([0])


def test_weights_are_tuned_again_for_another_search(folder: Path, tmp_path: Path) -> None:
    values = spoken_values(folder, tmp_path / "study")
    parse_study(values).run([0])
    path = tmp_path / "study" / "pretrained" / "seed-0" / "fusion.json"
    before = json.loads(path.read_text())["made_of"]
    shutil.rmtree(tmp_path / "study" / "fine-tuned")
    values["evaluation"] = {"beams": 2}
    heard = Heard()
    parse_study(values).run([0], heard)
    after = json.loads(path.read_text())["made_of"]
    assert (before["evaluation"], after["evaluation"]) == ({"beams": 5}, {"beams": 2})
    assert len(heard.evaluated) == 4, "the transcripts of both searches too"


def test_rescoring_in_the_place_of_fusion(folder: Path, tmp_path: Path) -> None:
    """The weights are tuned for what is evaluated, and the search without a language model has nothing to rescore."""
    values = spoken_values(folder, tmp_path / "study", evaluation={"beams": 4, "rescore": True})
    values["study"]["language_model"]["betas"] = [0.0, 30.0]
    parse_study(values).run([0])
    (tuned,) = (tmp_path / "study").glob("**/pretrained*/**/fusion.json")
    pairs = [(x["alpha"], x["beta"]) for x in json.loads(tuned.read_text())["tried"]]
    assert pairs == [(0.0, 0.0), (0.5, 0.0), (0.5, 30.0)]


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = spoken_values(folder, tmp_path / "study")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(SystemExit, match="0"):
        main(["study", str(tmp_path / "study.yaml"), "--plan", "--json"])
    (planned,) = json.loads(capsys.readouterr().out)["trainings"]
    assert (planned["name"], planned["finished"]) == ("fine-tuned", False)
    assert (planned["counts"]["examples"], planned["counts"]["steps"]) == (12, 2)
    with pytest.raises(SystemExit, match="0"):
        main(["study", str(tmp_path / "study.yaml"), "--quiet"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "of the training transcripts alone" in shown  # what one has to know of the table
    assert "without LM" in shown and "Replacing pretrained by fine-tuned (without LM)" in shown


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"task": "classify"}, "is for task: transcribe"),
        ({"study": {"language_model": {}, "test_sets": {}}}, "names no test set"),
        ({"study": {"language_model": {"order": 0}, "test_sets": {"a": "b"}}}, "from 1 up"),
        ({"study": {"language_model": {"alphas": [-1]}, "test_sets": {"a": "b"}}}, "a number from 0 up"),
        ({"study": {"language_model": {"alphas": []}, "test_sets": {"a": "b"}}}, "at least one weight"),
        ({"data": {"train": "a.csv", "validation": 0.1}}, "validation must name files"),
    ],
)
def test_what_cannot_be_studied(folder: Path, tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_study(spoken_values(folder, tmp_path, **changed))


def test_a_recording_in_two_parts_is_an_error(folder: Path, tmp_path: Path) -> None:
    values = spoken_values(folder, tmp_path / "study")
    values["study"]["test_sets"] = {"test": "validation.csv"}
    with pytest.raises(DataError, match=r"recording .* is in validation and in test"):
        parse_study(values).run()
    values["study"] = {**values["study"], "test_sets": {"test": "test.csv"}, "speaker": "speakr"}
    with pytest.raises(DataError, match=r"no column 'speakr'.*speaker"):
        parse_study(values).run()


# --------------------------------------------------------------------------------------------- the results


def results_of(pretrained: list[int], tuned: list[list[int]], fused: list[int]) -> StudyReport:
    """Word errors of recordings of two words each."""

    def result(errors: list[int]) -> CellResult:
        rows = np.array([[wrong, 2, wrong, 10] for wrong in errors], dtype=float)
        return scored(BootstrapSums(rows, error_rates, {}))

    cells: dict[str, tuple[Cell, CellResult]] = {}
    for search in ("without LM", "with LM"):
        for name, seeds in (("pretrained", [fused if search == "with LM" else pretrained]), ("fine-tuned", tuned)):
            for seed, errors in enumerate(seeds):
                levels = {"model": name, "language model": search, "evaluated on": "test"}
                folder = f"{name}, {search}, {seed}"
                cells[folder] = Cell(levels, seed, Path(folder)), result(errors)
    factors = {
        "model": ["pretrained", "fine-tuned"],
        "language model": ["without LM", "with LM"],
        "evaluated on": ["test"],
    }
    options = ReportOptions(metric="wer", more=["cer"], columns="evaluated on", intervals="rows")
    return study_report(factors, cells, len(cells), options)


def test_effects_are_paired_and_say_what_they_show() -> None:
    results = results_of([2] * 20 + [1] * 20, [[0] * 40, [1] + [0] * 39], [2] * 19 + [1] * 19 + [2, 0])
    check_effects(results.to_dict(), pinned("effects"))
    tuning, _, helped, unchanged, both = [x for x in results.effects if x.metric == "wer"]
    assert (tuning.before, tuning.after) == (0.75, pytest.approx(1 / 160))
    assert tuning.difference.value == pytest.approx(1 / 160 - 0.75) and tuning.difference.leaves_out_zero
    assert tuning.seeds == [-0.75, pytest.approx(1 / 80 - 0.75)]
    assert tuning.sentence.startswith(
        "Replacing pretrained by fine-tuned (without LM) lowers the wer from 0.750 to 0.006"
    )
    assert "with 2 of 2 seeds; zero is outside" in tuning.sentence
    assert not helped.difference.leaves_out_zero
    assert "is not shown to change" in helped.sentence
    assert unchanged.sentence == "Adding LM (fine-tuned) leaves the wer at 0.006."
    assert both.before == 0.75 and both.after == pytest.approx(1 / 160)
    # rows that are hard for both systems cancel out: an unpaired interval would be far wider
    assert helped.difference.high is not None and helped.difference.high - helped.difference.value < 0.08


def test_what_parts_have_in_common_is_said() -> None:
    assert str(PartOverlap("texts", "train", "test", 0, 3)) == "no transcript of test is in train"
    assert str(PartOverlap("speakers", "train", "test", 2, 3)) == (
        "2 of 3 recordings of test are by speakers who are in train too"
    )
