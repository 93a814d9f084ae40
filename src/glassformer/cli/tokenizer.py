"""`glassformer tokenizer train FILES …`: train a tokenizer on a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import print_json, visible

tokenizer = typer.Typer(
    name="tokenizer", no_args_is_help=True, add_completion=False, help="Train tokenizers."
)

MEASURED_TEXTS = 20_000


@tokenizer.callback()
def _group() -> None:
    """Makes typer keep the subcommand, although there is only one."""


Files = Annotated[
    list[Path],
    typer.Argument(help="Corpus files: .txt (one text per line), .csv, .jsonl, .parquet, also with .gz."),
]
Output = Annotated[Path, typer.Option("--out", help="Output folder of the tokenizer.", show_default=False)]
Kind = Annotated[
    str | None,
    typer.Option(
        help="Tokenization algorithm: byte-bpe (the default), wordpiece or unigram.", show_default=False
    ),
]
Size = Annotated[int, typer.Option(min=1, help="Vocabulary size, including special tokens.")]
FamilyName = Annotated[
    str | None,
    typer.Option(
        "--for",
        help="Model family whose special tokens to use: bert, gpt2, roberta, bart, t5, …",
        show_default=False,
    ),
]
Special = Annotated[list[str] | None, typer.Option(help="Additional special token, never split; repeatable.")]
Lower = Annotated[bool, typer.Option("--lower", help="Lowercase the texts.")]
Like = Annotated[
    str | None,
    typer.Option(
        help="Model whose tokenizer is retrained: same algorithm and special tokens.", show_default=False
    ),
]
Column = Annotated[str, typer.Option(help="Column of the texts, in files with columns.")]


@tokenizer.command()
def train(
    files: Files,
    out: Output,
    kind: Kind = None,
    size: Size = 8_000,
    family: FamilyName = None,
    special: Special = None,
    lower: Lower = False,
    like: Like = None,
    column: Column = "text",
    json: Json = False,
) -> None:
    """Train a tokenizer; the same files give the same tokenizer, byte for byte.

    Glassformer and Hugging Face transformers both load the folder.

    Examples:

    [cyan]glassformer tokenizer train corpus.txt --kind byte-bpe --size 8000 --out my-tokenizer[/]

    [cyan]glassformer tokenizer train train.csv --column text --kind wordpiece --lower --out my-tokenizer[/]

    [cyan]glassformer tokenizer train reports.jsonl --like MODEL --size 30000 --out my-tokenizer[/]
    """
    from glassformer.errors import DataError
    from glassformer.hub import resolve
    from glassformer.text.build import TOKENIZER_FILES
    from glassformer.text.train import coverage, train_tokenizer

    if existing := [name for name in TOKENIZER_FILES if (out / name).exists()]:
        raise DataError(f"{out / existing[0]}: already exists; choose another folder with --out")
    texts = Corpus(files, column)
    trained = train_tokenizer(
        texts,
        kind=kind,
        size=size,
        family=family,
        special=special or (),
        lower=lower,
        like=None if like is None else resolve(like),
    )
    trained.save(out)
    measured = coverage(trained, islice(texts, MEASURED_TEXTS))
    special_ids = {token: trained.convert_tokens_to_ids(token) for token in trained.special_tokens.values()}
    report: dict[str, Any] = {
        "folder": str(out),
        "tokens": len(trained),
        "special": dict(sorted(special_ids.items(), key=lambda item: item[1])),
        "tokens_per_word": round(measured.tokens_per_word, 4),
        "unknown_share": round(measured.unknown_share, 6),
        "measured_on": {"texts": measured.texts, "words": measured.words},
    }
    if json:
        print_json(report)
        return
    _show(report)


class Corpus:
    """The texts of several files, streamed from disk at each iteration."""

    def __init__(self, files: Sequence[Path], column: str) -> None:
        from glassformer.data.format_detection import EXTENSIONS, data_extension

        # A corpus file may have any extension: an unknown one means plain text.
        self._kinds = {file: EXTENSIONS.get(data_extension(file), "text") for file in files}
        self._column = column

    def __iter__(self) -> Iterator[str]:
        from glassformer.data.streams import stream_rows
        from glassformer.errors import DataError
        from glassformer.files import safe_repr

        for file, kind in self._kinds.items():
            column = "text" if kind == "text" else self._column
            rows = stream_rows(file, kind=kind, columns=[column], buffer=1)
            for row in rows:
                if not isinstance(row[column], str):
                    raise DataError(
                        f"{rows.where}: {column!r} is {safe_repr(row[column])}; it must be a text"
                    )
                yield row[column]


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    sample = report["measured_on"]
    special = " ".join(f"{visible(token)} {number}" for token, number in report["special"].items())
    for name, value in (
        ("saved in", report["folder"]),
        ("tokens", f"{report['tokens']:,}"),
        ("special", special),
        ("a word is", f"{report['tokens_per_word']:.3f} tokens, measured on {sample['words']:,} words"),
        ("unknown", f"{report['unknown_share']:.3%} of the tokens"),
    ):
        console.print(Text.assemble((f"{name:>9}  ", "bold cyan"), value))
