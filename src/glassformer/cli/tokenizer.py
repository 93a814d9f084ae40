"""`glassformer tokens MODEL TEXT`: tokenization, step by step; `glassformer tokenizer train|check`: train, compare."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import check_texts, naming_columns, whole_texts
from glassformer.cli.options import Json, ModelName, command
from glassformer.cli.screen import show, show_next
from glassformer.text.options import CheckOptions, TokenizerOptions

tokenizer = typer.Typer(
    name="tokenizer", no_args_is_help=True, add_completion=False, help="Train tokenizers; compare them on texts."
)

Files = Annotated[
    list[Path],
    typer.Argument(help="Corpus files: .txt (one text per line), .csv, .jsonl, .parquet, also with .gz."),
]


@tokenizer.command()
@command
def train(files: Files, *, options: TokenizerOptions, json: Json = False) -> None:
    """Train a tokenizer; the same files give the same tokenizer, byte for byte.

    Glassformer and Hugging Face transformers both load the folder.

    Examples:
      glassformer tokenizer train corpus.txt --kind byte-bpe --size 8000 --output my-tokenizer
      glassformer tokenizer train train.csv --column text=body --kind wordpiece --lower --output my-tokenizer
      glassformer tokenizer train reports.jsonl --like MODEL --size 30000 --output my-tokenizer
    """
    from glassformer.text.corpus import train_on_files

    with naming_columns({"text": "text", **options.columns}):
        show(train_on_files(files, options), json)
    if not json:
        show_next([f"glassformer tokenizer check {shlex.join(map(str, [options.output, *files]))}"])


@tokenizer.command()
@command
def check(model: ModelName, files: Files, *, options: CheckOptions, json: Json = False) -> None:
    """Check how a tokenizer suits texts: compression, unknown tokens, words that fall into pieces, white space.

    Examples:
      glassformer tokenizer check MODEL corpus.txt
      glassformer tokenizer check my-tokenizer code.jsonl --words python --against MODEL
      glassformer tokenizer check MODEL train.csv --column text=body --stem english --json
    """
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer
    from glassformer.text.corpus import check_on_files

    tokenizers = {name: Tokenizer.from_folder(resolve(name)) for name in dict.fromkeys([model, *options.against])}
    with naming_columns({"text": "text", **options.columns}):
        show(check_on_files(tokenizers, files, options), json)


def tokens(
    model: ModelName,
    text: Annotated[str, typer.Argument(help="Text, in quotes, or a text file; - reads standard input.")],
    json: Json = False,
) -> None:
    """Tokenize a text, step by step: normalisation, words, subwords, special tokens, ids, character offsets.

    Examples:
      glassformer tokens MODEL 'fruit flies like a banana'
      echo 'fruit flies' | glassformer tokens MODEL - --json
    """
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    check_texts([text], most=1)
    show(Tokenizer.from_folder(resolve(model)).explain(*whole_texts([text])), json)
