"""Inputs on the command line: texts, files of texts and standard input, read into one list.

'a text'        the text itself
rows.csv        an existing file: of a table one column, of .jsonl one column or the value, else one text per line
-               standard input, one text per line

Commands about one text or two read a file, or standard input, as one text: `whole_texts`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from glassformer.cli.screen import notes, visible
from glassformer.errors import DataError
from glassformer.files import counted
from glassformer.files.schema import given
from glassformer.progress import spinner

if TYPE_CHECKING:
    from glassformer.inspect import Session
    from glassformer.loading import Loading
    from glassformer.model import Model

ByName: TypeAlias = Mapping[str, Any]


def inputs(arguments: Sequence[str], columns: ByName | None = None, format: ByName | None = None) -> list[Any]:
    """Read all inputs, in order; prints a note on standard error for each argument that is read as a file.

    Args:
        columns: the columns of a table by their roles: "text", and "text_pair" where rows are pairs of texts; None =
            the command has no --column
        format: how files are read, as keywords of `read_rows`
    Raises: DataError: no input, an empty one, or a file that is not what its name says.
    """

    from glassformer.data.texts import STDIN, read_texts

    if not arguments:
        raise DataError("no input texts; give texts, files, or - for standard input")
    if list(arguments).count("-") > 1:
        raise DataError("- is standard input, which can be read only once; give it once")
    by_role = {"text": "text", **(columns or {})}
    pair, in_order = by_role.get("text_pair"), list(by_role.values())
    texts: list[Any] = []
    for argument in arguments:
        if argument == "-":
            texts += _not_empty(read_texts(None, in_order, format), STDIN)
        elif _is_file(argument):
            with naming_columns(by_role if columns is not None else {}):
                in_file = _not_empty(read_texts(argument, in_order, format), argument)
            typer.echo(f"{visible(argument)}: read as a file, {counted(len(in_file), 'text')}", err=True)
            texts += in_file
        else:
            texts.append(argument)
    if pair is not None and not all(isinstance(text, dict) for text in texts):
        raise DataError(
            f"--column text_pair= names a column, {pair!r}; pairs come from tables and .jsonl, each row with both texts"
        )
    return texts


def texts_of_file(name: str) -> list[str]:
    """The texts of a file. Raises: DataError: there is none."""
    if not os.path.isfile(name):
        raise DataError(f"{name}: --mean-over names no file; give one with a text per line")
    return [str(text) for text in inputs([name])]


def role_inputs(arguments: Sequence[str], roles: ByName, columns: ByName, format: ByName | None = None) -> list[Any]:
    """Read inputs of several parts, such as a question and its context: those of a table's rows, or one as arguments.

    Args:
        roles: what each part is, by its name, in the order of the arguments: a "text", a "table", "json", or a "file",
            of which the path is the part; in a table it is relative to that
        columns: the column of each part in a table.
        format: how tables are read, as keywords of `read_rows`
    Raises: DataError: another number of arguments, or a file that is not what its part needs.
    """
    from glassformer.data.texts import is_table, read_whole_rows

    if len(arguments) == 1 and (format or is_table(arguments[0])) and _is_file(arguments[0]):
        with naming_columns(columns):
            rows = read_whole_rows(arguments[0], {columns[role]: kind for role, kind in roles.items()}, format)
        return [{role: row[column] for role, column in columns.items()} for row in _not_empty(rows, arguments[0])]
    if len(arguments) != len(roles):
        raise DataError(
            f"give {' and '.join(roles)}, each in quotes or as a file, or one table (.csv, .jsonl, …) with these "
            f"columns; got {len(arguments)} arguments"
        )
    return [{role: _read_part(kind, x, format) for (role, kind), x in zip(roles.items(), arguments, strict=True)}]


def _read_part(kind: str, argument: str, format: ByName | None) -> Any:
    """A part of an input: a text, the rows of a table, or the value of a JSON file."""
    from glassformer.data.texts import read_part

    if kind == "text":
        return _whole_text(argument)
    check_files([argument])
    return read_part(argument, kind, format)


def check_texts(arguments: Sequence[str], most: int = 2) -> None:
    """Check before a model is loaded what `whole_texts` reads afterwards: how many there are, and that files exist.

    Raises: DataError: more texts than `most`, standard input given twice, or a file that is missing.
    """
    if len(arguments) > most:
        raise DataError(f"give one text{' or two' * (most > 1)}, got {len(arguments)}; put each in quotes")
    if list(arguments).count("-") > 1:
        raise DataError("standard input can be one of the two texts, not both")
    for argument in arguments:
        _is_file(argument)


def check_files(names: Iterable[str | Path]) -> None:
    """Check before a model is loaded that files or folders exist. Raises: DataError: one that is missing."""
    for name in names:
        if not os.path.exists(name):
            raise DataError(f"{name}: no such file or folder")


def whole_texts(arguments: Sequence[str], model: Model | None = None) -> list[str]:
    """Each argument as one text: the text itself, all of an existing text file, or with - all of standard input.

    Args:
        model: that reads them; one of pictures or sounds reads the file of the first by itself
    Raises: DataError: standard input given twice, a table, or a file that is no UTF-8 text.
    """
    if arguments.count("-") > 1:
        raise DataError("standard input can be one of the two texts, not both")
    media = 0 if model is None else int(model.family.modality is not None or model.network.sizes.codebooks > 0)
    return [*arguments[:media], *map(_whole_text, arguments[media:])]


def opened(name: str, texts: Sequence[str], loading: Loading, *, truncation: bool = False) -> tuple[Model, Session]:
    """The model of a command, and the session of its pass over one text or two.

    Raises: DataError: as `check_texts`, before loading, and `whole_texts`. WeightsError: its head would be random.
    """
    check_texts(texts)
    with notes(repeats=False):
        with spinner("loading the model"):
            from glassformer.model import load

            model = load(name, **given(loading))
            model.report.require_head(name, model.task)
        return model, model.inspect(*whole_texts(texts, model), truncation=truncation)


def _whole_text(argument: str) -> str:
    from glassformer.data.texts import is_table, read_text

    if argument == "-":
        return read_text(None)
    if not _is_file(argument):
        return argument
    if is_table(argument):
        raise DataError(f"{argument}: a table holds many texts, and one is read here; give it in quotes")
    text = read_text(argument)
    typer.echo(f"{visible(argument)}: read as a file, one text of {len(text):,} characters", err=True)
    return text


def _is_file(argument: str) -> bool:
    """Whether an argument is the name of a file rather than a text.

    Raises: DataError: it names something that is no regular file, or a missing file with the extension of one.
    """
    from glassformer.data.texts import names_a_format

    if os.path.isfile(argument):  # os.path, since Path.is_file raises for a text that is too long for a file name
        return True
    if os.path.exists(argument) and (os.sep in argument or not os.path.isdir(argument)):
        raise DataError(f"{argument}: is no regular file; name one, or give its content by standard input: -")
    if argument.isprintable() and " " not in argument and names_a_format(argument):
        raise DataError(f"{argument}: no such file; if it is meant as a text, give it by standard input: -")
    return False


def _not_empty(texts: Iterable[Any], name: str) -> list[Any]:
    in_order = list(texts)
    if not in_order:
        raise DataError(f"{name} is empty; give at least one text")
    return in_order


@contextmanager
def naming_columns(by_role: Mapping[str, str]) -> Iterator[None]:
    """Say of a column that is missing by which option another one is named.

    Args:
        by_role: role → column
    """
    from glassformer.data.sequence import MissingColumnError

    try:
        yield
    except MissingColumnError as error:
        role = next((role for role, column in by_role.items() if column == error.column), None)
        raise DataError(f"{error}; say which one it is: --column {role}=NAME" if role else str(error)) from error
