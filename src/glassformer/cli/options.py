"""Command-line options, derived from the library's own dataclasses: each field that has a `Doc` is an option.

class GenerationOptions:                                                                    the library's
    top_k: Annotated[int | None, Doc("Top-k sampling: …", "Sampling")] = None

@command
def generate(model: ModelName, generation: GenerationOptions) -> None: ...                  has the option --top-k

A field has the option of its name, or of `SPELLINGS`; its type, its help and its checks are the library's own.
"""

from __future__ import annotations

import functools
import inspect
import re
import shlex
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from glassformer.errors import ConfigError, DataError
from glassformer.files import read_json_object, safe_repr
from glassformer.files.lazy import imported
from glassformer.files.schema import Doc, convert, field_types, given, metadata_of
from glassformer.generation import served_options

T = TypeVar("T")
DATA = "Data"
_TYPED: ContextVar[tuple[tuple[type, Iterable[str]], ...]] = ContextVar("typed", default=())
"""The groups of options of the command that runs, with the names of their fields."""

# ── options from dataclasses ─────────────────────────────────────────────────────────────────────────────


class Without(tuple[str, ...]):
    """Fields of a group that a command does not have: `Annotated[Loading, Without(["dtype"])]`."""


class Only(tuple[str, ...]):
    """The fields of a group that a command has: `Annotated[GenerationOptions, Only(["max_new_tokens"])]`."""


class Defaults(dict[str, Any]):
    """Defaults of a command in place of the library's: `Annotated[GenerationOptions, Defaults(max_new_tokens=40)]`."""


class Checked(str):
    """The function that checks an argument before a command imports what takes seconds: "module:function"; it raises.

    `Annotated[Path, Checked("glassformer.runs.folder:check_run")]`; of a list it checks each.
    """


