"""Options from dataclasses: what they become, column mappings."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest
import typer
from glassformer_guitar.options import RiffOptions
from typer.testing import CliRunner

from glassformer.cli.app import main
from glassformer.cli.options import (
    NOT_ON_COMMAND_LINE,
    Defaults,
    ModelName,
    Only,
    Without,
    _setting,
    command,
    generation_keywords,
)
from glassformer.data.options import (
    CardOptions,
    InspectionOptions,
    ReadingOptions,
    SplitOptions,
    TextColumns,
    VersionOptions,
)
from glassformer.engine.options import VectorFileOptions
from glassformer.errors import ConfigError
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.evaluation.compare.options import CompareOptions
from glassformer.evaluation.options import (
    CorrectionOptions,
    ErrorOptions,
    EvaluationRequest,
    ListeningOptions,
    RowOptions,
)
from glassformer.explorer.options import LookOptions, Serving
from glassformer.export.options import ExportOptions, Format
from glassformer.files.schema import Count, Doc, Schema, at_least, field_types, given, metadata_of, one_of
from glassformer.generation.options import GenerationOptions
from glassformer.hub.push import UploadOptions
from glassformer.inspect.corpus.options import CorpusSearchOptions, IndexOptions
from glassformer.inspect.embeddings.options import ProjectionOptions, WordStudyOptions
from glassformer.inspect.options import (
    GenerationViewOptions,
    IntegratedGradientsRequest,
    LensRequest,
    PatchTextsRequest,
    SimilarityOptions,
    SummaryOptions,
)
from glassformer.loading import HeadLoading, InferenceLoading, Loading
from glassformer.ngram.options import NgramOptions, PruneOptions, TuningOptions, WordOptions
from glassformer.runs.options import RunOptions, SearchOptions, TrainOptions
from glassformer.speech.options import TranscriptionOptions, TranscriptOptions
from glassformer.studies.options import ShrinkOptions, StudyOptions
from glassformer.tasks.pipeline_options import PipelineOptions, PredictionFileOptions
from glassformer.tasks.transcribe.clean_options import CleanOptions
from glassformer.text.options import CheckOptions, TokenizerOptions


@dataclass(frozen=True, kw_only=True)
class Written(Schema):
    """Where something goes."""

    output: Annotated[Path, Doc("Output file.")]
    count: Annotated[Count, Doc("How many.")] = 3
    loud: Annotated[bool, Doc("Loud.")] = False


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
    assert CliRunner().invoke(app, ["a", "-o", "x", "--dtype", "float32"]).exit_code == 2
    assert "--count is 0; it must be" in str(CliRunner().invoke(app, ["a", "-o", "x", "--count", "0"]).exception)
    assert CliRunner().invoke(app, ["a", "-o", "x", "--no-loud"]).exit_code == 2
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert re.search(r"\* +--output +-o .*Output file\. +\[required\]", text) and "[default: 3]" in text


def test_a_required_option_is_named() -> None:
    app, _ = make()
    done = CliRunner().invoke(app, ["a"])
    assert done.exit_code == 2 and "Missing option '--output'" in done.stderr


@dataclass(frozen=True, kw_only=True)
class DrawRequest(Schema):
    """A class of the library."""

    num_beams: Annotated[Count, Doc("Beam width.", "Beam search")] = 1
    top_k: Annotated[Annotated[int, at_least(0)] | None, Doc("Top-k sampling.")] = None
    temperature: Annotated[float | Sequence[float], Doc("Temperature; repeatable.")] = (0.0, 0.5)
    kind: Annotated[Literal["a", "b"], Doc("Kind.")] = "a"
    voice_filter: Annotated[bool | None, Doc("Leave out what is not speech.")] = None
    early: Annotated[bool, Doc("End early.")] = False
    callback: Any = None


def draw_command(*extras: Any) -> tuple[typer.Typer, list[DrawRequest]]:
    seen: list[DrawRequest] = []

    def draw(request: Any) -> None:
        """Draw."""
        seen[:] = [request]

    draw.__annotations__["request"] = Annotated[(DrawRequest, *extras)] if extras else DrawRequest
    app = typer.Typer()
    app.command()(command(draw))
    return app, seen


def test_a_class_of_the_library_becomes_options_of_its_types() -> None:
    app, seen = draw_command()
    assert CliRunner().invoke(app, []).exit_code == 0 and seen == [DrawRequest()]
    typed = ["--beams", "4", "--top-k", "0", "--temperature", "0", "--temperature", "1", "--kind", "b"]
    assert CliRunner().invoke(app, [*typed, "--no-voice-filter", "--early"]).exit_code == 0
    wanted = DrawRequest(num_beams=4, top_k=0, temperature=[0.0, 1.0], kind="b", voice_filter=False, early=True)
    assert seen == [wanted] and list(given(seen[0])) == list(given(wanted))
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "Beam search" in text and re.search(r"--beams .*Beam width\..*\[default: 1\]", text)
    assert "--callback" not in text and "--no-early" not in text


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--beams", "0"], "--beams is 0; it must be a whole number from 1"),
        (["--top-k", "-1"], "--top-k is -1; it must be a whole number from 0 up"),
        (["--kind", "c"], "--kind is 'c'; allowed: a, b"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_by_its_option(typed: list[str], words: str) -> None:
    app, _ = draw_command()
    error = CliRunner().invoke(app, typed).exception
    assert isinstance(error, ConfigError) and words in str(error)


def test_an_error_of_the_library_names_options_as_typed() -> None:
    @command
    def draw(request: DrawRequest) -> None:
        """Draw."""
        raise ConfigError("num_beams= is 3, and top_k=4 has a kind; leave out num_beams= or voice_filter=.")

    app = typer.Typer()
    app.command()(draw)
    error = CliRunner().invoke(app, []).exception
    assert str(error) == "--beams is 3, and top_k=4 has a kind; leave out --beams or --voice-filter."


def test_an_error_names_no_option_that_the_command_lacks() -> None:
    @command
    def draw(request: Annotated[DrawRequest, Only(["early"])]) -> None:
        """Draw."""
        raise ConfigError("num_beams is 0; leave out early= or kind=.")

    app = typer.Typer()
    app.command()(draw)
    error = CliRunner().invoke(app, []).exception
    assert str(error) == "num_beams is 0; leave out --early or kind=."


@dataclass(frozen=True, kw_only=True)
class SetRequest(Schema):
    """A class whose fields are mappings, files, and texts that are read."""

    output: Annotated[Path, Doc("Output file.")]
    columns: Annotated[Mapping[Annotated[str, one_of("text", "label")], str], Doc("Column.")] = field(
        default_factory=dict
    )
    settings: Annotated[Mapping[str, Any] | None, Doc("Setting.")] = None
    seeds: Annotated[Sequence[int], Doc("Seeds. Default: 7.")] = (7,)


def set_command() -> tuple[typer.Typer, list[SetRequest]]:
    seen: list[SetRequest] = []

    @command
    def use(request: SetRequest) -> None:
        """Use."""
        seen[:] = [request]

    app = typer.Typer()
    app.command()(use)
    return app, seen


def test_mappings_are_names_and_values_and_others_are_read() -> None:
    app, seen = set_command()
    assert CliRunner().invoke(app, ["-o", "a"]).exit_code == 0 and seen == [SetRequest(output=Path("a"))]
    typed = ["-o", "a", "-c", "text=x=y", "--settings", "a.b=[1, 2]", "--settings", "c=0.5", "--seeds", "3"]
    assert CliRunner().invoke(app, typed).exit_code == 0
    (request,) = seen
    assert request.columns == {"text": "x=y"} and request.settings == {"a.b": [1, 2], "c": 0.5}
    assert request.seeds == [0, 1, 2]
    assert CliRunner().invoke(app, []).exit_code == 2, "a field without default is required"
    assert CliRunner().invoke(app, ["-o", "a", "-c", "text=\udcff"]).exit_code == 0, "a name that is no UTF-8"
    assert seen[0].columns == {"text": "\udcff"}
    for words, message in (
        (["-c", "texts=a"], "--column is 'texts'; it must be text or label"),
        (["-c", "text"], "--column takes name=value; got 'text'"),
        (["--seeds", "1,1"], "each once"),
    ):
        assert message in str(CliRunner().invoke(app, ["-o", "a", *words]).exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["encode", "m", "f.txt", "-o", "v.npy", "--batch-tokens", "0"],
            "--batch-tokens is 0; it must be a whole number",
        ),
        (["similar", "m", "a", "b", "--top", "0"], "--top is 0; it must be a whole number from 1"),
        (["generate", "m", "a", "--top", "-1"], "--top is -1; it must be a whole number from 0 up"),
        (["export", "m", "-o", "x", "--format", "h5"], "--format is 'h5'; allowed: onnx, pt2"),
    ],
)
def test_a_command_refuses_a_value_before_it_loads(arguments: list[str], message: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_formats_of_an_export_are_those_of_its_option() -> None:
    from glassformer.export import FORMATS

    assert {*FORMATS, "gguf"} == set(get_args(Format))  # GGUF holds weights, not a program


def test_encoding_options_are_keywords_of_encode() -> None:
    options = VectorFileOptions(output=Path("v.npy"), prompt="query: ", truncate=False)
    assert options.keywords() == {"prompt": "query: ", "truncate": False}


def test_a_list_of_commands_makes_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """`glassformer --help` has a third of a second for everything."""
    monkeypatch.setattr("glassformer.cli.options._parameters", None)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0


def test_a_command_has_some_of_the_fields_with_defaults_of_its_own() -> None:
    app, seen = draw_command(Only(["num_beams", "early"]), Defaults(num_beams=3))
    assert CliRunner().invoke(app, ["--early"]).exit_code == 0 and seen == [DrawRequest(num_beams=3, early=True)]
    assert CliRunner().invoke(app, ["--top-k", "1"]).exit_code == 2


@pytest.mark.parametrize(
    "group",
    [
        GenerationOptions,
        TranscriptionOptions,
        TranscriptOptions,
        WordOptions,
        NgramOptions,
        PruneOptions,
        TuningOptions,
        TokenizerOptions,
        CheckOptions,
        ShrinkOptions,
        StudyOptions,
        BenchOptions,
        CleanOptions,
        TrainOptions,
        RunOptions,
        ReadingOptions,
        TextColumns,
        RiffOptions,
        InspectionOptions,
        SplitOptions,
        CardOptions,
        VersionOptions,
        EvaluationRequest,
        RowOptions,
        ErrorOptions,
        ListeningOptions,
        CorrectionOptions,
        SearchOptions,
        LensRequest,
        LookOptions,
        PipelineOptions,
        PredictionFileOptions,
        IntegratedGradientsRequest,
        PatchTextsRequest,
        HeadLoading,
        InferenceLoading,
        CompareOptions,
        CorpusSearchOptions,
        IndexOptions,
        SummaryOptions,
        ProjectionOptions,
        WordStudyOptions,
        Serving,
        VectorFileOptions,
        ExportOptions,
        UploadOptions,
        SimilarityOptions,
        GenerationViewOptions,
    ],
)
def test_every_field_of_a_request_has_an_option_or_is_named_as_having_none(group: type) -> None:
    missing = NOT_ON_COMMAND_LINE.get(group.__name__, frozenset())
    documented = {name for name, hint in field_types(group).items() if metadata_of(hint, Doc) is not None}
    assert documented == set(field_types(group)), "every field says what it is"
    assert missing <= documented, "no field of this name"
    parameters = inspect.signature(command(lambda_with(group))).parameters
    assert set(parameters) == documented - missing


def lambda_with(group: type) -> Any:
    def run(options: Any) -> None:
        """Run."""

    run.__annotations__["options"] = group
    return run


def test_an_option_of_sampling_means_sampling() -> None:
    assert generation_keywords(GenerationOptions(seed=0)) == {"seed": 0, "do_sample": True}
    assert generation_keywords(GenerationOptions(num_beams=2)) == {"num_beams": 2}
    contrastive = GenerationOptions(top_k=4, penalty_alpha=0.6)
    assert generation_keywords(contrastive) == {"top_k": 4, "penalty_alpha": 0.6}


@pytest.mark.parametrize("text", [*"|>#*&!%@`-?:,{", "a # b", "&x y"])
def test_a_text_that_yaml_reads_otherwise_is_refused_with_what_to_type(text: str) -> None:
    with pytest.raises(ConfigError, match="YAML") as refused:
        _setting("task_options.separator", text, "--set")
    option, typed = shlex.split(str(refused.value).rpartition("; as a text: ")[2])
    key, _, value = typed.partition("=")
    assert (option, key) == ("--set", "task_options.separator") and _setting(key, value, option) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("null", None), ("~", None), ('""', ""), ("'|'", "|"), (";", ";"), ("a  b", "a  b"), ("3 # three", 3)],
)
def test_what_yaml_reads_as_written_is_taken(text: str, value: object) -> None:
    assert _setting("training.x", text, "--set") == value
