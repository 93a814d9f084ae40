"""`glassformer encode MODEL FILE --output vectors.npy`: sentence embeddings of the lines of a text file."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import inputs
from glassformer.cli.options import Json, ModelName, Without, command
from glassformer.cli.screen import note, print_json, say
from glassformer.data.options import ReadingOptions, TextColumns
from glassformer.engine.options import EncodingOptions, VectorFileOptions
from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import atomic_file, check_output, disk_errors
from glassformer.files.schema import given
from glassformer.loading import InferenceLoading
from glassformer.progress import spinner

if TYPE_CHECKING:
    import numpy as np

    from glassformer.model import Model

TextFile = Annotated[
    str,
    typer.Argument(
        help="Text file (UTF-8), one text per line; .csv, .tsv, .jsonl, .json or .parquet: their column text, or "
        "--column; - reads standard input."
    ),
]


@command
def encode(
    model: ModelName,
    file: TextFile,
    *,
    options: VectorFileOptions,
    table: TextColumns,
    reading: ReadingOptions,
    loading: Annotated[InferenceLoading, Without(["dtype"])],
    json: Json = False,
) -> None:
    """Compute embeddings: one vector for each line of a text file, saved as one NumPy array.

    Row i of the array is line i of the file, or row i of the table; an empty line is a text too. Read the array with
    numpy.load.

    Examples:
      glassformer encode MODEL sentences.txt --output vectors.npy
      glassformer encode MODEL rows.csv --column text=body --output vectors.npy
      # a model that wants a prompt before each query
      glassformer encode MODEL queries.txt --prompt 'query: ' --output queries.npy
    """
    check_output(options.output, "the array of vectors", ".npy")
    from glassformer.data.texts import is_table

    format = reading.keywords()
    tabular = format or is_table(file)
    if table.columns and not tabular:
        raise ConfigError(f"--column names a column of a table, and {_name(file)} is none; leave it out")
    texts = inputs([file], table.columns, format) if tabular else _read_lines(file)

    with spinner("loading the model"):
        from glassformer.engine.prepare import usual_precision
        from glassformer.model import load

        loaded = load(model, **given(loading))
        precision = loading.precision or usual_precision(loaded.network)  # of float32, fp32
        if loading.precision is None and precision is not None:
            loaded.prepare(precision)
    computed_in = precision or str(loaded.dtype).removeprefix("torch.")
    vectors, seconds, remarks = _encode(loaded, texts, options)
    for remark in remarks:
        note(remark)
    _save(options.output, vectors)

    count, width = vectors.shape
    rate = count / seconds if count else 0.0
    if json:
        facts = {"texts": count, "width": width, "seconds": seconds, "texts_per_second": rate, "precision": computed_in}
        print_json({**facts, "out": str(options.output), "notes": remarks})
    elif count:
        say(f"{count:,} texts → {width} numbers each, in {seconds:.2f} s: {rate:,.0f} texts/s ({computed_in})")
        say(f"saved in {options.output}")
    else:
        say(f"{_name(file)} is empty: saved an array of shape [0, {width}] in {options.output}")


def _encode(model: Model, texts: list[str], options: EncodingOptions) -> tuple[np.ndarray, float, list[str]]:
    """The vectors, the seconds they took, and the warnings."""
    import warnings
    from time import perf_counter

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = perf_counter()
        vectors = model.encode(texts, show_progress_bar=sys.stderr.isatty(), **options.keywords())
        seconds = perf_counter() - start
    return vectors, seconds, [str(warning.message) for warning in caught]


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _read_lines(file: str) -> list[str]:
    """Read the lines of a UTF-8 file, which may be packed (.gz). Raises: DataError: no such file, a folder, no text."""
    from glassformer.data.lines import open_decompressed
    from glassformer.data.texts import text_lines

    if file != "-" and Path(file).suffix.lower() == ".gz":
        with open_decompressed(Path(file)) as stream:
            return list(text_lines(stream, file))
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}; give a text file, one text per line"
        ) from error
    return list(text_lines(io.BytesIO(content), _name(file)))


def _save(out: Path, vectors: np.ndarray) -> None:
    """Write the array atomically: an existing file stays until the new one is complete."""
    import numpy as np

    target = out.resolve()  # a symbolic link keeps pointing to the file
    with disk_errors(out, DataError), atomic_file(target) as stream:
        np.save(stream, vectors, allow_pickle=False)
