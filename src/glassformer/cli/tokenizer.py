"""`glassformer tokenizer train FILES …`: a tokenizer learned from a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

tokenizer = typer.Typer(
    name="tokenizer", no_args_is_help=True, add_completion=False, help="Learn tokenizers from texts."
)

MEASURED = 20_000  # texts that the report counts on


@tokenizer.callback()
def _group() -> None:
    """A group even while it holds one command."""


@tokenizer.command()
def train(
    files: Annotated[
        list[Path], typer.Argument(help="Texts: .txt (a text a line), .csv, .jsonl, .parquet; perhaps .gz.")
    ],
    out: Annotated[Path, typer.Option(help="A folder for the tokenizer.", show_default=False)],
    kind: Annotated[
        str | None, typer.Option(help="byte-bpe (the default), wordpiece or unigram.", show_default=False)
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="How many tokens, special ones included.")] = 8_000,
    family: Annotated[
        str | None,
        typer.Option(
            "--for", help="Whose special tokens: bert, gpt2, roberta, bart, t5, …", show_default=False
        ),
    ] = None,
    special: Annotated[
        list[str] | None, typer.Option(help="One more token that is never cut; may be given several times.")
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Make capitals small.")] = False,
    like: Annotated[
        str | None,
        typer.Option(help="A model: its tokenizer, learned anew from these texts.", show_default=False),
    ] = None,
    column: Annotated[str, typer.Option(help="Of the texts, where files have columns.")] = "text",
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Learn a tokenizer; the same files give the same tokenizer, byte for byte.

    The folder is one that Glassformer and the reference library both load.

    Examples:

    [cyan]glassformer tokenizer train corpus.txt --kind byte-bpe --size 8000 --out my-tokenizer[/]

    [cyan]glassformer tokenizer train train.csv --column text --kind wordpiece --lower --out my-tokenizer[/]

    [cyan]glassformer tokenizer train reports.jsonl --like MODEL --size 30000 --out my-tokenizer[/]
    """
    from glassformer.errors import DataError
    from glassformer.hub import resolve
    from glassformer.text.build import TOKENIZER_FILES
    from glassformer.text.train import coverage, train_tokenizer

    if there := [name for name in TOKENIZER_FILES if (out / name).exists()]:
        raise DataError(f"{out / there[0]}: is there already; name another folder with --out")
    texts = Texts(files, column)
    found = train_tokenizer(
        texts,
        kind=kind,
        size=size,
        family=family,
        special=special or (),
        lower=lower,
        like=None if like is None else resolve(like),
    )
    found.save(out)
    seen = coverage(found, islice(texts, MEASURED))
    special_ids = {token: found.convert_tokens_to_ids(token) for token in found.special_tokens.values()}
    report: dict[str, Any] = {
        "folder": str(out),
        "tokens": len(found),
        "special": dict(sorted(special_ids.items(), key=lambda item: item[1])),
        "tokens_per_word": round(seen.tokens_per_word, 4),
        "unknown_share": round(seen.unknown_share, 6),
        "measured_on": {"texts": seen.texts, "words": seen.words},
    }
    if json:
        import json as json_format

        typer.echo(json_format.dumps(report, ensure_ascii=False, indent=2))
        return
    _show(report)


class Texts:
    """The texts of some files one after the other, streamed anew each time."""

    def __init__(self, files: Sequence[Path], column: str) -> None:
        from glassformer.data.kinds import ENDINGS, ending

        # A corpus may have any name: what no table or list is called is text.
        self._kinds = {file: ENDINGS.get(ending(file), "text") for file in files}
        self._column = column

    def __iter__(self) -> Iterator[str]:
        from glassformer.data.streams import stream_rows
        from glassformer.errors import DataError
        from glassformer.files import shown

        for file, kind in self._kinds.items():
            column = "text" if kind == "text" else self._column
            rows = stream_rows(file, kind=kind, columns=[column], buffer=1)
            for row in rows:
                if not isinstance(row[column], str):
                    raise DataError(f"{rows.where}: {column!r} is {shown(row[column])}, which is no text")
                yield row[column]


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from glassformer.cli.screen import visible

    console = Console(highlight=False)
    measured = report["measured_on"]
    special = " ".join(f"{visible(token)} {number}" for token, number in report["special"].items())
    for name, said in (
        ("saved in", report["folder"]),
        ("tokens", f"{report['tokens']:,}"),
        ("special", special),
        ("a word is", f"{report['tokens_per_word']:.3f} tokens, of {measured['words']:,} words measured"),
        ("unknown", f"{report['unknown_share']:.3%} of the tokens"),
    ):
        console.print(Text.assemble((f"{name:>9}  ", "bold cyan"), said))
