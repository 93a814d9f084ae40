"""One table of generation options: the page, requests and command lines have those of the library, with its limits."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.options import Only, command, generation_keywords
from glassformer.errors import ConfigError
from glassformer.files.schema import Doc, check, field_types
from glassformer.generation import options as table
from glassformer.generation import served_options
from glassformer.generation.options import LENGTH, AtLeastOne, GenerationOptions, Served
from glassformer.generation.served_options import check_served, command_line_options, options_schema, served

PAGE = Path(__file__).parents[2] / "web" / "src" / "core" / "generation-schema.json"
STEP = {"integer": 1, "number": 1e-3}


@dataclass(frozen=True, kw_only=True)
class More(GenerationOptions):
    """The library's options with one more."""

    word_limit: Annotated[AtLeastOne | None, Doc("Maximum number of words.", LENGTH), Served(most=500)] = None


@pytest.fixture
def one_more(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(table, "GenerationOptions", More)
    caches = served_options.served, served_options.limits
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def test_the_page_has_the_schema_of_the_library() -> None:
    assert json.loads(PAGE.read_text("utf-8")) == options_schema(), "an option has changed: run `make web`"


@pytest.mark.usefixtures("one_more")
def test_an_option_of_the_library_is_one_of_the_page_within_its_limits() -> None:
    assert options_schema()["properties"]["word_limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 500,
        "description": "Maximum number of words.",
        "x-group": LENGTH,
    }
    check_served({"word_limit": 500})
    with pytest.raises(ConfigError, match="word_limit is 501; the generation view takes at most 500"):
        check_served({"word_limit": 501})


def outside(about: dict[str, Any]) -> Iterator[float]:
    """Numbers that the schema of an option does not allow, next to its bounds."""
    step = STEP[about["type"]]
    yield from (about[name] - step for name in ("minimum",) if name in about)
    yield from (about[name] + step * max(1, abs(about[name])) for name in ("maximum",) if name in about)
    yield from (about[name] for name in ("exclusiveMinimum", "exclusiveMaximum") if name in about)


def inside(about: dict[str, Any]) -> Iterator[float]:
    """Numbers at the bounds that it allows, or next to them."""
    yield from (about[name] for name in ("minimum", "maximum") if name in about)
    yield from (about[name] + sign * STEP[about["type"]] for name, sign in BOUNDS.items() if name in about)


BOUNDS = {"exclusiveMinimum": 1, "exclusiveMaximum": -1}
BOUNDED = [(name, about) for name, about in options_schema()["properties"].items() if about.get("type") in STEP]


@pytest.mark.parametrize(("name", "about"), BOUNDED, ids=[name for name, _ in BOUNDED])
def test_the_limits_of_the_page_are_those_of_the_library(name: str, about: dict[str, Any]) -> None:
    def allowed(value: float) -> bool:
        try:
            check(field_types(GenerationOptions)[name], value, name)
            check_served({name: value})
        except ConfigError:
            return False
        return True

    assert len([*inside(about)]) >= 1 and all(map(allowed, inside(about)))
    assert len([*outside(about)]) >= 1 and not any(map(allowed, outside(about)))


def test_it_has_no_option_of_python_or_of_a_method_that_shows_nothing_else() -> None:
    names = served().keys()
    assert not names & served_options.IN_PYTHON_ONLY
    assert not names & {"truncation", "prompt_lookup_num_tokens", "assistant_model", "penalty_alpha"}
    assert {"regex", "json_schema", "choices", "epsilon_cutoff", "stop_strings", "num_beam_groups"} <= names
    for name, about in options_schema()["properties"].items():
        assert about["description"] and about["x-group"], name


def test_options_as_a_command_line_spells_them_are_read_as_the_same() -> None:
    seen: list[dict[str, Any]] = []

    def look(generation: Any) -> None:
        """Look."""
        seen.append(generation_keywords(generation))

    look.__annotations__["generation"] = Annotated[GenerationOptions, Only(served())]
    app = typer.Typer()
    app.command()(command(look))
    for options in (
        {"max_new_tokens": 9, "num_beams": 3, "length_penalty": 2.0, "num_return_sequences": 2},
        {"do_sample": True, "temperature": 0.7, "min_p": 0.1, "seed": 1},
        {"stop_strings": ["The end", "it's"], "bad_words": ["Nurse"], "repetition_penalty": 1.2, "regex": "[a-z]+ "},
    ):
        view, *words = command_line_options(GenerationOptions(**options))[1:]
        assert view == "generate"
        result = CliRunner().invoke(app, shlex.split(" ".join(words)))
        assert result.exit_code == 0, result.output
        assert seen[-1] == options
