"""Command-line options: dataclasses whose fields become options, declared once for every command that has them.

@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    top_k: int | None = option(None, "Top-k sampling: sample from the k most likely tokens.", panel=SAMPLING)

@command
def generate(model: ModelName, sampling: SamplingOptions) -> None: ...        has the option --top-k
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from glassformer.errors import ConfigError

LOADING = "Loading"
DATA = "Data"
GENERATION = "Text generation"
SAMPLING = "Sampling"
BEAM_SEARCH = "Beam search"

# ── options from dataclasses ─────────────────────────────────────────────────────────────────────────────


def option(
    default: Any,
    help: str,
    *names: str,
    panel: str | None = None,
    key: str | None = None,
    **more: Any,
) -> Any:
    """A field of `Options` that is an option of the command line; `...` as default means required.

    Args:
        names: spellings, such as "--output", "-o"; by default that of the field
        panel: heading in `--help` · key: the library's name, for `given`
        more: for typer.Option, such as `min`
    """
    if default is False and not names:
        more["flag"] = True  # without --no-…
    metadata = {
        "names": names,
        "key": key,
        "info": {"help": help, "rich_help_panel": panel, **more},
    }
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Options:
    """A group of options; `command` gives a function one option for each field."""

    @classmethod
    def typer_option(cls, name: str, *names: str) -> Any:
        """The option of a field, for `Annotated`; `names` replace its spellings."""
        metadata = cls.__dataclass_fields__[name].metadata
        info = dict(metadata["info"])
        flag = (f"--{name.replace('_', '-')}",) if info.pop("flag", False) else ()
        return typer.Option(*(names or metadata["names"] or flag), **info)

    def given(self) -> dict[str, Any]:
        """The options that were given, by the names that the library has for them."""
        values = {x.metadata["key"] or x.name: getattr(self, x.name) for x in fields(self)}
        return {
            name: value for name, value in values.items() if value is not None and value is not False and value != []
        }


class Without(tuple[str, ...]):
    """Fields of a group that a command does not have: `Annotated[Loading, Without(["dtype"])]`."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of type `Options` are replaced by one parameter for each of their fields."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, tuple[type[Options], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        group, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if not (isinstance(group, type) and issubclass(group, Options)):
            kind = inspect.Parameter.KEYWORD_ONLY if groups else parameter.kind
            parameters.append(parameter.replace(annotation=hint, kind=kind))
            continue
        left_out = {name for extra in extras if isinstance(extra, Without) for name in extra}
        chosen = [x for x in fields(group) if x.name not in left_out]
        groups[parameter.name] = group, [x.name for x in chosen]
        types = get_type_hints(group)
        for x in chosen:
            parameters.append(_parameter(group, x, types[x.name]))
    signature = inspect.Signature(parameters)

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        values = bound.arguments
        for name, (group, names) in groups.items():
            values[name] = group(**{name: values.pop(name) for name in names})
        function(**values)

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(group: type[Options], x: Field[Any], hint: Any) -> inspect.Parameter:
    """The parameter of a field."""
    default = inspect.Parameter.empty if x.default is MISSING else x.default
    annotation = Annotated[hint, group.typer_option(x.name)]
    return inspect.Parameter(x.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# ── output ───────────────────────────────────────────────────────────────────────────────────────────────

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Html = Annotated[Path | None, typer.Option(help="Write the report to this HTML file (self-contained).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Quiet: print the final table only.")]


@dataclass(frozen=True, kw_only=True)
class Serving(Options):
    """Where a page goes: to a web server of this machine, or to a file."""

    port: int | None = option(None, "Port of the web server. Default: a free one.", min=1, max=65535)
    browser: bool | None = option(
        None, "Open a web browser. Default: when there is a display.", "--browser/--no-browser"
    )
    html: Path | None = option(None, "Write the page to this HTML file (self-contained) instead of serving it.")


# ── loading a model ──────────────────────────────────────────────────────────────────────────────────────

ModelName = Annotated[str, typer.Argument(help="Model folder, or model name on the Hugging Face Hub.")]
Texts = Annotated[
    list[str],
    typer.Argument(help="One text, or a pair, or source and target: in quotes, a text file, or - for standard input."),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Truncate texts that are too long, instead of an error.")]
HeadTask = Annotated[
    str | None,
    typer.Option(help="Model head (task): fill-mask, text-classification, … Default: the checkpoint's."),
]


@dataclass(frozen=True, kw_only=True)
class Loading(Options):
    """How a model is loaded: the options of `glassformer.load`."""

    device: str = option("cpu", "Device: cpu, cuda, mps, or auto.", panel=LOADING)
    dtype: str | None = option(
        None, "Data type of the weights: float32, bfloat16, … Default: the checkpoint's.", panel=LOADING
    )
    revision: str | None = option(None, "Model revision on the Hub: a branch, tag or commit.", panel=LOADING)
    allow_pickle: bool = option(
        False,
        "Allow pickle checkpoints: read old .bin and .pt files, in a sandboxed child process.",
        panel=LOADING,
    )
    offline: bool = option(False, "Offline mode: never open a network connection.", panel=LOADING)
    base: str | None = option(
        None, "Base model of a folder of adapters (PEFT), in place of the one that they name.", panel=LOADING
    )


@dataclass(frozen=True, kw_only=True)
class Precision(Options):
    """Packed weights for inference."""

    precision: str | None = option(
        None,
        "Inference precision: fp16, bf16 or int8. Packed weights: faster, slightly different results.",
        panel=LOADING,
    )


Offline = Annotated[bool, Loading.typer_option("offline")]

# ── generating text ──────────────────────────────────────────────────────────────────────────────────────


def new_token_limit(default: int | None) -> Any:
    """The option --max-new-tokens."""
    return option(default, "Maximum number of new tokens.", "--max-new-tokens", "-n", min=1, panel=GENERATION)


def beam_width(default: int | None) -> Any:
    """The option --beams."""
    words = "Beam width: number of beams of a beam search."
    return option(default, words, key="num_beams", min=1, panel=BEAM_SEARCH)


@dataclass(frozen=True, kw_only=True)
class LengthOptions(Options):
    """Length and beam width of generated text."""

    max_new_tokens: int | None = new_token_limit(None)
    beams: int | None = beam_width(None)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    """Sampling of tokens."""

    sample: bool = option(
        False,
        "Sample tokens instead of greedy decoding; any sampling option implies it.",
        key="do_sample",
        panel=SAMPLING,
    )
    temperature: float | None = option(
        None, "Sampling temperature: below 1 sharpens the distribution, above 1 flattens it.", panel=SAMPLING
    )
    top_k: int | None = option(None, "Top-k sampling: sample from the k most likely tokens.", panel=SAMPLING)
    top_p: float | None = option(
        None,
        "Top-p (nucleus) sampling: from the most likely tokens whose probabilities sum to p.",
        panel=SAMPLING,
    )
    seed: int | None = option(None, "Random seed: the same seed draws the same text.", panel=SAMPLING)

    def given(self) -> dict[str, Any]:
        """The options that were given; any of them means sampling."""
        options = super().given()
        return {**options, "do_sample": True} if options else {}


# ── runs and their data ──────────────────────────────────────────────────────────────────────────────────

RunFolder = Annotated[Path, typer.Argument(help="Run folder, as written by train.", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class RunRows(Options):
    """Rows of a run: a split, or other files."""

    part: str = option("validation", "Dataset split: validation, train, or the name of an `evaluate --data`.")
    data: list[str] | None = option(None, "Data files to use instead of the split; repeatable.", "--data", "-d")
    column: list[str] | None = option(
        None, "Column mapping of --data, role=column: text=tweet; repeatable.", "--column", "-c"
    )
    ignore: list[str] | None = option(None, "Column of --data to ignore; repeatable; '*' for all unused ones.")


@dataclass(frozen=True, kw_only=True)
class Columns(Options):
    """Which column has which role."""

    column: list[str] | None = option(
        None, "Column mapping, role=column: text=tweet, label=mood; repeatable.", "--column", "-c", panel=DATA
    )
    ignore: list[str] | None = option(
        None, "Column to ignore; repeatable; '*' for all unused ones.", "--ignore", panel=DATA
    )


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of `name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f"{option} takes name=value; got {text!r}")
    return name, value


def pairs_of(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """The name=value pairs of a repeatable option."""
    return dict(pair_of(text, option) for text in texts or [])


def columns_of(texts: Sequence[str] | None, roles: Sequence[str]) -> dict[str, str]:
    """The columns of `--column role=name`, by role.

    Raises: ConfigError: no role, or an unknown one.
    """
    columns = pairs_of(texts, "--column")
    for role in columns:
        if role not in roles:
            raise ConfigError(
                f"--column is {f'{role}={columns[role]}'!r}; it must be role=name, with a role of {', '.join(roles)}"
            )
    return columns
