"""Options that several commands have, each said once: an option is called, explained and placed alike everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import ConfigError

LOADING = "Loading"

ModelName = Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face Hub.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

HeadTask = Annotated[
    str | None, typer.Option(help="Which head: fill-mask, text-classification, … Default: its own.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.", rich_help_panel=LOADING)]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16, … Default: the checkpoint's.", rich_help_panel=LOADING, show_default=False
    ),
]
Packed = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="fp16, bf16 or int8: packed weights, faster and a little different.",
        rich_help_panel=LOADING,
        show_default=False,
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(help="A branch, tag or commit on the Hub.", rich_help_panel=LOADING, show_default=False),
]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Also read old .bin and .pt files, in a shut-off child process.",
        rich_help_panel=LOADING,
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never open a connection.", rich_help_panel=LOADING)]

RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
PartName = Annotated[str, typer.Option(help="validation, train, or what `evaluate --data` judged.")]
OtherRows = Annotated[
    list[str] | None, typer.Option("--data", "-d", help="Other rows; may be given again.", show_default=False)
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", help="Of --data: role=column, such as text=tweet.", show_default=False),
]
"""What the columns of other rows than the run's own are called, where not as its own."""

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Of the page. Default: a free one.", show_default=False),
]
Browser = Annotated[
    bool | None,
    typer.Option(
        "--browser/--no-browser", help="Open one. Default: where there is a screen.", show_default=False
    ),
]


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of `name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f"{option} takes name=value; got {text!r}")
    return name, value


def pairs_of(texts: list[str] | None, option: str) -> dict[str, str]:
    """Those of an option that may be given again."""
    return dict(pair_of(text, option) for text in texts or [])
