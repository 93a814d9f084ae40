"""One row a task: names, aliases, examples, help texts and hints derive from it; a task of your own takes one line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click import unstyle
from typer.testing import CliRunner

import glassformer
from glassformer import hf, task_names
from glassformer.cli.app import app
from glassformer.errors import ConfigError, DataError, UnknownNameError, UnsupportedError
from glassformer.hf.pipelines import get_supported_tasks
from glassformer.plugins import register
from glassformer.runs.config import parse_config
from glassformer.task_names import ANSWERED, EXAMPLES, TABLE, TASK_ALIASES, TRAINED
from glassformer.tasks.base import Task, check_evaluates
from glassformer.tasks.classify.pipeline import TextClassification
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.pipeline_registry import PIPELINES, canonical_task
from glassformer.tasks.registry import TASKS, task_class, task_name
from tests.e2e.tiny_models import make_folder
from tests.project.budgets import trees

SOURCE = Path(glassformer.__file__).parent


class Shout(TextClassification):
    """Whether a text is loud."""


class Loud(Classify):
    """Texts by how loud they are."""

    PIPELINE: ClassVar[type[Any]] = Shout


@pytest.fixture
def loud() -> Iterator[None]:
    register("tasks", "loud", Loud)
    yield
    del TASKS["loud"]


def test_every_list_is_of_the_table() -> None:
    names = [name for row in TABLE for name in (row.name, row.there, *row.also) if name]
    assert len(names) == len(set(names)), "a name means one task"
    assert [*TASKS][: len(TRAINED)] == [row.name for row in TABLE if row.trains]
    assert [*PIPELINES] == [*ANSWERED] == [row.there for row in TABLE if row.answers] == [*EXAMPLES]
    assert sorted(ANSWERED) == get_supported_tasks()
    for row in TABLE:
        assert row.trains or row.answers
        if row.trains:
            assert issubclass(TASKS[row.name], Task) and task_name(row.there or row.name) == row.name
        if row.trains and row.answers and row.name != "contrastive":
            assert TASKS[row.name].HEAD in (row.there, PIPELINES[row.there].HEAD)
        for name in (row.name, row.there, *row.also):
            if row.answers and name:
                assert canonical_task(name) == row.there


def test_help_texts_have_the_names_of_the_table() -> None:
    def shown(command: str) -> str:
        return " ".join(unstyle(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output).split())

    assert all(name in shown("train") for name in TRAINED)
    assert all(name in shown("predict") for name in task_names.SHORT)


def test_no_other_module_lists_tasks() -> None:
    """A list of three names or more that the table has would be another one to keep."""
    known = {*TRAINED, *TASK_ALIASES, *ANSWERED}
    found = []
    for path, tree in trees(SOURCE):
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                if len(known.intersection(map(str, keys))) > 8:
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == [], found


def test_one_line_adds_a_task(loud: None, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bert", "bert", task="text-classification")
    assert task_class("loud") is Loud and "loud" in TASKS
    config = parse_config(
        {"task": "loud", "model": str(folder), "output": "run", "data": {"train": "rows.csv", "validation": 0.1}}
    )
    assert config.task == "loud"
    check_evaluates("loud")
    with pytest.raises(ConfigError, match=r"task is 'lod'; nearest: 'loud'.*loud"):
        task_class("lod")
    with pytest.raises(UnsupportedError, match=r"those that can: .*\bloud\b"):
        check_evaluates("denoise")
    with pytest.raises(UnknownNameError, match="nearest: 'loud'"):
        glassformer.pipeline("lod", folder)
    with pytest.raises(DataError, match=r"pipeline\('loud'\) was given no model"):
        hf.pipeline("loud")
    answer = glassformer.pipeline("loud", folder)
    there = hf.pipeline("loud", str(folder))
    assert isinstance(answer, Shout) and isinstance(there.inner, Shout)
    assert there("a banana")[0]["score"] == pytest.approx(answer("a banana")[0].score)
    done = CliRunner().invoke(app, ["predict", "loud", str(folder), "a banana"])
    assert done.exit_code == 0 and answer("a banana")[0].label in done.output
