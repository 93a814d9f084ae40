"""Command-line options that several commands share: each has one name, one help text and one panel everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.errors import ConfigError

LOADING = "Loading"
DATA = "Data"
GENERATION = "Text generation"
SAMPLING = "Sampling"
BEAM_SEARCH = "Beam search"

# ── output ───────────────────────────────────────────────────────────────────────────────────────────────

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Html = Annotated[
    Path | None, typer.Option(help="Write the report to this HTML file (self-contained).", show_default=False)
]
HtmlPage = Annotated[
    Path | None,
    typer.Option(
        "--html",
        help="Write the page to this HTML file (self-contained) instead of serving it.",
        show_default=False,
    ),
]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port of the web server. Default: a free one.", show_default=False),
]
Browser = Annotated[
    bool | None,
    typer.Option(
        "--browser/--no-browser",
        help="Open a web browser. Default: when there is a display.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Quiet: print the final table only.")]

# ── loading a model ──────────────────────────────────────────────────────────────────────────────────────

ModelName = Annotated[str, typer.Argument(help="Model folder, or model name on the Hugging Face Hub.")]
HeadTask = Annotated[
    str | None,
    typer.Option(help="Model head (task): fill-mask, text-classification, … Default: the checkpoint's."),
]
Device = Annotated[str, typer.Option(help="Device: cpu, cuda, mps, or auto.", rich_help_panel=LOADING)]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="Data type of the weights: float32, bfloat16, … Default: the checkpoint's.",
        rich_help_panel=LOADING,
        show_default=False,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="Inference precision: fp16, bf16 or int8. Packed weights: faster, slightly different results.",
        rich_help_panel=LOADING,
        show_default=False,
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(
        help="Model revision on the Hub: a branch, tag or commit.",
        rich_help_panel=LOADING,
        show_default=False,
    ),
]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Allow pickle checkpoints: read old .bin and .pt files, in a sandboxed child process.",
        rich_help_panel=LOADING,
    ),
]
Offline = Annotated[
    bool,
    typer.Option("--offline", help="Offline mode: never open a network connection.", rich_help_panel=LOADING),
]

# ── generating text ──────────────────────────────────────────────────────────────────────────────────────

MAX_NEW_TOKENS = typer.Option(
    "--max-new-tokens", "-n", min=1, help="Maximum number of new tokens.", rich_help_panel=GENERATION
)
BEAMS = typer.Option(min=1, help="Beam width: number of beams of a beam search.", rich_help_panel=BEAM_SEARCH)
Sample = Annotated[
    bool,
    typer.Option(
        "--sample",
        help="Sample tokens instead of greedy decoding; any sampling option implies it.",
        rich_help_panel=SAMPLING,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Sampling temperature: below 1 sharpens the distribution, above 1 flattens it.",
        rich_help_panel=SAMPLING,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(help="Top-k sampling: sample from the k most likely tokens.", rich_help_panel=SAMPLING),
]
TopP = Annotated[
    float | None,
    typer.Option(
        help="Top-p (nucleus) sampling: from the most likely tokens whose probabilities sum to p.",
        rich_help_panel=SAMPLING,
    ),
]
SamplingSeed = Annotated[
    int | None,
    typer.Option("--seed", help="Random seed: the same seed draws the same text.", rich_help_panel=SAMPLING),
]

# ── runs and their data ──────────────────────────────────────────────────────────────────────────────────

RunFolder = Annotated[Path, typer.Argument(help="Run folder, as written by train.", show_default=False)]
SplitName = Annotated[
    str,
    typer.Option("--part", help="Dataset split: validation, train, or the name of an `evaluate --data`."),
]
OtherRows = Annotated[
    list[str] | None,
    typer.Option(
        "--data", "-d", help="Data files to use instead of the split; repeatable.", show_default=False
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="Column mapping of --data, role=column: text=tweet; repeatable.",
        show_default=False,
    ),
]
"""Column names of other rows than the run's own, where they differ from its own."""
ColumnMapping = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="Column mapping, role=column: text=tweet, label=mood; repeatable.",
        rich_help_panel=DATA,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", help="Column to ignore; repeatable; '*' for all unused ones.", rich_help_panel=DATA
    ),
]


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of `name=value`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigError(f"{option} takes name=value; got {text!r}")
    return name, value


def pairs_of(texts: list[str] | None, option: str) -> dict[str, str]:
    """The name=value pairs of a repeatable option."""
    return dict(pair_of(text, option) for text in texts or [])
