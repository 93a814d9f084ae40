"""What is given to a task at the command line: texts, files of them, and standard input, as one list.

'a text'        itself
rows.csv        a file that is there: of a table a column, of .jsonl a column or the value, else a text a line
-               standard input, a text a line
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer

from glassformer.cli.screen import visible

STDIN = "standard input"
NO_LIMIT = 1 << 40  # bytes of a text: who asks by hand knows how long it is
TABLES = ("csv", "tsv", "json", "parquet", "conll")


def inputs(given: Sequence[str], column: str = "text", pair: str | None = None) -> list[Any]:
    """All that is to be answered, in order; of a file, it is said that it was taken for one.

    Args: column: of a table, that holds the texts · pair: the one that holds the second text of each pair
    Raises: DataError: nothing, no text, or a file that is not what its name says.
    """
    from glassformer.errors import DataError

    if not given:
        raise DataError("there is nothing to answer; give texts, files, or - for standard input")
    if list(given).count("-") > 1:
        raise DataError("- stands for standard input, which can be read once; give it once")
    columns = [column] if pair is None else [column, pair]
    found: list[Any] = []
    for each in given:
        if each == "-":
            found += _some(_lines_of(None, columns), STDIN)
        elif _is_file(each):
            texts = _some(_read(Path(each), columns), each)
            typer.echo(
                f"{visible(each)}: read as a file, {len(texts):,} text{'s' * (len(texts) != 1)}", err=True
            )
            found += texts
        else:
            found.append(each)
    if pair is not None and not all(isinstance(text, dict) for text in found):
        raise DataError(
            f"--pair names a column, {pair!r}; pairs come from tables and .jsonl, each row with both texts"
        )
    return found


def _is_file(given: str) -> bool:
    """Is this the name of a file, and no text?

    Raises: DataError: it names something else that is there, or a file that is not, and cannot be meant as a text.
    """
    from glassformer.data.kinds import ENDINGS, ending
    from glassformer.errors import DataError

    if os.path.isfile(given):  # no error where a text is too long for a name
        return True
    if os.path.exists(given) and (os.sep in given or not os.path.isdir(given)):
        raise DataError(f"{given}: is no regular file; name one, or give what it holds by standard input: -")
    if given.isprintable() and " " not in given and ending(Path(given)) in ENDINGS:
        raise DataError(f"{given}: no such file; if it is meant as a text, give it by standard input: -")
    return False


def _some(texts: Iterator[Any], name: str) -> list[Any]:
    from glassformer.errors import DataError

    found = list(texts)
    if not found:
        raise DataError(f"{name} is empty; give at least one text")
    return found


def _read(file: Path, columns: Sequence[str]) -> Iterator[Any]:
    from glassformer.data.kinds import ENDINGS, ending

    # A file of JSON lines may also hold texts, a line each.
    return _rows_of(file, columns) if ENDINGS.get(ending(file)) in TABLES else _lines_of(file, columns)


def _rows_of(file: Path, columns: Sequence[str]) -> Iterator[Any]:
    """Columns of a table."""
    from glassformer.data.rows import read_rows

    rows = read_rows(file, columns=tuple(columns), limit=NO_LIMIT)
    return (_of_row(row, columns, rows.where(number)) for number, row in enumerate(rows))


def _lines_of(file: Path | None, columns: Sequence[str]) -> Iterator[Any]:
    """The lines of a file or of standard input; of JSON lines, what each holds."""
    from glassformer.data.kinds import ENDINGS, ending
    from glassformer.data.lines import Lines, opened
    from glassformer.data.records import json_values
    from glassformer.data.schema import missing
    from glassformer.data.texts import bare
    from glassformer.errors import DataError

    name = STDIN if file is None else str(file)
    with nullcontext(sys.stdin.buffer) if file is None else opened(file) as stream:
        lines = Lines(stream, name, limit=NO_LIMIT)
        if file is None or ENDINGS.get(ending(file)) != "jsonl":
            for line in lines:
                if "\0" in line:
                    raise DataError(
                        f"{name}: line {lines.number} holds a NUL byte, so this is no text; give a text a line"
                    )
                yield bare(line)
            return
        for value in json_values(lines):
            where = f"{name}: line {lines.line}"
            if isinstance(value, dict):
                for column in columns:
                    if column not in value:
                        raise DataError(f"{where}: {missing(column, value)}; say --column")
                yield _of_row(value, columns, where)
            else:
                yield _text(value, where)


def _of_row(row: Any, columns: Sequence[str], where: str) -> Any:
    values = [_text(row[column], where) for column in columns]
    return values[0] if len(values) == 1 else {"text": values[0], "text_pair": values[1]}


def _text(value: Any, where: str) -> Any:
    """A text, a conversation, or the words of a text. Raises: DataError: something else."""
    from glassformer.errors import DataError

    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return {"tokens": value}
    if not isinstance(value, (str, list)):
        raise DataError(f"{where} holds {value!r:.60}; it must be a text, a list of words, or a conversation")
    return value
