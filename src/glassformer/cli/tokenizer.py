"""`glassformer tokens MODEL TEXT`: tokenization, step by step; `glassformer tokenizer train FILES …`: train one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from glassformer.cli.options import Json, ModelName, Options, columns_of, command, option
from glassformer.cli.screen import plain_table, print_facts, print_json, terminal, visible
from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.text.stages import Stages, TokenStage

tokenizer = typer.Typer(name="tokenizer", no_args_is_help=True, add_completion=False, help="Train tokenizers.")

MEASURED_TEXTS = 20_000


@tokenizer.callback()
def _group() -> None:
    """Makes typer keep the subcommand, although there is only one."""


Files = Annotated[
    list[Path],
    typer.Argument(help="Corpus files: .txt (one text per line), .csv, .jsonl, .parquet, also with .gz."),
]


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Options):
    """What tokenizer is trained, and on what."""

    output: Path = option(..., "Output folder of the tokenizer.", "--output", "-o", former="--out")
    kind: str | None = option(None, "Tokenization algorithm: byte-bpe (the default), wordpiece or unigram.")
    size: int = option(8_000, "Vocabulary size, including special tokens.", min=1)
    family: str | None = option(
        None, "Model family whose special tokens to use: bert, gpt2, roberta, bart, t5, …", "--for"
    )
    special: list[str] | None = option(None, "Additional special token, never split; repeatable.")
    lower: bool = option(False, "Lowercase the texts; accents stay.")
    strip_accents: bool = option(False, "Strip accents: é as e, as BERT's uncased models do.")
    like: str | None = option(None, "Model whose tokenizer is retrained: same algorithm and special tokens.")
    column: list[str] | None = option(
        None, "Column mapping of files with columns, role=column: text=body.", "--column", "-c"
    )


@tokenizer.command()
@command
def train(files: Files, *, options: TrainOptions, json: Json = False) -> None:
    """Train a tokenizer; the same files give the same tokenizer, byte for byte.

    Glassformer and Hugging Face transformers both load the folder.

    Examples:

    [cyan]glassformer tokenizer train corpus.txt --kind byte-bpe --size 8000 --output my-tokenizer[/]

    [cyan]glassformer tokenizer train train.csv --column text=body --kind wordpiece --lower --output my-tokenizer[/]

    [cyan]glassformer tokenizer train reports.jsonl --like MODEL --size 30000 --output my-tokenizer[/]
    """
    from glassformer.hub import resolve
    from glassformer.text.build import TOKENIZER_FILES
    from glassformer.text.train import coverage, train_tokenizer

    if existing := [name for name in TOKENIZER_FILES if (options.output / name).exists()]:
        raise DataError(f"{options.output / existing[0]}: already exists; choose another folder with --output")
    texts = Corpus(files, columns_of(options.column, ["text"]).get("text", "text"))
    trained = train_tokenizer(
        texts,
        kind=options.kind,
        size=options.size,
        family=options.family,
        special=options.special or (),
        lower=options.lower,
        strip_accents=options.strip_accents,
        like=None if options.like is None else resolve(options.like),
    )
    trained.save(options.output)
    measured = coverage(trained, islice(texts, MEASURED_TEXTS))
    special_ids = {token: trained.convert_tokens_to_ids(token) for token in trained.special_tokens.values()}
    report: dict[str, Any] = {
        "folder": str(options.output),
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
        from glassformer.data.rows import EXTENSIONS, data_extension

        # A corpus file may have any extension: an unknown one means plain text.
        self._kinds = {file: EXTENSIONS.get(data_extension(file), "text") for file in files}
        self._column = column

    def __iter__(self) -> Iterator[str]:
        from glassformer.data.streams import stream_rows
        from glassformer.files import safe_repr

        for file, kind in self._kinds.items():
            column = "text" if kind == "text" else self._column
            rows = stream_rows(file, kind=kind, columns=[column], buffer=1)
            for row in rows:
                if not isinstance(row[column], str):
                    raise DataError(f"{rows.where}: {column!r} is {safe_repr(row[column])}; it must be a text")
                yield row[column]


def _show(report: dict[str, Any]) -> None:
    sample = report["measured_on"]
    print_facts(
        {
            "saved in": report["folder"],
            "tokens": f"{report['tokens']:,}",
            "special": " ".join(f"{visible(token)} {number}" for token, number in report["special"].items()),
            "a word is": f"{report['tokens_per_word']:.3f} tokens, measured on {sample['words']:,} words",
            "unknown": f"{report['unknown_share']:.3%} of the tokens",
        }
    )


def tokens(model: ModelName, text: Annotated[str, typer.Argument(help="Text, in quotes.")], json: Json = False) -> None:
    """Tokenize a text, step by step: normalisation, words, subwords, special tokens, ids, character offsets."""
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    stages = Tokenizer.from_folder(resolve(model)).explain(text)
    if json:
        print_json(stages.to_dict())
    else:
        _show_tokens(stages)


def _show_tokens(stages: Stages) -> None:
    print_facts(
        {
            "text": stages.text,
            "normalised": stages.normalized,
            "words": " · ".join(visible(word.text) for word in stages.words),
            "pieces": " · ".join(visible(piece.token) for piece in stages.pieces),
            "ids": " ".join(str(piece.id) for piece in stages.final),
        }
    )
    console = terminal()
    console.print()
    console.print(_table(stages.final, stages.text))


def _table(pieces: Iterable[TokenStage], text: str) -> Table:
    """One line per token, as the model reads them."""
    table = plain_table()
    for name in ("position", "id"):
        table.add_column(name, justify="right")
    table.add_column("token")
    for name in ("word", "characters"):
        table.add_column(name, justify="right")
    table.add_column("in the text")
    for position, piece in enumerate(pieces):
        added = piece.word is None  # a special token added by the post-processor has no offsets in the text
        table.add_row(
            str(position),
            str(piece.id),
            Text(visible(piece.token), style="magenta" if piece.special else ""),
            "" if added else str(piece.word),
            "" if added else f"{piece.start}–{piece.end}",
            Text("" if added else visible(text[piece.start : piece.end])),
        )
    return table
