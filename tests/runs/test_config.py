"""Options are read strictly: nothing is dropped, nothing guessed."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from glassformer.errors import ConfigError
from glassformer.files.schema import actual_type, field_types, parse
from glassformer.runs.config import RunConfig, TrainingOptions, config_values, config_yaml, parse_config
from glassformer.task_names import TASK_ALIASES
from glassformer.tasks.pipeline_registry import canonical_task


def test_options_survive_a_round_trip() -> None:
    assert parse(TrainingOptions, asdict(TrainingOptions())) == TrainingOptions()


@pytest.mark.parametrize("name", [name for name, x in asdict(TrainingOptions()).items() if type(x) in (int, float)])
def test_no_number_is_a_minus(name: str) -> None:
    for wrong in (-1, -0.5, math.nan, math.inf):
        with pytest.raises(ConfigError, match=name):
            TrainingOptions(**{name: wrong})


def is_type_with_fields(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def options_of(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every option of a configuration, sections too."""
    for name, hint in field_types(kind).items():
        yield (*path, name)
        for inner in filter(is_type_with_fields, map(actual_type, (hint, *get_args(hint)))):
            yield from options_of(inner, (*path, name))


LARGE = [
    "x" * 50_000,
    ["y" * 1_000] * 300,
    [["z" * 10_000] * 20] * 20,
    {f"k{number}": [1, 2, 3] for number in range(5_000)},
    {"k" * 50_000: {"k" * 50_000: [[]]}},
    {10**300: 1},
    10**300,
    -(10**300),
]
"""Values of which a message quotes the beginning alone."""


def test_the_values_of_a_configuration_are_those_of_its_yaml() -> None:
    adapter = {"rank": 2, "target_modules": ["q"]}
    values = {"task": "classify", "model": "m", "output": "runs/m", "data": {"train": ["a.csv"]}, "adapter": adapter}
    config = parse_config(values)
    assert config_values(config) == yaml.safe_load(config_yaml(config))
    assert parse_config(config_values(config)) == config


def test_a_message_is_short_however_large_the_value() -> None:
    sound: dict[str, Any] = {"task": "classify", "model": "m", "output": "o", "data": {"train": "t.csv"}}
    refused = 0
    for *sections, name in options_of(RunConfig):
        for value in LARGE:
            config = copy.deepcopy(sound)
            section = config
            for outer in sections:
                section = section.setdefault(outer, {})
            section[name] = value
            try:
                parse_config(config)
            except ConfigError as error:
                refused += 1
                assert len(str(error)) < 2_000, (sections, name)
    assert refused > 500 and ("distillation", "teacher") in options_of(RunConfig)
    for value in (*LARGE[:3], None, 3):
        with pytest.raises(ConfigError, match="a configuration holds names and values; got") as caught:
            parse_config(value)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("classify", "classify"),
        ("text-classification", "classify"),
        ("sentiment-analysis", "classify"),
        ("token-classification", "tag"),
        ("ner", "tag"),
        ("automatic-speech-recognition", "transcribe"),
        ("summarization", "summarise"),
        ("pedals", "pedals"),
    ],
)
def test_a_task_has_one_name_whichever_is_given(name: str, task: str) -> None:
    config = parse_config({"task": name, "model": "some", "output": "runs/x", "data": {"train": "rows.csv"}})
    assert config.task == task
    if name in TASK_ALIASES:
        assert canonical_task(name) == canonical_task(task)


WRONG = {
    "unknown": ({"trainnig": {}}, "nearest: 'training'"),
    "of a part": ({"epochs": 3}, "it may be training.epochs"),
    "type": ({"training": {"batch_size": "many"}}, "training.batch_size is 'many'"),
    "task": ({"task": "clasify"}, "nearest: 'classify'"),
    "model": ({"scratch": "bert"}, "give either a model to fine-tune"),
    "file": ({"data": {}}, "data: 'train' is missing"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_is_found_without_torch(tmp_path: Path, what: str) -> None:
    """Importing torch takes longer than everything else that such a command does."""
    values, message = WRONG[what]
    sound: dict[str, Any] = {"task": "classify", "model": "m", "output": "o", "data": {"train": "t.csv"}}
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(sound | values), encoding="utf-8")
    program = (
        "import sys; from glassformer.cli.app import main; sys.argv = ['glassformer', 'train', 'wrong.yaml']\n"
        "try: main()\nexcept SystemExit as end: print(end.code, *{'torch', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n" and message in done.stderr, done
