"""`glassformer tokens MODEL TEXT`: tokenization, step by step; `glassformer tokenizer train|check`: train, compare."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from keyword import kwlist
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import check_texts, naming_columns, whole_texts
from glassformer.cli.options import Json, ModelName, Options, columns_of, command, option
from glassformer.cli.screen import show, show_next
from glassformer.errors import DataError
from glassformer.files import read_text

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
    from glassformer.text.coverage import TrainedTokenizer, coverage
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
    special = sorted(trained.special_tokens.values(), key=trained.convert_tokens_to_ids)
    ids = {token: trained.convert_tokens_to_ids(token) for token in special}
    show(TrainedTokenizer(str(options.output), len(trained), ids, measured), json)
    if not json:
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
    show(Tokenizer.from_folder(resolve(model)).explain(*whole_texts([text])), json)
