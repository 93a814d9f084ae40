"""`glassformer tokens MODEL TEXT`: tokenization, step by step; `glassformer tokenizer train|check`: train, compare."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from keyword import kwlist
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from glassformer.cli.inputs import check_texts, naming_columns, whole_texts
from glassformer.cli.options import Json, ModelName, Options, columns_of, command, option
from glassformer.cli.screen import plain_table, print_facts, print_json, show, show_next, terminal, visible
from glassformer.errors import DataError
from glassformer.files import read_text

if TYPE_CHECKING:
    from glassformer.text.stages import Stages, TokenStage

tokenizer = typer.Typer(
    name="tokenizer", no_args_is_help=True, add_completion=False, help="Train tokenizers; compare them on texts."
)

MEASURED_TEXTS = 20_000


Files = Annotated[
    list[Path],
    typer.Argument(help="Corpus files: .txt (one text per line), .csv, .jsonl, .parquet, also with .gz."),
]


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Options):
    """What tokenizer is trained, and on what."""

    output: Path = option(..., "Output folder of the tokenizer.", "--output", "-o")
    kind: str | None = option(None, "Algorithm: byte-bpe (the default), wordpiece, unigram, words or characters.")
    size: int = option(
        8_000, "Vocabulary size, including special tokens; of words and characters the largest one.", min=1
    )
    min_frequency: int | None = option(
        None, "Leave out words or characters that are rarer, and merges of rarer pairs.", min=1
    )
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
    from glassformer.text.coverage import coverage
    from glassformer.text.train import train_tokenizer

    if existing := [name for name in TOKENIZER_FILES if (options.output / name).exists()]:
        raise DataError(f"{options.output / existing[0]}: already exists; choose another folder with --output")
    texts = Corpus(files, options.column, line_feeds=options.kind == "characters")
    trained = train_tokenizer(
        texts,
        kind=options.kind,
        size=options.size,
        family=options.family,
        special=options.special or (),
        lower=options.lower,
        strip_accents=options.strip_accents,
        min_frequency=options.min_frequency,
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
    show_next([f"glassformer tokenizer check {shlex.join(map(str, [options.output, *files]))}"])


class Corpus:
    """The texts of several files, streamed from disk at each iteration.

    columns: `role=column` of files with columns · line_feeds: keep the ends of the lines of plain text
    """

    def __init__(self, files: Sequence[Path], columns: Sequence[str] | None, *, line_feeds: bool = False) -> None:
        from glassformer.data.rows import EXTENSIONS, data_extension

        # A corpus file may have any extension: an unknown one means plain text.
        self._kinds = {file: EXTENSIONS.get(data_extension(file), "text") for file in files}
        self._column = columns_of(columns, ["text"]).get("text", "text")
        self._line_end = "\n" if line_feeds else ""

    def __iter__(self) -> Iterator[str]:
        from glassformer.data.streams import stream_rows
        from glassformer.files import safe_repr

        for file, kind in self._kinds.items():
            column = "text" if kind == "text" else self._column
            line_end = self._line_end if kind == "text" else ""
            with naming_columns({"text": column}):
                rows = stream_rows(file, kind=kind, columns=[column], buffer=1)
                for row in rows:
                    if not isinstance(row[column], str):
                        raise DataError(f"{rows.where}: {column!r} is {safe_repr(row[column])}; it must be a text")
                    yield row[column] + line_end


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


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """What a tokenizer is checked for."""

    against: list[str] | None = option(None, "Another tokenizer, beside it; repeatable.")
    words: list[str] | None = option(
        None, "Words that should be one token each: `python` (its keywords), or a file with one a line; repeatable."
    )
    stem: str | None = option(None, "Count stems beside words, in this language: english, german, … (Snowball).")
    column: list[str] | None = option(
        None, "Column mapping of files with columns, role=column: text=body.", "--column", "-c"
    )


@tokenizer.command()
@command
def check(model: ModelName, files: Files, *, options: CheckOptions, json: Json = False) -> None:
    """Check how a tokenizer suits texts: compression, unknown tokens, words that fall into pieces, white space.

    Examples:

    [cyan]glassformer tokenizer check MODEL corpus.txt[/]

    [cyan]glassformer tokenizer check my-tokenizer code.jsonl --words python --against MODEL[/]

    [cyan]glassformer tokenizer check MODEL train.csv --column text=body --stem english --json[/]
    """
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer
    from glassformer.text.coverage import check_tokenizers

    words = _word_lists(options.words or ())
    names = dict.fromkeys([model, *(options.against or ())])
    tokenizers = {name: Tokenizer.from_folder(resolve(name)) for name in names}
    texts = list(islice(Corpus(files, options.column), MEASURED_TEXTS))
    show(check_tokenizers(tokenizers, texts, words, options.stem), json)


def _word_lists(names: Iterable[str]) -> dict[str, list[str]]:
    """Words by the name of their list: the keywords of Python, or the lines of a file."""
    lists = {}
    for name in names:
        if name == "python":
            lists["Python keywords"] = list(kwlist)
        elif not Path(name).is_file():
            raise DataError(f"--words {name}: there is no such file; give `python`, or a file with one word a line")
        else:
            lists[Path(name).name] = list(dict.fromkeys(read_text(Path(name), DataError).split()))
    return lists


def tokens(
    model: ModelName,
    text: Annotated[str, typer.Argument(help="Text, in quotes, or a text file; - reads standard input.")],
    json: Json = False,
) -> None:
    """Tokenize a text, step by step: normalisation, words, subwords, special tokens, ids, character offsets."""
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    check_texts([text], most=1)
    stages = Tokenizer.from_folder(resolve(model)).explain(*whole_texts([text]))
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