class Command:
    """A function whose parameters that are groups of options are replaced by one parameter for each of their fields.

    They are made when they are first asked for: the list of all commands needs their documentation alone.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        self._function = function

    @functools.cached_property
    def _made(self) -> tuple[inspect.Signature, dict[str, tuple[type, list[str]]]]:
        """The parameters; and each group with the names of its fields that are among them."""
        hints = get_type_hints(self._function, include_extras=True)
        groups: dict[str, tuple[type, list[str]]] = {}
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(self._function).parameters.values():
            hint = hints[parameter.name]
            group, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            if not (isinstance(group, type) and is_dataclass(group)):
                kind = inspect.Parameter.KEYWORD_ONLY if groups else parameter.kind
                parameters.append(parameter.replace(annotation=hint, kind=kind))
                continue
            own = _parameters(group)
            left_out = {name for extra in extras if isinstance(extra, Without) for name in extra}
            chosen = next((extra for extra in extras if isinstance(extra, Only)), [x.name for x in own])
            defaults = {name: value for extra in extras if isinstance(extra, Defaults) for name, value in extra.items()}
            own = [x for x in own if x.name in chosen and x.name not in left_out]
            groups[parameter.name] = group, [x.name for x in own]
            parameters += [x.replace(default=defaults.get(x.name, x.default)) for x in own]
        return inspect.Signature(parameters), groups

    @functools.cached_property
    def _checks(self) -> dict[str, str]:
        """The functions that check arguments, by the names of these."""
        hints = get_type_hints(self._function, include_extras=True)
        checks = {name: metadata_of(hint, Checked) for name, hint in hints.items()}
        return {name: str(check) for name, check in checks.items() if check is not None}

    @property
    def __signature__(self) -> inspect.Signature:
        return self._made[0]

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override] # that of the function
        return {parameter.name: parameter.annotation for parameter in self.__signature__.parameters.values()}

    def __call__(self, *arguments: Any, **options: Any) -> None:
        signature, groups = self._made
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        values = bound.arguments
        for name, check in self._checks.items():
            for value in values[name] if isinstance(values[name], list) else [values[name]]:
                if value is not None:
                    imported(check)(value)
        for name, (group, names) in groups.items():
            values[name] = _group_of(group, {name: values.pop(name) for name in names})
        typed_now = _TYPED.set(tuple(groups.values()))
        try:
            self._function(**values)
        except (ConfigError, DataError) as error:
            error.args = (in_options(str(error)),)
            raise
        finally:
            _TYPED.reset(typed_now)


command = Command
"""The decorator of a command."""


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# ── options of the library's own classes ─────────────────────────────────────────────────────────────────

SPELLINGS: dict[str, tuple[str, ...]] = {
    "output": ("--output", "-o"),
    "data": ("--data", "-d"),
    "columns": ("--column", "-c"),
    **dict.fromkeys(
        (
            "BenchOptions.task",
            "EvaluationRequest.task",
            "ListeningOptions.task",
            "ShrinkOptions.task",
            "TrainOptions.task",
        ),
        ("--task", "-t"),
    ),
    "ShrinkOptions.model": ("--model", "-m"),
    "ShrinkOptions.settings": ("--set",),
    "FewLabelsOptions.settings": ("--set",),
    "FewLabelsOptions.templates": ("--template",),
    "FewLabelsOptions.model": ("--model", "-m"),
    "EncodingOptions.truncate": ("--truncate/--no-truncate",),
    "DocumentOptions.gitignore": ("--gitignore/--no-gitignore",),
    "LookOptions.heads": ("--head",),
    "NgramOptions.order": ("--order", "-n"),
    "CorpusSearchOptions.count": ("--count", "-n"),
    "IndexOptions.neurons": ("--neurons/--no-neurons",),
    "WordStudyOptions.word": ("--word", "-w"),
    "TuningOptions.model": ("--model", "-m"),
    "TokenizerOptions.family": ("--for",),
    "CardFacts.biases": ("--bias",),
    "TrainOptions.model": ("--model", "-m"),
    "TrainOptions.validation": ("--validation", "-v"),
    "TrainOptions.learning_rate": ("--learning-rate", "--lr"),
    "TrainOptions.settings": ("--set",),
    "TrainOptions.trackers": ("--tracker",),
    "RunOptions.evaluate": ("--evaluate/--no-evaluate",),
    "browser": ("--browser/--no-browser",),
    "EvaluationRequest.name": ("--as",),
    "EvaluationRequest.baselines": ("--baselines/--no-baselines",),
    "EvaluationRequest.settings": ("--set",),
    **served_options.SPELLINGS,
    "word_timestamps": ("--words",),
    "condition_on_previous_text": ("--previous-text/--no-previous-text",),
    "voice_filter": ("--voice-filter/--no-voice-filter",),
    "TranscriptionOptions.language_model": ("--lm",),
    "PipelineOptions.settings": ("--set",),
    "PipelineOptions.aggregation_strategy": ("--aggregation",),
    "PipelineOptions.targets": ("--target",),
    "PatchTextsRequest.components": ("--component", "-c"),
    "TranscriptOptions.formats": ("--format", "-f"),
    "TranscriptOptions.line_width": ("--max-line-width",),
    "TranscriptOptions.line_count": ("--max-line-count",),
}
"""Fields of library classes whose option is not called as they are; those of one class as `Class.field`."""

NOT_ON_COMMAND_LINE: dict[str, frozenset[str]] = {
    "GenerationOptions": served_options.IN_PYTHON_ONLY,
    "TranscriptionOptions": frozenset(["timestamps", "seed", "patience", "best_of", "compression_ratio_threshold"]),
}
"""Fields of library classes that have no option."""

READERS: dict[str, str] = {
    "AttributionRequest.at": "glassformer.inspect.numbers:parse_token",
    "BenchOptions.precision": "glassformer.cli.options:comma_separated",
    "ShrinkOptions.to": "glassformer.cli.options:comma_separated",
    "AdviceOptions.label_names": "glassformer.cli.options:comma_separated",
    "FewLabelsOptions.methods": "glassformer.cli.options:comma_separated",
    "FewLabelsOptions.choose": "glassformer.cli.options:comma_separated",
    "FewLabelsOptions.labels": "glassformer.cli.options:comma_separated_numbers",
    "InspectionOptions.tokenizer": "glassformer.hub:resolve",
    **dict.fromkeys(
        ("CorpusSearchOptions.head", "CorpusSearchOptions.neuron", "CorpusSearchOptions.attention"),
        "glassformer.inspect.numbers:parse_pair",
    ),
    "CorpusSearchOptions.token": "glassformer.inspect.numbers:parse_token",
    "WordStudyOptions.layers": "glassformer.inspect.numbers:parse_level",
    "IndexOptions.heads": "glassformer.inspect.numbers:parse_heads",
    "IndexOptions.layers": "glassformer.inspect.numbers:parse_layers",
    "LookOptions.layers": "glassformer.inspect.numbers:parse_layers",
    "LensRequest.target": "glassformer.inspect.numbers:parse_token",
    "PatchTextsRequest.mean_over": "glassformer.cli.inputs:texts_of_file",
    "ReadingOptions.names": "glassformer.cli.options:comma_separated",
    "TrainOptions.validation": "glassformer.cli.options:value_of",
    "SplitOptions.fractions": "glassformer.cli.options:comma_separated",
    "seeds": "glassformer.evaluation.compare.seeds:parse_seeds",
    "TokenizerOptions.like": "glassformer.hub:resolve",
    "WordOptions.tokenizer": "glassformer.hub:resolve",
    "TranscriptionOptions.language_model": "glassformer.ngram.store:load_ngram",
    "json_schema": "glassformer.cli.options:read_schema",
}
"""Fields that a command line gives as text, and what reads it, such as files."""

TEXTS = ("assistant_model",)
"""Fields that a command line gives as text, and that the command loads."""


def of_field(table: Mapping[str, T], group: type, name: str) -> T | None:
    """What a table has for a field: by `Class.field` of its class or one that this is based on, else by its name."""
    keys = [f"{base.__name__}.{name}" for base in group.__mro__] + [name]
    return next((table[key] for key in keys if key in table), None)


def _spellings(group: type, name: str) -> tuple[str, ...]:
    return of_field(SPELLINGS, group, name) or ()


def _without_option(group: type) -> set[str]:
    """The fields of a class, and of those that it is based on, that have no option."""
    return {name for base in group.__mro__ for name in NOT_ON_COMMAND_LINE.get(base.__name__, ())}


def _parameters(group: type) -> list[inspect.Parameter]:
    """The parameters of a class of the library: of each field that is documented."""
    defaults = {x.name: x.default if x.default_factory is MISSING else x.default_factory() for x in fields(group)}
    parameters = []
    for name, hint in field_types(group).items():
        if name in _without_option(group) or (doc := metadata_of(hint, Doc)) is None:
            continue
        is_read = of_field(READERS, group, name) is not None
        kind = str if is_read or name in TEXTS else option_type(hint)
        default, spellings = defaults[name], _spellings(group, name)
        signed = "/" in "".join(spellings)
        flag = (f"--{name.replace('_', '-')}",) if kind is bool else ()  # without --no-…
        info = typer.Option(*(spellings or flag), help=doc.text, rich_help_panel=doc.group)
        if kind is bool and default is None:
            default = None if signed else False
        several = (is_read or get_origin(kind) is list) and default is not MISSING
        default = None if several else default  # its help names the defaults
        annotation = kind if default is not None else kind | None
        parameters.append(_keyword(name, Annotated[annotation, info], default))
    return parameters


def option_type(hint: Any) -> Any:
    """The type of a field as a command line has it: a text, a number, a flag, a path, or a list of these."""
    if get_origin(hint) is Annotated:
        return option_type(get_args(hint)[0])
    origin, inner = get_origin(hint), [each for each in get_args(hint) if each is not type(None)]
    if origin in (Union, types.UnionType):
        kinds = [option_type(each) for each in inner]
        return next((x for x in kinds if get_origin(x) is list), bool if bool in kinds else kinds[0])
    if origin in (dict, Mapping):
        return list[str]  # of name=value
    if origin in (list, tuple, Sequence):
        return list[option_type(inner[0])]  # type: ignore[misc] # made at run time
    if origin is Literal:
        return type(inner[0])
    return hint if hint in (int, float, bool, Path) else str


def _group_of(group: Any, values: dict[str, Any]) -> Any:
    """A group of options of what was typed. Raises: ConfigError: a value is not allowed, by the name of its option."""
    hints = field_types(group)
    defaults = {x.name: x.default for x in fields(group)}
    typed: dict[str, Any] = {}
    for name, value in values.items():
        signed = "/" in "".join(_spellings(group, name))
        if value is None or value == [] or (value is False and defaults[name] is None and not signed):
            continue
        if name not in TEXTS:
            value = _read(group, name, value, hints[name])
        typed[name] = value
    try:
        return group(**typed)
    except ConfigError as error:  # of fields that do not go together
        error.args = (_with_options(str(error), (group, values), words=True),)
        raise


def in_options(text: str) -> str:
    """A message of the library with its fields, `task=`, as options of the command that runs."""
    text = _with_options(text, *_TYPED.get(), words=False)
    return text.removesuffix(", or give its encoding: encoding= cp1252")  # of a command without this option


def has_option(name: str) -> bool:
    """Has the command that runs an option of this field of the library's classes?"""
    return any(name in names for _, names in _TYPED.get())


