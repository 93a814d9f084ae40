"""Several runs in one configuration: shared keys, their own, and the models of earlier ones."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.errors import ConfigError
from glassformer.runs.several import split_runs


def test_what_is_shared_and_what_is_a_runs_own() -> None:
    runs = split_runs(
        {
            "output": "all",
            "data": {"train": "a.csv", "format": {"kind": "csv", "header": True}},
            "training": {"steps": 3},
            "runs": {
                "first": {"task": "generate", "data": {"format": {"header": False}}},
                "second": {"task": "fill", "model": "run:first", "output": "elsewhere", "data": {"train": "b.csv"}},
                "third": {"task": "fill", "task_options": {"deep": [{"codec": "run:second"}]}, "training": None},
            },
        }
    )
    csv = {"kind": "csv", "header": True}
    assert runs == {
        "first": {
            "output": "all/first",
            "task": "generate",
            "data": {"train": "a.csv", "format": {"kind": "csv", "header": False}},
            "training": {"steps": 3},
        },
        "second": {
            "output": "elsewhere",
            "task": "fill",
            "model": "all/first/model",
            "data": {"train": "b.csv", "format": csv},
            "training": {"steps": 3},
        },
        "third": {
            "output": "all/third",
            "task": "fill",
            "task_options": {"deep": [{"codec": "elsewhere/model"}]},
            "data": {"train": "a.csv", "format": csv},
            "training": None,
        },
    }
    assert split_runs({"runs": {"only": {}}}) == {"only": {"output": "runs/only"}}


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], r"runs is \[\]; it must be name → configuration"),
        ({}, "runs is {}; it must be name → configuration"),
        ({"a": 3}, "runs.a is 3; it must be names and values"),
        ({"../a": {}}, r"runs has the name '../a'; it must be that of a folder in runs"),
        ({3: {}}, "runs has the name 3"),
        ({"codec": {}, "b": {"model": "run:codek"}}, "runs.b.model is 'run:codek'; runs before this one; nearest: 'co"),
        ({"a": {"model": "run:b"}, "b": {}}, "runs.a.model is 'run:b'; runs before this one: none"),
        ({"a": {}, "b": {"output": "runs/a"}}, "runs.b has the output folder of runs.a, runs/a; give it another"),
    ],
)
def test_bad_runs(runs: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split_runs({"runs": runs})
