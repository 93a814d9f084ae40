"""The numbers of two studies on tiny models stay as they were before studies were of factors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.studies.study import parse_study
from tests.studies.samples import recordings, sizes_values, spoken_values

KEYS = {"value": "y", "low": "low", "high": "high"}
PINNED = Path(__file__).with_name("pinned")


def pinned(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((PINNED / f"{name}.json").read_text())
    return values


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Two values with intervals."""
    for name in ("value", "low", "high"):
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name


def test_sizes_of_training_sets(tmp_path: Path) -> None:
    values = sizes_values(tmp_path)
    values["training"] |= {"epochs": 12, "learning_rate": 1e-2}
    values["study"] |= {"baselines": True, "limit": None}
    parse_study(values).run([0, 1])
    found, old = json.loads((tmp_path / "study" / "study.json").read_text()), pinned("sizes")
    assert (found["metric"], found["higher"]) == (old["metric"], old["higher"])
    cells = {(x["folder"]): x for x in found["cells"]}
    assert len(cells) == 20
    for training in old["trainings"]:
        for test_set, value in training["metrics"].items():
            cell = cells[f"{training['folder']}/evaluation/{test_set}"]
            same(cell["metrics"]["f1_weighted"], value)
            for cost in ("rows", "steps", "tokens"):
                assert cell["costs"][cost]["value"] == training[cost]
            for baseline, its_value in training["baselines"][test_set].items():
                same(cell["baselines"][baseline], its_value)
    assert [x["name"] for x in found["lines"]] == [f"trained on {x['name']}" for x in old["lines"]]
    for line, before in zip(found["lines"], old["lines"], strict=True):
        assert line["x"] == [int(number) for number in before["points"]]
        for i, value in enumerate(before["points"].values()):
            same({name: line[key] and line[key][i] for name, key in KEYS.items()}, value)
    new, before = found["table"], old["table"]
    shown = [new["headings"].index(name) for name in ("new", "old")]
    assert [[row[i] for i in shown] for row in new["rows"]] == [row[2:] for row in before["rows"]]
    assert found["sentences"][0].startswith("With none of the numbers tried, up to 12 rows of near")
    assert old["sentences"][0].startswith("With none of the numbers tried, up to 12 rows of near")


def test_recognisers_with_and_without_a_language_model(tmp_path: Path) -> None:
    values = spoken_values(recordings(tmp_path), tmp_path / "study")
    values["training"] |= {"steps": 12, "learning_rate": 3e-3}
    values["study"]["language_model"] |= {"alphas": [1.0, 4.0], "betas": [0.0, 3.0], "tune_rows": 4}
    parse_study(values).run([0, 1])
    found, old = json.loads((tmp_path / "study" / "study.json").read_text()), pinned("fusion")
    check_effects(found, old)
    assert [{**x, "recordings": 4} for x in found["facts"]["tuned"]] == old["tuned"]
    assert found["facts"]["overlap"] == old["overlap"]
    for note in old["notes"][2:]:
        assert note in found["notes"]


SEARCH = {False: "without LM", True: "with LM"}
WHERE = {
    "without the language model": ("model", "without LM"),
    "with the language model": ("model", "with LM"),
    "on the pretrained model": ("language model", "pretrained"),
    "on the fine-tuned model": ("language model", "fine-tuned"),
    "together": ("model + language model", ""),
}


def check_effects(found: dict[str, Any], old: dict[str, Any]) -> None:
    """The error rates of the systems, and what each change makes of them."""
    points = {(x["levels"]["model"], x["levels"]["language model"]): x for x in found["points"]}
    for system in old["systems"]:
        point = points[system["name"], SEARCH[system["language_model"]]]
        assert point["seeds"] == system["seeds"]
        for metric in ("wer", "cer"):
            same(point["metrics"][metric], system[metric])
    effects = {(x["factor"], "".join(x["where"].values()), x["metric"]): x for x in found["effects"]}
    assert len(effects) == len(old["effects"])
    for effect in old["effects"]:
        new = effects[*WHERE[effect["where"]], effect["metric"]]
        same(new["difference"], effect["difference"])
        assert new["seeds"] == pytest.approx(effect["seeds"], abs=1e-12)
        assert (new["before"], new["after"]) == pytest.approx((effect["before"], effect["after"]), abs=1e-12)