def _with_options(text: str, *groups: tuple[type, Iterable[str]], words: bool) -> str:
    """A message of the library with its fields, `task=`, as options.

    Args:
        words: also those that are words of it, `task`
    """
    for group, fields_ in groups:
        names = "|".join(fields_)
        fields_in_text = rf"\b({names})=(?![\w'\"\[{{(])"
        if words and not re.search(fields_in_text, text):
            fields_in_text = rf"\b({names})\b"
        elif not words:
            fields_in_text += rf"|^({names})(?= is )"
        text = re.sub(fields_in_text, lambda x, group=group: spelling(x[x.lastindex], group), text)  # type: ignore[misc]
        for name in fields_:  # columns={'text': NAME} is --column text=NAME
            text = re.sub(rf"\b{name}=\{{'(\w+)': (\w+)\}}", rf"{spelling(name, group)} \1=\2", text)
    return text


def _read(group: type, name: str, value: Any, hint: Any) -> Any:
    """The value of a field of what was typed. Raises: ConfigError: it is not allowed, by the name of its option."""
    if (read := of_field(READERS, group, name)) is not None:
        try:
            value = imported(read)(value)
        except ConfigError as error:
            raise ConfigError(_of_option(str(error), name, spelling(name, group))) from error
    elif isinstance(value, list) and (pair := _mapping_in(hint)) is not None:
        value = pairs_of(value, spelling(name, group))
        if pair[1] is Any:
            value = {key: _setting(key, text, spelling(name, group)) for key, text in value.items()}
    option = spelling(name, group)
    try:  # not as of a file, which can hold no name of a file that is no UTF-8
        return convert(hint, value, option, strict=read is None)
    except ConfigError as error:
        if read is not None:
            raise
        # An option that is repeated is typed without a number.
        raise ConfigError(re.sub(rf"^{re.escape(option)}\[\d+\]", option, str(error))) from None


