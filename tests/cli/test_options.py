"""Options from dataclasses: what they become, column mappings."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.options import (
    Loading,
    ModelName,
    Options,
    SamplingOptions,
    Without,
    columns_of,
    command,
    option,
)
from glassformer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Written(Options):
    """Where something goes."""

    output: Path = option(..., "Output file.", "--output", "-o")
    count: int = option(3, "How many.", min=1, key="number")
    loud: bool = option(False, "Loud.")


def make() -> tuple[typer.Typer, list[Any]]:
    """A command line that keeps the options it is given."""
    seen: list[Any] = []

    @command
    def write(model: ModelName, *, written: Written, loading: Annotated[Loading, Without(["dtype"])]) -> None:
        """Write."""
        seen[:] = [model, written, loading]

    app = typer.Typer()
    app.command()(write)
    return app, seen


def test_fields_become_options() -> None:
    app, seen = make()
    done = CliRunner().invoke(app, ["a", "--output", "x", "--count", "2", "--loud", "--device", "cuda"])
    assert done.exit_code == 0 and done.stderr == ""
    assert seen == ["a", Written(output=Path("x"), count=2, loud=True), Loading(device="cuda")]
    assert seen[1].given() == {"output": Path("x"), "number": 2, "loud": True}
    assert CliRunner().invoke(app, ["a", "-o", "x", "--dtype", "float32"]).exit_code == 2
    assert CliRunner().invoke(app, ["a", "-o", "x", "--count", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["a", "-o", "x", "--no-loud"]).exit_code == 2
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert re.search(r"\* +--output +-o .*Output file\. +\[required\]", text) and "[default: 3]" in text


def test_a_required_option_is_named() -> None:
    app, _ = make()
    done = CliRunner().invoke(app, ["a"])
    assert done.exit_code == 2 and "Missing option '--output'" in done.stderr


def test_a_command_is_called_with_its_options_by_name() -> None:
    @command
    def draw(sampling: SamplingOptions) -> None:
        """Draw."""
        assert sampling.given() == {"do_sample": True, "seed": 0}

    draw(seed=0)
    assert "top_k" in inspect.signature(draw).parameters
    assert SamplingOptions().given() == {}


def test_columns() -> None:
    roles = ["text", "text_pair"]
    assert columns_of(["text=a", "text_pair=b=c"], roles) == {"text": "a", "text_pair": "b=c"}
    assert columns_of(None, roles) == {}
    with pytest.raises(ConfigError, match=r"--column is 'tezt=a'.* text, text_pair"):
        columns_of(["tezt=a"], roles)
    with pytest.raises(ConfigError, match="--column takes name=value; got 'body'"):
        columns_of(["body"], roles)