def _of_option(message: str, name: str, option: str) -> str:
    """The message of a reader, which need not know the name of a field, with the option as it is typed."""
    named = re.sub(rf"\b{name}=|^{name}\b", option, message)
    return named if option in named else f"{option}: {named}"


def _mapping_in(hint: Any) -> tuple[Any, ...] | None:
    """The types of names and values, where a field is a mapping of them."""
    if get_origin(hint) in (dict, Mapping):
        return get_args(hint)
    inner = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    return next((types_ for each in inner if (types_ := _mapping_in(each)) is not None), None)


def spelling(name: str, group: type = object) -> str:
    """The option of a field, as messages name it: `--beams` of num_beams."""
    return next(iter(_spellings(group, name) or (f"--{name.replace('_', '-')}",))).partition("/")[0]


def as_typed(options: Any) -> list[str]:
    """The words that give a command these options: those that differ from their defaults, of a class of the library."""
    words: list[str] = []
    for name, value in given(options).items():
        option = spelling(name, type(options))
        if value is True or value is False:  # not 1 or 0
            words.append(option if value else f"--no-{option.removeprefix('--')}")
        elif isinstance(value, Mapping):
            words += [word for key, x in value.items() for word in (option, f"{key}={x}")]
        elif isinstance(value, (list, tuple)) and of_field(READERS, type(options), name) is None:
            words += [word for x in value for word in (option, str(x))]
        else:
            words += [option, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]
    return words


def value_of(text: str) -> Any:
    """Parse a YAML value: 3, 1e-4, true, [a, b]. Raises: ConfigError: invalid YAML."""
    from glassformer.files.yaml_text import parse_yaml

    return parse_yaml(text, safe_repr(text))


def _setting(key: str, text: str, option: str) -> Any:
    """The value of `option key=text`.

    Raises: ConfigError: YAML reads a text without quotes as nothing, or as another text; with what to type instead.
    """
    quoted = f"; as a text: {option} {shlex.quote(f'{key}={dumps(text, ensure_ascii=False)}')}"
    try:
        value = value_of(text)
    except ConfigError as error:
        raise ConfigError(f"{option} {key}: {error}{quoted}") from error
    bare = " ".join(text.split())
    if isinstance(value, str):
        changed = bare[:1] not in ("'", '"') and " ".join(value.split()) != bare
    else:
        changed = value in (None, [None], {None: None}) and bare.lower() not in ("", "~", "null", "[null]", "[~]")
    if changed:
        raise ConfigError(f"{option} {key}={text} is {value!r} as YAML, where such signs have a meaning{quoted}")
    return value


def comma_separated(text: str) -> list[str]:
    """The parts of `fp32,int8`."""
    return [part for part in map(str.strip, text.split(",")) if part]


def comma_separated_numbers(text: str) -> list[int]:
    """The whole numbers of `8,16,32`. Raises: ConfigError: a part that is none."""
    return [convert(int, value_of(part), text) for part in comma_separated(text)]


def read_schema(text: str) -> Any:
    """A JSON schema: itself, or the file that holds it. Raises: ConfigError: a file that is no JSON object."""
    return text if text.lstrip().startswith("{") else read_json_object(Path(text), ConfigError)


def generation_keywords(options: Any) -> dict[str, Any]:
    """The keywords of `generate` that were typed; an option of sampling means sampling."""
    from glassformer.generation.options import SAMPLING

    keywords = given(options)
    # Contrastive search takes top_k too, so there it is no sign that sampling is meant.
    if "penalty_alpha" not in keywords and keywords.keys() & {*SAMPLING, "seed"}:
        keywords["do_sample"] = True
    return keywords


# ── output ───────────────────────────────────────────────────────────────────────────────────────────────

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Html = Annotated[Path | None, typer.Option(help="Write the report to this HTML file (self-contained).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Quiet: print the final table only.")]


# ── loading a model ──────────────────────────────────────────────────────────────────────────────────────

IsModel = Checked("glassformer.hub.find:check_name")
ModelName = Annotated[str, IsModel, typer.Argument(help="Model folder, or model name on the Hugging Face Hub.")]
Texts = Annotated[
    list[str],
    typer.Argument(help="One text, or a pair, or source and target: in quotes, a text file, or - for standard input."),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Truncate texts that are too long, instead of an error.")]

# ── runs and their data ──────────────────────────────────────────────────────────────────────────────────

IsConfig = Checked("glassformer.runs.folder:read_config")
RunFolder = Annotated[
    Path,
    Checked("glassformer.runs.folder:check_run"),
    typer.Argument(help="Run folder, as written by train.", show_default=False),
]


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of `name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f"{option} takes name=value; got {text!r}")
    return name, value


def pairs_of(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """The name=value pairs of a repeatable option."""
    return dict(pair_of(text, option) for text in texts or [])
